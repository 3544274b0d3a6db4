import { randomBytes } from 'node:crypto';
import type { Capture, Dispute, Money, Order, Refund } from '../store';
import { type ProviderResponse, Refused } from '../wire';

/**
 * PayPal's own list; three of them take no decimals there, although HUF and TWD have some
 * elsewhere.
 */
const currencies = new Set(
  'AUD BRL CAD CNY CZK DKK EUR HKD HUF ILS JPY MYR MXN TWD NZD NOK PHP PLN GBP SGD SEK CHF THB USD'.split(
    ' ',
  ),
);
const whole = new Set(['HUF', 'JPY', 'TWD']);
const number = /^\d{1,12}(\.\d{1,32})?$/;

interface WireMoney {
  currency_code: string;
  value: string;
}

/** An error in PayPal's shape. */
export function problem(
  status: number,
  name: string,
  message: string,
  issues: { issue: string; description: string; field?: string }[] = [],
  links: object[] = [],
): ProviderResponse {
  const details = issues.map((issue) => ({ ...issue, ...(issue.field && { location: 'body' }) }));
  const debug_id = randomBytes(7).toString('hex').slice(0, 13);
  return { status, body: { name, message, debug_id, details, links } };
}

/** 422 UNPROCESSABLE_ENTITY with one issue: the request is understood and not allowed. */
export function unprocessable(issue: string, description: string, field?: string): Refused {
  const message =
    'The requested action could not be performed, semantically incorrect, or failed business validation.';
  const issues = [{ issue, description, ...(field && { field }) }];
  return new Refused(problem(422, 'UNPROCESSABLE_ENTITY', message, issues));
}

function digitsOf(currency: string): number {
  return whole.has(currency) ? 0 : 2;
}

/** "12.34" as 1234 of the currency's smallest unit at this provider. */
export function toUnits(value: string, currency: string): number {
  const [units = '0', decimals = ''] = value.split('.');
  return Number(units + decimals.padEnd(digitsOf(currency), '0').slice(0, digitsOf(currency)));
}

export function toMoney({ amount, currency }: Money): WireMoney {
  const digits = digitsOf(currency);
  const text = String(amount).padStart(digits + 1, '0');
  const value = digits === 0 ? text : `${text.slice(0, -digits)}.${text.slice(-digits)}`;
  return { currency_code: currency, value };
}

/** An amount that a merchant sent, in units. */
export function fromMoney({ currency_code, value }: WireMoney, field: string): Money {
  if (!currencies.has(currency_code))
    throw unprocessable('CURRENCY_NOT_SUPPORTED', 'Currency code is not supported.', field);
  if (!number.test(value))
    throw unprocessable('INVALID_PARAMETER_SYNTAX', 'The value is not a number.', field);
  const decimals = value.split('.')[1]?.length ?? 0;
  if (decimals > 0 && whole.has(currency_code))
    throw unprocessable('DECIMALS_NOT_SUPPORTED', 'Currency does not support decimals.', field);
  if (decimals > 2)
    throw unprocessable('DECIMAL_PRECISION', 'Only two decimal places are supported.', field);
  const amount = toUnits(value, currency_code);
  if (amount <= 0)
    throw unprocessable('CANNOT_BE_ZERO_OR_NEGATIVE', 'Must be greater than zero.', field);
  return { amount, currency: currency_code };
}

const captureStatus = { completed: 'COMPLETED', pending: 'PENDING', failed: 'DECLINED' } as const;
/** Why a capture stands as it does because of a dispute. */
const disputeReason = { pending: 'BUYER_COMPLAINT', failed: 'CHARGEBACK' } as const;
const refundStatus = { completed: 'COMPLETED', pending: 'PENDING', failed: 'FAILED' } as const;

function link(base_url: string, rel: string, path: string, method = 'GET') {
  return { href: `${base_url}${path}`, rel, method };
}

export function showOrder(order: Order, base_url: string, is_whole: boolean) {
  const { source, payer_id } = order.wire as { source: string | null; payer_id: string };
  const short = {
    id: order.id,
    status: orderStatus(order),
    ...(source && { payment_source: { [source]: isPaidOrApproved(order) ? payer(payer_id) : {} } }),
    ...(isPaidOrApproved(order) && { payer: payer(payer_id) }),
    links: orderLinks(order, base_url),
  };
  const units = { purchase_units: [purchaseUnit(order, base_url)] };
  if (!is_whole) return order.status === 'paid' ? { ...short, ...units } : short;
  return { ...short, intent: 'CAPTURE', ...units, create_time: order.created_at };
}

function isPaidOrApproved({ status }: Order): boolean {
  return status === 'approved' || status === 'paid';
}

function payer(payer_id: string) {
  return {
    email_address: 'buyer@example.com',
    payer_id,
    name: { given_name: 'Sandy', surname: 'Box' },
  };
}

function orderStatus({ status, wire }: Order): string {
  if (status === 'paid') return 'COMPLETED';
  if (status === 'approved') return 'APPROVED';
  return wire.source ? 'PAYER_ACTION_REQUIRED' : 'CREATED';
}

function approvalLink({ id, wire }: Order, base_url: string) {
  return link(base_url, wire.source ? 'payer-action' : 'approve', `/checkoutnow?token=${id}`);
}

function orderLinks(order: Order, base_url: string) {
  const self = link(base_url, 'self', `/v2/checkout/orders/${order.id}`);
  if (order.status === 'paid') return [self];
  const capture = link(base_url, 'capture', `/v2/checkout/orders/${order.id}/capture`, 'POST');
  if (order.status === 'approved') return [self, capture];
  return [self, approvalLink(order, base_url), ...(order.wire.source ? [] : [capture])];
}

