import type { Server } from 'node:http';
import OpenAI from 'openai';
import { request } from 'undici';
import { listen } from '../../runtime/listen';
import { createModelServer } from '../../sandbox/models/server';
import { cpuMsOf } from '../support/cpu';

let server: Server;
let url: string;
let client: OpenAI;

beforeAll(async () => {
  server = createModelServer();
  url = `http://127.0.0.1:${await listen(server, 0)}`;
  client = new OpenAI({ baseURL: `${url}/v1`, apiKey: 'any', maxRetries: 0 });
});

afterAll(async () => {
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
});

function ask(content: string, more: object = {}, headers: Record<string, string> = {}) {
  return request(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: 'Bearer any', ...headers },
    body: JSON.stringify({ model: 'gpt-4o-mini', messages: [{ role: 'user', content }], ...more }),
  });
}

const say = (content: string, more: object = {}) =>
  client.chat.completions.create({
    model: 'gpt-4o-mini',
    messages: [{ role: 'user', content }],
    ...more,
  }) as Promise<OpenAI.ChatCompletion>;

test('the same request has the same answer, with usage that adds up', async () => {
  const [one, two] = [await say('Say hello.'), await say('Say hello.')];
  expect(one).toEqual(two);
  const { prompt_tokens = 0, completion_tokens = 0, total_tokens } = one.usage ?? {};
  expect(total_tokens).toBe(prompt_tokens + completion_tokens);
});

test('a stream says what the JSON answer says', async () => {
  const { choices, usage } = await say('Say hello.');
  const body = {
    model: 'gpt-4o-mini',
    messages: [{ role: 'user' as const, content: 'Say hello.' }],
    stream_options: { include_usage: true },
  };
  const final = await client.chat.completions.stream(body).finalChatCompletion();
  expect(final.choices[0]?.message.content).toBe(choices[0]?.message.content);
  expect(final.usage).toEqual(usage);
});

test('an answer ends at its cap, also where it is one unbroken run of a million letters', async () => {
  // The server is in this process.
  const cost_ms = await cpuMsOf(async () => {
    const { choices, usage } = await say('[[fault:big-line size=1000000]]', { max_tokens: 64 });
    expect(choices[0]?.finish_reason).toBe('length');
    expect(usage?.completion_tokens).toBeLessThanOrEqual(64);
  });
  expect(cost_ms).toBeLessThan(20_000);
});

test('special tokens in a prompt are text', async () => {
  const { choices } = await say('What is <|endoftext|>?', { max_tokens: 8 });
  expect(choices[0]?.finish_reason).toBe('length');
});

test('tools: one call, or all in parallel where the user says so', async () => {
  const tools = ['a', 'b'].map((name) => ({ type: 'function', function: { name } }));
  expect((await say('Use one.', { tools })).choices[0]?.message.tool_calls).toHaveLength(1);
  expect((await say('Use all.', { tools })).choices[0]?.message.tool_calls).toHaveLength(2);
});

test('embeddings are the same in floats and in base64', async () => {
  const input = ['one', 'two'];
  const model = 'text-embedding-3-small';
  const packed = await client.embeddings.create({ model, input });
  const floats = await client.embeddings.create({ model, input, encoding_format: 'float' });
  packed.data.forEach(({ embedding }, index) => {
    expect(embedding).toEqual(floats.data[index]?.embedding);
  });
});

test('a fault is asked for by header as well as in the text', async () => {
  const headers = { 'x-sandbox-fault': 'error status=503' };
  expect((await ask('Hello', {}, headers)).statusCode).toBe(503);
  expect((await ask('Hello [[fault:error status=503]]')).statusCode).toBe(503);
});

test('figures can be given as zero', async () => {
  const { usage } = await say('[[fault:usage prompt=7 completion=0 cached=3]]');
  expect(usage).toMatchObject({
    prompt_tokens: 7,
    completion_tokens: 0,
    prompt_tokens_details: { cached_tokens: 3 },
  });
});

test('what arrived is shown, and forgotten when asked', async () => {
  await request(`${url}/sandbox/requests`, { method: 'DELETE' });
  await (await ask('Hello')).body.dump();
  const shown = await (await request(`${url}/sandbox/requests`)).body.json();
  expect(shown).toMatchObject({
    requests: [{ method: 'POST', path: '/v1/chat/completions', closed_early: false }],
  });
});

test("without a key, without JSON, without a known model or path it refuses in the provider's shape", async () => {
  const answers = [
    await ask('Hello', {}, { authorization: '' }),
    await ask('Hello', { model: 'none' }),
    await request(`${url}/v1/none`, {
      headers: { authorization: 'Bearer any' },
      method: 'POST',
      body: '{}',
    }),
    await request(`${url}/v1/embeddings`, {
      headers: { authorization: 'Bearer any' },
      method: 'POST',
      body: '{',
    }),
  ];
  expect(answers.map(({ statusCode }) => statusCode)).toEqual([401, 404, 404, 400]);
  for (const { body } of answers)
    expect(await body.json()).toMatchObject({
      error: { message: expect.any(String), code: expect.any(String) },
    });
});
