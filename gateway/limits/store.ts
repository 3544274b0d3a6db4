import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from '../../runtime/log';
import { type Bucket, type Buckets, type Check, take } from './buckets';
import { StoreClient } from './store-client';
import {
  argumentsOf,
  hear,
  hearOthers,
  isGranted,
  isNear,
  isUndecided,
  newQuestion,
  ownOf,
  type Question,
  takeBack,
  unsay,
  type Word,
  wasGranted,
  wordOf,
} from './store-wire';
import { slotOf, written } from './windows';

/** Where the counters are that several gateways share. */
export interface StoreSettings {
  url: string;
  key_prefix: string;
  sync_interval_ms: number;
  local_fallback: boolean;
}

export type StoreState = 'opening' | 'up' | 'down';

const PROBE_MS = 250;
// Leases of calls under way are told again.
const RENEW_MS = 5_000;
const CHUNK = 100;
// Within it each gateway has told what an emptied store has lost.
const YOUNG_INTERVALS = 3;
const YOUNG_MS_MAX = 1_000;

/** The shared counters, in a Redis. */
export class SharedStore {
  state: StoreState = 'opening';
  private readonly client: StoreClient;
  private readonly me = randomUUID().slice(0, 13);
  private readonly settings: StoreSettings;
  private readonly log: Logger;
  private readonly clock: () => number;
  /** The live counters, for when the store has lost its own. */
  private readonly buckets: Pick<Buckets, 'all' | 'leases'>;
  private readonly dirty = new Set<Bucket>();
  /** Those that may count more than was told. */
  private readonly ahead = new Set<Bucket>();
  private readonly timers: NodeJS.Timeout[] = [];
  private readonly opened: Promise<void>;
  private hasOpened!: () => void;
  private epoch = '';
  /** When the epoch is no longer young, by the store's clock. */
  private decides_at = 0;
  private readonly young_ms: number;
  private is_probing = false;
  private is_flushing = false;
  private is_telling = false;
  /** The latest flush; the next one begins after it. */
  private flushed = Promise.resolve();
  private renew_at = 0;

  constructor(
    settings: StoreSettings,
    given: { log: Logger; clock: () => number; buckets: Pick<Buckets, 'all' | 'leases'> },
  ) {
    this.settings = settings;
    this.young_ms = Math.min(settings.sync_interval_ms * YOUNG_INTERVALS, YOUNG_MS_MAX);
    this.log = given.log;
    this.clock = given.clock;
    this.buckets = given.buckets;
    this.opened = new Promise((resolve) => {
      this.hasOpened = resolve;
    });
    this.client = new StoreClient(settings.url, given.clock);
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
    await this.client.within(this.opened).catch(() => this.fail(new Error('It did not answer.')));
  }

  /** True where all counters may be counted here, and told later. */
  isGranted(checks: readonly Check[], now: number): boolean {
    for (const check of checks) if (!isGranted(check, now)) return false;
    return true;
  }

  /** Decides in the store, and counts where all fit: the check that refuses, or undefined. Throws where it does not answer. */
  async admit(checks: readonly Check[], now: number): Promise<Check | undefined> {
    const young_ms = Math.min(this.decides_at - now, this.young_ms);
    if (young_ms > 0) {
      await sleep(young_ms + 1);
      return this.admit(checks, this.now());
    }
    const asked = checks.map((check) => newQuestion(check, now));
    const words = asked.map(({ check, need, cost }) => {
      const { bucket } = check;
      const before = this.say(bucket, now);
      // Counted before the answer: other requests are under way meanwhile.
      if (cost > 0 && bucket.window.kind !== 'drain') take(check, now);
      return wordOf(bucket, now, { before, need, cost });
    });
    const answer = await this.ask(words, now).catch((error: unknown) => {
      for (const question of asked) takeBack(question);
      throw error;
    });
    if (isUndecided(answer)) {
      for (const question of asked) this.leave(question);
      return this.admit(checks, this.now());
    }
    const refused = checks[Number(answer[1]) - 1];
    for (const [n, question] of asked.entries()) {
      hear(question, answer, { n, is_refused: refused !== undefined, now });
      if (refused !== undefined) this.leave(question);
    }
    return refused;
  }

  private leave(question: Question): void {
    takeBack(question);
    // What went out meanwhile may have said it.
    this.dirty.add(question.check.bucket);
  }

  /** A counter has changed here: the store is told with the next word to it. */
  note({ bucket }: Check): void {
    // Once it answers again it is told everything.
    if (this.state === 'up') this.dirty.add(bucket);
  }

