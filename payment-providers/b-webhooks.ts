import type Stripe from 'stripe';
import type { ProviderEvent, WebhookHeaders } from './provider';

/** A signature is good for so long, and no webhook of another time is believed. */
const TOLERANCE_S = 300;
const HEADER_MAX = 2_000;
/** The provider signs with the present secret and, for a day, with the one before. */
const SIGNATURES_MAX = 8;

/**
 * Judges the header before anything is hashed: one time, of now, and few signatures. The package
 * refuses old ones only; one from the future would be good for as long as it lies ahead.
 */
function isWorthHashing(signature: string): boolean {
  if (signature.length > HEADER_MAX) return false;
  const parts = signature.split(',');
  const times = parts.filter((part) => part.startsWith('t='));
  const signed = parts.filter((part) => part.startsWith('v1=')).length;
  if (times.length !== 1 || signed === 0 || signed > SIGNATURES_MAX) return false;
  const at_s = /^t=(\d{1,12})$/.exec(times[0] as string)?.[1];
  const now_s = Math.floor(Date.now() / 1_000);
  return at_s !== undefined && Math.abs(Number(at_s) - now_s) <= TOLERANCE_S;
}

/** A webhook that one of the good secrets has signed over these very bytes, not long ago. */
export function verified(
  stripe: Stripe,
  secrets: readonly string[],
  headers: WebhookHeaders,
  body: Buffer,
): Stripe.Event | undefined {
  const signature = headers['stripe-signature'];
  if (!signature || !isWorthHashing(signature)) return undefined;
  for (const secret of secrets) {
    if (secret === '') continue;
    try {
      const event = stripe.webhooks.constructEvent(body, signature, secret, TOLERANCE_S);
      return isEvent(event) ? event : undefined;
    } catch {
      // Not signed with this secret, too old, or no JSON.
    }
  }
  return undefined;
}

/** The package takes any JSON that is signed. */
function isEvent(value: unknown): value is Stripe.Event {
  return typeof (value as { type?: unknown } | null)?.type === 'string';
}

interface EventObject {
  id?: string;
  client_reference_id?: string | null;
  payment_intent?: string | { id: string } | null;
  metadata?: Record<string, string> | null;
}

/** The event of a verified webhook. */
export function eventOf({ id, type, data }: Stripe.Event): ProviderEvent {
  const about = ((data as { object?: unknown } | undefined)?.object ?? {}) as EventObject;
  const intent = about.payment_intent ?? null;
  const capture_id = typeof intent === 'string' ? intent : (intent?.id ?? null);
  const named = about.client_reference_id ?? about.metadata?.payment_session_id ?? null;
  if (type.startsWith('checkout.session.')) {
    const order_id = about.id ?? null;
    return { id, type, topic: 'payment', payment_session_id: named, order_id, capture_id };
  }
  const isBack = /^(refund\.|charge\.(refund|dispute\.))/.test(type);
  const topic = isBack ? 'refund' : 'other';
  return { id, type, topic, payment_session_id: named, order_id: null, capture_id };
}
