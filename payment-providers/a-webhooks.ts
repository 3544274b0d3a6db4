import type { X509Certificate } from 'node:crypto';
import type { Connection } from './a-client';
import { type Claim, claimOf, isOfProvider, isSigned, isTimely } from './a-signature';
import { type ProviderEvent, ProviderTrouble, type WebhookHeaders } from './provider';

const OPENS = '{'.charCodeAt(0);
const CLOSES = '}'.charCodeAt(0);
/** So many are asked about at a time: captures and refunds need the account's calls, too. */
const VERIFYING_MAX = 4;

/** How webhooks are verified; each throws `ProviderTrouble` if it gets no answer. */
export interface Verifying {
  certificateAt: (url: string) => Promise<X509Certificate | undefined>;
  /** Asks the provider, under the merchant's account. */
  ask: (path: string, question: { body: Buffer; expected: number[] }) => Promise<unknown>;
}

/**
 * Verifies the provider's webhooks: their form, age, certificate and signature here, and what
 * passes by the provider, which decides. What somebody has invented costs the account no call.
 * Undefined if it is not of the provider.
 */
export function createVerifier({ base_url, webhook_ids }: Connection, verifying: Verifying) {
  let under_way = 0;
  return async (headers: WebhookHeaders, body: Buffer): Promise<Envelope | undefined> => {
    const claim = claimOf(headers);
    if (claim === undefined || webhook_ids.length === 0) return undefined;
    if (!isTimely(claim, Date.now()) || !isOfProvider(claim.cert_url, base_url)) return undefined;
    const envelope = parse(body);
    if (envelope === undefined) return undefined;
    const certificate = await verifying.certificateAt(claim.cert_url);
    if (certificate === undefined) return undefined;
    const { publicKey } = certificate;
    const webhook_id = webhook_ids.find((id) => isSigned(claim, id, body, publicKey));
    if (webhook_id === undefined) return undefined;
    if (under_way >= VERIFYING_MAX)
      throw new ProviderTrouble(`is asked about ${VERIFYING_MAX} webhooks already`);
    under_way += 1;
    try {
      return (await isConfirmed(verifying, { ...claim, webhook_id }, body)) ? envelope : undefined;
    } finally {
      under_way -= 1;
    }
  };
}

/**
 * The provider's own word. The signature is over the bytes that came: they go on as they are, since
 * another spelling of the same JSON has others.
 */
async function isConfirmed(
  { ask }: Verifying,
  claim: Claim & { webhook_id: string },
  body: Buffer,
): Promise<boolean> {
  const start = JSON.stringify(claim).slice(0, -1);
  const asked = Buffer.concat([Buffer.from(`${start},"webhook_event":`), body, Buffer.from('}')]);
  const path = '/v1/notifications/verify-webhook-signature';
  const answer = await ask(path, { body: asked, expected: [400, 422] });
  return (answer as { verification_status?: string })?.verification_status === 'SUCCESS';
}

interface Envelope {
  id: string;
  event_type: string;
  resource?: Resource | null;
}

interface Resource {
  id?: string;
  order_id?: string;
  custom_id?: string;
  purchase_units?: { custom_id?: string }[];
  supplementary_data?: { related_ids?: { order_id?: string } };
  links?: { rel?: string; href?: string }[];
  disputed_transactions?: { seller_transaction_id?: string }[];
}

/** The event of a verified webhook. */
export function eventOf({ id, event_type: type, resource: given }: Envelope): ProviderEvent {
  const resource = given ?? {};
  const nothing = { payment_session_id: null, order_id: null, capture_id: null };
  if (/^CHECKOUT\.(ORDER|PAYMENT-APPROVAL)\./.test(type)) {
    const order_id = resource.order_id ?? resource.id ?? null;
    const payment_session_id = listOf(resource.purchase_units)[0]?.custom_id ?? null;
    return { id, type, topic: 'payment', ...nothing, order_id, payment_session_id };
  }
  if (/^PAYMENT\.(REFUND\.|CAPTURE\.(REFUNDED|REVERSED)$)/.test(type)) {
    const up = listOf(resource.links).find(({ rel }) => rel === 'up')?.href;
    const capture_id = up?.match(/\/captures\/([^/?]+)/)?.[1] ?? null;
    return { id, type, topic: 'refund', ...nothing, capture_id };
  }
  if (type.startsWith('PAYMENT.CAPTURE.')) {
    const order_id = resource.supplementary_data?.related_ids?.order_id ?? null;
    const { id: capture_id = null, custom_id: payment_session_id = null } = resource;
    return { id, type, topic: 'payment', order_id, capture_id, payment_session_id };
  }
  if (type.startsWith('CUSTOMER.DISPUTE.')) {
    const named = listOf(resource.disputed_transactions).flatMap((one) =>
      one?.seller_transaction_id ? [one.seller_transaction_id] : [],
    );
    const [capture_id = null, ...other_capture_ids] = new Set(named);
    return { id, type, topic: 'refund', ...nothing, capture_id, other_capture_ids };
  }
  return { id, type, topic: 'other', ...nothing };
}

/** The list that a member should be; empty if the provider sent something else. */
function listOf<Item>(value: readonly Item[] | null | undefined): readonly Item[] {
  return Array.isArray(value) ? value : [];
}

/**
 * Undefined if the bytes are no event. Nothing stands around the object, so that it keeps its bytes
 * inside another one.
 */
function parse(body: Buffer): Envelope | undefined {
  if (body[0] !== OPENS || body.at(-1) !== CLOSES) return undefined;
  try {
    const envelope = JSON.parse(body.toString()) as Envelope;
    const { id, event_type } = envelope;
    return typeof id === 'string' && id !== '' && typeof event_type === 'string'
      ? envelope
      : undefined;
  } catch {
    return undefined;
  }
}
