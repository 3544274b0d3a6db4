import { AppError } from '../../domain/errors';
import { mayUse } from '../../domain/people/identity';
import type { Prepared, Routed } from '../call/call';
import { families } from '../families/table';
import { isSilent, unavailable } from '../families/unified/words';
import type { Wire } from '../providers/kind';
import type { Candidate } from '../upstreams/target';
import type { Body } from '../wire/values';

/** More routes than these are not told. */
const PATHS_MAX = 4;

/**
 * The stage that refuses a model the key may not use, and finds who serves it, in the order in
 * which they are tried.
 */
export function chooseTargets(call: Prepared): Routed {
  const { identity, request, snapshot, family } = call;
  const { model } = request;
  const route = snapshot.providers.route(model, family, identity.allowed_models);
  if (route === undefined) {
    // Only if nothing is forbidden may the client learn that a model is unknown, not forbidden.
    if (identity.allowed_models === null) throw unservedHere(call);
    const is_unknown =
      mayUse(identity.allowed_models, model) && !snapshot.providers.knows(model, family);
    throw is_unknown ? unservedHere(call) : notAllowed(model);
  }
  const candidates = takersOf(call, snapshot.providers.order(route));
  const prices = route.prices.filter((price) =>
    candidates.some(
      ({ target, model: served }) => target.provider === price.provider && served === price.model,
    ),
  );
  const first = candidates[0] as Candidate;
  return Object.assign(call, { candidates, prices, target: first.target, model: first.model });
}

/**
 * The candidates whose wire can express the request; if none can, throws what the first one lacks.
 */
function takersOf(
  { family, request }: Prepared,
  candidates: readonly Candidate[],
): readonly Candidate[] {
  const { translations } = family;
  if (translations === undefined && candidates.every(isPlain)) return candidates;
  let lacking: unknown;
  const takers = candidates.filter(({ target, upstream }) => {
    try {
      checkRefused(request.body, target.wire);
      translations?.[target.shape]?.request(request, upstream, target.wire);
      return true;
    } catch (error) {
      lacking ??= error;
      return false;
    }
  });
  if (takers.length === 0) throw lacking;
  return takers;
}

function isPlain({ target }: Candidate): boolean {
  return target.wire.refuses === undefined && target.wire.lacks === undefined;
}

function checkRefused(body: Body, { refuses = [], lacks = [] }: Wire): void {
  const lacking = lacks.find((name) => !isSilent(name, body[name]));
  if (lacking !== undefined) throw unavailable(lacking, `"${lacking}"`);
  const param = refuses.find((name) => body[name] != null);
  if (param === undefined) return;
  throw new AppError(
    'invalid_field',
    `"${param}" changes who serves this model, or what it costs, and there is no price here for that: leave it out.`,
    { param },
  );
}

/** Makes a candidate the one that the call speaks to now. */
export function serveBy(call: Routed, { target, model }: Candidate): void {
  call.target = target;
  call.model = model;
}

/** The refusal of a model that exists here and that the key may not use. */
export function notAllowed(model: string): AppError {
  return new AppError('model_not_allowed', `This key may not use the model "${model}".`, {
    param: 'model',
  });
}

/** The refusal of a model that is not served on this route: it says on which ones it is, if any. */
function unservedHere({ snapshot, request: { model }, family }: Prepared): AppError {
  const others = families.filter(
    (one) => one.name !== family.name && !one.is_free && snapshot.providers.knows(model, one),
  );
  if (others.length === 0) return unknownModel(model);
  const paths = others.slice(0, PATHS_MAX).map(({ path }) => path);
  return new AppError(
    'model_not_found',
    `No provider here serves the model "${model}" on ${family.path}. It is served on ${paths.join(', ')}.`,
    { param: 'model' },
  );
}

/** The refusal of a model that nobody here serves. */
export function unknownModel(model: string): AppError {
  return new AppError(
    'model_not_found',
    `No provider here serves the model "${model}". GET /v1/models lists those that are served.`,
    { param: 'model' },
  );
}
