import { z } from 'zod';
import { AppError } from '../../domain/errors';
import * as members from '../../domain/people/members';
import * as rights from '../../domain/people/rights';
import { rolePermissions } from '../../domain/people/roles';
import * as answers from '../answers/people';
import * as shared from '../answers/shared';
import { actingOrg, member, permission } from '../http/access';
import { id, name, page } from '../http/fields';
import { type Ctx, route } from '../http/route';

const role = z.enum(['owner', 'admin', 'billing_admin', 'member']);
const listed = z.strictObject({ id, ...page });
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
const keep_keys = z
  .preprocess((given) => (typeof given === 'string' ? [given] : given), z.array(id).max(1_000))
  .optional()
  .describe(
    'Keys that this person made, by name or id, which are not revoked: they become yours, without the scopes that you lack.',
  );
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
    answer: shared.list({ members: answers.member }),
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
  if (person.issuer !== undefined && !rights.isPlatformAdmin(principal)) {
    throw new AppError(
      'permission_denied',
      'Only a platform admin may bind a person to an issuer and subject.',
      {
        param: 'issuer',
      },
    );
  }
  const org_id = await actingOrg(db, principal, named_id);
  const caller = await rights.lock(db, org_id, principal, 'org:members');
  rights.requireScopes(caller, rolePermissions[person.role], 'role');
  return members.add(db, org_id, person, rights.isPlatformAdmin(principal));
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
