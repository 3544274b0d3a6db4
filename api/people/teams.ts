import { z } from 'zod';
import { leftOfTeam } from '../../domain/ledger/gifts';
import * as organizations from '../../domain/people/organizations';
import * as rights from '../../domain/people/rights';
import { requireLeading, requireOther } from '../../domain/people/team-rights';
import * as teams from '../../domain/people/teams';
import * as answers from '../answers/people';
import * as shared from '../answers/shared';
import { actingOrg, member, permission } from '../http/access';
import { id, listParts, name, search } from '../http/fields';
import { type Ctx, route } from '../http/route';

const status = z
  .enum(['active', 'archived'])
  .optional()
  .describe('active: those that were not archived, which is what is listed without it.');
const listed = z.strictObject({ id, q: search, status, ...listParts('name') });
const named = z.strictObject({ id, name });
const oneTeam = z.strictObject({ id, team_id: id });
const renamed = z.strictObject({ id, team_id: id, name });
const teamMember = z.strictObject({ id, team_id: id, user_id: id });
const teamRole = z
  .enum(['member', 'admin'])
  .describe(
    "What the person is in this team. An admin may allocate its money to its members, decide on its members' tickets and see what it spends.",
  );
const listedMembers = z.strictObject({
  id,
  team_id: id,
  q: search,
  role: teamRole.optional(),
  with_given_left: z
    .enum(['true', 'false'])
    .optional()
    .describe(
      "true: with what is left of what the team gave to each, for org:billing and the team's admins.",
    ),
  ...listParts('name'),
});
const newTeamMember = teamMember.extend({ role: teamRole.optional() });
const changedTeamMember = teamMember.extend({ role: teamRole });

const managing = permission('org:members');
const root = '/v1/organizations/:id/teams';
const one = `${root}/:team_id`;
const teamMembers = `${one}/members`;

export const teamRoutes = [
  route({
    method: 'get',
    path: root,
    access: member,
    input: listed,
    handler: listTeams,
    summary: 'Its teams.',
    answer: shared.parts({ teams: answers.named }),
  }),
  route({
    method: 'post',
    path: root,
    access: managing,
    input: named,
    handler: createTeam,
    is_recorded: true,
    summary: 'Make a team.',
    status: 201,
    answer: answers.named,
  }),
  route({
    method: 'get',
    path: one,
    access: member,
    input: oneTeam,
    handler: getTeam,
    summary: 'A team, also an archived one.',
    answer: answers.named,
  }),
  route({
    method: 'patch',
    path: one,
    access: managing,
    input: renamed,
    handler: renameTeam,
    is_recorded: true,
    summary: 'Give a team another name.',
    answer: answers.named,
  }),
  route({
    method: 'delete',
    path: one,
    access: managing,
    input: oneTeam,
    handler: archiveTeam,
    is_recorded: true,
    summary: 'Archive a team and revoke its keys. Its money stays in its wallet.',
    answer: shared.nothing,
  }),
  route({
    method: 'get',
    path: teamMembers,
    access: member,
    input: listedMembers,
    handler: listTeamMembers,
    summary: 'Who is in a team, and as what.',
    answer: shared.parts({ members: answers.listedTeamMember }),
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

async function listTeams({ db, principal }: Ctx, input: z.infer<typeof listed>) {
  const { id: named_id, q, status: wanted, ...request } = input;
  const org_id = await actingOrg(db, principal, named_id);
  const filter = { org_id, q, status: wanted };
  const { rows, ...rest } = await organizations.listTeams(db, filter, request);
  return { teams: rows, ...rest };
}

async function createTeam({ db, principal }: Ctx, input: z.infer<typeof named>) {
  const org_id = await actingOrg(db, principal, input.id);
  await rights.lock(db, org_id, principal, 'org:members');
  return organizations.createTeam(db, org_id, input.name);
}

async function getTeam({ db, principal }: Ctx, input: z.infer<typeof oneTeam>) {
  return organizations.getTeam(db, await actingOrg(db, principal, input.id), input.team_id);
}

async function renameTeam({ db, principal }: Ctx, input: z.infer<typeof renamed>) {
  const org_id = await actingOrg(db, principal, input.id);
  await rights.lock(db, org_id, principal, 'org:members');
  return organizations.renameTeam(db, { org_id, id: input.team_id }, input.name);
}

async function archiveTeam(
  { db, principal }: Ctx,
  { id: org_id, team_id }: z.infer<typeof oneTeam>,
) {
  const acting = await actingOrg(db, principal, org_id);
  await rights.lock(db, acting, principal, 'org:members');
  await organizations.archiveTeam(db, acting, team_id);
}

async function listTeamMembers({ db, principal }: Ctx, input: z.infer<typeof listedMembers>) {
  const { id: named_id, team_id, q, role, with_given_left, ...request } = input;
  const org_id = await actingOrg(db, principal, named_id);
  const at = { org_id, team_id };
  const is_asked = with_given_left === 'true';
  if (is_asked) await requireLeading(db, at, principal, 'org:billing');
  const { rows, ...rest } = await teams.list(db, at, { q, role }, request);
  const user_ids = rows.map(({ user_id }) => user_id);
  const left = is_asked ? await leftOfTeam(db, { ...at, user_ids }) : undefined;
  const given = ({ user_id }: { user_id: string }) => left && (left.get(user_id) ?? 0n);
  return {
    members: rows.map((row) => ({ ...row, given_left_nanos: given(row) ?? null })),
    ...rest,
  };
}

async function addTeamMember(
  { db, principal }: Ctx,
  { id: named_id, team_id, user_id, role }: z.infer<typeof newTeamMember>,
) {
  const org_id = await actingOrg(db, principal, named_id);
  const caller = await rights.lock(db, org_id, principal, 'org:members');
  if (role === 'admin') await requireOther(db, { org_id, user_id, caller });
  return teams.add(db, { org_id, team_id, user_id }, role);
}

async function setTeamRole(
  { db, principal }: Ctx,
  { id: named_id, team_id, user_id, role }: z.infer<typeof changedTeamMember>,
) {
  const org_id = await actingOrg(db, principal, named_id);
  const caller = await rights.lock(db, org_id, principal, 'org:members');
  if (role === 'admin') await requireOther(db, { org_id, user_id, caller });
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
