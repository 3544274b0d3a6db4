import Redis, { type Callback, type Result } from 'ioredis';
import { within } from '../../runtime/within';
import { limit_script } from './store-script';

declare module 'ioredis' {
  interface RedisCommander<Context> {
    /** The script of the shared counters; the first argument is the number of keys. */
    checkLimits(
      keys: number,
      ...args: (string | number | Callback<(string | number)[]>)[]
    ): Result<(string | number)[], Context>;
  }
}

/** The place of the counters that several gateways share. */
export interface StoreSettings {
  url: string;
  key_prefix: string;
  sync_interval_ms: number;
  local_fallback: boolean;
}

// What a store that does not answer costs a request, once.
const PATIENCE_MS = 50;
const PROBE_MS = 1_000;
const CLOCK_MS = 10_000;

/** The connection to the Redis that holds the shared counters, and its clock. */
export class StoreClient {
  private readonly redis: Redis;
  private readonly clock: () => number;
  private readonly patience_ms: number;
  private ahead_ms = 0;
  private clock_at = 0;

  constructor(url: string, clock: () => number, patience_ms = PATIENCE_MS) {
    this.clock = clock;
    this.patience_ms = patience_ms;
    this.redis = new Redis(url, {
      // A command that cannot be sent now fails now, and none is sent twice.
      enableOfflineQueue: false,
      maxRetriesPerRequest: 0,
      autoResendUnfulfilledCommands: false,
      disableClientInfo: true,
      connectTimeout: 2_000,
      // A connection that has died without a word is given up.
      socketTimeout: 2_000,
      // A primary that was made a replica takes no write on this connection any more.
      reconnectOnError: ({ message }) => message.includes('READONLY'),
      retryStrategy: (times) => Math.min(times * 50, 500),
      scripts: { checkLimits: { lua: limit_script } },
    });
  }

  onReady(step: () => void): void {
    this.redis.on('ready', step);
  }

  onError(step: (error: Error) => void): void {
    this.redis.on('error', step);
  }

  isConnected(): boolean {
    return this.redis.status === 'ready';
  }

  /** The store's clock in ms, as far as it is known here. */
  now(): number {
    return this.clock() + this.ahead_ms;
  }

  /** Whether the store's clock is to be asked for again. */
  isClockDue(): boolean {
    return this.clock_at < this.clock();
  }

  /**
   * Asks what the store's clock says. Throws if the store does not answer in time, or, given the
   * prefix of its keys, takes no write: a replica answers, and so does a store that is full.
   */
  async readClock(writing_below?: string): Promise<void> {
    if (writing_below !== undefined)
      await this.within(this.redis.set(`${writing_below}probe`, '', 'PX', PROBE_MS));
    const sent_at = this.clock();
    const [seconds, micros] = await within(this.patience_ms, this.redis.time());
    const heard_at = this.clock();
    const store_ms = Number(seconds) * 1_000 + Number(micros) / 1_000;
    this.ahead_ms = store_ms - (sent_at + heard_at) / 2;
    this.clock_at = heard_at + CLOCK_MS;
  }

  /** Runs the script. Throws if the store does not answer in time. */
  run(keys: readonly string[], args: readonly (string | number)[]): Promise<(string | number)[]> {
    return within(this.patience_ms, this.redis.checkLimits(keys.length, ...keys, ...args));
  }

  /** Waits for something of the store, as long as for an answer of it. */
  within<T>(promise: Promise<T>): Promise<T> {
    return within(this.patience_ms, promise);
  }

  close(): void {
    this.redis.disconnect();
  }
}
