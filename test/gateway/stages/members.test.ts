import { many } from '../../../domain/sql';
import {
  arrivals,
  chat,
  forgetArrivals,
  lastCharge,
  message,
  openWorld,
  post,
  type World,
} from '../../support/gateway';
import { openScripted } from '../../support/upstream';

let world: World;
let limited: string;
let uncached: string;

const path = '/v1/chat/completions';
const response = (more: object) => ({ model: 'gpt-4o-mini', input: 'Hi', ...more });

beforeAll(async () => {
  world = await openWorld();
  limited = await open({
    'agent-firewall': { max_actions_per_session: 2, max_cost_per_session_usd: 1 },
  });
  uncached = await open({ cache_control: 'strip' });
});

afterAll(() => world.close());

async function open(policy: object): Promise<string> {
  const chain = Object.keys(policy).filter((kind) => kind !== 'cache_control');
  return (await world.openGateway({ settings: { policies: { chain }, policy } })).url;
}

/** The body that the upstream got of a request that must pass. */
async function passed(url: string, body: object | string, headers = {}) {
  await forgetArrivals(world.models_url);
  const { status, text } = await post(url, world.key, body, headers);
  expect([status, status === 200 ? '' : text]).toEqual([200, '']);
  return (await arrivals(world.models_url))[0]?.body;
}

async function lastSession(): Promise<string | null | undefined> {
  await lastCharge(world, world.org.org_id);
  const [row] = await many<{ session_id: string | null }>(
    world.api.db,
    'select session_id from reservations where org_id = :org_id order by created_at desc, id desc limit 1',
    { org_id: world.org.org_id },
  );
  return row?.session_id;
}

test('a session is named in the body or the header, told to the ledger and not sent upstream', async () => {
  const plain = chat('Hi');
  const header = { 'x-session-id': 'one' };
  for (const [url, body] of [
    [path, plain],
    ['/v1/responses', response({})],
  ] as const) {
    expect(await passed(world.url + url, { ...body, session_id: 'one' })).toEqual(body);
    expect(await lastSession()).toBe('one');
    expect(await passed(world.url + url, body, header)).toEqual(body);
    expect(await lastSession()).toBe('one');
    expect(await passed(world.url + url, { session_id: 'one', ...body }, header)).toEqual(body);
    expect(await passed(world.url + url, { ...body, session_id: null })).toEqual(body);
    expect(await lastSession()).toBeNull();
  }
});

test.each([
  `{"session_id":"s" , "model":"gpt-4o-mini","messages":[]}`,
  `{"model":"gpt-4o-mini","messages":[] , "session_id" : "s" }`,
  `{"model":"gpt-4o-mini", "session_id":"s","stream":true,"messages":[]}`,
])('all but the session goes upstream, and is rewritten in the right place: %s', async (body) => {
  const { session_id: _, ...rest } = JSON.parse(body);
  const got = await passed(world.url + path, body);
  const asked = rest.stream ? { ...rest, stream_options: { include_usage: true } } : rest;
  expect(got).toEqual(asked);
});

test.each([
  [
    path,
    chat('Hi', { session_id: 'a' }),
    { 'x-session-id': 'b' },
    'session_id_mismatch',
    'session_id',
  ],
  [
    '/v1/responses',
    response({ session_id: 'a' }),
    { 'x-session-id': 'b' },
    'session_id_mismatch',
    'session_id',
  ],
  [path, chat('Hi', { session_id: 7 }), {}, 'invalid_field', 'session_id'],
  [path, chat('Hi', { session_id: '' }), {}, 'invalid_field', 'session_id'],
  [path, chat('Hi', { session_id: 's\u0000' }), {}, 'invalid_field', 'session_id'],
  [path, chat('Hi', { session_id: 's\ud800' }), {}, 'invalid_field', 'session_id'],
  [path, chat('Hi', { session_id: 's'.repeat(201) }), {}, 'invalid_field', 'session_id'],
  [path, chat('Hi'), { 'x-session-id': 's'.repeat(201) }, 'invalid_field', 'x-session-id'],
])(
  'a session named wrongly on %s is answered 422 (case %#)',
  async (url, body, headers, code, param) => {
    const { status, text } = await post(world.url + url, world.key, body, headers);
    expect(status).toBe(422);
    expect(JSON.parse(text).error).toMatchObject({ code, param });
  },
);

