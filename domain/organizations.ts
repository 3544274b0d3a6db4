import { AppError } from './errors';
import { type Page, pageOf, type Window } from './pages';
import { type Db, many, maybe, one } from './sql';

export interface Organization {
  id: string;
  name: string;
  currency: string;
  created_at: Date;
}

export type Role = 'owner' | 'admin' | 'billing_admin' | 'member';

export interface Named {
  id: string;
  name: string;
  created_at: Date;
}

export interface Member {
  user_id: string;
  name: string;
  email: string | null;
  role: Role;
  created_at: Date;
}

const DUPLICATE = '23505';

/** The organization, or `not_found`. */
export function get(db: Db, id: string): Promise<Organization> {
  return one<Organization>(
    db,
    'select id, name, currency, created_at from organizations where id = :id and archived_at is null',
    { id },
    'No organization',
  );
}

/** Makes an organization with its wallet at 0. */
export function create(
  db: Db,
  { name, currency }: { name: string; currency: string },
): Promise<Organization> {
  return db.transaction(async (trx) => {
    const made = await one<Organization>(
      trx,
      'insert into organizations (name, currency) values (:name, :currency) returning id, name, currency, created_at',
      { name, currency },
    );
    await trx.raw(`select ensure_wallet(?, 'organization', null)`, [made.id]);
    return made;
  });
}

export function list(db: Db, window: Window): Promise<Page<Organization>> {
  return pageOf(
    db,
    'select id, name, currency, created_at from organizations where archived_at is null order by id desc',
    {},
    window,
  );
}

export function listTeams(db: Db, org_id: string, window: Window): Promise<Page<Named>> {
  return pageOf(
    db,
    'select id, name, created_at from teams where org_id = :org_id and archived_at is null order by id desc',
    { org_id },
    window,
  );
}

export function createTeam(db: Db, org_id: string, name: string): Promise<Named> {
  return unique(`A team named ${name} exists.`, () =>
    one(
      db,
      'insert into teams (org_id, name) values (:org_id, :name) returning id, name, created_at',
      { org_id, name },
    ),
  );
}

/** Archives a team and revokes its keys in the same transaction. Its wallet stays: it takes credits and can be reclaimed. */
export function archiveTeam(db: Db, org_id: string, id: string): Promise<void> {
  return archive(db, 'teams', { org_id, id });
}

export async function addTeamMember(
  db: Db,
  org_id: string,
  team_id: string,
  user_id: string,
): Promise<void> {
  await one(
    db,
    'select 1 from teams where id = :team_id and org_id = :org_id and archived_at is null',
    { org_id, team_id },
    'No team',
  );
  await getMember(db, org_id, user_id);
  await many(
    db,
    'insert into team_members (team_id, user_id) values (:team_id, :user_id) on conflict do nothing',
    { team_id, user_id },
  );
}

export async function removeTeamMember(
  db: Db,
  org_id: string,
  team_id: string,
  user_id: string,
): Promise<void> {
  await one(
    db,
    `delete from team_members m using teams t
     where t.id = m.team_id and t.org_id = :org_id and m.team_id = :team_id and m.user_id = :user_id returning m.user_id`,
    { org_id, team_id, user_id },
    'No member of this team',
  );
}

export function listAgents(db: Db, org_id: string, window: Window): Promise<Page<Named>> {
  return pageOf(
    db,
    'select id, name, created_at from agents where org_id = :org_id and archived_at is null order by id desc',
    { org_id },
    window,
  );
}

export function createAgent(db: Db, org_id: string, name: string): Promise<Named> {
  return unique(`An agent named ${name} exists.`, () =>
    one(
      db,
      'insert into agents (org_id, name) values (:org_id, :name) returning id, name, created_at',
      { org_id, name },
    ),
  );
}

/** Archives an agent and revokes its keys in the same transaction. */
export function archiveAgent(db: Db, org_id: string, id: string): Promise<void> {
  return archive(db, 'agents', { org_id, id });
}

const memberRows = `
  select u.id as user_id, u.name, u.email, m.role, m.created_at
  from memberships m join users u on u.id = m.user_id
  where m.org_id = :org_id and m.archived_at is null`;

