import { countTokens } from 'gpt-tokenizer/encoding/o200k_base';
import OpenAI, { APIError } from 'openai';
import { request } from 'undici';
import {
  arrivals,
  forgetArrivals,
  gatewayKey,
  lastCharge,
  openWorld,
  post,
  type World,
} from '../../support/gateway';
import { credit, makeOrg } from '../../support/ledger';

let world: World;
let client: OpenAI;
const path = '/v1/responses';
const model = 'gpt-4o-mini';
const exact = { status: 'settled', usage_source: 'upstream', outcome: 'completed' };

beforeAll(async () => {
  world = await openWorld();
  client = new OpenAI({ baseURL: `${world.url}/v1`, apiKey: world.key, maxRetries: 0 });
});

afterAll(() => world.close());

const last = () => lastCharge(world, world.org.org_id);

function ask(input: string, more: object = {}, url = world.url) {
  return post(url + path, world.key, { model, input, max_output_tokens: 64, ...more });
}

async function errorOf(call: PromiseLike<unknown>): Promise<APIError> {
  const error = await call.then(
    () => undefined,
    (reason) => reason,
  );
  expect(error).toBeInstanceOf(APIError);
  return error;
}

function costOf(usage: OpenAI.Responses.ResponseUsage | null | undefined): bigint {
  return BigInt(usage?.input_tokens ?? 0) * 150n + BigInt(usage?.output_tokens ?? 0) * 600n;
}

test('JSON: the answer arrives, its tokens are charged at their price to the nano', async () => {
  const answer = await client.responses.create({ model, input: 'Say hello.' });
  expect(answer.output_text).toContain('Say hello.');
  const charge = await last();
  expect(charge).toMatchObject({ ...exact, actual_cost_nanos: costOf(answer.usage) });
});

test('a stream arrives event by event, and is charged by the usage of its last event', async () => {
  const stream = client.responses.stream({ model, input: 'Say hello.' });
  const types: string[] = [];
  for await (const event of stream) types.push(event.type);
  const final = await stream.finalResponse();
  expect(final.output_text).toContain('Say hello.');
  expect(types.slice(0, 2)).toEqual(['response.created', 'response.in_progress']);
  expect(types.at(-1)).toBe('response.completed');
  const charge = await last();
  expect(charge).toMatchObject({ ...exact, actual_cost_nanos: costOf(final.usage) });
});

test.each([{}, { stream: true }])(
  'cached and reasoning tokens are charged once, at their price: %j',
  async (more) => {
    const cached = 'Hello [[fault:usage prompt=100 completion=10 cached=40]]';
    expect((await ask(cached, more)).status).toBe(200);
    const charge = await last();
    expect(charge).toMatchObject({ ...exact, usage: { prompt_tokens: 100, cached_tokens: 40 } });
    expect(charge.actual_cost_nanos).toBe(60n * 150n + 40n * 75n + 10n * 600n);
    const reasoned = { ...more, model: 'o4-mini', max_output_tokens: 128 };
    expect((await ask('Hello', reasoned)).status).toBe(200);
    const { usage, actual_cost_nanos } = await last();
    expect(usage.reasoning_tokens).toBe(64);
    const { prompt_tokens = 0, completion_tokens = 0 } = usage;
    expect(completion_tokens).toBeGreaterThan(64);
    expect(actual_cost_nanos).toBe(
      BigInt(prompt_tokens) * 1_100n + BigInt(completion_tokens) * 4_400n,
    );
  },
);

test('tools and structured output arrive untouched', async () => {
  const tools = ['weather', 'time'].map((name) => ({
    type: 'function' as const,
    name,
    strict: false,
    parameters: { type: 'object', properties: { city: {} } },
  }));
  const body = { model, input: 'Use all of them.', tools };
  const called = await client.responses.create(body);
  expect(called.output.map(({ type }) => type)).toEqual(['function_call', 'function_call']);
  const streamed = await client.responses.stream(body).finalResponse();
  expect(streamed.output).toMatchObject(called.output);
  const text = { format: { type: 'json_object' as const } };
  const { output_text } = await client.responses.create({ model, input: 'Hello', text });
  expect(JSON.parse(output_text)).toEqual({ echo: 'Hello' });
});

