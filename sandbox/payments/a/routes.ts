import { randomBytes } from 'node:crypto';
import { z } from 'zod';
import * as desk from '../desk';
import type { Fault } from '../faults';
import type { Dispute, Order, Refund } from '../store';
import { type ProviderRequest, type ProviderResponse, Refused, type WireRoute } from '../wire';
import {
  fromMoney,
  isAbout,
  listedDispute,
  problem,
  showCapture,
  showDispute,
  showOrder,
  showRefund,
  unprocessable,
} from './shapes';

const ORDER_LIFE_MS = 3 * 60 * 60_000;

const web_url = z.url({ protocol: /^https?$/ });
const money = z.looseObject({ currency_code: z.string().length(3), value: z.string() });
const context = z.looseObject({ return_url: web_url, cancel_url: web_url });
const orderRequest = z.looseObject({
  intent: z.literal('CAPTURE'),
  purchase_units: z
    .array(
      z.looseObject({
        amount: money,
        reference_id: z.string().max(256).optional(),
        custom_id: z.string().max(127).optional(),
        invoice_id: z.string().max(127).optional(),
        description: z.string().max(127).optional(),
      }),
    )
    .length(1),
  payment_source: z
    .looseObject({ paypal: z.looseObject({ experience_context: context }) })
    .optional(),
  application_context: context.optional(),
});
const refundRequest = z.looseObject({
  amount: money.optional(),
  custom_id: z.string().max(127).optional(),
  invoice_id: z.string().max(127).optional(),
  note_to_payer: z.string().max(255).optional(),
});

type Work = (desk: desk.Desk, request: ProviderRequest, script?: Fault) => ProviderResponse;

/** The routes of PayPal's Orders v2, Payments v2 and Disputes v1. */
export function moneyRoutes(context: desk.Desk): WireRoute[] {
  const route = (
    method: WireRoute['method'],
    path: RegExp,
    point: NonNullable<WireRoute['point']>,
    work: Work,
  ): WireRoute => ({
    method,
    path,
    point,
    subject: (request) => subjectOf(context, request),
    work: (request, script) => work(context, request, script),
  });
  return [
    route('POST', /^\/v2\/checkout\/orders$/, 'create', createOrder),
    route('GET', /^\/v2\/checkout\/orders\/([^/]+)$/, 'read', getOrder),
    route('POST', /^\/v2\/checkout\/orders\/([^/]+)\/capture$/, 'capture', captureOrder),
    route('GET', /^\/v2\/payments\/captures\/([^/]+)$/, 'read', getCapture),
    route('POST', /^\/v2\/payments\/captures\/([^/]+)\/refund$/, 'refund', refundCapture),
    route('GET', /^\/v2\/payments\/refunds\/([^/]+)$/, 'read-refund', getRefund),
    route('GET', /^\/v1\/customer\/disputes$/, 'read', listDisputes),
    route('GET', /^\/v1\/customer\/disputes\/([^/]+)$/, 'read', getDispute),
  ];
}

function createOrder({ store }: desk.Desk, request: ProviderRequest): ProviderResponse {
  const asked = parse(orderRequest, request);
  const [unit] = asked.purchase_units;
  const where = asked.payment_source?.paypal.experience_context ?? asked.application_context;
  if (!unit || !where) throw missing('/payment_source/paypal/experience_context');
  const now = Date.now();
  const order: Order = {
    ...fromMoney(unit.amount, '/purchase_units/@reference_id=="default"/amount/value'),
    id: code(),
    status: 'open',
    is_declined: false,
    reference: unit.custom_id ?? null,
    description: unit.description ?? 'Your order',
    return_url: where.return_url,
    cancel_url: where.cancel_url,
    created_at: new Date(now).toISOString(),
    expires_at: new Date(now + ORDER_LIFE_MS).toISOString(),
    capture: null,
    refunds: [],
    disputes: [],
    wire: {
      source: asked.payment_source ? 'paypal' : null,
      reference_id: unit.reference_id ?? 'default',
      invoice_id: unit.invoice_id ?? null,
      payer_id: code().slice(0, 13),
    },
  };
  store.save('orders', order);
  return { status: 201, body: showOrder(order, request.base_url, wantsAll(request)) };
}

