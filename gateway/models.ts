import type { Context } from 'koa';
import type { Gateway } from './call/call';
import type { Shape } from './providers/kind';
import { notAllowed, unknownModel } from './stages/choose';
import type { Listed } from './upstreams/targets';

// Until a provider says otherwise; both official SDKs want the member.
const CREATED = 1_735_689_600;

/** GET /v1/models: exactly what the key may call. Its validity is asked every time. */
export async function listModels(ctx: Context, gateway: Gateway, shapes: ReadonlySet<Shape>) {
  const models = await callable(ctx, gateway, shapes);
  if (!wantsAnthropic(ctx)) {
    ctx.body = { object: 'list', data: models.map(openaiModel) };
    return;
  }
  const first_id = models[0]?.model ?? null;
  const last_id = models.at(-1)?.model ?? null;
  ctx.body = { data: models.map(anthropicModel), has_more: false, first_id, last_id };
}

/** GET /v1/models/:model_id. */
export async function showModel(
  ctx: Context,
  gateway: Gateway,
  shapes: ReadonlySet<Shape>,
  id: string,
) {
  const models = await callable(ctx, gateway, shapes);
  const found = models.find(({ model }) => model === id);
  if (found === undefined) throw isServed(gateway, id, shapes) ? notAllowed(id) : unknownModel(id);
  ctx.body = wantsAnthropic(ctx) ? anthropicModel(found) : openaiModel(found);
}

function isServed({ snapshot }: Gateway, id: string, shapes: ReadonlySet<Shape>): boolean {
  return snapshot.providers.models(shapes, null).some(({ model }) => model === id);
}

async function callable(
  ctx: Context,
  { snapshot }: Gateway,
  shapes: ReadonlySet<Shape>,
): Promise<Listed[]> {
  const { allowed_models } = await snapshot.identifier.confirm(ctx.req);
  return snapshot.providers.models(shapes, allowed_models);
}

// The Anthropic SDK asks the same path and expects its own shape.
function wantsAnthropic(ctx: Context): boolean {
  return ctx.get('anthropic-version') !== '';
}

function openaiModel({ model, provider }: Listed) {
  return { id: model, object: 'model', created: CREATED, owned_by: provider };
}

function anthropicModel({ model }: Listed) {
  const created_at = new Date(CREATED * 1_000).toISOString();
  return { type: 'model', id: model, display_name: model, created_at };
}
