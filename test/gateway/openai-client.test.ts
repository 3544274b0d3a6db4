import OpenAI, { APIError } from 'openai';
import { caller, makeTenant } from '../support/api';
import {
  arrivals,
  forgetArrivals,
  gatewayKey,
  lastCharge,
  openWorld,
  type World,
} from '../support/gateway';
import { balance, credit, makeOrg } from '../support/ledger';

let world: World;
let client: OpenAI;

beforeAll(async () => {
  world = await openWorld();
  client = new OpenAI({ baseURL: `${world.url}/v1`, apiKey: world.key });
});

afterAll(() => world.close());

const messages = [{ role: 'user' as const, content: 'Say hello.' }];
const tools = ['weather', 'time'].map((name) => ({
  type: 'function' as const,
  function: { name, parameters: { type: 'object', properties: { city: { type: 'string' } } } },
}));

/**
 * A client that counts its requests: an answer that the official client repeats by itself counts
 * more than once.
 */
function counting(apiKey: string) {
  const sent = { requests: 0 };
  const counted: typeof fetch = (input, init) => {
    sent.requests += 1;
    return fetch(input, init);
  };
  return { sent, client: new OpenAI({ baseURL: `${world.url}/v1`, apiKey, fetch: counted }) };
}

async function errorOf(call: Promise<unknown>): Promise<APIError> {
  const error = await call.then(
    () => undefined,
    (reason) => reason,
  );
  expect(error).toBeInstanceOf(APIError);
  return error;
}

test('JSON: the answer arrives, its tokens are charged at their price to the nano', async () => {
  const body = { model: 'gpt-4o-mini', messages };
  const { usage, choices } = await client.chat.completions.create(body);
  expect(choices[0]?.message.content).toContain('Say hello.');
  const charge = await lastCharge(world, world.org.org_id);
  const expected =
    BigInt(usage?.prompt_tokens ?? 0) * 150n + BigInt(usage?.completion_tokens ?? 0) * 600n;
  expect(charge).toMatchObject({
    status: 'settled',
    usage_source: 'upstream',
    actual_cost_nanos: expected,
  });
});

test('a stream arrives chunk by chunk; usage that was not asked for is asked from the upstream and not shown', async () => {
  await forgetArrivals(world.models_url);
  let text = '';
  for await (const chunk of await client.chat.completions.create({
    model: 'gpt-4o-mini',
    messages,
    stream: true,
  })) {
    text += chunk.choices[0]?.delta.content ?? '';
    expect(chunk.choices.length).toBeGreaterThan(0);
  }
  expect(text).toContain('Say hello.');
  const [arrived] = await arrivals(world.models_url);
  expect(arrived?.body.stream_options).toEqual({ include_usage: true });
  const charge = await lastCharge(world, world.org.org_id);
  expect(charge).toMatchObject({ usage_source: 'upstream', outcome: 'completed' });
  expect(charge.actual_cost_nanos).toBeGreaterThan(0n);
});

test('usage that was asked for is shown', async () => {
  const stream = await client.chat.completions.create({
    model: 'gpt-4o-mini',
    messages,
    stream: true,
    stream_options: { include_usage: true },
  });
  let usage: unknown;
  for await (const chunk of stream) usage = chunk.usage ?? usage;
  expect(usage).toMatchObject({ prompt_tokens: expect.any(Number) });
});

test('parallel tool calls arrive untouched, in JSON and interleaved in a stream', async () => {
  const body = {
    model: 'gpt-4o-mini',
    messages: [{ role: 'user' as const, content: 'Use all of them.' }],
    tools,
  };
  const direct = new OpenAI({ baseURL: `${world.models_url}/v1`, apiKey: 'direct' });
  const answers = [client, direct].map((one) => one.chat.completions.create(body));
  const [here, there] = await Promise.all(answers);
  expect(here?.choices[0]?.message.tool_calls).toHaveLength(2);
  expect(here?.choices).toEqual(there?.choices);
  const streams = [client, direct].map(async (one) => {
    const chunks = [];
    for await (const chunk of await one.chat.completions.create({ ...body, stream: true }))
      chunks.push(chunk.choices);
    return chunks;
  });
  const [piecesHere, piecesThere] = await Promise.all(streams);
  expect(piecesHere).toEqual(piecesThere);
  const indexes = piecesHere?.flatMap((choices) => choices[0]?.delta.tool_calls?.[0]?.index ?? []);
  expect(indexes?.slice(0, 4)).toEqual([0, 1, 0, 1]);
  const final = await client.chat.completions.stream(body).finalChatCompletion();
  expect(final.choices[0]?.message.tool_calls).toMatchObject(
    there?.choices[0]?.message.tool_calls ?? [],
  );
});

test('embeddings: floats arrive through the base64 that the client asks for, and cost their tokens', async () => {
  const { data, usage } = await client.embeddings.create({
    model: 'text-embedding-3-small',
    input: ['one', 'two'],
  });
  expect(data).toHaveLength(2);
  expect(data[0]?.embedding[0]).toEqual(expect.any(Number));
  expect((await lastCharge(world, world.org.org_id)).actual_cost_nanos).toBe(
    BigInt(usage.prompt_tokens) * 20n,
  );
});