function getOrder(context: desk.Desk, request: ProviderRequest): ProviderResponse {
  const order = orderOf(context, request);
  desk.expireIfDue(context, order);
  if (order.status === 'expired') throw notFound();
  return { status: 200, body: showOrder(order, request.base_url, true) };
}

function captureOrder(
  context: desk.Desk,
  request: ProviderRequest,
  script?: Fault,
): ProviderResponse {
  const order = orderOf(context, request);
  desk.expireIfDue(context, order);
  const { status } = order;
  if (status === 'expired') throw unprocessable('ORDER_EXPIRED', 'Order is expired.');
  if (status === 'paid')
    throw unprocessable(
      'ORDER_ALREADY_CAPTURED',
      "Order already captured. If 'intent=CAPTURE' only one capture per order is allowed.",
    );
  if (status === 'open')
    throw unprocessable('ORDER_NOT_APPROVED', 'Payer has not yet approved the Order for payment.');
  if (order.is_declined)
    throw unprocessable(
      'INSTRUMENT_DECLINED',
      "The instrument presented was either declined by the processor or bank, or it can't be used for this payment.",
    );
  if (isInvoiceTaken(context, order))
    throw unprocessable('DUPLICATE_INVOICE_ID', 'Duplicate Invoice ID detected.');
  desk.capture(context, order, script);
  return { status: 201, body: showOrder(order, request.base_url, wantsAll(request)) };
}

function isInvoiceTaken({ store }: desk.Desk, { id, wire }: Order): boolean {
  if (!wire.invoice_id) return false;
  const others = [...store.orders.values()].filter((order) => order.id !== id && order.capture);
  return others.some((order) => order.wire.invoice_id === wire.invoice_id);
}

function getCapture(context: desk.Desk, request: ProviderRequest): ProviderResponse {
  const order = orderOf(context, request);
  if (!order.capture) throw notFound();
  return { status: 200, body: showCapture(order, order.capture, request.base_url) };
}

function refundCapture(
  context: desk.Desk,
  request: ProviderRequest,
  script?: Fault,
): ProviderResponse {
  const order = orderOf(context, request);
  const { amount, custom_id, invoice_id, note_to_payer } = parse(refundRequest, request);
  const taken = order.capture;
  if (taken?.status === 'pending')
    throw unprocessable('PENDING_CAPTURE', 'Cannot initiate a refund as the capture is pending.');
  if (taken?.status !== 'completed')
    throw unprocessable('REFUND_NOT_ALLOWED', 'Refund is not allowed on this capture.');
  const left = desk.refundable(order);
  if (left <= 0)
    throw unprocessable('CAPTURE_FULLY_REFUNDED', 'The capture has already been fully refunded.');
  const wanted = amount ? fromMoney(amount, '/amount/value') : { ...taken, amount: left };
  if (amount && amount.currency_code !== taken.currency)
    throw unprocessable(
      'REFUND_CAPTURE_CURRENCY_MISMATCH',
      'Refund must be in the same currency as the capture.',
    );
  if (amount && wanted.amount > left)
    throw unprocessable(
      'REFUND_AMOUNT_EXCEEDED',
      'The refund amount must be less than or equal to the capture amount that has not yet been refunded.',
    );
  const given = {
    ...(custom_id !== undefined && { custom_id }),
    ...(invoice_id !== undefined && { invoice_id }),
    ...(note_to_payer !== undefined && { note_to_payer }),
  };
  const made = desk.refund(
    context,
    order,
    { amount: wanted.amount, given, made_by: 'api' },
    script,
  );
  return { status: 201, body: refundBody(order, made, request) };
}

function refundBody(order: Order, made: Refund, request: ProviderRequest): unknown {
  const all = showRefund(order, made, request.base_url);
  return wantsAll(request) ? all : { id: all.id, status: all.status, links: all.links };
}

