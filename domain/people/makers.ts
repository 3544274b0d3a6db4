import { AppError } from '../errors';
import { type Db, many } from '../sql';
import { signedInBy, type Unbound, unbindThoseOf } from './identities';
import { voidInvitations } from './one-time-codes';
import { type Caller, isOwner, requirePerson } from './rights';
import { rolePermissions } from './roles';
import { type Token, tokenRows } from './tokens';

// Whoever made a key, or drew a new value of it, or bound the sign-in with which it was made,
// answers for it: it falls with that person's rights, and so does what was made with it.

/** A key that is neither revoked nor expired. */
const living = 'revoked_at is null and coalesce(expires_at > clock_timestamp(), true)';

/** In place of names: all of them. */
const ALL = '*';

export interface EndedKeys {
  /** Revoked in this step. */
  revoked_keys: Token[];
  /** Named in keep_keys: they are the caller's now. */
  kept_keys: Token[];
  /** Subjects that were bound by those whose keys ended. */
  unbound_identities: Unbound[];
}

/**
 * Revokes the living keys that a person may hold: those that they made or renewed, those that were
 * made with these, and with `with_own` those that stand for the person. The kept ones, by name or
 * id or all of them by `*`, become the caller's and lose the scopes that the caller lacks. What
 * such a person bound is unbound, and no invitation of theirs is good any more, also if their keys
 * are kept. The organization is locked.
 */
export async function revokeKeysOf(
  trx: Db,
  at: { org_id: string; user_id: string; with_own: boolean },
  { caller, keep_keys }: { caller: Caller; keep_keys: readonly string[] },
): Promise<EndedKeys> {
  const { org_id } = at;
  const ending = await many<Token>(
    trx,
    `${tokenRows(org_id)} and (t.user_id = :user_id or t.id in (select keys_held_by_2(:org_id, :user_id, :own)))
     and (:with_own or t.user_id is distinct from :user_id)
     and t.id = any(array(select id from tokens where org_id = :org_id and ${living})) order by t.id desc`,
    { ...at, own: await signedInBy(trx, caller.id) },
  );
  const keepable = ending.filter((one) => one.user_id !== at.user_id).map(({ id }) => id);
  const named = keep_keys.includes(ALL) ? keepable : keep_keys;
  const kept = named.map((name, n) => {
    const token = ending.find(({ id }) => id === name) ?? ending.find((one) => one.name === name);
    const param = `keep_keys.${n}`;
    if (token === undefined)
      throw new AppError('not_found', `No living key of this maker was found as ${name}.`, {
        param,
      });
    if (token.user_id === at.user_id)
      throw new AppError('invalid_field', `${name} stands for this person, so it cannot be kept.`, {
        param,
      });
    requirePerson(caller, token, param);
    return token.id;
  });
  const revoked = ending.map(({ id }) => id).filter((id) => !kept.includes(id));
  await many(
    trx,
    'update tokens set revoked_at = clock_timestamp() where id = any(:revoked) and revoked_at is null',
    { revoked },
  );
  await endSessions(trx, at, [...revoked, ...kept]);
  await voidInvitations(trx, { org_id, user_id: at.user_id, with_made: true });
  const unbound_identities = await unbindThoseOf(trx, { ...at, caller_id: caller.id });
  await keep(trx, kept, caller);
  return {
    revoked_keys: await tokensOf(trx, org_id, revoked),
    kept_keys: await tokensOf(trx, org_id, kept),
    unbound_identities,
  };
}

/**
 * Ends the sessions that were made with keys, and with `with_own` those of the person. Those of a
 * kept key go too: its former holder has them.
 */
async function endSessions(
  trx: Db,
  at: { org_id: string; user_id: string; with_own: boolean },
  keys: readonly string[],
): Promise<void> {
  await many(
    trx,
    `update tokens set revoked_at = clock_timestamp()
     where org_id = :org_id and purpose = 'session' and revoked_at is null
       and (made_with = any(:keys) or (:with_own and user_id = :user_id))`,
    { ...at, keys },
  );
}

/** Revokes the living keys for a person in a team. */
export async function revokeTeamKeys(
  trx: Db,
  at: { org_id: string; team_id: string; user_id: string },
): Promise<Pick<EndedKeys, 'revoked_keys'>> {
  const ended = await many<{ id: string }>(
    trx,
    `update tokens set revoked_at = clock_timestamp()
     where org_id = :org_id and team_id = :team_id and user_id = :user_id and ${living} returning id`,
    at,
  );
  return {
    revoked_keys: await tokensOf(
      trx,
      at.org_id,
      ended.map(({ id }) => id),
    ),
  };
}

/** Revokes the living keys of a team or agent. */
export async function revokeKeysFor(
  trx: Db,
  column: 'team_id' | 'agent_id',
  row: { org_id: string; id: string },
): Promise<void> {
  await many(
    trx,
    `update tokens set revoked_at = clock_timestamp() where org_id = :org_id and ${column} = :id and ${living}`,
    row,
  );
}

async function keep(trx: Db, ids: string[], caller: Caller): Promise<void> {
  const scopes = isOwner(caller) ? rolePermissions.owner : caller.scopes;
  await many(
    trx,
    `update tokens set created_by = maker_of(:caller_id), made_with = null,
       scopes = array(select s from unnest(scopes) with ordinality as q (s, n) where s = any(:scopes) order by n)
     where id = any(:ids)`,
    { ids, caller_id: caller.id, scopes: [...scopes] },
  );
  await many(
    trx,
    `update token_secrets set issued_to = maker_of(:caller_id), issued_with = null
     where token_id = any(:ids)`,
    { ids, caller_id: caller.id },
  );
}

/** The keys of these ids, newest first. */
export function tokensOf(trx: Db, org_id: string, ids: string[]): Promise<Token[]> {
  return many(trx, `${tokenRows(org_id)} and t.id = any(:ids) order by t.id desc`, { org_id, ids });
}
