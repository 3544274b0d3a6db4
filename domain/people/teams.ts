import { AppError } from '../errors';
import { type ListRequest, listOf, type Part } from '../lists';
import type { Page } from '../pages';
import { type Db, many, maybe, one } from '../sql';
import { type EndedKeys, revokeTeamKeys } from './makers';
import { membersFound } from './member-lists';
import * as members from './members';
import { revokeKeysBelow } from './rising';
import type { Permission } from './roles';

// Who is in a team, and as what.

/** An admin of a team may spend its money on its members; a member draws on it by their calls. */
export type TeamRole = 'member' | 'admin';

/** A person in a team. */
export interface TeamMember {
  team_id: string;
  user_id: string;
  role: TeamRole;
}

/** A person in a team, with what people know them by. */
interface ListedMember extends TeamMember {
  name: string;
  email: string | null;
  created_at: Date;
}

/** A team that a person is in. */
export interface OwnTeam {
  team_id: string;
  name: string;
  role: TeamRole;
}

/** A person and a team of one organization. */
interface Place {
  org_id: string;
  team_id: string;
  user_id: string;
}

/**
 * Takes a member into a team. The organization is locked, so that neither ends meanwhile. Whoever
 * is in it already stays as they are, by hand from now on and no longer by a group; 409
 * `already_exists` if another role is asked for.
 */
export async function add(trx: Db, at: Place, role?: TeamRole): Promise<TeamMember> {
  const { org_id, team_id, user_id } = at;
  await requireTeam(trx, at);
  await members.get(trx, org_id, user_id);
  await many(
    trx,
    `with back as (delete from team_removals where team_id = :team_id and user_id = :user_id)
     insert into team_members as q (team_id, user_id, role) values (:team_id, :user_id, :role)
     on conflict (team_id, user_id) do update set granted_by = null where q.granted_by is not null`,
    { team_id, user_id, role: role ?? 'member' },
  );
  const found = await get(trx, at);
  if (found.role === 'admin') await revokeKeysBelow(trx, { ...at, gained: leading });
  if (role === undefined || found.role === role) return found;
  throw new AppError(
    'already_exists',
    `This person is in this team already, as ${found.role}. Change that: PUT .../teams/{team_id}/members/{user_id}.`,
    { param: 'role' },
  );
}

/** Who is in a living team, and as what; `not_found` if the organization has no such team. */
export async function list(
  db: Db,
  at: { org_id: string; team_id: string },
  { q, role }: { q?: string | undefined; role?: TeamRole | undefined },
  request: ListRequest,
): Promise<Page<ListedMember> | Part<ListedMember>> {
  await requireTeam(db, at);
  const conditions = [
    `from team_members l join memberships m on m.org_id = :org_id and m.user_id = l.user_id and m.archived_at is null
     where l.team_id = :team_id`,
    ...(role ? ['l.role = :role'] : []),
  ];
  return listOf(
    db,
    {
      name: 'team members',
      select: 'select l.team_id, l.user_id, m.name, m.email, l.role, l.created_at',
      from: conditions.join(' and '),
      bindings: { ...at, q: q ?? null, role: role ?? null, marks: [] },
      search: q
        ? {
            found: membersFound,
            id: 'm.user_id',
            plain: 'has_words(array[m.name, m.email], :q)',
            among:
              'select m.user_id from memberships m where m.org_id = :org_id and m.archived_at is null',
          }
        : undefined,
      id: 'l.user_id',
      created_at: 'l.created_at',
      orders: {
        created_at: { by: 'l.created_at', type: 'timestamptz' },
        name: { by: 'lower(m.name)', type: 'text' },
      },
    },
    request,
  );
}

/** The living teams of an organization that a person is in, by name. */
export function ofPerson(
  db: Db,
  { org_id, user_id }: { org_id: string; user_id: string },
): Promise<OwnTeam[]> {
  return many(
    db,
    `select t.id as team_id, t.name, m.role from team_members m
     join teams t on t.id = m.team_id and t.org_id = :org_id and t.archived_at is null
     where m.user_id = :user_id order by lower(t.name), t.id`,
    { org_id, user_id },
  );
}

/** A person in a team of the organization; `not_found` if they are not in it. */
export function get(db: Db, at: Place): Promise<TeamMember> {
  return one<TeamMember>(
    db,
    `select m.team_id, m.user_id, m.role from team_members m join teams t on t.id = m.team_id
     where m.team_id = :team_id and m.user_id = :user_id and t.org_id = :org_id and t.archived_at is null`,
    { ...at },
    'No member of this team',
  );
}

