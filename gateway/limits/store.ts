import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { createDeferred } from '../../runtime/deferred';
import type { Logger } from '../../runtime/log';
import { type Bucket, type Buckets, type Check, take } from './buckets';
import { StoreClient, type StoreSettings } from './store-client';
import {
  argumentsOf,
  beginReport,
  endQuestion,
  isGranted,
  isNear,
  isReportDue,
  isUndecided,
  newQuestion,
  ownOf,
  type Question,
  type Report,
  reportOf,
  restoreUnreported,
  takeAnswer,
  takeBack,
  takeOthers,
  warmUpMs,
  wasGranted,
} from './store-wire';
import { slotOf } from './windows';

interface Given {
  log: Logger;
  clock: () => number;
  buckets: Pick<Buckets, 'all' | 'leases'>;
  patience_ms?: number | undefined;
}

export type StoreState = 'opening' | 'up' | 'down';

const PROBE_MS = 250;
// How often the leases of calls under way are reported again.
const RENEW_MS = 5_000;
const CHUNK = 100;

/** The shared counters, in a Redis; store-script.ts states the algorithm and its limits. */
export class SharedStore {
  state: StoreState = 'opening';
  private readonly client: StoreClient;
  private readonly me = randomUUID().slice(0, 13);
  private readonly settings: StoreSettings;
  private readonly log: Logger;
  private readonly clock: () => number;
  /** The live counters, for when the store has lost its own. */
  private readonly buckets: Given['buckets'];
  private readonly dirty = new Set<Bucket>();
  /** Counters that may count more than was reported. */
  private readonly ahead = new Set<Bucket>();
  private readonly timers: NodeJS.Timeout[] = [];
  private readonly opened = createDeferred<void>();
  private epoch = '';
  /** When the warm-up of the epoch is over, by the store's clock. */
  private decides_at = 0;
  private readonly warm_up_ms: number;
  private is_probing = false;
  private is_flushing = false;
  private is_reporting = false;
  /** The latest flush; the next one begins after it. */
  private flushed = Promise.resolve();
  private renew_at = 0;

  constructor(settings: StoreSettings, given: Given) {
    this.settings = settings;
    this.warm_up_ms = warmUpMs(settings.sync_interval_ms);
    this.log = given.log;
    this.clock = given.clock;
    this.buckets = given.buckets;
    this.client = new StoreClient(settings.url, given.clock, given.patience_ms);
    this.client.onReady(() => void this.probe());
    this.client.onError((error) => this.fail(error));
    this.timers.push(
      setInterval(() => void this.tick(), settings.sync_interval_ms).unref(),
      setInterval(() => void this.probe(), PROBE_MS).unref(),
    );
  }

  /** The store's clock, as far as it is known here. */
  now(): number {
    return this.client.now();
  }

  /** Waits for the first connection, as long as for any answer. */
  async whenOpen(): Promise<void> {
    await this.client
      .within(this.opened.promise)
      .catch(() => this.fail(new Error('It did not answer.')));
  }

  /** True if all counters may be counted here, and reported later. */
  isGranted(checks: readonly Check[], now: number): boolean {
    for (const check of checks) if (!isGranted(check, now)) return false;
    return true;
  }

  /**
   * Decides in the store, and counts if all fit: the check that refuses, or undefined. Throws if it
   * does not answer.
   */
  async admit(checks: readonly Check[], now: number): Promise<Check | undefined> {
    // An unknown epoch may be young: what is asked then counts, and stays undecided.
    if (this.epoch === '') await this.ask([], now);
    const warm_up_ms = Math.min(this.decides_at - now, this.warm_up_ms);
    if (warm_up_ms > 0) {
      await sleep(warm_up_ms + 1);
      return this.admit(checks, this.now());
    }
    const asked = checks.map((check) => newQuestion(check, now));
    const reports = asked.map(({ check, need, cost }) => {
      const { bucket } = check;
      const before = this.report(bucket, now);
      // Counted before the answer: other requests are under way meanwhile.
      if (cost > 0 && bucket.window.kind !== 'drain') take(check, now);
      return reportOf(bucket, now, { before, need, cost });
    });
    const asking = this.ask(reports, now).finally(() => asked.forEach(endQuestion));
    const answer = await asking.catch((error: unknown) => {
      for (const question of asked) takeBack(question);
      throw error;
    });
    if (isUndecided(answer)) {
      for (const question of asked) this.leave(question);
      // What was reported of these questions must be gone before the others ask again.
      this.flushSoon();
      return this.admit(checks, this.now());
    }
    const refused = checks[Number(answer[1]) - 1];
    for (const [n, question] of asked.entries()) {
      takeAnswer(question, answer, { n, is_refused: refused !== undefined, now });
      if (refused !== undefined) this.leave(question);
    }
    return refused;
  }

  private leave(question: Question): void {
    takeBack(question);
    // A report that went out meanwhile may have held it.
    this.dirty.add(question.check.bucket);
  }

  /** A counter has changed here: the next report tells the store. */
  note({ bucket }: Check): void {
    // Once it answers again, everything is reported.
    if (this.state === 'up') this.dirty.add(bucket);
  }

  /** The same; at once if its limit is near. */
  changed(check: Check): void {
    const { rule, bucket } = check;
    this.note(check);
    const total = bucket.others + ownOf(bucket, this.now());
    if (isNear(rule.limit, total) && this.state === 'up') this.flushSoon();
  }

