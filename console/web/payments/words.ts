import type { Answer } from '../api/client';
import { serverNow } from '../base/clock';

export type Payment = Answer<'GET /api/payments/sessions/:id'>;
/** A payment in the list of an organization. */
export type Listed = Answer<'GET /api/payments/history'>['sessions'][number];
/** The same as a platform admin sees it, with what the provider took and said. */
export type AdminPayment = Answer<'GET /api/admin/payments'>['sessions'][number];

export const statuses = [
  'created',
  'capturing',
  'captured',
  'confirming',
  'confirmed',
  'completed',
  'refunded',
  'canceled',
  'expired',
  'failed',
] as const;
export type Status = (typeof statuses)[number];

/** A state in a word, and what it means. */
export const states = {
  created: { word: 'waits for the buyer', kind: 'waiting', means: 'Nothing is paid yet.' },
  capturing: {
    word: 'being taken',
    kind: 'waiting',
    means: 'The provider is taking the money.',
  },
  captured: {
    word: 'taken',
    kind: 'info',
    means: 'The provider has the money; the wallet is credited within minutes.',
  },
  confirming: { word: 'being credited', kind: 'info', means: 'The wallet is being credited.' },
  confirmed: {
    word: 'confirmed',
    kind: 'info',
    means: 'The money is there; the wallet is being credited.',
  },
  completed: { word: 'credited', kind: 'good', means: 'The wallet was credited.' },
  refunded: { word: 'refunded', kind: 'neutral', means: 'The money went back to the buyer.' },
  canceled: { word: 'canceled', kind: 'neutral', means: 'The buyer gave it up: nothing was paid.' },
  expired: {
    word: 'expired',
    kind: 'neutral',
    means: 'Nobody paid in time. Money that comes after all is credited.',
  },
  failed: { word: 'failed', kind: 'bad', means: 'Nothing was credited.' },
} as const satisfies Record<Status, { word: string; kind: string; means: string }>;

type Stand = Pick<Payment, 'status' | 'credited_amount' | 'refunded_amount' | 'refund_status'>;

/** How a payment stands, with what became of the refunds of one that was credited. */
export function standing({ status, credited_amount, refunded_amount, refund_status }: Stand): {
  word: string;
  kind: (typeof states)[Status]['kind'];
  means: string;
} {
  if (status !== 'completed') return states[status];
  if (refund_status === 'pending')
    return {
      word: 'being refunded',
      kind: 'waiting',
      means: 'The refund has left the wallet, and is not yet with the buyer.',
    };
  if (refunded_amount > 0 && refunded_amount < credited_amount)
    return {
      word: 'refunded in part',
      kind: 'neutral',
      means: 'A part went back to the buyer. The rest was credited and stays.',
    };
  if (refund_status === 'failed')
    return {
      ...states.completed,
      means: 'The money was credited. A refund was refused, and nothing went back.',
    };
  return states.completed;
}

const providers = {
  payment_provider_a: 'provider A',
  payment_provider_b: 'provider B',
} as const;

export function providerWords(provider: keyof typeof providers): string {
  return providers[provider];
}

/** A provider makes a refund within days, but says within a day that it will. */
const HANGING_MS = 24 * 3_600_000;

/** True if a refund has waited long for its provider's word: the account may be another one. */
export function isRefundHanging({ refunds }: AdminPayment): boolean {
  return refunds.some(
    ({ status, created_at }) =>
      status === 'pending' && serverNow() - Date.parse(created_at) > HANGING_MS,
  );
}

/** True for a payment that a platform admin has to decide about, or may end. */
export function isToDecide(payment: AdminPayment): boolean {
  const { status, error_code, resolution } = payment;
  if (isRefundHanging(payment)) return true;
  if (status === 'failed') return error_code === 'amount_mismatch' && resolution === null;
  return status === 'capturing' || status === 'captured';
}

/**
 * True if the provider took another amount than was ordered: nothing is credited, and the buyer has
 * paid. Once an operator has sent it back, that is over.
 */
export function isTakenAmiss(
  payment: Pick<Payment, 'status' | 'error_code' | 'refund_status'>,
): boolean {
  const { status, error_code, refund_status } = payment;
  return status === 'failed' && error_code === 'amount_mismatch' && refund_status !== 'succeeded';
}

/** What a buyer is told of such a payment: to pay again would be to pay twice. */
export const takenAmiss = {
  title: 'Your payment was taken, but not credited',
  text: 'The provider took another amount than was ordered. An operator decides whether it is credited or sent back: do not pay again.',
};

/** True if there is credit of it that can go back to the buyer. */
export function isRefundable(payment: Payment): boolean {
  const { status, credited_amount, refunded_amount, refund_status } = payment;
  // Only one refund is made here; what it left goes back at the provider's own site.
  const is_first = refund_status === null || refund_status === 'failed';
  return status === 'completed' && credited_amount > refunded_amount && is_first;
}
