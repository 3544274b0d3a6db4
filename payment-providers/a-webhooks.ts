import type { Connection } from './a-client';
import type { ProviderEvent, WebhookHeaders } from './provider';

const OPENS = '{'.charCodeAt(0);
const CLOSES = '}'.charCodeAt(0);

const signatureHeaders = {
  transmission_id: 'paypal-transmission-id',
  transmission_time: 'paypal-transmission-time',
  transmission_sig: 'paypal-transmission-sig',
  cert_url: 'paypal-cert-url',
  auth_algo: 'paypal-auth-algo',
};

/** Asks the provider, and throws `ProviderTrouble` if it does not answer. */
export type Ask = (
  path: string,
  question: { body: Buffer; expected: number[] },
) => Promise<unknown>;

/**
 * Asks the provider whether it signed these bytes; nothing is asked if it cannot have. Undefined if
 * it did not.
 */
export async function verified(
  connection: Connection,
  headers: WebhookHeaders,
  body: Buffer,
  ask: Ask,
): Promise<Envelope | undefined> {
  const claims = Object.entries(signatureHeaders).map(([name, header]) => [name, headers[header]]);
  if (claims.some(([, value]) => !value)) return undefined;
  const claim = Object.fromEntries(claims) as Record<string, string>;
  if (!isOfProvider(claim.cert_url ?? '', connection.base_url)) return undefined;
  const envelope = parse(body);
  if (envelope === undefined) return undefined;
  for (const webhook_id of connection.webhook_ids) {
    // The signature is over the bytes that came: they go on as they are, since another spelling of
    // the same JSON has others.
    const start = JSON.stringify({ ...claim, webhook_id }).slice(0, -1);
    const asked = Buffer.concat([Buffer.from(`${start},"webhook_event":`), body, Buffer.from('}')]);
    const path = '/v1/notifications/verify-webhook-signature';
    const answer = await ask(path, { body: asked, expected: [400, 422] });
    if ((answer as { verification_status?: string })?.verification_status === 'SUCCESS')
      return envelope;
  }
  return undefined;
}

/** A certificate of elsewhere proves nothing. It is fetched by the provider, never by us. */
export function isOfProvider(cert_url: string, base_url: string): boolean {
  if (!URL.canParse(cert_url)) return false;
  const cert = new URL(cert_url);
  const base = new URL(base_url);
  if (cert.username || cert.password || cert.protocol !== base.protocol) return false;
  const family = /(^|\.)paypal\.com$/;
  if (family.test(base.host)) return family.test(cert.host);
  return cert.host === base.host;
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
    const capture_id = listOf(resource.disputed_transactions)[0]?.seller_transaction_id ?? null;
    return { id, type, topic: 'refund', ...nothing, capture_id };
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
