import type { LimitType, Scope } from '../../domain/rate-limits';
import type { Check } from './buckets';

/** What a check says at one moment; it outlives the check. */
export interface Standing {
  scope: Scope;
  limit_type: LimitType;
  limit: number;
  used: number;
  /** What the call would have counted; above the limit it can never pass. */
  need: number;
  /** Milliseconds since 1970. */
  reset_at: number;
  retry_after: number | undefined;
}

/** How a limit stands, for events and refusals. */
export function standingOf({ rule, used, need }: Check, reset_ms: number): Standing {
  const { scope, limit_type, limit, retry_after } = rule;
  return { scope, limit_type, limit, used, need, reset_at: Date.now() + reset_ms, retry_after };
}

/**
 * The check that leaves least: by requests if any counts those, else by tokens, else by calls under
 * way.
 */
export function mostConstrained(checks: readonly Check[]): Check | undefined {
  return leastOf(checks, 'rpm') ?? leastOf(checks, 'tpm') ?? leastOf(checks, 'parallel');
}

/** The check of this type that leaves least. */
export function leastOf(checks: readonly Check[], limit_type: LimitType): Check | undefined {
  let least: Check | undefined;
  for (const check of checks) {
    if (check.rule.limit_type !== limit_type) continue;
    if (least === undefined || leftOf(check) < leftOf(least)) least = check;
  }
  return least;
}

/** How much a limit has left, in whole units. */
export function leftOf({ rule, used }: Check): number {
  return leftUnder(rule.limit, used);
}

/** How much is left of a limit of which so much is used, in whole units. */
export function leftUnder(limit: number, used: number): number {
  return Math.max(0, Math.floor(limit - used));
}
