import { randomUUID } from 'node:crypto';
import type { Server } from 'node:http';
import { request } from 'undici';
import { audit } from '../../../domain/ledger/audit';
import { putConfig } from '../../../domain/payments/config';
import type { ProviderName } from '../../../domain/payments/currencies';
import { putOrgSettings } from '../../../domain/payments/settings';
import { type Db, one } from '../../../domain/sql';
import { listen } from '../../../runtime/listen';
import { createPaymentServerA, sandboxAccessA } from '../../../sandbox/payments/a/provider';
import { createPaymentServerB, sandboxAccessB } from '../../../sandbox/payments/b/provider';
import { type Answer, type CallApi, makeTenant, secrets, serve, type Tenant } from '../api';
import { openTestDatabase } from '../database';
import { platformKey } from '../keys';
import { isBusy, repeated } from '../until';
import { keepSending, openWorker, type TestWorker } from '../worker';

export const return_url = 'http://127.0.0.1:3000/return';
const cancel_url = 'http://127.0.0.1:3000/cancel';

/** A payment provider's sandbox, as its operator and its buyers use it. */
export interface Sandbox {
  url: string;
  server: Server;
  /** An act of a person at the provider: pay, decline, expire, refund, open-dispute, resend... */
  act(order: string, action: string, body?: object): Promise<Answer>;
  /** A script of misbehaviour (sandbox/payments/faults.ts). */
  fault(script: object): Promise<void>;
  /** Forgets the scripts of an order. */
  forget(order: string): Promise<void>;
  // biome-ignore lint/suspicious/noExplicitAny: the sandbox's own view of an order.
  order(order: string): Promise<any>;
}

export interface PaymentWorld extends TestWorker {
  db: Db;
  database_url: string;
  api_url: string;
  call: CallApi;
  admin: string;
  sandboxes: Record<ProviderName, Sandbox>;
  /** Chooses the provider of new sessions. */
  use: (provider: ProviderName) => Promise<void>;
  close: () => Promise<void>;
}

/**
 * An API, a worker, an outbox that is sent, and both providers, whose webhooks reach the API.
 * Closing proves the ledger.
 */
export async function openPaymentWorld(): Promise<PaymentWorld> {
  const { db, url: database_url, close: dropDatabase } = await openTestDatabase(20);
  const worker = await openWorker(db);
  const api = await serve({ db, temporal: worker.temporal });
  const sandboxes = await openSandboxes(db, api.url);
  const stopSending = keepSending(worker);
  const close = async () => {
    for (const { server } of Object.values(sandboxes)) {
      server.closeAllConnections();
      server.close();
    }
    await stopSending();
    await api.close();
    await worker.close();
    const { broken } = await audit(db);
    await dropDatabase();
    expect(broken).toEqual([]);
  };
  const use = async (active_provider: ProviderName) => {
    await putConfig(db, secrets, { active_provider });
  };
  const served = { api_url: api.url, call: api.call, admin: await platformKey(db) };
  return { ...worker, db, database_url, ...served, sandboxes, use, close };
}

/**
 * Both providers, which the platform's config names, with their webhooks on their way to the API.
 */
export async function openSandboxes(
  db: Db,
  api_url: string,
): Promise<Record<ProviderName, Sandbox>> {
  const sandboxes = {
    payment_provider_a: await open(createPaymentServerA({ ...hook(api_url, 'a') })),
    payment_provider_b: await open(createPaymentServerB({ ...hook(api_url, 'b') })),
  };
  await configure(db, sandboxes);
  return sandboxes;
}

function hook(api_url: string, provider: 'a' | 'b') {
  const webhook_url = `${api_url}/v1/payments/webhooks/payment_provider_${provider}`;
  return { webhook_url, retry_ms: [50, 100, 200, 500, 1_000] };
}

async function open(server: Server): Promise<Sandbox> {
  const url = `http://127.0.0.1:${await listen(server, 0)}`;
  const ask = async (
    method: 'GET' | 'POST' | 'DELETE',
    path: string,
    body?: object,
  ): Promise<Answer> => {
    const answer = await request(`${url}${path}`, {
      method,
      headers: { 'content-type': 'application/json' },
      body: body === undefined ? null : JSON.stringify(body),
    });
    const text = await answer.body.text();
    const { headers, statusCode: status } = answer;
    return { status, headers, text, body: JSON.parse(text) };
  };
  return {
    url,
    server,
    act: (order, action, body = {}) => ask('POST', `/sandbox/orders/${order}/${action}`, body),
    fault: async (script) => {
      expect((await ask('POST', '/sandbox/faults', script)).status).toBe(200);
    },
    forget: async (order) => {
      await ask('DELETE', `/sandbox/faults?order=${order}`);
    },
    order: async (order) => (await ask('GET', `/sandbox/orders/${order}`)).body.order,
  };
}

