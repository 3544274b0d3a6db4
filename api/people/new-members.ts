import { z } from 'zod';
import { AppError, isAppError } from '../../domain/errors';
import { SUBJECT_MAX } from '../../domain/people/identity';
import * as members from '../../domain/people/members';
import * as rights from '../../domain/people/rights';
import { rolePermissions } from '../../domain/people/roles';
import { requireOther } from '../../domain/people/team-rights';
import * as teams from '../../domain/people/teams';
import { type Db, isUnreachable, withRetry } from '../../domain/sql';
import { toRefusal } from '../../runtime/conventions';
import { actingOrg } from '../http/access';
import { inName } from '../http/acting';
import { id, name } from '../http/fields';
import type { Ctx } from '../http/route';

// Who is taken into an organization: one person, or many, step by step.

export const role = z.enum(['owner', 'admin', 'billing_admin', 'member']);
const person = {
  user_id: id.optional(),
  name: name.optional(),
  email: z.email().optional(),
  issuer: id.optional(),
  subject: z.string().min(1).max(SUBJECT_MAX).optional(),
  role: role.default('member'),
};
const newPerson = {
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
};
export const newMember = z.strictObject({ id, ...newPerson }).superRefine(oneWayToName);
export const newMembers = z.strictObject({
  id,
  members: z
    .array(z.strictObject(newPerson).superRefine(oneWayToName))
    .min(1)
    .max(200)
    .describe('People, each as for one new member; each is taken in or refused by itself.'),
});

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

type Given = z.infer<typeof newMembers>['members'];

/**
 * Takes one person in, and into their teams, as far as the caller may. The organization is locked.
 */
export async function takeIn(
  db: Db,
  org_id: string,
  caller: rights.Caller,
  { teams: into, ...given }: Given[number],
) {
  const { user_id } = await addPerson(db, org_id, caller, given);
  for (const { team_id, role: team_role } of into) {
    if (team_role === 'admin') await requireOther(db, { org_id, user_id, caller });
    await teams.add(db, { org_id, team_id, user_id }, team_role);
  }
  return withTeams(db, org_id, await members.get(db, org_id, user_id));
}

function addPerson(
  db: Db,
  org_id: string,
  caller: rights.Caller,
  given: Omit<Given[number], 'teams'>,
) {
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

/** A member with the teams that they are in. */
export async function withTeams(db: Db, org_id: string, one: members.Member) {
  return { ...one, teams: await teams.ofPerson(db, { org_id, user_id: one.user_id }) };
}

/** So many people are taken in under one lock of the organization, which its calls wait for. */
const STEP = 10;

/**
 * Takes people in, in steps that each land whole or not at all; the result of each, in their order.
 * A step that fails is not the end of what landed before: its people and those after it have the
 * error as their result. Throws it if nothing had landed.
 */
export async function addMembers(
  ctx: Ctx,
  { id: named_id, members: people }: z.infer<typeof newMembers>,
) {
  const org_id = await actingOrg(ctx.db, ctx.principal, named_id);
  const results: object[] = [];
  for (let at = 0; at < people.length; at += STEP) {
    const step = people.slice(at, at + STEP);
    try {
      results.push(...(await stepOf(ctx, org_id, step)));
    } catch (error) {
      if (at === 0) throw error;
      const failed = toRefusal(ctx.http, error, ctx.log);
      const untried = people.slice(at + STEP).map(() => refusedPerson(failed));
      results.push(...step.map(() => refusedPerson(asUnsure(error, failed))), ...untried);
      break;
    }
  }
  return { results };
}

/** One transaction in the caller's name; it is begun again if PostgreSQL undoes it. */
function stepOf(ctx: Ctx, org_id: string, step: Given): Promise<object[]> {
  return withRetry(() =>
    inName(ctx, async (trx) => {
      const caller = await rights.lock(trx, org_id, ctx.principal, 'org:members');
      const results: object[] = [];
      for (const one of step) results.push(await addOne(trx, org_id, caller, one));
      return results;
    }),
  );
}

/** In a savepoint: who is refused leaves nothing behind, and the others are taken in. */
function addOne(
  db: Db,
  org_id: string,
  caller: rights.Caller,
  given: Given[number],
): Promise<object> {
  const added = db.transaction(async (trx) => ({
    status: 201,
    member: await takeIn(trx, org_id, caller, given),
  }));
  return added.catch(refusedPerson);
}

/** A connection that is lost may have been lost after the step had landed. */
function asUnsure(error: unknown, failed: AppError): AppError {
  if (!isUnreachable(error)) return failed;
  return new AppError(
    'unavailable',
    'The database was lost as this person was taken in. Look whether they are a member before you repeat this.',
  );
}

function refusedPerson(error: unknown) {
  if (!isAppError(error)) throw error;
  const { status, code, message, details } = error;
  return { status, error: { code, message, param: details.param ?? null } };
}
