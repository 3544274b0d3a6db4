import { AppError } from '../../domain/errors';
import type { Outcome } from '../../domain/ledger/calls';
import type { LimitType, Scope } from '../../domain/rate-limits';
import type { Estimated, Limited } from '../call/call';
import type { ClientSide } from '../call/client-side';
import type { Decision } from '../limits/decision';
import type { LimitRules } from '../limits/rules';
import { leftUnder, type Standing } from '../limits/standing';
import { checked, circuitOpen, exceeded } from './limit-events';

const words: Record<Scope, string> = {
  ip: 'your address',
  per_key: 'this gateway key',
  consumer_group: "this key's consumer group",
  per_user: 'this user',
  per_team: 'this team',
  global: 'all callers together',
  pack_per_user: "this user (the organization's policy)",
  pack_per_team: "this team (the organization's policy)",
  pack_global: "all callers together (the organization's policy)",
};

const counted: Record<LimitType, string> = {
  rpm: 'requests',
  tpm: 'tokens',
  parallel: 'requests at the same time',
};

const DECIDING_MS = 20;

/**
 * Does what a decision means for its call: sets the headers, emits the events, and throws the 429
 * of a refusal.
 */
export function answerLimit(call: Estimated, decision: Decision): Limited {
  const { ctx, gateway, identity } = call;
  call.address.is_told = true;
  if (decision.refused !== undefined) {
    const { refused, opens_circuit } = decision;
    if (opens_circuit) gateway.events.emit(call, circuitOpen(refused));
    throw refuse(call, refused);
  }
  const { held, tightest } = decision;
  if (held !== undefined) {
    call.onEnd(() => held.end(tokensOf(call.outcome, call.snapshot.limits.tokens)));
  }
  if (tightest !== undefined) {
    setLimitHeaders(ctx, tightest.standing);
    gateway.events.emit(call, checked(identity, tightest));
  }
  return Object.assign(call, { held_limits: held });
}

/** Emits that a limit refused a call, and makes the 429 of it. */
export function refuse(call: Estimated, standing: Standing): AppError {
  call.gateway.events.emit(call, exceeded(standing));
  return refusal(call.ctx, standing);
}

/** What a call is corrected to in its limits of tokens. */
function tokensOf({ usage }: Outcome, tokens: LimitRules['tokens']): number {
  if (usage === undefined) return 0;
  const prompt = tokens.count_prompt_tokens ? usage.prompt_tokens : 0;
  return prompt + (tokens.count_completion_tokens ? usage.completion_tokens : 0);
}

/** The headers of limited traffic (specification: Limits, rule 5). */
export function setLimitHeaders(
  ctx: Pick<ClientSide, 'set'>,
  { limit, used, reset_at }: Standing,
): void {
  ctx.set('X-RateLimit-Limit', String(limit));
  ctx.set('X-RateLimit-Remaining', String(leftUnder(limit, used)));
  ctx.set('X-RateLimit-Reset', secondOf(reset_at));
}

/** The 429, with its headers. */
export function refusal(ctx: Pick<ClientSide, 'set'>, standing: Standing): AppError {
  const { scope, limit_type, limit, need, reset_at } = standing;
  const wait_ms = reset_at - Date.now();
  const retry_after = Math.max(1, standing.retry_after ?? Math.ceil(wait_ms / 1_000));
  const is_final = need > limit;
  ctx.set('X-RateLimit-Limit', String(limit));
  ctx.set('X-RateLimit-Remaining', '0');
  ctx.set('X-RateLimit-Reset', secondOf(Math.max(reset_at, Date.now())));
  const whose = `the limit of ${limit} ${counted[limit_type]} for ${words[scope]} (${scope})`;
  const message = is_final
    ? `This request needs ${need} ${counted[limit_type]} and ${whose} is smaller: no repeat can pass. Make it smaller.`
    : `T${whose.slice(1)} is reached. Repeat the request in ${retry_after} s.`;
  return new AppError('rate_limit_exceeded', message, {
    retry_after,
    is_final,
    extra: { scope, limit_type },
  });
}

/**
 * A moment in whole seconds. The few milliseconds that a decision takes do not make it the next
 * one.
 */
function secondOf(at_ms: number): string {
  return String(Math.ceil((at_ms - DECIDING_MS) / 1_000));
}
