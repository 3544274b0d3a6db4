import { createServer } from 'node:http';
import { request } from 'undici';
import { blankPrice } from '../../domain/ledger/pricing';
import type * as tokens from '../../domain/people/tokens';
import { many, one } from '../../domain/sql';
import { createApp } from '../../gateway/app';
import type { Gateway } from '../../gateway/call/call';
import { parseSettings } from '../../gateway/config/settings';
import type { Configuration } from '../../gateway/configuration';
import { openControlPlane } from '../../gateway/control-plane/client';
import { closeGateway, drain, openGateway } from '../../gateway/gateway';
import { attachSockets, type Sockets } from '../../gateway/sockets/upgrade';
import { listen } from '../../runtime/listen';
import { createLog, type Logger } from '../../runtime/log';
import { createModelServer } from '../../sandbox/models/server';
import { startApi, type TestApi } from './api';
import { batchesOf, type Patience, waitLonger } from './gateway/patience';
import { gatewayToken, makeKey } from './keys';
import { credit, makeOrg, makePrice, type TestOrg } from './ledger';
import { until } from './until';

export interface TestGateway {
  url: string;
  gateway: Gateway;
  sockets: Sockets;
  /** For tests that change it while the gateway runs. */
  configuration?: Configuration;
  /** Which answers of its control plane it waits for although they are late: `always` at first. */
  patience: Patience;
  /** Finishes the calls under way, then closes. */
  close: () => Promise<void>;
}

/**
 * Everything that a priced request passes: a real control plane, a gateway, the sandbox's models.
 */
export interface World {
  api: TestApi;
  url: string;
  models_url: string;
  control_plane_token: string;
  org: TestOrg;
  key: string;
  /** Another gateway over the same control plane, or other addresses of it. */
  openGateway: (more?: {
    api_urls?: readonly string[];
    settings?: object;
    target?: object;
    log?: Logger;
  }) => Promise<TestGateway>;
  /** Fails if a hold is left open or the ledger is not whole. */
  close: () => Promise<void>;
}

// The list prices of the sandbox's models, as the demo seeds them.
const prices: { provider?: string; model: string; [column: string]: unknown }[] = [
  {
    model: 'gpt-4o-mini',
    input_per_1m: 0.15,
    cached_input_per_1m: 0.075,
    output_per_1m: 0.6,
    per_web_search: 0.01,
  },
  { model: 'gpt-4o', input_per_1m: 2.5, output_per_1m: 10 },
  { model: 'o4-mini', input_per_1m: 1.1, output_per_1m: 4.4, reasoning: true },
  { model: 'text-embedding-3-small', input_per_1m: 0.02, output_per_1m: 0 },
  { model: 'omni-moderation-latest', free: true },
  { model: 'whisper-1', input_per_1m: 0, output_per_1m: 0, per_minute: 0.006 },
  {
    model: 'gpt-4o-mini-transcribe',
    input_per_1m: 1.25,
    output_per_1m: 5,
    audio_input_per_1m: 3,
  },
  {
    model: 'gpt-4o-mini-tts',
    input_per_1m: 0.6,
    output_per_1m: 0,
    audio_output_per_1m: 12,
    per_minute: 0.015,
  },
  {
    provider: 'anthropic',
    model: 'claude-sonnet-4-5',
    input_per_1m: 3,
    output_per_1m: 15,
    cached_input_per_1m: 0.3,
    cache_write_per_1m: 3.75,
    cache_write_1h_per_1m: 6,
    per_tool_call: 0.01,
  },
];

export async function openWorld(): Promise<World> {
  process.env.TEST_MODELS_KEY = 'upstream-secret';
  const api = await startApi();
  const upstream = createModelServer();
  const models_url = `http://127.0.0.1:${await listen(upstream, 0)}`;
  for (const price of prices) await makePrice(api.db, { ...blankPrice, tiers: null, ...price });
  const control_plane_token = await gatewayToken(api.db);
  const org = await makeOrg(api.db);
  await credit(api.db, org.org_id, org.org_wallet, 100_000_000_000n);
  const opened: TestGateway[] = [];
  const open: World['openGateway'] = async ({
    api_urls = [api.url],
    settings = {},
    target = {},
    log,
  } = {}) => {
    const addresses = { api_urls, models_url, control_plane_token };
    const made = await openTestGateway({ ...addresses, settings, target, log });
    opened.push(made);
    return made;
  };
  const { url } = await open();
  const close = async () => {
    for (const one_gateway of opened) await one_gateway.close();
    await until(async () => (await openHolds(api)) === 0);
    upstream.closeAllConnections();
    await new Promise((resolve) => upstream.close(resolve));
    await api.close();
  };
  const key = await gatewayKey(api, org.org_id);
  return { api, url, models_url, control_plane_token, org, key, openGateway: open, close };
}

export function gatewayKey(
  api: TestApi,
  org_id: string,
  more: Partial<tokens.NewToken> = {},
): Promise<string> {
  return makeKey(api.db, org_id, { token_type: 'gateway', ...more });
}

