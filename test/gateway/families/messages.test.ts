import Anthropic from '@anthropic-ai/sdk';
import { request } from 'undici';
import {
  arrivals,
  forgetArrivals,
  lastCharge,
  message,
  openWorld,
  post,
  type World,
} from '../../support/gateway';
import { until } from '../../support/until';

let world: World;
let client: Anthropic;
const path = '/v1/messages';
const model = 'claude-sonnet-4-5';
const exact = { status: 'settled', usage_source: 'upstream', outcome: 'completed' };
const versioned = { 'anthropic-version': '2023-06-01' };

// The client tells when models reach their end.
beforeEach(() => void jest.spyOn(console, 'warn').mockImplementation(() => undefined));

beforeAll(async () => {
  world = await openWorld();
  client = new Anthropic({ baseURL: world.url, apiKey: world.key });
});

afterAll(() => world.close());

const last = () => lastCharge(world, world.org.org_id);
const user = (content: string) => [{ role: 'user' as const, content }];

/** Nanos of what a usage costs at this model's prices. */
function costOf(usage: Anthropic.Usage): bigint {
  const written_1h = usage.cache_creation?.ephemeral_1h_input_tokens ?? 0;
  const written_5m = usage.cache_creation?.ephemeral_5m_input_tokens ?? 0;
  return (
    BigInt(usage.input_tokens) * 3_000n +
    BigInt(usage.cache_read_input_tokens ?? 0) * 300n +
    BigInt(written_5m) * 3_750n +
    BigInt(written_1h) * 6_000n +
    BigInt(usage.output_tokens) * 15_000n
  );
}

test('JSON: the answer arrives, its tokens are charged at their price to the nano; neither key goes upstream', async () => {
  await forgetArrivals(world.models_url);
  const { content, usage } = await client.messages.create({
    model,
    max_tokens: 64,
    messages: user('Say hello.'),
  });
  expect(content[0]).toMatchObject({ type: 'text', text: expect.stringContaining('Say hello.') });
  const charge = await last();
  expect(charge).toMatchObject({ ...exact, actual_cost_nanos: costOf(usage) });
  const [arrived] = await arrivals(world.models_url);
  expect(arrived?.headers['x-api-key']).toBe('upstream-secret');
  expect(arrived?.headers.authorization).toBeUndefined();
  expect(arrived?.headers['anthropic-version']).toEqual(expect.stringMatching(/^20\d\d-/));
  expect(JSON.stringify(arrived)).not.toContain(world.key);
});

test('a stream arrives event by event, and costs what its events say', async () => {
  const stream = client.messages.stream({ model, max_tokens: 64, messages: user('Say hello.') });
  const final = await stream.finalMessage();
  expect(final.content[0]).toMatchObject({ text: expect.stringContaining('Say hello.') });
  const charge = await last();
  expect(charge).toMatchObject(exact);
  expect(charge.actual_cost_nanos).toBe(costOf(final.usage));
});

test.each(['5m', '1h'] as const)(
  'a prompt cached for %s costs its write once and its read after, each at its price; all of it is prompt',
  async (ttl) => {
    const text = `Be brief (${ttl}). ${'Rules follow. '.repeat(100)}`;
    const system = [
      { type: 'text' as const, text, cache_control: { type: 'ephemeral' as const, ttl } },
    ];
    const body = { model, max_tokens: 64, system, messages: user('Hello') };
    const first = await client.messages.create(body);
    const written = first.usage.cache_creation_input_tokens ?? 0;
    expect(written).toBeGreaterThan(200);
    const write = await last();
    expect(write.actual_cost_nanos).toBe(costOf(first.usage));
    const split =
      ttl === '1h' ? { cache_write_1h_tokens: written } : { cache_write_tokens: written };
    expect(write.usage).toMatchObject({
      ...split,
      prompt_tokens: first.usage.input_tokens + written,
      cached_tokens: 0,
    });
    const second = await client.messages.stream(body).finalMessage();
    expect(second.usage.cache_read_input_tokens).toBe(written);
    const read = await last();
    expect(read.actual_cost_nanos).toBe(costOf(second.usage));
    expect(read.usage).toMatchObject({
      prompt_tokens: second.usage.input_tokens + written,
      cached_tokens: written,
    });
  },
);

