import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { request } from 'undici';
import { type Configuration, openConfiguration } from '../../gateway/configuration';
import { refusal } from '../support/api';
import { chat, openWorld, post, type TestGateway, type World } from '../support/gateway';
import { makeKey } from '../support/keys';
import { openAtMinute } from '../support/limits';
import { until } from '../support/until';

const route = '/v1/chat/completions';

let world: World;
let gateway: TestGateway;
let configuration: Configuration;
let folder: string;
let file: string;
let admin: string;

beforeAll(async () => {
  world = await openWorld();
  admin = await makeKey(world.api.db, null, { scopes: ['platform:admin'] });
  folder = mkdtempSync(path.join(tmpdir(), 'svc-reload-'));
  file = path.join(folder, 'gateway.yaml');
});
beforeEach(async () => {
  await world.api.db('gateway_configs').delete();
  gateway = await openAtMinute(world, {});
  writeFileSync(file, JSON.stringify(configured()));
  configuration = openConfiguration(gateway.gateway, { file, poll_ms: 50 });
  gateway.configuration = configuration;
});
afterEach(() => configuration.close());
afterAll(async () => {
  rmSync(folder, { recursive: true });
  await world.close();
});

/** A configuration that differs from the running one visibly: in the size of a body. */
function configured(more: object = {}) {
  const target = {
    id: 'sandbox',
    provider: 'openai',
    shape: 'openai',
    api_key_env: 'TEST_MODELS_KEY',
    base_url: `${world.models_url}/v1`,
    models: ['gpt-4o-mini'],
  };
  return { providers: { targets: [target] }, cost_tickets: { hold_ms: 0 }, ...more };
}

async function reload(token: string | null = world.control_plane_token) {
  const headers: Record<string, string> = token ? { authorization: `Bearer ${token}` } : {};
  const answer = await request(`${gateway.url}/svc/config/reload`, { method: 'POST', headers });
  return { status: answer.statusCode, body: (await answer.body.json()) as Record<string, unknown> };
}

function put(config: object, key = admin) {
  return world.api.call('put', '/v1/admin/gateway-config', { key, body: { config } });
}

async function runs(): Promise<Record<string, unknown>[]> {
  const { body } = await world.api.call('get', '/v1/admin/gateway-config', { key: admin });
  return body.gateways;
}

const large = chat('x'.repeat(2_000));

test('a reload puts the file in place of the running configuration, and says which runs', async () => {
  expect((await post(gateway.url + route, world.key, large)).status).toBe(200);
  writeFileSync(file, JSON.stringify(configured({ body_limit_bytes: 1_024 })));
  const { status, body } = await reload();
  expect([status, body.status, body.source]).toEqual([200, 'reloaded', 'file']);
  expect(body.config_hash).not.toBe(body.previous_config_hash);
  const health = await request(`${gateway.url}/svc/health`);
  expect(await health.body.json()).toMatchObject({ status: 'ok', config_hash: body.config_hash });
  expect((await post(gateway.url + route, world.key, large)).status).toBe(413);
});

test.each([
  ['{', 'is not YAML'],
  ['providers: {}', 'providers.targets'],
  ['', 'providers'],
])(
  'a bad file (%j) keeps the running configuration and answers 422 with the reason',
  async (text, words) => {
    writeFileSync(file, text);
    const before = gateway.gateway.snapshot;
    const { status, body } = await reload();
    expect(status).toBe(422);
    expect(body).toMatchObject({ error: { code: 'invalid_configuration' } });
    expect(JSON.stringify(body)).toContain(words);
    expect(gateway.gateway.snapshot).toBe(before);
    expect((await post(gateway.url + route, world.key, large)).status).toBe(200);
  },
);

test('only the token of a service reloads', async () => {
  const before = gateway.gateway.snapshot;
  for (const token of [null, world.key, admin, 'svc_ak_nonsense']) {
    expect([401, 403]).toContain((await reload(token)).status);
  }
  expect(gateway.gateway.snapshot).toBe(before);
});

test('guesses of a token for a reload count against the limit of their address', async () => {
  const limits = { rate_limits: { ip: { enabled: true, rpm: 2, trusted_proxies: [] } } };
  const limited = await openAtMinute(world, { settings: limits });
  const statuses: number[] = [];
  for (let guess = 0; guess < 3; guess += 1) {
    const answer = await request(`${limited.url}/svc/config/reload`, {
      method: 'POST',
      headers: { authorization: `Bearer svc_ak_${guess}`, 'x-forwarded-for': `192.0.2.${guess}` },
    });
    statuses.push(answer.statusCode);
    await answer.body.dump();
  }
  expect(statuses).toEqual([401, 401, 429]);
});

test("an address over its limit reloads with the gateway's own token, and so lifts the limit", async () => {
  const settings = configured({ rate_limits: { ip: { enabled: true, rpm: 1 } } });
  writeFileSync(file, JSON.stringify(settings));
  expect((await reload()).status).toBe(200);
  const statuses = [];
  for (let n = 0; n < 2; n += 1) statuses.push((await listModels()).statusCode);
  expect(statuses).toEqual([200, 429]);
  expect((await reload(admin)).status).toBe(429);
  writeFileSync(file, JSON.stringify(configured()));
  expect((await reload()).status).toBe(200);
  expect((await listModels()).statusCode).toBe(200);
});

