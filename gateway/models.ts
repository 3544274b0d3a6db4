import type { Context } from 'koa';
import { AppError } from '../domain/errors';
import type { Call, Gateway } from './call';
import type { Candidate, Listed, Shape } from './providers';

// Until a provider says otherwise; both official SDKs want the member.
const CREATED = 1_735_689_600;

/** The stage that refuses a model the key may not use, and finds who serves it, in the order in which they are tried. */
export function chooseTargets(call: Call): void {
  const { identity, request, running, family } = call;
  const { model } = request;
  const route = running.providers.route(model, family.shapes, identity.allowed_models);
  if (route === undefined) {
    // An unknown model is told from a forbidden one only where nothing is forbidden.
    if (identity.allowed_models === null) throw unknownModel(model);
    const is_unknown =
      identity.allowed_models.includes(model) && !running.providers.knows(model, family.shapes);
    throw is_unknown ? unknownModel(model) : notAllowed(model);
  }
  call.candidates = takersOf(call, running.providers.order(route));
  call.prices = route.prices.filter((price) =>
    call.candidates.some(
      ({ target, model: served }) => target.provider === price.provider && served === price.model,
    ),
  );
  serveBy(call, call.candidates[0] as Candidate);
}

/** The candidates whose wire has words for the request; throws what the first of the others lacks where none has. */
function takersOf(
  { family, request }: Call,
  candidates: readonly Candidate[],
): readonly Candidate[] {
  const { translations } = family;
  if (translations === undefined) return candidates;
  let lacking: unknown;
  const takers = candidates.filter(({ target, model }) => {
    try {
      translations[target.shape]?.request(request.body, model);
      return true;
    } catch (error) {
      lacking ??= error;
      return false;
    }
  });
  if (takers.length === 0) throw lacking;
  return takers;
}

/** Makes a candidate the one that the call speaks to now. */
export function serveBy(call: Call, { target, model }: Candidate): void {
  call.target = target;
  call.model = model;
}

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
  if (found === undefined) throw unknownModel(id);
  ctx.body = wantsAnthropic(ctx) ? anthropicModel(found) : openaiModel(found);
}

async function callable(
  ctx: Context,
  { running }: Gateway,
  shapes: ReadonlySet<Shape>,
): Promise<Listed[]> {
  const { allowed_models } = await running.identifier.confirm(ctx.req.headers);
  return running.providers.models(shapes, allowed_models);
}

function notAllowed(model: string): AppError {
  return new AppError('model_not_allowed', `This key may not use the model "${model}".`, {
    param: 'model',
  });
}

function unknownModel(model: string): AppError {
  return new AppError('model_not_found', `No provider here serves the model "${model}".`, {
    param: 'model',
  });
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
