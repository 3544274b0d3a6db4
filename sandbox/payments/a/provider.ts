import { createHash, randomBytes } from 'node:crypto';
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { z } from 'zod';
import { listen } from '../../../runtime/listen';
import type { Desk } from '../desk';
import { createFaults } from '../faults';
import { openSender, RETRY_MS } from '../sender';
import { createPaymentServer } from '../server';
import { createStore } from '../store';
import type { HostedPage, ProviderRequest, ProviderResponse, WireRoute } from '../wire';
import { type Authority, processAuthority, readAuthority } from './authority';
import { code, moneyRoutes, parse } from './routes';
import { problem, toMoney, toUnits } from './shapes';
import { createSigner, rawMember, type Signer, toEvent } from './webhooks';

interface OptionsA {
  client_id?: string;
  client_secret?: string;
  webhook_id?: string;
  /** The address of webhooks; POST /sandbox/webhooks changes it. */
  webhook_url?: string;
  retry_ms?: readonly number[];
  /** The file that keeps orders and events over a restart. */
  file?: string;
  /** Who signs the certificate of webhooks; one of this process by default. */
  authority?: Authority;
}

/** The credentials that the sandbox takes by default; no secret guards play money. */
export const sandboxAccessA = {
  client_id: 'sandbox-client',
  client_secret: 'sandbox-secret',
  webhook_id: 'WH-SANDBOX',
};

/**
 * Payment provider A on this machine: PayPal's wire (Orders v2, Payments v2, Disputes, webhooks and
 * their verification) with a hosted page at /checkoutnow?token=, and `/sandbox/...` for operators
 * and tests (operator.ts, faults.ts). An order that has expired is not found any
 * more, and its capture answers ORDER_EXPIRED.
 */
export function createPaymentServerA(options: OptionsA = {}): Server {
  const access = { ...sandboxAccessA, ...options };
  const store = createStore(options.file);
  const faults = createFaults();
  const baseUrl = () => `http://127.0.0.1:${(server.address() as AddressInfo | null)?.port ?? 0}`;
  const authority = options.authority ? Promise.resolve(options.authority) : processAuthority();
  const signer = createSigner(access.webhook_id, baseUrl, authority);
  const target = { url: options.webhook_url ?? null, retry_ms: options.retry_ms ?? RETRY_MS };
  const sender = openSender({ store, faults, target, sign: signer.sign });
  const desk: Desk = {
    store,
    faults,
    captures_at_once: false,
    refunds_disputed: true,
    newId: (kind) => (kind === 'dispute' ? `PP-D-${randomBytes(3).readUIntBE(0, 3)}` : code()),
    toUnits,
    emit(order, happening) {
      const event = toEvent(order, happening, baseUrl());
      if (event) sender.send(event, order.reference);
    },
  };
  const server = createPaymentServer({
    desk,
    sender,
    routes: [...accountRoutes(access, signer), ...moneyRoutes(desk)],
    page,
    unauthorized: (request) => unauthorized(request, access),
    unknown: () => problem(404, 'RESOURCE_NOT_FOUND', 'The specified resource does not exist.'),
    fault: (status, issue) =>
      issue === undefined
        ? problem(status, 'INTERNAL_SERVER_ERROR', 'An internal server error has occurred.')
        : problem(status, problemNames[status] ?? 'INVALID_REQUEST', 'The request was refused.', [
            { issue, description: 'A script asked for this.' },
          ]),
    key: ({ headers }) => headers['paypal-request-id']?.toString(),
    isKept: (status) => status >= 200 && status < 300,
    repeat: (kept) => ({ ...kept, status: 200 }),
  });
  server.on('listening', sender.resume);
  return server;
}

const problemNames: Readonly<Record<number, string>> = {
  403: 'NOT_AUTHORIZED',
  404: 'RESOURCE_NOT_FOUND',
  422: 'UNPROCESSABLE_ENTITY',
};

const page: HostedPage = {
  name: 'Sandbox payment provider A',
  colour: '#003087',
  orderId: ({ path, query }) => (path === '/checkoutnow' ? (query.get('token') ?? '') : undefined),
  returnUrl: ({ return_url, id, wire }) =>
    withQuery(return_url, { token: id, PayerID: String(wire.payer_id) }),
  cancelUrl: ({ cancel_url, id }) => withQuery(cancel_url, { token: id }),
  amountText(order) {
    const { value, currency_code } = toMoney(order);
    return `${value} ${currency_code}`;
  },
};

function withQuery(url: string, values: Record<string, string>): string {
  const target = new URL(url);
  for (const [name, value] of Object.entries(values)) target.searchParams.set(name, value);
  return target.href;
}

type Access = typeof sandboxAccessA;

