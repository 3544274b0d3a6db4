import { z } from 'zod';
import * as auditEvents from '../../domain/audit-events';
import { isPlatformAdmin } from '../../domain/people/rights';
import * as answers from '../answers/people';
import * as shared from '../answers/shared';
import { actingOrg, permission } from '../http/access';
import { id, instant, page } from '../http/fields';
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
];

/** A platform admin who names no organization sees all of them, and what concerns none. */
async function list(
  { db, principal }: Ctx,
  { org_id: named, actor, action, object_id, since, until, ...window }: z.infer<typeof listed>,
) {
  const seesAll = isPlatformAdmin(principal) && named === undefined;
  const org_id = seesAll ? null : await actingOrg(db, principal, named);
  const filter = { org_id, actor, action, object_id, since, until };
  const { rows, ...rest } = await auditEvents.list(db, filter, window);
  return { audit_events: rows, ...rest };
}
