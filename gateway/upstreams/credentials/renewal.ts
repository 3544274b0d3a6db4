/** Something that lives for a while, such as a token. */
export interface Lasting<Value> {
  value: Value;
  /** Milliseconds since 1970; it is taken for endless if absent. */
  expires_at?: number | undefined;
}

interface Options {
  /** How long before its end a value is renewed beside requests. */
  ahead_ms?: number;
  /** How long one renewal may take. */
  limit_ms?: number;
  /** Behind the words for one that takes longer, or finds nobody: what to do. */
  silence?: string;
  now?: () => number;
}

// Nobody was there to ask: in the words of Node and of the packages of Google, AWS and Entra.
const nobody =
  /timeout|timed out|aborted|metadata|\bE(?:CONN|NOTFOUND|HOST|NET|AI_AGAIN)|fetch failed|could not load/i;

const AHEAD_MS = 300_000;
const LIMIT_MS = 10_000;
// What the provider refused although it looked good is asked for anew, but not at each request.
const REST_MS = 10_000;

/** A value that is renewed ahead of its end, by one renewal at a time. */
export class Renewal<Value> {
  private readonly fetch: () => Promise<Lasting<Value>>;
  private readonly ahead_ms: number;
  private readonly limit_ms: number;
  private readonly silence: string | undefined;
  private readonly now: () => number;
  private held: Lasting<Value> | undefined;
  private renewing: Promise<Value> | undefined;
  private refused_at = Number.NEGATIVE_INFINITY;
  private tried_at = Number.NEGATIVE_INFINITY;

  constructor(fetch: () => Promise<Lasting<Value>>, options: Options = {}) {
    this.fetch = fetch;
    this.ahead_ms = options.ahead_ms ?? AHEAD_MS;
    this.limit_ms = options.limit_ms ?? LIMIT_MS;
    this.silence = options.silence;
    this.now = options.now ?? Date.now;
  }

  /**
   * The value, at once while one is good. Rejects if there is none and none can be had: in the
   * words of whoever gives it, and after `limit_ms` at the latest.
   */
  current(): Value | Promise<Value> {
    const { held } = this;
    const left_ms = held === undefined ? 0 : (held.expires_at ?? Infinity) - this.now();
    if (held === undefined || left_ms <= 0) return this.renew();
    // Beside requests; if it fails, this one is good for a while yet.
    if (left_ms < this.ahead_ms && this.now() - this.tried_at > REST_MS / 10)
      this.renew().catch(() => undefined);
    return held.value;
  }

  /**
   * The provider refused this value: it is forgotten, unless another one has taken its place. True
   * if a try with another value may pass.
   */
  refuse(value: Value): boolean {
    if (this.held === undefined || this.held.value !== value) return true;
    if (this.now() - this.refused_at < REST_MS) return false;
    this.refused_at = this.now();
    this.held = undefined;
    return true;
  }

  private renew(): Promise<Value> {
    this.renewing ??= this.fetchOnce().finally(() => {
      this.renewing = undefined;
    });
    return this.renewing;
  }

  private async fetchOnce(): Promise<Value> {
    this.tried_at = this.now();
    let timer: NodeJS.Timeout | undefined;
    const silence = this.silence === undefined ? '' : ` ${this.silence}`;
    const words = `No credential came within ${this.limit_ms} ms.${silence}`;
    const late = new Promise<never>((_, reject) => {
      timer = setTimeout(() => reject(new Error(words)), this.limit_ms);
    });
    try {
      this.held = await Promise.race([this.fetch(), late]);
      return this.held.value;
    } catch (error) {
      const { name, message } = error as Error;
      if (silence === '' || message === words || !nobody.test(`${name} ${message}`)) throw error;
      throw new Error(`${message}.${silence}`, { cause: error });
    } finally {
      clearTimeout(timer);
    }
  }
}
