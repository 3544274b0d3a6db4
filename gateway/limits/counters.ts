import type { Logger } from '../../runtime/log';
import {
  type Check,
  createBuckets,
  giveBack,
  missing,
  newCheck,
  type Rule,
  take,
  wake,
} from './buckets';
import type { LimitRules } from './rules';
import { SharedStore, type StoreState } from './store';
import type { StoreSettings } from './store-client';
import { othersAt } from './store-wire';
import { add, decide, hasDrained, resetAfter, usedAt } from './windows';

/** What the metrics of rate limits say; the rest is null if no such limit is active. */
export interface LimitStats {
  requests_allowed_total: number;
  requests_rejected_total: number;
  remaining_rpm: number | null;
  remaining_tpm: number | null;
}

const SWEEP_MS = 30_000;

/** Milliseconds since 1970 as this process began, and what has passed: nobody sets it back. */
const steady = (): number => performance.timeOrigin + performance.now();

interface Times {
  clock?: () => number;
  sweep_ms?: number | undefined;
  /** How long an answer of the shared store is waited for. */
  patience_ms?: number | undefined;
}

export function openCounters(log: Logger, times: Times = {}): Counters {
  return new Counters(log, times);
}

/** The counters of all limits, here and in the shared store. They outlive a configuration. */
export class Counters {
  private readonly log: Logger;
  private readonly clock: () => number;
  private readonly buckets = createBuckets();
  private readonly patience_ms: number | undefined;
  private readonly sweeping: NodeJS.Timeout;
  private allowed = 0;
  private rejected = 0;
  private rules: Pick<LimitRules, 'store'> | undefined;
  private settings: StoreSettings | undefined;
  private store: SharedStore | undefined;

  constructor(log: Logger, { clock = steady, sweep_ms = SWEEP_MS, patience_ms }: Times) {
    this.log = log;
    this.clock = clock;
    this.patience_ms = patience_ms;
    this.sweeping = setInterval(() => this.buckets.sweep(this.now()), sweep_ms).unref();
  }

  /** Follows a configuration: where the shared store is. */
  use(rules: Pick<LimitRules, 'store'>): void {
    if (rules === this.rules) return;
    this.rules = rules;
    // The same store goes on through a reload.
    if (JSON.stringify(rules.store) === JSON.stringify(this.settings)) return;
    void this.store?.close();
    this.settings = rules.store;
    this.store =
      rules.store &&
      new SharedStore(rules.store, {
        log: this.log,
        clock: this.clock,
        buckets: this.buckets,
        patience_ms: this.patience_ms,
      });
  }

  now(): number {
    return this.store === undefined ? this.clock() : this.store.now();
  }

  /** One rule for one caller: `need` must fit, `cost` is counted then. */
  check(rule: Rule, id: string, need: number, cost: number): Check {
    return newCheck(rule, this.buckets.of(rule, id), need, cost);
  }

  /**
   * Counts all checks if all fit, and none if one does not: that one is answered. What is counted
   * already is not counted again.
   */
  admit(checks: readonly Check[]): Check | undefined | Promise<Check | undefined> {
    const { store } = this;
    // They may have waited.
    for (const check of checks) check.bucket = this.buckets.present(check);
    if (store === undefined || store.state === 'down') return this.decideAlone(checks);
    if (store.state === 'opening') return store.whenOpen().then(() => this.admit(checks));
    const now = this.now();
    if (!store.isGranted(checks, now)) return this.decideTogether(store, checks, now);
    for (const check of checks) {
      this.count(check, now);
      store.note(check);
    }
    return undefined;
  }

  /** What a check would find here now, and whether it fits. Counts nothing. */
  look(check: Check): boolean {
    return this.fits(check, this.now());
  }

  /**
   * True if a check has no room, whatever other gateways have given back since they were heard of:
   * requests that were counted stay counted.
   */
  isFull(check: Check): boolean {
    const is_known = !this.isShared() || check.rule.limit_type === 'rpm';
    return !this.look(check) && is_known && !this.isSuspended();
  }

  /** Decides and counts by what is known here alone; a later decision takes the count over. */
  countHere(check: Check): boolean {
    const now = this.now();
    if (!this.isSuspended() && !this.fits(check, now)) return false;
    this.countAndNote(check, now);
    return true;
  }

