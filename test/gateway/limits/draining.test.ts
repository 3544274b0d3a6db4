import { connect } from 'node:net';
import OpenAI, { RateLimitError } from 'openai';
import { many } from '../../../domain/sql';
import { adopt } from '../../../gateway/adopt';
import { openSnapshot } from '../../../gateway/call/snapshot';
import { parseSettings } from '../../../gateway/config/settings';
import {
  chat,
  gatewayKey,
  openWorld,
  post,
  type TestGateway,
  type World,
} from '../../support/gateway';
import { credit, makeOrg, type TestOrg } from '../../support/ledger';
import { openAtMinute } from '../../support/limits';
import { type BreakableRedis, openRedis } from '../../support/redis';
import { connect as openSocket } from '../../support/socket';
import { until } from '../../support/until';
import { openWire, type Wire } from '../../support/wire';

const CHAT = '/v1/chat/completions';

let world: World;
let wire: Wire;
let redis: BreakableRedis;

beforeAll(async () => {
  world = await openWorld();
  wire = await openWire(world.models_url);
  redis = await openRedis();
  process.env.TEST_REDIS_URL = redis.url;
});
afterEach(() => {
  wire.set('pass');
  wire.release();
});
afterAll(async () => {
  await world.close();
  await wire.close();
  await redis.close();
});

/** A gateway whose models are behind the wire. */
function open(settings: object): Promise<TestGateway> {
  return openAtMinute(world, { settings, target: { base_url: `${wire.url}/v1` } });
}

async function ask(gateway: TestGateway, key = world.key, headers: Record<string, string> = {}) {
  const answer = await post(gateway.url + CHAT, key, chat('hi'), headers);
  const error = answer.status < 400 ? {} : JSON.parse(answer.text).error;
  return { status: answer.status, error, headers: answer.headers };
}

async function fundedKey(amount = 10_000_000_000n): Promise<{ org: TestOrg; key: string }> {
  const org = await makeOrg(world.api.db);
  if (amount > 0n) await credit(world.api.db, org.org_id, org.org_wallet, amount);
  return { org, key: await gatewayKey(world.api, org.org_id, { user_id: org.user_id }) };
}

async function eventsOf(gateway: TestGateway, org_id: string) {
  await until(() => gateway.gateway.events.count() === 0);
  return many<{ type: string; action: string | null; payload: Record<string, unknown> }>(
    world.api.db,
    `select e.type, e.action, e.payload from events e
     where e.org_id = :org_id and e.type like 'rate_limit.%' order by e.id`,
    { org_id },
  );
}

const global = (limits: object, more: object = {}) => ({
  rate_limits: { global: limits },
  global_rate_limit: more,
});

test('each decision is one event over all tiers, with the most constrained scope', async () => {
  const { org, key } = await fundedKey();
  const gateway = await open({
    rate_limits: { per_key: { rpm: 9, tpm: 5_000 }, per_user: { rpm: 2 }, global: { rpm: 50 } },
  });
  for (let n = 0; n < 3; n += 1) await ask(gateway, key);
  const events = await eventsOf(gateway, org.org_id);
  const [first, second, third] = events.map(({ payload }) => payload);
  expect(events.map(({ type, action }) => [type, action])).toEqual([
    ['rate_limit.checked', null],
    ['rate_limit.checked', null],
    ['rate_limit.exceeded', 'rate_limited'],
  ]);
  expect(first).toMatchObject({
    ...{ scope: 'per_user', user_id: org.user_id, team_id: null, remaining_rpm: 1 },
    identity_proof_method: 'gateway_key',
  });
  expect(first?.key_id).toEqual(expect.any(String));
  expect(first?.remaining_tpm).toBeLessThan(5_000);
  expect(second).toMatchObject({ remaining_rpm: 0 });
  expect(third).toMatchObject({
    ...{ scope: 'per_user', limit_type: 'rpm', limit_value: 2, current_value: 2 },
  });
});

