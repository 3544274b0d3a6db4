import { z } from 'zod';
import { AppError } from '../../domain/errors';
import * as events from '../../domain/payments/events';
import * as operators from '../../domain/payments/operators';
import * as refunds from '../../domain/payments/refunds';
import * as payments from '../../domain/payments/sessions';
import * as answers from '../answers/payments';
import * as shared from '../answers/shared';
import { actorOf, ownerOf, platformAdmin } from '../http/access';
import { inName } from '../http/acting';
import { flag, id, listParts, paymentProvider, positiveAmount } from '../http/fields';
import { onceElsewhere } from '../http/idempotency';
import { type Ctx, route } from '../http/route';
import { sessionFilter } from './routes';

const reason = z
  .string()
  .trim()
  .min(1, 'must not be empty')
  .max(255)
  .describe('Why, for whoever asks later. The buyer is not told it.');
const listed = z.strictObject({ org_id: id.optional(), ...sessionFilter });
const webhooks = z.strictObject({
  status: z.enum(events.eventStatuses).optional(),
  provider: paymentProvider.optional(),
  ...listParts(),
});
const refund = z.strictObject({
  payment_session_id: id,
  reason,
  allow_negative: flag.default(false),
});
const resolution = z.strictObject({
  id,
  action: z
    .enum(['credit', 'refund', 'close', 'refund_succeeded', 'refund_failed'])
    .describe(
      'credit: what was taken is credited. refund: it is sent back. close: it stays as it is; a payment that hangs while it is taken has failed. refund_succeeded, refund_failed: how a pending refund ended of which the provider says nothing more; failed, the wallet gets its money again.',
    ),
  amount: positiveAmount('amount')
    .optional()
    .describe("What to credit, in the wallet's currency: needed where another currency was taken."),
  reason,
});

export const paymentAdminRoutes = [
  route({
    method: 'get',
    path: '/v1/admin/payments',
    access: platformAdmin,
    input: listed,
    handler: list,
    summary: 'Payment sessions of all organizations, newest first.',
    answer: shared.parts({ sessions: answers.adminPaymentSession }),
  }),
  route({
    method: 'get',
    path: '/v1/admin/payments/webhooks',
    access: platformAdmin,
    input: webhooks,
    handler: listWebhooks,
    summary:
      'Webhooks of the last 90 days, newest first; status=unmatched are those that name no payment of ours.',
    answer: shared.parts({ webhooks: answers.webhook }),
  }),
  route({
    method: 'post',
    path: '/v1/admin/payments/refund',
    access: platformAdmin,
    input: refund,
    handler: refundPayment,
    summary: 'Send a top-up back to its buyer and take it from the wallet.',
    is_idempotent: true,
    answer: answers.paymentRefund,
  }),
  route({
    method: 'post',
    path: '/v1/admin/payments/:id/resolve',
    access: platformAdmin,
    input: resolution,
    handler: resolve,
    summary:
      'Decide about money that came in another amount or currency, or end a payment or refund that hangs.',
    is_idempotent: true,
    answer: answers.adminPaymentSession,
  }),
];

async function list(
  ctx: Ctx,
  { from_date: from, to_date: until, ...input }: z.infer<typeof listed>,
) {
  const { org_id, provider, status, ...request } = input;
  const filter = { org_id, provider, status, from, until };
  await ownerOf(ctx, org_id);
  const { rows, ...envelope } = await operators.listForAdmin(ctx.db, filter, request);
  return { sessions: rows, ...envelope };
}

async function listWebhooks(
  { db }: Ctx,
  { status, provider, ...request }: z.infer<typeof webhooks>,
) {
  const { rows, ...rest } = await events.list(db, { status, provider }, request);
  return { webhooks: rows, ...rest };
}

/** A repeat answers the refund that is under way or done. */
async function refundPayment(ctx: Ctx, input: z.infer<typeof refund>) {
  const { org_id } = await payments.getAny(ctx.db, input.payment_session_id);
  return onceElsewhere(ctx, org_id, () => sendBack(ctx, org_id, input));
}

async function sendBack(ctx: Ctx, org_id: string, input: z.infer<typeof refund>) {
  const { db } = ctx;
  const { payment_session_id, allow_negative } = input;
  const refund_id = await inName(ctx, (trx) =>
    refunds.request(trx, {
      payment_session_id,
      reason: input.reason,
      allow_negative,
      by: actorOf(ctx.principal),
    }),
  );
  const before = await refunds.get(db, refund_id);
  if (before.status === 'pending') {
    const start = { workflow: 'paymentRefund', workflow_id: refund_id, org_id } as const;
    const options = {
      update_id: 'result',
      isResultNeeded: false,
      isDone: async () => (await refunds.get(db, refund_id)).status !== 'pending',
    };
    await ctx.temporal.update(start, 'result', { payment_refund_id: refund_id }, options);
  }
  return refundAnswer(await refunds.get(db, refund_id));
}

function refundAnswer(given: refunds.Refund) {
  if (given.status === 'failed') throw refunds.refusalOf(given);
  return {
    payment_session_id: given.payment_session_id,
    status: given.session_status,
    provider_refund_id: given.provider_refund_id,
    refund_status: given.status,
    refunded_amount_nanos: given.amount_nanos,
    currency: given.currency,
  };
}

async function resolve(ctx: Ctx, input: z.infer<typeof resolution>) {
  const { org_id } = await payments.getAny(ctx.db, input.id);
  return onceElsewhere(ctx, org_id, () => decide(ctx, org_id, input));
}

async function decide(
  ctx: Ctx,
  org_id: string,
  { id: session_id, action, amount, reason: note }: z.infer<typeof resolution>,
) {
  const { db, principal } = ctx;
  if (amount !== undefined && action !== 'credit')
    throw new AppError('invalid_field', 'amount goes with action: credit only.', {
      param: 'amount',
    });
  if (action === 'refund') {
    const wanted = { payment_session_id: session_id, reason: note, allow_negative: false };
    await sendBack(ctx, org_id, wanted);
  } else if (action === 'refund_succeeded' || action === 'refund_failed') {
    const status = action === 'refund_succeeded' ? 'succeeded' : 'failed';
    const by = actorOf(principal);
    await inName(ctx, (trx) => refunds.end(trx, session_id, { status, by, note }));
  } else
    await inName(ctx, (trx) =>
      operators.resolve(trx, {
        id: session_id,
        note,
        amount_nanos: amount,
        resolution: action === 'credit' ? 'credited' : 'closed',
        by: actorOf(principal),
      }),
    );
  return operators.getForAdmin(db, session_id);
}