test('models: one is shown, an unknown one is 404', async () => {
  expect((await client.models.list()).data.map(({ id }) => id)).toContain('o4-mini');
  expect(await client.models.retrieve('gpt-4o')).toMatchObject({ id: 'gpt-4o', object: 'model' });
  expect(await errorOf(client.models.retrieve('some/model:x'))).toMatchObject({
    status: 404,
    code: 'model_not_found',
  });
});

test('errors reach the client as its own exceptions with their codes', async () => {
  const ask = (one: OpenAI, model: string) => one.chat.completions.create({ model, messages });
  const stranger = new OpenAI({ baseURL: `${world.url}/v1`, apiKey: 'svc_gk_nonsense' });
  expect(await errorOf(ask(stranger, 'gpt-4o-mini'))).toMatchObject({
    status: 401,
    code: 'invalid_credential',
    type: 'authentication_error',
  });
  expect(await errorOf(ask(client, 'none'))).toMatchObject({
    status: 404,
    code: 'model_not_found',
    param: 'model',
  });
  expect(await errorOf(ask(client, 'unpriced'))).toMatchObject({
    status: 422,
    code: 'model_not_priced',
    message: expect.stringContaining(
      'There is no price for the model "unpriced" of the provider "openai". A platform admin must set one: POST /v1/admin/model-pricing.',
    ),
  });
});

test('a model that the key may not use is refused once, as 403', async () => {
  const allowed_models = ['gpt-4o'];
  const key = await gatewayKey(world.api, world.org.org_id, { allowed_models });
  const narrow = counting(key);
  const call = narrow.client.chat.completions.create({ model: 'gpt-4o-mini', messages });
  const error = await errorOf(call);
  expect(error).toMatchObject({ status: 403, code: 'model_not_allowed', param: 'model' });
  expect(narrow.sent.requests).toBe(1);
});

test("a request beyond its agent's cap is refused once, and told when the cap ends", async () => {
  const { org_id, wallet_id, agent_id, owner_key } = await makeTenant(world.api.db);
  await credit(world.api.db, org_id, wallet_id, 1_000_000_000n);
  const made = await caller(world.api.url)('post', `/v1/agents/${agent_id}/usage-constraints`, {
    key: owner_key,
    body: {
      constraint_type: 'responses',
      provider: 'openai',
      model_pattern: 'gpt-4o*',
      max_value: 1,
      interval: 'month',
      enforcement_mode: 'reject',
    },
  });
  expect(made.status).toBe(201);
  const capped = counting(await gatewayKey(world.api, org_id, { agent_id }));
  const ask = () => capped.client.chat.completions.create({ model: 'gpt-4o-mini', messages });
  await ask();
  const before = Date.now();
  const error = await errorOf(ask());
  const after = Date.now();
  expect(error).toMatchObject({ status: 429, code: 'usage_constraint_exceeded' });
  const { resets_at } = error.error as { resets_at: string };
  const leftAt = (moment: number) => (Date.parse(resets_at) - moment) / 1_000;
  const retry_after = Number(error.headers?.get('retry-after'));
  expect(retry_after).toBeLessThan(leftAt(before) + 5);
  expect(retry_after).toBeGreaterThan(leftAt(after) - 5);
  expect(error.headers?.get('x-should-retry')).toBe('false');
  expect(capped.sent.requests).toBe(2);
});

test('a request that no wallet covers is refused once, with the ticket in the exception; nothing goes upstream', async () => {
  const poor = await makeOrg(world.api.db);
  await credit(world.api.db, poor.org_id, poor.org_wallet, 1n);
  const broke = counting(await gatewayKey(world.api, poor.org_id));
  await forgetArrivals(world.models_url);
  const call = broke.client.chat.completions.create({ model: 'gpt-4o-mini', messages });
  const error = await errorOf(call);
  expect(error).toMatchObject({ status: 402, code: 'insufficient_balance', type: 'billing_error' });
  expect(error.error).toMatchObject({
    cost_ticket: {
      id: expect.stringMatching(/^ticket_/),
      shortfall: expect.any(Number),
      expires_at: expect.any(String),
    },
  });
  expect(error.headers?.get('x-should-retry')).toBe('false');
  expect(broke.sent.requests).toBe(1);
  expect(await arrivals(world.models_url)).toEqual([]);
});

test.each([400, 429, 500])(
  'an upstream %i reaches the client as it came, the client repeats what it would repeat directly, each hold is released',
  async (status) => {
    const org = await makeOrg(world.api.db);
    await credit(world.api.db, org.org_id, org.org_wallet, 1_000_000_000n);
    const failing = counting(await gatewayKey(world.api, org.org_id));
    const body = {
      model: 'gpt-4o-mini',
      messages: [{ role: 'user' as const, content: `[[fault:error status=${status}]]` }],
    };
    const call = failing.client.chat.completions.create(body, { maxRetries: 1 });
    const error = await errorOf(call);
    expect(error).toMatchObject({ status, code: 'sandbox', message: expect.any(String) });
    if (status === 429) expect(error.headers?.get('retry-after')).toBe('1');
    expect(failing.sent.requests).toBe(status === 400 ? 1 : 2);
    expect(await lastCharge(world, org.org_id)).toMatchObject({
      status: 'released',
      actual_cost_nanos: 0n,
    });
    expect(await balance(world.api.db, org.org_wallet)).toEqual({
      balance_nanos: 1_000_000_000n,
      reserved_nanos: 0n,
    });
  },
);
