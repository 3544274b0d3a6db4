import { AppError } from '../errors';
import { type Db, many } from '../sql';
import { unbind } from './identities';
import { type Caller, isOwner, requirePerson } from './rights';
import { type Permission, type Role, rolePermissions } from './roles';
import { type Token, tokenRows } from './tokens';

// Whoever made a key, or drew a new value of it, answers for it: it falls with that person's
// rights, and so does what was made with it.

/** A key that is neither revoked nor expired. */
const living = 'revoked_at is null and coalesce(expires_at > clock_timestamp(), true)';

/** In place of names: all of them. */
const ALL = '*';

export interface EndedKeys {
  /** Revoked in this step. */
  revoked_keys: Token[];
  /** Named in keep_keys: they are the caller's now. */
  kept_keys: Token[];
}

/**
 * Revokes the living keys that a person may hold: those that they made or renewed, those that were
 * made with these, and with `with_own` those that stand for the person. The kept ones, by name or
 * id or all of them by `*`, become the caller's and lose the scopes that the caller lacks. The
 * organization is locked.
 */
export async function revokeKeysOf(
  trx: Db,
  at: { org_id: string; user_id: string; with_own: boolean },
  { caller, keep_keys }: { caller: Caller; keep_keys: readonly string[] },
): Promise<EndedKeys> {
  const { org_id } = at;
  const ending = await many<Token>(
    trx,
    `${tokenRows} and (t.user_id = :user_id or t.id in (select keys_held_by(:org_id, :user_id)))
     and (:with_own or t.user_id is distinct from :user_id)
     and t.id = any(array(select id from tokens where org_id = :org_id and ${living})) order by t.id desc`,
    at,
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
  await keep(trx, kept, caller);
  return {
    revoked_keys: await tokensOf(trx, org_id, revoked),
    kept_keys: await tokensOf(trx, org_id, kept),
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

/**
 * Revokes the access keys that stand for a person who gains permissions, and that somebody who
 * lacks one of them made: whoever holds such a key would rise with them. So would whoever signs in
 * by a subject that such a maker had bound to the person, so that is unbound, and its sessions end.
 * What is gained `by` the groups of a subject is its own.
 */
export async function revokeKeysBelow(
  trx: Db,
  { org_id, user_id, gained, by }: Gain,
): Promise<Token[]> {
  const made = await many<{ id: string; role: Role | null }>(
    trx,
    `select t.id, m.role from tokens t
     left join memberships m on m.org_id = t.org_id and m.user_id = t.created_by and m.archived_at is null
     where t.org_id = :org_id and t.user_id = :user_id and t.token_type = 'access' and t.revoked_at is null
       and t.created_by is distinct from :user_id`,
    { org_id, user_id },
  );
  const isBelow = (maker: Role | null) =>
    maker !== null && gained.some((scope) => !rolePermissions[maker].includes(scope));
  const bound = await many<{ id: string; role: Role | null }>(
    trx,
    `select i.id, m.role from identities i
     left join memberships m on m.org_id = i.org_id and m.user_id = i.created_by and m.archived_at is null
     where i.org_id = :org_id and i.user_id = :user_id
       and (i.issuer_id, i.subject) is distinct from (:issuer_id::text, :subject::text)`,
    { org_id, user_id, issuer_id: by?.issuer_id ?? null, subject: by?.subject ?? null },
  );
  for (const { id } of bound.filter((one) => isBelow(one.role)))
    await unbind(trx, { id, org_id, user_id });
  const ids = made.filter((one) => isBelow(one.role)).map(({ id }) => id);
  await many(trx, 'update tokens set revoked_at = clock_timestamp() where id = any(:ids)', { ids });
  return tokensOf(trx, org_id, ids);
}

/** What a member gains. */
interface Gain {
  org_id: string;
  user_id: string;
  gained: readonly Permission[];
  by?: { issuer_id: string; subject: string };
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

function tokensOf(trx: Db, org_id: string, ids: string[]): Promise<Token[]> {
  return many(trx, `${tokenRows} and t.id = any(:ids) order by t.id desc`, { org_id, ids });
}
