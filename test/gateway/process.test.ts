import { generateKeyPairSync } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer as createSecureServer } from 'node:https';
import { type AddressInfo, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { request } from 'undici';
import { certify, makeAuthority } from '../../sandbox/payments/a/authority';
import { freePorts } from '../../sandbox/processes/ports';
import { launch, type Process } from '../../sandbox/processes/processes';
import { serverProgram } from '../../sandbox/product/node-programs';
import {
  chat,
  gatewayKey,
  lastCharge,
  openHolds,
  openWorld,
  post,
  type World,
} from '../support/gateway';
import { credit, makeOrg, makePrice } from '../support/ledger';
import { until } from '../support/until';
import { openWire } from '../support/wire';

let world: World;
let folder: string;
const started: Process[] = [];
const chat_path = '/v1/chat/completions';

beforeAll(async () => {
  world = await openWorld();
  folder = mkdtempSync(path.join(tmpdir(), 'svc-gateway-'));
});

afterAll(async () => {
  await Promise.all(started.map((process) => process.stop()));
  rmSync(folder, { recursive: true });
  await world.close();
});

function settingsFile(more: string, models_url: string): string {
  const file = path.join(folder, 'gateway.yaml');
  writeFileSync(
    file,
    `providers:
  targets:
    - id: sandbox
      provider: openai
      shape: openai
      base_url: ${models_url}/v1
      api_key_env: TEST_MODELS_KEY
      models: [gpt-4o-mini]
${more}`,
  );
  return file;
}

async function start(
  more = '',
  changed: Record<string, string> = {},
  models_url = world.models_url,
) {
  const [port = 0] = await freePorts(1);
  const url = `http://127.0.0.1:${port}`;
  const env = {
    CONTROL_PLANE_URL: world.api.url,
    CONTROL_PLANE_TOKEN: world.control_plane_token,
    GATEWAY_CONFIG: settingsFile(more, models_url),
    GATEWAY_PORT: String(port),
    LOG_LEVEL: 'info',
    ...changed,
  };
  const lines: string[] = [];
  const program = serverProgram({
    name: 'gateway',
    script: 'gateway/main.ts',
    process_name: 'gateway',
    named: ['TEST_MODELS_KEY'],
    env,
    ready_url: `${url}/readyz`,
  });
  const running = await launch(program, { onLine: (line) => lines.push(line) });
  started.push(running);
  return { url, running, lines };
}

async function funded() {
  const org = await makeOrg(world.api.db);
  await credit(world.api.db, org.org_id, org.org_wallet, 1_000_000_000n);
  return { ...org, key: await gatewayKey(world.api, org.org_id) };
}

async function statusOf(url: string): Promise<number> {
  const answer = await request(url);
  await answer.body.dump();
  return answer.statusCode;
}

test('on SIGTERM: /readyz is 503, new calls are sent elsewhere, the stream in flight finishes and settles, the process exits 0', async () => {
  const models = await openWire(world.models_url);
  const { url, running, lines } = await start('timeouts: { drain_ms: 120000 }', {}, models.url);
  const { org_id, key } = await funded();
  const content = 'Hello [[fault:chunks count=30]] [[fault:slow delay=10]]';
  models.keepAfter('{"content":"');
  const streaming = post(url + chat_path, key, chat(content, { stream: true }));
  await until(() => models.answered() > 0);
  process.kill(running.pid, 'SIGTERM');
  await until(async () => (await statusOf(`${url}/readyz`)) === 503);
  expect(await statusOf(`${url}/svc/health`)).toBe(200);
  const refused = await post(url + chat_path, key, chat('Hello'));
  expect(refused.status).toBe(503);
  expect(refused.headers['retry-after']).toBeDefined();
  models.release();
  expect((await streaming).text).toContain('[DONE]');
  await models.close();
  expect(await running.ended).toBe('exited 0');
  expect(await openHolds(world.api, org_id)).toBe(0);
  expect(await lastCharge(world, org_id)).toMatchObject({
    status: 'settled',
    usage_source: 'upstream',
  });
  const said = lines.join('\n');
  const line = lines.find(
    (text) => text.includes('"msg":"request"') && text.includes('"status":200'),
  );
  expect(JSON.parse(line ?? '{}')).toMatchObject({
    method: 'POST',
    route: '/v1/chat/completions',
    org_id,
    provider: 'openai',
    model: 'gpt-4o-mini',
    is_stream: true,
    outcome: 'completed',
    prompt_tokens: expect.any(Number),
    duration_ms: expect.any(Number),
    key_id: expect.stringMatching(/^key_/),
    reservation_id: expect.stringMatching(/^res_/),
  });
  expect(said).not.toContain('Hello');
  for (const secret of [key, world.control_plane_token, 'upstream-secret'])
    expect(said).not.toContain(secret);
});

test('a stream that outlasts the drain is ended with an error frame and settled at what came; the process exits 0', async () => {
  const { url, running } = await start('timeouts: { drain_ms: 500 }');
  const { org_id, key } = await funded();
  const content = 'Hello [[fault:chunks count=50]] [[fault:silence after=10]]';
  const streaming = await request(url + chat_path, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify(chat(content, { stream: true })),
  });
  // Its head comes with its first words.
  process.kill(running.pid, 'SIGTERM');
  const text = await streaming.body.text();
  expect(text).toContain('"unavailable"');
  expect(text).not.toContain('[DONE]');
  expect(await running.ended).toBe('exited 0');
  expect(await openHolds(world.api, org_id)).toBe(0);
  const charge = await lastCharge(world, org_id);
  expect(charge).toMatchObject({ status: 'settled', usage_source: 'estimated' });
  expect(charge.actual_cost_nanos).toBeGreaterThan(0n);
});

