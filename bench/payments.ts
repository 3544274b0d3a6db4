import { randomBytes, randomUUID } from 'node:crypto';
import { Client, Connection, WithStartWorkflowOperation } from '@temporalio/client';
import { Pool } from 'undici';
import { putConfig } from '../domain/payments/config';
import { putOrgSettings } from '../domain/payments/settings';
import * as organizations from '../domain/people/organizations';
import { createSecrets } from '../domain/secrets';
import { openDatabase } from '../runtime/database';
import { sandboxAccessB } from '../sandbox/payments/b/provider';
import { freePorts } from '../sandbox/processes/ports';
import { NAMESPACE } from '../sandbox/servers/temporal';
import { makeKey } from '../test/support/keys';
import type { BenchCluster } from './cluster';
import { median } from './load';
import { end, startScript, waitFor } from './programs';
import type { Row } from './row';
import { startTemporal } from './temporal';

const IN_FLIGHT = 8;
const SECONDS = 5;
const ROUNDS = 2;
const CREATES = 60;

interface Shop {
  temporal_address: string;
  /** Asks the API, as a buyer of one of the organizations. */
  ask: (path: string, body: object, buyer: number) => Promise<Record<string, string>>;
  /** Calls the provider itself. */
  provider: (path: string, body: string, headers?: Record<string, string>) => Promise<string>;
  stop: () => Promise<void>;
}

/**
 * The cost of a top-up: whole sessions against a bare workflow on the same server, and the time
 * added to the provider's.
 */
export async function paymentRows(cluster: BenchCluster): Promise<Row[]> {
  const shop = await openShop(cluster);
  try {
    return [await sessionsRow(shop), await createRow(shop)];
  } finally {
    await shop.stop();
  }
}

/**
 * Beside a workflow with the same two updates, each of which runs one activity that does nothing:
 * what no workflow that acts can be without. The same without activities is shown.
 */
async function sessionsRow(shop: Shop): Promise<Row> {
  const client = await bareClient(shop);
  const kinds = {
    whole: (lane: number) => wholeSession(shop, lane),
    bare: () => bareSession(client, true),
    idle: () => bareSession(client, false),
  };
  const rates: Record<string, number[]> = {};
  for (const run of Object.values(kinds)) await rate(run, 1);
  for (let round = 0; round < ROUNDS; round += 1)
    for (const [kind, run] of Object.entries(kinds))
      rates[kind] = [...(rates[kind] ?? []), await rate(run, SECONDS)];
  await client.connection.close();
  const {
    whole = 0,
    bare = 0,
    idle = 0,
  } = Object.fromEntries(Object.entries(rates).map(([kind, all]) => [kind, median(all)]));
  return {
    measure: `whole top-ups a second, of a bare workflow with two updates, ${IN_FLIGHT} in flight`,
    figure: `${whole.toFixed(1)} of ${bare.toFixed(1)} (${idle.toFixed(1)} where the updates run no activity)`,
    ratio: whole / bare,
    bar: 'at least 0.6',
    isMet: whole / bare >= 0.6,
  };
}

/** One at a time, a few by each buyer: create-checkout, beside the call to the provider. */
async function createRow(shop: Shop): Promise<Row> {
  const ours: number[] = [];
  const theirs: number[] = [];
  for (let count = 0; count < CREATES; count += 1) {
    const started_at = performance.now();
    await shop.ask('create-checkout', wish, count % IN_FLIGHT);
    const between = performance.now();
    await shop.provider('/v1/checkout/sessions', providerCheckout(), {
      authorization: `Bearer ${sandboxAccessB.secret_key}`,
    });
    ours.push(between - started_at);
    theirs.push(performance.now() - between);
  }
  const added = median(ours) - median(theirs);
  return {
    measure: "create-checkout, added to the provider's own time, one at a time",
    figure: `p50 ${added.toFixed(1)} ms added to ${median(theirs).toFixed(1)} ms`,
    isMet: true,
  };
}

const pages = { return_url: 'http://127.0.0.1:3000/return', cancel_url: 'http://127.0.0.1:3000/' };
const wish = { amount: 50, target_wallet_owner_type: 'organization', surface: 'console', ...pages };

function providerCheckout(): string {
  return new URLSearchParams({
    mode: 'payment',
    'line_items[0][price_data][currency]': 'usd',
    'line_items[0][price_data][unit_amount]': '5000',
    'line_items[0][price_data][product_data][name]': 'Top-up',
    'line_items[0][quantity]': '1',
    success_url: pages.return_url,
    cancel_url: pages.cancel_url,
  }).toString();
}

