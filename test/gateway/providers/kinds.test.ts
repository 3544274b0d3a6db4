import { openaiWire } from '../../../gateway/providers/kind';
import { kinds } from '../../../gateway/providers/table';
import { signatureError } from '../../../sandbox/providers/sigv4';
import { gatewayKey, message, post } from '../../support/gateway';
import { ask, completion, hello, openKind, upstream, usage, world } from './kinded';

// What a kind sends, how it is priced, and which families it serves.

test('the name that clients say, the name on the wire and the name on the bill are three', async () => {
  const models = [{ name: 'public', upstream: 'prod-54', price_as: 'the-model' }];
  const url = await openKind({ kind: 'openai', models });
  upstream.play([completion], 'application/json');
  const asked = await ask(url, { ...hello, model: 'public' });
  expect(asked.status).toBe(200);
  expect(asked.text).toBe(completion);
  expect(asked.arrived?.body.model).toBe('prod-54');
  expect((await asked.charge()).actual_cost_nanos).toBe(200_000n);
  expect((await ask(url, { ...hello, model: 'prod-54' })).status).toBe(404);
  const listed = await fetch(`${url}/v1/models`, {
    headers: { authorization: `Bearer ${await gatewayKey(world.api, world.org.org_id)}` },
  });
  expect(await listed.json()).toMatchObject({ data: [{ id: 'public', owned_by: 'openai' }] });
});

test.each([
  [{ kind: 'openai' }, '/base/chat/completions', { authorization: 'Bearer upstream-secret' }],
  [{ kind: 'azure' }, '/base/chat/completions', { 'api-key': 'upstream-secret' }],
  [
    { kind: 'azure', api_version: '2024-10-21' },
    '/base/deployments/the-model/chat/completions?api-version=2024-10-21',
    { 'api-key': 'upstream-secret' },
  ],
  [
    { kind: 'mistral', headers: { 'X-Title': 'us' }, query: { a: 'b' } },
    '/base/chat/completions?a=b',
    { 'x-title': 'us' },
  ],
])('%j is asked at %s', async (target, path, headers) => {
  const url = await openKind(target);
  upstream.play([completion], 'application/json');
  const { status, arrived, charge } = await ask(url, hello);
  expect(status).toBe(200);
  expect(arrived).toMatchObject({ path, headers });
  if (!('authorization' in headers) && target.kind === 'azure')
    expect(arrived?.headers.authorization).toBeUndefined();
  expect((await charge()).actual_cost_nanos).toBe(200_000n);
});

test('the second host of Bedrock is asked for a chat by a signature of its own service', async () => {
  Object.assign(process.env, { TEST_AWS_ID: 'AKIATEST', TEST_AWS_SECRET: 'aws-secret' });
  const aws = { access_key_id_env: 'TEST_AWS_ID', secret_access_key_env: 'TEST_AWS_SECRET' };
  const place = { region: 'eu-west-1', endpoint: 'mantle' };
  const url = await openKind({ kind: 'bedrock', shape: 'openai', ...place, auth: { aws } });
  upstream.play([completion], 'application/json');
  const { status, arrived, charge } = await ask(url, hello);
  expect([status, arrived?.path]).toEqual([200, '/base/chat/completions']);
  const { path = '', headers = {}, text = '' } = arrived ?? {};
  const received = { method: 'POST', url: path, headers, body: Buffer.from(text) };
  const keys = new Map([['AKIATEST', { secret: 'aws-secret' }]]);
  const signing = { keys, region: 'eu-west-1', now: new Date() };
  expect(signatureError(received, { ...signing, service: 'bedrock-mantle' })).toBeUndefined();
  expect(signatureError(received, { ...signing, service: 'bedrock' })).toMatchObject({
    message: expect.stringContaining('bedrock'),
  });
  expect((await charge()).actual_cost_nanos).toBe(200_000n);
});

