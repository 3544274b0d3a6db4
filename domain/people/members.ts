import { AppError } from '../errors';
import { lockOrganization } from '../known';
import { busy, type Db, many, maybe, one } from '../sql';
import { type EndedKeys, revokeKeysOf } from './makers';
import { unique } from './organizations';
import { type Caller, requireRank, requireScopes } from './rights';
import { followRole, isLess, revokeKeysBelow } from './rising';
import { type Role, rolePermissions } from './roles';

export interface Member {
  user_id: string;
  name: string;
  email: string | null;
  role: Role;
  created_at: Date;
}

/** A member's columns, of `livingMembers`. */
export const memberColumns = 'select m.user_id, m.name, m.email, m.role, m.created_at';
/** The members of an organization. */
export const livingMembers =
  'from memberships m where m.org_id = :org_id and m.archived_at is null';

export function get(db: Db, org_id: string, user_id: string): Promise<Member> {
  return one(
    db,
    `${memberColumns} ${livingMembers} and m.user_id = :user_id`,
    { org_id, user_id },
    'No member',
  );
}

/** A person's name or address is changed. */
export interface MemberChange {
  name?: string | undefined;
  email?: string | null | undefined;
}

/**
 * Takes the locks of all organizations that a person is a member of, in the order of their ids, so
 * that two who do so never wait for each other. Answers which they are.
 */
export async function lockOrganizationsOf(trx: Db, user_id: string): Promise<string[]> {
  const of = (await livingOrganizations(trx, user_id)).sort();
  for (const org_id of of) await lockOrganization(trx, org_id);
  return of;
}

async function livingOrganizations(trx: Db, user_id: string): Promise<string[]> {
  const rows = await many<{ org_id: string }>(
    trx,
    'select org_id from memberships where user_id = :user_id and archived_at is null',
    { user_id },
  );
  return rows.map(({ org_id }) => org_id);
}

/**
 * Gives a person another name or e-mail address. Whoever is known to other organizations too is
 * theirs as well: only the platform renames them, and the address is nobody else's in any of them.
 * All of the person's organizations are locked if the caller may rename anyone (`locked`); one that
 * they join meanwhile is 503.
 */
export async function rename(
  trx: Db,
  subject: Subject,
  { name, email }: MemberChange,
  { may_rename_anyone, locked }: { may_rename_anyone: boolean; locked: readonly string[] },
): Promise<Member> {
  const { org_id, user_id } = subject;
  await get(trx, org_id, user_id);
  const elsewhere = await maybe(
    trx,
    'select 1 from memberships where user_id = :user_id and org_id <> :org_id limit 1',
    { ...subject },
  );
  if (elsewhere !== undefined && !may_rename_anyone)
    throw new AppError(
      'permission_denied',
      'This person is known to other organizations too. Ask a platform admin to rename them.',
      { param: 'user_id' },
    );
  // Whoever takes the person in elsewhere waits for this, or this for them.
  await many(trx, 'select from users where id = :user_id for no key update', { user_id });
  const all = await livingOrganizations(trx, user_id);
  if (all.some((one) => one !== org_id && !locked.includes(one))) throw busy();
  await many(
    trx,
    `update users set name = coalesce(:name, name), email = case when :keeps_email then email else :email end
     where id = :user_id`,
    { user_id, name: name ?? null, email: email ?? null, keeps_email: email === undefined },
  );
  const renamed = await get(trx, org_id, user_id);
  if (email) for (const one of all) await requireOwnEmail(trx, one, renamed);
  return renamed;
}

interface NewMember {
  user_id?: string | undefined;
  name?: string | undefined;
  email?: string | undefined;
  issuer?: string | undefined;
  subject?: string | undefined;
  role: Role;
}

/**
 * Takes a person into the organization: a new one by name, or a known one by id. A former member
 * comes back, and rises from no rights to those of the role: sign-ins that somebody below it had
 * bound to them are unbound. People of other organizations can be named by platform admins only;
 * for all others they do not exist. The organization is locked.
 */
export function add(
  db: Db,
  org_id: string,
  { role, user_id, ...person }: NewMember,
  may_name_anyone = false,
): Promise<Member> {
  return db.transaction(async (trx) => {
    const id = user_id ?? (await createUser(trx, person));
    await one(
      trx,
      `select 1 from users u where u.id = :id and (:is_visible
         or exists (select 1 from memberships m where m.user_id = u.id and m.org_id = :org_id)) for share of u`,
      { id, org_id, is_visible: may_name_anyone || user_id === undefined },
      'No user',
    );
    const joined = await maybe(
      trx,
      `insert into memberships (org_id, user_id, role) values (:org_id, :id, :role)
       on conflict (org_id, user_id) do update set role = excluded.role, granted_by = null, archived_at = null, created_at = clock_timestamp(),
         name = excluded.name, email = excluded.email
       where memberships.archived_at is not null returning user_id`,
      { org_id, id, role },
    );
    if (!joined)
      throw new AppError('already_exists', 'This user is a member already.', { param: 'user_id' });
    await revokeKeysBelow(trx, { org_id, user_id: id, gained: rolePermissions[role] });
    const member = await get(trx, org_id, id);
    await requireOwnEmail(trx, org_id, member);
    return member;
  });
}

