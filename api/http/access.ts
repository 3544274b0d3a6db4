import type { Context } from 'koa';
import { AppError } from '../../domain/errors';
import { suspended } from '../../domain/people/keys';
import type { LivingToken } from '../../domain/people/living-tokens';
import * as organizations from '../../domain/people/organizations';
import * as profile from '../../domain/people/profile';
import { isPlatformAdmin, may } from '../../domain/people/rights';
import { type Permission, rolePermissions } from '../../domain/people/roles';
import { teamsLedBy } from '../../domain/people/team-rights';
import type { Db } from '../../domain/sql';
import type { VerifyJwt } from '../../runtime/jwt';
import { fitsWithApi, unfitWords } from '../../runtime/version';
import type { Keyring } from '../ledger/keyring';

/**
 * Who calls: an access key's bearer, or a person by a JWT. Platform keys have no organization of
 * their own.
 */
export interface Principal {
  /** Stable name of the caller for idempotency and audit: the key's or the person's id. */
  id: string;
  org_id: string | null;
  user_id: string | null;
  scopes: readonly Permission[];
  /** The key behind what outlives a session; null: a person, who came without one. */
  lasting_key_id: string | null;
  /** The hash of a key that is only remembered: what it asks for must look at it. */
  unchecked_key?: string | undefined;
}

/** The sources against which credentials are checked. Without `jwt` only keys are accepted. */
export interface Sources {
  db: Db;
  keys: Keyring;
  jwt?: VerifyJwt | undefined;
}

/** A word in the route table: who may call. `label` stands in the OpenAPI page. */
export interface Access {
  label: string;
  check: (http: Context, sources: Sources) => Promise<Principal>;
  /**
   * The caller by a key that was good before, without a look at it; for a handler that has it
   * looked at together with what it does.
   */
  remembered?: (http: Context, sources: Sources) => Principal | undefined;
}

const nobody: Principal = {
  id: '',
  org_id: null,
  user_id: null,
  scopes: [],
  lasting_key_id: null,
};

/** Anyone, without a credential. */
export const open: Access = { label: 'public', check: async () => nobody };

/** Any member of an organization, and platform admins. */
export const member: Access = { label: 'member', check: ofOrganization };

/** A key that carries the scope; `platform:admin` passes every organization check. */
export function permission(scope: Permission): Access {
  const check = async (http: Context, sources: Sources) => {
    const principal = await ofOrganization(http, sources);
    if (may(principal, scope)) return principal;
    throw denied(`This needs the permission ${scope}.`, principal);
  };
  return { label: scope, check };
}

/** A key that carries at least one of the scopes; the handler decides which rows it may see. */
export function anyPermission(...wanted: Permission[]): Access {
  const check = async (http: Context, sources: Sources) => {
    const principal = await ofOrganization(http, sources);
    const carries = wanted.some((scope) => principal.scopes.includes(scope));
    if (isPlatformAdmin(principal) || carries) return principal;
    throw denied(`This needs one of the permissions ${wanted.join(', ')}.`, principal);
  };
  return { label: wanted.join(' or '), check };
}

/**
 * A key that carries the scope, or an admin of a team; of which team, the handler asks under the
 * lock.
 */
export function permissionOrTeam(scope: Permission): Access {
  const check = async (http: Context, sources: Sources) => {
    const principal = await ofOrganization(http, sources);
    const { org_id, user_id } = principal;
    if (may(principal, scope)) return principal;
    if (org_id !== null && (await teamsLedBy(sources.db, { org_id, user_id })).length > 0)
      return principal;
    throw denied(
      `This needs the permission ${scope}, or that you are an admin of a team.`,
      principal,
    );
  };
  return { label: `${scope} or team admin`, check };
}

export const platformAdmin: Access = {
  label: 'platform:admin',
  check: async (http, sources) => {
    const principal = await authenticate(http, sources);
    if (isPlatformAdmin(principal)) return principal;
    throw denied('This needs a platform admin.', principal);
  },
};

/**
 * The gateway's service token. Browsers are turned away: a request with an Origin header is
 * refused.
 */
export const controlPlane: Access = {
  label: 'control_plane',
  check: async (http, sources) => {
    if (http.get('origin'))
      throw new AppError('browser_not_allowed', 'Browsers may not call gateway routes.');
    const principal = await authenticate(http, sources);
    if (principal.scopes.includes('control_plane')) return principal;
    throw denied('This needs a gateway service token with the scope control_plane.', principal);
  },
};

/** The same for what has the key looked at itself: a batch in its own transaction. */
export const controlPlaneOfBatch: Access = {
  ...controlPlane,
  remembered: (http, { keys }) => {
    const known = http.get('origin') ? undefined : keys.remembered(bearerOf(http) ?? '');
    if (known === undefined) return undefined;
    return { ...principalOf(known.token), unchecked_key: known.hash };
  },
};

/**
 * The organization a call acts on: the caller's own, or the one a platform admin names.
 * Another organization than one's own is 404, as if it did not exist.
 */