test('a strict provider gets its own names, and no member that it refuses', async () => {
  const url = await openKind({ kind: 'mistral' });
  const more = { seed: 12345678901234567890n, store: false, user: 'u', metadata: {}, tools: [] };
  const text = JSON.stringify(hello)
    .replace('"max_tokens":64', '"max_completion_tokens":64')
    .replace('{', '{"seed": 12345678901234567890, "temperature": 1.0, ');
  const given = text.replace(/}$/, `,"store":${more.store},"user":"u","metadata":{},"tools":[ ]}`);
  upstream.play([completion], 'application/json');
  const caller = await gatewayKey(world.api, world.org.org_id);
  const { status } = await post(`${url}/v1/chat/completions`, caller, given);
  expect(status).toBe(200);
  const [arrived] = upstream.arrived;
  expect(Object.keys(arrived?.body ?? {}).sort()).toEqual([
    'max_tokens',
    'messages',
    'model',
    'random_seed',
    'temperature',
  ]);
  // Values keep their bytes.
  expect(arrived?.text).toContain('"random_seed":12345678901234567890');
  expect(arrived?.text).toContain('"temperature":1.0');
});

test.each([
  ['mistral', { logprobs: true }],
  ['mistral', { logit_bias: { 5: 1 } }],
  ['mistral', { verbosity: 'low' }],
  ['groq', { top_logprobs: 3 }],
  ['gemini', { logit_bias: { 5: 1 } }],
  ['cohere', { parallel_tool_calls: false }],
])('%s: %j changes the answer there, and is refused by name', async (kind, more) => {
  const [name = ''] = Object.keys(more);
  const url = await openKind({ kind });
  upstream.play([completion], 'application/json');
  const { status, text } = await ask(url, { ...hello, ...more });
  expect([status, JSON.parse(text)]).toMatchObject([
    422,
    { error: { code: 'invalid_field', param: name } },
  ]);
  expect(upstream.arrived).toEqual([]);
});

test.each([
  ['mistral', { logprobs: false, top_logprobs: 0, logit_bias: {}, verbosity: 'medium' }],
  ['groq', { logprobs: null, logit_bias: null }],
  ['gemini', { logit_bias: {} }],
  ['cohere', { parallel_tool_calls: true }],
])('%s: %j says nothing, and is left out', async (kind, more) => {
  const url = await openKind({ kind });
  upstream.play([completion], 'application/json');
  const { status, arrived } = await ask(url, { ...hello, ...more });
  expect(status).toBe(200);
  for (const name of Object.keys(more)) expect(arrived?.body).not.toHaveProperty(name);
});

test('of two targets the one serves that knows what is asked for', async () => {
  const target = (kind: string) => ({
    id: kind,
    kind,
    base_url: `${upstream.url}/${kind}`,
    auth: { key_env: 'TEST_MODELS_KEY' },
    models: ['the-model'],
  });
  const targets = [{ ...target('mistral'), weight: 1_000_000 }, target('openai')];
  const { url } = await world.openGateway({ settings: { providers: { targets } } });
  for (const [logprobs, path] of [
    [true, '/openai/chat/completions'],
    [false, '/mistral/chat/completions'],
  ] as const) {
    upstream.play([completion], 'application/json');
    const { status, arrived } = await ask(url, { ...hello, logprobs });
    expect([status, arrived?.path]).toEqual([200, path]);
  }
});

test('of two caps that become one, the one that was reserved for goes out', async () => {
  const url = await openKind({ kind: 'mistral' });
  for (const [caps, sent] of [
    [{ max_tokens: 1_000, max_completion_tokens: 10 }, 10],
    [{ max_completion_tokens: 10, max_tokens: 1_000 }, 10],
    [{ max_completion_tokens: null, max_tokens: 50 }, 50],
  ] as const) {
    upstream.play([completion], 'application/json');
    const { messages, model } = hello;
    await ask(url, { messages, model, ...caps });
    expect(upstream.arrived[0]?.body.max_tokens).toBe(sent);
    expect(upstream.arrived[0]?.body.max_completion_tokens).toBeUndefined();
  }
});

