import {
  createSign,
  createVerify,
  generateKeyPairSync,
  randomBytes,
  randomUUID,
} from 'node:crypto';
import { crc32 } from 'node:zlib';
import type { Happening } from '../desk';
import type { Order } from '../store';
import { type Authority, certify } from './authority';
import { showCapture, showDispute, showOrder, showRefund } from './shapes';

interface SignatureClaim {
  auth_algo: string;
  cert_url: string;
  transmission_id: string;
  transmission_sig: string;
  transmission_time: string;
  webhook_id: string;
}

const ALGORITHM = 'SHA256withRSA';

export type Signer = ReturnType<typeof createSigner>;

/** The name that PayPal's own certificates have for trials. */
const SIGNER = 'messageverificationcerts.sandbox.paypal.com';
const AGE_MAX_MS = 4 * 24 * 3_600_000;

/**
 * PayPal's signature: RSA with SHA-256 over the transmission's id and time, the webhook's id, and
 * the CRC32 of the very bytes. A key of its own for each start, in a certificate that the authority
 * signs.
 */
export function createSigner(
  webhook_id: string,
  baseUrl: () => string,
  authority: Promise<Authority>,
) {
  const { privateKey, publicKey } = generateKeyPairSync('rsa', {
    modulusLength: 2048,
    privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
    publicKeyEncoding: { type: 'spki', format: 'pem' },
  });
  const path = `/v1/notifications/certs/CERT-${randomBytes(8).toString('hex')}`;
  const certificate = { path, pem: '' };
  const certified = authority.then(async (ca) => {
    certificate.pem = await certify(ca, { name: SIGNER, pair: { privateKey, publicKey } });
  });
  // Told by whoever signs first.
  certified.catch(() => undefined);
  const text = (id: string, time: string, body: string) =>
    `${id}|${time}|${webhook_id}|${crc32(body)}`;
  return {
    async sign(body: string) {
      await certified;
      const id = randomUUID();
      const time = new Date().toISOString().replace(/\.\d+Z$/, 'Z');
      const signature = createSign('RSA-SHA256').update(text(id, time, body));
      return {
        'paypal-transmission-id': id,
        'paypal-transmission-time': time,
        'paypal-transmission-sig': signature.sign(privateKey, 'base64'),
        'paypal-cert-url': `${baseUrl()}${path}`,
        'paypal-auth-algo': ALGORITHM,
        'paypal-auth-version': 'v2',
      };
    },
    /**
     * True if a call of verify-webhook-signature names a good signature; `event` is the text of its
     * webhook_event as it came.
     */
    isGood(claim: SignatureClaim, event: string): boolean {
      if (claim.webhook_id !== webhook_id || claim.auth_algo !== ALGORITHM) return false;
      if (claim.cert_url !== `${baseUrl()}${path}`) return false;
      const age_ms = Date.now() - Date.parse(claim.transmission_time);
      if (!(Math.abs(age_ms) <= AGE_MAX_MS)) return false;
      const signed = text(claim.transmission_id, claim.transmission_time, event);
      const verify = createVerify('RSA-SHA256').update(signed);
      return verify.verify(publicKey, claim.transmission_sig, 'base64');
    },
    certificate,
  };
}

const token = /"(?:[^"\\]|\\.)*"|[{}[\],:]/g;

/**
 * The text of one member of a JSON object, byte for byte as it came; undefined if it is missing.
 */
export function rawMember(text: string, name: string): string | undefined {
  let depth = 0;
  let key: unknown;
  let start: number | undefined;
  for (const { 0: found, index } of text.matchAll(token)) {
    const is_end = found === '}' || found === ']';
    if (depth === 1 && start !== undefined && (is_end || found === ','))
      return text.slice(start, index).trim();
    if (depth === 1 && found === ':' && key === name) start ??= index + 1;
    if (depth === 1 && found.startsWith('"')) key = JSON.parse(found);
    if (found === '{' || found === '[') depth += 1;
    if (is_end) depth -= 1;
  }
  return undefined;
}

const types: Record<Happening['kind'], string | undefined> = {
  approved: 'CHECKOUT.ORDER.APPROVED',
  expired: undefined,
  captured: 'PAYMENT.CAPTURE.COMPLETED',
  settled: 'PAYMENT.CAPTURE.COMPLETED',
  pending: 'PAYMENT.CAPTURE.PENDING',
  denied: 'PAYMENT.CAPTURE.DENIED',
  refund_made: 'PAYMENT.CAPTURE.REFUNDED',
  refund_settled: 'PAYMENT.CAPTURE.REFUNDED',
  refund_failed: 'PAYMENT.REFUND.FAILED',
  reversed: 'PAYMENT.CAPTURE.REVERSED',
  dispute_opened: 'CUSTOMER.DISPUTE.CREATED',
  dispute_closed: 'CUSTOMER.DISPUTE.RESOLVED',
};

/** The event of a happening; undefined if PayPal has none. */
export function toEvent(order: Order, happening: Happening, base_url: string) {
  const is_pending = happening.kind === 'refund_made' && happening.refund.status === 'pending';
  const type = is_pending ? 'PAYMENT.REFUND.PENDING' : types[happening.kind];
  if (type === undefined) return undefined;
  const id = `WH-${randomBytes(9).toString('hex').toUpperCase()}`;
  const event = {
    id,
    event_version: '1.0',
    create_time: new Date().toISOString(),
    ...resourceOf(order, happening, base_url),
    event_type: type,
    // The no-break space is escaped below, as PayPal does, so that a receiver who serialises the
    // event anew changes its bytes.
    summary: `${type} for\u00a0order ${order.id}`,
    links: [
      { href: `${base_url}/v1/notifications/webhooks-events/${id}`, rel: 'self', method: 'GET' },
    ],
  };
  return { id, type, order_id: order.id, body: ascii(JSON.stringify(event)) };
}

function resourceOf(order: Order, happening: Happening, base_url: string) {
  if ('capture' in happening)
    return {
      resource_type: 'capture',
      resource_version: '2.0',
      resource: showCapture(order, happening.capture, base_url),
    };
  if ('refund' in happening)
    return {
      resource_type: 'refund',
      resource_version: '2.0',
      resource: {
        ...showRefund(order, happening.refund, base_url),
        ...(order.reference && !happening.refund.given.custom_id && { custom_id: order.reference }),
      },
    };
  if ('dispute' in happening)
    return { resource_type: 'dispute', resource: showDispute(order, happening.dispute, base_url) };
  return {
    resource_type: 'checkout-order',
    resource_version: '2.0',
    resource: showOrder(order, base_url, true),
  };
}

function ascii(json: string): string {
  return json.replaceAll(
    /[\u0080-\uffff]/g,
    (found) => `\\u${found.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}
