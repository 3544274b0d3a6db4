import { z } from 'zod';
import { statuses as sessionStatuses } from '../../domain/payments/sessions';
import { paymentProvider } from '../http/fields';
import { id, money, time } from './shared';

const sessionStatus = z.enum(sessionStatuses);

export const checkout = z.strictObject({
  payment_session_id: id,
  provider: paymentProvider,
  approval_url: z.url(),
  expires_at: time,
  checkout_state: z.string(),
});

export const confirmation = z.strictObject({
  payment_session_id: id,
  provider: paymentProvider,
  status: sessionStatus,
  wallet_id: id,
  currency: id,
  credited_amount: money.nullable(),
  wallet_balance_after: money.nullable(),
  error_code: z.string().nullable(),
  error_message: z.string().nullable(),
});

export const paymentHistoryItem = z.strictObject({
  id,
  user_id: id.nullable(),
  provider: paymentProvider,
  surface: z.enum(['console', 'chat']),
  amount: money,
  currency: id,
  status: sessionStatus,
  provider_order_id: id.nullable(),
  provider_capture_id: id.nullable(),
  created_at: time,
  target_wallet_owner_type: z.enum(['user', 'team', 'organization']),
  target_wallet_owner_id: id.nullable(),
  wallet_id: id,
  credited_amount: money,
  refunded_amount: money.describe('What refunds and disputes have taken back from the wallet.'),
  refund_status: z
    .enum(['pending', 'succeeded', 'failed'])
    .nullable()
    .describe(
      'How the newest refund that was asked for stands; pending until the provider has done it.',
    ),
});

export const paymentSession = paymentHistoryItem.extend({
  org_id: id,
  wallet_transaction_id: id.nullable(),
  late: z.boolean().describe('Paid after the session had ended.'),
  error_code: z.string().nullable(),
  error_message: z.string().nullable(),
  resolution: z
    .enum(['credited', 'refunded', 'closed'])
    .nullable()
    .describe('What was decided about another amount or currency.'),
  updated_at: time,
  expires_at: time,
});

export const adminPaymentSession = paymentSession.extend({
  captured_amount: money.nullable().describe('What the provider took.'),
  captured_currency: id.nullable(),
  resolved_by: id.nullable(),
  resolution_note: z.string().nullable(),
  open_disputes: z.int().describe('Disputes that wait for an answer at the provider.'),
  refunds: z.array(
    z.strictObject({
      id,
      status: z.enum(['pending', 'succeeded', 'failed']),
      amount: money,
      currency: id,
      reason: z.string(),
      requested_by: id,
      provider_refund_id: id.nullable(),
      error_message: z.string().nullable(),
      ended_by: id.nullable().describe('The operator who said how it ended.'),
      end_note: z.string().nullable(),
      created_at: time,
    }),
  ),
  provider_message: z
    .string()
    .nullable()
    .describe("The provider's own words about what went wrong."),
});

export const paymentRefund = z.strictObject({
  payment_session_id: id,
  status: sessionStatus,
  provider_refund_id: id.nullable(),
  refund_status: z.enum(['pending', 'succeeded', 'failed']),
  refunded_amount: money,
  currency: id,
});

export const received = z.strictObject({ received: z.literal(true) });

export const legacyOrder = z.strictObject({
  order_id: id,
  approve_link: z.url(),
  status: sessionStatus,
});

export const legacyCapture = z.strictObject({
  order_id: id,
  status: sessionStatus,
  capture_id: id.nullable(),
  amount: money,
  currency: id,
  credited_amount: money.nullable(),
});

export const webhook = z.strictObject({
  provider: paymentProvider,
  id,
  type: z.string(),
  status: z
    .enum(['unmatched', 'sent', 'ignored'])
    .describe('unmatched: it names no payment of ours, which is looked for again for three days.'),
  payment_session_id: id.nullable(),
  named_session_id: id.nullable(),
  order_id: id.nullable(),
  capture_id: id.nullable(),
  received_at: time,
});
