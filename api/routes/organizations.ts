import { z } from 'zod';
import * as organizations from '../../domain/people/organizations';
import * as rights from '../../domain/people/rights';
import { requireOther } from '../../domain/people/team-rights';
import * as teams from '../../domain/people/teams';
import * as answers from '../answers/people';
import * as shared from '../answers/shared';
import { actingOrg, member, permission, platformAdmin } from '../http/access';
import { currency, id, name, page } from '../http/fields';
import { type Ctx, route } from '../http/route';

const org = z.strictObject({ id });
const listed = z.strictObject({ id, ...page });
const named = z.strictObject({ id, name });
const oneTeam = z.strictObject({ id, team_id: id });
const teamMember = z.strictObject({ id, team_id: id, user_id: id });
const teamRole = z
  .enum(['member', 'admin'])
  .describe(
    "What the person is in this team. An admin may allocate its money to its members, decide on its members' tickets and see what it spends.",
  );
const newTeamMember = teamMember.extend({ role: teamRole.optional() });
const changedTeamMember = teamMember.extend({ role: teamRole });

const managing = permission('org:members');
const root = '/v1/organizations/:id';
const teamMembers = `${root}/teams/:team_id/members`;

export const organizationRoutes = [
  route({
    method: 'get',
    path: '/v1/admin/organizations',
    access: platformAdmin,
    input: z.strictObject(page),
    handler: listOrganizations,
    summary: 'All organizations.',
    answer: shared.list({ organizations: answers.organization }),
  }),
  route({
    method: 'post',
    path: '/v1/admin/organizations',
    access: platformAdmin,
    input: z.strictObject({ name, currency: currency.default('USD') }),
    handler: createOrganization,
    is_recorded: true,
    summary: 'Make an organization with its wallet at 0.',
    status: 201,
    answer: answers.organization,
  }),
  route({
    method: 'get',
    path: root,
    access: member,
    input: org,
    handler: getOrganization,
    summary: 'An organization.',
    answer: answers.organization,
  }),
  route({
    method: 'get',
    path: `${root}/teams`,
    access: member,
    input: listed,
    handler: listTeams,
    summary: 'Its teams.',
    answer: shared.list({ teams: answers.named }),
  }),
  route({
    method: 'post',
    path: `${root}/teams`,
    access: managing,
    input: named,
    handler: createTeam,
    is_recorded: true,
    summary: 'Make a team.',
    status: 201,
    answer: answers.named,
  }),
  route({
    method: 'delete',
    path: `${root}/teams/:team_id`,
    access: managing,
    input: oneTeam,
    handler: archiveTeam,
    is_recorded: true,
    summary: 'Archive a team and revoke its keys. Its money stays in its wallet.',
    answer: shared.nothing,
  }),
  route({
    method: 'post',
    path: teamMembers,
    access: managing,
    input: newTeamMember,
    handler: addTeamMember,
    is_recorded: true,
    summary: 'Take a member into a team, as member or as its admin.',
    status: 201,
    answer: answers.teamMember,
  }),
  route({
    method: 'put',
    path: `${teamMembers}/:user_id`,
    access: managing,
    input: changedTeamMember,
    handler: setTeamRole,
    is_recorded: true,
    summary: 'Make a member of a team its admin, or its admin a member.',
    answer: answers.teamMember,
  }),
  route({
    method: 'delete',
    path: `${teamMembers}/:user_id`,
    access: managing,
    input: teamMember,
    handler: removeTeamMember,
    is_recorded: true,
    summary: 'Take a member out of a team, and revoke their keys for it.',
    answer: answers.endedTeamKeys,
  }),
];

async function listOrganizations({ db }: Ctx, window: z.infer<z.ZodObject<typeof page>>) {
  const { rows, ...rest } = await organizations.list(db, window);
  return { organizations: rows, ...rest };
}

function createOrganization({ db }: Ctx, input: { name: string; currency: string }) {
  return organizations.create(db, input);
}

async function getOrganization({ db, principal }: Ctx, input: z.infer<typeof org>) {
  return organizations.get(db, await actingOrg(db, principal, input.id));
}

async function listTeams(
  { db, principal }: Ctx,
  { id: named_id, ...window }: z.infer<typeof listed>,
) {
  const org_id = await actingOrg(db, principal, named_id);
  const { rows, ...rest } = await organizations.listTeams(db, org_id, window);
  return { teams: rows, ...rest };
}

async function createTeam({ db, principal }: Ctx, input: z.infer<typeof named>) {
  const org_id = await actingOrg(db, principal, input.id);
  await rights.lock(db, org_id, principal, 'org:members');
  return organizations.createTeam(db, org_id, input.name);
}

async function archiveTeam(
  { db, principal }: Ctx,
  { id: org_id, team_id }: z.infer<typeof oneTeam>,
) {
  const acting = await actingOrg(db, principal, org_id);
  await rights.lock(db, acting, principal, 'org:members');
  await organizations.archiveTeam(db, acting, team_id);
}

async function addTeamMember(
  { db, principal }: Ctx,
  { id: named_id, team_id, user_id, role }: z.infer<typeof newTeamMember>,
) {
  const org_id = await actingOrg(db, principal, named_id);
  const caller = await rights.lock(db, org_id, principal, 'org:members');
  if (role === 'admin') requireOther(caller, user_id);
  return teams.add(db, { org_id, team_id, user_id }, role);
}

async function setTeamRole(
  { db, principal }: Ctx,
  { id: named_id, team_id, user_id, role }: z.infer<typeof changedTeamMember>,
) {
  const org_id = await actingOrg(db, principal, named_id);
  const caller = await rights.lock(db, org_id, principal, 'org:members');
  if (role === 'admin') requireOther(caller, user_id);
  return teams.setRole(db, { org_id, team_id, user_id }, role);
}

async function removeTeamMember(
  { db, principal }: Ctx,
  { id: named_id, team_id, user_id }: z.infer<typeof teamMember>,
) {
  const org_id = await actingOrg(db, principal, named_id);
  await rights.lock(db, org_id, principal, 'org:members');
  return teams.remove(db, { org_id, team_id, user_id });
}
