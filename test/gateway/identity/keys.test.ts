import { randomUUID } from 'node:crypto';
import { request } from 'undici';
import { newKey } from '../../../domain/people/keys';
import { rolePermissions } from '../../../domain/people/roles';
import {
  arrivals,
  chat,
  forgetArrivals,
  gatewayKey,
  lastCharge,
  openHolds,
  openWorld,
  post,
  type TestGateway,
  type World,
} from '../../support/gateway';
import { makeKey } from '../../support/keys';
import { credit, makeOrg, type TestOrg } from '../../support/ledger';
import { until } from '../../support/until';
import { openWire, type Wire } from '../../support/wire';

let world: World;
let other: TestGateway;
let streaming: TestGateway;
let models: Wire;
const path = '/v1/chat/completions';

beforeAll(async () => {
  world = await openWorld();
  other = await world.openGateway();
  models = await openWire(world.models_url);
  streaming = await world.openGateway({ target: { base_url: `${models.url}/v1` } });
});

afterAll(async () => {
  await world.close();
  await models.close();
});

async function funded(): Promise<TestOrg & { owner_key: string }> {
  const org = await makeOrg(world.api.db);
  await credit(world.api.db, org.org_id, org.org_wallet, 1_000_000_000n);
  const scopes = rolePermissions.owner;
  return { ...org, owner_key: await makeKey(world.api.db, org.org_id, { scopes }) };
}

async function modelsOf(key: string, url = world.url) {
  const headers = { authorization: `Bearer ${key}` };
  const answer = await request(`${url}/v1/models`, { headers });
  const body = (await answer.body.json()) as { data?: { id: string }[] };
  return { status: answer.statusCode, ids: body.data?.map(({ id }) => id) };
}

const twenty = chat('Hello [[fault:chunks count=20]] [[fault:slow delay=10]]', { stream: true });

/** Both gateways know the key, a stream runs with it; then the key ends. */
async function endInMidStream(
  end: (owner_key: string, name: string) => Promise<string | undefined>,
) {
  const org = await funded();
  const name = randomUUID();
  const key = await gatewayKey(world.api, org.org_id, { name });
  for (const { url } of [streaming, other])
    expect((await post(url + path, key, chat('Hello'))).status).toBe(200);
  await until(async () => (await openHolds(world.api, org.org_id)) === 0);
  const before = models.answered();
  // Its first chunk comes; the rest waits for what is asked meanwhile.
  models.keepAfter('data:');
  const stream = post(streaming.url + path, key, twenty);
  await until(() => models.answered() > before);
  const successor = await end(org.owner_key, name);
  for (const { url } of [streaming, other]) {
    const refused = await post(url + path, key, chat('Hello'));
    expect(refused.status).toBe(401);
    expect(JSON.parse(refused.text).error.code).toBe('invalid_credential');
    expect(refused.text).not.toContain(key);
    expect((await modelsOf(key, url)).status).toBe(401);
    // Another mistake does not hide that the key has ended.
    expect((await post(url + path, key, '{')).status).toBe(401);
    expect((await post(url + path, key, chat('Hello', { model: 'none' }))).status).toBe(401);
  }
  expect(await openHolds(world.api, org.org_id)).toBe(1);
  models.release();
  expect((await stream).text).toContain('[DONE]');
  expect(await lastCharge(world, org.org_id)).toMatchObject({
    status: 'settled',
    usage_source: 'upstream',
  });
  return { successor, org };
}

test('a key revoked at the control plane: the next call at two gateways is 401, a stream in flight finishes and settles', async () => {
  await endInMidStream(async (owner_key, name) => {
    const answer = await world.api.call('delete', `/v1/tokens/${name}`, { key: owner_key });
    expect(answer.status).toBe(200);
    return undefined;
  });
});

