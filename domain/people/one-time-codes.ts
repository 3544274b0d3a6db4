import { sha256 } from '../digest';
import { AppError } from '../errors';
import { type Db, many, maybe, one } from '../sql';
import { randomText } from './keys';
import type { Permission } from './roles';

// Values that are shown once and used once. The database keeps their hashes.

/** How long each is good, in seconds: five minutes, and a week. */
const LIFE_S = { session: 300, invitation: 604_800 } as const;

type Purpose = keyof typeof LIFE_S;

/** Which field of a sign-in takes a code of each purpose, and what the code is. */
const fields = {
  session: {
    param: 'one_time_code',
    what: 'This code signs in by itself. Send it as one_time_code.',
  },
  invitation: {
    param: 'invitation',
    what: 'This code is an invitation. Send it as invitation, with a sign-in by an identity provider.',
  },
} as const satisfies Record<Purpose, object>;

export interface NewCode {
  purpose: Purpose;
  org_id: string;
  user_id: string;
  /** Who makes it: a person or a key, the credential that was used, and what that may do. */
  by: { id: string; user_id: string | null; scopes: readonly Permission[] };
  /** Seconds that it is good, if not as long as others of its purpose. */
  life_s?: number;
}

/** What a code stands for. */
export interface UsedCode {
  org_id: string;
  user_id: string;
  created_by: string;
  created_with: string;
  scopes: Permission[];
}

/** Makes a code. Its value is in this answer and nowhere else. */
export async function create(
  trx: Db,
  { purpose, org_id, user_id, by, life_s = LIFE_S[purpose] }: NewCode,
): Promise<{ code: string; expires_at: Date }> {
  await many(
    trx,
    `delete from one_time_codes where hash in (select hash from one_time_codes
       where expires_at < clock_timestamp() - interval '1 day' limit 100 for update skip locked)`,
  );
  const code = `svc_otc_${randomText()}`;
  const { expires_at } = await one<{ expires_at: Date }>(
    trx,
    `insert into one_time_codes (hash, purpose, org_id, user_id, created_by, created_with, scopes, expires_at)
     values (:hash, :purpose, :org_id, :user_id, :created_by, :created_with, :scopes,
       clock_timestamp() + :life_s * interval '1 second') returning expires_at`,
    {
      hash: await sha256(code),
      purpose,
      org_id,
      user_id,
      created_by: by.user_id ?? by.id,
      created_with: by.id,
      scopes: [...by.scopes],
      life_s,
    },
  );
  return { code, expires_at };
}

/** Voids the open codes by which a person may sign in, as far as `created_by` has made them. */
export async function voidSignIns(
  trx: Db,
  of: { org_id: string; user_id: string; created_by: string },
): Promise<void> {
  await many(
    trx,
    `update one_time_codes set expires_at = clock_timestamp()
     where purpose = 'session' and org_id = :org_id and user_id = :user_id and created_by = :created_by
       and used_at is null and expires_at > clock_timestamp()`,
    of,
  );
}

/**
 * Uses up a code, in the transaction of what it is used for. Throws `invalid_credential` for one
 * that is unknown, used or too old; `param` is the field that carries it, or should: a living code
 * of another purpose stays as it is.
 */
export async function use(trx: Db, code: string, purpose: Purpose): Promise<UsedCode> {
  const hash = await sha256(code);
  const used = await maybe<UsedCode>(
    trx,
    `update one_time_codes set used_at = clock_timestamp()
     where hash = :hash and purpose = :purpose and used_at is null and expires_at > clock_timestamp()
     returning org_id, user_id, created_by, created_with, scopes`,
    { hash, purpose },
  );
  if (used) return used;
  const other = await maybe<{ purpose: Purpose }>(
    trx,
    `select purpose from one_time_codes
     where hash = :hash and used_at is null and expires_at > clock_timestamp()`,
    { hash },
  );
  if (other && other.purpose !== purpose) {
    const { what, param } = fields[other.purpose];
    throw new AppError('invalid_credential', what, { param });
  }
  throw new AppError(
    'invalid_credential',
    'This code is unknown, used, void or too old. Ask for a new one.',
    { param: fields[purpose].param },
  );
}

/** No id token is taken that is older: ten minutes, and the leeway of clocks. */
const ID_TOKEN_AGE_S = 900;

/**
 * Uses up a verified id token, in the transaction of the sign-in. Throws `invalid_credential` for
 * one that somebody has signed in by.
 */
export async function useIdToken(trx: Db, id_token: string): Promise<void> {
  await many(
    trx,
    `delete from used_id_tokens where hash in (select hash from used_id_tokens
       where used_at < clock_timestamp() - :age_s * interval '1 second' limit 100 for update skip locked)`,
    { age_s: ID_TOKEN_AGE_S },
  );
  // The signature is left out: one text can be signed, and one signature spelt, in several ways.
  const signed = id_token.slice(0, id_token.lastIndexOf('.'));
  const used = await maybe(
    trx,
    'insert into used_id_tokens (hash) values (:hash) on conflict do nothing returning hash',
    { hash: await sha256(signed) },
  );
  if (used) return;
  throw new AppError(
    'invalid_credential',
    'This id token is refused: somebody has signed in by it already. Sign in at the identity provider again.',
    { param: 'id_token' },
  );
}

/** Voids the open invitations for a member, and `with_made` those that the member may have made. */
export async function voidInvitations(
  trx: Db,
  at: { org_id: string; user_id: string; with_made: boolean },
): Promise<void> {
  await many(
    trx,
    `update one_time_codes set expires_at = clock_timestamp()
     where purpose = 'invitation' and org_id = :org_id and used_at is null and expires_at > clock_timestamp()
       and (user_id = :user_id or (:with_made and (created_by = :user_id
         or array[created_by, created_with] && array(select keys_held_by_2(:org_id, :user_id)))))`,
    at,
  );
}
