import type { CallApi } from '../support/api';
import type { Change } from './changes-of-keys';

const root = '/v1/admin/organizations';

/** The changes that the platform makes to organizations. */
export function changesOfOrganizations(call: CallApi, platform: string): Record<string, Change> {
  const newOrganization = async (): Promise<string> => {
    const made = await call('post', root, { key: platform, body: { name: 'Acme' } });
    expect(made.status).toBe(201);
    return made.body.id;
  };
  const after = (verb: string) => async () => {
    const id = await newOrganization();
    const { status } = await call('post', `${root}/${id}/${verb}`, { key: platform, body: {} });
    expect(status).toBe(200);
    return id;
  };
  return {
    [`post ${root}`]: { body: { name: 'Acme' }, actions: ['organization.created'] },
    [`post ${root}/:id/suspend`]: {
      body: { reason: 'unpaid' },
      of: newOrganization,
      actions: ['organization.changed'],
    },
    [`post ${root}/:id/unsuspend`]: { of: after('suspend'), actions: ['organization.changed'] },
    // It is suspended with its end, and taken back with it.
    [`post ${root}/:id/archive`]: {
      of: newOrganization,
      actions: ['organization.changed', 'organization.ended'],
    },
    [`post ${root}/:id/unarchive`]: {
      of: after('archive'),
      actions: ['organization.changed', 'organization.created'],
    },
  };
}
