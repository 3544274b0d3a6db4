import { z } from 'zod';
import * as organizations from '../../domain/people/organizations';
import * as rights from '../../domain/people/rights';
import * as answers from '../answers/people';
import * as shared from '../answers/shared';
import { actingOrg, member, permission, platformAdmin } from '../http/access';
import { currency, id, listParts, name, search, text } from '../http/fields';
import { once } from '../http/idempotency';
import { type Ctx, route } from '../http/route';

const one = z.strictObject({ id });
const renamed = z.strictObject({ id, name });
const listed = z.strictObject({
  q: search,
  status: z
    .enum(['active', 'suspended', 'archived'])
    .optional()
    .describe('Only those that are so; absent: all that are not archived.'),
  ...listParts('name'),
});
const suspension = z.strictObject({
  id,
  reason: text.optional().describe('What the organization is told about it.'),
});

const root = '/v1/organizations/:id';
const admin = '/v1/admin/organizations';

export const organizationRoutes = [
  route({
    method: 'get',
    path: admin,
    access: platformAdmin,
    input: listed,
    handler: listOrganizations,
    summary: 'All organizations.',
    answer: shared.parts({ organizations: answers.organization }),
  }),
  route({
    method: 'post',
    path: admin,
    access: platformAdmin,
    input: z.strictObject({ name, currency: currency.default('USD') }),
    handler: createOrganization,
    is_idempotent: true,
    is_recorded: true,
    is_run_once: true,
    summary: 'Make an organization with its wallet at 0.',
    status: 201,
    answer: answers.organization,
  }),
  route({
    method: 'post',
    path: `${admin}/:id/suspend`,
    access: platformAdmin,
    input: suspension,
    handler: suspend,
    is_recorded: true,
    summary:
      'Refuse all keys and people of an organization, at the API and at gateways. Its money stays; calls under way settle.',
    answer: answers.organization,
  }),
  route({
    method: 'post',
    path: `${admin}/:id/unsuspend`,
    access: platformAdmin,
    input: one,
    handler: unsuspend,
    is_recorded: true,
    summary: 'Take the keys and people of a suspended organization again.',
    answer: answers.organization,
  }),
  route({
    method: 'post',
    path: `${admin}/:id/archive`,
    access: platformAdmin,
    input: one,
    handler: archive,
    is_recorded: true,
    summary:
      'End an organization that has no money, holds, tickets or payments left: its keys and sessions end, and nobody reaches it.',
    answer: shared.nothing,
  }),
  route({
    method: 'post',
    path: `${admin}/:id/unarchive`,
    access: platformAdmin,
    input: one,
    handler: unarchive,
    is_recorded: true,
    summary:
      'Take back the end of an organization: its people are there again, its keys stay revoked.',
    answer: answers.organization,
  }),
  route({
    method: 'get',
    path: root,
    access: member,
    input: one,
    handler: getOrganization,
    summary: 'An organization.',
    answer: answers.organization,
  }),
  route({
    method: 'patch',
    path: root,
    access: permission('org:members'),
    input: renamed,
    handler: renameOrganization,
    is_recorded: true,
    summary: 'Give an organization another name.',
    answer: answers.organization,
  }),
];

async function listOrganizations({ db }: Ctx, { q, status, ...request }: z.infer<typeof listed>) {
  const { rows, ...rest } = await organizations.list(db, { q, status }, request);
  return { organizations: rows, ...rest };
}

function createOrganization(ctx: Ctx, input: { name: string; currency: string }) {
  return once(ctx, null, (db) => organizations.create(db, input));
}

function suspend({ db }: Ctx, { id: org_id, reason }: z.infer<typeof suspension>) {
  return organizations.suspend(db, org_id, { reason: reason ?? null });
}

function unsuspend({ db }: Ctx, { id: org_id }: z.infer<typeof one>) {
  return organizations.suspend(db, org_id, null);
}

function archive({ db }: Ctx, { id: org_id }: z.infer<typeof one>) {
  return organizations.archiveOrganization(db, org_id);
}

function unarchive({ db }: Ctx, { id: org_id }: z.infer<typeof one>) {
  return organizations.unarchive(db, org_id);
}

async function getOrganization({ db, principal }: Ctx, input: z.infer<typeof one>) {
  return organizations.get(db, await actingOrg(db, principal, input.id));
}

async function renameOrganization({ db, principal }: Ctx, input: z.infer<typeof renamed>) {
  const org_id = await actingOrg(db, principal, input.id);
  await rights.lock(db, org_id, principal, 'org:members');
  return organizations.rename(db, org_id, input.name);
}
