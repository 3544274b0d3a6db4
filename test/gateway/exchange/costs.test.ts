import { many } from '../../../domain/sql';
import {
  arrivals,
  chat,
  forgetArrivals,
  gatewayKey,
  message,
  post,
  type World,
} from '../../support/gateway';
import { ask, type Costs, nanosOf, openCosts, withoutCost } from './costly';

let costs: Costs;
let world: World;

beforeAll(async () => {
  costs = await openCosts();
  ({ world } = costs);
});

afterAll(() => costs.close());

const calls = {
  '/v1/chat/completions': chat('Hello'),
  '/v1/unified/chat/completions': { ...chat('Hello'), model: 'claude-sonnet-4-5' },
  '/v1/responses': { model: 'gpt-4o-mini', input: 'Hello' },
  '/v1/messages': message('Hello'),
  '/v1/embeddings': { model: 'text-embedding-3-small', input: 'Hello' },
  '/v1/completions': { model: 'gpt-4o-mini', prompt: 'Hello' },
};

test.each(Object.entries(calls))(
  'an answer of %s tells its cost in its usage and a header, and nothing else of it changes',
  async (path, body) => {
    const plain = await post(world.url + path, world.key, body);
    expect(plain.text).not.toContain('"cost"');
    expect(plain.headers['x-svc-cost']).toBeUndefined();
    const told = await post(world.url + path, world.key, body, ask);
    const answer = JSON.parse(told.text);
    await costs.expectCost(answer);
    expect(told.headers['x-svc-cost']).toBe(answer.usage.cost_details.cost);
    expect(told.headers['x-svc-cost-currency']).toBe('USD');
    const same = (text: string) =>
      withoutCost(text).replaceAll(/"(?:id|item_id)":"[^"]*"|"created(?:_at)?":\d+/g, '');
    expect(same(told.text)).toBe(same(plain.text));
  },
);

test('a free call says 0, and one of a price below a millionth says it in plain digits', async () => {
  const answer = JSON.stringify({
    choices: [{ message: { content: 'x' }, finish_reason: 'stop' }],
    usage: { prompt_tokens: 1, completion_tokens: 1 },
  });
  costs.scripted.play([answer], 'application/json');
  const free = await post(
    `${costs.scripted_url}/v1/chat/completions`,
    world.key,
    { ...chat('Hi'), model: 'free' },
    ask,
  );
  expect(free.text).toContain('"cost":0,"cost_details":{"cost":"0","currency":"USD","lines":[]}');
  expect(free.headers['x-svc-cost']).toBe('0');
  costs.scripted.play([answer], 'application/json');
  const small = await post(
    `${costs.scripted_url}/v1/chat/completions`,
    world.key,
    { ...chat('Hi'), model: 'priced' },
    ask,
  );
  expect(small.text).toContain('"cost":0.000000401,');
});

test('a key that is set to tells it of every call but one that says false', async () => {
  const key = await gatewayKey(world.api, world.org.org_id, { include_cost: true });
  const url = `${world.url}/v1/chat/completions`;
  await costs.expectCost(JSON.parse((await post(url, key, chat('Hello'))).text));
  const { text, headers } = await post(url, key, chat('Hello'), { 'x-svc-include-cost': 'false' });
  expect(text).not.toContain('"cost"');
  expect(headers['x-svc-cost']).toBeUndefined();
});

test('what has no usage tells its cost in its head or behind it: sound, moderations, counts', async () => {
  const sound = await costs.stream(`${world.url}/v1/audio/speech`, {
    model: 'gpt-4o-mini-tts',
    voice: 'alloy',
    input: 'Hello',
  });
  expect(nanosOf(sound.trailers['x-svc-cost'] ?? '')).toBe(await costs.charge());
  const free = await post(`${world.url}/v1/moderations`, world.key, { input: 'Hello' }, ask);
  expect(free.headers['x-svc-cost']).toBe('0');
  const count = await post(
    `${world.url}/v1/messages/count_tokens`,
    world.key,
    message('Hello'),
    ask,
  );
  expect(count.headers['x-svc-cost']).toBe('0');
});

test('an answer that a policy withholds was paid for, and its refusal tells the cost', async () => {
  const { url } = await world.openGateway({
    settings: {
      pack: 'baseline',
      policies: { chain: ['dlp-filter'] },
      policy: { 'dlp-filter': { blocked_terms: ['You said'], stages: ['output'] } },
    },
  });
  const refused = await post(`${url}/v1/chat/completions`, world.key, chat('Hello'), ask);
  expect(refused.status).toBe(409);
  const nanos = await costs.charge();
  expect(nanos).toBeGreaterThan(0n);
  expect(nanosOf(String(refused.headers['x-svc-cost']))).toBe(nanos);
});

test('a compressed answer comes in plain bytes if it has a usage to tell its cost in', async () => {
  const body = chat('Hello [[fault:gzip]]');
  const { text, headers } = await post(`${world.url}/v1/chat/completions`, world.key, body, ask);
  expect(headers['content-encoding']).toBeUndefined();
  await costs.expectCost(JSON.parse(text));
});

test('a header of another word is 422 before anything is held', async () => {
  const { status, text } = await post(`${world.url}/v1/chat/completions`, world.key, chat('Hi'), {
    'x-svc-include-cost': 'yes',
  });
  expect([status, JSON.parse(text).error.param]).toEqual([422, 'x-svc-include-cost']);
  expect(JSON.parse(text).error.message).toContain('true or false');
});

test("a client's own x-svc headers stay off the way upstream", async () => {
  await forgetArrivals(world.models_url);
  const more = { ...ask, 'x-svc-tags': 'a', 'x-svc-anything': 'b', 'x-svc-hold-ms': '0' };
  for (const [path, body] of Object.entries(calls))
    await post(world.url + path, world.key, body, more);
  const arrived = await arrivals(world.models_url);
  expect(arrived).toHaveLength(Object.keys(calls).length);
  for (const { headers } of arrived)
    expect(Object.keys(headers).filter((name) => name.startsWith('x-svc'))).toEqual([]);
});

test('every answer has the id by which the ledger knows the call, also a refusal', async () => {
  const url = `${world.url}/v1/chat/completions`;
  const { headers } = await post(url, world.key, chat('Hello'), { 'x-request-id': 'mine' });
  await costs.charge();
  const [row] = await many<{ request_id: string }>(
    world.api.db,
    'select request_id from reservations where org_id = :org_id order by created_at desc, id desc limit 1',
    { org_id: world.org.org_id },
  );
  expect([headers['x-request-id'], headers['x-svc-request-id']]).toEqual(['mine', row?.request_id]);
  const refused = [
    await post(url, 'svc_gk_wrong', chat('Hello')),
    await post(url, world.key, 'no json'),
    await post(url, world.key, chat('Hello', { max_tokens: 300_000_000 })),
    await post(`${world.url}/v1/nowhere`, world.key, {}),
  ];
  expect(refused.map(({ status }) => status)).toEqual([401, 400, 402, 404]);
  for (const { headers: told } of refused) expect(told['x-svc-request-id']).toMatch(/^req_/);
});
