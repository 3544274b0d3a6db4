import { z } from 'zod';
import { AppError } from '../../domain/errors';
import type { ProviderName } from '../../domain/payments/currencies';
import * as paymentEvents from '../../domain/payments/events';
import { cannotWorkNow, isTransient, withRetry } from '../../domain/sql';
import { keepable } from '../../domain/texts';
import {
  isProviderRefusal,
  isProviderTrouble,
  type ProviderEvent,
  type WebhookHeaders,
} from '../../payment-providers/provider';
import * as answers from '../answers/payments';
import { open } from '../http/access';
import { readBytes } from '../http/body';
import { paymentProvider } from '../http/fields';
import { type Ctx, route } from '../http/route';

const named = z.object({ provider: paymentProvider });
const nothing = z.object({});

/** Several times what the providers send. */
const BODY_BYTES_MAX = 262_144;

export const webhookRoutes = [
  route({
    method: 'post',
    path: '/v1/payments/webhooks/:provider',
    access: open,
    input: named,
    handler: receive,
    summary: 'News of a payment, signed by its provider; stored before it is answered.',
    is_raw: true,
    answer: answers.received,
  }),
  route({
    method: 'post',
    path: '/v1/payments/webhook',
    access: open,
    input: nothing,
    handler: receiveLegacy,
    summary: 'Deprecated: the webhook of payment_provider_a under its old address.',
    is_raw: true,
    is_deprecated: true,
    answer: answers.received,
  }),
];

/**
 * Verifies the bytes as they came, stores the event with the message to its workflow, and says so.
 * New, repeated and out-of-order events are all taken; a bad signature is 401; 503 if the event
 * cannot be verified or stored now.
 */
async function receive(
  { db, providerOf, log, http }: Ctx,
  { provider: name }: { provider: ProviderName },
) {
  const body = await readBytes(http, BODY_BYTES_MAX);
  const headers = http.headers as WebhookHeaders;
  const verified = providerOf(name).then((provider) => provider.verifyWebhook(headers, body));
  const event = await verified.catch((error) => {
    if (!isPassing(error)) throw error;
    // One line, without a stack: whoever can post here could fill the log.
    log.warn(
      { provider: name, reason: (error as Error).message },
      'a webhook could not be verified',
    );
    throw new AppError('unavailable', 'The webhook could not be verified now. Deliver it again.', {
      retry_after: 5,
    });
  });
  if (event === undefined)
    throw new AppError(
      'signature_invalid',
      `This webhook is not signed by ${name}, or no webhook secret is set for it.`,
    );
  // A delivery again would change neither an event without an id nor a character that no text may
  // have.
  if (typeof event.id === 'string') {
    for (const one of eventsOf(event)) {
      const kept = storable({ ...one, provider: name, body: body.toString('utf8') });
      await withRetry(() => paymentEvents.record(db, kept));
    }
  }
  return { received: true };
}

/** An event for each payment that it names: each is kept, and matched, on its own. */
function eventsOf({ other_capture_ids = [], ...event }: ProviderEvent): ProviderEvent[] {
  const others = other_capture_ids.map((capture_id) => ({
    ...event,
    id: `${event.id} ${capture_id}`,
    capture_id,
  }));
  return [event, ...others];
}

/**
 * True if a later delivery may be verified: the provider, its secrets or the database cannot be
 * reached now.
 */
function isPassing(error: unknown): boolean {
  const is_of_provider = isProviderTrouble(error) || isProviderRefusal(error);
  return is_of_provider || cannotWorkNow(error) || isTransient(error);
}

function storable(event: paymentEvents.ReceivedEvent): paymentEvents.ReceivedEvent {
  const entries = Object.entries(event).map(([name, value]) => [
    name,
    typeof value === 'string' ? keepable(value) : value,
  ]);
  return Object.fromEntries(entries) as paymentEvents.ReceivedEvent;
}

function receiveLegacy(ctx: Ctx) {
  deprecated(ctx, '/v1/payments/webhooks/payment_provider_a');
  return receive(ctx, { provider: 'payment_provider_a' });
}

// RFC 9745: since when, in seconds of Unix time. The aliases are as old as version 1.5.0.
const DEPRECATED_SINCE = '@1795737600';

/** Says on an answer that its route is deprecated, and which one follows it. */
export function deprecated({ http }: Ctx, successor: string): void {
  http.set('deprecation', DEPRECATED_SINCE);
  http.set('link', `<${successor}>; rel="successor-version"`);
}
