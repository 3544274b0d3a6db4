import { randomBytes } from 'node:crypto';
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { listen } from '../../../runtime/listen';
import type { Desk } from '../desk';
import { createFaults } from '../faults';
import { openSender, RETRY_MS } from '../sender';
import { createPaymentServer } from '../server';
import { createStore } from '../store';
import type { HostedPage, ProviderRequest, ProviderResponse } from '../wire';
import { amountText, problem, toUnits } from './forms';
import { moneyRoutes } from './routes';
import { sign, toEvents } from './webhooks';

interface OptionsB {
  secret_key?: string;
  webhook_secret?: string;
  /** The address of webhooks; POST /sandbox/webhooks changes it. */
  webhook_url?: string;
  retry_ms?: readonly number[];
  /** The file that keeps orders and events over a restart. */
  file?: string;
}

/** The credentials that the sandbox takes by default; no secret guards play money. */
export const sandboxAccessB = {
  secret_key: 'sk_test_sandbox',
  webhook_secret: 'whsec_sandbox',
};

/**
 * Payment provider B on this machine: Stripe's wire (Checkout, payment intents, charges, refunds,
 * disputes, signed webhooks) with a hosted page at /c/pay/:id, and `/sandbox/...` for operators and
 * tests (operator.ts, faults.ts).
 */
export function createPaymentServerB(options: OptionsB = {}): Server {
  const access = { ...sandboxAccessB, ...options };
  const store = createStore(options.file);
  const faults = createFaults();
  const baseUrl = () => `http://127.0.0.1:${(server.address() as AddressInfo | null)?.port ?? 0}`;
  const target = { url: options.webhook_url ?? null, retry_ms: options.retry_ms ?? RETRY_MS };
  const signed = (body: string) => sign(body, access.webhook_secret);
  const sender = openSender({ store, faults, target, sign: signed });
  const desk: Desk = {
    store,
    faults,
    captures_at_once: true,
    refunds_disputed: false,
    newId,
    toUnits,
    whenTried: ({ wire }) => {
      wire.payment_intent ??= newId('intent');
    },
    emit(order, happening) {
      for (const event of toEvents(order, happening, baseUrl(), () => newId('event')))
        sender.send(event, order.reference);
    },
  };
  const server = createPaymentServer({
    desk,
    sender,
    routes: moneyRoutes(desk, newId),
    page,
    unauthorized: (request) => unauthorized(request, access.secret_key),
    unknown: ({ method, path }) => problem(404, `Unrecognized request URL (${method}: ${path}).`),
    fault: (status) => problem(status, 'An unknown error occurred', { type: 'api_error' }),
    key: ({ headers }) => headers['idempotency-key']?.toString(),
    isKept: (status) => (status >= 200 && status < 300) || status === 402 || status === 500,
    repeat: (kept) => ({ ...kept, headers: { 'idempotent-replayed': 'true' } }),
    conflict: problem(
      400,
      'Keys for idempotent requests can only be used with the same parameters they were first used with.',
      { type: 'idempotency_error' },
    ),
  });
  server.on('listening', sender.resume);
  return server;
}

const starts = {
  session: 'cs_test_',
  intent: 'pi_',
  capture: 'ch_',
  refund: 're_',
  dispute: 'dp_',
  event: 'evt_',
} as const;

function newId(kind: keyof typeof starts): string {
  return `${starts[kind]}${randomBytes(12).toString('hex')}`;
}

const page: HostedPage = {
  name: 'Sandbox payment provider B',
  colour: '#5b3df0',
  orderId: ({ path }) => /^\/c\/pay\/([^/]+)$/.exec(path)?.[1],
  returnUrl: ({ return_url, id }) => return_url.replaceAll('{CHECKOUT_SESSION_ID}', id),
  cancelUrl: ({ cancel_url, return_url }) => cancel_url || return_url,
  amountText: (order) => amountText(order.capture ?? order),
};

function unauthorized(
  { headers }: ProviderRequest,
  secret_key: string,
): ProviderResponse | undefined {
  const given = headers.authorization ?? '';
  const basic = `Basic ${Buffer.from(`${secret_key}:`).toString('base64')}`;
  if (given === `Bearer ${secret_key}` || given === basic) return undefined;
  const shown = given.replace(/^\w+ /, '').slice(0, 8);
  return problem(
    401,
    shown ? `Invalid API Key provided: ${shown}***` : 'You did not provide an API key.',
  );
}

/** Starts it as its environment says. */
export async function startPaymentServerB(env: NodeJS.ProcessEnv): Promise<void> {
  const server = createPaymentServerB({
    ...(env.SANDBOX_PAYMENT_B_SECRET_KEY && { secret_key: env.SANDBOX_PAYMENT_B_SECRET_KEY }),
    ...(env.SANDBOX_PAYMENT_B_WEBHOOK_SECRET && {
      webhook_secret: env.SANDBOX_PAYMENT_B_WEBHOOK_SECRET,
    }),
    ...(env.SANDBOX_PAYMENT_B_WEBHOOK_URL && { webhook_url: env.SANDBOX_PAYMENT_B_WEBHOOK_URL }),
    ...(env.SANDBOX_PAYMENT_B_FILE && { file: env.SANDBOX_PAYMENT_B_FILE }),
  });
  const given = Number(env.SANDBOX_PAYMENT_B_PORT ?? 8092);
  // Anybody who reaches it may pay and refund, so that only this machine may ask.
  const port = await listen(server, given, { host: '127.0.0.1', name: 'SANDBOX_PAYMENT_B' });
  process.stdout.write(`sandbox payment provider B on http://127.0.0.1:${port}\n`);
}

/** Run as a program. */
export const main = () => startPaymentServerB(process.env);