function listModels() {
  return request(`${gateway.url}/v1/models`, { headers: { authorization: `Bearer ${world.key}` } });
}

test('a call under way keeps the configuration that it began with, and its connections close with it', async () => {
  const slow = chat('Hello [[fault:chunks count=20]] [[fault:slow delay=30]]', { stream: true });
  const before = gateway.gateway.snapshot;
  const streaming = post(gateway.url + route, world.key, slow);
  await until(() => before.calls === 1);
  writeFileSync(file, JSON.stringify(configured({ body_limit_bytes: 1_024 })));
  expect((await reload()).status).toBe(200);
  expect((await streaming).text).toContain('[DONE]');
  await until(() => before.calls === 0);
  await until(() => gateway.gateway.snapshot.providers !== before.providers);
});

test("the control plane's configuration takes the place of the file, and what runs is reported", async () => {
  const { status, body } = await put(configured({ body_limit_bytes: 1_024 }));
  expect([status, body.note]).toEqual([200, null]);
  await until(async () => (await post(gateway.url + route, world.key, large)).status === 413);
  await until(async () =>
    (await runs()).some(({ config_version }) => config_version === body.version),
  );
  expect((await reload()).body).toMatchObject({ status: 'reloaded', source: 'control_plane' });
  expect((await post(gateway.url + route, world.key, large)).status).toBe(413);
});

test('without a configuration of the control plane gateways go back to their file', async () => {
  await put(configured({ body_limit_bytes: 1_024 }));
  await until(async () => (await post(gateway.url + route, world.key, large)).status === 413);
  const { status, body } = await world.api.call('delete', '/v1/admin/gateway-config', {
    key: admin,
  });
  expect([status, body.config]).toEqual([200, null]);
  await until(async () => (await post(gateway.url + route, world.key, large)).status === 200);
  expect((await reload()).body).toMatchObject({ source: 'file', config_version: null });
});

test('a file that cannot be run does not take the place of a configuration that has gone', async () => {
  const { body } = await put(configured({ body_limit_bytes: 1_024 }));
  await until(async () => (await post(gateway.url + route, world.key, large)).status === 413);
  writeFileSync(file, 'providers: {}');
  await world.api.call('delete', '/v1/admin/gateway-config', { key: admin });
  expect((await reload()).status).toBe(422);
  expect((await post(gateway.url + route, world.key, large)).status).toBe(413);
  expect((await runs()).some(({ config_version }) => config_version === body.version)).toBe(true);
});

/** A version that an API of before 1.5 took: it checks nothing. */
async function putUnchecked(config: object): Promise<{ version: number }> {
  const [row] = await world.api
    .db('gateway_configs')
    .insert({ config: JSON.stringify(config), created_by: 'test' })
    .returning('version');
  return { version: Number(row.version) };
}

test('a configuration that gateways refuse changes nothing, and is reported with the reason', async () => {
  const before = gateway.gateway.snapshot;
  const body = await putUnchecked({ providers: {} });
  await until(async () =>
    (await runs()).some(({ refused_version }) => refused_version === body.version),
  );
  const refused = (await runs()).find(({ refused_version }) => refused_version === body.version);
  expect(refused).toMatchObject({ config_version: null });
  expect(refused?.error).toContain('providers.targets');
  expect(gateway.gateway.snapshot).toBe(before);
  expect((await reload()).status).toBe(422);
});

test('a version that was refused and is gone does not keep the file from a reload', async () => {
  const body = await putUnchecked({ providers: {} });
  await until(async () =>
    (await runs()).some(({ refused_version }) => refused_version === body.version),
  );
  await world.api.db('gateway_configs').delete();
  const answer = await reload();
  expect([answer.status, answer.body]).toMatchObject([200, { source: 'file' }]);
});

test('the configuration is a matter of platform admins', async () => {
  const { key } = world;
  for (const [method, url] of [
    ['get', '/v1/admin/gateway-config'],
    ['get', '/v1/admin/gateway-config/versions'],
    ['put', '/v1/admin/gateway-config'],
    ['get', '/v1/gateway/config'],
  ] as const) {
    const body = method === 'put' ? { config: configured() } : undefined;
    expect([401, 403]).toContain(
      (await world.api.call(method, url, { key, ...(body && { body }) })).status,
    );
  }
  expect(refusal(await put({ x: 'y'.repeat(1_000_001) }))).toMatchObject({
    status: 422,
    param: 'config',
  });
  await put(configured());
  const { body } = await put(configured({ body_limit_bytes: 2_048 }));
  const versions = await world.api.call('get', '/v1/admin/gateway-config/versions', { key: admin });
  expect(versions.body).toMatchObject({ total: 2, has_more: false });
  expect(versions.body.versions[0].version).toBe(body.version);
});
