import Stripe from 'stripe';
import type { RequestInit } from 'undici';
import { fromWire, toWire } from '../domain/payments/currencies';
import { cut } from '../domain/texts';
import { fetch } from '../runtime/outgoing';
import { eventOf, verified } from './b-webhooks';
import { CALL_MS, createCalls, lostWords } from './calls';
import {
  type Checkout,
  type CheckoutRequest,
  type PaymentProvider,
  type PaymentReport,
  type PaymentStatus,
  type ProviderAccess,
  type ProviderOptions,
  ProviderRefusal,
  ProviderTrouble,
  type RefundRequest,
  type ReportedDispute,
  type ReportedRefund,
} from './provider';
import { meaningOf } from './words-a';
import * as words from './words-b';

// Stripe: Checkout sessions, which take the money by themselves; refunds, disputes, signed
// webhooks.

const NAME = 'payment_provider_b';
/** A checkout lives at least 30 minutes there; a little more, since its clock is not ours. */
const LIFE_MIN_MS = 31 * 60_000;
const NAME_MAX = 250;
const PAGE = 100;
const CONFLICT = 409;

export function createProviderB(
  access: ProviderAccess,
  { call_ms = CALL_MS }: ProviderOptions,
): PaymentProvider {
  const stripe = createClient(access, call_ms);
  const calls = createCalls(NAME, access, { explain, call_ms });
  return {
    createCheckout: (request) => calls.run(() => createCheckout(stripe, request)),
    read: (order_id, options) => calls.run(() => read(stripe, order_id, options)),
    capture: (order_id) => calls.run(() => read(stripe, order_id)),
    expire: (order_id) => calls.run(() => expire(stripe, order_id)),
    refund: (request) => calls.run(() => refund(stripe, request)),
    async verifyWebhook(headers, body) {
      const event = verified(stripe, access.webhook_secrets, headers, body);
      return event && eventOf(event);
    },
  };
}

function createClient({ base_url, credentials }: ProviderAccess, call_ms: number): Stripe {
  const { protocol, hostname, port } = new URL(base_url);
  const isPlain = protocol === 'http:';
  // A client without a key cannot be made; one that is not configured is refused by the provider.
  return new Stripe(credentials.secret_key || 'none', {
    host: hostname,
    port: port || (isPlain ? 80 : 443),
    protocol: isPlain ? 'http' : 'https',
    timeout: call_ms,
    maxNetworkRetries: 0,
    // Node's own client repeats a request if a connection is cut, even without retries; and no
    // redirect gets the key.
    httpClient: Stripe.createFetchHttpClient(((url: string, init: RequestInit) =>
      fetch(url, { ...init, redirect: 'error' })) as unknown as typeof globalThis.fetch),
    telemetry: false,
  });
}

async function createCheckout(stripe: Stripe, request: CheckoutRequest): Promise<Checkout> {
  const { payment_session_id, currency, amount_nanos, expires_at } = request;
  const metadata = { payment_session_id };
  const description = cut(request.description, NAME_MAX);
  const ends_ms = Math.max(expires_at.getTime(), Date.now() + LIFE_MIN_MS);
  const session = await stripe.checkout.sessions.create(
    {
      mode: 'payment',
      line_items: [
        {
          quantity: 1,
          price_data: {
            currency: currency.toLowerCase(),
            unit_amount: Number(toWire(NAME, currency, amount_nanos)),
            product_data: { name: description },
          },
        },
      ],
      client_reference_id: payment_session_id,
      metadata,
      payment_intent_data: { metadata, description },
      success_url: withToken(request.return_url),
      cancel_url: request.cancel_url,
      expires_at: Math.floor(ends_ms / 1_000),
    },
    { idempotencyKey: request.key },
  );
  if (!session.url) throw new ProviderTrouble('made a checkout without an address');
  return { order_id: session.id, approval_url: session.url };
}

/**
 * The provider puts the checkout's id there, under the name that provider A gives it, so that
 * clients read one name.
 */
function withToken(return_url: string): string {
  const { origin, pathname, search, hash } = new URL(return_url);
  return `${origin}${pathname}${search ? `${search}&` : '?'}token={CHECKOUT_SESSION_ID}${hash}`;
}

async function read(
  stripe: Stripe,
  order_id: string,
  { isFresh = false } = {},
): Promise<PaymentReport> {
  const session = await stripe.checkout.sessions
    .retrieve(order_id, { expand: ['payment_intent'] })
    .catch(unlessMissing);
  if (session === undefined) return nothingPaid('gone');
  const intent = session.payment_intent as Stripe.PaymentIntent | null;
  const said = statusOf(session, intent);
  // Paid, and nothing that says how much: not known yet.
  const status = said === 'captured' && intent === null ? 'pending' : said;
  if (intent === null || (status !== 'captured' && status !== 'pending'))
    return nothingPaid(status);
  const currency = intent.currency.toUpperCase();
  const amount = status === 'captured' ? intent.amount_received : intent.amount;
  const payment_intent = intent.id;
  const [refunds, disputes] = isFresh ? [[], []] : await claimsOn(stripe, payment_intent);
  return {
    status,
    capture_id: payment_intent,
    amount_nanos: fromWire(NAME, currency, amount),
    currency,
    refunds: refunds.map(refundOf),
    disputes: disputes.flatMap(disputeOf),
  };
}