test('a target drops and renames what its own settings say', async () => {
  const url = await openKind({ kind: 'openai', drop: ['seed'], rename: { user: 'end_user' } });
  upstream.play([completion], 'application/json');
  const { arrived } = await ask(url, { ...hello, seed: 1, user: 'u' });
  expect(arrived?.body).toMatchObject({ end_user: 'u' });
  expect(arrived?.body).not.toHaveProperty('seed');
  expect(arrived?.body).not.toHaveProperty('user');
});

test('a target serves no family that its kind does not', async () => {
  const url = await openKind({ kind: 'mistral' });
  upstream.play([completion], 'application/json');
  for (const [route, body] of [
    ['/v1/responses', { model: 'the-model', input: 'Hello' }],
    ['/v1/completions', { model: 'the-model', prompt: 'Hello' }],
    ['/v1/moderations', { model: 'the-model', input: 'Hello' }],
    ['/v1/messages', message('Hello', { model: 'the-model' })],
  ] as const) {
    const { status, text } = await ask(url, body, route);
    expect([route, status]).toEqual([route, 404]);
    const { code, message: words } = JSON.parse(text).error;
    // The one of Anthropic's wire has no member for a code.
    expect([undefined, 'model_not_found']).toContain(code);
    expect(words).toBe(
      `No provider here serves the model "the-model" on ${route}. It is served on /v1/chat/completions, /v1/unified/chat/completions, /v1/embeddings, /v1/audio/transcriptions.`,
    );
  }
  expect(upstream.arrived).toEqual([]);
});

test('usage is not asked of a provider that gives it unasked, and is read where it stands', async () => {
  const url = await openKind({ kind: 'mistral' });
  const chunk = (choice: object, more = {}) =>
    `data: ${JSON.stringify({ id: 'x', object: 'chat.completion.chunk', choices: [{ index: 0, ...choice }], ...more })}\n\n`;
  upstream.play([
    chunk({ delta: { role: 'assistant', content: 'Hi' }, finish_reason: null }),
    chunk({ delta: { content: '' }, finish_reason: 'stop' }, { usage }),
    'data: [DONE]\n\n',
  ]);
  const { arrived, charge } = await ask(url, { ...hello, stream: true });
  expect(arrived?.body.stream_options).toBeUndefined();
  expect((await charge()).actual_cost_nanos).toBe(200_000n);
});

test('chunks of Azure pass untouched: filters without a choice, a choice without a delta', async () => {
  const url = await openKind({ kind: 'azure', api_version: '2024-10-21' });
  const chunk = (more: object) =>
    `data: ${JSON.stringify({ id: 'x', object: 'chat.completion.chunk', model: '', ...more })}\n\n`;
  const filters = { prompt_filter_results: [{ prompt_index: 0, content_filter_results: {} }] };
  const said = [
    chunk({ choices: [], ...filters }),
    chunk({ choices: [{ index: 0, delta: { role: 'assistant', content: 'Hi' } }] }),
    chunk({ choices: [{ index: 0, content_filter_offsets: { check_offset: 1 } }] }),
    chunk({ choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] }),
  ];
  upstream.play([...said, chunk({ choices: [], usage }), 'data: [DONE]\n\n']);
  const { status, text, charge } = await ask(url, { ...hello, stream: true });
  // The client has not asked for the chunk of usage.
  expect([status, text]).toEqual([200, `${said.join('')}data: [DONE]\n\n`]);
  expect((await charge()).actual_cost_nanos).toBe(200_000n);
});