export function listMembers(db: Db, org_id: string, window: Window): Promise<Page<Member>> {
  return pageOf(db, `${memberRows} order by u.id desc`, { org_id }, window);
}

export function getMember(db: Db, org_id: string, user_id: string): Promise<Member> {
  return one(db, `${memberRows} and u.id = :user_id`, { org_id, user_id }, 'No member');
}

export interface NewMember {
  user_id?: string | undefined;
  name?: string | undefined;
  email?: string | undefined;
  issuer?: string | undefined;
  subject?: string | undefined;
  role: Role;
}

/**
 * Takes a person into the organization: a new one by name, or a known one by id. A former member comes back. People of
 * other organizations can be named by platform admins only; for all others they do not exist.
 */
export function addMember(
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
         or exists (select 1 from memberships m where m.user_id = u.id and m.org_id = :org_id))`,
      { id, org_id, is_visible: may_name_anyone || user_id === undefined },
      'No user',
    );
    const joined = await maybe(
      trx,
      `insert into memberships (org_id, user_id, role) values (:org_id, :id, :role)
       on conflict (org_id, user_id) do update set role = excluded.role, archived_at = null, created_at = clock_timestamp()
       where memberships.archived_at is not null returning user_id`,
      { org_id, id, role },
    );
    if (!joined)
      throw new AppError('already_exists', 'This user is a member already.', { param: 'user_id' });
    return getMember(trx, org_id, id);
  });
}

export async function setRole(
  db: Db,
  org_id: string,
  user_id: string,
  role: Role,
): Promise<Member> {
  await many(
    db,
    'update memberships set role = :role where org_id = :org_id and user_id = :user_id and archived_at is null',
    { org_id, user_id, role },
  );
  return getMember(db, org_id, user_id);
}

export interface Membership {
  user_id: string;
  org_id: string;
  role: Role;
}

/** The living memberships of the person that a JWT's issuer and subject stand for. */
export function membershipsOf(
  db: Db,
  person: { issuer: string; subject: string },
): Promise<Membership[]> {
  return many(
    db,
    `select u.id as user_id, m.org_id, m.role
     from users u
     join memberships m on m.user_id = u.id and m.archived_at is null
     join organizations o on o.id = m.org_id and o.archived_at is null
     where u.issuer = :issuer and u.subject = :subject order by m.created_at, m.org_id`,
    person,
  );
}

/** Removes a member and revokes their keys of this organization in the same transaction. */
export function removeMember(db: Db, org_id: string, user_id: string): Promise<void> {
  return db.transaction(async (trx) => {
    await one(
      trx,
      `update memberships set archived_at = clock_timestamp()
       where org_id = :org_id and user_id = :user_id and archived_at is null returning user_id`,
      { org_id, user_id },
      'No member',
    );
    await many(
      trx,
      'delete from team_members m using teams t where t.id = m.team_id and t.org_id = :org_id and m.user_id = :user_id',
      { org_id, user_id },
    );
    await revokeKeys(trx, 'user_id', { org_id, id: user_id });
  });
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

function archive(
  db: Db,
  table: 'teams' | 'agents',
  row: { org_id: string; id: string },
): Promise<void> {
  return db.transaction(async (trx) => {
    await one(
      trx,
      `update ${table} set archived_at = clock_timestamp() where id = :id and org_id = :org_id and archived_at is null returning id`,
      row,
      table === 'teams' ? 'No team' : 'No agent',
    );
    await revokeKeys(trx, table === 'teams' ? 'team_id' : 'agent_id', row);
  });
}

async function revokeKeys(
  trx: Db,
  column: 'user_id' | 'team_id' | 'agent_id',
  row: { org_id: string; id: string },
): Promise<void> {
  await many(
    trx,
    `update tokens set revoked_at = clock_timestamp() where org_id = :org_id and ${column} = :id and revoked_at is null`,
    row,
  );
}

/** Runs an insert; a broken unique rule becomes 409 `already_exists` with the given words. */
async function unique<T>(message: string, run: () => Promise<T>): Promise<T> {
  try {
    return await run();
  } catch (error) {
    if ((error as { code?: string }).code === DUPLICATE)
      throw new AppError('already_exists', message);
    throw error;
  }
}
