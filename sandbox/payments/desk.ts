import type { Fault, Faults } from './faults';
import type { Capture, Dispute, MoneyStatus, Order, Refund, Store } from './store';

/** A change of an order; each provider emits events of its own for it. */
export type Happening =
  | { kind: 'approved' | 'expired' }
  | { kind: 'captured' | 'pending' | 'denied' | 'settled'; capture: Capture }
  | { kind: 'refund_made' | 'refund_settled' | 'refund_failed' | 'reversed'; refund: Refund }
  | { kind: 'dispute_opened' | 'dispute_closed'; dispute: Dispute };

/** The differences between the providers in moving money. */
export interface Desk {
  store: Store;
  faults: Faults;
  /** At B the buyer's approval takes the money at once. */
  captures_at_once: boolean;
  /** At A money under dispute can be refunded, which the dispute then names. */
  refunds_disputed: boolean;
  newId: (kind: 'capture' | 'refund' | 'dispute') => string;
  /** Adds the members of the provider's own wire to an order when the buyer tries to pay. */
  whenTried?: (order: Order) => void;
  /** "12.34" in the smallest units of this provider. */
  toUnits: (text: string, currency: string) => number;
  emit: (order: Order, happening: Happening) => void;
}

/** A rule of the provider that an operator's wish breaks. */
export class DeskRefusal extends Error {}

const now = () => new Date().toISOString();

function keep(desk: Desk, order: Order, happening?: Happening): void {
  desk.store.save('orders', order);
  if (happening) desk.emit(order, happening);
}

/** The buyer pays on the hosted page. True if the order is paid or approved afterwards. */
export function pay(desk: Desk, order: Order): boolean {
  expireIfDue(desk, order);
  if (order.status === 'expired') return false;
  if (order.status === 'paid') return true;
  order.is_declined = false;
  if (desk.captures_at_once) {
    const script = desk.faults.take('capture', order);
    if (script?.result === 'declined') decline(desk, order);
    else capture(desk, order, script);
    return !order.is_declined;
  }
  order.status = 'approved';
  keep(desk, order, { kind: 'approved' });
  return true;
}

/** The buyer pays by means that will be refused: at A only the capture finds out. */
export function decline(desk: Desk, order: Order): void {
  expireIfDue(desk, order);
  if (order.status === 'paid' || order.status === 'expired') return;
  order.is_declined = true;
  desk.whenTried?.(order);
  if (!desk.captures_at_once) order.status = 'approved';
  keep(desk, order, desk.captures_at_once ? undefined : { kind: 'approved' });
}

/** Takes the money of an order, once. */
export function capture(desk: Desk, order: Order, script?: Fault): Capture {
  const results = { pending: 'pending', declined: 'failed', failed: 'failed' } as const;
  const currency = script?.currency ?? order.currency;
  const taken: Capture = {
    id: desk.newId('capture'),
    status: script?.result ? results[script.result] : 'completed',
    amount: script?.amount === undefined ? order.amount : desk.toUnits(script.amount, currency),
    currency,
    created_at: now(),
  };
  desk.whenTried?.(order);
  order.capture = taken;
  order.status = 'paid';
  const kinds = { completed: 'captured', pending: 'pending', failed: 'denied' } as const;
  keep(desk, order, { kind: kinds[taken.status], capture: taken });
  return taken;
}

/** A capture that was pending ends: the money came, or it never will. */
export function settleCapture(desk: Desk, order: Order, status: 'completed' | 'failed'): void {
  const taken = order.capture;
  if (taken?.status !== 'pending') throw new DeskRefusal('No capture of this order is pending.');
  taken.status = status;
  keep(desk, order, { kind: status === 'completed' ? 'settled' : 'denied', capture: taken });
}

/** The part of the captured amount that is not refunded. */
export function refundable(order: Order): number {
  const gone = order.refunds.filter(({ status }) => status !== 'failed');
  return (order.capture?.amount ?? 0) - gone.reduce((sum, { amount }) => sum + amount, 0);
}