test('a body that names its session twice, or in another spelling, is refused', async () => {
  for (const more of ['"session_id":"b"', '"sessionId":"b"']) {
    const body = `{"model":"gpt-4o-mini","messages":[],"session_id":"a",${more}}`;
    expect((await post(world.url + path, world.key, body)).status).toBe(400);
  }
});

test('on Messages only the header names a session', async () => {
  const headers = { 'x-session-id': 'messages' };
  const { status } = await post(`${world.url}/v1/messages`, world.key, message('Hi'), headers);
  expect(status).toBe(200);
  expect(await lastSession()).toBe('messages');
});

test('a limited session must be named, and after its last action it is answered 409 in the name of the policy', async () => {
  const ask = (headers = {}) => post(limited + path, world.key, chat('Hi'), headers);
  const unnamed = await ask();
  expect(unnamed.status).toBe(422);
  expect(JSON.parse(unnamed.text).error.param).toBe('session_id');
  const session = { 'x-session-id': 'limited' };
  expect([(await ask(session)).status, (await ask(session)).status]).toEqual([200, 200]);
  const refused = await ask(session);
  expect(refused.status).toBe(409);
  expect(refused.headers['x-should-retry']).toBe('false');
  expect(JSON.parse(refused.text).error).toMatchObject({
    code: 'session_limit_exceeded',
    type: 'policy_violation',
    policy: 'agent-firewall',
    message: expect.stringContaining('has used 2 of its 2 actions (max_actions)'),
  });
  expect((await ask({ 'x-session-id': 'another' })).status).toBe(200);
  const free = await post(`${limited}/v1/messages`, world.key, message('Hi'));
  expect(free.status).toBe(200);
});

test('a session may not cost more than its policy allows', async () => {
  const url = await open({ 'agent-firewall': { max_cost_per_session_usd: 0.000_05 } });
  const ask = () => post(url + path, world.key, chat('Hi'), { 'x-session-id': 'dear' });
  const answers = [await ask(), await ask(), await ask(), await ask(), await ask()];
  const [first, ...rest] = answers.map(({ status }) => status);
  expect(first).toBe(200);
  expect(rest).toContain(409);
  const { error } = JSON.parse(answers.find(({ status }) => status === 409)?.text ?? '{}');
  expect(error.message).toMatch(/has cost 0\.0000\d+ of its 0\.00005 USD \(max_cost_usd\)/);
});

const cached = { cache_control: { type: 'ephemeral' } };
const part = { type: 'text', text: 'Hi' };

test('prompt caching may be asked for where policy allows it, and is taken out where it does not, but never from Messages', async () => {
  const parameters = { type: 'object', properties: { cache_control: { type: 'string' } } };
  const tools = [{ type: 'function', function: { name: 'note', parameters } }];
  const plain = { model: 'gpt-4o-mini', messages: [{ role: 'user', content: [part] }], tools };
  const body = {
    ...plain,
    ...cached,
    messages: [{ role: 'user', content: [{ ...part, ...cached }] }],
  };
  expect(await passed(world.url + path, body)).toEqual(body);
  expect(await passed(uncached + path, body)).toEqual(plain);
  const given = message('Hi', cached);
  expect(await passed(`${uncached}/v1/messages`, given)).toEqual(given);
});

