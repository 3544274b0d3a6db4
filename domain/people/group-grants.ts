import { type Db, many, maybe } from '../sql';
import type { GroupGrant, Issuer } from './issuers';
import { revokeKeysBelow, revokeKeysOf } from './makers';
import { type Role, rolePermissions } from './roles';
import * as teams from './teams';

// What the groups of an identity provider give a person, applied anew at each sign-in. What people
// gave by hand is never touched, and no group makes or unmakes an owner.

interface Subject {
  org_id: string;
  user_id: string;
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
  { groups, ...subject }: Subject & { groups: ReadonlySet<string> },
): Promise<void> {
  const grants = issuer.group_grants.filter(({ group }) => groups.has(group));
  await applyTeams(trx, issuer, subject, grants);
  const role = roles.find((one) => grants.some((grant) => grant.role === one));
  await applyRole(trx, issuer, subject, role);
}

async function applyTeams(
  trx: Db,
  { id: issuer_id }: Issuer,
  subject: Subject,
  grants: readonly GroupGrant[],
): Promise<void> {
  const wanted = new Map<string, 'member' | 'admin'>();
  for (const { team_id, team_role } of grants) {
    if (team_id === null) continue;
    const role = wanted.get(team_id) === 'admin' ? 'admin' : (team_role ?? 'member');
    wanted.set(team_id, role);
  }
  for (const [team_id, role] of wanted)
    await many(
      trx,
      `insert into team_members as q (team_id, user_id, role, granted_by)
       select t.id, :user_id, :role, :issuer_id from teams t
       where t.id = :team_id and t.org_id = :org_id and t.archived_at is null
       on conflict (team_id, user_id) do update set role = excluded.role
       where q.granted_by = excluded.granted_by and q.role <> excluded.role`,
      { ...subject, team_id, role, issuer_id },
    );
  const given = await many<{ team_id: string }>(
    trx,
    `select q.team_id from team_members q join teams t on t.id = q.team_id
     where t.org_id = :org_id and q.user_id = :user_id and q.granted_by = :issuer_id`,
    { ...subject, issuer_id },
  );
  for (const { team_id } of given)
    if (!wanted.has(team_id)) await teams.remove(trx, { ...subject, team_id });
}

async function applyRole(
  trx: Db,
  { id: issuer_id }: Issuer,
  subject: Subject,
  wanted: Role | undefined,
): Promise<void> {
  const before = await maybe<{ role: Role; granted_by: string | null }>(
    trx,
    `select role, granted_by from memberships
     where org_id = :org_id and user_id = :user_id and archived_at is null`,
    { ...subject },
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
    { ...subject, role, granted_by: role === 'member' ? null : issuer_id },
  );
  const is_less = rolePermissions[before.role].some((one) => !rolePermissions[role].includes(one));
  const caller = { id: issuer_id, user_id: null, scopes: rolePermissions.owner };
  if (is_less) await revokeKeysOf(trx, { ...subject, with_own: false }, { caller, keep_keys: [] });
  else await revokeKeysBelow(trx, { ...subject, gained: rolePermissions[role] });
}
