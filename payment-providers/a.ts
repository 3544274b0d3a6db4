import {
  type ApiError,
  CaptureStatus,
  CheckoutPaymentIntent,
  type Order,
  OrdersController,
  PaymentsController,
  PaypalExperienceUserAction,
  PaypalWalletContextShippingPreference,
  type Refund,
} from '@paypal/paypal-server-sdk';
import { fromWire, toWire } from '../domain/payments/currencies';
import { cut } from '../domain/texts';
import { askJson, type Connection, createConnection, explain, issueOf } from './a-client';
import { disputesOf } from './a-disputes';
import { signersAt } from './a-signature';
import { createVerifier, eventOf } from './a-webhooks';
import { CALL_MS, createCalls } from './calls';
import { createCertificates } from './certificates';
import {
  type Checkout,
  type CheckoutRequest,
  type PaymentProvider,
  type PaymentReport,
  type PaymentStatus,
  type ProviderAccess,
  type ProviderOptions,
  ProviderTrouble,
  type RefundRequest,
  type ReportedRefund,
} from './provider';
import * as words from './words-a';
import { meaningOf } from './words-a';

// PayPal: Orders v2, Payments v2, Disputes v1, webhooks. The package has no disputes and no
// webhooks: those calls are ours.

const NAME = 'payment_provider_a';
const DESCRIPTION_MAX = 127;

export function createProviderA(
  access: ProviderAccess,
  { call_ms = CALL_MS, authorities = [] }: ProviderOptions,
): PaymentProvider {
  const connection = createConnection(access, call_ms);
  const calls = createCalls(NAME, access, {
    explain: (error) => explain(connection, error),
    call_ms,
  });
  const certificates = createCertificates({ authorities, names: signersAt(access.base_url) });
  // Only what is asked of the provider may be lost: a mistake of ours is no trouble of theirs.
  const verify = createVerifier(connection, {
    certificateAt: (url) => calls.run((signal) => certificates(url, signal)),
    ask: (path, question) =>
      calls.run((signal) => askJson(connection, path, { ...question, signal })),
  });
  return {
    createCheckout: (request) => calls.run(() => createCheckout(connection, request)),
    read: (order_id, options) => calls.run((signal) => read(connection, order_id, signal, options)),
    capture: (order_id, key) => calls.run((signal) => capture(connection, order_id, key, signal)),
    // An order cannot be ended there: it is captured by nobody but us, and ends by itself.
    expire: async () => undefined,
    refund: (request) => calls.run((signal) => refund(connection, request, signal)),
    async verifyWebhook(headers, body) {
      const envelope = await verify(headers, body);
      return envelope && eventOf(envelope);
    },
  };
}

async function createCheckout(
  { session }: Connection,
  request: CheckoutRequest,
): Promise<Checkout> {
  const { client } = await session();
  const { result: order } = await new OrdersController(client).createOrder({
    paypalRequestId: request.key,
    body: {
      intent: CheckoutPaymentIntent.Capture,
      purchaseUnits: [
        {
          customId: request.payment_session_id,
          description: cut(request.description, DESCRIPTION_MAX),
          amount: moneyOf(request.currency, request.amount_nanos),
        },
      ],
      paymentSource: {
        paypal: {
          experienceContext: {
            returnUrl: request.return_url,
            cancelUrl: request.cancel_url,
            userAction: PaypalExperienceUserAction.PayNow,
            shippingPreference: PaypalWalletContextShippingPreference.NoShipping,
          },
        },
      },
    },
  });
  const approval = order.links?.find(({ rel }) => rel === 'payer-action' || rel === 'approve');
  if (!order.id || !approval)
    throw new ProviderTrouble('made an order without id or approval link');
  return { order_id: order.id, approval_url: approval.href };
}

async function read(
  connection: Connection,
  order_id: string,
  signal: AbortSignal,
  { isFresh = false } = {},
): Promise<PaymentReport> {
  const { client } = await connection.session();
  const found = await new OrdersController(client).getOrder({ id: order_id }).catch(unlessGone);
  if (found === undefined) return nothingPaid('gone');
  const report = reportOf(found.result);
  // A dispute may make its capture pending or declined: it is asked for whatever that is now.
  if (isFresh || report.capture_id === null) return report;
  return { ...report, disputes: await disputesOf(connection, report.capture_id, signal) };
}

/** An order whose time is over is not found any more. */
function unlessGone(error: unknown): undefined {
  if (issueOf(error) === 'INVALID_RESOURCE_ID' && (error as ApiError).statusCode === 404) return;
  throw error;
}

