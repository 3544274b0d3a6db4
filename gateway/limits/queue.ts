import { type Check, wake } from './buckets';
import type { Counters } from './counters';

/** How long a call waits for room. */
export interface Patience {
  wait_ms: number;
  over: AbortSignal;
}

// More are refused at once.
const WAITING_MAX = 1_000;
// Other gateways give their slots back without telling this one.
const SHARED_POLL_MS = 50;
const POLL_MIN_MS = 5;
// Room in a counter wakes those who stand in its own line only.
const ELSEWHERE_POLL_MS = 25;

/** The check whose room others wait for already, if any: a new call goes behind them. */
export function hasLine(checks: readonly Check[]): Check | undefined {
  return checks.find(({ rule, bucket }) => rule.queue_ms > 0 && bucket.waiters.length > 0);
}

/**
 * Waits, first come, first served, until all checks fit: undefined, or the check that refuses in
 * the end.
 */
export async function admitInTurn(
  counters: Counters,
  checks: readonly Check[],
  refused: Check,
  { wait_ms, over }: Patience,
): Promise<Check | undefined> {
  const { bucket } = refused;
  if (bucket.waiters.length >= WAITING_MAX) return refused;
  const end_at = performance.now() + wait_ms;
  let latest = refused;
  const place = newPlace();
  bucket.waiters.push(place.wake);
  over.addEventListener('abort', place.wake, { once: true });
  try {
    for (;;) {
      const left_ms = end_at - performance.now();
      if (left_ms <= 0 || over.aborted) return latest;
      const is_first = bucket.waiters[0] === place.wake;
      const most_ms = latest.bucket === bucket ? left_ms : Math.min(left_ms, ELSEWHERE_POLL_MS);
      await place.pause(is_first ? Math.min(most_ms, pauseOf(counters, latest)) : left_ms);
      if (bucket.waiters[0] !== place.wake || over.aborted) continue;
      const again = await counters.admit(checks);
      if (again === undefined) return undefined;
      latest = again;
      // A limit that no wait changes ends the wait.
      if (again !== refused && again.rule.queue_ms === 0 && refused.rule.queue_ms > 0) return again;
    }
  } finally {
    over.removeEventListener('abort', place.wake);
    bucket.waiters.splice(bucket.waiters.indexOf(place.wake), 1);
    wake(bucket);
  }
}

function pauseOf(counters: Counters, check: Check): number {
  if (check.rule.limit_type !== 'parallel') return Math.max(POLL_MIN_MS, counters.resetOf(check));
  return counters.isShared() ? SHARED_POLL_MS : Number.POSITIVE_INFINITY;
}

/** A pause that ends early when it is woken, also by a wake-up that came before it. */
function newPlace() {
  let is_woken = false;
  let end: (() => void) | undefined;
  return {
    wake: () => {
      is_woken = true;
      end?.();
    },
    async pause(ms: number): Promise<void> {
      if (!is_woken) {
        await new Promise<void>((resolve) => {
          const timer = setTimeout(resolve, ms);
          end = () => {
            clearTimeout(timer);
            resolve();
          };
        });
      }
      end = undefined;
      is_woken = false;
    },
  };
}