test('all figures at once, in JSON and in a stream: input, cache read, both writes, thoughts, searches', async () => {
  const fault =
    'usage prompt=100 cached=40 write=30 write1h=20 completion=50 reasoning=10 searches=2';
  const cost = 100n * 3_000n + 40n * 300n + 30n * 3_750n + 20n * 6_000n + 50n * 15_000n;
  for (const stream of [false, true]) {
    const body = message(`Hello [[fault:${fault}]]`, { stream });
    expect((await post(world.url + path, world.key, body, versioned)).status).toBe(200);
    const charge = await last();
    expect(charge).toMatchObject({ ...exact, actual_cost_nanos: cost + 2n * 10_000_000n });
    expect(charge.usage).toMatchObject({
      prompt_tokens: 190,
      cached_tokens: 40,
      cache_write_tokens: 30,
      cache_write_1h_tokens: 20,
      completion_tokens: 50,
      reasoning_tokens: 10,
      web_searches: 2,
    });
  }
});

test('what making a conversation shorter took is charged too, in JSON and in a stream', async () => {
  const fault = 'usage prompt=100 completion=50 compaction=1000';
  for (const stream of [false, true]) {
    const body = message(`Hello [[fault:${fault}]]`, { stream });
    await post(world.url + path, world.key, body, versioned);
    expect(await last()).toMatchObject({
      ...exact,
      actual_cost_nanos: (100n + 1_000n) * 3_000n + (50n + 100n) * 15_000n,
    });
  }
});

test('tools and thoughts arrive untouched, in JSON and in a stream', async () => {
  const tools = ['weather', 'time'].map((name) => ({
    name,
    input_schema: { type: 'object' as const, properties: { city: {} } },
  }));
  const thinking = { type: 'enabled' as const, budget_tokens: 1_024 };
  const body = { model, max_tokens: 2_048, tools, thinking, messages: user('Use all of them.') };
  const direct = new Anthropic({ baseURL: world.models_url, apiKey: 'direct' });
  const there = await direct.messages.create(body);
  expect(there.content.map(({ type }) => type)).toEqual(['thinking', 'tool_use', 'tool_use']);
  expect(await client.messages.create(body)).toEqual(there);
  expect((await client.messages.stream(body).finalMessage()).content).toEqual(there.content);
});

test.each(['none', 'crlf', 'cr', 'bytes', 'big-line size=1000000', 'comments count=3 delay=5'])(
  'a stream with %s reaches the client byte for byte and is metered',
  async (fault) => {
    const body = message(`Gr\u00fc\u00dfe \u{1f44b} [[fault:${fault}]]`, {
      stream: true,
      max_tokens: 500_000,
    });
    const direct = await post(world.models_url + path, 'direct', body, versioned);
    const through = await post(world.url + path, world.key, body, versioned);
    expect(through.bytes.equals(direct.bytes)).toBe(true);
    const output = Number(/.*"output_tokens":(\d+)/s.exec(direct.text)?.[1]);
    const charge = await last();
    expect(charge).toMatchObject({ ...exact, usage: { completion_tokens: output } });
  },
);

test('the key is taken from x-api-key as from a bearer; a wrong one is 401 in both', async () => {
  const send = (headers: Record<string, string>) =>
    post(world.url + path, undefined, message('Hello'), { ...versioned, ...headers });
  expect((await send({ 'x-api-key': world.key })).status).toBe(200);
  expect((await send({ authorization: `Bearer ${world.key}` })).status).toBe(200);
  expect((await send({ 'x-api-key': world.key, authorization: 'Bearer other' })).status).toBe(200);
  expect((await send({ 'x-api-key': 'svc_gk_nonsense' })).status).toBe(401);
  expect((await send({})).status).toBe(401);
});

