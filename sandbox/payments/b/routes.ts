import * as desk from '../desk';
import type { Fault, FaultPoint } from '../faults';
import type { Order } from '../store';
import { type ProviderRequest, type ProviderResponse, Refused, type WireRoute } from '../wire';
import {
  checkAmount,
  checkCurrency,
  decode,
  invalid,
  parse,
  problem,
  refundRequest,
  sessionRequest,
} from './forms';
import {
  type Expand,
  list,
  showCharge,
  showDispute,
  showIntent,
  showRefund,
  showSession,
  wireOf,
} from './shapes';

const LIFE_MIN_S = 30 * 60;
const LIFE_MAX_S = 24 * 60 * 60;

type NewId = (kind: 'session' | 'intent' | 'event') => string;
type Work = (desk: desk.Desk, request: ProviderRequest, script?: Fault) => unknown;

/** Checkout sessions, payment intents, charges, refunds and disputes, as Stripe speaks. */
export function moneyRoutes(context: desk.Desk, newId: NewId): WireRoute[] {
  const route = (
    method: WireRoute['method'],
    path: string,
    point: FaultPoint,
    work: Work,
  ): WireRoute => ({
    method,
    path: new RegExp(`^/v1/${path.replaceAll(':id', '([^/]+)')}$`),
    point,
    subject: (request) => subjectOf(context, request),
    work: (request, script) => ({ status: 200, body: work(context, request, script) }),
  });
  return [
    route('POST', 'checkout/sessions', 'create', (context, request) =>
      create(context, request, newId),
    ),
    route('GET', 'checkout/sessions', 'read', listSessions),
    route('GET', 'checkout/sessions/:id', 'read', getSession),
    route('POST', 'checkout/sessions/:id/expire', 'expire', expireSession),
    route('GET', 'payment_intents/:id', 'read', getIntent),
    route('GET', 'charges', 'read', listCharges),
    route('GET', 'charges/:id', 'read', getCharge),
    route('POST', 'refunds', 'refund', createRefund),
    route('GET', 'refunds', 'read-refund', listRefunds),
    route('GET', 'refunds/:id', 'read-refund', getRefund),
    route('GET', 'disputes', 'read', listDisputes),
    route('GET', 'disputes/:id', 'read', getDispute),
  ];
}

function create({ store }: desk.Desk, request: ProviderRequest, newId: NewId): unknown {
  const asked = parse(sessionRequest, form(request));
  const [item] = asked.line_items;
  if (!item)
    throw invalid('Missing required param: line_items.', 'line_items', 'parameter_missing');
  const { quantity, price_data } = item;
  const param = 'line_items[0][price_data]';
  const currency = checkCurrency(price_data.currency, `${param}[currency]`);
  checkAmount(price_data.unit_amount, currency, `${param}[unit_amount]`);
  const now = Date.now();
  const intent = asked.payment_intent_data;
  const order: Order = {
    id: newId('session'),
    amount: price_data.unit_amount * quantity,
    currency,
    status: 'open',
    is_declined: false,
    reference: asked.client_reference_id ?? null,
    description: price_data.product_data.name,
    return_url: asked.success_url,
    cancel_url: asked.cancel_url ?? '',
    created_at: new Date(now).toISOString(),
    expires_at: new Date(expiryOf(asked.expires_at, now)).toISOString(),
    capture: null,
    refunds: [],
    disputes: [],
    wire: {
      metadata: asked.metadata,
      payment_metadata: intent?.metadata ?? {},
      payment_description: intent?.description ?? null,
      payment_intent: null,
    },
  };
  if (order.amount <= 0) throw invalid('Invalid amount: it must be positive.', param);
  store.save('orders', order);
  return showSession(order, request.base_url, asked.expand);
}

function expiryOf(expires_at: number | undefined, now: number): number {
  if (expires_at === undefined) return now + LIFE_MAX_S * 1_000;
  const life_s = expires_at - now / 1_000;
  const wrong = (limit: string) =>
    invalid(
      `The \`expires_at\` timestamp must be ${limit} from Checkout Session creation.`,
      'expires_at',
    );
  if (life_s < LIFE_MIN_S) throw wrong('at least 30 minutes');
  if (life_s > LIFE_MAX_S) throw wrong('less than 24 hours');
  return expires_at * 1_000;
}

function getSession(context: desk.Desk, request: ProviderRequest): unknown {
  const order = orderOf(context, request, 'checkout.session');
  desk.expireIfDue(context, order);
  return showSession(order, request.base_url, expandOf(request));
}

function listSessions(context: desk.Desk, request: ProviderRequest): unknown {
  const found = ordersBy(context, request);
  return list(
    found.map((order) => showSession(order, request.base_url, expandOf(request, 'data.'))),
    '/v1/checkout/sessions',
  );
}

function expireSession(context: desk.Desk, request: ProviderRequest): unknown {
  const order = orderOf(context, request, 'checkout.session');
  desk.expireIfDue(context, order);
  if (order.status !== 'open') {
    const status = order.status === 'paid' ? 'complete' : 'expired';
    throw invalid(
      `Only Checkout Sessions with a status in ["open"] can be expired. This Checkout Session has a status of \`${status}\`.`,
    );
  }
  desk.expire(context, order);
  return showSession(order, request.base_url);
}

function getIntent(context: desk.Desk, request: ProviderRequest): unknown {
  return showIntent(orderOf(context, request, 'payment_intent'), expandOf(request));
}