/** What an admin of a team may is a part of this permission. */
const leading: readonly Permission[] = ['org:billing'];

/**
 * Gives somebody another role in a team. Who becomes its admin loses the access keys that somebody
 * without that right made for them. The organization is locked.
 */
export async function setRole(trx: Db, at: Place, role: TeamRole): Promise<TeamMember> {
  await get(trx, at);
  await many(
    trx,
    'update team_members set role = :role, granted_by = null where team_id = :team_id and user_id = :user_id',
    { team_id: at.team_id, user_id: at.user_id, role },
  );
  if (role === 'admin') await revokeKeysBelow(trx, { ...at, gained: leading });
  return get(trx, at);
}

/**
 * Gives a place in a team by the groups of an issuer, as setRole does. A place that people gave or
 * took away, and a team that has ended, stay as they are. The organization is locked.
 */
export async function grant(
  trx: Db,
  at: Place,
  role: TeamRole,
  by: { issuer_id: string; subject: string },
): Promise<void> {
  const changed = await maybe(
    trx,
    `insert into team_members as q (team_id, user_id, role, granted_by)
     select t.id, :user_id, :role, :issuer_id from teams t
     where t.id = :team_id and t.org_id = :org_id and t.archived_at is null
       and not exists (select 1 from team_removals x where x.team_id = t.id and x.user_id = :user_id)
     on conflict (team_id, user_id) do update set role = excluded.role
     where q.granted_by = excluded.granted_by and q.role <> excluded.role
     returning q.user_id`,
    { ...at, role, issuer_id: by.issuer_id },
  );
  if (changed && role === 'admin') await revokeKeysBelow(trx, { ...at, gained: leading, by });
}

/**
 * Takes a person out of a team by hand, as takeBack does: no group gives the place back. The
 * organization is locked.
 */
export async function remove(trx: Db, at: Place): Promise<Pick<EndedKeys, 'revoked_keys'>> {
  const ended = await takeBack(trx, at);
  await many(
    trx,
    `insert into team_removals (team_id, user_id) values (:team_id, :user_id) on conflict do nothing`,
    { team_id: at.team_id, user_id: at.user_id },
  );
  return ended;
}

/** Takes a person out of a team, and ends the keys that were for this person in this team. */
export async function takeBack(trx: Db, at: Place): Promise<Pick<EndedKeys, 'revoked_keys'>> {
  await one(
    trx,
    `delete from team_members m using teams t
     where t.id = m.team_id and t.org_id = :org_id and m.team_id = :team_id and m.user_id = :user_id returning m.user_id`,
    { ...at },
    'No member of this team',
  );
  return revokeTeamKeys(trx, at);
}

/** True if the person is in this team of the organization. */
export async function includes(
  db: Db,
  at: Omit<Place, 'user_id'> & { user_id: string | null },
): Promise<boolean> {
  const row = await maybe(
    db,
    `select 1 from team_members m join teams t on t.id = m.team_id
     where m.team_id = :team_id and m.user_id = :user_id and t.org_id = :org_id`,
    at,
  );
  return row !== undefined;
}

/**
 * Refuses (403) a person who is not in the team that their token names: `not_team_member`, or
 * `permission_denied` if the organization has no such team.
 */
export async function requirePlace(db: Db, at: Place): Promise<void> {
  const found = await maybe<{ is_in: boolean }>(
    db,
    `select exists (select 1 from team_members m where m.team_id = t.id and m.user_id = :user_id) as is_in
     from teams t where t.id = :team_id and t.org_id = :org_id and t.archived_at is null`,
    { ...at },
  );
  if (found?.is_in) return;
  throw found === undefined
    ? new AppError(
        'permission_denied',
        'The claim "kt_team_id" of this assertion names no team of the organization that this gateway serves.',
        { param: 'team_id' },
      )
    : new AppError(
        'not_team_member',
        'The person of this assertion is not in the team that its claim "kt_team_id" names.',
        { param: 'kt_team_id' },
      );
}

async function requireTeam(db: Db, { org_id, team_id }: Omit<Place, 'user_id'>): Promise<void> {
  await one(
    db,
    'select 1 from teams where id = :team_id and org_id = :org_id and archived_at is null',
    { org_id, team_id },
    'No team',
  );
}
