import { type Bucket, type Check, take } from './limit-buckets';
import { endOf, resetAfter, slotOf, usedAt } from './limit-windows';

// Below this a limit is counted in the store for each request, and above it once less than a fifth is left.
const EXACT_BELOW = 100;
const NEAR = 0.2;
// What may be counted here before the store hears of it: with four gateways no more than that fifth.
const UNTOLD_MAX = 0.05;

type Answer = readonly (string | number)[];

export function isNear(limit: number, total: number): boolean {
  return limit < EXACT_BELOW || total > limit * (1 - NEAR);
}

/** True where a check may be decided here, by what was heard of the others since a moment. */
export function hasRoom(
  { rule, bucket, cost, need }: Check,
  heard_after: number,
  now: number,
): boolean {
  if (bucket.window.kind === 'drain' || bucket.others_at < heard_after) return false;
  // What the others counted in the window before says nothing of this one.
  if (isFixed(bucket) && bucket.others_slot !== slotOf(bucket.window, now)) return false;
  const own = usedAt(bucket.window, bucket.count, now);
  if (own - bucket.told + cost > rule.limit * UNTOLD_MAX) return false;
  return !isNear(rule.limit, bucket.others + own + need);
}

/** What the other gateways have counted that still counts. */
export function othersAt(bucket: Bucket, now: number): number {
  const { window } = bucket;
  if (window.kind === 'drain') return 0;
  return isFixed(bucket) && bucket.others_slot !== slotOf(window, now) ? 0 : bucket.others;
}

function isFixed({ window }: Bucket): boolean {
  return window.kind === 'slots' && window.counted === 1;
}

/** How the script calls a window, and its two measures. */
export function kindOf({ window }: Bucket): string {
  if (window.kind !== 'drain') return 'slots';
  return window.is_stepped ? 'steps' : 'drain';
}

export function shapeOf({ window }: Bucket): [number, number] {
  return window.kind === 'drain'
    ? [window.step_ms, window.amount]
    : [window.slot_ms, window.counted];
}

/** Takes what the store says of a counter: its decision, and what is left. */
export function hear(
  check: Check,
  answer: Answer,
  { n, is_refused, own, now }: { n: number; is_refused: boolean; own: number; now: number },
): void {
  const { bucket, cost, need, rule } = check;
  const oldest = hearOthers(bucket, answer, n, now);
  const is_level = bucket.window.kind === 'drain';
  const before = is_level ? bucket.count.level : bucket.others + own;
  check.used = before + (is_refused ? 0 : cost);
  if (is_level && !is_refused) take(check, now);
  const excess = before + need - rule.limit;
  const ours_ms = resetAfter(bucket.window, bucket.count, now, excess);
  const { window } = bucket;
  check.reset_ms =
    oldest < 0 || window.kind === 'drain' ? ours_ms : Math.min(ours_ms, endOf(window, oldest, now));
  if (window.kind === 'lease') check.reset_ms = ours_ms;
}

/** Takes what the store says of the others; answers their oldest slot, -1 where there is none. */
export function hearOthers(bucket: Bucket, answer: Answer, n: number, now: number): number {
  const { window } = bucket;
  const value = Number(answer[2 + 2 * n]);
  bucket.others_at = now;
  if (window.kind === 'drain') {
    bucket.count.level = value + bucket.untold;
    bucket.count.at = now / window.step_ms;
    if (window.is_stepped) bucket.count.at = Math.floor(bucket.count.at);
    return -1;
  }
  bucket.others = value;
  bucket.others_slot = slotOf(window, now);
  return Number(answer[3 + 2 * n]);
}

/** A promise that is waited for so long. An answer that has arrived while this process was busy still counts. */
export function within<T>(ms: number, promise: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(
      () => setImmediate(() => reject(new Error(`It did not answer within ${ms} ms.`))),
      ms,
    );
    promise.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}