test('a rotated key: the old value is 401 at two gateways at once, the new one works, a stream in flight finishes and settles', async () => {
  const { successor = '' } = await endInMidStream(async (owner_key, name) => {
    const answer = await world.api.call('post', `/v1/tokens/${name}/rotate`, {
      key: owner_key,
      body: {},
    });
    expect(answer.status).toBe(201);
    return answer.body.key;
  });
  for (const url of [world.url, other.url])
    expect((await post(url + path, successor, chat('Hello'))).status).toBe(200);
});

test('a key over its budget is 403 without a ticket, and nothing goes upstream', async () => {
  const key = await gatewayKey(world.api, world.org.org_id, { max_budget_nanos: 1n });
  await forgetArrivals(world.models_url);
  const answer = await post(world.url + path, key, chat('Hello'));
  expect(answer.status).toBe(403);
  const body = JSON.parse(answer.text);
  expect(body.error.code).toBe('key_budget_exceeded');
  expect(body.cost_ticket).toBeUndefined();
  expect(answer.headers['x-should-retry']).toBe('false');
  expect(await arrivals(world.models_url)).toEqual([]);
});

test('allowed_models: null is all, a list is that list, an empty list is none; the model list says exactly what may be called', async () => {
  const all = [
    'gpt-4o-mini',
    'gpt-4o',
    'o4-mini',
    'text-embedding-3-small',
    'omni-moderation-latest',
    'whisper-1',
    'gpt-4o-mini-transcribe',
    'gpt-4o-mini-tts',
    'unpriced',
    'claude-sonnet-4-5',
    'unpriced-claude',
  ];
  for (const [allowed_models, may] of [
    [null, all],
    [['gpt-4o', 'unknown'], ['gpt-4o']],
    [['gpt-4o*'], all.filter((model) => model.startsWith('gpt-4o'))],
    [['*'], all],
    // Made before a star in another place was refused.
    [['*-4o', 'gpt-*-mini', 'gpt-4*o'], []],
    [[], []],
  ] as [string[] | null, string[]][]) {
    const key = await gatewayKey(world.api, world.org.org_id, { allowed_models });
    expect((await modelsOf(key)).ids).toEqual(may);
    for (const model of ['gpt-4o-mini', 'gpt-4o', 'GPT-4o', 'openai/gpt-4o']) {
      const { status, text } = await post(world.url + path, key, chat('Hello', { model }));
      if (may.includes(model)) expect(status).toBe(200);
      else if (allowed_models === null || allowed_models.includes('*')) expect(status).toBe(404);
      else {
        expect(status).toBe(403);
        expect(JSON.parse(text).error).toMatchObject({ code: 'model_not_allowed', param: 'model' });
      }
    }
  }
});

test('a model that exists here and that the key may not use is 403, one that does not is 404', async () => {
  const show = async (allowed_models: string[] | null, model: string) => {
    const key = await gatewayKey(world.api, world.org.org_id, { allowed_models });
    const headers = { authorization: `Bearer ${key}` };
    const answer = await fetch(`${world.url}/v1/models/${model}`, { headers });
    const { error } = (await answer.json()) as { error?: { code: string; param: string } };
    return [answer.status, error?.code, error?.param];
  };
  expect(await show(['gpt-4o'], 'gpt-4o')).toEqual([200, undefined, undefined]);
  for (const allowed of [['gpt-4o-*'], [], ['*4o']])
    expect(await show(allowed, 'gpt-4o')).toEqual([403, 'model_not_allowed', 'model']);
  for (const allowed of [null, [], ['gpt-9'], ['*']])
    expect(await show(allowed, 'gpt-9')).toEqual([404, 'model_not_found', 'model']);
});

test('a key is taken from x-api-key too; an access key is no gateway key', async () => {
  const given = { 'x-api-key': world.key };
  expect((await post(world.url + path, undefined, chat('Hello'), given)).status).toBe(200);
  const access = await makeKey(world.api.db, world.org.org_id);
  expect((await post(world.url + path, access, chat('Hello'))).status).toBe(401);
});

