import { request } from 'undici';
import { many } from '../../domain/sql';
import * as tokens from '../../domain/tokens';
import { routes } from '../../gateway/routes';
import {
  arrivals,
  chat,
  forgetArrivals,
  gatewayKey,
  lastCharge,
  openHolds,
  openWorld,
  post,
  type World,
} from '../support/gateway';
import { balance, credit, inFlight, makeOrg } from '../support/ledger';
import { until } from '../support/until';

let world: World;
const path = '/v1/chat/completions';

beforeAll(async () => {
  world = await openWorld();
});

afterAll(() => world.close());

test('200 parallel calls on a wallet that covers 20: exactly 20 are answered, 180 get a ticket, the balance is exact', async () => {
  const probe = await makeOrg(world.api.db);
  await credit(world.api.db, probe.org_id, probe.org_wallet, 1_000_000_000n);
  const body = chat('Say hello. [[fault:slow delay=6000]]');
  await post(world.url + path, await gatewayKey(world.api, probe.org_id), body);
  const { held_nanos, actual_cost_nanos } = await lastCharge(world, probe.org_id);
  const org = await makeOrg(world.api.db);
  await credit(world.api.db, org.org_id, org.org_wallet, 20n * held_nanos);
  const key = await gatewayKey(world.api, org.org_id);
  const answers = await inFlight(
    200,
    Array.from({ length: 200 }, () => () => post(world.url + path, key, body)),
  );
  expect(answers.filter(({ status }) => status === 200)).toHaveLength(20);
  const refused = answers.filter(({ status }) => status === 402);
  expect(refused).toHaveLength(180);
  const tickets = new Set(refused.map(({ text }) => JSON.parse(text).cost_ticket.id));
  expect(tickets.size).toBe(1);
  await until(async () => (await openHolds(world.api, org.org_id)) === 0);
  expect(await balance(world.api.db, org.org_wallet)).toEqual({
    balance_nanos: 20n * (held_nanos - actual_cost_nanos),
    reserved_nanos: 0n,
  });
}, 60_000);

test('each priced route is refused at balance zero, and nothing goes upstream', async () => {
  const org = await makeOrg(world.api.db);
  const key = await gatewayKey(world.api, org.org_id);
  await forgetArrivals(world.models_url);
  const bodies: Record<string, object> = {
    '/v1/chat/completions': chat('Hello'),
    '/v1/embeddings': { model: 'text-embedding-3-small', input: 'Hello' },
  };
  const priced = routes.filter(({ method }) => method === 'POST').map((route) => route.path);
  expect(Object.keys(bodies).sort()).toEqual([...priced].sort());
  for (const priced_path of priced) {
    for (const more of [{}, { stream: true }]) {
      const body = { ...bodies[priced_path], ...(priced_path === path ? more : {}) };
      expect((await post(world.url + priced_path, key, body)).status).toBe(402);
    }
  }
  expect(await arrivals(world.models_url)).toEqual([]);
});

test('a key revoked at the control plane: the next call at two gateways is 401, a stream in flight finishes and settles', async () => {
  const other = await world.openGateway();
  const org = await makeOrg(world.api.db);
  await credit(world.api.db, org.org_id, org.org_wallet, 1_000_000_000n);
  const key = await gatewayKey(world.api, org.org_id, { name: 'doomed' });
  for (const url of [world.url, other.url])
    expect((await post(url + path, key, chat('Hello'))).status).toBe(200);
  await until(async () => (await openHolds(world.api, org.org_id)) === 0);
  const stream = post(
    world.url + path,
    key,
    chat('Hello [[fault:chunks count=20]] [[fault:slow delay=50]]', { stream: true }),
  );
  await until(async () => (await openHolds(world.api, org.org_id)) === 1);
  await tokens.revoke(world.api.db, org.org_id, 'doomed');
  for (const url of [world.url, other.url]) {
    expect((await post(url + path, key, chat('Hello'))).status).toBe(401);
    expect(
      (await request(`${url}/v1/models`, { headers: { authorization: `Bearer ${key}` } }))
        .statusCode,
    ).toBe(401);
  }
  expect((await stream).text).toContain('[DONE]');
  expect(await lastCharge(world, org.org_id)).toMatchObject({
    status: 'settled',
    usage_source: 'upstream',
  });
});

test('a key over its budget is 403 without a ticket', async () => {
  const key = await gatewayKey(world.api, world.org.org_id, { max_budget_nanos: 1n });
  const answer = await post(world.url + path, key, chat('Hello'));
  expect(answer.status).toBe(403);
  expect(JSON.parse(answer.text)).toMatchObject({ error: { code: 'key_budget_exceeded' } });
  expect(answer.headers['x-should-retry']).toBe('false');
});

test.each<[string, number, object | string, Record<string, string>]>([
  ['no key', 401, chat('Hello'), {}],
  ['broken JSON', 400, '{"model": ', {}],
  ['not an object', 400, '[1]', {}],
  ['a deciding key twice', 400, '{"model":"gpt-4o-mini","model":"gpt-4o","messages":[]}', {}],
  ['another content type', 415, 'model=x', { 'content-type': 'text/plain' }],
  ['no model', 422, { messages: [] }, {}],
  ['a model that is not text', 422, { model: 5, messages: [] }, {}],
  ['a body above the limit', 413, `{"model":"gpt-4o-mini","x":"${'a'.repeat(22_000_000)}"}`, {}],
])('bad input: %s is refused with %i, nothing is held', async (words, status, body, headers) => {
  const before = await many(world.api.db, 'select id from reservations where org_id = :id', {
    id: world.org.org_id,
  });
  const answer = await post(
    world.url + path,
    words === 'no key' ? undefined : world.key,
    body,
    headers,
  );
  expect(answer.status).toBe(status);
  expect(JSON.parse(answer.text)).toMatchObject({
    type: 'error',
    error: { code: expect.any(String), message: expect.any(String) },
  });
  const after = await many(world.api.db, 'select id from reservations where org_id = :id', {
    id: world.org.org_id,
  });
  expect(after).toHaveLength(before.length);
});

test('a body of 20 MB passes', async () => {
  const answer = await post(
    world.url + path,
    world.key,
    chat('Hello', { x: 'a'.repeat(20_000_000) }),
  );
  expect(answer.status).toBe(200);
});

test('an unknown path is 404 and never forwarded', async () => {
  await forgetArrivals(world.models_url);
  expect(
    (await post(`${world.url}/v1/images/generations`, world.key, { model: 'gpt-4o' })).status,
  ).toBe(404);
  expect(await arrivals(world.models_url)).toEqual([]);
});

test('the control plane away: 503 with Retry-After, ready says so, health does not', async () => {
  const alone = await world.openGateway({ api_url: 'http://127.0.0.1:9' });
  const answer = await post(alone.url + path, world.key, chat('Hello'));
  expect(answer.status).toBe(503);
  expect(Number(answer.headers['retry-after'])).toBeGreaterThanOrEqual(1);
  expect((await request(`${alone.url}/readyz`)).statusCode).toBe(503);
  expect((await request(`${alone.url}/svc/health`)).statusCode).toBe(200);
  expect((await request(`${world.url}/readyz`)).statusCode).toBe(200);
});