export async function actingOrg(
  db: Db,
  principal: Principal,
  named: string | undefined,
): Promise<string> {
  if (principal.org_id !== null) {
    if (named === undefined || named === principal.org_id) return principal.org_id;
    throw new AppError('not_found', 'No organization was found under this id.', {
      param: 'org_id',
    });
  }
  if (!isPlatformAdmin(principal)) throw ofNone();
  if (named === undefined) {
    throw new AppError('org_required', 'Name the organization: org_id.', { param: 'org_id' });
  }
  return (await organizations.get(db, named)).id;
}

/** The organization that is meant; null: the platform, if its admin names none. */
export async function ownerOf(
  { db, principal }: { db: Db; principal: Principal },
  named: string | undefined,
): Promise<string | null> {
  if (isPlatformAdmin(principal) && named === undefined) return null;
  return actingOrg(db, principal, named);
}

/**
 * The organization that a caller's objects must belong to; null for platform admins, who reach any
 * by its id.
 */
export function ownOrg(principal: Principal): string | null {
  if (isPlatformAdmin(principal)) return null;
  if (principal.org_id === null) throw ofNone();
  return principal.org_id;
}

/** A caller who acts for an organization, or for any: whatever scopes another platform key has. */
async function ofOrganization(http: Context, sources: Sources): Promise<Principal> {
  const principal = await authenticate(http, sources);
  if (principal.org_id === null && !isPlatformAdmin(principal)) throw ofNone();
  return principal;
}

async function authenticate(http: Context, { db, keys, jwt }: Sources): Promise<Principal> {
  const key = bearerOf(http);
  if (key === undefined)
    throw new AppError(
      'invalid_credential',
      'Send an access key: Authorization: Bearer svc_ak_...',
    );
  if (jwt && !key.startsWith('svc_')) {
    const { iss: issuer = '', sub: subject } = await jwt(key);
    return person(http, db, { issuer, subject });
  }
  const token = await keys.check(key, { is_use: isUse(http) });
  if (token.token_type !== 'access') {
    throw new AppError(
      'invalid_credential',
      'A gateway key works at the gateway; the control plane takes access keys.',
    );
  }
  return principalOf(token);
}

/**
 * False for what a page or a stream asks by itself: a session ends after an hour without use, and
 * that is none.
 */
function isUse(http: Context): boolean {
  return http.state.is_unattended !== true && http.get('x-svc-unattended') !== '1';
}

/** The bearer of a request, of whatever form. */
export function bearerOf(http: Context): string | undefined {
  return /^Bearer\s+(\S+)$/i.exec(http.get('authorization'))?.[1];
}

/**
 * Who acts: the person, or else the key that lasts, whichever session it has opened: a session is
 * forgotten a week after its end.
 */
export function actorOf({
  id,
  user_id,
  lasting_key_id,
}: Pick<Principal, 'id' | 'user_id' | 'lasting_key_id'>): string {
  return user_id ?? lasting_key_id ?? id;
}

function principalOf({ id, org_id, user_id, scopes, lasting_key_id }: LivingToken): Principal {
  return { id, org_id, user_id, scopes, lasting_key_id };
}

/**
 * The membership of a JWT's person: their only one, or the one that X-Org-Id names. Its role gives
 * the scopes.
 */
async function person(
  http: Context,
  db: Db,
  identity: { issuer: string; subject: string },
): Promise<Principal> {
  const all = await profile.ofIdentity(db, identity);
  if (all.length === 0)
    throw denied('This person is a member of no organization. Ask an owner or admin to add them.');
  const named = http.get('x-org-id');
  if (named === '' && all.length > 1) {
    throw new AppError(
      'org_required',
      'You are a member of several organizations; name one in the header X-Org-Id.',
      { param: 'X-Org-Id' },
    );
  }
  const found = named === '' ? all[0] : all.find(({ org_id }) => org_id === named);
  if (found === undefined) {
    throw new AppError('not_found', 'No organization was found under this id.', {
      param: 'X-Org-Id',
    });
  }
  const { org_id, user_id, role, is_suspended } = found;
  if (is_suspended) throw suspended();
  return { id: user_id, org_id, user_id, scopes: rolePermissions[role], lasting_key_id: null };
}

/** The refusal of what an organization must be named for. */
export function ofNone(): AppError {
  return denied('This key acts for no organization.');
}

function denied(message: string, principal?: Principal): AppError {
  const error = new AppError('permission_denied', message);
  if (principal) deniedTo.set(error, principal);
  return error;
}

const deniedTo = new WeakMap<object, Principal>();

/** Who was denied by the access of a route; undefined if it does not say. */
export function whoWasDenied(error: object): Principal | undefined {
  return deniedTo.get(error);
}

/**
 * Throws 426 if the gateway's version is outside the specification's table; a missing version
 * counts as current.
 */
export function requireGatewayVersion(http: Context): void {
  const version = http.get('x-svc-gateway-version');
  if (version === '' || fitsWithApi(version)) return;
  throw new AppError('version_not_supported', unfitWords('gateways', version));
}

/** The same for a console, on every route: other clients do not send its header. */
export function requireConsoleVersion(http: Context): void {
  const version = http.get('x-svc-console-version');
  if (version === '' || fitsWithApi(version, 'consoles')) return;
  throw new AppError('version_not_supported', unfitWords('consoles', version));
}
