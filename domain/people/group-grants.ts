import { type Db, many, maybe } from '../sql';
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

/** A role of many groups is the first of these that one of them gives. */
const roles = ['admin', 'billing_admin', 'member'] as const;

/**
 * Gives a person what their groups give by the issuer's settings, and takes back what the issuer's
 * groups gave before and give no longer, with the keys that came of it. The organization is locked.
 */
export async function applyGroups(
  trx: Db,
  issuer: Issuer,
  { groups, ...person }: Subject & { groups: ReadonlySet<string> },
): Promise<void> {
  const grants = issuer.group_grants.filter(({ group }) => groups.has(group));
  await applyTeams(trx, issuer, person, grants);
  const role = roles.find((one) => grants.some((grant) => grant.role === one));
  await applyRole(trx, issuer, person, role);
}

/**
 * Takes back all that the groups of an issuer gave, with the keys that came of it. Locks the
 * issuer's organization.
 */
export async function takeBack(trx: Db, issuer: Issuer): Promise<void> {
  const { id: issuer_id, org_id } = issuer;
  if (org_id === null) return;
  await many(trx, 'select from lock_organization(:org_id)', { org_id });
  const people = await many<{ user_id: string }>(
    trx,
    `select user_id from memberships where org_id = :org_id and granted_by = :issuer_id
     union select q.user_id from team_members q join teams t on t.id = q.team_id
     where t.org_id = :org_id and q.granted_by = :issuer_id order by user_id`,
    { org_id, issuer_id },
  );
  for (const { user_id } of people)
    await applyGroups(trx, issuer, { org_id, user_id, subject: '', groups: new Set() });
}

async function applyTeams(
  trx: Db,
  { id: issuer_id }: Issuer,
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
  { id: issuer_id }: Issuer,
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
