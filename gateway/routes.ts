import type { Context } from 'koa';
import { AppError } from '../domain/errors';
import type { Gateway } from './call/call';
import { runCall } from './call/run';
import type { Family } from './families/family';
import { families, unified } from './families/table';
import { showKey } from './key';
import { serveMcp } from './mcp/serve';
import { listModels, showModel } from './models';
import { counted, priced } from './pipeline';
import type { Shape } from './providers/kind';
import { socket_paths } from './sockets/frames';
import { limitUnpriced } from './stages/limit';

export interface Route {
  method: 'GET' | 'POST' | 'DELETE';
  /** A path that ends in `/:id` takes the rest, because model names may hold slashes. */
  path: string;
  /** A stream without an end, of which there is no HEAD. */
  is_endless?: boolean;
  /** It shows models: limited as a call without a price before it is served. */
  is_listing?: boolean;
  /** What its priced requests are. */
  family?: Family;
  serve(ctx: Context, gateway: Gateway, id: string): Promise<void>;
}

const proxied: readonly Route[] = families.flatMap((family) =>
  family.path === undefined ? [] : [proxy(family.path, family)],
);

/** A model is callable if some family speaks its target's wire. */
const shapes: ReadonlySet<Shape> = new Set(proxied.flatMap(({ family }) => family?.shapes ?? []));

const mcp_methods = ['GET', 'POST', 'DELETE'] as const;

export const routes: readonly Route[] = [
  ...proxied,
  ...socket_paths.map(socketOnly),
  ...mcp_methods.flatMap(mcpRoutes),
  { method: 'GET', path: '/v1/key', serve: (ctx, gateway) => showKey(ctx, gateway, shapes) },
  ...listings('/v1/models', shapes),
  // Clients whose base is unified chat list its models before they call one.
  ...listings('/v1/unified/models', new Set(unified.shapes)),
];

function listings(path: string, callable: ReadonlySet<Shape>): Route[] {
  return [
    {
      method: 'GET',
      path,
      is_listing: true,
      serve: (ctx, gateway) => listModels(ctx, gateway, callable),
    },
    {
      method: 'GET',
      path: `${path}/:id`,
      is_listing: true,
      serve: (ctx, gateway, id) => showModel(ctx, gateway, callable, id),
    },
  ];
}

/** Without a name it is the first server. */
function mcpRoutes(method: Route['method']): Route[] {
  return ['/mcp', '/mcp/:id'].map((path) => ({
    method,
    path,
    serve: serveMcp,
    is_endless: method === 'GET',
  }));
}

/** A socket's path, asked as plain HTTP. */
function socketOnly(path: string): Route {
  return {
    method: 'GET',
    path,
    serve: async (ctx, gateway) => {
      limitUnpriced(ctx, gateway);
      await gateway.snapshot.identifier.who(ctx.req);
      ctx.set({ connection: 'upgrade', upgrade: 'websocket' });
      throw new AppError(
        'upgrade_required',
        'This is the path of a WebSocket: ask for the upgrade.',
      );
    },
  };
}

function proxy(path: string, family: Family): Route {
  return {
    method: 'POST',
    path,
    family,
    serve: (ctx, gateway) => runCall({ ctx, gateway, family }, family.is_free ? counted : priced),
  };
}
