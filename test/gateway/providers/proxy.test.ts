import { mkdtempSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { listen } from '../../../runtime/listen';
import { connectionsTo, fetchThrough } from '../../../runtime/outgoing';
import { chat, gatewayKey, openWorld, post, type World } from '../../support/gateway';

// Requests to providers go through the operator's proxy, if there is one.

let world: World;
let proxy: Server;
const asked: string[] = [];
const { HTTPS_PROXY, NO_PROXY } = process.env;

beforeAll(async () => {
  world = await openWorld();
  proxy = createServer();
  proxy.on('connect', (req, socket) => {
    asked.push(req.url ?? '');
    socket.end('HTTP/1.1 502 Bad Gateway\r\n\r\n');
  });
  const port = await listen(proxy, 0);
  process.env.HTTPS_PROXY = `http://127.0.0.1:${port}`;
  process.env.NO_PROXY = 'near.example';
});
afterAll(async () => {
  delete process.env.HTTPS_PROXY;
  delete process.env.NO_PROXY;
  if (HTTPS_PROXY !== undefined) process.env.HTTPS_PROXY = HTTPS_PROXY;
  if (NO_PROXY !== undefined) process.env.NO_PROXY = NO_PROXY;
  proxy.closeAllConnections();
  proxy.close();
  await world.close();
});

async function ask(target: object, more: object = {}): Promise<number> {
  const row = { id: 'a', kind: 'openai', auth: { key_env: 'TEST_MODELS_KEY' }, models: ['gpt-4o'] };
  const targets = [{ ...row, ...target }];
  const { url } = await world.openGateway({ settings: { providers: { targets }, ...more } });
  const key = await gatewayKey(world.api, world.org.org_id);
  const body = { ...chat('Hello'), model: 'gpt-4o' };
  asked.length = 0;
  return (await post(`${url}/v1/chat/completions`, key, body)).status;
}

test('what goes to https goes through HTTPS_PROXY, plain addresses and NO_PROXY do not', async () => {
  expect(await ask({})).toBe(502);
  expect(asked).toEqual(['api.openai.com:443']);
  expect(await ask({ base_url: 'https://near.example/v1' })).toBe(502);
  expect(asked).toEqual([]);
  expect(await ask({ base_url: `${world.models_url}/v1` })).toBe(200);
  expect(asked).toEqual([]);
});

test('a proxy that takes a connection and says nothing is given up in time, and holds nobody', async () => {
  const silent = createServer();
  silent.on('connect', () => undefined);
  const port = await listen(silent, 0);
  const { HTTPS_PROXY: before } = process.env;
  process.env.HTTPS_PROXY = `http://127.0.0.1:${port}`;
  const began = performance.now();
  const status = await ask({}, { timeouts: { connect_ms: 300 } }).finally(() => {
    process.env.HTTPS_PROXY = before;
  });
  expect(status).toBeGreaterThanOrEqual(502);
  expect(performance.now() - began).toBeLessThan(30_000);
  silent.closeAllConnections();
  silent.close();
});

test('tokens are asked for through it too, and no closed address is', async () => {
  asked.length = 0;
  await expect(fetchThrough('https://oauth2.googleapis.com/token')).rejects.toThrow();
  expect(asked).toEqual(['oauth2.googleapis.com:443']);
  const times = { connect_ms: 60_000, idle_ms: 60_000 };
  expect(() => connectionsTo('https://169.254.169.254', times)).toThrow(/nothing is sent/);
});

test('a role of AWS is taken through it, and a workload proves itself there', async () => {
  const variables = {
    GATEWAY_AMBIENT_AUTH: 'aws',
    TEST_AWS_ID: 'AKIATEST',
    TEST_AWS_SECRET: 'aws-secret',
    AWS_MAX_ATTEMPTS: '1',
    AWS_EC2_METADATA_DISABLED: 'true',
    AWS_ROLE_ARN: 'arn:aws:iam::123456789012:role/svc',
    AWS_WEB_IDENTITY_TOKEN_FILE: path.join(mkdtempSync(path.join(tmpdir(), 'svc-web-')), 'token'),
    AWS_REGION: 'eu-west-1',
    AWS_CONFIG_FILE: '/nonexistent/config',
    AWS_SHARED_CREDENTIALS_FILE: '/nonexistent/credentials',
  };
  writeFileSync(variables.AWS_WEB_IDENTITY_TOKEN_FILE, 'eyJ.of.cluster');
  Object.assign(process.env, variables);
  const keys = { access_key_id_env: 'TEST_AWS_ID', secret_access_key_env: 'TEST_AWS_SECRET' };
  const role_arn = variables.AWS_ROLE_ARN;
  const target = { kind: 'bedrock', shape: 'openai', provider: 'openai', region: 'eu-west-1' };
  for (const aws of [{ ...keys, role_arn }, {}]) {
    expect(await ask({ ...target, auth: { aws } })).toBe(502);
    expect(asked).toContain('sts.eu-west-1.amazonaws.com:443');
    // Without keys nothing is sent to the provider.
    expect(asked.filter((host) => host.startsWith('bedrock'))).toEqual([]);
  }
  for (const name of Object.keys(variables)) delete process.env[name];
});
