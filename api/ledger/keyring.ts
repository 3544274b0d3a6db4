import { sha256 } from '../../domain/digest';
import * as keys from '../../domain/people/keys';
import * as tokens from '../../domain/people/living-tokens';
import type { Db } from '../../domain/sql';

const HASHES_MAX = 10_000;

export type Keyring = ReturnType<typeof createKeyring>;

/** A service's key that was good when it was looked at last. */
interface Remembered {
  hash: string;
  token: tokens.LivingToken;
}

interface KeyCheck {
  hash: string;
  is_use: boolean;
  resolve: (token: tokens.LivingToken) => void;
  reject: (error: unknown) => void;
}

/**
 * Checks keys against the database, never against memory: a revoked key is refused at once. Checks
 * that come while one is out go together in the next, which begins after they came, so that none is
 * answered from before its own time. What it remembers of services serves those who have the key
 * looked at later, with what it asks for.
 */
export function createKeyring(db: Db) {
  const hashes = new Map<string, string>();
  const services = new Map<string, Remembered>();
  let waiting: KeyCheck[] = [];
  let is_out = false;

  async function run(): Promise<void> {
    is_out = true;
    while (waiting.length > 0) {
      const batch = waiting;
      waiting = [];
      await answer(db, batch);
    }
    is_out = false;
  }

  return {
    /**
     * The living token of a key now; `invalid_credential` for one mistyped, unknown, expired or
     * revoked, `organization_suspended` for one of a suspended organization. A look that is no use
     * makes no session live longer.
     */
    async check(key: string, { is_use = true } = {}): Promise<tokens.LivingToken> {
      const hash = hashes.get(key) ?? (await hashOf(key));
      if (hash === undefined) throw keys.invalidKey();
      if (hashes.size >= HASHES_MAX) hashes.clear();
      hashes.set(key, hash);
      const token = new Promise<tokens.LivingToken>((resolve, reject) => {
        waiting.push({ hash, is_use, resolve, reject });
      });
      if (!is_out) void run();
      // While it is looked at it stays remembered: whoever goes by that checks it themselves.
      const found = await token.catch((error) => {
        services.delete(key);
        throw error;
      });
      if (isService(found)) services.set(key, { hash, token: found });
      else services.delete(key);
      return found;
    },
    /** The key of a service that was good when it was checked last: whoever asks must check it. */
    remembered: (key: string): Remembered | undefined => services.get(key),
  };
}

/** Of nobody, whose role would decide what it may do. */
function isService({ token_type, user_id, scopes }: tokens.LivingToken): boolean {
  return token_type === 'access' && user_id === null && scopes.includes('control_plane');
}

async function hashOf(key: string): Promise<string | undefined> {
  return (await keys.isWellFormed(key)) ? sha256(key) : undefined;
}

async function answer(db: Db, batch: KeyCheck[]): Promise<void> {
  try {
    const used = new Set(batch.filter(({ is_use }) => is_use).map(({ hash }) => hash));
    const hashes = [...new Set(batch.map(({ hash }) => hash))];
    const living = await tokens.findLiving(db, hashes, (hash) => used.has(hash));
    for (const { hash, resolve, reject } of batch) {
      const token = living.get(hash);
      if (token?.is_suspended) reject(keys.suspended());
      else if (token) resolve(token);
      else reject(keys.invalidKey());
    }
  } catch (error) {
    for (const { reject } of batch) reject(error);
  }
}
