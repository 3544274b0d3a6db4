import { AppError, isAppError } from '../../domain/errors';
import type {
  Fees,
  NamedIds,
  PricedModel,
  Reserve,
  Some,
  Units,
  Usage,
} from '../../domain/ledger/calls';
import type { Funded, Limited } from '../call/call';
import type { Cost } from '../call/cost';
import { requestHash } from '../call/request-hash';
import { inCallSpan, membersOf } from '../call/spans';
import type { Reservation } from '../control-plane/client';
import type { CacheLife } from '../families/demand';
import { nothing_used } from '../families/usage';
import { serveBy } from './choose';
import { emitCompleted } from './completed';
import { costOf } from './cost';
import { confirmKey, strangerIn } from './identify';
import { completionCeiling, hears } from './outcome';
import { pay } from './pay';
import { sessionRefusal, talkOf } from './policies';
import { isUnknownId, keepTo, nameStored, unknownIn } from './stored';
import { warn } from './warn';

const nobody = { user_id: null, team_id: null };

/**
 * The stage that holds the estimated cost, waiting for money if it must, and settles or releases it
 * when the call ends. Undefined if the client has gone: then nothing is held.
 */
export async function reserve(call: Limited): Promise<Funded | undefined> {
  if (call.client_is_gone) return undefined;
  try {
    return call.span === undefined
      ? await hold(call)
      : await inCallSpan(call, 'reserve', {}, () => hold(call));
  } catch (error) {
    // A stored thing is looked up before the key is.
    if (isUnknownId(error)) await confirmKey(call);
    throw sessionRefusal(call, unknownIn(call, strangerIn(call, asAsked(error))));
  }
}

/** The region has another name in the request that asks for it. */
function asAsked(error: unknown): unknown {
  if (!isAppError(error) || error.details.param !== 'region') return error;
  const { code, message, details } = error;
  return new AppError(code, message, { ...details, param: 'inference_geo' });
}

async function hold(call: Limited): Promise<Funded> {
  const { gateway, identity, prices } = call;
  const { org_id } = identity;
  const stored_ids = nameStored(call);
  const asked = prices[0] as PricedModel;
  const reservation = await pay(call, await requestOf(call, asked, stored_ids));
  const price = pricedBy(call, reservation);
  if (price === undefined) throw giveBack(call, reservation);
  call.kept_at ??= reservation.stored_at;
  keepTo(call, reservation.stored_provider ?? stored_ids?.providers[0]);
  if (reservation.stored_provider !== undefined)
    call.kept_by_key = reservation.stored_key_id ?? null;
  warn(call.ctx, reservation.warnings ?? []);
  const letGo = gateway.holds.keep(org_id, reservation);
  let cost: Promise<Cost> | undefined;
  const funded: Funded = Object.assign(call, {
    reservation,
    settle: () => {
      cost ??= new Promise((resolve) => settle(funded, price, resolve));
      return cost;
    },
  });
  emitCompleted(funded);
  call.onEnd(() => {
    letGo();
    if (cost === undefined) settle(funded, price);
  });
  return funded;
}

/**
 * Leaves a call to the models that its hold froze prices of, and gives the one that the hold is
 * named by. A ticket's hold is of the route on the day when it was opened. Undefined if nobody who
 * serves the call now is among them; an API of the version before does not say.
 */
function pricedBy(call: Limited, { priced_models: frozen }: Reservation): PricedModel | undefined {
  if (frozen === undefined) return call.prices[0];
  const isFrozen = ({ target, model }: Pick<Limited, 'target' | 'model'>) =>
    frozen.some((one) => one.provider === target.provider && one.model === model);
  // Of tools there are no candidates.
  if (call.candidates.length > 0) {
    call.candidates = call.candidates.filter(isFrozen);
    const [first] = call.candidates;
    if (first === undefined) return undefined;
    serveBy(call, first);
  }
  return isFrozen(call) ? frozen[0] : undefined;
}

/** Cancels a hold that cannot pay for the call, so that its ticket is open again. */
function giveBack(call: Limited, { reservation_id }: Reservation): AppError {
  const { org_id } = call.identity;
  const members = membersOf(call);
  call.gateway.control_plane.settle({ org_id, reservation_id, outcome: 'canceled', ...members });
  return new AppError(
    'ticket_owner_differs',
    'This cost ticket was opened for other models than serve its request now. Send the request again without the ticket.',
    { param: 'x-svc-cost-ticket' },
  );
}

/**
 * Written out, here and wherever each call passes: members that follow a spread cost V8 a
 * microsecond and 100 bytes each.
 */
