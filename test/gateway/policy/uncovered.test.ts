import { many } from '../../../domain/sql';
import { adopt } from '../../../gateway/adopt';
import { openSnapshot } from '../../../gateway/call/snapshot';
import { parseSettings } from '../../../gateway/config/settings';
import {
  arrivals,
  chat,
  forgetArrivals,
  gatewayKey,
  lastCharge,
  message,
  openWorld,
  post,
  type World,
} from '../../support/gateway';
import { makeOrg } from '../../support/ledger';
import { until } from '../../support/until';

let world: World;

const rbac = { required_headers: [{ name: 'x-role', values: ['analyst'] }] };
const requests: [string, object][] = [
  ['/v1/messages', message('Hi')],
  ['/v1/embeddings', { model: 'text-embedding-3-small', input: 'Hi' }],
  ['/v1/completions', { model: 'gpt-4o-mini', prompt: 'Hi', max_tokens: 4 }],
  ['/v1/moderations', { input: 'Hi' }],
  ['/v1/audio/speech', { model: 'gpt-4o-mini-tts', voice: 'alloy', input: 'Hi' }],
];

beforeAll(async () => {
  world = await openWorld();
});

afterAll(() => world.close());

async function open(policies: object, policy: object = { rbac }): Promise<string> {
  const chain = Object.keys(policy);
  return (await world.openGateway({ settings: { policies: { chain, ...policies }, policy } })).url;
}

test('a route that no policy looks at is closed if uncovered routes are refused', async () => {
  const url = await open({ uncovered: 'refuse' });
  const { org_id } = await makeOrg(world.api.db);
  const key = await gatewayKey(world.api, org_id);
  await forgetArrivals(world.models_url);
  for (const [path, body] of requests) {
    const { status, text } = await post(url + path, key, body, { 'x-role': 'analyst' });
    expect({ path, status }).toEqual({ path, status: 403 });
    expect(JSON.parse(text)).toMatchObject({ type: 'error', error: { code: 'route_not_covered' } });
  }
  const form = new FormData();
  form.set('model', 'whisper-1');
  const headers = { authorization: `Bearer ${key}` };
  const transcribed = await fetch(`${url}/v1/audio/transcriptions`, {
    method: 'POST',
    body: form,
    headers,
  });
  expect(transcribed.status).toBe(403);
  expect((await post(`${url}/v1/messages`, 'svc_gk_unknown', message('Hi'))).status).toBe(401);
  const asked = await arrivals(world.models_url);
  expect(asked).toEqual([]);
  const { db } = world.api;
  expect(await many(db, 'select id from reservations where org_id = :org_id', { org_id })).toEqual(
    [],
  );
  const sql = `select payload ->> 'policy' as policy, payload ->> 'rule' as rule, payload ->> 'family' as family
    from events where org_id = :org_id and type = 'request.blocked'`;
  await until(async () => (await many(db, sql, { org_id })).length === 6);
  expect(await many(db, sql, { org_id })).toContainEqual({
    policy: 'policies',
    rule: 'uncovered',
    family: 'messages',
  });
});

test('routes that are listed go on, and each kind of the chain looks at them', async () => {
  const routes = ['messages', 'embeddings', 'completions', 'moderations', 'audio_speech'];
  const url = await open({ uncovered: 'refuse', routes });
  for (const [path, body] of requests) {
    const without = await post(url + path, world.key, body);
    expect({ path, status: without.status }).toEqual({ path, status: 409 });
    const { status } = await post(url + path, world.key, body, { 'x-role': 'analyst' });
    expect({ path, status }).toEqual({ path, status: 200 });
  }
  // The list is the whole list.
  const other = await post(`${url}/v1/chat/completions`, world.key, chat('Hi'), {
    'x-role': 'analyst',
  });
  expect(other.status).toBe(403);
});

test('nothing is refused without a chain, nor by default', async () => {
  for (const url of [await open({ uncovered: 'refuse' }, {}), await open({})]) {
    expect((await post(`${url}/v1/messages`, world.key, message('Hi'))).status).toBe(200);
  }
});