test('the hold is made for the input, all its items and instructions, and the cap', async () => {
  const held = async (body: object) => {
    expect((await post(world.url + path, world.key, { model, ...body })).status).toBe(200);
    return (await last()).held_nanos;
  };
  const words = 'Say something long and kind.';
  const plain = await held({ input: words, max_output_tokens: 100 });
  expect(plain).toBe(BigInt(3 + 4 + countTokens(words)) * 150n + 100n * 600n);
  const content = [{ type: 'input_text', text: words }];
  const input = [
    { role: 'user', content },
    { role: 'user', content },
  ];
  const instructions = 'Be brief.';
  const more = await held({ input, instructions, max_output_tokens: 50 });
  const tokens = 3 + 2 * (4 + countTokens(words)) + countTokens(instructions);
  expect(more).toBe(BigInt(tokens) * 150n + 50n * 600n);
});

test('an earlier response that only the provider sees adds the configured surcharge to the hold; its real tokens are charged', async () => {
  const settings = { estimates: { unseen_input_tokens: 1_000 } };
  const { url } = await world.openGateway({ settings });
  const first = await ask('Remember the word marmalade. '.repeat(20), {}, url);
  const { id, usage } = JSON.parse(first.text);
  const alone = await last();
  const body = 'And now? ';
  await ask(body, {}, url);
  const fresh = await last();
  expect((await ask(body, { previous_response_id: id }, url)).status).toBe(200);
  const going_on = await last();
  expect(going_on.held_nanos - fresh.held_nanos).toBe(1_000n * 150n);
  expect(going_on.usage.prompt_tokens).toBe((fresh.usage.prompt_tokens ?? 0) + usage.total_tokens);
  expect(going_on.actual_cost_nanos).toBeGreaterThan(fresh.actual_cost_nanos);
  expect(alone.held_nanos).toBeGreaterThan(0n);
});

test.each<[string, object, number, bigint?]>([
  ['a conversation', { conversation: 'conv_1' }, 1],
  ['a stored prompt', { prompt: { id: 'pmpt_1' } }, 1],
  [
    'a stored file',
    { input: [{ role: 'user', content: [{ type: 'input_file', file_id: 'f' }] }] },
    1,
  ],
  ['items by reference', { input: [{ type: 'item_reference', id: 'a' }, { id: 'b' }] }, 2],
  ['a tool that the provider runs', { tools: [{ type: 'web_search' }] }, 1, 100_000_000n],
])('input that is not in the body adds the surcharge: %s', async (_, body, pieces, fee = 0n) => {
  const { url } = await world.openGateway({ settings: { stored_ids: 'pass' } });
  expect((await ask('Hello', body, url)).status).toBe(200);
  const { held_nanos } = await last();
  const least = BigInt(pieces) * 4_096n * 150n + 64n * 600n + fee;
  expect(held_nanos).toBeGreaterThan(least);
  expect(held_nanos).toBeLessThan(least + 100n * 150n);
});

test.each<[string, number, object, string]>([
  ['an unknown model', 404, { model: 'none' }, 'model'],
  ['a model of another wire', 404, { model: 'claude-sonnet-4-5' }, 'model'],
])('bad input: %s is refused with %i, nothing goes upstream', async (_, status, more, param) => {
  await forgetArrivals(world.models_url);
  const answer = await ask('Hello', more);
  expect(answer.status).toBe(status);
  expect(JSON.parse(answer.text)).toMatchObject({ error: { param, code: expect.any(String) } });
  expect(await arrivals(world.models_url)).toEqual([]);
});

