import type { LimitType, Scope } from '../../domain/rate-limits';
import { add, type Count, newCount, remove, usedAt, type Window } from './windows';

/** One limit of a configuration. */
export interface Rule {
  scope: Scope;
  limit_type: LimitType;
  limit: number;
  window: Window;
  /**
   * Begins the name of its counters. It names the window but not the limit: under another limit the
   * counts go on.
   */
  name: string;
  /** How long a request above it may wait; 0 is not at all. */
  queue_ms: number;
  /** Seconds that a refusal says to wait; if undefined, the time until there is room. */
  retry_after: number | undefined;
}

/** The counter of one rule for one caller. */
export interface Bucket {
  key: string;
  /** The latest one that asked for it. */
  rule: Rule;
  /** That rule's. */
  window: Window;
  /** What this gateway has counted. */
  count: Count;
  /** Only with a shared store: what the other gateways have counted. */
  others: number;
  others_slot: number;
  /**
   * Up to what the store lets us count in a slot ahead of a report: it counts as much as used by
   * us.
   */
  granted: number;
  granted_slot: number;
  /** How often it was reported. */
  reports: number;
  /** A level's changes that are not reported yet. */
  unreported: number;
  /** Requests that the store is asked about now. */
  asked: number;
  /** How often a report has waited for them. */
  put_off: number;
  /**
   * A sweep has forgotten it; a call that still refers to it counts in the one that took its place.
   */
  is_dropped: boolean;
  /** The calls that wait for room, the first one first. */
  waiters: (() => void)[];
}

/** One rule applied to one request. */
export interface Check {
  rule: Rule;
  bucket: Bucket;
  /** What must fit for a request to pass, and what is counted then. */
  need: number;
  cost: number;
  /** What it has counted so far; what is counted already need not fit again. */
  counted: number;
  /** The level of its counter just below the count, if that is a level. */
  counted_over: number;
  /** The slot or moment that it was counted in. */
  counted_at: number;
  /** The counter after the decision. */
  used: number;
  /**
   * Milliseconds until there is more room, if the decision said so; else the counter itself does.
   */
  reset_ms: number | undefined;
}

export interface Buckets {
  of(rule: Rule, id: string): Bucket;
  /** The counter that counts for a check now: a sweep may have forgotten the one that it found. */
  present(check: Check): Bucket;
  all(): Iterable<Bucket>;
  /** Those of calls under way that hold a slot. */
  leases(): Iterable<Bucket>;
  /** Forgets the counters that count nothing. */
  sweep(now: number): void;
}

// Callers may name themselves in some modes: what they fill is bounded, and the oldest counters go
// first.
const BUCKETS_MAX = 200_000;

export function createBuckets(): Buckets {
  // By rule, then by caller: neither name is put together for each request.
  const byRule = new Map<string, Map<string, Bucket>>();
  let size = 0;
  const buckets: Buckets = {
    of(rule, id) {
      let ofRule = byRule.get(rule.name);
      if (ofRule === undefined) {
        ofRule = new Map();
        byRule.set(rule.name, ofRule);
      }
      const found = ofRule.get(id);
      if (found !== undefined) {
        found.rule = rule;
        found.window = rule.window;
        return found;
      }
      if (size >= BUCKETS_MAX) size -= dropOldest(ofRule);
      size += 1;
      const bucket = newBucket(rule.name + id, rule);
      ofRule.set(id, bucket);
      return bucket;
    },
    present({ rule, bucket }) {
      return bucket.is_dropped ? buckets.of(rule, bucket.key.slice(rule.name.length)) : bucket;
    },
    *all() {
      for (const ofRule of byRule.values()) yield* ofRule.values();
    },
    *leases() {
      for (const ofRule of byRule.values()) {
        for (const bucket of ofRule.values()) {
          // The counters of one rule are all of one kind.
          if (bucket.window.kind !== 'lease') break;
          if (bucket.count.level > 0) yield bucket;
        }
      }
    },
    sweep(now) {
      for (const ofRule of byRule.values()) {
        for (const [id, bucket] of ofRule) {
          if (isBusy(bucket) || usedAt(bucket.window, bucket.count, now) > 0) continue;
          ofRule.delete(id);
          bucket.is_dropped = true;
          size -= 1;
        }
      }
    },
  };
  return buckets;
}

function dropOldest(buckets: Map<string, Bucket>): number {
  for (const [id, bucket] of buckets) {
    if (isBusy(bucket)) continue;
    buckets.delete(id);
    bucket.is_dropped = true;
    return 1;
  }
  return 0;
}

/** True if calls under way hold it, or wait for it. */
function isBusy({ window, count, waiters }: Bucket): boolean {
  return waiters.length > 0 || (window.kind === 'lease' && count.level > 0);
}

function newBucket(key: string, rule: Rule): Bucket {
  return {
    key,
    rule,
    window: rule.window,
    count: newCount(),
    others: 0,
    others_slot: 0,
    granted: 0,
    granted_slot: 0,
    reports: 0,
    unreported: 0,
    asked: 0,
    put_off: 0,
    is_dropped: false,
    waiters: [],
  };
}

/** `need` must fit under the limit for a request to pass, and `cost` is what it counts. */
export function newCheck(rule: Rule, bucket: Bucket, need: number, cost: number): Check {
  return {
    rule,
    bucket,
    need,
    cost,
    counted: 0,
    counted_over: 0,
    counted_at: 0,
    used: 0,
    reset_ms: undefined,
  };
}

/** Counts a check here. */
export function take(check: Check, now: number): void {
  const { bucket, cost } = check;
  if (bucket.window.kind === 'drain') {
    check.counted_over = usedAt(bucket.window, bucket.count, now);
  }
  check.counted_at = add(bucket.window, bucket.count, now, cost);
  check.counted = cost;
}

/** What of a check must still fit. */
export function missing({ need, counted }: Check): number {
  return counted > 0 ? 0 : need;
}

/** Gives back so much of what a check took. */
export function giveBack(check: Check, amount: number): void {
  const { bucket, counted_at } = check;
  remove(bucket.window, bucket.count, counted_at, amount);
  check.counted -= amount;
}

/** The first waiter may look again. */
export function wake({ waiters }: Bucket): void {
  waiters[0]?.();
}