async function configure(db: Db, sandboxes: Record<ProviderName, Sandbox>): Promise<void> {
  const { webhook_secret, ...credentialsB } = sandboxAccessB;
  await putConfig(db, secrets, {
    payment_provider_a: {
      enabled: true,
      base_url: sandboxes.payment_provider_a.url,
      credentials: {
        client_id: sandboxAccessA.client_id,
        client_secret: sandboxAccessA.client_secret,
      },
      webhook_secret: sandboxAccessA.webhook_id,
    },
    payment_provider_b: {
      enabled: true,
      base_url: sandboxes.payment_provider_b.url,
      credentials: credentialsB,
      webhook_secret,
    },
    active_provider: 'payment_provider_a',
  });
}

/** A tenant whose buyers may come back to port 3000. */
export async function makeBuyer(db: Db, currency = 'USD'): Promise<Tenant> {
  const tenant = await makeTenant(db, currency);
  await putOrgSettings(db, tenant.org_id, { return_origins: ['http://127.0.0.1:3000'] });
  return tenant;
}

export interface Checkout {
  payment_session_id: string;
  provider: ProviderName;
  approval_url: string;
  checkout_state: string;
  provider_session_token: string;
}

export const wish = {
  amount: 50,
  target_wallet_owner_type: 'organization',
  surface: 'console',
  return_url,
  cancel_url,
};

/** A checkout of 50 by default for the organization, as its member makes it. */
export async function createCheckout(
  { call, db }: Pick<PaymentWorld, 'call' | 'db'>,
  { member_key }: Pick<Tenant, 'member_key'>,
  more: object = {},
): Promise<Checkout> {
  const asked = {
    key: member_key,
    body: { ...wish, ...more },
    headers: { 'idempotency-key': randomUUID() },
  };
  const ask = () => call('post', '/v1/payments/create-checkout', asked);
  const answer = await repeated(ask);
  expect([answer.status, answer.body]).toEqual([201, expect.anything()]);
  const { provider_order_id } = await one<{ provider_order_id: string }>(
    db,
    'select provider_order_id from payment_sessions where id = :id',
    { id: answer.body.payment_session_id },
  );
  return { ...answer.body, provider_session_token: provider_order_id };
}

/** The buyer's click on Pay; answers the address that the provider sends them to. */
export async function pay(checkout: Pick<Checkout, 'approval_url'>): Promise<string> {
  const page = await (await request(checkout.approval_url)).body.text();
  const form = /<form[^>]*method="post"[^>]*>/i.exec(page)?.[0] ?? '';
  const action = /action="([^"]*)"/.exec(form)?.[1] ?? '';
  const to = new URL(action.replaceAll('&amp;', '&'), checkout.approval_url);
  const answer = await request(to, { method: 'POST' });
  await answer.body.dump();
  expect(answer.statusCode).toBe(303);
  return String(answer.headers.location);
}

/** One confirm of a checkout: 503 if Temporal is away or too late. */
export function confirmOnce(
  { call }: Pick<PaymentWorld, 'call'>,
  { member_key }: Pick<Tenant, 'member_key'>,
  checkout: Checkout,
  more: object = {},
): Promise<Answer> {
  const { payment_session_id, provider, checkout_state, provider_session_token } = checkout;
  const body = { payment_session_id, provider, checkout_state, provider_session_token, ...more };
  return call('post', '/v1/payments/confirm-checkout', { key: member_key, body });
}

/** Confirms a checkout as its page does: again while a busy machine is too late. */
export async function confirm(
  world: Pick<PaymentWorld, 'call' | 'db'>,
  tenant: Pick<Tenant, 'member_key'>,
  checkout: Checkout,
  more: object = {},
): Promise<Answer> {
  const answer = await confirmOnce(world, tenant, checkout, more);
  return isBusy(answer) ? confirmAnew(world, tenant, checkout, more) : answer;
}

/** Confirms two seconds after whoever did before: a look of its own. */
export function confirmAnew(...asked: Parameters<typeof confirm>): Promise<Answer> {
  const [{ db }, , { payment_session_id: id }] = asked;
  return repeated(async () => {
    await db('payment_sessions')
      .where({ id })
      .whereNotNull('asked_at')
      .update({ asked_at: db.raw("asked_at - interval '2 seconds'") });
    return confirmOnce(...asked);
  });
}

/** Confirms, and expects a status. */
export async function confirmedAs(
  status: string,
  ...asked: Parameters<typeof confirm>
): Promise<void> {
  const answer = await confirm(...asked);
  expect([answer.status, answer.body.status]).toEqual([200, status]);
}

/** A session as its buyer sees it. */
export async function sessionOf(
  { call }: Pick<PaymentWorld, 'call'>,
  { member_key }: Pick<Tenant, 'member_key'>,
  { payment_session_id }: Pick<Checkout, 'payment_session_id'>,
) {
  return (await call('get', `/v1/payments/sessions/${payment_session_id}`, { key: member_key }))
    .body;
}
