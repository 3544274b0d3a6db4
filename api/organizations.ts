import { z } from 'zod';
import * as organizations from '../domain/organizations';
import { actingOrg, member, permission, platformAdmin } from './access';
import { currency, id, name } from './fields';
import { type Ctx, route } from './route';

const role = z.enum(['owner', 'admin', 'billing_admin', 'member']);
const org = z.strictObject({ id });
const named = z.strictObject({ id, name });
const newMember = z.strictObject({
  id,
  user_id: id.optional(),
  name: name.optional(),
  email: z.email().optional(),
  issuer: id.optional(),
  subject: id.optional(),
  role: role.default('member'),
});
const oneMember = z.strictObject({ id, user_id: id });
const memberRole = z.strictObject({ id, user_id: id, role });
const oneTeam = z.strictObject({ id, team_id: id });
const teamMember = z.strictObject({ id, team_id: id, user_id: id });
const oneAgent = z.strictObject({ id, agent_id: id });

const members = permission('org:members');

export const organizationRoutes = [
  route('get', '/v1/admin/organizations', platformAdmin, z.strictObject({}), listOrganizations, {
    summary: 'All organizations.',
  }),
  route(
    'post',
    '/v1/admin/organizations',
    platformAdmin,
    z.strictObject({ name, currency: currency.default('USD') }),
    createOrganization,
    {
      summary: 'Make an organization with its wallet at 0.',
      status: 201,
    },
  ),
  route('get', '/v1/organizations/:id', member, org, getOrganization, {
    summary: 'An organization.',
  }),
  route('get', '/v1/organizations/:id/teams', member, org, listTeams, { summary: 'Its teams.' }),
  route('post', '/v1/organizations/:id/teams', members, named, createTeam, {
    summary: 'Make a team.',
    status: 201,
  }),
  route('delete', '/v1/organizations/:id/teams/:team_id', members, oneTeam, archiveTeam, {
    summary: 'Archive a team and revoke its keys. Its money stays in its wallet.',
  }),
  route(
    'post',
    '/v1/organizations/:id/teams/:team_id/members',
    members,
    teamMember,
    addTeamMember,
    {
      summary: 'Take a member into a team.',
      status: 201,
    },
  ),
  route(
    'delete',
    '/v1/organizations/:id/teams/:team_id/members/:user_id',
    members,
    teamMember,
    removeTeamMember,
    {
      summary: 'Take a member out of a team.',
    },
  ),
  route('get', '/v1/organizations/:id/members', member, org, listMembers, {
    summary: 'Its members.',
  }),
  route('post', '/v1/organizations/:id/members', members, newMember, addMember, {
    summary: 'Take in a new person by name, or a known one by user_id.',
    status: 201,
  }),
  route('put', '/v1/organizations/:id/members/:user_id', members, memberRole, setRole, {
    summary: "Change a member's role.",
  }),
  route('delete', '/v1/organizations/:id/members/:user_id', members, oneMember, removeMember, {
    summary: 'Remove a member and revoke their keys.',
  }),
  route('get', '/v1/organizations/:id/agents', permission('agents:read'), org, listAgents, {
    summary: 'Its agents.',
  }),
  route('post', '/v1/organizations/:id/agents', permission('agents:write'), named, createAgent, {
    summary: 'Make an agent.',
    status: 201,
  }),
  route(
    'delete',
    '/v1/organizations/:id/agents/:agent_id',
    permission('agents:write'),
    oneAgent,
    archiveAgent,
    {
      summary: 'Archive an agent and revoke its keys.',
    },
  ),
];

async function listOrganizations({ db }: Ctx) {
  return { organizations: await organizations.list(db) };
}

function createOrganization({ db }: Ctx, input: { name: string; currency: string }) {
  return organizations.create(db, input);
}

async function getOrganization({ db, principal }: Ctx, input: z.infer<typeof org>) {
  return organizations.get(db, await actingOrg(db, principal, input.id));
}

async function listTeams({ db, principal }: Ctx, input: z.infer<typeof org>) {
  return { teams: await organizations.listTeams(db, await actingOrg(db, principal, input.id)) };
}

async function createTeam({ db, principal }: Ctx, input: z.infer<typeof named>) {
  return organizations.createTeam(db, await actingOrg(db, principal, input.id), input.name);
}

async function archiveTeam(
  { db, principal }: Ctx,
  { id: org_id, team_id }: z.infer<typeof oneTeam>,
) {
  await organizations.archiveTeam(db, await actingOrg(db, principal, org_id), team_id);
}

async function addTeamMember({ db, principal }: Ctx, input: z.infer<typeof teamMember>) {
  await organizations.addTeamMember(
    db,
    await actingOrg(db, principal, input.id),
    input.team_id,
    input.user_id,
  );
  return { team_id: input.team_id, user_id: input.user_id };
}

async function removeTeamMember({ db, principal }: Ctx, input: z.infer<typeof teamMember>) {
  await organizations.removeTeamMember(
    db,
    await actingOrg(db, principal, input.id),
    input.team_id,
    input.user_id,
  );
}

async function listMembers({ db, principal }: Ctx, input: z.infer<typeof org>) {
  return { members: await organizations.listMembers(db, await actingOrg(db, principal, input.id)) };
}

async function addMember(
  { db, principal }: Ctx,
  { id: org_id, ...person }: z.infer<typeof newMember>,
) {
  return organizations.addMember(db, await actingOrg(db, principal, org_id), person);
}

async function setRole({ db, principal }: Ctx, input: z.infer<typeof memberRole>) {
  return organizations.setRole(
    db,
    await actingOrg(db, principal, input.id),
    input.user_id,
    input.role,
  );
}

async function removeMember(
  { db, principal }: Ctx,
  { id: org_id, user_id }: z.infer<typeof oneMember>,
) {
  await organizations.removeMember(db, await actingOrg(db, principal, org_id), user_id);
}

async function listAgents({ db, principal }: Ctx, input: z.infer<typeof org>) {
  return { agents: await organizations.listAgents(db, await actingOrg(db, principal, input.id)) };
}

async function createAgent({ db, principal }: Ctx, input: z.infer<typeof named>) {
  return organizations.createAgent(db, await actingOrg(db, principal, input.id), input.name);
}

async function archiveAgent(
  { db, principal }: Ctx,
  { id: org_id, agent_id }: z.infer<typeof oneAgent>,
) {
  await organizations.archiveAgent(db, await actingOrg(db, principal, org_id), agent_id);
}