async function requestOf(
  call: Limited,
  price: PricedModel,
  stored_ids: NamedIds | undefined,
): Promise<Reserve> {
  const { identity, family, request, prices } = call;
  const { org_id, key_id, secret_id, proof } = identity;
  // Anybody can send the headers of header_soft, so the organization pays.
  const { user_id, team_id } = proof === 'header_soft' ? nobody : identity;
  const { traceparent, identity_proof_method, trace_label } = membersOf(call);
  return {
    org_id,
    user_id,
    team_id,
    key_id,
    secret_id,
    agent_id: call.agent_id,
    request_id: call.request_id,
    family: family.name,
    provider: price.provider,
    model: price.model,
    fallbacks: prices.length > 1 ? prices.slice(1) : undefined,
    estimated_prompt_tokens: call.estimated_prompt_tokens,
    max_completion_tokens: request.max_completion_tokens,
    choices: request.uncapped_choices,
    units: unitsOf(call),
    service_tier: tierOf(call),
    region: call.demand.region,
    cache_life: lifeOf(call),
    session_id: call.session_id,
    tags: call.tags,
    session_limits: sessionLimitsOf(call),
    stored_ids,
    // Of tools there are none.
    own_keys: call.candidates.length > 0 ? true : undefined,
    request_body_hash: await requestHash(request),
    traceparent,
    identity_proof_method,
    trace_label,
  };
}

/** What is priced by number, as far as the request says it. */
function unitsOf({ units, demand, sound_tokens }: Limited): Some<Units & Fees> | undefined {
  const asked = demand.needs.length === 0 ? units : { ...units, ...demand.units };
  return sound_tokens === 0 ? asked : { ...asked, audio_input_tokens: sound_tokens };
}

/** Sends the settlement. If its usage is refused, what was held for is charged. */
function settle(call: Funded, price: PricedModel, tell?: (cost: Cost) => void): void {
  const { org_id } = call.identity;
  const { reservation_id, currency } = call.reservation;
  call.gateway.control_plane.settle(
    {
      org_id,
      reservation_id,
      stored_ids: call.made_ids,
      stored_at: call.made_ids && call.target.id,
      with_cost: tell && true,
      ...servedBy(call, price),
      provider_key_id: call.target.own_key_id,
      provider_cost_usd: call.provider_cost_usd,
      ...call.outcome,
      ...membersOf(call),
    },
    heldFor(call),
    tell && ((settled) => tell(costOf(settled, currency))),
  );
}

/** The tier of service that is asked for, if somebody who may serve hears of it. */
function tierOf({ demand, candidates }: Limited): string | undefined {
  return candidates.some(({ target }) => hears(target, 'service_tier'))
    ? demand.service_tier
    : undefined;
}

/** How long the cache is to hold that is marked, if somebody who may serve hears of it. */
function lifeOf({ demand, candidates }: Limited): CacheLife | undefined {
  const hear = candidates.some(({ target }) => hears(target, 'cache_control'));
  return hear ? demand.cache_life : undefined;
}

/** The usage that the reserve holds for. Its pictures stand in the completion, as in a usage. */
function heldFor(call: Funded): Usage {
  const { region, units } = call.demand;
  const life = lifeOf(call);
  const unheard_tokens = call.estimated_prompt_tokens - call.sound_tokens;
  const completion_tokens = completionCeiling(call);
  return {
    ...nothing_used,
    ...unitsOf(call),
    prompt_tokens: call.estimated_prompt_tokens,
    completion_tokens: completion_tokens + (units.image_output_tokens ?? 0),
    cache_write_tokens: life === '5m' ? unheard_tokens : 0,
    cache_write_1h_tokens: life === '1h' ? unheard_tokens : 0,
    audio_input_tokens: call.sound_tokens,
    audio_output_tokens: Math.min(units.audio_output_tokens ?? 0, completion_tokens),
    service_tier: tierOf(call),
    region,
  };
}

/** What the session of a call may come to, if it counts for one. */
function sessionLimitsOf(call: Limited) {
  const { family, session_id, snapshot } = call;
  const is_counted =
    talkOf(call) !== undefined || (family.counts_named_sessions && session_id !== undefined);
  return is_counted ? snapshot.policies.session_limits : undefined;
}

/** Who served, if it is not who the reservation names. */
function servedBy({ target, model }: Funded, price: PricedModel): Partial<PricedModel> {
  if (target.provider === price.provider && model === price.model) return {};
  return { provider: target.provider, model };
}
