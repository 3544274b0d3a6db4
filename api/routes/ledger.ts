import { z } from 'zod';
import { requireKnown } from '../../domain/known';
import * as entries from '../../domain/ledger/views/entries';
import * as openHolds from '../../domain/ledger/views/open-holds';
import { storyOf } from '../../domain/ledger/views/requests';
import type { Viewer, Wallet } from '../../domain/ledger/wallets';
import { isPlatformAdmin, may } from '../../domain/people/rights';
import * as answers from '../answers/ledger';
import * as money from '../answers/money';
import * as shared from '../answers/shared';
import { member, permission, platformAdmin } from '../http/access';
import { id, instant, ledgerPage, listParts } from '../http/fields';
import { type Ctx, route } from '../http/route';
import { visibleTo } from './events';
import { found, viewer } from './wallets';

const one = z.strictObject({ id });
const listed = z.strictObject({
  id,
  ...ledgerPage,
  seq_max: z.coerce.number<number>().int().min(0).max(Number.MAX_SAFE_INTEGER).optional(),
  cursor: z.string().min(1).max(3_000).optional(),
  type: money.transaction.shape.type.optional(),
  from: instant.optional().describe('Written at or after this time.'),
  to: instant.optional().describe('Written before this time.'),
  model: id.optional(),
  user_id: id.optional().describe("Only entries of this person's calls."),
  request_id: id.optional(),
  trace_label: id.optional().describe("The call's X-Request-Id; found for 90 days."),
});
const holds = z.strictObject({
  id,
  status: z.literal('open').default('open'),
  ...listParts(),
});
const request = z.strictObject({
  id: id.describe(
    "The call's request_id (x-svc-request-id), or its client's X-Request-Id: the newest call under it.",
  ),
  org_id: id.optional(),
});
const listWords =
  "A wallet's ledger entries, newest first, with whose call each is of. With seq_max, the first page's total, pages do not shift. With a filter or a cursor it comes in parts, of which one may be short though there is a next.";

export const ledgerRoutes = [
  route({
    method: 'get',
    path: '/v1/wallets/:id',
    access: member,
    input: one,
    handler: (ctx: Ctx, input: z.infer<typeof one>) => found(ctx, input.id),
    summary: 'One wallet that the caller may see.',
    answer: money.wallet,
  }),
  route({
    method: 'get',
    path: '/v1/wallets/:id/transactions',
    access: member,
    input: listed,
    handler: listEntries,
    summary: listWords,
    answer: shared.parts({ transactions: answers.entry }),
  }),
  route({
    method: 'get',
    path: '/v1/wallets/:id/reservations',
    access: permission('org:billing'),
    input: holds,
    handler: listHolds,
    summary: 'The open holds of a wallet, newest first, with their deadlines.',
    answer: shared.parts({ reservations: answers.openHold }),
  }),
  route({
    method: 'get',
    path: '/v1/admin/wallets/:id/transactions',
    access: platformAdmin,
    input: listed,
    handler: listEntries,
    summary: 'The ledger of any wallet.',
    answer: shared.parts({ transactions: answers.entry }),
  }),
  route({
    method: 'get',
    path: '/v1/requests/:id',
    access: member,
    input: request,
    handler: showRequest,
    summary:
      "One call's whole story: hold, ticket, attempts, usage, price lines that add up to its cost, settlement.",
    answer: answers.story,
  }),
];

/** Who looks at a wallet that they may see. */
function lookingAt({ principal }: Ctx, wallet: Wallet): Viewer {
  return {
    org_id: wallet.owner_org_id,
    user_id: principal.user_id,
    sees_all: may(principal, 'org:billing'),
  };
}

async function listEntries(
  ctx: Ctx,
  { id: wallet_id, page, per_page, seq_max, cursor, ...filter }: z.infer<typeof listed>,
) {
  const wallet = await found(ctx, wallet_id);
  await requireKnown(ctx.db, wallet.owner_org_id, { user_id: filter.user_id });
  const part = { page, per_page, seq_max, cursor };
  return entries.list(ctx.db, wallet_id, lookingAt(ctx, wallet), filter, part);
}

async function listHolds(ctx: Ctx, { id: wallet_id, status: _, ...part }: z.infer<typeof holds>) {
  const { owner_org_id: org_id } = await found(ctx, wallet_id);
  const { rows, ...rest } = await openHolds.list(ctx.db, { wallet_id, org_id }, part);
  return { reservations: rows, ...rest };
}

async function showRequest(ctx: Ctx, { id: request_id, org_id }: z.infer<typeof request>) {
  const { db, principal } = ctx;
  const looking = await viewer(db, principal, org_id);
  const event_types = visibleTo(principal);
  const is_platform = isPlatformAdmin(principal);
  return storyOf(db, request_id, { ...looking, is_platform, event_types });
}
