import type { NamedId, StoredId } from '../../domain/ledger/calls';

// The control plane knows them by then, with the settlement.
const KEPT_MS = 600_000;
const KEPT_MAX = 20_000;

/** Whose a stored thing is. */
export interface IdOwner {
  org_id: string;
  /** Null if nobody has proved who calls. */
  user_id: string | null;
}

/**
 * What providers keep of the answers that this gateway has given, until the control plane knows it:
 * a client may name an answer before its call is settled.
 */
export interface StoredIds {
  /** `target_id` says at which target it was made. */
  note(owner: IdOwner, stored: StoredId, target_id?: string): void;
  /** Who keeps a thing; undefined if nobody knows here that the owner may name it. */
  keeperOf(owner: IdOwner, named: NamedId): Keeper | undefined;
}

/** The provider that keeps a thing, and in whose account: of an own key, else the platform's. */
export interface Keeper {
  provider: string;
  provider_key_id: string | null;
  target_id?: string | undefined;
}

interface Kept extends Keeper {
  user_id: string | null;
  until: number;
}

export function createStoredIds(now: () => number = () => performance.now()): StoredIds {
  // The oldest is the first, as a map keeps the order in which its keys came.
  const kept = new Map<string, Kept>();
  return {
    note({ org_id, user_id }, { provider, provider_key_id = null, kind, id }, target_id) {
      const key = keyOf(org_id, { kind, id });
      // It stays whose it is, as in the ledger.
      if ((kept.get(key)?.until ?? 0) > now()) return;
      kept.delete(key);
      for (const [oldest, { until }] of kept) {
        if (until > now() && kept.size < KEPT_MAX) break;
        kept.delete(oldest);
      }
      kept.set(key, { provider, provider_key_id, target_id, user_id, until: now() + KEPT_MS });
    },
    keeperOf({ org_id, user_id }, named) {
      const found = kept.get(keyOf(org_id, named));
      if (found === undefined || found.until <= now()) return undefined;
      const is_shared = found.user_id === null || user_id === null || found.user_id === user_id;
      return is_shared ? found : undefined;
    },
  };
}

function keyOf(org_id: string, { kind, id }: NamedId): string {
  return JSON.stringify([org_id, kind, id]);
}
