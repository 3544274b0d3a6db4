import { z } from 'zod';
import * as desk from './desk';
import { landing } from './pages';
import type { Order } from './store';
import type { Arrival, ProviderRequest, ProviderResponse, Wire } from './wire';

/**
 * The acts of a person at the provider's own site, and of a test. All answer JSON.
 *
 *   GET|DELETE /sandbox/requests         the requests that arrived on the wire and the pages
 *   GET        /sandbox/orders[/:id]     how orders stand; an id or the merchant's own name of it
 *   GET        /sandbox/events           webhooks: tries, deliveries, last answer
 *   POST       /sandbox/webhooks         {"url": "http://..." | null, "retry_ms": [1000, ...]}
 *   POST|GET|DELETE /sandbox/faults      scripts of misbehaviour, see faults.ts; DELETE ?order=
 *   POST       /sandbox/orders/:id/...
 *     pay, decline, cancel               the buttons of the page; answers the buyer's next address
 *     expire                             the time of the order is over
 *     complete-pending, fail-pending     a capture that was pending ends
 *     refund {"amount": "5.00"}          at the provider's own site; without an amount the rest
 *     reverse {"amount"}                 a bank takes money back
 *     settle-refund, fail-refund         the youngest refund ends so
 *     open-dispute {"amount", "is_inquiry", "capture", "beside"}, win-dispute, lose-dispute
 *                                        capture: pending or declined while it is open, at A
 *                                        beside: further orders that it is about, at A
 *     resend {"type"}                    repeats the order's youngest event (of that type)
 */
const wish = z.strictObject({
  amount: z.string().optional(),
  is_inquiry: z.boolean().default(false),
  capture: z.enum(['pending', 'declined']).optional(),
  beside: z.array(z.string()).default([]),
  type: z.string().optional(),
});
const target = z.strictObject({
  url: z.url().nullable().optional(),
  retry_ms: z.array(z.int().min(1)).min(1).optional(),
});

type Wish = z.infer<typeof wish>;
type Action = (wire: Wire, order: Order, wish: Wish) => unknown;

const actions: Record<string, Action> = {
  pay: (wire, order) => desk.pay(wire.desk, order),
  decline: (wire, order) => desk.decline(wire.desk, order),
  cancel: () => undefined,
  expire: (wire, order) => desk.expire(wire.desk, order),
  'complete-pending': (wire, order) => desk.settleCapture(wire.desk, order, 'completed'),
  'fail-pending': (wire, order) => desk.settleCapture(wire.desk, order, 'failed'),
  refund: (wire, order, wish) => takeBack(wire, order, wish, 'operator'),
  reverse: (wire, order, wish) => takeBack(wire, order, wish, 'reversal'),
  'settle-refund': (wire, order) => desk.settleRefund(wire.desk, order, 'completed'),
  'fail-refund': (wire, order) => desk.settleRefund(wire.desk, order, 'failed'),
  'open-dispute': (wire, order, { amount, is_inquiry, capture, beside: named }) => {
    const units = amount === undefined ? {} : { amount: toUnits(wire, order, amount) };
    const held =
      capture && ({ capture_status: capture === 'pending' ? capture : 'failed' } as const);
    const beside = named.map((name) => {
      const found = findOrder(wire, name);
      if (found === undefined) throw new desk.DeskRefusal(`There is no order ${name}.`);
      return found;
    });
    desk.openDispute(wire.desk, order, { ...units, ...held, is_inquiry, beside });
  },
  'win-dispute': (wire, order) => desk.closeDispute(wire.desk, order, 'won'),
  'lose-dispute': (wire, order) => desk.closeDispute(wire.desk, order, 'lost'),
  resend: (wire, order, { type }) => resend(wire, order, type),
};

export function operate(
  wire: Wire,
  request: ProviderRequest,
  arrivals: Arrival[],
): ProviderResponse {
  try {
    return operateOn(wire, request, arrivals);
  } catch (error) {
    if (error instanceof z.ZodError)
      return { status: 422, body: { error: z.prettifyError(error) } };
    if (error instanceof SyntaxError || error instanceof desk.DeskRefusal)
      return { status: 409, body: { error: error.message } };
    throw error;
  }
}

function operateOn(wire: Wire, request: ProviderRequest, arrivals: Arrival[]): ProviderResponse {
  const { store, faults } = wire.desk;
  const [, , noun, id, action] = request.path.split('/');
  if (noun === 'requests') {
    if (request.method === 'DELETE') arrivals.length = 0;
    return ok({ requests: arrivals });
  }
  if (noun === 'events') return ok({ events: [...store.events.values()] });
  if (noun === 'webhooks') return ok(aim(wire, request));
  if (noun === 'faults') {
    if (request.method === 'POST') return ok(faults.add(json(request)));
    if (request.method === 'DELETE') faults.clear(request.query.get('order') ?? undefined);
    return ok({ faults: faults.list() });
  }
  if (noun === 'orders' && id === undefined) return ok({ orders: [...store.orders.values()] });
  const order = noun === 'orders' ? findOrder(wire, id ?? '') : undefined;
  const act = action === undefined ? () => undefined : actions[action];
  if (!order || !act) return { status: 404, body: { error: `There is no ${request.path}.` } };
  if (action !== undefined && request.method !== 'POST')
    return { status: 405, body: { error: 'Use POST.' } };
  act(wire, order, wish.parse(json(request)));
  return ok({ order, redirect_url: landing(wire, order, action === 'cancel') });
}

/** By its id, or by the merchant's own name of it. */
function findOrder(wire: Wire, name: string): Order | undefined {
  const { orders } = wire.desk.store;
  return orders.get(name) ?? [...orders.values()].findLast(({ reference }) => reference === name);
}

function aim(wire: Wire, request: ProviderRequest): unknown {
  const aimed = wire.sender.target;
  if (request.method !== 'POST') return aimed;
  const { url, retry_ms } = target.parse(json(request));
  if (url !== undefined) aimed.url = url;
  if (retry_ms !== undefined) aimed.retry_ms = retry_ms;
  return aimed;
}

function takeBack(wire: Wire, order: Order, { amount }: Wish, made_by: 'operator' | 'reversal') {
  if (order.capture?.status !== 'completed')
    throw new desk.DeskRefusal('What has not come cannot be taken back.');
  const isTaken = order.disputes.some((one) => !one.is_inquiry && one.status !== 'won');
  if (isTaken && !wire.desk.refunds_disputed)
    throw new desk.DeskRefusal('What has been charged back cannot be refunded.');
  const left = desk.refundable(order);
  const units = amount === undefined ? left : toUnits(wire, order, amount);
  if (units <= 0 || units > left) throw new desk.DeskRefusal('So much cannot be taken back.');
  const script = wire.desk.faults.take('refund', order);
  desk.refund(wire.desk, order, { amount: units, given: {}, made_by }, script);
}

function toUnits(wire: Wire, order: Order, amount: string): number {
  return wire.desk.toUnits(amount, order.capture?.currency ?? order.currency);
}

function resend(wire: Wire, order: Order, type: string | undefined): void {
  const event = [...wire.desk.store.events.values()].findLast(
    (one) => one.order_id === order.id && (type === undefined || one.type === type),
  );
  if (!event) throw new desk.DeskRefusal('This order has no such event.');
  wire.sender.resend(event);
}

function json(request: ProviderRequest): unknown {
  return request.body.length === 0 ? {} : JSON.parse(request.body.toString());
}

function ok(body: unknown): ProviderResponse {
  return { status: 200, body };
}
