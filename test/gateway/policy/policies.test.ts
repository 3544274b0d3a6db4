import { createHash } from 'node:crypto';
import OpenAI, { ConflictError } from 'openai';
import { many } from '../../../domain/sql';
import {
  arrivals,
  chat,
  forgetArrivals,
  lastCharge,
  message,
  openHolds,
  openWorld,
  post,
  type World,
} from '../../support/gateway';
import { balance } from '../../support/ledger';
import { until } from '../../support/until';

let world: World;
let filtering: string;
let redacting: string;

const path = '/v1/chat/completions';
const phrase = 'Project Apollo';
const terms = { blocked_terms: ['project apollo'] };

beforeAll(async () => {
  world = await openWorld();
  filtering = await open({
    'dlp-filter': { ...terms, detect_patterns: ['email', { name: 'loop', pattern: '(a+)+$' }] },
  });
  redacting = await open({
    'dlp-filter': { ...terms, detect_patterns: ['credit_card'], action: 'redact' },
  });
});

afterAll(() => world.close());

async function open(policy: object, more: object = {}): Promise<string> {
  const chain = Object.keys(policy).filter((kind) => kind !== 'cache_control');
  const settings = { pack: 'baseline', policies: { chain }, policy, ...more };
  return (await world.openGateway({ settings })).url;
}

async function sent(): Promise<Record<string, unknown>> {
  const [arrived] = await arrivals(world.models_url);
  return arrived?.body ?? {};
}

const tool = (name: string, more: object = {}) => ({
  type: 'function',
  function: { name, ...more },
});
const response = (more: object) => ({ model: 'gpt-4o-mini', input: 'Hi', ...more });
const text = (value: string) => ({ type: 'text', text: value });

test.each([
  ['a message', path, chat(`About ${phrase}.`)],
  [
    'one part among others',
    path,
    chat('', { messages: [{ role: 'user', content: [text('Hi'), text(phrase)] }] }),
  ],
  [
    'two parts together',
    path,
    chat('', { messages: [{ role: 'user', content: [text('the project'), text(' apollo')] }] }),
  ],
  ['a system message', path, chat('', { messages: [{ role: 'system', content: phrase }] })],
  [
    'the result of a tool',
    path,
    chat('', {
      messages: [{ role: 'tool', tool_call_id: 'c', content: `{"t":"\\u0050roject apollo"}` }],
    }),
  ],
  [
    'the arguments of an earlier call',
    path,
    chat('', {
      messages: [
        {
          role: 'assistant',
          tool_calls: [{ id: 'c', ...tool('note', { arguments: `{"t":"${phrase}"}` }) }],
        },
      ],
    }),
  ],
  [
    'the description of a tool',
    path,
    chat('Hi', { tools: [tool('note', { description: phrase })] }),
  ],
  [
    'the name of a parameter',
    path,
    chat('Hi', { tools: [tool('note', { parameters: { properties: { [phrase]: {} } } })] }),
  ],
  ['the name of the user', path, chat('Hi', { user: 'somebody@example.org' })],
  ['the input', '/v1/responses', response({ input: phrase })],
  [
    'an item of the input',
    '/v1/responses',
    response({ input: [{ role: 'user', content: [{ type: 'input_text', text: phrase }] }] }),
  ],
  [
    'the output of a function',
    '/v1/responses',
    response({ input: [{ type: 'function_call_output', call_id: 'c', output: phrase }] }),
  ],
  ['the instructions', '/v1/responses', response({ instructions: phrase })],
])(
  'a blocked phrase in %s is answered 409: nothing is held, charged or sent',
  async (_, url, body) => {
    await forgetArrivals(world.models_url);
    const before = await balance(world.api.db, world.org.org_wallet);
    const answer = await post(filtering + url, world.key, body);
    expect(answer.status).toBe(409);
    expect(answer.headers['x-should-retry']).toBe('false');
    expect(JSON.parse(answer.text)).toEqual({
      type: 'error',
      error: {
        code: 'input_blocked',
        type: 'policy_violation',
        message: expect.stringMatching(/dlp-filter of the pack "baseline"/),
        param: null,
        policy: 'dlp-filter',
      },
      request_id: expect.any(String),
    });
    expect(answer.text).not.toMatch(/apollo|somebody/i);
    expect(await arrivals(world.models_url)).toEqual([]);
    // The hold of the test before may still be on its way back.
    await until(async () => (await openHolds(world.api)) === 0);
    expect(await balance(world.api.db, world.org.org_wallet)).toEqual(before);
  },
);