const claim = z.looseObject({
  auth_algo: z.string(),
  cert_url: z.string(),
  transmission_id: z.string(),
  transmission_sig: z.string(),
  transmission_time: z.string(),
  webhook_id: z.string(),
  webhook_event: z.looseObject({}),
});

function accountRoutes(access: Access, signer: Signer): WireRoute[] {
  return [
    {
      method: 'POST',
      path: /^\/v1\/oauth2\/token$/,
      point: 'token',
      is_public: true,
      work: (request) => giveToken(request, access),
    },
    {
      method: 'POST',
      path: /^\/v1\/notifications\/verify-webhook-signature$/,
      point: 'verify',
      work(request) {
        const event = rawMember(request.body.toString(), 'webhook_event');
        const is_good = signer.isGood(parse(claim, request), event ?? '');
        return { status: 200, body: { verification_status: is_good ? 'SUCCESS' : 'FAILURE' } };
      },
    },
    {
      method: 'GET',
      path: new RegExp(`^${signer.certificate.path}$`),
      is_public: true,
      work: () => ({
        status: 200,
        body: signer.certificate.pem,
        headers: { 'content-type': 'application/x-pem-file' },
      }),
    },
  ];
}

function giveToken(request: ProviderRequest, access: Access): ProviderResponse {
  const pair = Buffer.from(`${access.client_id}:${access.client_secret}`).toString('base64');
  if (request.headers.authorization !== `Basic ${pair}`)
    return {
      status: 401,
      body: { error: 'invalid_client', error_description: 'Client Authentication failed' },
    };
  if (new URLSearchParams(request.body.toString()).get('grant_type') !== 'client_credentials')
    return {
      status: 400,
      body: { error: 'unsupported_grant_type', error_description: 'Grant Type is NULL' },
    };
  const scope =
    'https://uri.paypal.com/services/payments/payment https://uri.paypal.com/services/disputes/read-seller';
  const access_token = `${tokenStart(access)}${randomBytes(12).toString('hex')}`;
  const nonce = `${new Date().toISOString()}${randomBytes(8).toString('hex')}`;
  return {
    status: 200,
    body: {
      scope,
      access_token,
      token_type: 'Bearer',
      app_id: 'APP-80W284485P519543T',
      expires_in: 32_400,
      nonce,
    },
  };
}

/**
 * Tokens outlive a restart, as the real ones do: their beginning names the client that they were
 * made for.
 */
function tokenStart({ client_id, client_secret }: Access): string {
  return `A21AA${createHash('sha256').update(`${client_id}:${client_secret}`).digest('hex')}`;
}

function unauthorized(request: ProviderRequest, access: Access): ProviderResponse | undefined {
  if (!request.headers.authorization?.startsWith(`Bearer ${tokenStart(access)}`))
    return {
      status: 401,
      body: { error: 'invalid_token', error_description: 'Token signature verification failed' },
    };
  if (request.method === 'GET' || /json/.test(request.headers['content-type'] ?? ''))
    return undefined;
  return problem(
    415,
    'UNSUPPORTED_MEDIA_TYPE',
    'The server does not support the request payload media type.',
  );
}

/** Starts it as its environment says. */
export async function startPaymentServerA(env: NodeJS.ProcessEnv): Promise<void> {
  const server = createPaymentServerA({
    ...(env.SANDBOX_PAYMENT_A_CLIENT_ID && { client_id: env.SANDBOX_PAYMENT_A_CLIENT_ID }),
    ...(env.SANDBOX_PAYMENT_A_CLIENT_SECRET && {
      client_secret: env.SANDBOX_PAYMENT_A_CLIENT_SECRET,
    }),
    ...(env.SANDBOX_PAYMENT_A_WEBHOOK_ID && { webhook_id: env.SANDBOX_PAYMENT_A_WEBHOOK_ID }),
    ...(env.SANDBOX_PAYMENT_A_WEBHOOK_URL && { webhook_url: env.SANDBOX_PAYMENT_A_WEBHOOK_URL }),
    ...(env.SANDBOX_PAYMENT_A_FILE && { file: env.SANDBOX_PAYMENT_A_FILE }),
    ...(env.SANDBOX_PAYMENT_A_AUTHORITY && {
      authority: readAuthority(env.SANDBOX_PAYMENT_A_AUTHORITY),
    }),
  });
  const given = Number(env.SANDBOX_PAYMENT_A_PORT ?? 8091);
  // Anybody who reaches it may pay and refund, so that only this machine may ask.
  const port = await listen(server, given, { host: '127.0.0.1', name: 'SANDBOX_PAYMENT_A' });
  process.stdout.write(`sandbox payment provider A on http://127.0.0.1:${port}\n`);
}

/** Run as a program. */
export const main = () => startPaymentServerA(process.env);