test('taking prompt caching or a format elsewhere changes no number, and nothing that the client names', async () => {
  const scripted = await openScripted();
  const { url, close } = await world.openGateway({
    settings: { policy: { cache_control: 'strip' } },
    target: { base_url: `${scripted.url}/v1` },
  });
  const sent = async (to: string, body: string) => {
    scripted.play(['{}'], 'application/json');
    await post(url + to, world.key, body);
    return scripted.arrived.at(-1)?.text ?? '';
  };
  const id = '12345678901234567890';
  const tool = `{"type":"function","function":{"name":"f","parameters":{"maximum":${id},"default":{"cache_control":1}}}}`;
  const body = `{"model":"gpt-4o-mini","messages":[{"role":"user","content":"Hi"}],"cache_control":{"type":"ephemeral"},"metadata":{"cache_control":"mine"},"tools":[${tool}]}`;
  const stripped = await sent(path, body);
  expect(stripped).toContain(tool);
  expect(stripped).toContain('"metadata":{"cache_control":"mine"}');
  expect(stripped).not.toContain('ephemeral');
  const escaped = body.replace('"cache_control":{', '"cache\\u005fcontrol":{');
  expect(escaped).not.toBe(body);
  expect(await sent(path, escaped)).not.toContain('ephemeral');
  const format = `{"type":"json_schema","json_schema":{"name":"a","schema":{"maximum":${id}}}}`;
  const asked = `{"model":"gpt-4o-mini","input":"Hi","response_format":${format}}`;
  expect(await sent('/v1/responses', asked)).toContain(`"maximum":${id}`);
  await close();
  await scripted.close();
});

const schema = { type: 'object', properties: {} };
const named = { name: 'answer', strict: true, schema };

test('response_format is one form for chat and Responses, which take it in text.format', async () => {
  const response_format = { type: 'json_schema', json_schema: named };
  const asked = chat('Hi', { response_format });
  expect(await passed(world.url + path, asked)).toEqual(asked);
  const url = `${world.url}/v1/responses`;
  expect(await passed(url, response({ response_format }))).toEqual(
    response({ text: { format: { type: 'json_schema', ...named } } }),
  );
  const more = {
    text: { verbosity: 'low' },
    response_format: { type: 'json_object' },
    stream: true,
  };
  expect(await passed(url, response(more))).toEqual(
    response({ stream: true, text: { verbosity: 'low', format: { type: 'json_object' } } }),
  );
});

test.each([
  [{ type: 'xml' }, 'response_format.type'],
  ['json_object', 'response_format.type'],
  [{ type: 'json_schema' }, 'response_format.json_schema'],
  [{ type: 'json_schema', json_schema: { schema } }, 'response_format.json_schema.name'],
  [
    { type: 'json_schema', json_schema: { ...named, strict: 'yes' } },
    'response_format.json_schema.strict',
  ],
  [
    { type: 'json_schema', json_schema: { ...named, schema: [] } },
    'response_format.json_schema.schema',
  ],
])(
  'response_format %j is answered 422 on chat and on Responses',
  async (response_format, param) => {
    for (const [url, body] of [
      [path, chat('Hi', { response_format })],
      ['/v1/responses', response({ response_format })],
    ] as const) {
      const { status, text } = await post(world.url + url, world.key, body);
      expect(status).toBe(422);
      expect(JSON.parse(text).error.param).toBe(param);
    }
  },
);

test('response_format beside text.format, and on Messages, is answered 422', async () => {
  const response_format = { type: 'json_object' };
  const both = response({ response_format, text: { format: { type: 'text' } } });
  const answers = [
    await post(`${world.url}/v1/responses`, world.key, both),
    await post(`${world.url}/v1/messages`, world.key, message('Hi', { response_format })),
  ];
  for (const { status, text } of answers) {
    expect(status).toBe(422);
    expect(JSON.parse(text).error.param).toBe('response_format');
  }
});

test.each([
  ['Claude Code', { 'x-claude-code-session-id': 'c-1' }, {}, 'c-1'],
  ['Codex', { 'session-id': 'x-1' }, {}, 'x-1'],
  ['an older Codex', { session_id: 'x-2' }, {}, 'x-2'],
  [
    'both, Claude Code first',
    { 'session-id': 'x-3', 'x-claude-code-session-id': 'c-3' },
    {},
    'c-3',
  ],
  ['our own header goes first', { 'session-id': 'x-4', 'x-session-id': 'own' }, {}, 'own'],
  ['a member of the body goes first', { 'session-id': 'x-5' }, { session_id: 'own' }, 'own'],
  ['one that is too long names none', { 'session-id': 'x'.repeat(201) }, {}, null],
])('the session that an agent names: %s', async (_, headers, more, expected) => {
  const body = { ...chat('Hi'), ...more };
  expect(await passed(world.url + path, body, headers)).toEqual(chat('Hi'));
  expect(await lastSession()).toBe(expected);
});