export function refund(
  desk: Desk,
  order: Order,
  given: Pick<Refund, 'amount' | 'given' | 'made_by'>,
  script?: Fault,
): Refund {
  const status: MoneyStatus =
    script?.result === 'pending' ? 'pending' : script?.result ? 'failed' : 'completed';
  const currency = order.capture?.currency ?? order.currency;
  const made: Refund = {
    ...given,
    id: desk.newId('refund'),
    status,
    amount: script?.amount === undefined ? given.amount : desk.toUnits(script.amount, currency),
    currency,
    created_at: now(),
  };
  order.refunds.push(made);
  // What goes back at the provider's site while a dispute is open goes back because of it.
  const dispute =
    made.made_by === 'api' ? undefined : order.disputes.findLast((one) => one.status === 'open');
  if (dispute) dispute.refund_ids = [...(dispute.refund_ids ?? []), made.id];
  const kind = made.made_by === 'reversal' ? 'reversed' : 'refund_made';
  keep(desk, order, { kind: status === 'failed' ? 'refund_failed' : kind, refund: made });
  return made;
}

/**
 * The youngest refund ends otherwise: a pending one succeeds or fails, a succeeded one may still
 * fail.
 */
export function settleRefund(desk: Desk, order: Order, status: 'completed' | 'failed'): void {
  const made = order.refunds.findLast((one) => one.status !== 'failed' && one.status !== status);
  if (made === undefined) throw new DeskRefusal('No refund of this order can become so.');
  made.status = status;
  const kind = status === 'completed' ? 'refund_settled' : 'refund_failed';
  keep(desk, order, { kind, refund: made });
}

export function openDispute(
  desk: Desk,
  order: Order,
  given: {
    amount?: number;
    is_inquiry: boolean;
    capture_status?: 'pending' | 'failed';
    beside?: readonly Order[];
  },
): Dispute {
  if (order.capture?.status !== 'completed')
    throw new DeskRefusal('What is not captured cannot be disputed.');
  if (given.capture_status !== undefined && !desk.refunds_disputed)
    throw new DeskRefusal('Here a payment stays paid while it is disputed.');
  const beside = (given.beside ?? []).map(({ capture, reference }) => {
    if (capture?.status !== 'completed')
      throw new DeskRefusal('What is not captured cannot be disputed.');
    return { ...capture, reference };
  });
  if (beside.length > 0 && !desk.refunds_disputed)
    throw new DeskRefusal('Here a dispute is about one payment.');
  const { amount, currency } = order.capture;
  const dispute: Dispute = {
    id: desk.newId('dispute'),
    status: 'open',
    is_inquiry: given.is_inquiry,
    ...(given.capture_status && { capture_status: given.capture_status }),
    ...(beside.length > 0 && { beside }),
    amount: given.amount ?? beside.reduce((sum, one) => sum + one.amount, amount),
    currency,
    created_at: now(),
  };
  order.disputes.push(dispute);
  keep(desk, order, { kind: 'dispute_opened', dispute });
  return dispute;
}

export function closeDispute(desk: Desk, order: Order, status: 'won' | 'lost'): void {
  const dispute = order.disputes.findLast((one) => one.status === 'open');
  if (dispute === undefined) throw new DeskRefusal('No dispute of this order is open.');
  dispute.status = status;
  // At B only a dispute that moved money can be lost.
  if (status === 'lost' && !desk.refunds_disputed) dispute.is_inquiry = false;
  keep(desk, order, { kind: 'dispute_closed', dispute });
}

/** Ends an order that nobody paid; false if it is paid. */
export function expire(desk: Desk, order: Order): boolean {
  if (order.status === 'paid') return false;
  if (order.status === 'expired') return true;
  order.status = 'expired';
  keep(desk, order, { kind: 'expired' });
  return true;
}

export function expireIfDue(desk: Desk, order: Order): void {
  if (new Date(order.expires_at).getTime() <= Date.now()) expire(desk, order);
}

/** Orders end at their time although nobody asks for them. */
export function expireAllDue(desk: Desk): void {
  for (const order of desk.store.orders.values())
    if (order.status === 'open' || order.status === 'approved') expireIfDue(desk, order);
}
