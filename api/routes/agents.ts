import { z } from 'zod';
import * as organizations from '../../domain/people/organizations';
import * as rights from '../../domain/people/rights';
import * as answers from '../answers/people';
import * as shared from '../answers/shared';
import { actingOrg, permission } from '../http/access';
import { id, name, page } from '../http/fields';
import { type Ctx, route } from '../http/route';

const listed = z.strictObject({ id, ...page });
const named = z.strictObject({ id, name });
const oneAgent = z.strictObject({ id, agent_id: id });

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
    answer: shared.list({ agents: answers.named }),
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

async function listAgents(
  { db, principal }: Ctx,
  { id: named_id, ...window }: z.infer<typeof listed>,
) {
  const org_id = await actingOrg(db, principal, named_id);
  const { rows, ...rest } = await organizations.listAgents(db, org_id, window);
  return { agents: rows, ...rest };
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
