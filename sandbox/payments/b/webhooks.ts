import { createHmac } from 'node:crypto';
import type { Happening } from '../desk';
import type { Dispute, Order, StoredEvent } from '../store';
import { showCharge, showDispute, showIntent, showRefund, showSession } from './shapes';

/** The `Stripe-Signature` of these bytes at this moment. */
export function sign(body: string, secret: string): Record<string, string> {
  const time = Math.floor(Date.now() / 1_000);
  const signature = createHmac('sha256', secret).update(`${time}.${body}`).digest('hex');
  return { 'stripe-signature': `t=${time},v1=${signature}` };
}

type EventContent = [type: string, object: unknown];

/** The events of a happening, each as the bytes that are posted. */
export function toEvents(
  order: Order,
  happening: Happening,
  base_url: string,
  newId: () => string,
): Pick<StoredEvent, 'id' | 'type' | 'order_id' | 'body'>[] {
  return contentsOf(order, happening, base_url).map(([type, object]) => {
    const id = newId();
    const event = {
      id,
      object: 'event',
      api_version: '2026-10-28.endive',
      created: Math.floor(Date.now() / 1_000),
      data: { object },
      livemode: false,
      pending_webhooks: 1,
      request: { id: null, idempotency_key: null },
      type,
    };
    // Stripe posts its events indented, so that a receiver who serialises one anew changes its
    // bytes.
    return { id, type, order_id: order.id, body: JSON.stringify(event, null, 2) };
  });
}

function contentsOf(order: Order, happening: Happening, base_url: string): EventContent[] {
  const session = () => showSession(order, base_url);
  switch (happening.kind) {
    case 'approved':
      return [];
    case 'expired':
      return [['checkout.session.expired', session()]];
    case 'captured':
      return [
        ['payment_intent.succeeded', showIntent(order)],
        ['checkout.session.completed', session()],
      ];
    case 'pending':
      return [['checkout.session.completed', session()]];
    case 'settled':
      return [['checkout.session.async_payment_succeeded', session()]];
    case 'denied':
      return [['checkout.session.async_payment_failed', session()]];
    case 'refund_made':
    case 'reversed':
      return [
        ['refund.created', showRefund(order, happening.refund)],
        ['charge.refunded', showCharge(order)],
      ];
    case 'refund_settled':
      return [['refund.updated', showRefund(order, happening.refund)]];
    case 'refund_failed':
      return [
        ['refund.updated', showRefund(order, happening.refund)],
        ['refund.failed', showRefund(order, happening.refund)],
      ];
    case 'dispute_opened':
    case 'dispute_closed':
      return disputeContents(order, happening.dispute);
  }
}

/** Money leaves with a dispute that is no inquiry, and comes back with one that is won. */
function disputeContents(order: Order, dispute: Dispute): EventContent[] {
  const shown = showDispute(order, dispute);
  const { status, is_inquiry } = dispute;
  const contents: EventContent[] = [
    [`charge.dispute.${status === 'open' ? 'created' : 'closed'}`, shown],
  ];
  if (is_inquiry || status === 'lost') return contents;
  const funds = status === 'open' ? 'funds_withdrawn' : 'funds_reinstated';
  return [...contents, [`charge.dispute.${funds}`, shown]];
}