/** In place of the id of an identity provider: people gave the role, or took one away. */
const BY_HAND = 'hand';

/** Whom a change is about. */
interface Subject {
  org_id: string;
  user_id: string;
}

/** Who makes a change, with the rights that they have under the organization's lock. */
interface By {
  caller: Caller;
  /** Keys that the person made, by name or id, which become the caller's. */
  keep_keys?: readonly string[] | undefined;
}

/**
 * Gives a member another role; the permissions of their keys follow at once. What falls with the
 * change is in `followRole`.
 */
export async function setRole(
  trx: Db,
  subject: Subject,
  role: Role,
  { caller, keep_keys = [] }: By,
): Promise<Member & EndedKeys> {
  const { org_id, user_id } = subject;
  const before = await get(trx, org_id, user_id);
  requireRank(caller, before.role);
  requireScopes(caller, rolePermissions[role], 'role');
  if (role !== 'owner') await requireAnotherOwner(trx, subject);
  const change = { org_id, user_id, before: before.role, role };
  // What groups gave or may give again is the organization's own from now on: a sign-in leaves it.
  await many(
    trx,
    `update memberships set role = :role, granted_by = case when :is_less or granted_by is not null then '${BY_HAND}' end
     where org_id = :org_id and user_id = :user_id and archived_at is null`,
    { org_id, user_id, role, is_less: isLess(change) },
  );
  const ended = await followRole(trx, change, { caller, keep_keys });
  return { ...(await get(trx, org_id, user_id)), ...ended };
}

/** An organization that had an owner keeps one. */
async function requireAnotherOwner(trx: Db, { org_id, user_id }: Subject): Promise<void> {
  const owners = await many<{ user_id: string }>(
    trx,
    `select user_id from memberships where org_id = :org_id and role = 'owner' and archived_at is null`,
    { org_id },
  );
  if (owners.length !== 1 || owners[0]?.user_id !== user_id) return;
  throw new AppError(
    'last_owner',
    'This is the last owner of the organization. Make another member the owner first.',
    { param: 'user_id' },
  );
}

/** The organizations that a person is a member of, oldest membership first. */
export async function organizationsOf(db: Db, user_id: string): Promise<string[]> {
  const rows = await many<{ org_id: string }>(
    db,
    `select m.org_id from memberships m join organizations o on o.id = m.org_id and o.archived_at is null
     where m.user_id = :user_id and m.archived_at is null order by m.created_at, m.org_id`,
    { user_id },
  );
  return rows.map(({ org_id }) => org_id);
}

/**
 * Removes a member, and revokes in the same transaction their keys of this organization and those
 * that they made.
 */
export async function remove(
  trx: Db,
  subject: Subject,
  { caller, keep_keys = [] }: By,
): Promise<EndedKeys> {
  const { org_id, user_id } = subject;
  requireRank(caller, (await get(trx, org_id, user_id)).role);
  await requireAnotherOwner(trx, subject);
  const bindings = { org_id, user_id };
  await many(
    trx,
    `update memberships set archived_at = clock_timestamp()
     where org_id = :org_id and user_id = :user_id and archived_at is null`,
    bindings,
  );
  await many(
    trx,
    'delete from team_members m using teams t where t.id = m.team_id and t.org_id = :org_id and m.user_id = :user_id',
    bindings,
  );
  await many(
    trx,
    'delete from team_removals q using teams t where t.id = q.team_id and t.org_id = :org_id and q.user_id = :user_id',
    bindings,
  );
  return revokeKeysOf(trx, { ...subject, with_own: true }, { caller, keep_keys });
}

/** People of one organization are told apart by their e-mail addresses. */
async function requireOwnEmail(
  trx: Db,
  org_id: string,
  { user_id, email }: Pick<Member, 'user_id' | 'email'>,
): Promise<void> {
  if (email === null) return;
  const other = await maybe(
    trx,
    `select 1 ${livingMembers} and lower(m.email) = lower(:email) and m.user_id <> :user_id limit 1`,
    { org_id, user_id, email },
  );
  if (other)
    throw new AppError(
      'already_exists',
      'A member has this e-mail address already. Give another one, or change the role of that member.',
      { param: 'email' },
    );
}

async function createUser(
  trx: Db,
  { name, email, issuer, subject }: Omit<NewMember, 'role' | 'user_id'>,
): Promise<string> {
  if (name === undefined)
    throw new AppError(
      'invalid_field',
      'Give a name for a new user or the user_id of a known one.',
      { param: 'name' },
    );
  const made = await unique('This issuer and subject belong to a user already.', () =>
    one<{ id: string }>(
      trx,
      'insert into users (name, email, issuer, subject) values (:name, :email, :issuer, :subject) returning id',
      { name, email: email ?? null, issuer: issuer ?? null, subject: subject ?? null },
    ),
  );
  return made.id;
}