test('at its start it says whom it believes, and which models have no price', async () => {
  const more = `    - { id: b, provider: elsewhere, shape: openai, base_url: "${world.models_url}/v1", api_key_env: TEST_MODELS_KEY, models: [gpt-4o-mini, dear] }
rate_limits: { ip: { enabled: true, rpm: 100 } }`;
  const { lines } = await start(more);
  const said = (words: string) => lines.filter((line) => line.includes(words));
  await until(() => said('have no price').length > 0);
  const [unpriced = '{}'] = said('have no price');
  expect(JSON.parse(unpriced).models).toEqual(['elsewhere/gpt-4o-mini', 'elsewhere/dear']);
  const [trust = '{}'] = said('proxies are believed');
  expect(JSON.parse(trust)).toMatchObject({ header: 'X-Forwarded-For' });
  expect(JSON.parse(trust).trusted_proxies).toContain('10.0.0.0/8');
});

test.each<[string, string, Record<string, string>, string]>([
  ['an unknown key in the file', 'rate_limit: {}', {}, 'rate_limit: there is no such key'],
  ['a variable that is missing', '', { CONTROL_PLANE_TOKEN: '' }, 'CONTROL_PLANE_TOKEN'],
  ['a provider key that is not set', '', { TEST_MODELS_KEY: '' }, 'TEST_MODELS_KEY'],
])('the process does not start with %s, and says so by name', async (_, more, env, named) => {
  await expect(start(more, env)).rejects.toThrow(named);
});

test('a variable that its configuration names and that nobody has set is said with its place and what to do, all of them at once', async () => {
  const more = `    - { id: b, provider: b, shape: openai, base_url: "${world.models_url}/v1", api_key_env: UNSET_MODELS_KEY, models: [dear] }
mcp: { servers: [{ name: tools, url: "${world.models_url}/mcp", api_key_env: UNSET_TOOLS_KEY }] }
distributed_rate_limit: { enabled: true, store_url_env: UNSET_STORE_URL }
observability: { otlp: { enabled: true, endpoint_env: UNSET_OTLP_ENDPOINT } }`;
  const places = {
    'providers.targets[1].api_key_env': 'UNSET_MODELS_KEY',
    'mcp.servers[0].api_key_env': 'UNSET_TOOLS_KEY',
    'distributed_rate_limit.store_url_env': 'UNSET_STORE_URL',
    'observability.otlp.endpoint_env': 'UNSET_OTLP_ENDPOINT',
  };
  const said = await start(more).then(
    () => 'it has started',
    (error: Error) => error.message,
  );
  for (const [place, name] of Object.entries(places)) {
    expect(process.env[name]).toBeUndefined();
    expect(said).toContain(
      `${place}: the environment variable ${name} is not set. Set it where this gateway is started, or name another one.`,
    );
  }
  expect(said).toContain('exited 1');
});

test('the process does not start on a taken port, and says in one line which variable to change', async () => {
  const taken = createServer().listen(0);
  await once(taken, 'listening');
  const { port } = taken.address() as AddressInfo;
  const refused = start('', { GATEWAY_PORT: String(port) });
  await expect(refused).rejects.toThrow(
    `exited 1 before it was ready.\nPort ${port} is in use by another process. Set GATEWAY_PORT to another one.`,
  );
  taken.close();
});

test("NODE_EXTRA_CA_CERTS names the authority of a provider of one's own", async () => {
  const authority = await makeAuthority();
  const pair = generateKeyPairSync('rsa', {
    modulusLength: 2_048,
    publicKeyEncoding: { type: 'spki', format: 'pem' },
    privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
  });
  const cert = await certify(authority, { name: 'localhost', pair });
  const answer = JSON.stringify({
    ...{ id: 'x', object: 'chat.completion', model: 'own' },
    choices: [{ index: 0, message: { role: 'assistant', content: 'Hi' }, finish_reason: 'stop' }],
    usage: { prompt_tokens: 5, completion_tokens: 1, total_tokens: 6 },
  });
  const server = createSecureServer({ key: pair.privateKey, cert }, (req, res) => {
    req.resume();
    res.writeHead(200, { 'content-type': 'application/json' }).end(answer);
  });
  server.listen(0, 'localhost');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const own = `    - { id: own, kind: vllm, base_url: "https://localhost:${port}/v1", auth: none, models: [own] }\n`;
  await makePrice(world.api.db, { provider: 'vllm', model: 'own' });
  const file = path.join(folder, 'authority.pem');
  writeFileSync(file, authority.cert);
  const { key } = await funded();
  const body = chat('Hello', { model: 'own' });
  for (const [changed, status] of [
    [{}, 502],
    [{ NODE_EXTRA_CA_CERTS: file }, 200],
  ] as const) {
    const { url } = await start(own, changed);
    const asked = await post(url + chat_path, key, body);
    expect([asked.status, asked.status === 200 ? '' : asked.text]).toEqual([
      status,
      status === 200 ? '' : expect.stringContaining('upstream_failed'),
    ]);
  }
  server.closeAllConnections();
  server.close();
});