test('a request that no wallet covers is refused once, with its ticket in the exception', async () => {
  const poor = await makeOrg(world.api.db);
  const broke = new OpenAI({
    baseURL: `${world.url}/v1`,
    apiKey: await gatewayKey(world.api, poor.org_id),
  });
  await forgetArrivals(world.models_url);
  for (const stream of [false, true]) {
    const error = await errorOf(broke.responses.create({ model, input: 'Hello', stream }));
    expect(error).toMatchObject({ status: 402, code: 'insufficient_balance' });
    expect(error.error).toMatchObject({ cost_ticket: { id: expect.stringMatching(/^ticket_/) } });
  }
  expect(await arrivals(world.models_url)).toEqual([]);
});

test.each(['none', 'crlf', 'cr', 'bytes', 'big-line size=1000000', 'gzip'])(
  'a stream with %s reaches the client as it came and is metered',
  async (fault) => {
    const more = { stream: true, max_output_tokens: 500_000 };
    const { text } = await ask(`Gr\u00fc\u00dfe \u{1f44b} [[fault:${fault}]]`, more);
    expect(text).toContain('event: response.completed');
    const output = Number(/.*"output_tokens":(\d+)/s.exec(text)?.[1]);
    expect(await last()).toMatchObject({ ...exact, usage: { completion_tokens: output } });
  },
);

test.each(['cut after=8', 'end after=8'])(
  "a stream that breaks (%s) throws in the client's loop with the next number, and what came is charged by count",
  async (fault) => {
    const input = `Hello [[fault:${fault}]] [[fault:chunks count=200]]`;
    const seen: number[] = [];
    const reading = (async () => {
      for await (const event of await client.responses.create({ model, input, stream: true }))
        seen.push(event.sequence_number);
    })();
    expect(await errorOf(reading)).toMatchObject({ code: 'upstream_failed', type: 'api_error' });
    expect(seen).toEqual([0, 1, 2, 3, 4, 5, 6, 7]);
    const charge = await last();
    expect(charge).toMatchObject({ status: 'settled', usage_source: 'estimated' });
    expect(charge.usage.completion_tokens).toBe(4);
    const { text } = await ask(input, { stream: true });
    const error = JSON.parse(text.split('event: error\ndata: ')[1] ?? '');
    expect(error).toMatchObject({ type: 'error', sequence_number: 8, code: 'upstream_failed' });
  },
);

test.each([{}, { stream: true }])('an answer that says it failed is not paid: %j', async (more) => {
  const { status, text } = await ask('Hello [[fault:fail]]', more);
  expect([status, JSON.parse(text).error.message]).toEqual([502, expect.any(String)]);
  expect(await last()).toMatchObject({ status: 'released', actual_cost_nanos: 0n });
});

test.each([{}, { stream: true }])(
  'usage that never comes is estimated, never zero: %j',
  async (more) => {
    expect((await ask('Hello there [[fault:no-usage]]', more)).status).toBe(200);
    const charge = await last();
    expect(charge).toMatchObject({ status: 'settled', usage_source: 'estimated' });
    expect(charge.usage.prompt_tokens).toBeGreaterThan(5);
    expect(charge.usage.completion_tokens).toBeGreaterThan(5);
    await ask('Hello there [[fault:no-usage]]', { ...more, model: 'o4-mini' });
    const reasoned = await last();
    expect(reasoned.actual_cost_nanos).toBe(reasoned.held_nanos);
  },
);

test("a client that leaves early pays for the whole answer, by the upstream's own usage", async () => {
  const org = await makeOrg(world.api.db);
  await credit(world.api.db, org.org_id, org.org_wallet, 1_000_000_000n);
  const key = await gatewayKey(world.api, org.org_id);
  const input = 'Hello [[fault:chunks count=200]] [[fault:slow delay=5]]';
  const answer = await request(world.url + path, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${key}` },
    body: JSON.stringify({ model, input, stream: true }),
  });
  for await (const chunk of answer.body) if (String(chunk).includes('delta')) break;
  const charge = await lastCharge(world, org.org_id);
  expect(charge).toMatchObject(exact);
  expect(charge.usage.completion_tokens).toBeGreaterThanOrEqual(200);
});
