import type { AppError } from '../../domain/errors';
import type { Outcome } from '../../domain/ledger/calls';
import type { Identity } from '../../domain/people/identity';
import type { Call, Gateway } from '../call/call';
import type { ClientSide } from '../call/client-side';
import { encodingOf } from '../counting/tokenizer';
import { addressOf, counted } from '../limits/address';
import type { Check, Limited } from '../limits/buckets';
import type { Limits } from '../limits/engine';
import { admitInTurn, hasLine } from '../limits/queue';
import type { LimitRules } from '../limits/rules';
import { mostConstrained, type Standing, standingOf } from '../limits/standing';
import { holds } from '../wire/networks';
import { checked, exceeded, refusal, tellLimits } from './limit-answers';
import { rareIdentifier } from './limit-callers';

/** The limit of an address, ahead of everything else. Costs nothing where no limit is configured. */
export function limitByAddress(call: Call): void {
  const { gateway, running, ctx } = call;
  const { limits } = gateway;
  const rules = running.limits;
  limits.use(gateway.running.limits);
  if (rules.is_empty) return;
  const address = addressOf(ctx.req, rules.address);
  call.limited = { address: counted(address), ip: undefined, checks: [], slots: [] };
  // Also while the global limit refuses everything: who guesses keys is told which of them are right.
  const check = addressCheck(gateway, rules, address);
  if (check === undefined || limits.admitHere(check)) {
    call.limited.ip = check;
    return;
  }
  const standing = standingOf(check, limits.resetOf(check));
  tellWhereKnown(call, standing);
  throw refused(ctx, limits, standing);
}

/** The limit of an address for what is asked besides priced calls, as who may guess keys there too. Gives what it counted. */
export function limitUnpriced(
  ctx: Pick<ClientSide, 'req' | 'set'>,
  gateway: Gateway,
): Check | undefined {
  const { limits, running } = gateway;
  const rules = running.limits;
  limits.use(rules);
  if (rules.ip === undefined) return undefined;
  const check = addressCheck(gateway, rules, addressOf(ctx.req, rules.address));
  if (check === undefined) return undefined;
  if (!limits.admitHere(check))
    throw refused(ctx, limits, standingOf(check, limits.resetOf(check)));
  tellLimits(ctx, check, limits.resetOf(check));
  return check;
}

function addressCheck({ limits }: Gateway, { ip }: LimitRules, address: string): Check | undefined {
  if (ip === undefined || address === '' || holds(ip.whitelist, address)) return undefined;
  return limits.check(ip.rule, counted(address), 1, 1);
}

/** The limits of key, group, user, team, all callers and policy packs, and that of the address again: one decision. */
export function limit(call: Call): void | Promise<void> {
  const rules = call.running.limits;
  if (rules.is_empty) return undefined;
  const open = openCircuit(call.gateway, rules);
  if (open !== undefined) throw refuse(call, open);
  const checks = rules.tokens.tokenizer === undefined ? 0 : ownEstimate(call);
  if (checks === 0) return decideOn(call, checksOf(call, call.estimated_prompt_tokens));
  return Promise.resolve(checks).then((tokens) => decideOn(call, checksOf(call, tokens)));
}

function decideOn(call: Call, checks: readonly Check[]): void | Promise<void> {
  if (checks.length === 0) return undefined;
  const { limits } = call.gateway;
  // Counted ahead; the one decision over all tiers counts it again.
  if (call.limited?.ip !== undefined) limits.undo(call.limited.ip);
  const line = hasLine(checks);
  // Nobody decides on it until it is its turn, and it may have to be told.
  if (line !== undefined) limits.look(line);
  const verdict = line ?? limits.admit(checks);
  if (line === undefined && !(verdict instanceof Promise)) {
    if (verdict === undefined) return admitted(call, checks);
    if (verdict.rule.queue_ms === 0) throw refuseCheck(call, verdict);
  }
  return settle(call, checks, verdict as Check | Promise<Check | undefined>);
}

async function settle(
  call: Call,
  checks: readonly Check[],
  verdict: Check | Promise<Check | undefined>,
): Promise<void> {
  let last = await verdict;
  if (last !== undefined && last.rule.queue_ms > 0 && !call.gateway.is_draining) {
    const over = new AbortController();
    call.onClientGone(() => over.abort());
    const patience = { wait_ms: last.rule.queue_ms, over: over.signal };
    last = await admitInTurn(call.gateway.limits, checks, last, patience);
  }
  if (last !== undefined) throw refuseCheck(call, last);
  admitted(call, checks);
}

function admitted(call: Call, checks: readonly Check[]): void {
  const { gateway, ctx, identity } = call;
  const { limits } = gateway;
  const limited = call.limited as Limited;
  limited.checks = checks;
  limited.slots = checks.filter(({ rule }) => rule.limit_type === 'parallel');
  call.onEnd(() => conclude(call));
  if (limits.isSuspended()) return;
  limits.tally(true);
  const most = mostConstrained(checks) as Check;
  tellLimits(ctx, most, limits.resetOf(most));
  gateway.events.emit(call, checked(identity, checks, most));
}

