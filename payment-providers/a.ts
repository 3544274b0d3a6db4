import {
  type ApiError,
  CheckoutPaymentIntent,
  type Order,
  OrdersController,
  PaymentsController,
  PaypalExperienceUserAction,
  PaypalWalletContextShippingPreference,
  type Refund,
} from '@paypal/paypal-server-sdk';
import { fromWire, toWire } from '../domain/payments/currencies';
import { askJson, type Connection, createConnection, explain, issueOf } from './a-client';
import { type Ask, eventOf, verified } from './a-webhooks';
import { CALL_MS, createCalls } from './calls';
import {
  type Checkout,
  type CheckoutRequest,
  type PaymentProvider,
  type PaymentReport,
  type PaymentStatus,
  type ProviderAccess,
  ProviderTrouble,
  type RefundRequest,
  type ReportedDispute,
  type ReportedRefund,
} from './provider';

// PayPal: Orders v2, Payments v2, Disputes v1, webhooks. The package has no disputes and no
// webhooks: those calls are ours.

const NAME = 'payment_provider_a';
const DESCRIPTION_MAX = 127;

export function createProviderA(access: ProviderAccess, call_ms = CALL_MS): PaymentProvider {
  const connection = createConnection(access, call_ms);
  const calls = createCalls(NAME, access, {
    explain: (error) => explain(connection, error),
    call_ms,
  });
  return {
    createCheckout: (request) => calls.run(() => createCheckout(connection, request)),
    read: (order_id, options) => calls.run((signal) => read(connection, order_id, signal, options)),
    capture: (order_id, key) => calls.run((signal) => capture(connection, order_id, key, signal)),
    // An order cannot be ended there: it is captured by nobody but us, and ends by itself.
    expire: async () => undefined,
    refund: (request) => calls.run((signal) => refund(connection, request, signal)),
    async verifyWebhook(headers, body) {
      // Only what is asked of the provider may be lost: a mistake of ours is no trouble of theirs.
      const ask: Ask = (path, question) =>
        calls.run((signal) => askJson(connection, path, { ...question, signal }));
      const envelope = await verified(connection, headers, body, ask);
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
          description: request.description.slice(0, DESCRIPTION_MAX),
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
  if (isFresh || report.status !== 'captured' || report.capture_id === null) return report;
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

const orderStatuses: Record<string, PaymentStatus> = {
  CREATED: 'open',
  SAVED: 'open',
  PAYER_ACTION_REQUIRED: 'open',
  APPROVED: 'approved',
  VOIDED: 'closed',
};

const captureStatuses: Record<string, PaymentStatus> = {
  COMPLETED: 'captured',
  PARTIALLY_REFUNDED: 'captured',
  REFUNDED: 'captured',
  PENDING: 'pending',
  DECLINED: 'declined',
  FAILED: 'declined',
};

/** An order's own status says COMPLETED even if its capture was declined: the capture counts. */
function reportOf(order: Order): PaymentReport {
  const [unit] = order.purchaseUnits ?? [];
  const taken = unit?.payments?.captures?.at(-1);
  if (taken === undefined) return nothingPaid(known(orderStatuses, order.status));
  const status = known(captureStatuses, taken.status);
  // The order is over with it: nobody can try again.
  if (status === 'declined') return nothingPaid('failed');
  const { currencyCode, value } = present(taken.amount);
  return {
    status,
    capture_id: present(taken.id),
    amount_nanos: fromWire(NAME, currencyCode, value),
    currency: currencyCode,
    refunds: (unit?.payments?.refunds ?? []).map((made) => refundOf(made, unit?.customId ?? null)),
    disputes: [],
  };
}

/**
 * A refund made at the provider's own site may carry the order's name: only another one is ours.
 */
function refundOf(
  { id, status, amount, customId }: Refund,
  order_name: string | null,
): ReportedRefund {
  const { currencyCode, value } = present(amount);
  const refundStatuses = { COMPLETED: 'succeeded', PENDING: 'pending' } as const;
  return {
    provider_refund_id: present(id),
    payment_refund_id: customId && customId !== order_name ? customId : null,
    status: refundStatuses[present(status) as keyof typeof refundStatuses] ?? 'failed',
    amount_nanos: fromWire(NAME, currencyCode, value),
    currency: currencyCode,
  };
}

function known(statuses: Record<string, PaymentStatus>, status: string | undefined): PaymentStatus {
  const found = statuses[status ?? ''];
  if (found === undefined) throw new ProviderTrouble(`reported a payment that is ${status}`);
  return found;
}

function present<T>(value: T | undefined): T {
  if (value === undefined) throw new ProviderTrouble('left out an amount, an id or a status');
  return value;
}

interface Dispute {
  dispute_id: string;
  status: string;
  dispute_life_cycle_stage: string;
  dispute_amount: { currency_code: string; value: string };
  dispute_outcome?: {
    outcome_code?: string;
    amount_refunded?: { currency_code: string; value: string };
  };
}

const DISPUTES = '/v1/customer/disputes';

/**
 * Disputes of a capture; null if the app lacks that feature. In an inquiry buyer and seller talk:
 * no money has moved.
 */
async function disputesOf(
  connection: Connection,
  capture_id: string,
  signal: AbortSignal,
): Promise<ReportedDispute[] | null> {
  const filter = `disputed_transaction_id=${encodeURIComponent(capture_id)}&page_size=50`;
  const asked = await askJson(connection, `${DISPUTES}?${filter}`, { expected: [403], signal });
  if (asked === undefined) return null;
  const listed = asked as { items?: Dispute[] };
  const claims = (listed.items ?? []).filter((one) => one.dispute_life_cycle_stage !== 'INQUIRY');
  return Promise.all(
    claims.map(async (one) => {
      if (one.status !== 'RESOLVED') return disputeOf(one);
      // Only the dispute's own page has its outcome.
      const path = `${DISPUTES}/${encodeURIComponent(one.dispute_id)}`;
      return disputeOf((await askJson(connection, path, { signal })) as Dispute);
    }),
  );
}

const outcomes: Record<string, ReportedDispute['status']> = {
  RESOLVED_BUYER_FAVOUR: 'lost',
  ACCEPTED: 'lost',
  RESOLVED_SELLER_FAVOUR: 'won',
  DENIED: 'won',
  RESOLVED_WITH_PAYOUT: 'won',
  CANCELED_BY_BUYER: 'won',
};

/** An end that we do not know is taken for none: the money stays away until it is known. */
function disputeOf({ dispute_id, dispute_amount, dispute_outcome }: Dispute): ReportedDispute {
  const status = outcomes[dispute_outcome?.outcome_code ?? ''] ?? 'open';
  const lost = status === 'lost' ? dispute_outcome?.amount_refunded : undefined;
  const { currency_code, value } = lost ?? dispute_amount;
  const amount_nanos = fromWire(NAME, currency_code, value);
  return { id: dispute_id, status, amount_nanos, currency: currency_code };
}