test('a key whose checksum is wrong is refused without a question to the control plane', async () => {
  // Nobody answers there.
  const { url } = await world.openGateway({ api_urls: ['http://127.0.0.1:9'] });
  const whole = await newKey('gateway');
  const changed = `${whole.slice(0, -1)}${whole.endsWith('a') ? 'b' : 'a'}`;
  for (const key of [changed, whole.slice(0, -1), `${whole}0`, whole.replace('gk_', 'gk_0')]) {
    expect((await post(url + path, key, chat('Hello'))).status).toBe(401);
    expect((await modelsOf(key, url)).status).toBe(401);
  }
  expect((await post(url + path, whole, chat('Hello'))).status).toBe(503);
});

test("the client's key, cookies and identity headers never go upstream, cookies never come back", async () => {
  await forgetArrivals(world.models_url);
  const given = {
    cookie: 'session=1',
    'x-user-id': 'somebody',
    'x-api-key': 'a-key',
    'x-forwarded-for': '10.0.0.1',
    'proxy-authorization': 'Basic abc',
  };
  for (const stream of [false, true]) {
    const body = chat('Hello', { stream });
    const direct = await post(world.models_url + path, 'direct', body);
    expect(direct.headers['set-cookie']).toBeDefined();
    await forgetArrivals(world.models_url);
    const { headers } = await post(world.url + path, world.key, body, given);
    expect(headers['set-cookie']).toBeUndefined();
    const [arrived] = await arrivals(world.models_url);
    expect(JSON.stringify(arrived)).not.toContain(world.key);
    expect(arrived?.headers).toMatchObject({ authorization: 'Bearer upstream-secret' });
    for (const name of Object.keys(given)) expect(arrived?.headers[name]).toBeUndefined();
  }
});

test("in gateway-key mode a client's X-User-ID changes nothing: the key's own wallets pay", async () => {
  const org = await funded();
  await credit(world.api.db, org.org_id, org.user_wallet, 1_000_000_000n);
  const key = await gatewayKey(world.api, org.org_id);
  await post(world.url + path, key, chat('Hello'), { 'x-user-id': org.user_id });
  await lastCharge(world, org.org_id);
  const [row] = await world.api.db('reservations').where({ org_id: org.org_id });
  expect(row).toMatchObject({ user_id: null, wallet_id: org.org_wallet });
});

test.each<[string, object, Record<string, string>]>([
  ['messages[0]', { messages: [1] }, {}],
  ['x-svc-agent-id', {}, { 'x-svc-agent-id': 'a'.repeat(8_000) }],
  ['x-svc-hold-ms', {}, { 'x-svc-hold-ms': 'soon' }],
  ['x-svc-cost-ticket', {}, { 'x-svc-cost-ticket': 't'.repeat(201) }],
])(
  'a wrong %s is refused by its name, and does not hide that the key has ended',
  async (param, more, headers) => {
    const org = await funded();
    const name = randomUUID();
    const key = await gatewayKey(world.api, org.org_id, { name });
    const send = () => post(world.url + path, key, chat('Hello', more), headers);
    const refused = await send();
    expect(refused.status).toBe(422);
    expect(JSON.parse(refused.text).error.param).toBe(param);
    await world.api.call('delete', `/v1/tokens/${name}`, { key: org.owner_key });
    expect((await send()).status).toBe(401);
    expect(await openHolds(world.api, org.org_id)).toBe(0);
  },
);

test('an agent of another organization is refused as a field, and nothing is held', async () => {
  const { org_id } = await funded();
  const key = await gatewayKey(world.api, org_id);
  const answer = await post(world.url + path, key, chat('Hello'), { 'x-svc-agent-id': 'agent_x' });
  expect(answer.status).toBe(422);
  expect(await openHolds(world.api, org_id)).toBe(0);
});
