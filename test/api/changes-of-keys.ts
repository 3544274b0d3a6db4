import { randomUUID } from 'node:crypto';
import type { CallApi, Tenant } from '../support/api';

/** A change through a route of people. */
export interface Change {
  body?: object | (() => Promise<object>);
  /** Makes what the route changes; its id takes the place of the last name in the path. */
  of?: () => Promise<string>;
  /** The actions of the audit events, in any order. */
  actions: string[];
  /** Only a person does it: the tenant's member. */
  by_member?: true;
}

/** The changes of keys, those that members make for themselves included. */
export function changesOfKeys(
  { call, tenant }: { call: CallApi; tenant: Tenant },
  newKey: () => Promise<string>,
): Record<string, Change> {
  const unique = (label: string) => `${label} ${randomUUID()}`;
  const allowMembers = async () => {
    const body = { enabled: true, max_keys: 1_000 };
    await call('put', `/v1/organizations/${tenant.org_id}/member-keys`, {
      key: tenant.owner_key,
      body,
    });
  };
  /** A gateway key that the member made. */
  const newMemberKey = async () => {
    await allowMembers();
    const name = unique('my key');
    const made = await call('post', '/v1/me/keys', { key: tenant.member_key, body: { name } });
    expect(made.status).toBe(201);
    return name;
  };

  return {
    'post /v1/tokens': {
      body: { name: unique('k'), token_type: 'gateway' },
      actions: ['key.created'],
    },
    'patch /v1/tokens/:name': {
      body: { expires_at: '2200-01-01' },
      of: newKey,
      actions: ['key.changed'],
    },
    'put /v1/organizations/:id/member-keys': {
      body: async () => ({ enabled: true, max_keys: 1_000 }),
      actions: ['member_key_settings.created'],
    },
    'post /v1/me/keys': {
      body: async () => {
        await allowMembers();
        return { name: unique('my key') };
      },
      actions: ['key.created'],
      by_member: true,
    },
    'patch /v1/me/keys/:name': {
      body: { expires_at: '2200-01-01' },
      of: newMemberKey,
      actions: ['key.changed'],
      by_member: true,
    },
    'delete /v1/me/keys/:name': {
      of: newMemberKey,
      actions: ['key.ended'],
      by_member: true,
    },
    'post /v1/me/keys/:name/rotate': {
      of: newMemberKey,
      actions: ['key.rotated'],
      by_member: true,
    },
    'delete /v1/tokens/:name': { of: newKey, actions: ['key.ended'] },
    'post /v1/tokens/:name/rotate': { of: newKey, actions: ['key.rotated'] },
  };
}