function purchaseUnit(order: Order, base_url: string) {
  const payments = order.capture && {
    captures: [showCapture(order, order.capture, base_url)],
    ...(order.refunds.length > 0 && {
      refunds: order.refunds.map((refund) => showRefund(order, refund, base_url)),
    }),
  };
  return {
    reference_id: order.wire.reference_id ?? 'default',
    amount: toMoney(order),
    payee: { email_address: 'merchant@example.com', merchant_id: 'SANDBOXMERCH1' },
    description: order.description,
    ...(order.reference && { custom_id: order.reference }),
    ...invoice(order),
    ...(payments && { payments }),
  };
}

function invoice({ wire }: Order) {
  return typeof wire.invoice_id === 'string' ? { invoice_id: wire.invoice_id } : {};
}

export function showCapture(order: Order, capture: Capture, base_url: string) {
  const path = `/v2/payments/captures/${capture.id}`;
  const gone = order.refunds.filter(({ status }) => status === 'completed');
  const refunded = gone.reduce((sum, { amount }) => sum + amount, 0);
  const back = refunded >= capture.amount ? 'REFUNDED' : 'PARTIALLY_REFUNDED';
  const disputed = order.disputes.find((one) => one.status === 'open' && one.capture_status);
  const held = disputed?.capture_status;
  const status = refunded > 0 && !held ? back : captureStatus[held ?? capture.status];
  return {
    id: capture.id,
    status,
    ...((held || status === 'PENDING') && {
      status_details: { reason: held ? disputeReason[held] : 'PENDING_REVIEW' },
    }),
    amount: toMoney(capture),
    final_capture: true,
    seller_protection: { status: 'ELIGIBLE', dispute_categories: ['ITEM_NOT_RECEIVED'] },
    ...(capture.status === 'completed' && { seller_receivable_breakdown: breakdown(capture) }),
    ...(order.reference && { custom_id: order.reference }),
    ...invoice(order),
    supplementary_data: { related_ids: { order_id: order.id } },
    links: [
      link(base_url, 'self', path),
      link(base_url, 'refund', `${path}/refund`, 'POST'),
      link(base_url, 'up', `/v2/checkout/orders/${order.id}`),
    ],
    create_time: capture.created_at,
    update_time: capture.created_at,
  };
}

function breakdown({ amount, currency }: Capture) {
  const fee = Math.min(amount, Math.round(amount * 0.029) + 30);
  return {
    gross_amount: toMoney({ amount, currency }),
    paypal_fee: toMoney({ amount: fee, currency }),
    net_amount: toMoney({ amount: amount - fee, currency }),
  };
}

export function showRefund(order: Order, refund: Refund, base_url: string) {
  return {
    id: refund.id,
    status: refundStatus[refund.status],
    ...(refund.status === 'pending' && { status_details: { reason: 'ECHECK' } }),
    amount: toMoney(refund),
    ...refund.given,
    links: [
      link(base_url, 'self', `/v2/payments/refunds/${refund.id}`),
      link(base_url, 'up', `/v2/payments/captures/${order.capture?.id}`),
    ],
    create_time: refund.created_at,
    update_time: refund.created_at,
  };
}

/** A dispute as the list shows it: the outcome of a closed one stands on its own page only. */
export function listedDispute(dispute: Dispute, base_url: string) {
  const is_open = dispute.status === 'open';
  return {
    dispute_id: dispute.id,
    create_time: dispute.created_at,
    update_time: dispute.created_at,
    reason: 'UNAUTHORISED',
    status: is_open ? 'WAITING_FOR_SELLER_RESPONSE' : 'RESOLVED',
    dispute_state: is_open ? 'REQUIRED_ACTION' : 'RESOLVED',
    dispute_amount: toMoney(dispute),
    dispute_life_cycle_stage: dispute.is_inquiry ? 'INQUIRY' : 'CHARGEBACK',
    dispute_channel: 'INTERNAL',
    links: [link(base_url, 'self', `/v1/customer/disputes/${dispute.id}`)],
  };
}

/** True if a dispute of an order is about a capture. */
export function isAbout(order: Order, { beside = [] }: Dispute, capture_id: string): boolean {
  return order.capture?.id === capture_id || beside.some(({ id }) => id === capture_id);
}

export function showDispute(order: Order, dispute: Dispute, base_url: string) {
  const outcomes = { won: 'RESOLVED_SELLER_FAVOUR', lost: 'RESOLVED_BUYER_FAVOUR' } as const;
  const { reference } = order;
  const captures = [
    ...(order.capture ? [{ ...order.capture, reference }] : []),
    ...(dispute.beside ?? []),
  ];
  return {
    ...listedDispute(dispute, base_url),
    disputed_transactions: captures.map((one) => ({
      seller_transaction_id: one.id,
      create_time: one.created_at,
      transaction_status: 'COMPLETED',
      gross_amount: toMoney(one),
      ...(one.reference && { custom: one.reference }),
    })),
    ...(dispute.refund_ids?.length && {
      evidences: [
        {
          evidence_type: 'PROOF_OF_REFUND',
          source: 'SUBMITTED_BY_SELLER',
          evidence_info: { refund_ids: dispute.refund_ids },
        },
      ],
    }),
    ...(dispute.status !== 'open' && {
      dispute_outcome: {
        outcome_code: outcomes[dispute.status],
        ...(dispute.status === 'lost' && { amount_refunded: toMoney(dispute) }),
      },
    }),
  };
}