async function wholeSession({ ask, provider }: Shop, buyer: number): Promise<void> {
  const made = await ask('create-checkout', wish, buyer);
  const order = new URL(made.approval_url as string).pathname.split('/').at(-1) as string;
  await provider(`/sandbox/orders/${order}/pay`, '{}', { 'content-type': 'application/json' });
  const { payment_session_id, provider: name, checkout_state } = made;
  const body = {
    payment_session_id,
    provider: name,
    checkout_state,
    provider_session_token: order,
  };
  const answer = await ask('confirm-checkout', body, buyer);
  if (answer.status !== 'completed') throw new Error(`A top-up ended ${answer.status}.`);
}

async function bareClient({ temporal_address: address }: Shop): Promise<Client> {
  const connection = await Connection.connect({ address });
  return new Client({ connection, namespace: NAMESPACE });
}

async function bareSession(client: Client, hasActivities: boolean): Promise<void> {
  const workflowId = `bare-${randomUUID()}`;
  const startWorkflowOperation = new WithStartWorkflowOperation('bare', {
    workflowId,
    taskQueue: 'bare',
    args: [{ hasActivities }],
    workflowIdConflictPolicy: 'USE_EXISTING',
  });
  await client.workflow.executeUpdateWithStart('first', { startWorkflowOperation });
  await client.workflow.getHandle(workflowId).executeUpdate('second');
}

/** The rate a second, with so many in flight. */
async function rate(run: (lane: number) => Promise<void>, seconds: number): Promise<number> {
  const started_at = performance.now();
  let done = 0;
  const lane = async (_: unknown, number: number) => {
    while (performance.now() - started_at < seconds * 1_000) {
      await run(number);
      done += 1;
    }
  };
  await Promise.all(Array.from({ length: IN_FLIGHT }, lane));
  return done / ((performance.now() - started_at) / 1_000);
}

async function openShop(cluster: BenchCluster): Promise<Shop> {
  const database_url = await cluster.database(`bench_payments_${Date.now()}`);
  const [api = 0, provider = 0] = await freePorts(2);
  const temporal = await startTemporal();
  const temporal_address = temporal.address;
  const SVC_SECRETS_KEY = randomBytes(32).toString('base64');
  const url = (port: number) => `http://127.0.0.1:${port}`;
  const keys = await seed(database_url, SVC_SECRETS_KEY, url(provider));
  const env = {
    DATABASE_URL: database_url,
    TEMPORAL_ADDRESS: temporal_address,
    SVC_SECRETS_KEY,
    PAYMENT_HOSTS: '127.0.0.1',
    API_PORT: String(api),
    SANDBOX_PAYMENT_B_PORT: String(provider),
    LOG_LEVEL: 'error',
  };
  const scripts = [
    'sandbox/payments/b/provider.ts',
    'api/main.ts',
    'workers/lifecycle.ts',
    'bench/processes/bare-worker.ts',
  ];
  const children = scripts.map((script) => startScript(script, env));
  await waitFor(`${url(provider)}/sandbox/orders`, true);
  await waitFor(`${url(api)}/readyz`, true);
  await temporal.workersFor(['payments', 'bare'], children);
  const pools = { api: new Pool(url(api)), provider: new Pool(url(provider)) };
  const send = async (pool: Pool, at: string, body: string, headers: Record<string, string>) => {
    const answer = await pool.request({ path: at, method: 'POST', body, headers });
    const text = await answer.body.text();
    if (answer.statusCode >= 300) throw new Error(`${at} answered ${answer.statusCode}: ${text}`);
    return text;
  };
  const json = (buyer: number) => ({
    'content-type': 'application/json',
    authorization: `Bearer ${keys[buyer]}`,
  });
  const form = { 'content-type': 'application/x-www-form-urlencoded' };
  return {
    temporal_address,
    ask: async (at, body, buyer) =>
      JSON.parse(await send(pools.api, `/v1/payments/${at}`, JSON.stringify(body), json(buyer))),
    provider: (at, body, headers = {}) => send(pools.provider, at, body, { ...form, ...headers }),
    async stop() {
      for (const pool of Object.values(pools)) await pool.close();
      for (const child of children.reverse()) await end(child);
      await temporal.stop();
    },
  };
}

/**
 * A buyer of an organization of its own for each that is in flight, and the provider at its
 * address.
 */
async function seed(url: string, secrets_key: string, base_url: string): Promise<string[]> {
  const db = openDatabase(url, 2);
  const { webhook_secret, ...credentials } = sandboxAccessB;
  await putConfig(db, createSecrets(secrets_key), {
    payment_provider_b: { enabled: true, base_url, credentials, webhook_secret },
    active_provider: 'payment_provider_b',
  });
  const keys: string[] = [];
  for (let buyer = 0; buyer < IN_FLIGHT; buyer += 1) {
    const { id: org_id } = await organizations.create(db, {
      name: `Bench ${buyer}`,
      currency: 'USD',
    });
    await putOrgSettings(db, org_id, { return_origins: ['http://127.0.0.1:3000'] });
    keys.push(await makeKey(db, org_id, { scopes: ['org:billing'] }));
  }
  await db.destroy();
  return keys;
}