  async close(): Promise<void> {
    for (const timer of this.timers) clearInterval(timer);
    if (this.state === 'up') await this.flush().catch(() => undefined);
    this.client.close();
  }

  /**
   * The store does not answer: from now on nothing waits for it. One line in the log for each
   * change.
   */
  fail(error: Error): void {
    if (this.state === 'down') return;
    this.state = 'down';
    this.dirty.clear();
    this.ahead.clear();
    this.opened.resolve();
    const instead = this.settings.local_fallback
      ? 'each gateway counts by itself'
      : 'limits are not enforced';
    this.log.warn({ reason: error.message }, `the store of shared limits is away: ${instead}`);
  }

  /** Asks whether it answers and takes writes, and what its clock says. */
  private async probe(): Promise<void> {
    const is_due = this.state !== 'up' || this.client.isClockDue();
    if (this.is_probing || !is_due || !this.client.isConnected()) return;
    this.is_probing = true;
    try {
      await this.client.readClock(this.state === 'up' ? undefined : this.settings.key_prefix);
      if (this.state !== 'up') this.recover();
    } catch (error) {
      this.fail(error as Error);
    } finally {
      this.is_probing = false;
    }
  }

  private recover(): void {
    const was = this.state;
    this.state = 'up';
    // It may have been emptied meanwhile.
    this.epoch = '';
    this.reportAll();
    this.opened.resolve();
    if (was === 'down') this.log.info('the store of shared limits answers again');
  }

  /** Reports everything that is counted here. */
  private reportAll(): void {
    for (const bucket of this.buckets.all()) this.dirty.add(bucket);
    this.flushSoon();
  }

  private async tick(): Promise<void> {
    if (this.state !== 'up') return;
    const now = this.clock();
    if (now >= this.renew_at) {
      this.renew_at = now + RENEW_MS;
      for (const bucket of this.buckets.leases()) this.dirty.add(bucket);
    }
    if (!this.is_reporting) await this.flush();
  }

  private flushSoon(): void {
    if (this.is_flushing) return;
    this.is_flushing = true;
    setImmediate(() => void this.flush());
  }

  /** One at a time, so that no older count is reported after a newer one. */
  private flush(): Promise<void> {
    this.flushed = this.flushed.then(async () => {
      this.is_flushing = false;
      if (this.state !== 'up') return;
      this.is_reporting = true;
      await this.reportChanges().catch((error: Error) => this.fail(error));
      this.is_reporting = false;
    });
    return this.flushed;
  }

  /**
   * Reports what has changed, and takes the counts of the others. An empty report still shows that
   * the store answers.
   */
  private async reportChanges(): Promise<void> {
    // A store that was emptied is to know at once.
    const is_young = this.now() < this.decides_at;
    const changed = [...this.dirty].filter((bucket) => is_young || isReportDue(bucket));
    // What was granted goes back if nothing was counted since.
    const idle = [...this.ahead].filter((bucket) => !this.dirty.has(bucket));
    const due = [...changed, ...idle];
    for (let n = 0; n === 0 || n < due.length; n += CHUNK) {
      const now = this.now();
      // Read as it is sent: requests report the same counters meanwhile.
      const reports: Report[] = [];
      for (const [at, bucket] of due.slice(n, n + CHUNK).entries()) {
        const is_changed = this.dirty.has(bucket);
        if (!is_changed && (n + at < changed.length || !this.ahead.has(bucket))) continue;
        const report = reportOf(bucket, now, { before: this.report(bucket, now) });
        reports.push(is_changed ? report : { ...report, ahead: 0 });
      }
      const answer = await this.ask(reports, now);
      for (const [at, { bucket }] of reports.entries()) takeOthers(bucket, answer, at, now);
    }
  }

  /** The count of a counter as the store keeps it; it counts as reported from now on. */
  private report(bucket: Bucket, now: number): string {
    this.dirty.delete(bucket);
    this.ahead.delete(bucket);
    return beginReport(bucket, now);
  }

  private async ask(reports: readonly Report[], now: number): Promise<(string | number)[]> {
    const { key_prefix } = this.settings;
    const keys = [`${key_prefix}epoch`, ...reports.map(({ bucket }) => key_prefix + bucket.key)];
    const args = reports.flatMap((report) => argumentsOf(report, now));
    const covered = reports.map(({ bucket, ahead }) => ownOf(bucket, now) + ahead);
    const all = [Math.floor(now), this.me, this.warm_up_ms, ...args];
    const answer = await this.client.run(keys, all).catch((error: unknown) => {
      for (const report of reports) restoreUnreported(report);
      throw error;
    });
    for (const [n, { bucket, number }] of reports.entries()) {
      // A later report has taken its place.
      const is_latest = bucket.reports === number;
      if (!is_latest || !wasGranted(answer, n) || bucket.window.kind === 'drain') continue;
      bucket.granted = covered[n] as number;
      bucket.granted_slot = slotOf(bucket.window, now);
      this.ahead.add(bucket);
    }
    const epoch = String(answer[0]);
    // Another one: the store has been emptied, so each gateway reports again what it has counted.
    if (this.epoch !== '' && this.epoch !== epoch) this.reportAll();
    this.epoch = epoch;
    this.decides_at = Number(epoch.split(':')[1]) + this.warm_up_ms;
    return answer;
  }
}