test('limits of a session count calls over a listed route', async () => {
  const policy = { 'agent-firewall': { max_actions_per_session: 1 } };
  const url = `${await open({ routes: ['messages'] }, policy)}/v1/messages`;
  expect((await post(url, world.key, message('Hi'))).status).toBe(422);
  const named = message('Hi', { session_id: 'routes-1' });
  await forgetArrivals(world.models_url);
  expect((await post(url, world.key, named)).status).toBe(200);
  const [arrived] = await arrivals(world.models_url);
  expect(arrived?.body).not.toHaveProperty('session_id');
  const spent = await post(url, world.key, message('Hi'), { 'x-session-id': 'routes-1' });
  expect(JSON.parse(spent.text)).toMatchObject({ error: { code: 'session_limit_exceeded' } });
});

test('a term in a stream of Messages and in speech is found over the wire', async () => {
  const policy = { 'dlp-filter': { blocked_terms: ['project apollo'] } };
  const url = await open({ routes: ['messages', 'audio_speech', 'embeddings'] }, policy);
  const { status, text } = await post(
    `${url}/v1/messages`,
    world.key,
    message('Project\u200bApollo'),
  );
  expect({ status, type: JSON.parse(text).error.type }).toEqual({
    status: 409,
    type: 'policy_violation',
  });
  const spoken = { model: 'gpt-4o-mini-tts', voice: 'alloy', input: 'Project Apollo' };
  expect((await post(`${url}/v1/audio/speech`, world.key, spoken)).status).toBe(409);
  const fine = await post(`${url}/v1/audio/speech`, world.key, { ...spoken, input: 'Zeus' });
  const open_url = `${world.url}/v1/audio/speech`;
  const same = await post(open_url, world.key, { ...spoken, input: 'Zeus' });
  expect(fine.bytes.equals(same.bytes)).toBe(true);
  const streamed = await post(`${url}/v1/messages`, world.key, message('Zeus', { stream: true }));
  expect(streamed.text).toContain('message_stop');
  expect((await lastCharge(world, world.org.org_id)).usage_source).toBe('upstream');
});

test('a start and a reload log which routes stand open under a chain, and if stored ids pass', async () => {
  const { gateway } = await world.openGateway();
  const lines: [string, unknown, string][] = [];
  const write = (level: string) => (about: { routes?: unknown }, words: string) =>
    lines.push([level, about.routes, words]);
  Object.assign(gateway, { log: { info: write('info'), warn: write('warn') } });
  const { providers } = gateway.snapshot.settings;
  const adopted = async (policies: object, policy: object = { rbac }, more: object = {}) => {
    lines.length = 0;
    const settings = parseSettings(JSON.stringify({ providers, policies, policy, ...more }));
    await adopt(gateway, openSnapshot(settings, gateway));
    return lines;
  };
  const open_ones = [
    'messages',
    'embeddings',
    'completions',
    'moderations',
    'audio_speech',
    'audio_transcriptions',
  ];
  expect(await adopted({ chain: ['rbac'] })).toEqual([
    ['warn', open_ones, 'no policy looks at the calls of these routes'],
  ]);
  expect(await adopted({ chain: ['rbac'], uncovered: 'refuse' })).toEqual([
    ['info', open_ones, 'routes that no policy looks at are refused'],
  ]);
  expect(await adopted({}, {})).toEqual([]);
  expect(await adopted({}, {}, { stored_ids: 'pass' })).toEqual([
    ['warn', undefined, 'callers may name what others have stored at providers'],
  ]);
});

test.each([
  [{ routes: ['chats'] }, 'policies.routes[0]'],
  [{ routes: ['chat', 'chat'] }, 'names a route twice'],
  [{ uncovered: 'maybe' }, 'policies.uncovered'],
])('a configuration with %j is refused', (policies, words) => {
  const providers = {
    targets: [
      { id: 'x', provider: 'p', shape: 'openai', base_url: 'http://x.test', models: ['m'] },
    ],
  };
  expect(() => parseSettings(JSON.stringify({ providers, policies }))).toThrow(words);
});
