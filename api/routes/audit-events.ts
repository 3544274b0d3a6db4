import { z } from 'zod';
import * as auditEvents from '../../domain/audit-events';
import * as auditLog from '../../domain/audit-log';
import { AppError } from '../../domain/errors';
import { isPlatformAdmin } from '../../domain/people/rights';
import { auditLog as auditLogAnswer } from '../answers/audit';
import * as answers from '../answers/people';
import * as shared from '../answers/shared';
import { actingOrg, anyPermission, type Principal, permission } from '../http/access';
import { id, instant, listParts, page } from '../http/fields';
import { type Ctx, route } from '../http/route';

const listed = z.strictObject({
  org_id: id.optional(),
  actor: id.optional().describe('Only what this person or key did.'),
  action: id
    .optional()
    .describe('A noun and what became of it: created, changed, rotated or ended.'),
  object_id: id.optional().describe('Only changes of this object.'),
  since: instant.optional(),
  until: instant.optional(),
  ...page,
});

const logged = z.strictObject({
  org_id: id
    .optional()
    .describe('Of a platform admin: one organization, or platform for what concerns none.'),
  actor: id.optional().describe('Only what this person, key or program did.'),
  actor_type: z
    .enum(auditLog.actor_types)
    .optional()
    .describe('key: one that stands for nobody; system: a program, a terminal.'),
  action: id.optional().describe('A noun and what became of it: key.rotated.'),
  object_type: id.optional().describe('The noun alone: key.'),
  object_id: id.optional().describe('Only changes of this object.'),
  session_id: id.optional().describe('Only what was done in this session.'),
  from: instant.optional(),
  to: instant.optional().describe('The first moment that is no longer in it.'),
  ...listParts(),
});

export const auditEventRoutes = [
  route({
    method: 'get',
    path: '/v1/audit-events',
    access: permission('org:members'),
    input: listed,
    handler: list,
    summary:
      'Who changed keys, roles, members, teams, agents, prices, rates, settings or configuration, newest first. Kept for ever.',
    answer: shared.list({ audit_events: answers.auditEvent }),
  }),
  route({
    method: 'get',
    path: '/v1/audit-log',
    access: anyPermission('org:members', 'org:billing'),
    input: logged,
    handler: listLog,
    summary:
      'Every change by a person, a key or a program: who, in which session, what, before and after, in a chain that shows if a row was changed or is gone. Newest first, kept for ever. Rows of money need org:billing, all others org:members.',
    answer: auditLogAnswer,
  }),
];

async function listLog({ db, principal }: Ctx, given: z.infer<typeof logged>) {
  const { page: number, per_page, as_of, cursor, sort, org_id: named, ...asked } = given;
  if (asked.from && asked.to && asked.from >= asked.to)
    throw new AppError('invalid_field', 'to must lie after from: nothing is between them.', {
      param: 'to',
    });
  const org_id = await chainOf({ db, principal }, named);
  const request = { page: number, per_page, as_of, cursor, sort };
  const { rows, ...envelope } = await auditLog.list(
    db,
    { org_id, ...asked },
    sightOf(principal),
    request,
  );
  return { audit_log: rows, ...envelope };
}

/** Rows of money are read with `org:billing`, all others with `org:members`. */
function sightOf(principal: Principal): auditEvents.AuditSight {
  const is_platform = isPlatformAdmin(principal);
  return {
    members: is_platform || principal.scopes.includes('org:members'),
    money: is_platform || principal.scopes.includes('org:billing'),
  };
}

/** Whose log: of a platform admin who names nobody everybody's. */
async function chainOf(
  { db, principal }: Pick<Ctx, 'db' | 'principal'>,
  named: string | undefined,
) {
  if (!isPlatformAdmin(principal)) return actingOrg(db, principal, named);
  if (named === undefined || named === auditLog.PLATFORM_CHAIN) return named ?? null;
  return actingOrg(db, principal, named);
}

/** A platform admin who names no organization sees all of them, and what concerns none. */
async function list(
  { db, principal }: Ctx,
  { org_id: named, actor, action, object_id, since, until, ...window }: z.infer<typeof listed>,
) {
  const seesAll = isPlatformAdmin(principal) && named === undefined;
  const org_id = seesAll ? null : await actingOrg(db, principal, named);
  const sight = sightOf(principal);
  const filter = { org_id, sight, actor, action, object_id, since, until };
  const { rows, ...rest } = await auditEvents.list(db, filter, window);
  return { audit_events: rows, ...rest };
}
