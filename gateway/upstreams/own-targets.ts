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
    // A new value begins anew, whatever the old one met. Connections are bound to none: calls under
    // way, which may try again, have them too.
    const kept =
      found !== undefined && found.version >= version
        ? found
        : this.make(found?.pool ?? connectionsTo(origin, this.settings.timeouts), version);
    this.kept.set(name, kept);
    const [oldest] = this.kept.keys();
    // Calls that have it go on with it; its connections end once they rest.
    if (this.kept.size > KEPT_MAX && oldest !== undefined) this.kept.delete(oldest);
    return kept;
  }

  private make(pool: Dispatcher, version: number): Kept {
    const breaker = createBreaker(this.settings.circuit_breaker);
    return { version, pool, breaker, troubles: {} };
  }

  async close(): Promise<void> {
    await Promise.all([...this.kept.values()].map(({ pool }) => pool.destroy()));
  }
}
