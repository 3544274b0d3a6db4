import { countTokens } from 'gpt-tokenizer/encoding/o200k_base';
import OpenAI, { APIError } from 'openai';
import {
  arrivals,
  forgetArrivals,
  gatewayKey,
  lastCharge,
  lastEntries,
  openWorld,
  post,
  type World,
} from '../../support/gateway';
import { credit, makeOrg } from '../../support/ledger';

let world: World;
let client: OpenAI;
const model = 'gpt-4o-mini';
const exact = { status: 'settled', usage_source: 'upstream', outcome: 'completed' };

beforeAll(async () => {
  world = await openWorld();
  client = new OpenAI({ baseURL: `${world.url}/v1`, apiKey: world.key, maxRetries: 0 });
});

afterAll(() => world.close());

const last = () => lastCharge(world, world.org.org_id);

function complete(body: object) {
  return post(`${world.url}/v1/completions`, world.key, { model, ...body });
}

function moderate(body: object, key = world.key) {
  return post(`${world.url}/v1/moderations`, key, body);
}

function costOf(usage: OpenAI.CompletionUsage | null | undefined): bigint {
  return BigInt(usage?.prompt_tokens ?? 0) * 150n + BigInt(usage?.completion_tokens ?? 0) * 600n;
}

test('completions, JSON: the answer arrives, its tokens are charged at their price to the nano', async () => {
  const { choices, usage } = await client.completions.create({ model, prompt: 'Say hello.' });
  expect(choices[0]?.text).toContain('Say hello.');
  expect(await last()).toMatchObject({ ...exact, actual_cost_nanos: costOf(usage) });
});

test('completions, a stream: usage that was not asked for is asked from the upstream and not shown', async () => {
  await forgetArrivals(world.models_url);
  let text = '';
  const body = { model, prompt: 'Say hello.', stream: true as const };
  for await (const chunk of await client.completions.create(body)) {
    expect(chunk.choices).toHaveLength(1);
    text += chunk.choices[0]?.text;
  }
  expect(text).toContain('Say hello.');
  const [arrived] = await arrivals(world.models_url);
  expect(arrived?.body.stream_options).toEqual({ include_usage: true });
  const streamed = await last();
  expect(streamed).toMatchObject(exact);
  await client.completions.create({ model, prompt: 'Say hello.' });
  expect((await last()).actual_cost_nanos).toBe(streamed.actual_cost_nanos);
});

const hello = countTokens('Hello');

test.each<[string, object, number, number]>([
  ['one prompt, with the cap that the provider takes', { prompt: 'Hello' }, hello, 16],
  ['a cap', { prompt: 'Hello', max_tokens: 5 }, hello, 5],
  ['a cap of zero', { prompt: 'Hello', max_tokens: 0 }, hello, 0],
  ['prompts', { prompt: ['Hello', 'Hello', 'Hello'], max_tokens: 5 }, 3 * hello, 15],
  ['tokens', { prompt: [1, 2, 3, 4], max_tokens: 5 }, 4, 5],
  ['lists of tokens', { prompt: [[1, 2], [3]], max_tokens: 5 }, 3, 10],
  ['choices of prompts', { prompt: ['Hello', 'Hello'], max_tokens: 5, n: 3 }, 2 * hello, 30],
  ['tries', { prompt: 'Hello', max_tokens: 5, n: 2, best_of: 4 }, hello, 20],
  ['no prompt', { max_tokens: 5 }, 1, 5],
])('the hold of a completion: %s', async (_, body, prompt_tokens, completion_tokens) => {
  expect((await complete(body)).status).toBe(200);
  const charge = await last();
  expect(charge.held_nanos).toBe(BigInt(prompt_tokens) * 150n + BigInt(completion_tokens) * 600n);
  expect(charge).toMatchObject({ ...exact, usage: { prompt_tokens } });
  expect(charge.actual_cost_nanos).toBeLessThanOrEqual(charge.held_nanos);
});

test.each(['cut after=3', 'end after=3'])(
  "a completion's stream that breaks (%s) throws, and what came is charged by count",
  async (fault) => {
    const prompt = `Hello [[fault:${fault}]] [[fault:chunks count=20]]`;
    const reading = (async () => {
      const body = { model, prompt, stream: true as const, max_tokens: 64 };
      for await (const _ of await client.completions.create(body));
    })();
    await expect(reading).rejects.toThrow(APIError);
    const charge = await last();
    expect(charge).toMatchObject({ status: 'settled', usage_source: 'estimated' });
    expect(charge.usage.completion_tokens).toBe(3);
  },
);

test('usage of a completion that never comes is estimated, never zero', async () => {
  for (const stream of [false, true]) {
    await complete({ prompt: 'Hello there [[fault:no-usage]]', stream });
    const charge = await last();
    expect(charge).toMatchObject({ status: 'settled', usage_source: 'estimated' });
    expect(charge.usage.prompt_tokens).toBeGreaterThan(5);
    expect(charge.usage.completion_tokens).toBeGreaterThan(5);
  }
});

test('a moderation is answered; where its price is free it holds and costs nothing, also with an empty wallet', async () => {
  const poor = await makeOrg(world.api.db);
  const key = await gatewayKey(world.api, poor.org_id);
  const one = new OpenAI({ baseURL: `${world.url}/v1`, apiKey: key });
  const { results } = await one.moderations.create({ input: ['I like violence.', 'Hello'] });
  expect(results.map(({ flagged }) => flagged)).toEqual([true, false]);
  const charge = await lastCharge(world, poor.org_id);
  expect(charge).toMatchObject({ status: 'settled', held_nanos: 0n, actual_cost_nanos: 0n });
  expect(charge.usage.prompt_tokens).toBe(countTokens('I like violence.') + hello);
});

test('a moderation that names no model is sent with the one that it was checked as', async () => {
  await forgetArrivals(world.models_url);
  expect((await moderate({ input: 'Hello' })).status).toBe(200);
  const [arrived] = await arrivals(world.models_url);
  expect(arrived?.body).toEqual({ model: 'omni-moderation-latest', input: 'Hello' });
  const key = await gatewayKey(world.api, world.org.org_id, { allowed_models: ['gpt-4o'] });
  const refused = await moderate({ input: 'Hello' }, key);
  expect(refused.status).toBe(403);
});

test('a moderation with a price is held and charged by the count of its input', async () => {
  const org = await makeOrg(world.api.db);
  await credit(world.api.db, org.org_id, org.org_wallet, 1_000_000n);
  const key = await gatewayKey(world.api, org.org_id);
  const input = [
    { type: 'text', text: 'Hello' },
    { type: 'image_url', image_url: { url: 'a' } },
  ];
  expect((await moderate({ model, input }, key)).status).toBe(200);
  expect(await lastCharge(world, org.org_id)).toMatchObject({ usage_source: 'estimated' });
  const cost = BigInt(hello + 1_105) * 150n;
  expect(await lastEntries(world, org.org_id)).toEqual([
    { type: 'reservation', amount_nanos: -cost },
    { type: 'settlement', amount_nanos: 0n },
  ]);
});

test.each<[string, number, object, string]>([
  ['an unpriced model', 422, { model: 'unpriced', input: 'Hello' }, 'model_not_priced'],
  ['an unknown model', 404, { model: 'none', input: 'Hello' }, 'model_not_found'],
])('a moderation with %s is refused with %i', async (_, status, body, code) => {
  const answer = await moderate(body);
  expect(answer.status).toBe(status);
  expect(JSON.parse(answer.text).error.code).toBe(code);
});
