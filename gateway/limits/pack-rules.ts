import type { Scope } from '../../domain/rate-limits';
import type { PackRateLimit } from '../config/policies';
import type { Rule } from './buckets';
import { fixedWindow, tokenBucket } from './windows';

/** The limits of a policy pack, by whom they count. */
interface PackRules {
  per_user: readonly Rule[];
  per_team: readonly Rule[];
  global: readonly Rule[];
}

const MINUTE_MS = 60_000;

const spans = [
  ['requests_per_minute', MINUTE_MS],
  ['requests_per_hour', 60 * MINUTE_MS],
  ['requests_per_day', 1_440 * MINUTE_MS],
] as const;

/**
 * The rules of an agent-firewall's `rate_limit`. If it queues, a request waits as long as one of
 * the global limit does.
 */
export function packRules(given: PackRateLimit | undefined, queue_timeout_ms: number): PackRules {
  const rulesOf = (name: 'per_user' | 'per_team' | 'global'): Rule[] => {
    if (given === undefined) return [];
    const scope: Scope = `pack_${name}`;
    const rules: Rule[] = [];
    for (const [key, window_ms] of spans) {
      const limit = given[name]?.[key];
      if (limit === undefined) continue;
      const is_bucket = window_ms === MINUTE_MS && given.burst_size !== undefined;
      rules.push({
        scope,
        limit_type: 'rpm',
        limit: is_bucket ? (given.burst_size as number) : limit,
        window: is_bucket ? tokenBucket(MINUTE_MS / limit) : fixedWindow(window_ms),
        // A bucket of another rate counts in other steps.
        name: `${scope}:${is_bucket ? `b${limit}` : `f${window_ms / 1_000}`}:`,
        queue_ms: given.on_exceed === 'queue' ? queue_timeout_ms : 0,
        retry_after: given.retry_after_seconds,
      });
    }
    return rules;
  };
  return {
    per_user: rulesOf('per_user'),
    per_team: rulesOf('per_team'),
    global: rulesOf('global'),
  };
}
