import type { Proof } from '../trace';

// The caller of a gateway, as gateway and API describe it to each other.

/** The most characters of a `sub`: as many as OpenID Connect Core 1.0, section 2, lets it have. */
export const SUBJECT_MAX = 255;

/**
 * Asks for the owner of a gateway key: by the key itself, or by its id if another proof names it.
 */
export type Verify = { key: string } | { org_id: string; key_id: string };

/** A verify as it is sent: the API refuses any other mix of the members. */
export interface VerifyBody {
  key?: string | undefined;
  org_id?: string | undefined;
  key_id?: string | undefined;
}

/**
 * Asks whom a subject of an issuer stands for in an organization, for a key of theirs, and whether
 * they are in a team. Without an issuer the subject is the id of a user.
 */
export interface PersonBody {
  org_id: string;
  issuer?: string | undefined;
  subject: string;
  key_id?: string | undefined;
  team_id?: string | undefined;
}

/** A caller whom a gateway has identified, as far as they are proved. */
export interface CallerBody {
  org_id: string;
  key_id?: string | null | undefined;
  secret_id?: string | null | undefined;
  user_id?: string | null | undefined;
  team_id?: string | null | undefined;
}

/** Whom a subject stands for, and the key that was named: a living one of that person. */
export interface Person {
  user_id: string;
  org_id: string;
  key: KeyOwner | null;
}

/** The owner of a gateway key. Only a reserve or a verify shows whether the key is still valid. */
export interface KeyOwner {
  key_id: string;
  /** Changes when the key is rotated. */
  secret_id: string;
  /** Null for a key of the platform. */
  org_id: string | null;
  user_id: string | null;
  team_id: string | null;
  agent_id: string | null;
  /** Null is every model. */
  allowed_models: readonly string[] | null;
  /** The key's own limits, in place of those for every key; absent if it has none. */
  rate_limits?: KeyLimits | undefined;
  /** Its callers are told what calls cost, unless a call says otherwise; absent: they are not. */
  include_cost?: boolean | undefined;
  expires_at: Date | null;
}

/** Limits of one key; null: as the gateway's configuration says of every key. */
export interface KeyLimits {
  rpm: number | null;
  tpm: number | null;
  max_parallel_requests: number | null;
}

/**
 * The caller. In header_soft user and team come from headers: they are counted, and their wallets
 * never pay.
 */
export interface Identity
  extends Pick<
    KeyOwner,
    'user_id' | 'team_id' | 'agent_id' | 'allowed_models' | 'rate_limits' | 'include_cost'
  > {
  proof: Proof;
  org_id: string;
  key_id: string | null;
  secret_id: string | null;
}

/**
 * True if a key with this list of models, or tools, may use one: the list names it, or a beginning
 * of it with a star behind. Null is a list of all.
 */
export function mayUse(allowed: readonly string[] | null, name: string): boolean {
  if (allowed === null) return true;
  return allowed.some((one) => one === name || (one.endsWith('*') && begins(one, name)));
}

function begins(pattern: string, name: string): boolean {
  return name.startsWith(pattern.slice(0, -1));
}