function getCharge(context: desk.Desk, request: ProviderRequest): unknown {
  return showCharge(orderOf(context, request, 'charge'), expandOf(request));
}

function listCharges(context: desk.Desk, request: ProviderRequest): unknown {
  const paid = ordersBy(context, request).filter(({ capture }) => capture);
  return list(
    paid.map((order) => showCharge(order, expandOf(request, 'data.'))),
    '/v1/charges',
  );
}

function createRefund(context: desk.Desk, request: ProviderRequest, script?: Fault): unknown {
  const asked = parse(refundRequest, form(request));
  const named = asked.payment_intent ?? asked.charge;
  if (named === undefined)
    throw invalid(
      'One of the following params should be provided for this request: payment_intent or charge.',
    );
  const order = findOrder(context, named);
  if (!order) throw noSuch(asked.charge ? 'charge' : 'payment_intent', named);
  const amount = refundAmount(order, asked.amount);
  const given = { metadata: asked.metadata, reason: asked.reason ?? null };
  const made = desk.refund(context, order, { amount, given, made_by: 'api' }, script);
  return showRefund(order, made, asked.expand);
}

function refundAmount(order: Order, asked: number | undefined): number {
  const taken = order.capture;
  if (taken?.status !== 'completed')
    throw invalid(
      'This PaymentIntent does not have a successful charge to refund.',
      'payment_intent',
    );
  if (order.disputes.some((one) => !one.is_inquiry && one.status !== 'won'))
    throw invalid(
      `Charge ${taken.id} has been charged back; cannot issue a refund.`,
      undefined,
      'charge_disputed',
    );
  const left = desk.refundable(order);
  if (left <= 0)
    throw invalid(
      `Charge ${taken.id} has already been refunded.`,
      undefined,
      'charge_already_refunded',
    );
  const amount = asked ?? left;
  checkAmount(amount, taken.currency, 'amount');
  if (amount < 1) throw invalid('Invalid positive integer', 'amount', 'parameter_invalid_integer');
  if (amount > left)
    throw invalid(
      `Refund amount (${amount}) is greater than unrefunded amount on charge (${left})`,
      'amount',
    );
  return amount;
}

function getRefund(context: desk.Desk, request: ProviderRequest): unknown {
  const order = orderOf(context, request, 'refund');
  const made = order.refunds.find(({ id }) => id === request.params[0]);
  if (!made) throw noSuch('refund', request.params[0] ?? '');
  return showRefund(order, made, expandOf(request));
}

function listRefunds(context: desk.Desk, request: ProviderRequest): unknown {
  const shown = ordersBy(context, request).flatMap((order) =>
    order.refunds.map((refund) => showRefund(order, refund, expandOf(request, 'data.'))),
  );
  return list(shown.reverse(), '/v1/refunds');
}

function getDispute(context: desk.Desk, request: ProviderRequest): unknown {
  const order = orderOf(context, request, 'dispute');
  const dispute = order.disputes.find(({ id }) => id === request.params[0]);
  if (!dispute) throw noSuch('dispute', request.params[0] ?? '');
  return showDispute(order, dispute, expandOf(request));
}

function listDisputes(context: desk.Desk, request: ProviderRequest): unknown {
  const shown = ordersBy(context, request).flatMap((order) =>
    order.disputes.map((dispute) => showDispute(order, dispute, expandOf(request, 'data.'))),
  );
  return list(shown.reverse(), '/v1/disputes');
}

/** The orders that a list's filter names; all without one. */
function ordersBy({ store }: desk.Desk, { query }: ProviderRequest): Order[] {
  const intent = query.get('payment_intent');
  const charge = query.get('charge');
  return [...store.orders.values()].filter(
    (order) =>
      (intent === null || wireOf(order).payment_intent === intent) &&
      (charge === null || order.capture?.id === charge),
  );
}

function orderOf(context: desk.Desk, request: ProviderRequest, kind: string): Order {
  const id = request.params[0] ?? '';
  const order = findOrder(context, id);
  if (order) return order;
  throw noSuch(kind, id);
}

function findOrder({ store }: desk.Desk, id: string): Order | undefined {
  const named = (order: Order) =>
    wireOf(order).payment_intent === id ||
    order.capture?.id === id ||
    order.refunds.some((refund) => refund.id === id) ||
    order.disputes.some((dispute) => dispute.id === id);
  return store.orders.get(id) ?? [...store.orders.values()].find(named);
}

function subjectOf(context: desk.Desk, request: ProviderRequest) {
  const given = form(request) as Record<string, string | undefined>;
  const { query, params } = request;
  const filter = query.get('payment_intent') ?? query.get('charge') ?? undefined;
  const named = params[0] ?? given.payment_intent ?? given.charge ?? filter;
  return named === undefined ? { reference: given.client_reference_id } : findOrder(context, named);
}

function form(request: ProviderRequest): unknown {
  return decode(new URLSearchParams(request.body.toString()));
}

function expandOf({ query }: ProviderRequest, prefix = ''): Expand {
  const { expand = [] } = decode(query) as { expand?: string[] };
  return expand.filter((path) => path.startsWith(prefix)).map((path) => path.slice(prefix.length));
}

function noSuch(kind: string, id: string): Refused {
  const message = `No such ${kind}: '${id}'`;
  const answer: ProviderResponse = problem(404, message, { code: 'resource_missing', param: 'id' });
  return new Refused(answer);
}
