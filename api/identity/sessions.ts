import { z } from 'zod';
import { AppError } from '../../domain/errors';
import * as members from '../../domain/people/members';
import * as rights from '../../domain/people/rights';
import * as sessions from '../../domain/people/sessions';
import * as answers from '../answers/identity';
import { actingOrg, member, open, type Principal } from '../http/access';
import { id } from '../http/fields';
import { type Ctx, route } from '../http/route';
import { countTry, MEMBERS_MAX, makeSession, signInBody } from './making';

const ofMember = z.strictObject({
  org_id: id.optional(),
  user_id: id.optional().describe('Another member, for org:members; absent: yourself.'),
});
const one = z.strictObject({ org_id: id.optional(), id });

export const sessionRoutes = [
  route({
    method: 'post',
    path: '/v1/sessions',
    access: open,
    input: signInBody,
    handler: makeSession,
    is_large: true,
    members_max: MEMBERS_MAX,
    before_body: countTry,
    is_run_once: true,
    summary:
      'Sign in: by an access key, a one-time code, or the code or id token of an identity provider. The key of the session is shown in this answer only.',
    status: 201,
    answer: answers.newSession,
  }),
  route({
    method: 'get',
    path: '/v1/sessions',
    access: member,
    input: ofMember,
    handler: list,
    summary: 'Your living sessions, newest first.',
    answer: answers.sessionList,
  }),
  route({
    method: 'delete',
    path: '/v1/sessions',
    access: member,
    input: ofMember,
    handler: endAll,
    is_recorded: true,
    summary: 'End all your sessions at once, this one too.',
    answer: answers.endedSessions,
  }),
  route({
    method: 'delete',
    path: '/v1/sessions/:id',
    access: member,
    input: one,
    handler: endOne,
    is_recorded: true,
    summary: 'End a session; "current" is the one that asks.',
    answer: answers.endedSessions,
  }),
];

async function list({ db, principal }: Ctx, input: z.infer<typeof ofMember>) {
  const person = await personOf({ db, principal }, input);
  const rows = person === undefined ? [] : await sessions.list(db, person);
  return { sessions: rows.map((row) => shown(row, principal)) };
}

async function endAll({ db, principal }: Ctx, input: z.infer<typeof ofMember>) {
  const person = await personOf({ db, principal }, input);
  return { ended: person === undefined ? 0 : await sessions.end(db, person) };
}

async function endOne({ db, principal }: Ctx, input: z.infer<typeof one>) {
  // An operator's session is of no organization, and nobody but it ends it.
  if (input.id === 'current' && principal.org_id === null && input.org_id === undefined) {
    const { id } = await sessions.get(db, null, principal.id);
    return { ended: await sessions.end(db, { org_id: null, user_id: null, id }) };
  }
  const org_id = await actingOrg(db, principal, input.org_id);
  const named = input.id === 'current' ? principal.id : input.id;
  const found = await sessions.get(db, org_id, named);
  const user_id = found.user_id as string;
  if (user_id !== principal.user_id) await requireManager({ db, principal }, { org_id, user_id });
  return { ended: await sessions.end(db, { org_id, user_id, id: found.id }) };
}

function shown({ id, ...session }: sessions.Session, principal: Principal) {
  return { id, ...session, is_current: id === principal.id };
}

/** Whose sessions are asked for; undefined for a key that stands for nobody and names nobody. */
async function personOf(
  { db, principal }: Pick<Ctx, 'db' | 'principal'>,
  { org_id: named, user_id }: z.infer<typeof ofMember>,
): Promise<{ org_id: string; user_id: string } | undefined> {
  const org_id = await actingOrg(db, principal, named);
  const wanted = user_id ?? principal.user_id;
  if (wanted === null) return undefined;
  const person = { org_id, user_id: wanted };
  if (wanted !== principal.user_id) await requireManager({ db, principal }, person);
  return person;
}

/** A session of somebody else: another tenant's is unknown, a member's is for those above them. */
async function requireManager(
  { db, principal }: Pick<Ctx, 'db' | 'principal'>,
  { org_id, user_id }: { org_id: string; user_id: string },
): Promise<void> {
  const may = rights.may(principal, 'org:members');
  if (!may) throw new AppError('not_found', 'No session was found under this id.');
  const { role } = await members.get(db, org_id, user_id);
  const action = 'see or end their sessions';
  rights.requireRank(principal, role, { whose: 'this member', action, param: 'user_id' });
}
