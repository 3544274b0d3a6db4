import { z } from 'zod';
import * as identities from '../../domain/people/identities';
import * as members from '../../domain/people/members';
import * as codes from '../../domain/people/one-time-codes';
import * as rights from '../../domain/people/rights';
import { requireTeamRank } from '../../domain/people/team-rights';
import * as answers from '../answers/identity';
import * as shared from '../answers/shared';
import { actingOrg, permission } from '../http/access';
import { id, page } from '../http/fields';
import { type Ctx, route } from '../http/route';

const oneMember = z.strictObject({ id, user_id: id });
const listed = z.strictObject({ ...oneMember.shape, ...page });
const oneIdentity = z.strictObject({ id, user_id: id, identity_id: id });

const managing = permission('org:members');
const root = '/v1/organizations/:id/members/:user_id';

export const invitationRoutes = [
  route({
    method: 'post',
    path: `${root}/invitations`,
    access: managing,
    input: oneMember,
    handler: invite,
    is_recorded: true,
    summary:
      'A code that binds whoever signs in with it to this member: once, within a week, and as long as you may invite them.',
    status: 201,
    answer: answers.invitation,
  }),
  route({
    method: 'get',
    path: `${root}/identities`,
    access: managing,
    input: listed,
    handler: list,
    summary: 'The sign-ins that are bound to this member, newest first; 20 at most.',
    answer: shared.list({ identities: answers.identity }),
  }),
  route({
    method: 'delete',
    path: `${root}/identities/:identity_id`,
    access: managing,
    input: oneIdentity,
    handler: unbind,
    is_recorded: true,
    summary: 'Unbind a sign-in, and end the sessions that came by it.',
    answer: shared.nothing,
  }),
];

async function invite({ db, principal }: Ctx, input: z.infer<typeof oneMember>) {
  const { org_id, user_id, caller } = await managed({ db, principal }, input);
  const { code, expires_at } = await codes.create(db, {
    purpose: 'invitation',
    org_id,
    user_id,
    by: caller,
  });
  return { user_id, invitation: code, expires_at };
}

async function list({ db, principal }: Ctx, input: z.infer<typeof listed>) {
  const { id: named, user_id, ...window } = input;
  const org_id = await actingOrg(db, principal, named);
  await members.get(db, org_id, user_id);
  const { rows, ...envelope } = await identities.list(db, { org_id, user_id }, window);
  return { identities: rows, ...envelope };
}

async function unbind({ db, principal }: Ctx, input: z.infer<typeof oneIdentity>) {
  const { org_id, user_id } = await managed({ db, principal }, input);
  await identities.unbind(db, { org_id, user_id, id: input.identity_id });
}

/** The member, if the caller may do all that they may: whoever binds a sign-in could be them. */
async function managed(
  { db, principal }: Pick<Ctx, 'db' | 'principal'>,
  { id: named, user_id }: z.infer<typeof oneMember>,
) {
  const org_id = await actingOrg(db, principal, named);
  const caller = await rights.lock(db, org_id, principal, 'org:members');
  const { role } = await members.get(db, org_id, user_id);
  rights.requireRank(caller, role);
  await requireTeamRank(db, { org_id, user_id, caller }, 'user_id');
  return { org_id, user_id, caller };
}
