import { blankPrice } from '../../../domain/ledger/pricing';
import { openaiWire } from '../../../gateway/providers/kind';
import { kinds } from '../../../gateway/providers/table';
import {
  chat,
  gatewayKey,
  lastCharge,
  message,
  openWorld,
  post,
  type World,
} from '../../support/gateway';
import { makePrice } from '../../support/ledger';
import { openScripted, type Scripted } from '../../support/upstream';

// What a kind sends, how it is priced, and which families it serves.

let world: World;
let upstream: Scripted;

beforeAll(async () => {
  world = await openWorld();
  upstream = await openScripted();
  const price = { ...blankPrice, tiers: null, input_per_1m: 1, output_per_1m: 10 };
  for (const provider of ['azure', 'mistral', 'openai', 'acme', 'bedrock', 'deepseek'])
    await makePrice(world.api.db, { ...price, provider, model: 'the-model' });
});
afterAll(async () => {
  await world.close();
  await upstream.close();
});

const usage = { prompt_tokens: 100, completion_tokens: 10, total_tokens: 110 };
const completion = JSON.stringify({
  id: 'x',
  object: 'chat.completion',
  model: 'what-it-says',
  choices: [{ index: 0, message: { role: 'assistant', content: 'Hi' }, finish_reason: 'stop' }],
  usage,
});
const spoken = JSON.stringify({
  id: 'x',
  type: 'message',
  role: 'assistant',
  model: 'what-it-says',
  content: [{ type: 'text', text: 'Hi' }],
  stop_reason: 'end_turn',
  usage: { input_tokens: 100, output_tokens: 10 },
});

const key = { auth: { key_env: 'TEST_MODELS_KEY' } };

async function openKind(target: object, base = '/base') {
  const row = {
    id: 't',
    base_url: `${upstream.url}${base}`,
    ...key,
    models: ['the-model'],
    ...target,
  };
  return (await world.openGateway({ settings: { providers: { targets: [row] } } })).url;
}

async function ask(url: string, body: object, route = '/v1/chat/completions', headers = {}) {
  const caller = await gatewayKey(world.api, world.org.org_id);
  const answer = await post(`${url}${route}`, caller, body, headers);
  return {
    ...answer,
    arrived: upstream.arrived.at(-1),
    charge: () => lastCharge(world, world.org.org_id),
  };
}

const hello = { ...chat('Hello'), model: 'the-model' };

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
    expect(text).toContain('model_not_found');
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

// What Claude Code sends, as far as its other sellers refuse it.
const code_headers = {
  'anthropic-version': '2023-06-01',
  'anthropic-beta':
    'claude-code-20250219, interleaved-thinking-2025-05-14,prompt-caching-scope-2026-01-05',
};
const code_body = {
  ...message('Hello', { model: 'the-model' }),
  service_tier: 'auto',
  metadata: { user_id: 'u' },
  system: [
    { type: 'text', text: 'Be brief.', cache_control: { type: 'ephemeral', scope: 'global' } },
  ],
};

test('what is left out is told to the log, once for each name', async () => {
  const row = { id: 't', base_url: `${upstream.url}/base`, ...key, models: ['the-model'] };
  const targets = [{ ...row, kind: 'bedrock', region: 'eu-west-1' }];
  const made = await world.openGateway({ settings: { providers: { targets } } });
  const told: unknown[] = [];
  made.gateway.log.info = (given: unknown) => void told.push(given);
  for (let count = 0; count < 3; count += 1) {
    upstream.play([spoken], 'application/json');
    await ask(made.url, code_body, '/v1/messages', code_headers);
  }
  expect(told).toEqual([
    { target: 't', names: ['claude-code-20250219', 'prompt-caching-scope-2026-01-05'] },
    { target: 't', names: ['service_tier', 'cache_control.scope'] },
  ]);
});

test.each([
  [{ kind: 'bedrock', region: 'eu-west-1' }, '/base/model/eu.anthropic.claude%3A0/invoke'],
  [{ kind: 'bedrock', region: 'eu-west-1', endpoint: 'mantle' }, '/base/v1/messages'],
  [{ kind: 'deepseek', shape: 'anthropic' }, '/base/v1/messages'],
  [{ kind: 'azure', shape: 'anthropic' }, '/base/v1/messages'],
])('headers and members of a coding agent are filtered for %j', async (target, path) => {
  const models = [{ name: 'the-model', upstream: 'eu.anthropic.claude:0' }];
  const url = await openKind({ ...target, models });
  upstream.play([spoken], 'application/json');
  const { status, arrived, charge } = await ask(url, code_body, '/v1/messages', code_headers);
  expect(status).toBe(200);
  expect(arrived?.path).toBe(path);
  const { body = {}, headers = {} } = arrived ?? {};
  if (target.kind === 'bedrock') {
    expect(body).not.toHaveProperty('service_tier');
    expect(JSON.stringify(body)).not.toContain('scope');
    expect(body.system).toMatchObject([{ cache_control: { type: 'ephemeral' } }]);
  }
  if (path.endsWith('invoke')) {
    expect(headers['anthropic-beta']).toBeUndefined();
    expect(headers['anthropic-version']).toBeUndefined();
    expect(body).not.toHaveProperty('model');
    expect(body).toMatchObject({
      anthropic_version: 'bedrock-2023-05-31',
      anthropic_beta: ['interleaved-thinking-2025-05-14'],
      metadata: { user_id: 'u' },
    });
  } else if (target.kind === 'bedrock')
    expect(headers['anthropic-beta']).toBe('interleaved-thinking-2025-05-14');
  else if (target.kind === 'deepseek') expect(headers['anthropic-beta']).toBeUndefined();
  else expect(headers['anthropic-beta']).toBe(code_headers['anthropic-beta']);
  expect((await charge()).actual_cost_nanos).toBe(200_000n);
});
