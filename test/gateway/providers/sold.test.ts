import { adopt } from '../../../gateway/adopt';
import { openSnapshot } from '../../../gateway/call/snapshot';
import { gatewayKey, lastCharge, post } from '../../support/gateway';
import { ask, clock, openSold, openTold, options, targets, url, visits, world } from './sold';

// The same models by every way in: asked as each provider wants it, and charged alike.

const messages = ['aws-claude', 'aws-arn', 'aws-key', 'gcp-claude', 'foundry'];
const chats = ['aws-chat', 'gcp-chat', 'az', 'az-old', 'mistral', 'gemini'];

// What Claude Code sends by default or by a setting, one time or another.
const code_betas = [
  'claude-code-20250219',
  'interleaved-thinking-2025-05-14',
  'fine-grained-tool-streaming-2025-05-14',
  'dev-full-thinking-2025-05-14',
  'context-management-2025-06-27',
  'context-1m-2025-08-07',
  'effort-2025-11-24',
  'adaptive-thinking-2026-01-28',
  'prompt-caching-scope-2026-01-05',
  'structured-outputs-2025-12-15',
  'advanced-tool-use-2025-11-20',
  'tool-search-tool-2025-10-19',
  'tool-examples-2025-10-29',
  'web-search-2025-03-05',
  'files-api-2025-04-14',
];
const usage_fault = '[[fault:usage prompt=1000 completion=40 cached=0]]';

test.each([...messages, ...chats])(
  '%s answers, whole and in a stream, at one price',
  async (model) => {
    const is_message = messages.includes(model);
    const nanos = is_message ? 1_000n * 3_000n + 40n * 15_000n : 1_000n * 2_000n + 40n * 8_000n;
    for (const stream of [false, true]) {
      const { status, text, charge } = await ask(model, `Hello ${usage_fault}`, { stream });
      expect([status, text]).toEqual([200, expect.stringContaining('Hello')]);
      if (stream && is_message) expect(text).toContain('event: message_stop');
      if (stream && !is_message) expect(text).toContain('data: [DONE]');
      const { actual_cost_nanos, usage_source } = await charge();
      expect({ stream, actual_cost_nanos, usage_source }).toEqual({
        stream,
        actual_cost_nanos: nanos,
        usage_source: 'upstream',
      });
    }
  },
);

test.each(messages)('chat completions reach Claude at %s, tools and all', async (model) => {
  const caller = await gatewayKey(world.api, world.org.org_id);
  const tools = [
    {
      type: 'function',
      function: { name: 'f', parameters: { type: 'object', properties: { a: {} } } },
    },
  ];
  for (const stream of [false, true]) {
    const body = {
      model,
      max_tokens: 64,
      stream,
      tools,
      messages: [{ role: 'user', content: `Call it ${usage_fault}` }],
    };
    const { status, text } = await post(`${url}/v1/unified/chat/completions`, caller, body);
    expect([status, text]).toEqual([200, expect.stringContaining('tool_calls')]);
    const { actual_cost_nanos } = await lastCharge(world, world.org.org_id);
    expect(actual_cost_nanos).toBe(1_000n * 3_000n + 40n * 15_000n);
  }
});

test('an id with colons and an ARN with slashes are one segment of what is signed', async () => {
  await ask('aws-claude', 'Hello');
  expect(visits[0]?.path).toBe('/model/eu.anthropic.claude-opus-5-5-v1%3A0/invoke');
  await ask('aws-arn', 'Hello', { stream: true });
  expect(visits[0]?.path).toMatch(/^\/model\/arn%3Aaws%3A[\w%-]+%2Fclaude%2Fx1\/invoke-with-resp/);
  expect(visits[0]?.body).not.toHaveProperty('model');
});

test('each attempt has a signature of its own', async () => {
  const at = await openSold({
    providers: { targets: targets(), fallback: { retries: 1, backoff_ms: 1_100 } },
  });
  const { status } = await ask('aws-claude', 'Hello [[fault:throttled]]', { at });
  expect(status).toBe(429);
  const signatures = visits.map(({ headers }) => headers.authorization);
  expect(signatures).toHaveLength(2);
  expect(new Set(signatures).size).toBe(2);
});

