import { z } from 'zod';
import * as payments from '../../domain/payments/sessions';
import * as answers from '../answers/payments';
import { member } from '../http/access';
import { id, positiveAmount, providerId } from '../http/fields';
import { type Ctx, route } from '../http/route';
import { buyerOf, makeCheckout } from './checkouts';
import { settle } from './looks';
import { ownOrder } from './routes';
import { deprecated } from './webhooks';

const order = z.strictObject({
  amount: positiveAmount('amount'),
  target_wallet_owner_type: z.enum(['user', 'team', 'organization']).default('organization'),
  target_wallet_owner_id: id.optional(),
  return_url: z.string().min(1).max(2_000),
  cancel_url: z.string().min(1).max(2_000),
});
const capture = z.strictObject({ order_id: providerId });

/**
 * PayPal-style names of old integrations. They are bound by person and organization, and carry no
 * checkout_state.
 */
export const legacyPaymentRoutes = [
  route({
    method: 'post',
    path: '/v1/payments/create-order',
    access: member,
    input: order,
    handler: createOrder,
    summary: 'Deprecated: create-checkout under its old name.',
    status: 201,
    is_idempotent: true,
    is_run_once: true,
    is_deprecated: true,
    answer: answers.legacyOrder,
  }),
  route({
    method: 'post',
    path: '/v1/payments/capture-order',
    access: member,
    input: capture,
    handler: captureOrder,
    summary: 'Deprecated: confirm-checkout under its old name.',
    is_deprecated: true,
    answer: answers.legacyCapture,
  }),
];

async function createOrder(ctx: Ctx, input: z.infer<typeof order>) {
  deprecated(ctx, '/v1/payments/create-checkout');
  const { approval } = await makeCheckout(ctx, { ...input, surface: 'console' });
  const { provider_order_id, approval_url, status } = approval;
  return { order_id: provider_order_id, approve_link: approval_url, status };
}

async function captureOrder(ctx: Ctx, { order_id }: z.infer<typeof capture>) {
  deprecated(ctx, '/v1/payments/confirm-checkout');
  const session = await ownOrder(ctx, order_id);
  await settle(ctx, session);
  const { status, provider_capture_id, amount_nanos, currency } = await payments.get(
    ctx.db,
    session.id,
    buyerOf(ctx.principal, session.org_id),
  );
  const { credited_amount_nanos } = await payments.outcomeOf(ctx.db, session.id);
  return {
    order_id,
    status,
    capture_id: provider_capture_id,
    amount_nanos,
    currency,
    credited_amount_nanos,
  };
}
