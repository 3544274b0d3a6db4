import type { PaymentStatus, ReportedDispute, ReportedRefund } from './provider';
import type { Words } from './words-a';

// What we do about each word that Stripe documents, as the adapter reads it. It takes the money by
// itself, so that no call of ours captures.

/** Checkout: `payment_status` of a session. */
export const payments: Words<PaymentStatus | 'by session'> = {
  known: { paid: 'captured', unpaid: 'by session', no_payment_required: 'by session' },
  unknown: 'by session',
};

/** Checkout: `status` of a session that is not paid. */
export const sessions: Words<PaymentStatus | 'by intent'> = {
  known: { open: 'open', expired: 'closed', complete: 'by intent' },
  unknown: 'pending',
};

/**
 * `status` of the payment intent of a session that is complete and not paid: a voucher or a bank
 * transfer that may still be paid, or one that never was.
 */
export const intents: Words<PaymentStatus> = {
  known: {
    processing: 'pending',
    requires_action: 'pending',
    requires_confirmation: 'pending',
    requires_capture: 'pending',
    succeeded: 'captured',
    requires_payment_method: 'failed',
    canceled: 'failed',
  },
  unknown: 'pending',
};

/** `status` of a charge: not read, as its payment intent says it. */
export const charges: Words<'not read'> = {
  known: { succeeded: 'not read', pending: 'not read', failed: 'not read' },
  unknown: 'not read',
};

/** `status` of a refund. */
export const refunds: Words<ReportedRefund['status']> = {
  known: {
    succeeded: 'succeeded',
    pending: 'pending',
    requires_action: 'pending',
    failed: 'failed',
    canceled: 'failed',
  },
  unknown: 'pending',
};

/** `status` of a dispute. For a warning, and for one that was prevented, no money has left us. */
export const disputes: Words<ReportedDispute['status'] | 'no loss'> = {
  known: {
    needs_response: 'open',
    under_review: 'open',
    appeal_needs_response: 'open',
    appeal_under_review: 'open',
    lost: 'lost',
    won: 'won',
    prevented: 'no loss',
    warning_needs_response: 'no loss',
    warning_under_review: 'no loss',
    warning_closed: 'no loss',
  },
  unknown: 'open',
};