test('a new provider of a known wire is one row, and nothing else', async () => {
  kinds.set('acme', {
    name: 'acme',
    auth: ['key'],
    needs: ['region'],
    wires: {
      openai: ({ region }) =>
        openaiWire(`https://${region}.acme.example/v9`, {
          key: 'x-goog-api-key',
          families: ['chat_completions'],
          rename: { max_tokens: 'limit' },
          drop: ['user'],
          path: ({ path, model }) => `/of/${model}${path}`,
          query: () => ({ v: '9' }),
        }),
    },
  });
  const url = await openKind({ kind: 'acme', region: 'eu-west-1' });
  upstream.play([completion], 'application/json');
  const { status, arrived, charge } = await ask(url, { ...hello, user: 'u' });
  expect(status).toBe(200);
  expect(arrived).toMatchObject({
    path: '/base/of/the-model/chat/completions?v=9',
    headers: { 'x-goog-api-key': 'upstream-secret' },
    body: { limit: 64 },
  });
  expect(arrived?.body).not.toHaveProperty('user');
  expect((await charge()).actual_cost_nanos).toBe(200_000n);
  const { status: refused } = await ask(url, { model: 'the-model', input: 'a' }, '/v1/embeddings');
  expect(refused).toBe(404);
  kinds.delete('acme');
});

test.each(['groq', 'mistral'])(
  '%s gets an answer of another model back without what only that one takes',
  async (kind) => {
    const url = await openKind({ kind });
    const tools = [{ id: 'c', type: 'function', function: { name: 'f', arguments: '{}' } }];
    const said = { role: 'assistant', content: null, tool_calls: tools };
    const empty = { refusal: null, annotations: [], audio: null, function_call: null };
    const thoughts = { reasoning_content: 'Hm.', reasoning_details: [{ text: 'Hm.' }] };
    const result = { role: 'tool', tool_call_id: 'c', content: '{"refusal":null}' };
    const question = { role: 'user', content: 'Hello' };
    const schema = { type: 'object', properties: { messages: { refusal: null } } };
    const more = { tools: [{ type: 'function', function: { name: 'f', parameters: schema } }] };
    upstream.play([completion], 'application/json');
    const messages = [question, { ...said, ...empty, ...thoughts }, result];
    const { status, arrived } = await ask(url, { ...hello, ...more, messages });
    expect([status, arrived?.body.messages]).toEqual([200, [question, said, result]]);
    expect(arrived?.body.tools).toEqual(more.tools);
    // One that says something is the client's own.
    upstream.play([completion], 'application/json');
    const refused = { role: 'assistant', content: null, refusal: 'No.' };
    const again = await ask(url, { ...hello, messages: [question, refused, question] });
    expect(again.arrived?.body.messages).toEqual([question, refused, question]);
  },
);

test.each(['groq', 'mistral'])('%s takes no name of who speaks: it is left out', async (kind) => {
  const url = await openKind({ kind });
  const by = (role: string) => ({ role, content: 'Hello' });
  const named = { name: 'bob' };
  const calls = [{ id: 'c', type: 'function', function: { name: 'f', arguments: '{}' } }];
  const called = { role: 'assistant', content: null, tool_calls: calls };
  const tools = [{ type: 'function', function: { name: 'f', parameters: { type: 'object' } } }];
  const messages = [{ ...by('system'), ...named }, { ...by('user'), ...named }, called];
  upstream.play([completion], 'application/json');
  const { status, arrived } = await ask(url, { ...hello, messages, tools });
  expect(status).toBe(200);
  expect(arrived?.body.messages).toEqual([by('system'), by('user'), called]);
  expect(arrived?.body.tools).toEqual(tools);
});

test('DeepSeek wants its thoughts back, and gets them', async () => {
  const url = await openKind({ kind: 'deepseek' });
  upstream.play([completion], 'application/json');
  const thought = { role: 'assistant', content: 'Hi', reasoning_content: 'Hm.', refusal: null };
  const messages = [...hello.messages, thought, ...hello.messages];
  expect((await ask(url, { ...hello, messages })).arrived?.body.messages).toEqual(messages);
});