test('an address that is refused is told of, where its key is known', async () => {
  const { org, key } = await fundedKey();
  const gateway = await open({ rate_limits: { ip: { enabled: true, rpm: 1 } } });
  expect([(await ask(gateway, key)).status, (await ask(gateway, key)).status]).toEqual([200, 429]);
  const events = await eventsOf(gateway, org.org_id);
  expect(events.map(({ type, payload }) => [type, payload.scope])).toEqual([
    ['rate_limit.checked', 'ip'],
    ['rate_limit.exceeded', 'ip'],
  ]);
});

test('a known caller is told of also while an unknown one is asked for', async () => {
  const { org, key } = await fundedKey();
  const gateway = await open({ rate_limits: { ip: { enabled: true, rpm: 1 } } });
  expect((await ask(gateway, key)).status).toBe(200);
  // Nobody's key can be looked up meanwhile.
  const lock = await world.api.db.transaction();
  await lock.raw('lock table tokens in access exclusive mode');
  const unknown = await ask(gateway, `svc_gk_${'0'.repeat(40)}`);
  const is_asking = gateway.gateway.identities.isAsking();
  const known = await ask(gateway, key);
  await lock.rollback();
  expect([unknown.status, is_asking, known.status]).toEqual([429, true, 429]);
  await until(() => !gateway.gateway.identities.isAsking());
  const events = await eventsOf(gateway, org.org_id);
  expect(events.map(({ type }) => type)).toEqual(['rate_limit.checked', 'rate_limit.exceeded']);
});

test('a global limit that is reached opens the circuit once: until its window ends nothing passes another tier', async () => {
  const { org, key } = await fundedKey();
  const [second, third] = [await fundedKey(), await fundedKey()];
  const gateway = await open({
    rate_limits: { global: { rpm: 2 }, per_key: { rpm: 1 } },
    global_rate_limit: { window_seconds: 4 },
  });
  expect((await ask(gateway, key)).status).toBe(200);
  expect((await ask(gateway, key)).error.scope).toBe('per_key');
  expect((await ask(gateway, second.key)).status).toBe(200);
  const scopes = [];
  for (const one of [third.key, key, key, third.key])
    scopes.push((await ask(gateway, one)).error.scope);
  expect(scopes).toEqual(['global', 'global', 'global', 'global']);
  const ours = (await eventsOf(gateway, org.org_id)).map(({ type }) => type);
  expect(ours).not.toContain('rate_limit.circuit_open');
  expect((await eventsOf(gateway, third.org.org_id)).map(({ type }) => type).sort()).toEqual([
    'rate_limit.circuit_open',
    'rate_limit.exceeded',
    'rate_limit.exceeded',
  ]);
  await until(async () => (await ask(gateway, third.key)).status === 200, 10_000);
});

test('one request too large for the global tokens is refused alone', async () => {
  const gateway = await open({
    ...global({ tpm: 1_000 }),
    token_rate_limit: { pre_request_estimate: true },
  });
  const huge = await post(gateway.url + CHAT, world.key, chat('word '.repeat(2_000)));
  expect([huge.status, (await ask(gateway)).status]).toEqual([429, 200]);
});

test('a global limit that queues lets requests wait for its next window', async () => {
  const gateway = await open(
    global({ rpm: 3 }, { window_seconds: 1, reject_action: 'queue', queue_timeout_ms: 10_000 }),
  );
  const began = performance.now();
  const answers = await Promise.all(Array.from({ length: 9 }, () => ask(gateway)));
  expect(answers.map(({ status }) => status)).toEqual(Array(9).fill(200));
  // Nine in windows of three take two whole ones at least.
  expect(performance.now() - began).toBeGreaterThan(1_000);
});

