import type { Identity } from '../../domain/people/identity';
import { addressOf } from '../../runtime/client-address';
import type { Addressed, Begun, Call, Estimated, Gateway, Limited } from '../call/call';
import type { ClientSide } from '../call/client-side';
import type { EventContent } from '../control-plane/events';
import { encodingOf } from '../counting/tokenizer';
import type { Decision } from '../limits/decision';
import { type CountedAddress, uncounted } from '../limits/engine';
import type { Standing } from '../limits/standing';
import { answerLimit, refusal, setLimitHeaders } from './limit-answers';
import { type Asking, checked, circuitOpen, emitAddress, emitOf, exceeded } from './limit-events';
import { placeOf } from './places';

/** The calls that wait for room in a limit: an organization has half of what the others leave. */
const QUEUED = { all: 1_000, per_org: undefined, per_key: 250 };

/**
 * Counts the address, ahead of everything else; the decision over all tiers takes the count over.
 * It counts also while the global limit refuses everything, because the answers show a client that
 * guesses keys which of them are right. Costs nothing if no limit is configured.
 */
export function limitByAddress(call: Begun): Addressed {
  const { gateway, snapshot, ctx } = call;
  const rules = snapshot.limits;
  if (rules.is_empty) return Object.assign(call, { address: uncounted });
  const address = gateway.limits.countAddress(rules, addressOf(ctx.req, rules.address));
  const { refused, check } = address;
  if (refused !== undefined) {
    emitOf(call, () => exceeded(refused));
    throw refusal(ctx, refused);
  }
  // For a call that fails soon; the decision over all tiers says more.
  if (check !== undefined) setLimitHeaders(ctx, gateway.limits.standingOf(check));
  // A call that fails ahead of the decision over all tiers has passed this one.
  if (!address.is_told)
    call.onEnd(() => emitAddress(gateway, address, (told) => emitAs(call, told)));
  return Object.assign(call, { address });
}

function emitAs(call: Call, content: (identity?: Identity) => EventContent): void {
  const { gateway, identity, request_id, trace_label } = call;
  gateway.events.emit({ identity, request_id, trace_label }, content(identity));
}

type Unpriced = Pick<ClientSide, 'req' | 'set'> & { state?: Record<string, unknown> };

/**
 * Counts the address of a request that is no priced call, as keys may be guessed there too, and
 * tells of it. Returns what it counted.
 */
export function limitUnpriced(ctx: Unpriced, gateway: Gateway): CountedAddress {
  const address = countUnpriced(ctx, gateway);
  emitUnpriced(ctx, gateway, address);
  return address;
}

/** The same for a request that may turn out to be a priced call: `emitUnpriced` ends it. */
export function countUnpriced(ctx: Unpriced, gateway: Gateway): CountedAddress {
  const { limits, snapshot } = gateway;
  const rules = snapshot.limits;
  if (rules.is_empty) return uncounted;
  const counted = limits.countAddress(rules, addressOf(ctx.req, rules.address));
  const { refused, check } = counted;
  if (refused !== undefined) {
    emitOf(askingOf(ctx, gateway), () => exceeded(refused));
    throw refusal(ctx, refused);
  }
  if (check !== undefined) setLimitHeaders(ctx, limits.standingOf(check));
  return counted;
}

/** Tells of an address that was counted, unless a decision over all tiers has done so. */
export function emitUnpriced(ctx: Unpriced, gateway: Gateway, address: CountedAddress): void {
  emitAddress(gateway, address, (told) => emitOf(askingOf(ctx, gateway), told));
}

/**
 * Counts a request that is no call in the limits of requests of its caller, and tells of the
 * decision, which takes over the count of the address. Returns how all limits stand; throws the 429
 * of one that is reached.
 */
export async function limitAsking(
  ctx: Unpriced,
  gateway: Gateway,
  caller: { identity: Identity; address: CountedAddress },
): Promise<Standing[]> {
  const { decision, all } = await gateway.limits.countRequest(gateway.snapshot.limits, caller);
  caller.address.is_told = true;
  const asking = askingOf(ctx, gateway);
  if (decision.refused === undefined) {
    const { tightest } = decision;
    if (tightest === undefined) return all;
    setLimitHeaders(ctx, tightest.standing);
    const { request_id, trace_label } = asking;
    const { identity } = caller;
    gateway.events.emit({ identity, request_id, trace_label }, checked(identity, tightest));
    return all;
  }
  const { refused, opens_circuit } = decision;
  if (opens_circuit) emitOf(asking, () => circuitOpen(refused));
  emitOf(asking, () => exceeded(refused));
  throw refusal(ctx, refused);
}

function askingOf(ctx: Unpriced, gateway: Gateway): Asking {
  const trace_label = (ctx.state?.request_id as string | undefined) ?? null;
  return { gateway, snapshot: gateway.snapshot, ctx, request_id: null, trace_label };
}

/**
 * Decides by the limits of key, group, user, team, all callers and policy packs, and of the address
 * counted before.
 */
export function limit(call: Estimated): Limited | Promise<Limited> {
  const { gateway, snapshot } = call;
  const rules = snapshot.limits;
  if (rules.is_empty && call.identity.rate_limits === undefined)
    return Object.assign(call, { held_limits: undefined });
  // A circuit that is open refuses whatever the prompt is.
  const tokens = gateway.limits.openCircuit(rules) === undefined ? promptTokens(call) : 0;
  return typeof tokens === 'number' ? decideOn(call, tokens) : decideLater(call, tokens);
}

function decideOn(call: Estimated, prompt_tokens: number): Limited | Promise<Limited> {
  const { gateway, snapshot, identity, address, request } = call;
  const { is_stream } = request;
  const hold = <T>(wait: (over: AbortSignal) => Promise<T>) =>
    gateway.queued_calls.hold(call, placeOf(call, QUEUED), wait);
  const asked = { identity, address, prompt_tokens, is_stream, gateway, hold };
  const decision = gateway.limits.decide(snapshot.limits, asked);
  return decision instanceof Promise ? answerLater(call, decision) : answerLimit(call, decision);
}

async function decideLater(call: Estimated, tokens: Promise<number>): Promise<Limited> {
  return decideOn(call, await tokens);
}

async function answerLater(call: Estimated, decision: Promise<Decision>): Promise<Limited> {
  return answerLimit(call, await decision);
}

/**
 * The prompt by the encoding that the configuration names, if that is another one than the estimate
 * was made with.
 */
function promptTokens(call: Estimated): number | Promise<number> {
  const { gateway, snapshot, family, request, model } = call;
  const { tokenizer } = snapshot.limits.tokens;
  if (tokenizer === undefined || tokenizer === encodingOf(model)) {
    return call.estimated_prompt_tokens;
  }
  const input = family.input(request.body);
  const counted = gateway.tokenizer.count(input.texts, tokenizer);
  const whole = (text_tokens: number) => Math.max(1, Math.ceil(text_tokens + input.tokens));
  return typeof counted === 'number' ? whole(counted) : counted.then(whole);
}
