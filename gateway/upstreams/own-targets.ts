import type { Dispatcher } from 'undici';
import type { AppError } from '../../domain/errors';
import { connectionsTo } from '../../runtime/outgoing';
import type { Settings } from '../config/settings';
import { type Breaker, createBreaker } from './breaker';
import { keyHeaders, keyIn } from './credentials/credential';
import { own_headers, type Target } from './target';

// Targets as the own keys of organizations ask them. A key that its provider refuses is in the way
// of nobody else: each has connections and a circuit of its own.

/** An own key, without its value. */
export interface OwnKey {
  provider_key_id: string;
  version: number;
  /** Its value at present, from the memory of the process. Rejects if it is gone. */
  current(): string | Promise<string>;
  /** The provider refused this value. True if another attempt may have a newer one. */
  refuse(value: string): boolean;
}

/** What one key has at one target. */
interface Kept {
  version: number;
  pool: Dispatcher;
  breaker: Breaker;
  /** What the provider has last refused it with; empty if nothing. */
  troubles: { refusal?: AppError | undefined };
}

const KEPT_MAX = 1_000;
// They name the account of whoever wrote them down.
const account_headers = new Set(['openai-organization', 'openai-project']);

/** The own keys that have asked the targets of one configuration. */
export class OwnTargets {
  private readonly settings: Pick<Settings, 'timeouts' | 'circuit_breaker'>;
  /** Those that were used last stand at the end. */
  private readonly kept = new Map<string, Kept>();

  constructor(settings: Pick<Settings, 'timeouts' | 'circuit_breaker'>) {
    this.settings = settings;
  }

  /** The target as a key asks it. Nothing of it holds the key's value. */
  open(target: Target, key: OwnKey): Target {
    const { pool, breaker, troubles } = this.of(target, key);
    const { wire } = target;
    const headers = Object.entries(wire.headers ?? {}).filter(
      ([name]) => !account_headers.has(name),
    );
    return {
      ...target,
      pool,
      breaker,
      troubles,
      headers: { ...Object.fromEntries(headers), ...own_headers },
      own_key_id: key.provider_key_id,
      credential: {
        headers: {},
        headersFor: async () => keyHeaders(wire, await key.current()),
        refuse: (sent) => key.refuse(keyIn(sent)),
      },
    };
  }

  private of({ id, origin }: Target, { provider_key_id, version }: OwnKey): Kept {
    const name = `${id} ${provider_key_id}`;
    const found = this.kept.get(name);
    this.kept.delete(name);
    // A new value begins anew, whatever the old one met.
    const kept = found?.version === version ? found : this.make(origin, version);
    if (found !== undefined && found !== kept) void found.pool.close();
    this.kept.set(name, kept);
    const [oldest] = this.kept;
    if (this.kept.size > KEPT_MAX && oldest !== undefined) {
      this.kept.delete(oldest[0]);
      // Its calls end first.
      void oldest[1].pool.close();
    }
    return kept;
  }

  private make(origin: string, version: number): Kept {
    const { timeouts, circuit_breaker } = this.settings;
    const pool = connectionsTo(origin, timeouts);
    return { version, pool, breaker: createBreaker(circuit_breaker), troubles: {} };
  }

  async close(): Promise<void> {
    await Promise.all([...this.kept.values()].map(({ pool }) => pool.destroy()));
  }
}
