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
  await apply(trx, issuer.id, person, grants);
}

type Given = Omit<GroupGrant, 'group'>;

async function apply(
  trx: Db,
  issuer_id: string,
  person: Subject,
  grants: readonly Given[],
): Promise<void> {
  await applyTeams(trx, issuer_id, person, grants);
  const role = roles.find((one) => grants.some((grant) => grant.role === one));
  await applyRole(trx, issuer_id, person, role);
}

/** So many people lose in one transaction what they were given: calls wait for its lock. */
const STEP = 10;

/** The condition that a grant of the issuer `i`, which nobody has removed, is like this. */
const gives = (like: string) =>
  `(i.archived_at is null and exists (select 1 from jsonb_array_elements(i.group_grants) as g where ${like}))`;

// Who has something of an issuer's groups that no grant of it gives any more. Of owners and members
// `applyRole` takes nothing.
const holders = `select m.user_id from memberships m
  where m.granted_by = i.id and m.org_id = i.org_id and m.archived_at is null and m.role not in ('owner', 'member')
    and not ${gives(`g ->> 'role' = m.role`)}
  union select q.user_id from team_members q join teams t on t.id = q.team_id
  where q.granted_by = i.id and t.org_id = i.org_id
    and not ${gives(`g ->> 'team_id' = q.team_id and (q.role = 'member' or g ->> 'team_role' = 'admin')`)}`;

/** Issuers of which somebody still has something that they give no more. */
const unfinished = `from identity_issuers i where exists (${holders})`;

/** True for an issuer that was removed before all that its groups gave was taken back. */
export async function isUnfinished(db: Db, issuer_id: string): Promise<boolean> {
  const found = await maybe(
    db,
    `select 1 ${unfinished} and i.id = :issuer_id and i.archived_at is not null`,
    { issuer_id },
  );
  return found !== undefined;
}

/**
 * Takes back what the groups of an issuer gave and no grant of it gives any more, all of it once it
 * was removed, with the keys that came of it: a few people at a time, each time under the lock of
 * the organization. What another group still gives ends at the next sign-in of whoever is not in
 * it. `inStep` runs a transaction.
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

/** The last of the people of one step, by id; null if there are none. */
async function takeBackSome(trx: Db, issuer_id: string, after: string): Promise<string | null> {
  const { org_id } = await one<{ org_id: string | null }>(
    trx,
    'select org_id from identity_issuers where id = :issuer_id',
    { issuer_id },
  );
  if (org_id === null) return null;
  await lockOrganization(trx, org_id);
  const { group_grants } = await one<{ group_grants: GroupGrant[] }>(
    trx,
    `select case when archived_at is null then group_grants else '[]' end as group_grants
     from identity_issuers where id = :issuer_id for share`,
    { issuer_id },
  );
  const people = await many<{ user_id: string }>(
    trx,
    `select h.user_id from identity_issuers i cross join lateral (${holders}) as h
     where i.id = :issuer_id and h.user_id > :after order by h.user_id limit :limit`,
    { issuer_id, after, limit: STEP },
  );
  for (const { user_id } of people) {
    const person = { org_id, user_id, subject: '' };
    await apply(trx, issuer_id, person, await stillGiven(trx, { issuer_id, group_grants }, person));
  }
  return people.at(-1)?.user_id ?? null;
}

/** What a person has of an issuer's groups, as far as some grant of it can still give that. */
async function stillGiven(
  trx: Db,
  { issuer_id, group_grants }: { issuer_id: string; group_grants: readonly GroupGrant[] },
  { org_id, user_id }: Subject,
): Promise<Given[]> {
  const held = await many<Given>(
    trx,
    `select null as team_id, null as team_role, m.role from memberships m
     where m.org_id = :org_id and m.user_id = :user_id and m.granted_by = :issuer_id and m.archived_at is null
     union all select q.team_id, q.role, null from team_members q join teams t on t.id = q.team_id
     where t.org_id = :org_id and q.user_id = :user_id and q.granted_by = :issuer_id`,
    { org_id, user_id, issuer_id },
  );
  return held.flatMap((has): Given[] => {
    const alike = group_grants.filter(({ team_id, role }) =>
      has.team_id === null ? role === has.role : team_id === has.team_id,
    );
    if (alike.length === 0) return [];
    const leads = alike.some(({ team_role }) => team_role === 'admin');
    return [has.team_role === 'admin' && !leads ? { ...has, team_role: 'member' } : has];
  });
}

/** Goes on with what a change left when its process ended; how many issuers those were. */
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
  issuer_id: string,
  { subject, ...person }: Subject,
  grants: readonly Given[],
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
  issuer_id: string,
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