test('a member that is named twice is checked twice, whichever of the two a provider reads', async () => {
  for (const content of [`"${phrase}","content":"fine"`, `"fine","content":"${phrase}"`]) {
    const body = `{"model":"gpt-4o-mini","messages":[{"role":"user","content":${content}}]}`;
    expect((await post(filtering + path, world.key, body)).status).toBe(409);
  }
});

test('the official client throws its conflict with code and policy, for input and output, after one request', async () => {
  const output = await open({ 'dlp-filter': { ...terms, stages: ['output'] } });
  for (const [url, code] of [
    [filtering, 'input_blocked'],
    [output, 'output_blocked'],
  ]) {
    let requests = 0;
    const client = new OpenAI({
      baseURL: `${url}/v1`,
      apiKey: world.key,
      fetch: (...given: Parameters<typeof fetch>) => {
        requests += 1;
        return fetch(...given);
      },
    });
    const messages = [{ role: 'user' as const, content: phrase }];
    const error = await client.chat.completions
      .create({ model: 'gpt-4o-mini', messages })
      .catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(ConflictError);
    expect(error).toMatchObject({
      code,
      type: 'policy_violation',
      error: { policy: 'dlp-filter' },
    });
    expect(requests).toBe(1);
  }
});

test('what was blocked is told as an event: policy, stage and rule, never the words', async () => {
  const label = 'policy-event';
  await post(filtering + path, world.key, chat(phrase), { 'x-request-id': label });
  const find = () =>
    many<{ action: string; payload: object }>(
      world.api.db,
      `select action, payload from events where type = 'request.blocked' and trace_label = :label`,
      { label },
    );
  await until(async () => (await find()).length === 1);
  const [event] = await find();
  expect(event).toMatchObject({
    action: 'blocked',
    payload: { policy: 'dlp-filter', pack: 'baseline', stage: 'input', rule: 'blocked_terms[0]' },
  });
  expect(JSON.stringify(event)).not.toMatch(/apollo/i);
});

test('redaction replaces what goes upstream and nothing else; that is what is counted, and the ledger keeps the hash of what came', async () => {
  await forgetArrivals(world.models_url);
  const card = '4111 1111 1111 1111';
  const given = `{ "model":"gpt-4o-mini","max_tokens":9,"messages":[{"role":"user","content":"${phrase}, \\u00e9 ${card}"}]}`;
  const answer = await post(redacting + path, world.key, given);
  expect(answer.status).toBe(200);
  const { messages } = await sent();
  expect(messages).toEqual([{ role: 'user', content: '[redacted], \u00e9 [redacted]' }]);
  const charge = await lastCharge(world, world.org.org_id);
  const plain = given.replace(phrase, '[redacted]').replace(card, '[redacted]');
  await post(world.url + path, world.key, plain);
  expect((await lastCharge(world, world.org.org_id)).held_nanos).toBe(charge.held_nanos);
  const rows = await many<{ request_body_hash: string }>(
    world.api.db,
    'select request_body_hash from reservations where org_id = :org_id order by created_at desc, id desc limit 2',
    { org_id: world.org.org_id },
  );
  const hash = createHash('sha256').update(given).digest('hex');
  expect(rows[1]?.request_body_hash).toBe(`sha256:${hash}`);
});