test('a clock that is ten minutes off is told to the operator, and to no client', async () => {
  const { made, told } = await openTold();
  clock.off_ms = 600_000;
  const { status, text } = await ask('aws-claude', 'Hello', { at: made.url });
  clock.off_ms = 0;
  expect([status, text]).toEqual([
    502,
    expect.stringContaining("The provider refused this gateway's own account."),
  ]);
  expect(text).not.toContain('ignature');
  expect(told).toEqual([
    [
      { target: 'aws-claude', status: 403, err_message: expect.stringContaining('expired') },
      "a provider refuses this gateway's own account: set the clock of this machine",
    ],
  ]);
});

test('no token, key or signature stands in the log, whatever fails', async () => {
  const { made, told } = await openTold();
  options.vertex.is_down = true;
  await ask('gcp-claude', 'Hello', { at: made.url });
  options.vertex.is_down = false;
  await ask('gcp-claude', 'Hello', { at: made.url });
  for (const token of options.vertex.tokens.keys()) options.vertex.tokens.set(token, 0);
  options.vertex.is_down = true;
  await ask('gcp-claude', 'Hello', { at: made.url });
  options.vertex.is_down = false;
  clock.off_ms = 600_000;
  await ask('aws-claude', 'Hello', { at: made.url });
  clock.off_ms = 0;
  await ask('aws-claude', 'Hello [[fault:throttled]]', { at: made.url });
  const log = JSON.stringify(told);
  expect(told.length).toBeGreaterThanOrEqual(3);
  for (const secret of [
    ...options.vertex.tokens.keys(),
    'aws-secret',
    'AWS4-HMAC',
    'azure-key',
    'BEGIN PRIVATE',
  ])
    expect(log).not.toContain(secret);
});

test.each([
  ['exception after=0', {}, 429, 2],
  // What was damaged may have been billed, so that the operator decides.
  ['crc after=0', {}, 502, 1],
  ['crc after=0', { after_uncertain: true }, 502, 2],
])(
  '%s before a byte of an answer, with %j: the next target',
  async (fault, fallback, status, asked) => {
    const models = [{ name: 'aws-claude', upstream: 'eu.anthropic.claude', price_as: 'claude' }];
    const [first, second] = targets().map((row) => ({ ...row, models }));
    const rows = [{ ...first, weight: 1_000_000 }, second];
    const at = await openSold({ providers: { targets: rows, fallback } });
    const answer = await ask('aws-claude', `Hello [[fault:${fault} ]]`, { at, stream: true });
    // The sandbox answers alike at both.
    expect([answer.status, visits.length]).toEqual([status, asked]);
  },
);

test.each([
  ['throttled', 429],
  ['exception after=0', 429],
  ['exception after=1', 429],
  ['overloaded after=0', 529],
  ['overloaded after=1', 529],
])(
  '%s is an error with its status and words, before a byte of an answer',
  async (fault, status) => {
    const asked = await ask('aws-claude', `Hello [[fault:${fault}]]`, { stream: true });
    const words = expect.stringMatching(/Too many|overloaded/);
    expect([asked.status, asked.text]).toEqual([status, words]);
    expect(JSON.parse(asked.text)).toMatchObject({
      type: 'error',
      error: { type: expect.any(String) },
    });
  },
);

test.each(['exception after=4', 'crc after=4', 'half after=4'])(
  '%s in a stream ends it with an error, and what was delivered is charged',
  async (fault) => {
    const { status, text, charge } = await ask('aws-claude', `Hello [[fault:${fault} ]]`, {
      stream: true,
    });
    expect(status).toBe(200);
    expect(text).toContain('content_block_delta');
    expect(text).toContain('event: error');
    expect(text).not.toContain('message_stop');
    const { actual_cost_nanos } = await charge();
    expect(actual_cost_nanos).toBeGreaterThan(0n);
  },
);

test('frames may be split at every byte, and one without a type is none', async () => {
  const fault = `Hello ${usage_fault} [[fault:bytes untyped after=3]]`;
  const { status, text, charge } = await ask('aws-claude', fault, { stream: true });
  expect(status).toBe(200);
  expect(text).toContain('event: message_stop');
  expect(text).not.toContain('no event');
  expect((await charge()).actual_cost_nanos).toBe(1_000n * 3_000n + 40n * 15_000n);
});

test.each([false, true])(
  'what a cache gave is charged once, told late or early (late: %s)',
  async (late) => {
    const fault = `[[fault:usage prompt=10 completion=40 cached=9000${late ? ' late-usage' : ''}]]`;
    const { charge } = await ask('aws-claude', `Hello ${fault}`, { stream: true });
    const { usage, actual_cost_nanos } = await charge();
    expect(usage).toMatchObject({ prompt_tokens: 9_010, cached_tokens: 9_000 });
    expect(actual_cost_nanos).toBe(10n * 3_000n + 9_000n * 300n + 40n * 15_000n);
  },
);

