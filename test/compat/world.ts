import { execFileSync } from 'node:child_process';
import { randomBytes, randomUUID } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { Client, Connection } from '@temporalio/client';
import { stringify } from 'yaml';
import { audit } from '../../domain/ledger/audit';
import { many } from '../../domain/sql';
import { openDatabase } from '../../runtime/database';
import { freePorts } from '../../sandbox/processes/ports';
import { launch, type Process } from '../../sandbox/processes/processes';
import { isOk } from '../../sandbox/product/node-programs';
import { maintenanceUrl } from '../../sandbox/servers/database';
import { useTemporal } from '../../sandbox/servers/temporal';
import { scratchRoot } from '../support/scratch';
import { current, type Release } from './releases';

const STOP_MS = 60_000;
const READY_MS = 180_000;
const address = process.env.TEST_TEMPORAL_ADDRESS as string;

/** A process of one release, with what it has written. */
interface Running extends Process {
  lines: string[];
}

/** One that listens. */
export interface Part extends Running {
  url: string;
  port: number;
}

export type CompatWorld = Awaited<ReturnType<typeof openCompatWorld>>;

/**
 * An empty database, a namespace of Temporal, and a model provider; in them processes of any
 * release are started. Closing stops all of them and proves the ledger.
 */
export async function openCompatWorld() {
  const folder = mkdtempSync(path.join(scratchRoot(), 'svc-compat-'));
  const namespace = `compat-${randomUUID()}`;
  const template = process.env.TEST_DATABASE_URL as string;
  const database = `compat_${randomUUID().replaceAll('-', '')}`;
  const database_url = Object.assign(new URL(template), { pathname: `/${database}` }).toString();
  const admin = openDatabase(maintenanceUrl(template), 1);
  await many(admin, `create database ${database}`);
  const db = openDatabase(database_url, 4, 'test');
  await useTemporal({ address }, namespace);
  const connection = await Connection.connect({ address });
  const parts: Process[] = [];
  // A bundle of workflows is kept under its hash, and one of another release makes room for it.
  const of = ({ version }: Release) => ({ XDG_CACHE_HOME: path.join(folder, version) });
  const control_plane = {
    DATABASE_URL: database_url,
    SVC_SECRETS_KEY: randomBytes(32).toString('base64'),
    TEMPORAL_ADDRESS: address,
    TEMPORAL_NAMESPACE: namespace,
  };

  async function start(
    release: Release,
    script: string,
    env: Record<string, string>,
    ready: { url: string; path?: string } | { line: string },
  ): Promise<Running> {
    let has_said = false;
    const lines: string[] = [];
    const program = {
      name: `${script} ${release.version}`,
      command: process.execPath,
      args: ['run.cjs', script],
      cwd: release.folder,
      env: { ...process.env, ...of(release), LOG_LEVEL: 'info', ...env },
      stop_signals: ['SIGTERM', 'SIGKILL'] as const,
      isReady: async () =>
        'url' in ready ? isOk(`${ready.url}${ready.path ?? '/readyz'}`) : has_said,
      ready_timeout_ms: READY_MS,
    };
    const onLine = (line: string) => {
      lines.push(line);
      if ('line' in ready && line.includes(ready.line)) has_said = true;
    };
    const part = { ...(await launch(program, { onLine })), lines };
    parts.push(part);
    return part;
  }
  const at = async (port?: number) => {
    const chosen = port ?? ((await freePorts(1))[0] as number);
    return { port: chosen, url: `http://127.0.0.1:${chosen}` };
  };

  const models = await at();
  const env = { SANDBOX_MODELS_PORT: String(models.port) };
  await start(current, 'sandbox/models/server.ts', env, { ...models, path: '/sandbox/requests' });
  const config = path.join(folder, 'gateway.yaml');
  const target = {
    id: 'sandbox',
    provider: 'openai',
    shape: 'openai',
    base_url: `${models.url}/v1`,
    api_key_env: 'MODELS_KEY',
    models: ['gpt-4o-mini'],
  };
  /** What every gateway begins with. */
  const settings = { providers: { targets: [target] } };
  writeFileSync(config, stringify(settings));

  /** An API; the first on a database migrates it. */
  const openApi = async (release: Release, port?: number): Promise<Part> => {
    const place = await at(port);
    const variables = { ...control_plane, API_PORT: String(place.port) };
    return { ...(await start(release, 'api/main.ts', variables, place)), ...place };
  };
  const openGateway = async (
    release: Release,
    { apis, key, port }: { apis: readonly Part[]; key: string; port?: number },
  ): Promise<Part> => {
    const place = await at(port);
    const variables = {
      CONTROL_PLANE_URL: apis.map(({ url }) => url).join(','),
      CONTROL_PLANE_TOKEN: key,
      GATEWAY_CONFIG: config,
      GATEWAY_PORT: String(place.port),
      MODELS_KEY: 'any',
    };
    return { ...(await start(release, 'gateway/main.ts', variables, place)), ...place };
  };
  const openWorker = (release: Release, name = 'lifecycle'): Promise<Running> =>
    start(release, `workers/${name}.ts`, control_plane, { line: `worker_${name} runs` });
  /** The first key of an empty database, as an operator makes it with this release. */
  const bootstrap = ({ folder: cwd }: Release): string =>
    execFileSync(process.execPath, ['run.cjs', 'api/admin.ts', 'bootstrap'], {
      cwd,
      env: { ...process.env, ...control_plane },
      encoding: 'utf8',
    }).trim();

  const close = async () => {
    await Promise.all(parts.reverse().map((part) => part.stop(STOP_MS)));
    const { broken } = await audit(db);
    await connection.close();
    await db.destroy();
    await many(admin, `drop database ${database} with (force)`);
    await admin.destroy();
    rmSync(folder, { recursive: true, force: true });
    expect(broken).toEqual([]);
  };
  const client = new Client({ connection, namespace });
  return { db, client, settings, openApi, openGateway, openWorker, bootstrap, close };
}

