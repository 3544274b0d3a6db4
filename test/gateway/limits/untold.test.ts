import { once } from 'node:events';
import { request } from 'undici';
import { WebSocket } from 'ws';
import { many } from '../../../domain/sql';
import { createMcpServer } from '../../../sandbox/tools/mcp-server';
import { makeKey } from '../../support/keys';
import { limitEvents } from '../../support/limits';
import { serveTest, type TestServer } from '../../support/mcp';
import { until } from '../../support/until';
import { ask, CHAT, fundedKey, open, world } from './behind-wire';

const limited = (rpm: number) => ({ rate_limits: { ip: { enabled: true, rpm } } });

async function get(url: string, key: string) {
  const answer = await request(url, { headers: { authorization: `Bearer ${key}` } });
  await answer.body.dump();
  return answer.statusCode;
}

type Opened = Awaited<ReturnType<typeof open>>;

async function typesOf(gateway: Opened, org_id: string) {
  return (await limitEvents(world, gateway, org_id)).map(({ type }) => type);
}

let tools: TestServer;
beforeAll(async () => {
  tools = await serveTest(createMcpServer());
});
afterAll(() => tools.close());
beforeEach(() => world.api.db('events').where({ org_id: 'platform' }).delete());

test('each decision on an address is one event: models, MCP, sockets, chat with a bad key', async () => {
  const { org, key } = await fundedKey();
  const mcp = { servers: [{ name: 'tools', url: tools.url }] };
  const gateway = await open({ ...limited(1), mcp });
  const models = `${gateway.url}/v1/models`;
  expect([await get(models, key), await get(models, key)]).toEqual([200, 429]);
  const listed = await request(`${gateway.url}/mcp`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: '{"jsonrpc":"2.0","id":1,"method":"tools/list"}',
  });
  expect(listed.statusCode).toBe(429);
  const socket = new WebSocket(`${gateway.url.replace('http', 'ws')}/v1/responses/ws`, {
    headers: { authorization: `Bearer ${key}` },
  });
  const [refused] = (await once(socket, 'error')) as [Error];
  expect(refused.message).toContain('429');
  expect((await ask(gateway, `svc_gk_${'0'.repeat(43)}`)).status).toBe(429);
  await until(async () => (await typesOf(gateway, 'platform')).length === 1);
  await until(async () => (await typesOf(gateway, org.org_id)).length === 4);
  expect(await typesOf(gateway, org.org_id)).toEqual([
    'rate_limit.checked',
    ...Array(3).fill('rate_limit.exceeded'),
  ]);
  expect(await typesOf(gateway, 'platform')).toEqual(['rate_limit.exceeded']);
});

test('a call that fails ahead of the decision over all tiers has passed that of its address, once', async () => {
  const { org, key } = await fundedKey();
  const gateway = await open({
    ...limited(50),
    rate_limits: { ...limited(50).rate_limits, global: { rpm: 50 } },
  });
  expect((await ask(gateway, 'nobody')).status).toBe(401);
  const unknown = await request(gateway.url + CHAT, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: '{"model":"none","messages":[]}',
  });
  expect(unknown.statusCode).toBe(404);
  expect((await ask(gateway, key)).status).toBe(200);
  await until(async () => (await typesOf(gateway, org.org_id)).length === 2);
  const [failed, passed] = await limitEvents(world, gateway, org.org_id);
  expect(failed?.payload).toMatchObject({ scope: 'ip', remaining_tpm: null });
  expect(passed?.type).toBe('rate_limit.checked');
  expect(await typesOf(gateway, 'platform')).toEqual(['rate_limit.checked']);
});

