import { z } from 'zod';
import { requireKnown } from '../../domain/known';
import * as memberLists from '../../domain/people/member-lists';
import * as members from '../../domain/people/members';
import * as rights from '../../domain/people/rights';
import * as answers from '../answers/people';
import * as shared from '../answers/shared';
import { actingOrg, member, permission } from '../http/access';
import { id, listParts, name, search } from '../http/fields';
import { once } from '../http/idempotency';
import { type Ctx, route } from '../http/route';
import { addMembers, newMember, newMembers, role, takeIn, withTeams } from './new-members';

const listed = z.strictObject({
  id,
  q: search,
  role: role.optional(),
  team_id: id.optional().describe('Only those who are in this team.'),
  ...listParts('name'),
});
const keep_keys = z
  .preprocess((given) => (typeof given === 'string' ? [given] : given), z.array(id).max(1_000))
  .optional()
  .describe(
    'Keys that this person made, by name or id, which are not revoked: they become yours, without the scopes that you lack.',
  );
const shown = z.strictObject({ id, user_id: id });
const renamed = z.strictObject({
  id,
  user_id: id,
  name: name.optional(),
  email: z.email().nullish(),
});
const oneMember = z.strictObject({ id, user_id: id, keep_keys });
const memberRole = z.strictObject({ id, user_id: id, role, keep_keys });

const managing = permission('org:members');
const root = '/v1/organizations/:id';

export const memberRoutes = [
  route({
    method: 'get',
    path: `${root}/members`,
    access: member,
    input: listed,
    handler: listMembers,
    summary: 'Its members.',
    answer: shared.parts({ members: answers.member }),
  }),
  route({
    method: 'post',
    path: `${root}/members`,
    access: managing,
    input: newMember,
    handler: addMember,
    is_idempotent: true,
    is_recorded: true,
    is_run_once: true,
    summary: 'Take in a new person by name, or a known one by user_id, and into teams.',
    status: 201,
    answer: answers.memberWithTeams,
  }),
  route({
    method: 'post',
    path: `${root}/members/bulk`,
    access: managing,
    input: newMembers,
    handler: addMembers,
    is_recorded: true,
    is_run_once: true,
    summary: 'Take in many people, each into the teams that they belong to. Each has a result.',
    answer: answers.membersAdded,
  }),
  route({
    method: 'get',
    path: `${root}/members/:user_id`,
    access: member,
    input: shown,
    handler: getMember,
    summary: 'A member, with the teams that they are in.',
    answer: answers.memberWithTeams,
  }),
  route({
    method: 'patch',
    path: `${root}/members/:user_id`,
    access: managing,
    input: renamed,
    handler: renameMember,
    is_recorded: true,
    summary: "Change a member's name or e-mail address.",
    answer: answers.member,
  }),
  route({
    method: 'put',
    path: `${root}/members/:user_id`,
    access: managing,
    input: memberRole,
    handler: setRole,
    is_recorded: true,
    summary:
      "Change a member's role; their keys do no more than the role from now on. A role of less revokes the keys that they made.",
    answer: answers.changedMember,
  }),
  route({
    method: 'delete',
    path: `${root}/members/:user_id`,
    access: managing,
    input: oneMember,
    handler: removeMember,
    is_recorded: true,
    summary: 'Remove a member, and revoke their keys and those that they made.',
    answer: answers.endedKeys,
  }),
];

async function listMembers({ db, principal }: Ctx, input: z.infer<typeof listed>) {
  const { id: named_id, q, role: wanted, team_id, ...request } = input;
  const org_id = await actingOrg(db, principal, named_id);
  await requireKnown(db, org_id, { team_id });
  const filter = { org_id, q, role: wanted, team_id };
  const { rows, ...rest } = await memberLists.list(db, filter, request);
  return { members: rows, ...rest };
}

async function getMember({ db, principal }: Ctx, { id: named_id, user_id }: z.infer<typeof shown>) {
  const org_id = await actingOrg(db, principal, named_id);
  return withTeams(db, org_id, await members.get(db, org_id, user_id));
}

async function addMember(ctx: Ctx, { id: named_id, ...given }: z.infer<typeof newMember>) {
  const { principal } = ctx;
  const org_id = await actingOrg(ctx.db, principal, named_id);
  return once(ctx, org_id, async (db) => {
    const caller = await rights.lock(db, org_id, principal, 'org:members');
    return takeIn(db, org_id, caller, given);
  });
}

async function renameMember(
  { db, principal }: Ctx,
  { id: named_id, user_id, ...change }: z.infer<typeof renamed>,
) {
  const org_id = await actingOrg(db, principal, named_id);
  const may_rename_anyone = rights.isPlatformAdmin(principal);
  const locked = may_rename_anyone ? await members.lockOrganizationsOf(db, user_id) : [];
  const caller = await rights.lock(db, org_id, principal, 'org:members');
  rights.requireRank(caller, (await members.get(db, org_id, user_id)).role);
  return members.rename(db, { org_id, user_id }, change, { may_rename_anyone, locked });
}

async function setRole(
  { db, principal }: Ctx,
  { id: named_id, user_id, role: given, keep_keys }: z.infer<typeof memberRole>,
) {
  const org_id = await actingOrg(db, principal, named_id);
  const caller = await rights.lock(db, org_id, principal, 'org:members');
  return members.setRole(db, { org_id, user_id }, given, { caller, keep_keys });
}

async function removeMember(
  { db, principal }: Ctx,
  { id: named_id, user_id, keep_keys }: z.infer<typeof oneMember>,
) {
  const org_id = await actingOrg(db, principal, named_id);
  const caller = await rights.lock(db, org_id, principal, 'org:members');
  return members.remove(db, { org_id, user_id }, { caller, keep_keys });
}
