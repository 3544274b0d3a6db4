import { type Db, many } from '../sql';
import * as identities from './identities';
import { type EndedKeys, revokeKeysOf, tokensOf } from './makers';
import { voidInvitations } from './one-time-codes';
import type { Caller } from './rights';
import { type Permission, type Role, rolePermissions } from './roles';

// Who rises must not take along who holds a key of theirs, or may sign in as them; who falls takes
// along what they made.

/** A member whose role becomes another one. */
interface RoleChange {
  org_id: string;
  user_id: string;
  /** The role that they had. */
  before: Role;
  role: Role;
  /** The groups of which subject gave the role, if it was not given by hand. */
  by?: { issuer_id: string; subject: string };
}

/** True if the new role lacks a permission of the old one. It may have others in its place. */
export function isLess({ before, role }: Pick<RoleChange, 'before' | 'role'>): boolean {
  return rolePermissions[before].some((one) => !rolePermissions[role].includes(one));
}

/**
 * Ends what may not outlast a change of a member's role: with a permission that is lost, the keys
 * that the person may hold, except those that stand for themselves; with one that is gained, what
 * stands for them and was made by somebody below the new role. A role may lose and gain at once:
 * an admin who becomes a billing admin does. The organization is locked.
 */
export async function followRole(
  trx: Db,
  change: RoleChange,
  { caller, keep_keys }: { caller: Caller; keep_keys: readonly string[] },
): Promise<EndedKeys> {
  const { before, role, ...person } = change;
  const { org_id, user_id } = person;
  const isMore = isLess({ before: role, role: before });
  const fallen = isLess(change)
    ? await revokeKeysOf(trx, { org_id, user_id, with_own: false }, { caller, keep_keys })
    : nothing;
  const risen = isMore
    ? await revokeKeysBelow(trx, { ...person, gained: rolePermissions[role] })
    : nothing;
  return {
    revoked_keys: [...fallen.revoked_keys, ...risen.revoked_keys],
    kept_keys: fallen.kept_keys,
    unbound_identities: [...fallen.unbound_identities, ...risen.unbound_identities],
  };
}

const nothing: EndedKeys = { revoked_keys: [], kept_keys: [], unbound_identities: [] };

/** What a member gains, and by the groups of which subject, if by those. */
interface Gain {
  org_id: string;
  user_id: string;
  gained: readonly Permission[];
  by?: { issuer_id: string; subject: string };
}

/** A person or a credential that made, renewed or bound something, as they stand now. */
interface Holder {
  /** What they may hold: a key, a session or a subject. */
  id: string;
  /** Their role as a member; null: they are none. */
  role: Role | null;
  has_left: boolean;
  /** Of a key that stands for nobody; null for all others. */
  scopes: Permission[] | null;
}

/**
 * Revokes the access keys and sessions that stand for a person who gains permissions, and that
 * somebody who lacks one of them made, renewed or opened the way to: whoever holds such a key would
 * rise with them. So would whoever signs in by a subject that such a holder had bound to the
 * person: it is unbound, and open invitations are void. What is gained `by` the groups of a subject
 * is its own.
 */
export async function revokeKeysBelow(
  trx: Db,
  { org_id, user_id, gained, by }: Gain,
): Promise<Omit<EndedKeys, 'kept_keys'>> {
  const own = by === undefined ? null : await identities.idOf(trx, { org_id, ...by });
  const holders = await many<Holder>(
    trx,
    `select h.id, case when m.archived_at is null then m.role end as role, m.archived_at is not null as has_left,
       case when k.user_id is null then k.scopes end as scopes
     from holders_for(:org_id, :user_id, :own) h
     left join memberships m on m.org_id = :org_id and m.user_id = h.holder
     left join tokens k on k.id = h.holder and k.org_id = :org_id
     where h.holder <> :user_id`,
    { org_id, user_id, own },
  );
  const ids = holders.filter((one) => isBelow(one, gained)).map(({ id }) => id);
  await voidInvitations(trx, { org_id, user_id, with_made: false });
  const unbound_identities = await identities.unbindAmong(trx, { org_id, user_id, ids });
  await many(
    trx,
    'update tokens set revoked_at = clock_timestamp() where id = any(:ids) and revoked_at is null',
    { ids },
  );
  return { revoked_keys: await tokensOf(trx, org_id, ids), unbound_identities };
}

/**
 * True for whoever lacks what is gained: a member by their role, a former member altogether, a key
 * that stands for nobody by its scopes. Others are of the platform.
 */
function isBelow({ role, has_left, scopes }: Holder, gained: readonly Permission[]): boolean {
  if (has_left) return true;
  const held = role === null ? scopes : rolePermissions[role];
  return held !== null && gained.some((scope) => !held.includes(scope));
}