test('a tool call is told of once, a list too', async () => {
  const { org, key } = await fundedKey();
  const mcp = { servers: [{ name: 'tools', url: tools.url }] };
  const gateway = await open({ ...limited(50), mcp });
  const send = (method: string, params: object) =>
    request(`${gateway.url}/mcp`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${key}`,
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
      },
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
    }).then(({ body }) => body.dump());
  await send('tools/list', {});
  await send('tools/call', { name: 'add', arguments: { a: 1, b: 2 } });
  await until(async () => (await typesOf(gateway, org.org_id)).length === 2);
  expect(await typesOf(gateway, 'platform')).toEqual([]);
});

test('what the limits decide on a question for the standing of a key is one event each time', async () => {
  const { org, key } = await fundedKey();
  const alone = await open({ rate_limits: { per_key: { rpm: 5 } } });
  expect(await get(`${alone.url}/v1/key`, key)).toBe(200);
  await until(async () => (await typesOf(alone, org.org_id)).length === 1);
  expect(await limitEvents(world, alone, org.org_id)).toMatchObject([
    { type: 'rate_limit.checked', payload: { scope: 'per_key', remaining_rpm: 4 } },
  ]);

  const { org: other, key: second } = await fundedKey();
  const both = await open({
    rate_limits: { ip: { enabled: true, rpm: 50 }, per_key: { rpm: 1 } },
  });
  const statuses = [];
  for (const path of ['key', 'key', 'models'])
    statuses.push(await get(`${both.url}/v1/${path}`, second));
  expect(statuses).toEqual([200, 429, 200]);
  await until(async () => (await typesOf(both, other.org_id)).length === 3);
  const events = await limitEvents(world, both, other.org_id);
  expect(events.map(({ type, payload }) => [type, payload.scope])).toEqual([
    ['rate_limit.checked', 'per_key'],
    ['rate_limit.exceeded', 'per_key'],
    ['rate_limit.checked', 'ip'],
  ]);
  expect(await typesOf(both, 'platform')).toEqual([]);
});

test('an open circuit refuses it ahead of all tiers: its address stays counted', async () => {
  const { key } = await fundedKey();
  const gateway = await open({
    rate_limits: { ip: { enabled: true, rpm: 4 }, global: { rpm: 1 } },
  });
  // The count of the address goes back with the refusal that opens the circuit.
  expect([await ask(gateway, key), await ask(gateway, key)]).toMatchObject([
    { status: 200 },
    { status: 429, error: { scope: 'global' } },
  ]);
  const scopes = [];
  for (let n = 0; n < 4; n += 1) {
    const headers = { authorization: `Bearer ${key}` };
    const { statusCode, body } = await request(`${gateway.url}/v1/key`, { headers });
    const { error } = (await body.json()) as { error: { scope: string } };
    scopes.push([statusCode, error.scope]);
  }
  expect(scopes).toEqual([...Array(3).fill([429, 'global']), [429, 'ip']]);
});

test("the platform's stream is for platform admins alone", async () => {
  const gateway = await open(limited(1));
  await get(`${gateway.url}/v1/models`, 'nobody');
  await until(async () => (await typesOf(gateway, 'platform')).length === 1);
  const read = async (key: string, path = '/v1/events?org_id=platform') =>
    world.api.call('get', path, { key });
  const admin = await makeKey(world.api.db, null, { scopes: ['platform:admin'] });
  // An event is shown once no older transaction of the server is open.
  await until(async () => (await read(admin)).body.events.length > 0);
  const { status, body } = await read(admin);
  expect(status).toBe(200);
  expect(body.events).toMatchObject([
    { type: 'rate_limit.checked', org_id: 'platform', payload: { scope: 'ip', key_id: null } },
  ]);
  const one = await read(admin, `/v1/events/${body.events[0].id}?org_id=platform`);
  expect(one.body).toMatchObject({ org_id: 'platform' });
  const own = await makeKey(world.api.db, world.org.org_id, { scopes: ['events:read'] });
  expect((await read(own)).status).toBe(404);
  const rows = await many(world.api.db, "select 1 from organizations where id = 'platform'");
  expect(rows).toEqual([]);
});
