import { randomUUID } from 'node:crypto';
import { connect } from 'node:net';
import { many } from '../../../domain/sql';
import { adopt } from '../../../gateway/adopt';
import { openSnapshot } from '../../../gateway/call/snapshot';
import { parseSettings } from '../../../gateway/config/settings';
import { chat, post, type TestGateway } from '../../support/gateway';
import { credit, type TestOrg } from '../../support/ledger';
import { awayFromDayEnd, waitForStore } from '../../support/limits';
import { connect as openSocket } from '../../support/socket';
import { until } from '../../support/until';
import { ask, CHAT, fundedKey, global, open, openRunning, redis, wire, world } from './behind-wire';

async function eventsOf(gateway: TestGateway, org_id: string) {
  await until(() => gateway.gateway.events.count() === 0);
  return many<{ type: string; action: string | null; payload: Record<string, unknown> }>(
    world.api.db,
    `select e.type, e.action, e.payload from events e
     where e.org_id = :org_id and e.type like 'rate_limit.%' order by e.id`,
    { org_id },
  );
}

test('a slot that is given back goes to the first in the queue', async () => {
  const gateway = await open(
    global({ max_parallel_requests: 1 }, { reject_action: 'queue', queue_timeout_ms: 120_000 }),
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
  await until(() => gateway.gateway.calls.size === 0);
  wire.set('late');
  const before = wire.lost();
  const two = [ask(gateway), ask(gateway)];
  await until(() => wire.lost() >= before + 2);
  expect((await ask(gateway)).status).toBe(429);
  wire.set('pass');
  wire.release();
  expect((await Promise.all(two)).map(({ status }) => status)).toEqual([200, 200]);
});

test('a held call gives its slot back, and waits for one again once it is paid', async () => {
  const { org, key } = await fundedKey(0n);
  const gateway = await open({
    ...global({ max_parallel_requests: 1 }),
    cost_tickets: { hold_ms: 600_000 },
  });
  const held = ask(gateway, key);
  await until(async () => (await waiting(org)) === 1);
  expect((await ask(gateway)).status).toBe(200);
  await credit(world.api.db, org.org_id, org.org_wallet, 10_000_000_000n);
  expect((await held).status).toBe(200);
});

test('a held call that is paid and finds no slot within its hold is refused, and its ticket is open again', async () => {
  // A hold that ends before its call is paid proves nothing.
  for (const hold_ms of ['2500', '10000', '40000']) {
    const { org, key } = await fundedKey(0n);
    const gateway = await open({
      ...global({ max_parallel_requests: 1 }),
      cost_tickets: { hold_ms: 600_000 },
    });
    const held = ask(gateway, key, { 'x-svc-hold-ms': hold_ms });
    const over = held.then(() => true);
    const isOver = () => Promise.race([over, false]);
    await until(async () => (await waiting(org)) === 1 || (await isOver()));
    const before = wire.lost();
    wire.set('late');
    const other = ask(gateway);
    await until(() => wire.lost() > before);
    await credit(world.api.db, org.org_id, org.org_wallet, 10_000_000_000n);
    const { status, error } = await held;
    wire.set('pass');
    wire.release();
    expect((await other).status).toBe(200);
    if (status === 402 && hold_ms !== '40000') continue;
    expect([status, error.scope, error.limit_type]).toEqual([429, 'global', 'parallel']);
    await until(async () => (await ticketsOf(org))[0]?.status === 'open');
    return;
  }
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
    key_prefix: `${randomUUID()}:`,
    ...more,
  },
});

test('a shared limit of 10 over four gateways and a Redis is 10, not 40', async () => {
  const settings = {
    rate_limits: { per_user: { rpm: 10 } },
    user_rate_limit: { window_seconds: 86_400 },
    global_rate_limit: { window_seconds: 86_400 },
    ...shared({ window_ms: 86_400_000 }),
  };
  const gateways = await Promise.all([1, 2, 3, 4].map(() => openRunning(settings)));
  await until(() => gateways.every(({ gateway }) => gateway.limits.storeState() === 'up'));
  const { key } = await fundedKey();
  await awayFromDayEnd();
  const asked = Array.from({ length: 40 }, (_, n) => ask(gateways[n % 4] as TestGateway, key));
  const answers = (await Promise.all(asked)).map(({ status }) => status);
  expect(answers.filter((status) => status === 200)).toHaveLength(10);
  expect(answers.filter((status) => status === 429)).toHaveLength(30);
});

test('with a Redis that is silent requests keep their latency, and readiness says so and stays ready', async () => {
  const gateway = await openRunning({ rate_limits: { per_key: { rpm: 1_000 } }, ...shared() });
  const { counters } = gateway.gateway.limits;
  await until(() => gateway.gateway.limits.storeState() === 'up');
  expect(await readiness(gateway)).toEqual([200, { status: 'ready', rate_limit_store: 'up' }]);
  const took = async () => {
    const began = performance.now();
    expect((await ask(gateway)).status).toBe(200);
    return performance.now() - began;
  };
  let usual = Number.POSITIVE_INFINITY;
  for (let n = 0; n < 15; n += 1) usual = Math.min(usual, await took());
  redis.freeze();
  waitForStore(counters, 50);
  await until(async () => {
    await took();
    return gateway.gateway.limits.storeState() === 'down';
  });
  // If each of them waited for the store, none would be less than 50 ms later than usual.
  await until(async () => (await took()) < usual + 45);
  const ready = await readiness(gateway);
  redis.thaw();
  waitForStore(counters, 10_000);
  expect(ready).toEqual([200, { status: 'ready', rate_limit_store: 'down' }]);
  await until(() => gateway.gateway.limits.storeState() === 'up');
});

async function readiness(gateway: TestGateway) {
  const answer = await fetch(`${gateway.url}/readyz`);
  return [answer.status, await answer.json()];
}

test('without local_fallback a store that is away lets everything pass, and nothing is said of limits', async () => {
  process.env.TEST_DEAD_REDIS = 'redis://127.0.0.1:1';
  const { org, key } = await fundedKey();
  const gateway = await openRunning({
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

test('counters go on under another configuration, also under another limit', async () => {
  const { key } = await fundedKey();
  const gateway = await open({ rate_limits: { per_key: { rpm: 5 } } });
  for (let n = 0; n < 3; n += 1) await ask(gateway, key);
  const { snapshot } = gateway.gateway;
  const settings = parseSettings(
    JSON.stringify({ ...snapshot.settings, rate_limits: { per_key: { rpm: 4 } } }),
  );
  await adopt(gateway.gateway, openSnapshot(settings, gateway.gateway));
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
  expect(answers.filter(({ status }) => status === 200)).toHaveLength(20);
  const queued = await openRunning({
    ...pack({ global: { requests_per_minute: 120 }, burst_size: 1, on_exceed: 'queue' }),
    global_rate_limit: { reject_action: 'queue', queue_timeout_ms: 120_000 },
  });
  const waited = await Promise.all([ask(queued), ask(queued), ask(queued)]);
  expect(waited.map(({ status }) => status)).toEqual([200, 200, 200]);
});
