import type { Context } from 'koa';
import type { AppError } from '../domain/errors';
import { toErrorBody } from '../domain/errors';
import { completionCap } from './body';
import { type Gateway, runCall } from './call';
import { listModels, showModel } from './models';
import { priced } from './pipeline';
import type { Shape } from './providers';
import { type Body, chatInput, embeddingInput, type Input } from './usage';

/** What distinguishes one family of proxy routes from another. */
export interface Family {
  name: string;
  /** The wire that its bodies speak; only targets of this shape serve it. */
  shape: Shape;
  /** Behind the target's base URL. */
  upstream_path: string;
  may_stream: boolean;
  has_output: boolean;
  input(body: Body): Input;
  max_completion_tokens(body: Body): number | null;
  /** How a broken stream tells its client; both majors of the official SDK throw on it. */
  errorFrame(error: AppError): string;
}

const chat: Family = {
  name: 'chat_completions',
  shape: 'openai',
  upstream_path: '/chat/completions',
  may_stream: true,
  has_output: true,
  input: chatInput,
  max_completion_tokens: completionCap,
  errorFrame: dataFrame,
};

const embeddings: Family = {
  name: 'embeddings',
  shape: 'openai',
  upstream_path: '/embeddings',
  may_stream: false,
  has_output: false,
  input: embeddingInput,
  max_completion_tokens: () => 0,
  errorFrame: dataFrame,
};

interface Route {
  method: 'GET' | 'POST';
  /** A path that ends in `/:id` takes the rest, because model names may hold slashes. */
  path: string;
  serve(ctx: Context, gateway: Gateway, id: string): Promise<void>;
}

const shapes: ReadonlySet<Shape> = new Set([chat.shape, embeddings.shape]);

export const routes: readonly Route[] = [
  proxied('/v1/chat/completions', chat),
  proxied('/v1/embeddings', embeddings),
  { method: 'GET', path: '/v1/models', serve: (ctx, gateway) => listModels(ctx, gateway, shapes) },
  {
    method: 'GET',
    path: '/v1/models/:id',
    serve: (ctx, gateway, id) => showModel(ctx, gateway, shapes, id),
  },
];

function proxied(path: string, family: Family): Route {
  return {
    method: 'POST',
    path,
    serve: (ctx, gateway) => runCall({ ctx, gateway, family }, priced),
  };
}

function dataFrame(error: AppError): string {
  const { error: body } = toErrorBody(error, '');
  return `data: ${JSON.stringify({ error: body })}\n\n`;
}