test.each(['none', 'gzip', 'br', 'bytes'])(
  'a JSON answer (%s) is checked before any of it is given on: blocked and charged, or redacted',
  async (fault) => {
    const output = { ...terms, stages: ['output'] };
    const blocks = await open({ 'dlp-filter': output });
    const redacts = await open({ 'dlp-filter': { ...output, action: 'redact' } });
    const body = chat(`${phrase} [[fault:${fault}]]`, { n: 2 });
    const refused = await post(blocks + path, world.key, body);
    expect(refused.status).toBe(409);
    expect(JSON.parse(refused.text).error).toMatchObject({ code: 'output_blocked' });
    expect(refused.text).not.toMatch(/apollo/i);
    const charge = await lastCharge(world, world.org.org_id);
    expect(charge).toMatchObject({ status: 'settled', usage_source: 'upstream' });
    expect(charge.actual_cost_nanos).toBeGreaterThan(0n);
    const { status, text: answer } = await post(redacts + path, world.key, body);
    expect(status).toBe(200);
    expect(JSON.parse(answer).choices[1].message.content).toContain('You said: [redacted].');
    const fine = await post(blocks + path, world.key, chat('Hello', { n: 2 }));
    const direct = await post(world.models_url + path, 'direct', chat('Hello', { n: 2 }));
    expect(fine.bytes.equals(direct.bytes)).toBe(true);
  },
);

test('the unified route passes the policies of chat, whatever wire its provider speaks', async () => {
  const output = await open({ 'dlp-filter': { ...terms, stages: ['output'] } });
  const url = '/v1/unified/chat/completions';
  for (const model of ['gpt-4o-mini', 'claude-sonnet-4-5']) {
    const given = await post(filtering + url, world.key, chat(phrase, { model }));
    expect([given.status, JSON.parse(given.text).error.code]).toEqual([409, 'input_blocked']);
    const told = await post(output + url, world.key, chat(phrase, { model }));
    expect([told.status, JSON.parse(told.text).error.code]).toEqual([409, 'output_blocked']);
    const stream = await post(output + url, world.key, chat(phrase, { model, stream: true }));
    expect(stream.text).toContain('"output_blocked"');
    expect(stream.text).not.toMatch(/apollo/i);
  }
});

test('Messages, completions and embeddings pass no policy', async () => {
  const answers = await Promise.all([
    post(`${filtering}/v1/messages`, world.key, message(phrase)),
    post(`${filtering}/v1/completions`, world.key, { model: 'gpt-4o-mini', prompt: phrase }),
    post(`${filtering}/v1/embeddings`, world.key, {
      model: 'text-embedding-3-small',
      input: phrase,
    }),
  ]);
  expect(answers.map(({ status }) => status)).toEqual([200, 200, 200]);
  expect(answers[0]?.text).toContain(phrase);
});

test('the chain runs in its order', async () => {
  const policy = {
    'dlp-filter': terms,
    rbac: { required_headers: [{ name: 'x-role' }] },
  };
  for (const chain of [
    ['rbac', 'dlp-filter'],
    ['dlp-filter', 'rbac'],
  ]) {
    const url = await open(policy, { policies: { chain } });
    const { text: answer } = await post(url + path, world.key, chat(phrase));
    expect(JSON.parse(answer).error.policy).toBe(chain[0]);
  }
});

test('a pattern that would never end elsewhere takes linear time, and other calls go on meanwhile', async () => {
  const long = post(filtering + path, world.key, chat(`${'a'.repeat(5_000)}! `.repeat(80)));
  const others = await Promise.all(
    Array.from({ length: 4 }, () => post(filtering + path, world.key, chat('Hi'))),
  );
  expect(others.every(({ status }) => status === 200)).toBe(true);
  // Where patterns backtrack it would not be over in hours.
  expect((await long).status).toBe(200);
});
