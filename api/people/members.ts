import { z } from 'zod';
import { AppError, isAppError } from '../../domain/errors';
import * as memberLists from '../../domain/people/member-lists';
import * as members from '../../domain/people/members';
import * as rights from '../../domain/people/rights';
import { rolePermissions } from '../../domain/people/roles';
import { requireOther } from '../../domain/people/team-rights';
import * as teams from '../../domain/people/teams';
import type { Db } from '../../domain/sql';
import * as answers from '../answers/people';
import * as shared from '../answers/shared';
import { actingOrg, member, permission } from '../http/access';
import { id, listParts, name, search } from '../http/fields';
import { type Ctx, route } from '../http/route';

const role = z.enum(['owner', 'admin', 'billing_admin', 'member']);
const listed = z.strictObject({
  id,
  q: search,
  role: role.optional(),
  team_id: id.optional().describe('Only those who are in this team.'),
  ...listParts('name'),
});
const person = {
  user_id: id.optional(),
  name: name.optional(),
  email: z.email().optional(),
  issuer: id.optional(),
  subject: id.optional(),
  role: role.default('member'),
};
const newMember = z.strictObject({ id, ...person }).superRefine(oneWayToName);
const newMembers = z.strictObject({
  id,
  members: z
    .array(
      z
        .strictObject({
          ...person,
          teams: z
            .array(
              z.strictObject({
                team_id: id,
                role: z
                  .enum(['member', 'admin'])
                  .default('member')
                  .describe('What the person is in this team.'),
              }),
            )
            .max(20)
            .default([])
            .describe('Teams that the person is taken into.'),
        })
        .superRefine(oneWayToName),
    )
    .min(1)
    .max(200)
    .describe('People, each as for one new member; each is taken in or refused by itself.'),
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
    is_recorded: true,
    summary: 'Take in a new person by name, or a known one by user_id.',
    status: 201,
    answer: answers.member,
  }),
  route({
    method: 'post',
    path: `${root}/members/bulk`,
    access: managing,
    input: newMembers,
    handler: addMembers,
    is_recorded: true,
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
  if (given.name === undefined && given.subject !== undefined && given.issuer === undefined) {
    refuse(
      'subject',
      'alone names nobody: give issuer and name for a new person, or user_id for a known one',
    );
    return;
  }
  if (given.name === undefined) refuse('name', 'is needed for a new person');
  if ((given.issuer === undefined) !== (given.subject === undefined))
    refuse(given.issuer === undefined ? 'issuer' : 'subject', 'goes with the other of the two');
}

async function listMembers({ db, principal }: Ctx, input: z.infer<typeof listed>) {
  const { id: named_id, q, role: wanted, team_id, ...request } = input;
  const org_id = await actingOrg(db, principal, named_id);
  const filter = { org_id, q, role: wanted, team_id };
  const { rows, ...rest } = await memberLists.list(db, filter, request);
  return { members: rows, ...rest };
}

async function getMember({ db, principal }: Ctx, { id: named_id, user_id }: z.infer<typeof shown>) {
  const org_id = await actingOrg(db, principal, named_id);
  return withTeams(db, org_id, await members.get(db, org_id, user_id));
}

async function withTeams(db: Db, org_id: string, one: members.Member) {
  return { ...one, teams: await teams.ofPerson(db, { org_id, user_id: one.user_id }) };
}

async function addMember(
  { db, principal }: Ctx,
  { id: named_id, ...given }: z.infer<typeof newMember>,
) {
  const org_id = await actingOrg(db, principal, named_id);
  const caller = await rights.lock(db, org_id, principal, 'org:members');
  return takeIn(db, org_id, caller, given);
}

type NewPerson = Omit<z.infer<typeof newMember>, 'id'>;

/** Takes one person in, as far as the caller may. The organization is locked. */
function takeIn(db: Db, org_id: string, caller: rights.Caller, given: NewPerson) {
  const is_platform = rights.isPlatformAdmin(caller);
  // A caller who may map JWTs to people could take over another organization's; only the platform
  // knows its issuer.
  if (given.issuer !== undefined && !is_platform) {
    throw new AppError(
      'permission_denied',
      'Only a platform admin may bind a person to an issuer and subject.',
      {
        param: 'issuer',
      },
    );
  }
  rights.requireScopes(caller, rolePermissions[given.role], 'role');
  return members.add(db, org_id, given, is_platform);
}

async function addMembers(
  { db, principal }: Ctx,
  { id: named_id, members: people }: z.infer<typeof newMembers>,
) {
  const org_id = await actingOrg(db, principal, named_id);
  const caller = await rights.lock(db, org_id, principal, 'org:members');
  const results: object[] = [];
  for (const { teams: into, ...given } of people) {
    // In a savepoint: who is refused leaves nothing behind, and the others are taken in.
    const added = db.transaction(async (trx) => {
      const { user_id } = await takeIn(trx, org_id, caller, given);
      for (const { team_id, role: team_role } of into) {
        if (team_role === 'admin') requireOther(caller, user_id);
        await teams.add(trx, { org_id, team_id, user_id }, team_role);
      }
      const one = await members.get(trx, org_id, user_id);
      return { status: 201, member: await withTeams(trx, org_id, one) };
    });
    results.push(await added.catch(refusedPerson));
  }
  return { results };
}

function refusedPerson(error: unknown) {
  if (!isAppError(error)) throw error;
  const { status, code, message, details } = error;
  return { status, error: { code, message, param: details.param ?? null } };
}

async function renameMember(
  { db, principal }: Ctx,
  { id: named_id, user_id, ...change }: z.infer<typeof renamed>,
) {
  const org_id = await actingOrg(db, principal, named_id);
  const caller = await rights.lock(db, org_id, principal, 'org:members');
  rights.requireRank(caller, (await members.get(db, org_id, user_id)).role);
  return members.rename(db, { org_id, user_id }, change, rights.isPlatformAdmin(caller));
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