export async function openTestGateway(given: {
  api_urls: readonly string[];
  models_url: string;
  control_plane_token: string;
  settings: object;
  target: object;
  log?: Logger | undefined;
}): Promise<TestGateway> {
  const target = {
    id: 'sandbox',
    provider: 'openai',
    shape: 'openai',
    base_url: `${given.models_url}/v1`,
    api_key_env: 'TEST_MODELS_KEY',
    models: [...prices.filter(({ provider }) => !provider).map(({ model }) => model), 'unpriced'],
    ...given.target,
  };
  const messages = {
    id: 'sandbox-messages',
    provider: 'anthropic',
    shape: 'anthropic',
    base_url: given.models_url,
    api_key_env: 'TEST_MODELS_KEY',
    models: ['claude-sonnet-4-5', 'unpriced-claude'],
  };
  const settings = parseSettings(
    // Only the tests of holding wait for money.
    JSON.stringify({
      cost_tickets: { hold_ms: 0 },
      // Faults are asked for one after the other; only the tests of routing mean them as one.
      circuit_breaker: { enabled: false },
      providers: { targets: [target, messages] },
      ...given.settings,
    }),
  );
  const { log = createLog('test', 'silent') } = given;
  const control_plane = openControlPlane(
    { urls: given.api_urls, token: given.control_plane_token },
    log,
  );
  const batches = batchesOf(control_plane);
  const gateway = await openGateway({ settings, control_plane, log });
  // A busy machine may take longer than callers are made to wait.
  gateway.cost_wait_ms = 60_000;
  const reload = async () => (made.configuration as Configuration).reload();
  const server = createServer(createApp(gateway, { reload }).callback());
  const sockets = attachSockets(server, gateway);
  const url = `http://127.0.0.1:${await listen(server, 0)}`;
  let is_closed = false;
  const close = async () => {
    if (is_closed) return;
    is_closed = true;
    await drain(gateway, sockets);
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
    await closeGateway(gateway);
  };
  const made: TestGateway = { url, gateway, sockets, patience: 'always', close };
  waitLonger(batches, () => made.patience);
  return made;
}

interface Charge {
  status: string;
  held_nanos: bigint;
  actual_cost_nanos: bigint;
  usage: Record<string, number>;
  usage_source: string | null;
  outcome: string;
}

/** The newest reservation of an organization, once it is closed. */
export async function lastCharge({ api }: World, org_id: string): Promise<Charge> {
  await until(async () => (await openHolds(api, org_id)) === 0);
  return one<Charge>(
    api.db,
    `select status, held_nanos, actual_cost_nanos, usage, usage_source, outcome from reservations
     where org_id = :org_id and status <> 'canceled' order by created_at desc, id desc limit 1`,
    { org_id },
  );
}

/** The open holds of an organization, or of all. */
export async function openHolds(
  { db }: Pick<TestApi, 'db'>,
  org_id: string | null = null,
): Promise<number> {
  const rows = await many(
    db,
    `select id from reservations where status = 'open' and (:org_id::text is null or org_id = :org_id)`,
    { org_id },
  );
  return rows.length;
}

interface Entry {
  type: string;
  amount_nanos: bigint;
}

/** The entries of an organization's newest reservation, in the order of its wallet. */
export async function lastEntries({ api }: World, org_id: string): Promise<Entry[]> {
  return many<Entry>(
    api.db,
    `select e.type, e.amount_nanos from wallet_transactions e
     where e.reservation_id = (select id from reservations where org_id = :org_id and status <> 'canceled'
       order by created_at desc, id desc limit 1)
     order by e.seq`,
    { org_id },
  );
}

/** The requests that arrived at the sandbox's models since they were last forgotten. */
export async function arrivals(models_url: string): Promise<
  {
    path: string;
    headers: Record<string, string>;
    body: Record<string, unknown>;
    closed_early: boolean;
    finished: boolean;
  }[]
> {
  const answer = await request(`${models_url}/sandbox/requests`);
  const body = (await answer.body.json()) as { requests: never } | never[];
  return Array.isArray(body) ? body : body.requests;
}

export async function forgetArrivals(models_url: string): Promise<void> {
  await (await request(`${models_url}/sandbox/requests`, { method: 'DELETE' })).body.dump();
}

/** One chat call by hand: its whole answer as text. */
export async function post(
  url: string,
  key: string | undefined,
  body: object | string,
  headers: Record<string, string> = {},
) {
  const answer = await request(url, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      ...(key ? { authorization: `Bearer ${key}` } : {}),
      ...headers,
    },
    body: typeof body === 'string' ? body : JSON.stringify(body),
  });
  const bytes = Buffer.from(await answer.body.arrayBuffer());
  return {
    status: answer.statusCode,
    headers: answer.headers,
    bytes,
    text: bytes.toString('utf8'),
  };
}

export function message(content: string, more: object = {}) {
  const messages = [{ role: 'user', content }];
  return { model: 'claude-sonnet-4-5', max_tokens: 64, messages, ...more };
}

export function chat(content: string, more: object = {}) {
  return { model: 'gpt-4o-mini', max_tokens: 64, messages: [{ role: 'user', content }], ...more };
}