test('a coding agent passes every way to Claude with all that it sends', async () => {
  const headers = {
    'anthropic-version': '2023-06-01',
    'anthropic-beta': code_betas.join(','),
  };
  const body = {
    service_tier: 'auto',
    metadata: { user_id: 'u' },
    system: [
      { type: 'text', text: 'Be brief.', cache_control: { type: 'ephemeral', scope: 'global' } },
    ],
  };
  const tools = [{ type: 'web_search_20250305', name: 'web_search', max_uses: 1 }];
  const own = [{ name: 'f', input_schema: { type: 'object' }, eager_input_streaming: true }];
  for (const model of ['aws-claude', 'aws-key', 'gcp-claude', 'foundry']) {
    const given = { headers, body: { ...body, tools: own }, stream: true };
    const { status, text } = await ask(model, 'Hello', given);
    expect([model, status, text]).toEqual([model, 200, expect.stringContaining('message_stop')]);
  }
  // There the tool needs its beta, which this client did not name.
  const bare = { 'anthropic-version': '2023-06-01' };
  for (const given of [headers, bare]) {
    const asked = await ask('gcp-claude', 'Hello', { headers: given, body: { tools } });
    expect([asked.status, visits[0]?.headers['anthropic-beta']]).toEqual([
      200,
      expect.stringContaining('web-search-2025-03-05'),
    ]);
  }
});

test.each(code_betas)(
  'a coding agent’s beta %s is refused by no seller of Claude',
  async (beta) => {
    const headers = { 'anthropic-version': '2023-06-01', 'anthropic-beta': beta };
    for (const model of ['aws-claude', 'gcp-claude']) {
      const { status, text } = await ask(model, 'Hello', { headers });
      expect([model, status, text]).toEqual([model, 200, expect.stringContaining('Hello')]);
    }
  },
);

test('a token of Google is asked for once, renewed once, and by no failing request', async () => {
  const { vertex } = options;
  const at = await openSold();
  const before = vertex.tokens.size;
  const asks = () =>
    Promise.all(Array.from({ length: 8 }, () => ask('gcp-claude', 'Hello', { at })));
  for (const { status } of await asks()) expect(status).toBe(200);
  expect(vertex.tokens.size).toBe(before + 1);
  // Dead ahead of its time, as after a change of rights.
  for (const token of vertex.tokens.keys()) vertex.tokens.set(token, 0);
  for (const { status } of await asks()) expect(status).toBe(200);
  expect(vertex.tokens.size).toBe(before + 2);
});

test('without a token the circuit opens, and no client is told why', async () => {
  const at = await openSold({ circuit_breaker: { failures: 2, open_ms: 60_000 } });
  options.vertex.is_down = true;
  const answers = [];
  for (let count = 0; count < 3; count += 1) answers.push(await ask('gcp-claude', 'Hello', { at }));
  options.vertex.is_down = false;
  expect(answers.map(({ status }) => status)).toEqual([502, 502, 503]);
  expect(visits.filter(({ url: path }) => path.startsWith('/vertex'))).toEqual([]);
});

test('a filter of Azure is told in its words, with its code', async () => {
  for (const model of ['az', 'az-old']) {
    const { status, text } = await ask(model, 'Please filter this');
    expect(status).toBe(400);
    expect(JSON.parse(text)).toMatchObject({
      error: { code: 'content_filter', message: expect.stringContaining('was filtered') },
    });
  }
});

test('a configuration that is read again goes on with the tokens of the one before', async () => {
  const { vertex } = options;
  const made = await world.openGateway({ settings: { providers: { targets: targets() } } });
  expect((await ask('gcp-claude', 'Hello', { at: made.url })).status).toBe(200);
  const before = vertex.tokens.size;
  const { gateway } = made;
  const changed = { ...gateway.snapshot.settings, body_limit_bytes: 77_777 };
  await adopt(gateway, openSnapshot(changed, gateway));
  options.vertex.is_down = true;
  const { status } = await ask('gcp-claude', 'Hello', { at: made.url });
  options.vertex.is_down = false;
  expect([status, vertex.tokens.size]).toEqual([200, before]);
});