function getRefund(context: desk.Desk, request: ProviderRequest): ProviderResponse {
  const order = orderOf(context, request);
  const made = order.refunds.find(({ id }) => id === request.params[0]);
  if (!made) throw notFound();
  return { status: 200, body: showRefund(order, made, request.base_url) };
}

function listDisputes({ store }: desk.Desk, request: ProviderRequest): ProviderResponse {
  const transaction = request.query.get('disputed_transaction_id');
  const items = [...store.orders.values()].flatMap((order) =>
    order.disputes
      .filter((dispute) => transaction === null || isAbout(order, dispute, transaction))
      .map((dispute) => listedDispute(dispute, request.base_url)),
  );
  const links = [{ href: `${request.base_url}/v1/customer/disputes`, rel: 'self', method: 'GET' }];
  return { status: 200, body: { items, links } };
}

function getDispute(context: desk.Desk, request: ProviderRequest): ProviderResponse {
  const order = orderOf(context, request);
  const dispute = order.disputes.find(({ id }) => id === request.params[0]) as Dispute;
  return { status: 200, body: showDispute(order, dispute, request.base_url) };
}

/** The order that a path names: by its own id, or its capture's, a refund's or a dispute's. */
function orderOf(context: desk.Desk, request: ProviderRequest): Order {
  const order = findOrder(context, request.params[0] ?? '');
  if (order) return order;
  throw notFound();
}

function findOrder({ store }: desk.Desk, id: string): Order | undefined {
  const named = (order: Order) =>
    order.capture?.id === id ||
    order.refunds.some((refund) => refund.id === id) ||
    order.disputes.some((dispute) => dispute.id === id);
  return store.orders.get(id) ?? [...store.orders.values()].find(named);
}

function subjectOf(context: desk.Desk, request: ProviderRequest) {
  const id = request.params[0] ?? request.query.get('disputed_transaction_id');
  if (id) return findOrder(context, id);
  const asked = orderRequest.safeParse(body(request));
  return { reference: asked.data?.purchase_units[0]?.custom_id };
}

function wantsAll({ headers }: ProviderRequest): boolean {
  return /return=representation/.test(String(headers.prefer ?? ''));
}

/** The body, read by its schema, or PayPal's words about the first field that is wrong. */
export function parse<Schema extends z.ZodType>(
  schema: Schema,
  request: ProviderRequest,
): z.infer<Schema> {
  const given = body(request);
  if (given === undefined)
    throw new Refused(
      problem(
        400,
        'INVALID_REQUEST',
        'Request is not well-formed, syntactically incorrect, or violates schema.',
        [{ issue: 'MALFORMED_REQUEST_JSON', description: 'The request JSON is not well formed.' }],
      ),
    );
  const parsed = schema.safeParse(given);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  throw missing(`/${issue?.path.join('/') ?? ''}`, issue?.message);
}

function body(request: ProviderRequest): unknown {
  try {
    return request.body.length === 0 ? {} : JSON.parse(request.body.toString());
  } catch {
    return undefined;
  }
}

function missing(field: string, description = 'A required field is missing.'): Refused {
  const message = 'Request is not well-formed, syntactically incorrect, or violates schema.';
  const issues = [{ issue: 'INVALID_PARAMETER_VALUE', description, field }];
  return new Refused(problem(400, 'INVALID_REQUEST', message, issues));
}

function notFound(): Refused {
  const description =
    'Specified resource ID does not exist. Please check the resource ID and try again.';
  return new Refused(
    problem(404, 'RESOURCE_NOT_FOUND', 'The specified resource does not exist.', [
      { issue: 'INVALID_RESOURCE_ID', description },
    ]),
  );
}

const letters = 'ABCDEFGHJKLMNPQRSTUVWXYZ0123456789';

/** An id as PayPal gives them: 17 capitals and digits. */
export function code(): string {
  return [...randomBytes(17)].map((byte) => letters[byte % letters.length]).join('');
}