test('who waits longer than queue_timeout_ms is refused then', async () => {
  const gateway = await open(global({ rpm: 1 }, { reject_action: 'queue', queue_timeout_ms: 300 }));
  expect((await ask(gateway)).status).toBe(200);
  const began = performance.now();
  const { status, headers } = await ask(gateway);
  const took = performance.now() - began;
  expect(status).toBe(429);
  expect(took).toBeGreaterThanOrEqual(290);
  expect(took).toBeLessThan(2_000);
  expect(Number(headers['retry-after'])).toBeGreaterThanOrEqual(1);
});

test('who waits behind others is told of the counter too', async () => {
  const { org, key } = await fundedKey();
  const gateway = await open(global({ rpm: 1 }, { reject_action: 'queue', queue_timeout_ms: 200 }));
  const answers = await Promise.all([ask(gateway, key), ask(gateway, key), ask(gateway, key)]);
  expect(answers.map(({ status }) => status).sort()).toEqual([200, 429, 429]);
  const told = (await eventsOf(gateway, org.org_id)).filter(({ action }) => action !== null);
  expect(told.map(({ payload }) => payload.current_value)).toEqual([1, 1]);
});

test('an address is counted where nothing is priced: a path of sockets asked as plain HTTP', async () => {
  const gateway = await open({ rate_limits: { ip: { enabled: true, rpm: 2 } } });
  const found: number[] = [];
  for (let n = 0; n < 3; n += 1) {
    const wrong = { authorization: `Bearer svc_gk_${'0'.repeat(40)}` };
    const answer = await fetch(`${gateway.url}/v1/responses/ws`, { headers: wrong });
    await answer.text();
    found.push(answer.status);
  }
  expect(found).toEqual([401, 401, 429]);
});

test('an address that guesses keys is refused also while the global limit refuses everything', async () => {
  const gateway = await open({
    rate_limits: { global: { rpm: 1 }, ip: { enabled: true, rpm: 3 } },
  });
  const wrong = `svc_gk_${'0'.repeat(40)}`;
  const found: (string | number)[] = [];
  for (const key of [world.key, world.key, wrong, wrong, wrong]) {
    const { status, error } = await ask(gateway, key);
    found.push(error.scope ?? status);
  }
  expect(found).toEqual([200, 'global', 401, 401, 'ip']);
});

test('a slot that is given back goes to the first in the queue', async () => {
  const gateway = await open(
    global({ max_parallel_requests: 1 }, { reject_action: 'queue', queue_timeout_ms: 10_000 }),
  );
  wire.set('late');
  const first = ask(gateway);
  await until(() => wire.lost() > 0);
  const rest = [ask(gateway), ask(gateway), ask(gateway)];
  wire.set('pass');
  wire.release();
  const answers = await Promise.all([first, ...rest]);
  expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200]);
});

test('after 1,000 aborted and malformed requests the counter of calls under way is right', async () => {
  const gateway = await open({ rate_limits: { per_key: { max_parallel_requests: 2 } } });
  const body = JSON.stringify(chat('cut off', { stream: true }));
  const { hostname, port } = new URL(gateway.url);
  const aborted = (n: number) =>
    new Promise<void>((resolve) => {
      const socket = connect(Number(port), hostname);
      socket.on('error', () => undefined).on('close', () => resolve());
      const sent = n % 3 === 0 ? body.slice(0, 20) : body;
      socket.write(
        `POST ${CHAT} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${world.key}\r\n` +
          `content-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${sent}`,
        () => setImmediate(() => socket.destroy()),
      );
    });
  for (let n = 0; n < 20; n += 1) {
    const cut = Array.from({ length: 25 }, (_, at) => aborted(at));
    const broken = Array.from({ length: 25 }, (_, at) =>
      post(
        gateway.url + CHAT,
        world.key,
        at % 2 ? '{"model":' : { ...chat('x'), model: 'unpriced' },
      ),
    );
    await Promise.all([...cut, ...broken]);
  }
  await until(() => gateway.gateway.calls.size === 0, 15_000);
  wire.set('late');
  const before = wire.lost();
  const two = [ask(gateway), ask(gateway)];
  await until(() => wire.lost() >= before + 2);
  expect((await ask(gateway)).status).toBe(429);
  wire.set('pass');
  wire.release();
  expect((await Promise.all(two)).map(({ status }) => status)).toEqual([200, 200]);
}, 60_000);

