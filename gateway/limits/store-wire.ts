import { type Bucket, type Check, giveBack, type Rule, take } from './buckets';
import { endOf, resetAfter, slotOf, usedAt, written, writtenAhead } from './windows';

// Below this a limit is counted in the store for each request, and above it once less than a fifth
// is left.
const EXACT_BELOW = 100;
const NEAR = 0.2;
// The share of a limit that a gateway may count before its next report. The store counts it as
// used, so that the limit is never exceeded.
const AHEAD = 0.05;

// So many sync intervals after the store was emptied, each gateway has reported again.
const WARM_UP_INTERVALS = 3;
const WARM_UP_MS_MAX = 1_000;
// So many reports at most wait for requests under way.
const PUT_OFF_MAX = 10;

/** How long a store that was emptied decides nothing. */
export function warmUpMs(sync_interval_ms: number): number {
  return Math.min(sync_interval_ms * WARM_UP_INTERVALS, WARM_UP_MS_MAX);
}

type Answer = readonly (string | number)[];
const MEMBERS = 3;

/** True if each request is counted in the store. */
export function isNear(limit: number, total: number): boolean {
  return limit < EXACT_BELOW || total > limit * (1 - NEAR);
}

/** True if a check is covered by what the store has granted. */
export function isGranted(check: Check, now: number): boolean {
  const { bucket } = check;
  const { window } = bucket;
  if (window.kind === 'drain' || bucket.granted_slot !== slotOf(window, now)) return false;
  const room = check.counted > 0 ? 0 : Math.max(check.need, check.cost);
  return usedAt(window, bucket.count, now) + room <= bucket.granted;
}

/** How much a gateway asks to count ahead under a rule. */
function aheadOf({ limit, window }: Rule): number {
  return limit < EXACT_BELOW || window.kind === 'drain' ? 0 : Math.floor(limit * AHEAD);
}

/** Up to what total it is granted, the request itself included. */
function grantedUpTo(rule: Rule, cost: number): number {
  return rule.limit * (1 - NEAR) - aheadOf(rule) - cost;
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

/** The report of one counter to the store, and what a request asks of it. */
export interface Report {
  bucket: Bucket;
  need: number | string;
  cost: number;
  before: string;
  after: string;
  /** How much is asked to be counted ahead. */
  ahead: number;
  /** The number of this report among those of its counter. */
  number: number;
}

/** The count of a counter as the store keeps it; it counts as reported from now on. */
export function beginReport(bucket: Bucket, now: number): string {
  const { window, count, unreported } = bucket;
  bucket.reports += 1;
  bucket.granted = 0;
  if (window.kind !== 'drain') return written(window, count, now);
  bucket.unreported = 0;
  return String(unreported);
}

/**
 * What a request asks of a counter; without `need`, only what is reported of it. It has been
 * counted, unless it is a level.
 */
export function reportOf(
  bucket: Bucket,
  now: number,
  said: { before: string; need?: number; cost?: number },
): Report {
  const { rule, window, count, reports } = bucket;
  const { before, need = '', cost = 0 } = said;
  const after = window.kind === 'drain' ? String(cost) : written(window, count, now);
  return { bucket, need, cost, before, after, number: reports, ahead: aheadOf(rule) };
}

/** The script's arguments for one counter. */
export function argumentsOf(report: Report, now: number): (string | number)[] {
  const { bucket, need, cost, before, after, ahead } = report;
  const { rule, window } = bucket;
  const shape =
    window.kind === 'drain'
      ? [window.is_stepped ? 'steps' : 'drain', window.step_ms, window.amount]
      : ['slots', window.slot_ms, window.counted];
  const [kind = '', step = 0, many = 0] = shape;
  const more = ahead > 0 ? writtenAhead(bucket, now, ahead) : '';
  const level = window.kind === 'drain' ? ownOf(bucket, now) : 0;
  return [kind, rule.limit, need, step, many, before, after, more, grantedUpTo(rule, cost), level];
}

/** What this gateway has counted. */
export function ownOf({ window, count }: Bucket, now: number): number {
  return usedAt(window, count, now);
}

/**
 * A check that the store is asked about; a check that has counted already needs and costs no more.
 */
export interface Question {
  check: Check;
  need: number;
  cost: number;
  /** What this gateway had counted before. */
  own: number;
}

/** The question of a check; it counts as asked until `endQuestion`. */
export function newQuestion(check: Check, now: number): Question {
  check.bucket.asked += 1;
  const own = ownOf(check.bucket, now);
  return check.counted > 0
    ? { check, need: 0, cost: 0, own }
    : { check, need: check.need, cost: check.cost, own };
}

export function endQuestion({ check }: Question): void {
  check.bucket.asked -= 1;
}

/**
 * True if a counter may be reported now. Its count holds requests under way, which may yet be
 * refused, and others would be refused for them: so it waits for their answers, for a while.
 */
export function isReportDue(bucket: Bucket): boolean {
  bucket.put_off = bucket.asked > 0 && bucket.put_off < PUT_OFF_MAX ? bucket.put_off + 1 : 0;
  return bucket.put_off === 0;
}

/** Takes the store's answer on a counter: its decision, and how much is used. */
export function takeAnswer(
  { check, need, cost, own }: Question,
  answer: Answer,
  { n, is_refused, now }: { n: number; is_refused: boolean; now: number },
): void {
  const { bucket, rule } = check;
  const oldest = takeOthers(bucket, answer, n, now);
  const is_level = bucket.window.kind === 'drain';
  const before = is_level ? bucket.count.level : bucket.others + own;
  check.used = before + (is_refused ? 0 : cost);
  if (is_level && !is_refused && cost > 0) take(check, now);
  const excess = before + need - rule.limit;
  const ours_ms = resetAfter(bucket.window, bucket.count, now, excess);
  const { window } = bucket;
  check.reset_ms =
    oldest < 0 || window.kind === 'drain' ? ours_ms : Math.min(ours_ms, endOf(window, oldest, now));
  if (window.kind === 'lease') check.reset_ms = ours_ms;
}

/**
 * Takes the counts of the other gateways from the store's answer; returns their oldest slot, -1 if
 * there is none.
 */
export function takeOthers(bucket: Bucket, answer: Answer, n: number, now: number): number {
  const { window } = bucket;
  const value = Number(answer[2 + MEMBERS * n]);
  if (window.kind === 'drain') {
    bucket.count.level = value + bucket.unreported;
    bucket.count.at = now / window.step_ms;
    if (window.is_stepped) bucket.count.at = Math.floor(bucket.count.at);
    return -1;
  }
  bucket.others = value;
  bucket.others_slot = slotOf(window, now);
  return Number(answer[3 + MEMBERS * n]);
}

/**
 * True if the store was emptied a moment ago: it decides nothing before each gateway has reported
 * again.
 */
export function isUndecided(answer: Answer): boolean {
  return Number(answer[1]) < 0;
}

/** True if this gateway may count ahead of its next report of the n-th counter. */
export function wasGranted(answer: Answer, n: number): boolean {
  return Number(answer[4 + MEMBERS * n]) === 1;
}

/** The report may not have arrived: the next one repeats it. */
export function restoreUnreported({ bucket, before }: Report): void {
  if (bucket.window.kind === 'drain') bucket.unreported += Number(before);
}

/** Undoes what was counted ahead of the store's answer. */
export function takeBack({ check, cost }: Question): void {
  if (cost > 0 && check.bucket.window.kind !== 'drain') giveBack(check, cost);
}
