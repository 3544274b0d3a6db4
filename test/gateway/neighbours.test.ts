import { chat, gatewayKey, lastCharge, openWorld, post, type World } from '../support/gateway';
import { makeOrg } from '../support/ledger';

let world: World;
const path = '/v1/chat/completions';

beforeAll(async () => {
  world = await openWorld();
});

afterAll(() => world.close());

test('an overlong agent header is refused alone; calls of others that travel with it are paid', async () => {
  const headers = { 'x-svc-agent-id': '"'.repeat(8_000) };
  const attacks = Array.from({ length: 40 }, () =>
    post(world.url + path, world.key, chat('Hello'), headers),
  );
  const calls = Array.from({ length: 10 }, () => post(world.url + path, world.key, chat('Hello')));
  const [attacked, answered] = [await Promise.all(attacks), await Promise.all(calls)];
  expect(new Set(attacked.map(({ status }) => status))).toEqual(new Set([422]));
  expect(new Set(answered.map(({ status }) => status))).toEqual(new Set([200]));
});

test.each<[unknown, number]>([
  ['', 402],
  [[''], 402],
  [[[]], 402],
  [[], 422],
  [{ a: 'text' }, 422],
  [null, 422],
  [5, 422],
  [undefined, 422],
])('an embedding of %j is never free: %i at balance zero', async (input, status) => {
  const org = await makeOrg(world.api.db);
  const key = await gatewayKey(world.api, org.org_id);
  const body = { model: 'text-embedding-3-small', input };
  expect((await post(`${world.url}/v1/embeddings`, key, body)).status).toBe(status);
});

test('usage that the ledger refuses is charged by the estimate, never nothing', async () => {
  const content = 'Hello [[fault:usage prompt=9007199254740991]]';
  const answer = await post(world.url + path, world.key, chat(content, { model: 'gpt-4o' }));
  expect(answer.status).toBe(200);
  const charge = await lastCharge(world, world.org.org_id);
  expect(charge).toMatchObject({ status: 'settled', usage_source: 'estimated' });
  expect(charge.actual_cost_nanos).toBe(charge.held_nanos);
});