test('a held call gives its slot back, and waits for one again once it is paid', async () => {
  const { org, key } = await fundedKey(0n);
  const gateway = await open({
    ...global({ max_parallel_requests: 1 }),
    cost_tickets: { hold_ms: 20_000 },
  });
  const held = ask(gateway, key);
  await until(async () => (await waiting(org)) === 1);
  expect((await ask(gateway)).status).toBe(200);
  await credit(world.api.db, org.org_id, org.org_wallet, 10_000_000_000n);
  expect((await held).status).toBe(200);
});

test('a held call that is paid and finds no slot within its hold is refused, and its ticket is open again', async () => {
  const { org, key } = await fundedKey(0n);
  const gateway = await open({
    ...global({ max_parallel_requests: 1 }),
    cost_tickets: { hold_ms: 20_000 },
  });
  const held = ask(gateway, key, { 'x-svc-hold-ms': '2500' });
  await until(async () => (await waiting(org)) === 1);
  const before = wire.lost();
  wire.set('late');
  const other = ask(gateway);
  await until(() => wire.lost() > before);
  await credit(world.api.db, org.org_id, org.org_wallet, 10_000_000_000n);
  const { status, error } = await held;
  expect([status, error.scope, error.limit_type]).toEqual([429, 'global', 'parallel']);
  await until(async () => (await ticketsOf(org))[0]?.status === 'open');
  wire.set('pass');
  wire.release();
  expect((await other).status).toBe(200);
});

async function waiting({ org_id }: TestOrg): Promise<number> {
  const rows = await many(
    world.api.db,
    'select 1 as one from ticket_waiters where org_id = :org_id and answer is null',
    { org_id },
  );
  return rows.length;
}

function ticketsOf({ org_id }: TestOrg) {
  return many<{ status: string }>(
    world.api.db,
    'select status from cost_tickets where org_id = :org_id',
    { org_id },
  );
}

const shared = (more: object = {}) => ({
  distributed_rate_limit: {
    ...{ enabled: true, store_url_env: 'TEST_REDIS_URL' },
    key_prefix: `t${Math.random().toString(36).slice(2)}:`,
    ...more,
  },
});

test('a shared limit of 10 over four gateways and a Redis is 10, not 40', async () => {
  const settings = { rate_limits: { per_key: { rpm: 10 } }, ...shared() };
  const gateways = await Promise.all([1, 2, 3, 4].map(() => open(settings)));
  await until(() => gateways.every(({ gateway }) => gateway.limits.storeState() === 'up'));
  const second = new Date().getSeconds();
  if (second > 50) await until(() => new Date().getSeconds() < 50, 15_000);
  const asked = Array.from({ length: 40 }, (_, n) => ask(gateways[n % 4] as TestGateway));
  const answers = (await Promise.all(asked)).map(({ status }) => status);
  expect(answers.filter((status) => status === 200)).toHaveLength(10);
  expect(answers.filter((status) => status === 429)).toHaveLength(30);
}, 30_000);

test('with a Redis that is silent requests keep their latency, and readiness says so and stays ready', async () => {
  const gateway = await open({ rate_limits: { per_key: { rpm: 1_000 } }, ...shared() });
  await until(() => gateway.gateway.limits.storeState() === 'up');
  expect(await readiness(gateway)).toEqual([200, { status: 'ready', rate_limit_store: 'up' }]);
  redis.freeze();
  const took: number[] = [];
  for (let n = 0; n < 15; n += 1) {
    const began = performance.now();
    expect((await ask(gateway)).status).toBe(200);
    took.push(performance.now() - began);
  }
  const ready = await readiness(gateway);
  redis.thaw();
  expect(ready).toEqual([200, { status: 'ready', rate_limit_store: 'down' }]);
  expect(took.filter((ms) => ms > 60).length).toBeLessThanOrEqual(2);
  await until(() => gateway.gateway.limits.storeState() === 'up');
});

