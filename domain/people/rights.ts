import { AppError } from '../errors';
import { noOrganization } from '../known';
import { type Db, many, maybe } from '../sql';
import { invalidKey } from './keys';
import { type Permission, type Role, rolePermissions } from './roles';

/** Who changes people and keys: the bearer of an access key, or a person by a JWT. */
export interface Caller {
  /** The key's id, or the person's. */
  id: string;
  /** Null for a key that stands for nobody. */
  user_id: string | null;
  scopes: readonly Permission[];
}

export function isPlatformAdmin({ scopes }: Pick<Caller, 'scopes'>): boolean {
  return scopes.includes('platform:admin');
}

/** True if the caller has the permission, or is a platform admin, who has all. */
export function may(caller: Pick<Caller, 'scopes'>, permission: Permission): boolean {
  return isPlatformAdmin(caller) || caller.scopes.includes(permission);
}

/** True if the caller may do everything in the organization. */
export function isOwner(caller: Caller): boolean {
  return missingScope(caller, rolePermissions.owner) === undefined;
}

/**
 * Refuses to give away a scope that the caller does not carry. `param` is the field that asks for
 * it.
 */
export function requireScopes(caller: Caller, scopes: readonly Permission[], param: string): void {
  const excess = missingScope(caller, scopes);
  if (excess === undefined) return;
  throw new AppError('permission_denied', `You do not have ${excess}, so you cannot give it.`, {
    param,
  });
}

function missingScope(caller: Caller, scopes: readonly Permission[]): Permission | undefined {
  if (isPlatformAdmin(caller)) return undefined;
  return scopes.find((scope) => !caller.scopes.includes(scope));
}

/**
 * Nobody may change or remove a member with more permissions than their own, or have a key that
 * stands for one: an admin would make themselves the owner.
 */
export function requireRank(caller: Caller, of: Role, refused: Refused = ofMember): void {
  const excess = missingScope(caller, rolePermissions[of]);
  if (excess !== undefined) throw outranked(excess, refused);
}

/** What a caller may not do, in words, to whom or what; `param` is the field that names it. */
interface Refused {
  whose: string;
  action: string;
  param?: string;
}

const ofMember: Refused = { whose: 'this member', action: 'change or remove them' };

function outranked(excess: Permission, { whose, action, ...details }: Refused): AppError {
  return new AppError(
    'permission_denied',
    `You do not have ${excess}, which ${whose} has, so you cannot ${action}. Ask an owner.`,
    details,
  );
}

/**
 * Takes the organization's one lock, so that changes of its people and keys come one after the
 * other, and reads again what the caller may. Throws if the permission was lost meanwhile.
 */
export async function lock<Given extends Caller>(
  trx: Db,
  org_id: string,
  caller: Given,
  needed: Permission,
): Promise<Given> {
  const now = await lockAsNow(trx, org_id, caller);
  if (missingScope(now, [needed]) !== undefined)
    throw new AppError('permission_denied', `This needs the permission ${needed}.`);
  return now;
}

/**
 * Takes the organization's one lock; the caller with what they may by now. Throws if their key has
 * ended, or they have left; `not_found` if the organization was archived meanwhile.
 */
export async function lockAsNow<Given extends Caller>(
  trx: Db,
  org_id: string,
  caller: Given,
): Promise<Given> {
  const [org] = await many<{ archived_at: Date | null }>(
    trx,
    'select archived_at from lock_organization(:org_id)',
    { org_id },
  );
  const scopes = await scopesNow(trx, org_id, caller);
  // Its own keys are revoked; those of the platform are not.
  if (org?.archived_at) throw noOrganization();
  return { ...caller, scopes };
}

