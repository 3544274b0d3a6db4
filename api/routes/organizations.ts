import { z } from 'zod';
import { AppError } from '../../domain/errors';
import * as members from '../../domain/people/members';
import * as organizations from '../../domain/people/organizations';
import { rolePermissions } from '../../domain/people/tokens';
import * as answers from '../answers/people';
import * as shared from '../answers/shared';
import {
  actingOrg,
  isPlatformAdmin,
  member,
  type Principal,
  permission,
  platformAdmin,
  requireScopes,
} from '../http/access';
import { currency, id, name, page } from '../http/fields';
import { type Ctx, route } from '../http/route';

const role = z.enum(['owner', 'admin', 'billing_admin', 'member']);
const org = z.strictObject({ id });
const listed = z.strictObject({ id, ...page });
const named = z.strictObject({ id, name });
const newMember = z
  .strictObject({
    id,
    user_id: id.optional(),
    name: name.optional(),
    email: z.email().optional(),
    issuer: id.optional(),
    subject: id.optional(),
    role: role.default('member'),
  })
  .superRefine(oneWayToName);
const oneMember = z.strictObject({ id, user_id: id });
const memberRole = z.strictObject({ id, user_id: id, role });
const oneTeam = z.strictObject({ id, team_id: id });
const teamMember = z.strictObject({ id, team_id: id, user_id: id });
const oneAgent = z.strictObject({ id, agent_id: id });

const managing = permission('org:members');
const writing = permission('agents:write');
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
    summary: 'Archive a team and revoke its keys. Its money stays in its wallet.',
    answer: shared.nothing,
  }),
  route({
    method: 'post',
    path: teamMembers,
    access: managing,
    input: teamMember,
    handler: addTeamMember,
    summary: 'Take a member into a team.',
    status: 201,
    answer: answers.teamMember,
  }),
  route({
    method: 'delete',
    path: `${teamMembers}/:user_id`,
    access: managing,
    input: teamMember,
    handler: removeTeamMember,
    summary: 'Take a member out of a team.',
    answer: shared.nothing,
  }),
  route({
    method: 'get',
    path: `${root}/members`,
    access: member,
    input: listed,
    handler: listMembers,
    summary: 'Its members.',
    answer: shared.list({ members: answers.member }),
  }),
  route({
    method: 'post',
    path: `${root}/members`,
    access: managing,
    input: newMember,
    handler: addMember,
    summary: 'Take in a new person by name, or a known one by user_id.',
    status: 201,
    answer: answers.member,
  }),
  route({
    method: 'put',
    path: `${root}/members/:user_id`,
    access: managing,
    input: memberRole,
    handler: setRole,
    summary: "Change a member's role; their keys do no more than the role from now on.",
    answer: answers.member,
  }),
  route({
    method: 'delete',
    path: `${root}/members/:user_id`,
    access: managing,
    input: oneMember,
    handler: removeMember,
    summary: 'Remove a member and revoke their keys.',
    answer: shared.nothing,
  }),
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
    summary: 'Archive an agent and revoke its keys.',
    answer: shared.nothing,
  }),
];

/** A known person by `user_id` alone, or a new one by `name`; an issuer has a subject. */
function oneWayToName(given: Record<string, unknown>, check: z.RefinementCtx): void {
  const about = ['name', 'email', 'issuer', 'subject'].filter(
    (field) => given[field] !== undefined,
  );
  const refuse = (field: string, message: string) =>
    check.addIssue({ code: 'custom', path: [field], message });
  if (given.user_id !== undefined) {
    if (about[0]) refuse(about[0], 'is for new people; the one of this user_id is known');
    return;
  }
  if (given.name === undefined) refuse('name', 'is needed for a new person');
  if ((given.issuer === undefined) !== (given.subject === undefined))
    refuse(given.issuer === undefined ? 'issuer' : 'subject', 'goes with the other of the two');
}

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
  return organizations.createTeam(db, await actingOrg(db, principal, input.id), input.name);
}

async function archiveTeam(
  { db, principal }: Ctx,
  { id: org_id, team_id }: z.infer<typeof oneTeam>,
) {
  const acting = await actingOrg(db, principal, org_id);
  await organizations.archiveTeam(db, acting, team_id);
}

async function addTeamMember({ db, principal }: Ctx, input: z.infer<typeof teamMember>) {
  await members.addToTeam(
    db,
    await actingOrg(db, principal, input.id),
    input.team_id,
    input.user_id,
  );
  return { team_id: input.team_id, user_id: input.user_id };
}

async function removeTeamMember({ db, principal }: Ctx, input: z.infer<typeof teamMember>) {
  await members.removeFromTeam(
    db,
    await actingOrg(db, principal, input.id),
    input.team_id,
    input.user_id,
  );
}

async function listMembers(
  { db, principal }: Ctx,
  { id: named_id, ...window }: z.infer<typeof listed>,
) {
  const org_id = await actingOrg(db, principal, named_id);
  const { rows, ...rest } = await members.list(db, org_id, window);
  return { members: rows, ...rest };
}

async function addMember(
  { db, principal }: Ctx,
  { id: named_id, ...person }: z.infer<typeof newMember>,
) {
  // A caller who may map JWTs to people could take over another organization's; only the platform
  // knows its issuer.
  if (person.issuer !== undefined && !isPlatformAdmin(principal)) {
    throw new AppError(
      'permission_denied',
      'Only a platform admin may bind a person to an issuer and subject.',
      {
        param: 'issuer',
      },
    );
  }
  const org_id = await actingOrg(db, principal, named_id);
  mayManage(principal, person.role);
  return members.add(db, org_id, person, isPlatformAdmin(principal));
}

async function setRole(
  { db, principal }: Ctx,
  { id: named_id, user_id, role: given }: z.infer<typeof memberRole>,
) {
  const org_id = await actingOrg(db, principal, named_id);
  mayManage(principal, (await members.get(db, org_id, user_id)).role);
  mayManage(principal, given);
  return members.setRole(db, org_id, user_id, given);
}

async function removeMember(
  { db, principal }: Ctx,
  { id: named_id, user_id }: z.infer<typeof oneMember>,
) {
  const org_id = await actingOrg(db, principal, named_id);
  mayManage(principal, (await members.get(db, org_id, user_id)).role);
  await members.remove(db, org_id, user_id);
}

/**
 * Nobody may make, change or remove a member with more permissions than their own: an admin would
 * make themselves the owner.
 */
function mayManage(principal: Principal, of: members.Role): void {
  requireScopes(principal, rolePermissions[of], 'role');
}

async function listAgents(
  { db, principal }: Ctx,
  { id: named_id, ...window }: z.infer<typeof listed>,
) {
  const org_id = await actingOrg(db, principal, named_id);
  const { rows, ...rest } = await organizations.listAgents(db, org_id, window);
  return { agents: rows, ...rest };
}

async function createAgent({ db, principal }: Ctx, input: z.infer<typeof named>) {
  return organizations.createAgent(db, await actingOrg(db, principal, input.id), input.name);
}

async function archiveAgent(
  { db, principal }: Ctx,
  { id: org_id, agent_id }: z.infer<typeof oneAgent>,
) {
  const acting = await actingOrg(db, principal, org_id);
  await organizations.archiveAgent(db, acting, agent_id);
}