async function readiness(gateway: TestGateway) {
  const answer = await fetch(`${gateway.url}/readyz`);
  return [answer.status, await answer.json()];
}

test('without local_fallback a store that is away lets everything pass, and nothing is said of limits', async () => {
  process.env.TEST_DEAD_REDIS = 'redis://127.0.0.1:1';
  const { org, key } = await fundedKey();
  const gateway = await open({
    rate_limits: { per_key: { rpm: 1 } },
    ...shared({ store_url_env: 'TEST_DEAD_REDIS', local_fallback: false }),
  });
  await until(() => gateway.gateway.limits.storeState() === 'down');
  const answers = [await ask(gateway, key), await ask(gateway, key), await ask(gateway, key)];
  expect(answers.map(({ status }) => status)).toEqual([200, 200, 200]);
  expect(answers[2]?.headers['x-ratelimit-limit']).toBeUndefined();
  expect(await eventsOf(gateway, org.org_id)).toEqual([]);
});

test('each frame of a socket is a request of its own', async () => {
  const { key } = await fundedKey();
  const gateway = await open({ rate_limits: { per_key: { rpm: 2 } } });
  const client = await openSocket(`${gateway.url}/v1/responses`, {
    authorization: `Bearer ${key}`,
  });
  const frame = { type: 'response.create', model: 'gpt-4o-mini', input: 'hi' };
  for (let n = 0; n < 2; n += 1) {
    client.send(frame);
    await client.answer('response.completed');
  }
  client.send(frame);
  const [refused] = await client.answer('error');
  expect(refused?.error).toMatchObject({ code: 'rate_limit_exceeded', scope: 'per_key' });
  client.ws.terminate();
});

test("OpenAI's client sees the refusal with its headers, its code and its scope", async () => {
  const { key } = await fundedKey();
  const gateway = await open({ rate_limits: { per_user: { rpm: 1 } } });
  const client = new OpenAI({ apiKey: key, baseURL: `${gateway.url}/v1`, maxRetries: 0 });
  const call = () =>
    client.chat.completions.create({
      model: 'gpt-4o-mini',
      messages: [{ role: 'user', content: 'hi' }],
    });
  const { response } = await call().withResponse();
  expect(response.headers.get('x-ratelimit-remaining')).toBe('0');
  const error = await call().catch((thrown: unknown) => thrown as RateLimitError);
  expect(error).toBeInstanceOf(RateLimitError);
  expect(error).toMatchObject({
    status: 429,
    code: 'rate_limit_exceeded',
    type: 'rate_limit_error',
  });
  const { headers, error: inner } = error as RateLimitError;
  expect((inner as { scope?: string }).scope).toBe('per_user');
  expect(Number(headers?.get('retry-after'))).toBeGreaterThanOrEqual(1);
  expect(headers?.get('x-ratelimit-limit')).toBe('1');
});

test('counters go on under another configuration, also under another limit', async () => {
  const { key } = await fundedKey();
  const gateway = await open({ rate_limits: { per_key: { rpm: 5 } } });
  for (let n = 0; n < 3; n += 1) await ask(gateway, key);
  const { snapshot } = gateway.gateway;
  const settings = parseSettings(
    JSON.stringify({ ...snapshot.settings, rate_limits: { per_key: { rpm: 4 } } }),
  );
  adopt(gateway.gateway, openSnapshot(settings, gateway.gateway));
  const next = await ask(gateway, key);
  expect([next.status, next.headers['x-ratelimit-remaining']]).toEqual([200, '0']);
  expect((await ask(gateway, key)).status).toBe(429);
});