test('a client that names no version gets the oldest; version and beta of one that does go upstream', async () => {
  await forgetArrivals(world.models_url);
  await post(world.url + path, world.key, message('Hello'));
  const beta = { 'anthropic-version': '2026-10-21', 'anthropic-beta': 'context-1m', cookie: 'a=1' };
  await post(world.url + path, world.key, message('Hello'), beta);
  const [plain, named] = await arrivals(world.models_url);
  expect(plain?.headers['anthropic-version']).toBe('2023-06-01');
  const { cookie: _, ...passed } = beta;
  expect(named?.headers).toMatchObject(passed);
  expect(named?.headers.cookie).toBeUndefined();
});

test('a cap of zero, which warms a cache, is taken', async () => {
  const body = message('Hello', { max_tokens: 0 });
  expect((await post(world.url + path, world.key, body, versioned)).status).toBe(200);
  const charge = await last();
  expect(charge).toMatchObject(exact);
  expect(charge.actual_cost_nanos).toBeGreaterThan(0n);
});

test('a provider that fails before it has said anything is not paid', async () => {
  const body = message('Hello [[fault:error-frame after=0]]', { stream: true });
  const { status, text } = await post(world.url + path, world.key, body, versioned);
  expect([status, JSON.parse(text).type]).toEqual([502, 'error']);
  expect(await last()).toMatchObject({ status: 'released', actual_cost_nanos: 0n });
});

test.each([{}, { stream: true }])(
  'usage that never comes is estimated, never zero: %j',
  async (more) => {
    const body = message('Hello there [[fault:no-usage]]', more);
    expect((await post(world.url + path, world.key, body, versioned)).status).toBe(200);
    const charge = await last();
    expect(charge).toMatchObject({ status: 'settled', usage_source: 'estimated' });
    expect(charge.usage.prompt_tokens).toBeGreaterThan(5);
    expect(charge.usage.completion_tokens).toBeGreaterThan(5);
  },
);

/** Reads so many events of a stream, then goes away. */
async function leaveAfter(events: number, content: string, url = world.url) {
  const answer = await request(url + path, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-api-key': world.key, ...versioned },
    body: JSON.stringify(message(content, { stream: true, max_tokens: 60_000 })),
  });
  let text = '';
  for await (const chunk of answer.body) {
    text += chunk;
    if (text.split('\n\n').length > events) break;
  }
}

test("a client that leaves early pays for the whole answer, by the upstream's own usage", async () => {
  await leaveAfter(5, 'Hello [[fault:chunks count=200]] [[fault:slow delay=5]]');
  const charge = await last();
  expect(charge).toMatchObject(exact);
  expect(charge.usage.completion_tokens).toBeGreaterThanOrEqual(200);
});

test('a client that leaves a stream longer than the drain reads pays for what came of it', async () => {
  await forgetArrivals(world.models_url);
  // It never ends by itself: sockets would take the rest of one that does.
  await leaveAfter(5, 'Hello [[fault:chunks count=50000]] [[fault:silence after=49000]]');
  const charge = await last();
  expect(charge).toMatchObject({ status: 'settled', usage_source: 'estimated' });
  expect(charge.usage.completion_tokens).toBeGreaterThan(100);
  await until(async () => Boolean((await arrivals(world.models_url))[0]?.closed_early));
});

test('a client of Anthropic lists what its key may call, in its own shape', async () => {
  const { data } = await client.models.list();
  expect(data.map(({ id }) => id)).toEqual(expect.arrayContaining([model, 'gpt-4o']));
  expect(await client.models.retrieve(model)).toMatchObject({ type: 'model', id: model });
});
