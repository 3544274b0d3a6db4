import { z } from 'zod';
import * as destinations from '../../domain/exports/destinations';
import { formats } from '../../domain/exports/exports';
import * as schedules from '../../domain/exports/schedules';
import * as answers from '../answers/exports';
import * as shared from '../answers/shared';
import { ownerOf, ownOrg, permission } from '../http/access';
import { id, instant, listParts } from '../http/fields';
import { once } from '../http/idempotency';
import { type Ctx, route } from '../http/route';
import { kindsField, makerOf, requireKinds, zone } from './export-rights';

const made = z.strictObject({
  org_id: id.optional(),
  kinds: kindsField,
  format: z.enum(formats).default('jsonl'),
  every: z.enum(['day', 'month']),
  lag_minutes: z.int().min(15).max(10_080).default(60),
  time_zone: zone,
  destination_id: id
    .optional()
    .describe('The bucket to write to; absent: the folder of this installation.'),
  from: instant
    .optional()
    .describe('The first window is the day or month of this time; absent: the present one.'),
});
const listed = z.strictObject({ org_id: id.optional(), ...listParts() });
const billing = permission('org:billing');

export const exportScheduleRoutes = [
  route({
    method: 'post',
    path: '/v1/export-schedules',
    access: billing,
    input: made,
    handler: make,
    is_idempotent: true,
    is_recorded: true,
    is_run_once: true,
    status: 201,
    summary: 'Export each day or month once it is over; a window that failed is repeated.',
    answer: answers.schedule,
  }),
  route({
    method: 'get',
    path: '/v1/export-schedules',
    access: billing,
    input: listed,
    handler: list,
    summary: 'Schedules of exports, newest first, also those that have ended.',
    answer: shared.parts({ schedules: answers.schedule }),
  }),
  route({
    method: 'delete',
    path: '/v1/export-schedules/:id',
    access: billing,
    input: z.strictObject({ id }),
    handler: ({ db, principal }: Ctx, input) =>
      schedules.end(db, input.id, ownOrg(principal) ?? undefined),
    is_recorded: true,
    summary: 'End a schedule; exports that it has made go on.',
    answer: answers.schedule,
  }),
];

async function make(ctx: Ctx, { org_id: named, from, ...given }: z.infer<typeof made>) {
  const { principal } = ctx;
  const org_id = await ownerOf(ctx, named);
  requireKinds(principal, given.kinds);
  const { destination_id = null } = given;
  const wanted = { ...given, org_id, destination_id, from: from ?? new Date() };
  return once(ctx, org_id, async (db) => {
    if (destination_id !== null) await destinations.requireUsable(db, destination_id, org_id);
    return schedules.make(db, { ...wanted, ...makerOf(principal) });
  });
}

async function list(ctx: Ctx, { org_id: named, ...request }: z.infer<typeof listed>) {
  const { rows, ...rest } = await schedules.list(ctx.db, await ownerOf(ctx, named), request);
  return { schedules: rows, ...rest };
}
