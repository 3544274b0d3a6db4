import { refundable } from '../desk';
import type { Capture, Dispute, Order, Refund } from '../store';

/**
 * Members to be shown whole instead of as an id: "payment_intent.latest_charge" below the object
 * that is shown.
 */
export type Expand = readonly string[];

/** The fields of an order that only this wire has. */
interface WireB {
  metadata: Record<string, string>;
  payment_metadata: Record<string, string>;
  payment_description: string | null;
  /** Null until the buyer has tried to pay. */
  payment_intent: string | null;
}

export function wireOf({ wire }: Order): WireB {
  return wire as unknown as WireB;
}

/** The paths below one member; undefined if it is to stay an id. */
function below(expand: Expand, name: string): Expand | undefined {
  if (!expand.some((path) => path === name || path.startsWith(`${name}.`))) return undefined;
  return expand
    .filter((path) => path.startsWith(`${name}.`))
    .map((path) => path.slice(name.length + 1));
}

function seconds(time: string): number {
  return Math.floor(new Date(time).getTime() / 1_000);
}

export function showSession(order: Order, base_url: string, expand: Expand = []): object {
  const { metadata, payment_intent } = wireOf(order);
  const money = order.capture ?? order;
  const states = { open: 'open', approved: 'open', paid: 'complete', expired: 'expired' } as const;
  const status = states[order.status];
  const intent = below(expand, 'payment_intent');
  return {
    id: order.id,
    object: 'checkout.session',
    amount_subtotal: money.amount,
    amount_total: money.amount,
    automatic_tax: { enabled: false, liability: null, provider: null, status: null },
    cancel_url: order.cancel_url || null,
    client_reference_id: order.reference,
    created: seconds(order.created_at),
    currency: money.currency.toLowerCase(),
    customer: null,
    customer_creation: 'if_required',
    customer_details:
      order.status === 'paid' ? { email: 'buyer@example.com', name: 'Sandy Box' } : null,
    customer_email: null,
    expires_at: seconds(order.expires_at),
    invoice: null,
    livemode: false,
    locale: null,
    metadata,
    mode: 'payment',
    payment_intent: intent && payment_intent ? showIntent(order, intent) : payment_intent,
    payment_method_types: ['card'],
    payment_status: order.capture?.status === 'completed' ? 'paid' : 'unpaid',
    recovered_from: null,
    setup_intent: null,
    status,
    subscription: null,
    success_url: order.return_url,
    total_details: { amount_discount: 0, amount_shipping: 0, amount_tax: 0 },
    ui_mode: 'hosted_page',
    url: status === 'open' ? `${base_url}/c/pay/${order.id}` : null,
  };
}

export function showIntent(order: Order, expand: Expand = []): object {
  const { payment_intent, payment_metadata, payment_description } = wireOf(order);
  const taken = order.capture;
  const { amount, currency, created_at } = taken ?? order;
  const charge = taken && below(expand, 'latest_charge');
  const states = {
    completed: 'succeeded',
    pending: 'processing',
    failed: 'requires_payment_method',
  } as const;
  const status = states[taken?.status ?? 'failed'];
  const refusal = { type: 'card_error', code: 'card_declined', message: 'Your card was declined.' };
  return {
    id: payment_intent,
    object: 'payment_intent',
    amount,
    amount_capturable: 0,
    amount_received: status === 'succeeded' ? amount : 0,
    canceled_at: null,
    cancellation_reason: null,
    capture_method: 'automatic_async',
    confirmation_method: 'automatic',
    created: seconds(created_at),
    currency: currency.toLowerCase(),
    customer: null,
    description: payment_description,
    last_payment_error: status === 'requires_payment_method' ? refusal : null,
    latest_charge: charge ? showCharge(order, charge) : (taken?.id ?? null),
    livemode: false,
    metadata: payment_metadata,
    next_action: null,
    payment_method: taken ? `pm_${order.id.slice(-24)}` : null,
    payment_method_types: ['card'],
    status,
  };
}

export function showCharge(order: Order, expand: Expand = []): object {
  const { payment_intent, payment_metadata, payment_description } = wireOf(order);
  const taken = order.capture as Capture;
  const left = refundable(order);
  const intent = below(expand, 'payment_intent');
  const refunds = below(expand, 'refunds');
  const states = { completed: 'succeeded', pending: 'pending', failed: 'failed' } as const;
  return {
    id: taken.id,
    object: 'charge',
    amount: taken.amount,
    amount_captured: taken.status === 'completed' ? taken.amount : 0,
    amount_refunded: taken.amount - left,
    balance_transaction: null,
    captured: taken.status !== 'failed',
    created: seconds(taken.created_at),
    currency: taken.currency.toLowerCase(),
    customer: null,
    description: payment_description,
    disputed: order.disputes.length > 0,
    failure_code: null,
    failure_message: null,
    livemode: false,
    metadata: payment_metadata,
    paid: taken.status === 'completed',
    payment_intent: intent ? showIntent(order, intent) : payment_intent,
    refunded: taken.amount > 0 && left <= 0,
    ...(refunds && {
      refunds: list(
        order.refunds.map((refund) => showRefund(order, refund)),
        '/v1/refunds',
      ),
    }),
    status: states[taken.status],
  };
}

export function showRefund(order: Order, refund: Refund, expand: Expand = []): object {
  const states = { completed: 'succeeded', pending: 'pending', failed: 'failed' } as const;
  const { metadata = {}, reason = null } = refund.given as Partial<Refund['given']>;
  const intent = below(expand, 'payment_intent');
  const charge = below(expand, 'charge');
  return {
    id: refund.id,
    object: 'refund',
    amount: refund.amount,
    balance_transaction: null,
    charge: charge ? showCharge(order, charge) : order.capture?.id,
    created: seconds(refund.created_at),
    currency: refund.currency.toLowerCase(),
    ...(refund.status === 'failed' && { failure_reason: 'expired_or_canceled_card' }),
    metadata,
    payment_intent: intent ? showIntent(order, intent) : wireOf(order).payment_intent,
    ...(refund.status === 'pending' && { pending_reason: 'processing' }),
    reason,
    receipt_number: null,
    status: states[refund.status],
  };
}

export function showDispute(order: Order, dispute: Dispute, expand: Expand = []): object {
  const { status, is_inquiry } = dispute;
  const closed = is_inquiry && status === 'won' ? 'warning_closed' : status;
  const open = is_inquiry ? 'warning_needs_response' : 'needs_response';
  const charge = below(expand, 'charge');
  const intent = below(expand, 'payment_intent');
  return {
    id: dispute.id,
    object: 'dispute',
    amount: dispute.amount,
    balance_transactions: [],
    charge: charge ? showCharge(order, charge) : order.capture?.id,
    created: seconds(dispute.created_at),
    currency: dispute.currency.toLowerCase(),
    evidence: {},
    evidence_details: { due_by: null, has_evidence: false, past_due: false, submission_count: 0 },
    is_charge_refundable: is_inquiry,
    livemode: false,
    metadata: {},
    payment_intent: intent ? showIntent(order, intent) : wireOf(order).payment_intent,
    reason: 'fraudulent',
    status: status === 'open' ? open : closed,
  };
}

/** A page of a list, of one page only: no order has so many. */
export function list<Item>(data: Item[], url: string) {
  return { object: 'list', data, has_more: false, url };
}
