import { z } from 'zod';
import * as excess from '../../domain/ledger/excess';
import * as answers from '../answers/money';
import * as shared from '../answers/shared';
import { actorOf, ownerOf, platformAdmin } from '../http/access';
import { id, listParts, text } from '../http/fields';
import { once } from '../http/idempotency';
import { type Ctx, route } from '../http/route';

const status = z.enum(['open', 'charged', 'dropped']);
const listed = z.strictObject({
  org_id: id.optional(),
  status: status.optional(),
  ...listParts(),
});
const decision = z.strictObject({
  id,
  action: z
    .enum(['charge', 'drop'])
    .describe('charge: the wallet pays the excess. drop: nobody does.'),
  note: text.optional(),
});

export const excessRoutes = [
  route({
    method: 'get',
    path: '/v1/admin/settlement-excess',
    access: platformAdmin,
    input: listed,
    handler: list,
    summary: 'What settles told beyond the bound of a charge, newest first.',
    answer: shared.parts({ settlement_excess: answers.excess }),
  }),
  route({
    method: 'post',
    path: '/v1/admin/settlement-excess/:id',
    access: platformAdmin,
    input: decision,
    handler: decide,
    summary: 'Charge an excess or drop it, once.',
    is_idempotent: true,
    answer: answers.excess,
  }),
];

async function list(ctx: Ctx, { org_id, status: of, ...request }: z.infer<typeof listed>) {
  await ownerOf(ctx, org_id);
  const { rows, ...envelope } = await excess.list(ctx.db, { org_id, status: of }, request);
  return { settlement_excess: rows, ...envelope };
}

async function decide(ctx: Ctx, input: z.infer<typeof decision>) {
  const { org_id } = await excess.get(ctx.db, input.id);
  const by = actorOf(ctx.principal);
  return once(ctx, org_id, (db) => excess.decide(db, { ...input, by }));
}
