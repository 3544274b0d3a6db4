import type { Context } from 'koa';
import { AppError } from '../domain/errors';
import * as organizations from '../domain/organizations';
import type { Db } from '../domain/sql';
import * as tokens from '../domain/tokens';

export type Scope = tokens.Scope;

/** Who calls: an access key's bearer. Platform keys have no organization of their own. */
export interface Principal {
  /** Stable name of the caller for idempotency and audit: the key's id. */
  id: string;
  org_id: string | null;
  user_id: string | null;
  scopes: readonly Scope[];
}

/** A word in the route table: who may call. `label` stands in the OpenAPI page. */
export interface Access {
  label: string;
  check: (http: Context, db: Db) => Promise<Principal>;
}

const nobody: Principal = { id: '', org_id: null, user_id: null, scopes: [] };

/** Anyone, without a credential. */
export const open: Access = { label: 'public', check: async () => nobody };

/** Any member of an organization, and platform admins. */
export const member: Access = { label: 'member', check: authenticate };

/** A key that carries the scope; `platform:admin` passes every organization check. */
export function permission(scope: Scope): Access {
  const check = async (http: Context, db: Db) => {
    const principal = await authenticate(http, db);
    if (isPlatformAdmin(principal) || principal.scopes.includes(scope)) return principal;
    throw denied(`This needs the permission ${scope}.`);
  };
  return { label: scope, check };
}

export const platformAdmin: Access = {
  label: 'platform:admin',
  check: async (http, db) => {
    const principal = await authenticate(http, db);
    if (isPlatformAdmin(principal)) return principal;
    throw denied('This needs a platform admin.');
  },
};

/** The gateway's service token. Browsers are turned away: a request with an Origin header is refused. */
export const controlPlane: Access = {
  label: 'control_plane',
  check: async (http, db) => {
    if (http.get('origin'))
      throw new AppError('browser_not_allowed', 'Browsers may not call gateway routes.');
    const principal = await authenticate(http, db);
    if (principal.scopes.includes('control_plane')) return principal;
    throw denied('This needs a gateway service token with the scope control_plane.');
  },
};

export function isPlatformAdmin(principal: Principal): boolean {
  return principal.scopes.includes('platform:admin');
}

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
  if (!isPlatformAdmin(principal)) throw denied('This key acts for no organization.');
  if (named === undefined) {
    throw new AppError('org_required', 'Name the organization: org_id.', { param: 'org_id' });
  }
  return (await organizations.get(db, named)).id;
}

async function authenticate(http: Context, db: Db): Promise<Principal> {
  const key = /^Bearer\s+(\S+)$/i.exec(http.get('authorization'))?.[1];
  if (key === undefined)
    throw new AppError(
      'invalid_credential',
      'Send an access key: Authorization: Bearer svc_ak_...',
    );
  const token = await tokens.authenticate(db, key);
  if (token.token_type !== 'access') {
    throw new AppError(
      'invalid_credential',
      'A gateway key works at the gateway; the control plane takes access keys.',
    );
  }
  return { id: token.id, org_id: token.org_id, user_id: token.user_id, scopes: token.scopes };
}

function denied(message: string): AppError {
  return new AppError('permission_denied', message);
}

/** Throws 426 where the gateway's version is outside the specification's table; a missing version counts as current. */
export function requireGatewayVersion(http: Context): void {
  const version = http.get('x-svc-gateway-version');
  if (version === '' || /^1\.[45]\.\d+/.test(version)) return;
  throw new AppError(
    'version_not_supported',
    `API 1.5 works with gateways 1.4 and 1.5, not with ${version}.`,
  );
}