/** Gives the slots back, and puts the tokens that were used in the place of those that were estimated. */
function conclude({ gateway, running, limited, outcome }: Call): void {
  if (limited === undefined) return;
  const { limits } = gateway;
  for (const slot of limited.slots) limits.release(slot);
  limited.slots = [];
  for (const check of limited.checks) {
    if (check.rule.limit_type === 'tpm') {
      limits.correct(check, tokensOf(outcome, running.limits.tokens));
    }
  }
}

function tokensOf({ usage }: Outcome, tokens: LimitRules['tokens']): number {
  if (usage === undefined) return 0;
  const prompt = tokens.count_prompt_tokens ? usage.prompt_tokens : 0;
  return prompt + (tokens.count_completion_tokens ? usage.completion_tokens : 0);
}

/** All that this call is limited by, in the order of the tiers. */
function checksOf(call: Call, prompt_tokens: number): Check[] {
  const { limits } = call.gateway;
  const { tiers, tokens } = call.running.limits;
  const { identity, request } = call;
  const limited = call.limited as Limited;
  const caller = { identity, address: limited.address };
  const is_estimated =
    tokens.count_prompt_tokens && (tokens.pre_request_estimate || !request.is_stream);
  const estimate = is_estimated ? prompt_tokens : 0;
  // Without pre_request_estimate any request fits that finds a token left.
  const tokens_needed = tokens.pre_request_estimate ? Math.max(1, estimate) : 1;
  const checks: Check[] = limited.ip === undefined ? [] : [limited.ip];
  for (const { rulesOf, idOf } of tiers) {
    const id = idOf(caller);
    if (id === null) continue;
    for (const rule of rulesOf(caller)) {
      checks.push(
        rule.limit_type === 'tpm'
          ? limits.check(rule, id, tokens_needed, estimate)
          : limits.check(rule, id, 1, 1),
      );
    }
  }
  return checks;
}

/** The prompt by the encoding that the configuration names; 0 where the estimate was made with it. */
function ownEstimate(call: Call): number | Promise<number> {
  const { gateway, running, family, request, model } = call;
  const { tokenizer } = running.limits.tokens;
  if (tokenizer === undefined || tokenizer === encodingOf(model)) return 0;
  const input = family.input(request.body);
  const told = gateway.tokenizer.count(input.texts, tokenizer);
  const whole = (text_tokens: number) => Math.max(1, Math.ceil(text_tokens + input.tokens));
  return typeof told === 'number' ? whole(told) : told.then(whole);
}

function refuseCheck(call: Call, check: Check): AppError {
  const { gateway, running } = call;
  const standing = standingOf(check, gateway.limits.resetOf(check));
  const { scope, limit_type, used, limit: most } = standing;
  // One request that is too large says nothing of the others.
  const is_full = scope === 'global' && limit_type !== 'parallel' && used >= most;
  if (is_full && running.limits.has_circuit && openCircuit(gateway, running.limits) === undefined) {
    gateway.limits.circuit = { rules: running.limits, standing };
    const { limit_type: type, limit: limit_value, reset_at } = standing;
    const payload = { scope, limit_type: type, limit_value, reset_at: new Date(reset_at) };
    gateway.events.emit(call, { type: 'rate_limit.circuit_open', payload });
  }
  return refuse(call, standing);
}

function refuse(call: Call, standing: Standing): AppError {
  call.gateway.events.emit(call, exceeded(standing));
  return refused(call.ctx, call.gateway.limits, standing);
}

function refused(ctx: Pick<ClientSide, 'set'>, limits: Limits, standing: Standing): AppError {
  limits.tally(false);
  return refusal(ctx, standing);
}

function openCircuit({ limits }: Gateway, rules: LimitRules): Standing | undefined {
  const { circuit } = limits;
  if (circuit === undefined || circuit.rules !== rules || limits.isSuspended()) return undefined;
  return circuit.standing.reset_at > Date.now() ? circuit.standing : undefined;
}

/** Tells of a refusal before anybody was identified. */
function tellWhereKnown(call: Call, standing: Standing): void {
  const { gateway, ctx, request_id, trace_label } = call;
  const tell = (identity: Identity): void =>
    gateway.events.emit({ identity, request_id, trace_label }, exceeded(standing));
  try {
    const who = rareIdentifier(call).who(ctx.req.headers);
    if (who instanceof Promise) void who.then(tell, () => undefined);
    else tell(who);
  } catch {
    // Nobody that is known.
  }
}

/** A call that waits for money holds no slot. */
export function letSlotsGo({ gateway, limited }: Call): void {
  if (limited === undefined) return;
  for (const slot of limited.slots) gateway.limits.release(slot);
  limited.slots = [];
}

/** Takes the slots again, waiting for them as long as it may; throws the 429 where they stay taken. */
export async function takeSlotsAgain(
  call: Call,
  patience: { wait_ms: number; over: AbortSignal },
): Promise<void> {
  const { gateway, limited } = call;
  const slots = limited?.checks.filter(({ rule }) => rule.limit_type === 'parallel') ?? [];
  if (slots.length === 0) return;
  let last = await gateway.limits.admit(slots);
  if (last !== undefined) last = await admitInTurn(gateway.limits, slots, last, patience);
  if (last !== undefined) throw refuseCheck(call, last);
  (limited as Limited).slots = slots;
}
