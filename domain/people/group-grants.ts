import { actAs } from '../audit-events';
import { lockOrganization } from '../known';
import { type Db, many, maybe, one, withRetry } from '../sql';
import type { GroupGrant, Issuer } from './issuers';
import { followRole } from './rising';
import { type Role, rolePermissions } from './roles';
import * as teams from './teams';

// What the groups of an identity provider give a person, applied anew at each sign-in. What people
// gave by hand is never touched, and no group makes or unmakes an owner.

/** A person who signs in, and by which subject of the issuer. */
interface Subject {
  org_id: string;
  user_id: string;
  subject: string;
}

type Granting = Pick<Issuer, 'id' | 'group_grants'>;

/** A role of many groups is the first of these that one of them gives. */
const roles = ['admin', 'billing_admin', 'member'] as const;

/**
 * Gives a person what their groups give by the issuer's settings, and takes back what the issuer's
 * groups gave before and give no longer, with the keys that came of it. The organization is locked.
 */
export async function applyGroups(
  trx: Db,
  issuer: Granting,
  { groups, ...person }: Subject & { groups: ReadonlySet<string> },
): Promise<void> {
  const grants = issuer.group_grants.filter(({ group }) => groups.has(group));
  await applyTeams(trx, issuer, person, grants);
  const role = roles.find((one) => grants.some((grant) => grant.role === one));
  await applyRole(trx, issuer, person, role);
}

/** So many people lose in one transaction what they were given: calls wait for its lock. */
const STEP = 10;

// Who has something of an issuer's groups. Of owners and members `applyRole` takes nothing.
const holders = `select m.user_id from memberships m
  where m.granted_by = i.id and m.org_id = i.org_id and m.archived_at is null and m.role not in ('owner', 'member')
  union select q.user_id from team_members q join teams t on t.id = q.team_id
  where q.granted_by = i.id and t.org_id = i.org_id`;

/** Removed issuers, of which somebody still has something. */
const unfinished = `from identity_issuers i where i.archived_at is not null and exists (${holders})`;

/** True for an issuer that was removed before all that its groups gave was taken back. */
export async function isUnfinished(db: Db, issuer_id: string): Promise<boolean> {
  return (
    (await maybe(db, `select 1 ${unfinished} and i.id = :issuer_id`, { issuer_id })) !== undefined
  );
}

/**
 * Takes back all that the groups of a removed issuer gave, with the keys that came of it: a few
 * people at a time, each time under the lock of the organization. `inStep` runs a transaction.
 */
export async function takeBack(
  issuer_id: string,
  inStep: (step: (trx: Db) => Promise<string | null>) => Promise<string | null>,
): Promise<void> {
  let after: string | null = '';
  while (after !== null) {
    const from: string = after;
    after = await inStep((trx) => takeBackSome(trx, issuer_id, from));
  }
}

/** The last of the people of one step, by id; null if there are none, or the issuer is back. */
async function takeBackSome(trx: Db, issuer_id: string, after: string): Promise<string | null> {
  const { org_id } = await one<{ org_id: string | null }>(
    trx,
    'select org_id from identity_issuers where id = :issuer_id',
    { issuer_id },
  );
  if (org_id === null) return null;
  await lockOrganization(trx, org_id);
  const removed = await maybe(
    trx,
    'select 1 from identity_issuers where id = :issuer_id and archived_at is not null for share',
    { issuer_id },
  );
  if (removed === undefined) return null;
  const people = await many<{ user_id: string }>(
    trx,
    `select h.user_id from identity_issuers i cross join lateral (${holders}) as h
     where i.id = :issuer_id and h.user_id > :after order by h.user_id limit :limit`,
    { issuer_id, after, limit: STEP },
  );
  for (const { user_id } of people)
    await applyGroups(
      trx,
      { id: issuer_id, group_grants: [] },
      { org_id, user_id, subject: '', groups: new Set() },
    );
  return people.at(-1)?.user_id ?? null;
}

/** Goes on with what a removal left when its process ended; how many issuers those were. */
export async function takeBackLeft(db: Db): Promise<number> {
  const left = await many<{ id: string }>(db, `select i.id ${unfinished} limit 10`);
  for (const { id } of left)
    await takeBack(id, (step) =>
      withRetry(() =>
        db.transaction(async (trx) => {
          await actAs(trx, { actor: id });
          return step(trx);
        }),
      ),
    );
  return left.length;
}

async function applyTeams(
  trx: Db,
  { id: issuer_id }: Pick<Granting, 'id'>,
  { subject, ...person }: Subject,
  grants: readonly GroupGrant[],
): Promise<void> {
  const wanted = new Map<string, 'member' | 'admin'>();
  for (const { team_id, team_role } of grants) {
    if (team_id === null) continue;
    const role = wanted.get(team_id) === 'admin' ? 'admin' : (team_role ?? 'member');
    wanted.set(team_id, role);
  }
  for (const [team_id, role] of wanted)
    await teams.grant(trx, { ...person, team_id }, role, { issuer_id, subject });
  const given = await many<{ team_id: string }>(
    trx,
    `select q.team_id from team_members q join teams t on t.id = q.team_id
     where t.org_id = :org_id and q.user_id = :user_id and q.granted_by = :issuer_id`,
    { ...person, issuer_id },
  );
  for (const { team_id } of given)
    if (!wanted.has(team_id)) await teams.takeBack(trx, { ...person, team_id });
}

async function applyRole(
  trx: Db,
  { id: issuer_id }: Pick<Granting, 'id'>,
  { subject, ...person }: Subject,
  wanted: Role | undefined,
): Promise<void> {
  const before = await maybe<{ role: Role; granted_by: string | null }>(
    trx,
    `select role, granted_by from memberships
     where org_id = :org_id and user_id = :user_id and archived_at is null`,
    person,
  );
  if (before === undefined || before.role === 'owner') return;
  // A role above the least that people gave is theirs to take.
  const is_own = before.granted_by === issuer_id;
  if (!is_own && (before.granted_by !== null || before.role !== 'member')) return;
  const role = wanted ?? 'member';
  if (role === before.role) return;
  await many(
    trx,
    `update memberships set role = :role, granted_by = :granted_by
     where org_id = :org_id and user_id = :user_id and archived_at is null`,
    { ...person, role, granted_by: role === 'member' ? null : issuer_id },
  );
  const caller = { id: issuer_id, user_id: null, scopes: rolePermissions.owner };
  const change = { ...person, before: before.role, role, by: { issuer_id, subject } };
  await followRole(trx, change, { caller, keep_keys: [] });
}
