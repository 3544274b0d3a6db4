import { chat, gatewayKey, post } from '../../../support/gateway';
import { ask, openSold, targets, url, visits, world } from '../sold';

// Chat completions spoken to providers on wires of their own: each checks what the real one would.

const models = ['gemini-native', 'gcp-native', 'aws-converse'];
const usage = (more = '') => `[[fault:usage prompt=1000 completion=40 cached=0 ${more}]]`;

const f = {
  type: 'function',
  function: { name: 'f', parameters: { type: 'object', properties: { a: { type: 'string' } } } },
};
const now = { type: 'function', function: { name: 'now' } };

interface Call {
  index?: number;
  id?: string;
  function: { name?: string; arguments: string };
  extra_content?: object;
}

/** The calls of an answer, whole or in a stream. */
function callsIn(text: string): Call[] {
  if (text.startsWith('{')) return JSON.parse(text).choices[0].message.tool_calls;
  const calls: Call[] = [];
  for (const [, data = ''] of text.matchAll(/^data: (\{.*)$/gm)) {
    for (const part of (JSON.parse(data).choices[0]?.delta.tool_calls ?? []) as Call[]) {
      const { index = 0 } = part;
      const known = calls[index];
      if (known === undefined) calls[index] = part;
      else known.function.arguments += part.function.arguments;
    }
  }
  return calls;
}

test.each(models)('%s answers a chat, whole and in a stream, at one price', async (model) => {
  for (const stream of [false, true]) {
    const { status, text, charge } = await ask(model, `Hello ${usage()}`, { stream });
    expect([status, text]).toEqual([200, expect.stringMatching(/Hello/)]);
    if (stream) expect(text).toMatch(/"finish_reason":"stop"[\s\S]*data: \[DONE\]\n\n$/);
    else expect(JSON.parse(text)).toMatchObject({ choices: [{ finish_reason: 'stop' }] });
    // Nobody asked for the chunk of usage.
    if (stream) expect(text).not.toContain('"total_tokens"');
    const { actual_cost_nanos, usage_source, outcome } = await charge();
    expect({ stream, actual_cost_nanos, usage_source, outcome }).toEqual({
      stream,
      actual_cost_nanos: 1_000n * 2_000n + 40n * 8_000n,
      usage_source: 'upstream',
      outcome: 'completed',
    });
  }
});

test.each(models)('%s calls tools, and takes what they answered', async (model) => {
  for (const stream of [false, true]) {
    const body = { tools: [f, now] };
    const called = await ask(model, 'Call all of them', { stream, body });
    const calls = callsIn(called.text);
    expect(calls.map((call) => call.function.name)).toEqual(['f', 'now']);
    expect(JSON.parse(calls[0]?.function.arguments ?? '')).toEqual({ a: 'Call all of them' });
    expect(called.text).toContain('"finish_reason":"tool_calls"');
    const messages = [
      { role: 'system', content: 'Be brief.' },
      { role: 'user', content: 'Call all of them' },
      { role: 'assistant', content: null, tool_calls: calls },
      ...calls.map(({ id }, at) => ({ role: 'tool', tool_call_id: id, content: `result ${at}` })),
    ];
    const { status, text } = await ask(model, '', { stream, body: { ...body, messages } });
    expect([status, text]).toEqual([200, expect.stringContaining('answered')]);
    expect((await ask(model, '', { body: { messages, tools: [f, now] } })).status).toBe(200);
  }
});

test('a conversation that lost its signatures goes on', async () => {
  const tool_calls = [{ id: 'a', type: 'function', function: { name: 'f', arguments: '{}' } }];
  const messages = [
    { role: 'user', content: 'Call it' },
    { role: 'assistant', tool_calls },
    { role: 'tool', tool_call_id: 'a', content: '7' },
  ];
  const { status } = await ask('gemini-native', '', { body: { messages, tools: [f] } });
  expect(status).toBe(200);
  expect(visits[0]?.body).toHaveProperty('contents.1.parts', [
    {
      functionCall: { id: 'a', name: 'f', args: {} },
      thoughtSignature: 'skip_thought_signature_validator',
    },
  ]);
});

test.each(models)('%s: an error is told in its words, with its status', async (model) => {
  for (const status of [400, 429, 503]) {
    for (const stream of [false, true]) {
      const text = `Hello [[fault:error status=${status}]]`;
      const asked = await ask(model, text, { stream });
      expect([status, stream, asked.status]).toEqual([status, stream, status]);
      expect(JSON.parse(asked.text).error.message).toMatch(/A fault was asked for/);
    }
  }
});

const breaks = {
  'gemini-native': ['cut after=3', 'end after=3', 'error-frame after=3'],
  'aws-converse': ['exception after=3', 'crc after=3', 'half after=3'],
};

test.each(Object.entries(breaks))(
  '%s: a stream that breaks off is an error, and charged so far',
  async (model, faults) => {
    const words = `Hello to you all ${usage()}`;
    for (const fault of faults) {
      const { status, text, charge } = await ask(model, `${words}[[fault:${fault}]]`, {
        stream: true,
      });
      expect([fault, status]).toEqual([fault, 200]);
      expect(text).toMatch(/data: \{"error":/);
      expect(text).not.toContain('[DONE]');
      const { actual_cost_nanos } = await charge();
      expect(actual_cost_nanos > 0n && actual_cost_nanos < 1_000n * 2_000n + 40n * 8_000n).toBe(
        true,
      );
    }
  },
);

test.each(models)(
  '%s: a whole stream whose connection breaks behind it is whole',
  async (model) => {
    const asked = await ask(model, `Hello ${usage()}[[fault:cut-end]]`, { stream: true });
    expect(asked.text).toMatch(/data: \[DONE\]\n\n$/);
    expect(await asked.charge()).toMatchObject({
      ...{ outcome: 'completed', usage_source: 'upstream' },
      actual_cost_nanos: 1_000n * 2_000n + 40n * 8_000n,
    });
  },
);

test.each([
  ['gemini-native', 'error-frame after=0', 503],
  ['aws-converse', 'overloaded after=0', 529],
  ['aws-converse', 'overloaded after=1', 529],
  ['aws-converse', 'exception after=1', 429],
])('%s: %s in a stream before its first words has its status', async (model, fault, status) => {
  const asked = await ask(model, `Hello [[fault:${fault}]]`, { stream: true });
  const { message } = JSON.parse(asked.text).error;
  expect([asked.status, message]).toEqual([status, expect.stringMatching(/overloaded|Too many/)]);
});

test('an ARN is one segment of the path that is signed, and what a cache gave is charged', async () => {
  const fault = '[[fault:usage prompt=10000 completion=40 cached=8000 written=1500]]';
  for (const stream of [false, true]) {
    const { status, charge } = await ask('aws-converse-arn', `Hello ${fault}`, { stream });
    expect(status).toBe(200);
    expect(visits[0]?.path).toMatch(
      /^\/model\/arn%3Aaws%3A[\w%-]+%2Fclaude%2Fx1\/converse(?:-stream)?$/,
    );
    expect(visits[0]?.path.endsWith('-stream')).toBe(stream);
    const { usage: told, actual_cost_nanos } = await charge();
    expect(told).toMatchObject({
      ...{ prompt_tokens: 10_000, cached_tokens: 8_000, cache_write_tokens: 1_500 },
    });
    expect(actual_cost_nanos).toBe(500n * 3_000n + 8_000n * 300n + 1_500n * 3_750n + 40n * 15_000n);
  }
});

test('a cache that is asked for is left out for a model that has none', async () => {
  const upstream = 'us.deepseek.r1-v1:0';
  const rows = targets().flatMap((row) =>
    row.id === 'aws-converse'
      ? [{ ...row, models: [{ name: 'aws-converse', upstream, price_as: 'chat' }] }]
      : [],
  );
  const at = await openSold({}, rows);
  const body = { cache_control: { type: 'ephemeral' } };
  const { status } = await ask('aws-converse', 'Hello', { at, body });
  expect(status).toBe(200);
  expect(JSON.stringify(visits[0]?.body)).not.toContain('cachePoint');
});

test('a guardrail that steps in is a filter', async () => {
  for (const stream of [false, true]) {
    const { text } = await ask('aws-converse', 'Hello [[fault:guardrail]]', { stream });
    expect(text).toContain(
      '"finish_reason":"content_filter","native_finish_reason":"guardrail_intervened"',
    );
  }
});

test.each(['', 'reasoning=30', 'reasoning=30 within', 'reasoning=30 beside'])(
  'thoughts are charged as output once, told with %j',
  async (more) => {
    for (const stream of [false, true]) {
      const text = `Hello ${usage(more)}`;
      const { charge } = await ask('gemini-native', text, {
        stream,
        body: { stream_options: { include_usage: true } },
      });
      const { actual_cost_nanos } = await charge();
      expect(actual_cost_nanos).toBe(1_000n * 2_000n + 40n * 8_000n);
    }
  },
);

test('what a cache gave, and thoughts, are told to the client', async () => {
  const text = 'Hello [[fault:usage prompt=1000 completion=40 cached=900 reasoning=30]]';
  const whole = JSON.parse((await ask('gemini-native', text)).text);
  expect(whole.usage).toEqual({
    prompt_tokens: 1_000,
    completion_tokens: 40,
    total_tokens: 1_040,
    prompt_tokens_details: { cached_tokens: 900, cache_write_tokens: 0 },
    completion_tokens_details: { reasoning_tokens: 30 },
  });
  expect(whole).toMatchObject({ object: 'chat.completion', model: 'gemini-3.8-flash' });
  const streamed = await ask('gemini-native', text, {
    stream: true,
    body: { stream_options: { include_usage: true } },
  });
  const last = [...streamed.text.matchAll(/^data: (\{.*)$/gm)].at(-1)?.[1] ?? '';
  expect(JSON.parse(last)).toMatchObject({ choices: [], usage: whole.usage });
});

test('a prompt or an answer that is filtered ends so, and is charged', async () => {
  for (const [fault, native] of [
    ['blocked', 'PROHIBITED_CONTENT'],
    ['safety', 'SAFETY'],
  ]) {
    for (const stream of [false, true]) {
      const { status, text, charge } = await ask(
        'gemini-native',
        `Hello ${usage()}[[fault:${fault}]]`,
        { stream },
      );
      expect([fault, status]).toEqual([fault, 200]);
      expect(text).toContain(`"finish_reason":"content_filter","native_finish_reason":"${native}"`);
      expect((await charge()).actual_cost_nanos).toBeGreaterThanOrEqual(1_000n * 2_000n);
    }
  }
});

test('an answer without candidates is an empty one, and what it tells is charged', async () => {
  for (const stream of [false, true]) {
    const asked = await ask('gemini-native', `Hello ${usage()}[[fault:empty]]`, { stream });
    expect([asked.status, visits.length]).toEqual([200, 1]);
    expect(asked.text).toContain('"finish_reason":"stop","native_finish_reason":"NO_CANDIDATES"');
    const { actual_cost_nanos, outcome } = await asked.charge();
    expect({ actual_cost_nanos, outcome }).toEqual({
      actual_cost_nanos: 1_000n * 2_000n,
      outcome: 'completed',
    });
  }
});

test('an answer that cannot be told as a chat may be billed, so it is asked for once', async () => {
  const at = await openSold({}, targets(), { fallback: { retries: 1, backoff_ms: 1 } });
  const asked = await ask('gemini-native', 'Hello [[fault:deep]]', { at });
  expect([asked.status, asked.text]).toEqual([502, expect.stringContaining('be translated')]);
  expect(visits).toHaveLength(1);
});

test.each(models)('%s: frames may be split at every byte', async (model) => {
  const text = `Hello ${usage()}[[fault:bytes crlf]]`;
  const { status, text: told, charge } = await ask(model, text, { stream: true });
  expect([status, told]).toEqual([200, expect.stringContaining('[DONE]')]);
  expect((await charge()).actual_cost_nanos).toBe(1_000n * 2_000n + 40n * 8_000n);
});

test('the route of plain chats reaches no provider on a wire of its own', async () => {
  const caller = await gatewayKey(world.api, world.org.org_id);
  for (const model of models) {
    const { status, text } = await post(
      `${url}/v1/chat/completions`,
      caller,
      chat('Hi', { model }),
    );
    expect([status, text]).toEqual([404, expect.stringContaining('model_not_found')]);
  }
});