function claimsOn(stripe: Stripe, payment_intent: string) {
  return Promise.all([
    stripe.refunds.list({ payment_intent, limit: PAGE }).autoPagingToArray({ limit: 10 * PAGE }),
    stripe.disputes.list({ payment_intent, limit: PAGE }).autoPagingToArray({ limit: 10 * PAGE }),
  ]);
}

function nothingPaid(status: PaymentStatus): PaymentReport {
  const nothing = { capture_id: null, amount_nanos: null, currency: null };
  return { status, ...nothing, refunds: [], disputes: [] };
}

function statusOf(
  session: Stripe.Checkout.Session,
  intent: Stripe.PaymentIntent | null,
): PaymentStatus {
  const payment = meaningOf(words.payments, session.payment_status);
  if (payment !== 'by session') return payment;
  const status = meaningOf(words.sessions, session.status);
  if (status === 'by intent') return meaningOf(words.intents, intent?.status);
  // A refused card: the page is still open for another one.
  return status === 'open' && intent?.last_payment_error ? 'declined' : status;
}

function refundOf({ id, status, amount, currency, metadata }: Stripe.Refund): ReportedRefund {
  return {
    provider_refund_id: id,
    payment_refund_id: metadata?.payment_refund_id ?? null,
    status: meaningOf(words.refunds, status),
    amount_nanos: fromWire(NAME, currency.toUpperCase(), amount),
    currency: currency.toUpperCase(),
  };
}

/** Nothing for one in which no money has left us. */
function disputeOf({ id, status, amount, currency }: Stripe.Dispute): ReportedDispute[] {
  const known = meaningOf(words.disputes, status);
  if (known === 'no loss') return [];
  const amount_nanos = fromWire(NAME, currency.toUpperCase(), amount);
  // No refund is made of what is disputed: there is none to name.
  return [{ id, status: known, amount_nanos, currency: currency.toUpperCase(), refund_ids: [] }];
}

/** A checkout that is paid or over stays as it is. */
async function expire(stripe: Stripe, order_id: string): Promise<void> {
  await stripe.checkout.sessions.expire(order_id).catch((error) => {
    if (explain(error).refusal === undefined) throw error;
  });
}

async function refund(stripe: Stripe, request: RefundRequest): Promise<ReportedRefund> {
  const { payment_refund_id, capture_id, currency, amount_nanos } = request;
  try {
    const made = await stripe.refunds.create(
      {
        payment_intent: capture_id,
        amount: refundable(currency, amount_nanos),
        metadata: { payment_refund_id },
      },
      { idempotencyKey: payment_refund_id },
    );
    return refundOf(made);
  } catch (error) {
    if (explain(error).refusal === undefined) throw error;
    // Refused because it was made already, longer ago than the key is kept.
    const { refunds } = await read(stripe, request.order_id);
    const made = refunds.find((known) => known.payment_refund_id === payment_refund_id);
    if (made) return made;
    throw error;
  }
}

/** An amount that the provider's own digits cannot say can only be sent back at its site. */
function refundable(currency: string, amount_nanos: bigint): number {
  try {
    return Number(toWire(NAME, currency, amount_nanos));
  } catch (error) {
    throw new ProviderRefusal('provider_error', (error as Error).message);
  }
}

function unlessMissing(error: unknown): undefined {
  if (error instanceof Stripe.errors.StripeError && error.code === 'resource_missing') return;
  throw error;
}

/**
 * The message of an error, and whether it is a definite no. Errors of the package carry headers and
 * the request.
 */
function explain(error: unknown): { message: string; refusal?: ProviderRefusal['code'] } {
  const { StripeError, StripeCardError, StripeInvalidRequestError } = Stripe.errors;
  if (!(error instanceof StripeError) || error.statusCode === undefined)
    return { message: lostWords(error) };
  const words = [error.statusCode, error.code, error.message, error.requestId];
  const message = `answered ${words.filter(Boolean).join(' ')}`;
  if (error instanceof StripeCardError) return { message, refusal: 'declined' };
  // The same request is under way: it has no answer yet.
  if (error.statusCode === CONFLICT) return { message };
  // Only the provider's own error counts: a 404 of a proxy between us has no such type.
  if (error instanceof StripeInvalidRequestError && error.rawType === 'invalid_request_error')
    return { message, refusal: 'provider_error' };
  return { message };
}