/**
 * Sends requests to an API of any release; its answers are not compared with this one's
 * description.
 */
export function callerOf({ url }: Part) {
  return async (
    method: 'get' | 'post' | 'put',
    at: string,
    { key, body, headers }: { key: string; body?: object; headers?: Record<string, string> },
  ) => {
    const response = await fetch(`${url}${at}`, {
      method,
      headers: {
        authorization: `Bearer ${key}`,
        ...(body && { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(body && { body: JSON.stringify(body) }),
    });
    // biome-ignore lint/suspicious/noExplicitAny: answers are JSON of many shapes; the expectations are their types.
    return { status: response.status, body: (await response.json()) as any };
  };
}

/** Keys of two organizations, one with money and one without, made over the routes of an API. */
export interface Seeded {
  platform: string;
  control_plane: string;
  rich: Tenant;
  poor: Tenant;
}

export interface Tenant {
  org_id: string;
  gateway: string;
  billing: string;
}

export async function seedOver(api: Part, platform: string): Promise<Seeded> {
  const call = callerOf(api);
  const post = async (at: string, body: object) => {
    const answer = await call('post', at, { key: platform, body });
    if (answer.status >= 300)
      throw new Error(`POST ${at} is ${answer.status}: ${JSON.stringify(answer.body)}`);
    return answer.body;
  };
  const token = async (name: string, more: object): Promise<string> =>
    (await post('/v1/tokens', { name, token_type: 'access', ...more })).key;
  const tenant = async (name: string): Promise<Tenant> => {
    const { id: org_id } = await post('/v1/admin/organizations', { name, currency: 'USD' });
    return {
      org_id,
      gateway: await token(`${name} calls`, { org_id, token_type: 'gateway' }),
      billing: await token(`${name} bills`, { org_id, scopes: ['org:billing', 'events:read'] }),
    };
  };
  const price = { input_per_1m: 0.15, output_per_1m: 0.6, max_output_tokens: 16_384 };
  await post('/v1/admin/model-pricing', { provider: 'openai', model: 'gpt-4o-mini', ...price });
  const [rich, poor] = [await tenant('Rich'), await tenant('Poor')];
  await topUp(api, platform, rich, 1_000);
  const control_plane = await token('gateways', { scopes: ['control_plane'] });
  return { platform, control_plane, rich, poor };
}

export async function topUp(api: Part, platform: string, { org_id }: Tenant, amount: number) {
  const target_wallet_owner_type = 'organization';
  const body = { org_id, target_wallet_owner_type, amount, description: 'top-up' };
  const answer = await callerOf(api)('post', '/v1/admin/wallets/credit', { key: platform, body });
  expect(answer.status).toBeLessThan(300);
}
