import { randomUUID } from 'node:crypto';
import { type Role, rolePermissions } from '../../domain/people/roles';
import type { Db } from '../../domain/sql';
import type { Answer, CallApi, Tenant } from './api';
import { makeKey } from './keys';

/** A member of a tenant. */
export interface Person {
  user_id: string;
  /** An access key that stands for them, with all that their role may do. */
  key: string;
  /** The path of their membership. */
  at: string;
}

/** Takes a person into a tenant's organization. */
export async function makePerson(
  { db, call }: { db: Db; call: CallApi },
  { org_id, owner_key }: Tenant,
  role: Role,
): Promise<Person> {
  const members = `/v1/organizations/${org_id}/members`;
  const body = { name: `Ann ${randomUUID()}`, role };
  const { user_id } = (await call('post', members, { key: owner_key, body })).body;
  const key = await makeKey(db, org_id, { user_id, scopes: rolePermissions[role] });
  return { user_id, key, at: `${members}/${user_id}` };
}

/** Asks for a key, an access key without scopes by default. */
export function issue(call: CallApi, key: string, more: object = {}): Promise<Answer> {
  const body = { name: randomUUID(), token_type: 'access', ...more };
  return call('post', '/v1/tokens', { key, body });
}
