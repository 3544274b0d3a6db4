import { createServer, type Server } from 'node:http';
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

async function ask(target: object): Promise<number> {
  const row = { id: 'a', kind: 'openai', auth: { key_env: 'TEST_MODELS_KEY' }, models: ['gpt-4o'] };
  const targets = [{ ...row, ...target }];
  const { url } = await world.openGateway({ settings: { providers: { targets } } });
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

test('tokens are asked for through it too, and no closed address is', async () => {
  asked.length = 0;
  await expect(fetchThrough('https://oauth2.googleapis.com/token')).rejects.toThrow();
  expect(asked).toEqual(['oauth2.googleapis.com:443']);
  const times = { connect_ms: 1_000, idle_ms: 1_000 };
  expect(() => connectionsTo('https://169.254.169.254', times)).toThrow(/nothing is sent/);
});
