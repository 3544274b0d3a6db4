import { randomBytes } from 'node:crypto';
import { Pool } from 'undici';
import { putConfig } from '../../domain/payments/config';
import { putOrgSettings } from '../../domain/payments/settings';
import * as organizations from '../../domain/people/organizations';
import { createSecrets } from '../../domain/secrets';
import { openDatabase } from '../../runtime/database';
import { sandboxAccessB } from '../../sandbox/payments/b/provider';
import { freePorts } from '../../sandbox/processes/ports';
import { makeKey } from '../../test/support/keys';
import type { BenchCluster } from '../cluster';
import { end, startScript, waitFor } from '../programs';
import { startTemporal } from '../temporal';

/** An organization, and a key of somebody who may buy for it. */
export interface Buyer {
  org_id: string;
  key: string;
}

export interface Shop {
  temporal_address: string;
  database_url: string;
  api_url: string;
  buyers: Buyer[];
  /** Asks the API, as a buyer of one of the organizations. */
  ask: (path: string, body: object, buyer: number) => Promise<Record<string, string>>;
  /** Calls the provider itself. */
  provider: (path: string, body: string, headers?: Record<string, string>) => Promise<string>;
  stop: () => Promise<void>;
}

export const pages = {
  return_url: 'http://127.0.0.1:3000/return',
  cancel_url: 'http://127.0.0.1:3000/',
};
/** What a buyer asks for. */
export const wish = {
  amount: 50,
  target_wallet_owner_type: 'organization',
  surface: 'console',
  ...pages,
};

/** An API, the workers and a payment provider as processes of their own, and people who buy. */
export async function openShop(
  cluster: BenchCluster,
  { buyers, env: more = {} }: { buyers: number; env?: Record<string, string> },
): Promise<Shop> {
  const database_url = await cluster.database(`bench_payments_${Date.now()}`);
  const [api = 0, provider = 0] = await freePorts(2);
  const temporal = await startTemporal();
  const temporal_address = temporal.address;
  const SVC_SECRETS_KEY = randomBytes(32).toString('base64');
  const url = (port: number) => `http://127.0.0.1:${port}`;
  const seeded = await seed({
    url: database_url,
    secrets_key: SVC_SECRETS_KEY,
    base_url: url(provider),
    buyers,
  });
  const env = {
    DATABASE_URL: database_url,
    TEMPORAL_ADDRESS: temporal_address,
    SVC_SECRETS_KEY,
    PAYMENT_HOSTS: '127.0.0.1',
    API_PORT: String(api),
    SANDBOX_PAYMENT_B_PORT: String(provider),
    LOG_LEVEL: 'error',
    ...more,
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
    authorization: `Bearer ${seeded[buyer]?.key}`,
  });
  const form = { 'content-type': 'application/x-www-form-urlencoded' };
  return {
    temporal_address,
    database_url,
    api_url: url(api),
    buyers: seeded,
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
async function seed({
  url,
  secrets_key,
  base_url,
  buyers,
}: {
  url: string;
  secrets_key: string;
  base_url: string;
  buyers: number;
}): Promise<Buyer[]> {
  const db = openDatabase(url, 2);
  const { webhook_secret, ...credentials } = sandboxAccessB;
  await putConfig(db, createSecrets(secrets_key), {
    payment_provider_b: { enabled: true, base_url, credentials, webhook_secret },
    active_provider: 'payment_provider_b',
  });
  const made: Buyer[] = [];
  for (let buyer = 0; buyer < buyers; buyer += 1) {
    const { id: org_id } = await organizations.create(db, {
      name: `Bench ${buyer}`,
      currency: 'USD',
    });
    await putOrgSettings(db, org_id, { return_origins: ['http://127.0.0.1:3000'] });
    made.push({ org_id, key: await makeKey(db, org_id, { scopes: ['org:billing'] }) });
  }
  await db.destroy();
  return made;
}