test('the limits of a policy pack: by span, and a burst as a token bucket', async () => {
  const pack = (rate_limit: object) => ({
    policies: { chain: ['agent-firewall'] },
    policy: { 'agent-firewall': { rate_limit } },
  });
  const hour = await open(pack({ per_user: { requests_per_hour: 2 }, retry_after_seconds: 17 }));
  const { key } = await fundedKey();
  const found = [await ask(hour, key), await ask(hour, key), await ask(hour, key)];
  expect(found.map(({ status }) => status)).toEqual([200, 200, 429]);
  expect(found[2]?.headers['retry-after']).toBe('17');
  expect(found[2]?.error.scope).toBe('pack_per_user');
  const burst = await open(pack({ global: { requests_per_minute: 60 }, burst_size: 20 }));
  const answers = await Promise.all(Array.from({ length: 30 }, () => ask(burst)));
  const passed = answers.filter(({ status }) => status === 200).length;
  expect(passed).toBeGreaterThanOrEqual(20);
  expect(passed).toBeLessThanOrEqual(23);
  const queued = await open(
    pack({ global: { requests_per_minute: 120 }, burst_size: 1, on_exceed: 'queue' }),
  );
  const waited = await Promise.all([ask(queued), ask(queued), ask(queued)]);
  expect(waited.map(({ status }) => status)).toEqual([200, 200, 200]);
});

test.each([
  [{ rate_limits: { ip: { enabled: true } } }, 'rate_limits.ip.rpm: is needed'],
  [{ rate_limits: { ip: { whitelist: ['10.0.0.0/33'] } } }, 'rate_limits.ip.whitelist[0]:'],
  [{ rate_limits: { per_key: { rpm: 0 } } }, 'rate_limits.per_key.rpm:'],
  [{ rate_limits: { per_model: { rpm: 1 } } }, 'rate_limits.per_model: there is no such key'],
  [{ global_rate_limit: { queue_timeout_ms: 10 } }, 'global_rate_limit.queue_timeout_ms:'],
  [
    {
      policy: {
        'agent-firewall': { rate_limit: { burst_size: 1, global: { requests_per_hour: 9 } } },
      },
    },
    'policy.agent-firewall.rate_limit.burst_size:',
  ],
  [{ distributed_rate_limit: { enabled: true } }, 'distributed_rate_limit.store_url_env:'],
  [
    { distributed_rate_limit: { enabled: true, store_url_env: 'NOT_SET_ANYWHERE' } },
    'the environment variable NOT_SET_ANYWHERE is not set',
  ],
  [
    { distributed_rate_limit: { enabled: true, store_url_env: 'TEST_MODELS_KEY' } },
    'holds no URL of a Redis',
  ],
  [
    { ...shared(), user_rate_limit: { window_seconds: 30 } },
    'distributed_rate_limit.window_ms: 60000 is not user_rate_limit.window_seconds',
  ],
  [{ consumer_groups: [{ name: 'a', inherits: 'none' }] }, 'consumer_groups[0].inherits:'],
  [
    {
      consumer_groups: [
        { name: 'a', keys: ['k1'] },
        { name: 'b', keys: ['k1'] },
      ],
    },
    'consumer_groups[1].keys: k1 is already in the group "a"',
  ],
  [{ rate_limit_profiles: [{ name: 'p', rpm: 1 }, { name: 'p' }] }, 'rate_limit_profiles[1].name:'],
])('a configuration that contradicts itself is refused with the path: %j', (settings, message) => {
  const target = {
    ...{ id: 'x', provider: 'openai', shape: 'openai', api_key_env: 'TEST_MODELS_KEY' },
    ...{ base_url: 'http://127.0.0.1:1/v1', models: ['m'] },
  };
  const text = JSON.stringify({ providers: { targets: [target] }, ...settings });
  expect(() => parseSettings(text)).toThrow(message);
});
