import { z } from 'zod';
import * as organizations from '../../domain/people/organizations';
import * as rights from '../../domain/people/rights';
import * as answers from '../answers/people';
import * as shared from '../answers/shared';
import { actingOrg, permission } from '../http/access';
import { id, listParts, name, search } from '../http/fields';
import { type Ctx, route } from '../http/route';

const listed = z.strictObject({
  id,
  q: search,
  status: z
    .enum(['active', 'archived'])
    .optional()
    .describe('active: those that were not archived, which is what is listed without it.'),
  ...listParts('name'),
});
const named = z.strictObject({ id, name });
const oneAgent = z.strictObject({ id, agent_id: id });
const renamed = z.strictObject({ id, agent_id: id, name });

const writing = permission('agents:write');
const root = '/v1/organizations/:id';

export const agentRoutes = [
  route({
    method: 'get',
    path: `${root}/agents`,
    access: permission('agents:read'),
    input: listed,
    handler: listAgents,
    summary: 'Its agents.',
    answer: shared.parts({ agents: answers.named }),
  }),
  route({
    method: 'post',
    path: `${root}/agents`,
    access: writing,
    input: named,
    handler: createAgent,
    is_recorded: true,
    summary: 'Make an agent.',
    status: 201,
    answer: answers.named,
  }),
  route({
    method: 'get',
    path: `${root}/agents/:agent_id`,
    access: permission('agents:read'),
    input: oneAgent,
    handler: getAgent,
    summary: 'An agent, also an archived one.',
    answer: answers.named,
  }),
  route({
    method: 'patch',
    path: `${root}/agents/:agent_id`,
    access: writing,
    input: renamed,
    handler: renameAgent,
    is_recorded: true,
    summary: 'Give an agent another name.',
    answer: answers.named,
  }),
  route({
    method: 'delete',
    path: `${root}/agents/:agent_id`,
    access: writing,
    input: oneAgent,
    handler: archiveAgent,
    is_recorded: true,
    summary: 'Archive an agent and revoke its keys.',
    answer: shared.nothing,
  }),
];

async function listAgents({ db, principal }: Ctx, input: z.infer<typeof listed>) {
  const { id: named_id, q, status, ...request } = input;
  const org_id = await actingOrg(db, principal, named_id);
  const { rows, ...rest } = await organizations.listAgents(db, { org_id, q, status }, request);
  return { agents: rows, ...rest };
}

async function getAgent({ db, principal }: Ctx, input: z.infer<typeof oneAgent>) {
  return organizations.getAgent(db, await actingOrg(db, principal, input.id), input.agent_id);
}

async function renameAgent({ db, principal }: Ctx, input: z.infer<typeof renamed>) {
  const org_id = await actingOrg(db, principal, input.id);
  await rights.lock(db, org_id, principal, 'agents:write');
  return organizations.renameAgent(db, { org_id, id: input.agent_id }, input.name);
}

async function createAgent({ db, principal }: Ctx, input: z.infer<typeof named>) {
  const org_id = await actingOrg(db, principal, input.id);
  await rights.lock(db, org_id, principal, 'agents:write');
  return organizations.createAgent(db, org_id, input.name);
}

async function archiveAgent(
  { db, principal }: Ctx,
  { id: org_id, agent_id }: z.infer<typeof oneAgent>,
) {
  const acting = await actingOrg(db, principal, org_id);
  await rights.lock(db, acting, principal, 'agents:write');
  await organizations.archiveAgent(db, acting, agent_id);
}