  /** Gives back what a check has counted ahead of a decision that refused. */
  takeBack(check: Check): void {
    const { counted, bucket } = check;
    // What a level has lost since is not given back twice.
    if (hasDrained(bucket.window, check, this.now())) {
      check.counted = 0;
      return;
    }
    giveBack(check, counted);
    this.noteChange(check, -counted);
  }

  /** Puts what was used in the place of what was counted. */
  correct(check: Check, actual: number): void {
    const { counted } = check;
    if (actual === counted) return;
    const bucket = this.buckets.present(check);
    check.bucket = bucket;
    if (actual < counted) giveBack(check, counted - actual);
    else add(bucket.window, bucket.count, this.now(), actual - counted);
    check.counted = actual;
    this.store?.changed(check);
    if (actual < counted) wake(bucket);
  }

  /** Gives the slot of a call under way back. */
  release(check: Check): void {
    giveBack(check, check.counted);
    this.store?.changed(check);
    wake(check.bucket);
  }

  /** Milliseconds until a counter has more room. */
  resetOf({ bucket, rule, used, need, reset_ms }: Check): number {
    if (reset_ms !== undefined) return reset_ms;
    return resetAfter(bucket.window, bucket.count, this.now(), used + need - rule.limit);
  }

  /** True while the shared store is away and nothing is enforced. */
  isSuspended(): boolean {
    return this.store?.state === 'down' && this.settings?.local_fallback === false;
  }

  isShared(): boolean {
    return this.store !== undefined;
  }

  /** Undefined if no store is shared. */
  storeState(): StoreState | undefined {
    return this.store?.state;
  }

  /** How one decision ended. */
  tally(is_allowed: boolean): void {
    if (is_allowed) this.allowed += 1;
    else this.rejected += 1;
  }

  /** How decisions ended, and what the fullest counters have left. */
  stats(): LimitStats {
    const left = { rpm: Number.POSITIVE_INFINITY, tpm: Number.POSITIVE_INFINITY, parallel: 0 };
    const now = this.now();
    for (const bucket of this.buckets.all()) {
      const used = othersAt(bucket, now) + usedAt(bucket.window, bucket.count, now);
      const { limit_type, limit } = bucket.rule;
      if (used > 0) left[limit_type] = Math.min(left[limit_type], Math.max(0, limit - used));
    }
    const finite = (value: number) => (Number.isFinite(value) ? Math.floor(value) : null);
    return {
      requests_allowed_total: this.allowed,
      requests_rejected_total: this.rejected,
      remaining_rpm: finite(left.rpm),
      remaining_tpm: finite(left.tpm),
    };
  }

  async close(): Promise<void> {
    clearInterval(this.sweeping);
    await this.store?.close();
  }

  /** By this gateway's own counters, if nothing is shared or the store is away. */
  private decideAlone(checks: readonly Check[]): Check | undefined {
    const now = this.now();
    if (!this.isSuspended()) {
      for (const check of checks) if (!this.fits(check, now)) return check;
    }
    for (const check of checks) this.countAndNote(check, now);
    return undefined;
  }

  private async decideTogether(
    store: SharedStore,
    checks: readonly Check[],
    now: number,
  ): Promise<Check | undefined> {
    try {
      return await store.admit(checks, now);
    } catch (error) {
      store.fail(error as Error);
      return this.decideAlone(checks);
    }
  }

  /** Whether a check fits by what is known here. */
  private fits(check: Check, now: number): boolean {
    const { bucket, rule } = check;
    const others = this.othersOf(check, now);
    const { is_allowed, used, wait_ms } = decide(rule, bucket.count, now, missing(check) + others);
    check.used = used + others;
    check.reset_ms = is_allowed ? undefined : wait_ms;
    return is_allowed;
  }

  private count(check: Check, now: number): void {
    const { bucket } = check;
    if (check.counted === 0) take(check, now);
    check.used = usedAt(bucket.window, bucket.count, now) + this.othersOf(check, now);
  }

  private countAndNote(check: Check, now: number): void {
    const before = check.counted;
    this.count(check, now);
    this.noteChange(check, check.counted - before);
  }

  /** What the others counted is only right while they are heard of. */
  private othersOf({ bucket }: Check, now: number): number {
    return this.store?.state === 'up' ? othersAt(bucket, now) : 0;
  }

  private noteChange(check: Check, change: number): void {
    if (this.store === undefined) return;
    if (check.bucket.window.kind === 'drain') check.bucket.unreported += change;
    this.store.note(check);
  }
}