  /** The same; at once where its limit is near. */
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

  /** The store does not answer: from now on nothing waits for it. One line in the log for each change. */
  fail(error: Error): void {
    if (this.state === 'down') return;
    this.state = 'down';
    this.dirty.clear();
    this.ahead.clear();
    this.hasOpened();
    const instead = this.settings.local_fallback
      ? 'each gateway counts by itself'
      : 'limits are not enforced';
    this.log.warn({ reason: error.message }, `the store of shared limits is away: ${instead}`);
  }

  /** Asks whether it answers, and what its clock says. */
  private async probe(): Promise<void> {
    const is_due = this.state !== 'up' || this.client.isClockDue();
    if (this.is_probing || !is_due || !this.client.isConnected()) return;
    this.is_probing = true;
    try {
      await this.client.readClock();
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
    this.tellAll();
    this.hasOpened();
    if (was === 'down') this.log.info('the store of shared limits answers again');
  }

  /** Tells everything that is counted here. */
  private tellAll(): void {
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
    if (!this.is_telling) await this.flush();
  }

  private flushSoon(): void {
    if (this.is_flushing) return;
    this.is_flushing = true;
    setImmediate(() => void this.flush());
  }

  /** One at a time, so that no older count is told after a newer one. */
  private flush(): Promise<void> {
    this.flushed = this.flushed.then(async () => {
      this.is_flushing = false;
      if (this.state !== 'up') return;
      this.is_telling = true;
      await this.tell().catch((error: Error) => this.fail(error));
      this.is_telling = false;
    });
    return this.flushed;
  }

  /** Tells what has changed, and hears of the others. With nothing to tell it still hears that the store is there. */
  private async tell(): Promise<void> {
    const changed = [...this.dirty];
    // Where nothing was counted since, what was granted goes back.
    const idle = [...this.ahead].filter((bucket) => !this.dirty.has(bucket));
    const due = [...changed, ...idle];
    for (let n = 0; n === 0 || n < due.length; n += CHUNK) {
      const now = this.now();
      // Said as it is sent: requests tell of the same counters meanwhile.
      const words: Word[] = [];
      for (const [at, bucket] of due.slice(n, n + CHUNK).entries()) {
        const is_changed = this.dirty.has(bucket);
        if (!is_changed && (n + at < changed.length || !this.ahead.has(bucket))) continue;
        const word = wordOf(bucket, now, { before: this.say(bucket, now) });
        words.push(is_changed ? word : { ...word, ahead: 0 });
      }
      const answer = await this.ask(words, now);
      for (const [at, { bucket }] of words.entries()) hearOthers(bucket, answer, at, now);
    }
  }

  /** What the store is told of a counter, which counts as told from now on. */
  private say(bucket: Bucket, now: number): string {
    const { window } = bucket;
    this.dirty.delete(bucket);
    this.ahead.delete(bucket);
    bucket.words += 1;
    bucket.granted = 0;
    if (window.kind !== 'drain') {
      return written(window, bucket.count, now);
    }
    const { untold } = bucket;
    bucket.untold = 0;
    return String(untold);
  }

  private async ask(words: readonly Word[], now: number): Promise<(string | number)[]> {
    const { key_prefix } = this.settings;
    const keys = [`${key_prefix}epoch`, ...words.map(({ bucket }) => key_prefix + bucket.key)];
    const args = words.flatMap((word) => argumentsOf(word, now));
    const covered = words.map(({ bucket, ahead }) => ownOf(bucket, now) + ahead);
    const all = [Math.floor(now), this.me, this.young_ms, ...args];
    const answer = await this.client.run(keys, all).catch((error: unknown) => {
      for (const word of words) unsay(word);
      throw error;
    });
    for (const [n, { bucket, words: word }] of words.entries()) {
      // What was said later has taken its place.
      if (!wasGranted(answer, n) || bucket.words !== word || bucket.window.kind === 'drain')
        continue;
      bucket.granted = covered[n] as number;
      bucket.granted_slot = slotOf(bucket.window, now);
      this.ahead.add(bucket);
    }
    const epoch = String(answer[0]);
    // Another one: the store has been emptied, so each gateway says again what it has counted.
    if (this.epoch !== '' && this.epoch !== epoch) this.tellAll();
    this.epoch = epoch;
    this.decides_at = Number(epoch.split(':')[1]) + this.young_ms;
    return answer;
  }
}