async function capture(
  connection: Connection,
  order_id: string,
  key: string,
  signal: AbortSignal,
): Promise<PaymentReport> {
  const { client } = await connection.session();
  const whole = 'return=representation';
  try {
    const { result } = await new OrdersController(client).captureOrder({
      id: order_id,
      paypalRequestId: key,
      prefer: whole,
    });
    return reportOf(result);
  } catch (error) {
    if (issueOf(error) !== 'ORDER_ALREADY_CAPTURED') throw error;
    return read(connection, order_id, signal);
  }
}

async function refund(
  connection: Connection,
  request: RefundRequest,
  signal: AbortSignal,
): Promise<ReportedRefund> {
  const { client } = await connection.session();
  const { payment_refund_id, capture_id, currency, amount_nanos } = request;
  try {
    const { result } = await new PaymentsController(client).refundCapturedPayment({
      captureId: capture_id,
      paypalRequestId: payment_refund_id,
      prefer: 'return=representation',
      body: {
        amount: moneyOf(currency, amount_nanos),
        customId: payment_refund_id,
      },
    });
    return refundOf(result, null);
  } catch (error) {
    if (explain(connection, error).refusal === undefined) throw error;
    // Refused because it was made already, longer ago than the key is kept.
    const { refunds } = await read(connection, request.order_id, signal);
    const made = refunds.find((known) => known.payment_refund_id === payment_refund_id);
    if (made) return made;
    throw error;
  }
}

function moneyOf(currency: string, nanos: bigint) {
  return { currencyCode: currency, value: toWire(NAME, currency, nanos) };
}

function nothingPaid(status: PaymentStatus): PaymentReport {
  const nothing = { capture_id: null, amount_nanos: null, currency: null };
  return { status, ...nothing, refunds: [], disputes: [] };
}

// The best capture that is told counts: lists come in any order, declined ones among them.
const ranks: readonly PaymentStatus[] = ['captured', 'pending', 'failed'];

/** An order's own status says COMPLETED even if its capture was declined: the capture counts. */
function reportOf(order: Order): PaymentReport {
  const units = order.purchaseUnits ?? [];
  const taken = units
    .flatMap(({ payments }) => payments?.captures ?? [])
    .map((capture) => ({ ...capture, meaning: meaningOf(words.captures, capture.status) }))
    .sort((a, b) => ranks.indexOf(a.meaning) - ranks.indexOf(b.meaning))[0];
  if (taken === undefined) return nothingPaid(meaningOf(words.orders, order.status));
  const { currencyCode: currency, value } = present(taken.amount);
  const capture_id = present(taken.id);
  const amount_nanos = fromWire(NAME, currency, value);
  const listed = units.flatMap(({ payments, customId }) =>
    (payments?.refunds ?? []).map((made) => refundOf(made, customId ?? null)),
  );
  const isAllBack = taken.status === CaptureStatus.Refunded;
  const refunds = isAllBack ? wholeOf(listed, { capture_id, amount_nanos, currency }) : listed;
  return { status: taken.meaning, capture_id, amount_nanos, currency, refunds, disputes: null };
}

/** All of the capture is said to have gone back: what no refund shows that went is one more. */
function wholeOf(
  listed: ReportedRefund[],
  { capture_id, ...capture }: { capture_id: string; amount_nanos: bigint; currency: string },
): ReportedRefund[] {
  const rest = listed
    .filter(({ status }) => status !== 'failed')
    .reduce((left, made) => left - made.amount_nanos, capture.amount_nanos);
  if (rest <= 0n) return listed;
  const id = { provider_refund_id: `${capture_id}-rest`, payment_refund_id: null };
  return [...listed, { ...capture, ...id, status: 'succeeded', amount_nanos: rest }];
}

/**
 * A refund made at the provider's own site may carry the order's name: only another one is ours.
 */
function refundOf(
  { id, status, amount, customId }: Refund,
  order_name: string | null,
): ReportedRefund {
  const { currencyCode, value } = present(amount);
  return {
    provider_refund_id: present(id),
    payment_refund_id: customId && customId !== order_name ? customId : null,
    status: meaningOf(words.refunds, status),
    amount_nanos: fromWire(NAME, currencyCode, value),
    currency: currencyCode,
  };
}

function present<T>(value: T | undefined): T {
  if (value === undefined) throw new ProviderTrouble('left out an amount, an id or a status');
  return value;
}
