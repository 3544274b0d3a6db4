import { AppError } from '../../domain/errors';
import type { Identity } from '../../domain/people/identity';
import type { LimitType, Scope } from '../../domain/rate-limits';
import type { ClientSide } from '../call/client-side';
import type { EventContent as Told } from '../control-plane/events';
import type { Check } from '../limits/buckets';
import { leastOf, leftOf, type Standing } from '../limits/standing';

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

/** The headers of limited traffic (specification: Limits, rule 5). */
export function tellLimits(ctx: Pick<ClientSide, 'set'>, check: Check, reset_ms: number): void {
  ctx.set('X-RateLimit-Limit', String(check.rule.limit));
  ctx.set('X-RateLimit-Remaining', String(leftOf(check)));
  ctx.set('X-RateLimit-Reset', secondOf(Date.now() + reset_ms));
}

/** The 429, with its headers. */
export function refusal(ctx: Pick<ClientSide, 'set'>, standing: Standing): AppError {
  const { scope, limit_type, limit, reset_at } = standing;
  const wait_ms = reset_at - Date.now();
  const retry_after = Math.max(1, standing.retry_after ?? Math.ceil(wait_ms / 1_000));
  ctx.set('X-RateLimit-Limit', String(limit));
  ctx.set('X-RateLimit-Remaining', '0');
  ctx.set('X-RateLimit-Reset', secondOf(Math.max(reset_at, Date.now())));
  return new AppError(
    'rate_limit_exceeded',
    `The limit of ${limit} ${counted[limit_type]} for ${words[scope]} (${scope}) is reached. Repeat the request in ${retry_after} s.`,
    { retry_after, extra: { scope, limit_type } },
  );
}

/** A moment in whole seconds. The few milliseconds that a decision takes do not make it the next one. */
function secondOf(at_ms: number): string {
  return String(Math.ceil((at_ms - DECIDING_MS) / 1_000));
}

/** The event of a decision that passed. */
export function checked(identity: Identity, checks: readonly Check[], most: Check): Told {
  const rpm = leastOf(checks, 'rpm');
  const tpm = leastOf(checks, 'tpm');
  return {
    type: 'rate_limit.checked',
    payload: {
      scope: most.rule.scope,
      key_id: identity.key_id,
      user_id: identity.user_id,
      team_id: identity.team_id,
      remaining_rpm: rpm === undefined ? null : leftOf(rpm),
      remaining_tpm: tpm === undefined ? null : leftOf(tpm),
    },
  };
}

/** The event of one that refused. */
export function exceeded({ scope, limit_type, limit, used }: Standing): Told {
  return {
    type: 'rate_limit.exceeded',
    action: 'rate_limited',
    payload: { scope, limit_type, limit_value: limit, current_value: Math.ceil(used) },
  };
}