async function scopesNow(trx: Db, org_id: string, caller: Caller): Promise<Permission[]> {
  const { id, user_id } = caller;
  const found = await maybe<{ scopes: Permission[] | null; role: Role | null }>(
    trx,
    `select k.scopes, m.role from (select 1) as always
     left join tokens k on k.id = :id and k.revoked_at is null and (k.purpose = 'key' or session_lives(k))
     left join memberships m on m.org_id = :org_id and m.user_id = :user_id and m.archived_at is null
     where (k.id is not null or :id = :user_id) and (:user_id::text is null or m.user_id is not null)`,
    { id, org_id, user_id },
  );
  if (found === undefined && id === user_id)
    throw new AppError('permission_denied', 'This person is not a member of the organization.');
  if (found === undefined) throw invalidKey();
  const { scopes, role } = found;
  return caller.scopes.filter(
    (scope) =>
      (scopes === null || scopes.includes(scope)) &&
      (role === null || rolePermissions[role].includes(scope)),
  );
}

interface Owned {
  token_type: 'access' | 'gateway';
  scopes: readonly Permission[];
  user_id: string | null;
  created_by: string | null;
}

/**
 * Refuses to end or renew a key that may do more than the caller, or that stands for a person whom
 * the caller may not manage. A gateway key may be changed by its maker too.
 */
export async function requireChangeable(
  db: Db,
  { org_id, caller }: { org_id: string | null; caller: Caller },
  { token_type, scopes, user_id, created_by }: Owned,
  action = 'revoke or rotate it',
): Promise<void> {
  const param = 'name';
  const excess = missingScope(caller, scopes);
  if (excess !== undefined) throw outranked(excess, { whose: 'this key', action, param });
  if (user_id === null || user_id === caller.user_id) return;
  if (token_type === 'gateway' && created_by === (caller.user_id ?? caller.id)) return;
  const found = await maybe<{ role: Role }>(
    db,
    'select role from memberships where org_id = :org_id and user_id = :user_id and archived_at is null',
    { org_id, user_id },
  );
  if (found !== undefined)
    requireRank(caller, found.role, { whose: 'the person of this key', action, param });
}

/** Scopes that let a key make people or keys. One that stands for nobody outlives its holder. */
const selfRenewing: readonly Permission[] = ['org:members', 'tokens:write'];

/** Only an owner may have a key that makes people or keys and stands for nobody. */
export function requirePerson(
  caller: Caller,
  { user_id, scopes }: Pick<Owned, 'user_id' | 'scopes'>,
  param = 'user_id',
): void {
  const scope = user_id === null && scopes.find((one) => selfRenewing.includes(one));
  if (!scope || isOwner(caller)) return;
  throw new AppError(
    'permission_denied',
    `Only an owner may have a key with ${scope} that stands for nobody. Name the person whose key it is: user_id.`,
    { param },
  );
}

/**
 * The person behind a new key must be a member whose role has the permission that this needs, and
 * carries the key's scopes. Their membership is locked, so that a key cannot slip past the removal
 * or demotion of its maker.
 */
export async function requireMaker(
  trx: Db,
  {
    org_id,
    created_by,
    scopes,
  }: { org_id: string | null; created_by: string; scopes: readonly Permission[] },
  needed: Permission | null,
): Promise<void> {
  if (org_id === null) return;
  const [found] = await many<{ role: Role | null }>(
    trx,
    `select m.role from users u
     left join lateral (select role from memberships where org_id = :org_id and user_id = u.id
       and archived_at is null for share) m on true
     where u.id = maker_of(:created_by)`,
    { org_id, created_by },
  );
  if (found === undefined) return;
  const { role } = found;
  if (role === null) throw invalidKey();
  if (needed !== null && !rolePermissions[role].includes(needed))
    throw new AppError('permission_denied', `This needs the permission ${needed}.`);
  const excess = scopes.find((scope) => !rolePermissions[role].includes(scope));
  if (excess === undefined) return;
  throw new AppError('permission_denied', `You do not have ${excess}, so you cannot give it.`, {
    param: 'scopes',
  });
}
