import { z } from 'zod';
import * as sheets from '../../domain/ledger/price-sheet';
import * as answers from '../answers/money';
import { ownOrg, permission } from '../http/access';
import { id } from '../http/fields';
import { type Ctx, route } from '../http/route';

const one = z.strictObject({ id });

export const priceSheetRoutes = [
  route({
    method: 'get',
    path: '/v1/reservations/:id/price-sheet',
    access: permission('org:billing'),
    input: one,
    handler: show,
    summary: 'The bill of a request: lines that add up to its cost.',
    answer: answers.priceSheet,
  }),
];

function show({ db, principal }: Ctx, input: z.infer<typeof one>) {
  return sheets.sheetOf(db, input.id, ownOrg(principal));
}
