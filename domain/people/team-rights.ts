import { AppError } from '../errors';
import { type Db, many, maybe } from '../sql';
import { type Caller, isOwner, lockAsNow, may } from './rights';
import { type Permission, type Role, rolePermissions } from './roles';

// What an admin of a team may do there without a permission of the organization: allocate its money
// to its members, decide on its tickets, and see what it spends.

/** By which right somebody acts: a permission of theirs, or as admin of the team. */
export type Right = 'permission' | 'team_admin';

/**
 * Takes the organization's one lock and reads again what the caller may: whoever carries the
 * permission, and an admin of the team. 403 for everybody else, whether there is such a team or
 * not. What a team's admin may is less than what the permission gives: the caller looks at `right`.
 */
export async function lockForTeam<Given extends Caller>(
  trx: Db,
  { org_id, team_id }: { org_id: string; team_id: string | null },
  caller: Given,
  permission: Permission,
): Promise<{ caller: Given; right: Right }> {
  const now = await lockAsNow(trx, org_id, caller);
  if (may(now, permission)) return { caller: now, right: 'permission' };
  if (team_id !== null && (await leads(trx, { org_id, team_id, user_id: now.user_id })))
    return { caller: now, right: 'team_admin' };
  throw noRight(permission);
}

/** As `lockForTeam`, for who only looks: 403 unless they carry the permission or lead the team. */
export async function requireLeading(
  db: Db,
  at: { org_id: string; team_id: string },
  caller: Caller,
  permission: Permission,
): Promise<void> {
  if (may(caller, permission)) return;
  if (!(await leads(db, { ...at, user_id: caller.user_id }))) throw noRight(permission);
}

function noRight(permission: Permission): AppError {
  return new AppError(
    'permission_denied',
    `This needs the permission ${permission}, or that you are an admin of the team.`,
  );
}

/** True if the person is an admin of this living team, and a member of its organization. */
export async function leads(
  db: Db,
  at: { org_id: string; team_id: string; user_id: string | null },
): Promise<boolean> {
  if (at.user_id === null) return false;
  return (await maybe(db, `${ledBy} and t.id = :team_id`, at)) !== undefined;
}

/** The teams whose admin a person is: what a list shows to them. Empty for a key of nobody. */
export async function teamsLedBy(
  db: Db,
  { org_id, user_id }: { org_id: string; user_id: string | null },
): Promise<string[]> {
  if (user_id === null) return [];
  const rows = await many<{ id: string }>(db, ledBy, { org_id, user_id });
  return rows.map(({ id }) => id);
}

/**
 * The same as a query, for the conditions of others; the arguments name bindings: the organization
 * and the person.
 */
export function ledTeams(org_id: string, user_id: string): string {
  return `select t.id from team_members l
  join teams t on t.id = l.team_id and t.org_id = :${org_id} and t.archived_at is null
  join memberships m on m.org_id = t.org_id and m.user_id = l.user_id and m.archived_at is null
  where l.user_id = :${user_id} and l.role = 'admin'`;
}

const ledBy = ledTeams('org_id', 'user_id');

/**
 * Whoever holds an access key for an admin of a team spends the team's money. So does only who may
 * move money, and the person: 403 for others.
 */
export async function requireTeamRank(
  db: Db,
  { org_id, user_id, caller }: { org_id: string; user_id: string; caller: Caller },
  param: string,
): Promise<void> {
  if (user_id === caller.user_id || may(caller, 'org:billing')) return;
  if ((await teamsLedBy(db, { org_id, user_id })).length === 0) return;
  throw new AppError(
    'permission_denied',
    'This person is the admin of a team and may spend its money, so whoever has a key or a sign-in that stands for them needs the permission org:billing.',
    { param },
  );
}

/**
 * Nobody makes themselves the admin of a team: whoever manages people would give themselves its
 * money. Nor does anybody with a credential that the person may hold: one that they made, or whose
 * way they opened, for another member. Whoever may move money has that already. The organization
 * is locked.
 */
export async function requireOther(
  trx: Db,
  { org_id, user_id, caller }: { org_id: string; user_id: string; caller: Caller },
): Promise<void> {
  if (isOwner(caller)) return;
  const isOwn = user_id === caller.user_id;
  if (!isOwn && !(await mayHold(trx, { org_id, user_id, caller_id: caller.id }))) return;
  throw new AppError(
    'permission_denied',
    isOwn
      ? 'Nobody makes themselves the admin of a team. Ask an owner, or another admin.'
      : 'Nobody makes themselves the admin of a team, and this person made the key, or opened the way to the sign-in, that asks for it. Ask an owner, or another admin.',
    { param: 'role' },
  );
}

/**
 * True if a member without `org:billing` made, renewed or bound a credential, or one with which
 * that was done.
 */
async function mayHold(
  trx: Db,
  at: { org_id: string; user_id: string; caller_id: string },
): Promise<boolean> {
  const found = await maybe<{ role: Role }>(
    trx,
    `with recursive up (id) as (
       values (:caller_id)
       union
       select h.holder from up join tokens k on k.id = up.id and k.org_id = :org_id
       cross join lateral token_holders(k.id, null) as h (holder)
     )
     select m.role from memberships m
     where m.org_id = :org_id and m.user_id = :user_id and m.archived_at is null and m.user_id in (select id from up)`,
    at,
  );
  return found !== undefined && !rolePermissions[found.role].includes('org:billing');
}

/**
 * Refuses (422) a person who is not in the team; `param` is the field that is wrong. What they are
 * in it stays so until the transaction ends.
 */
export async function requireInTeam(
  trx: Db,
  { team_id, user_id }: { team_id: string; user_id: string },
  param = 'team_id',
): Promise<void> {
  const found = await maybe(
    trx,
    'select 1 from team_members where team_id = :team_id and user_id = :user_id for share',
    { team_id, user_id },
  );
  if (found !== undefined) return;
  throw new AppError(
    'invalid_field',
    'This person is not in this team. Take them in first, or leave out user_id or team_id.',
    { param },
  );
}
