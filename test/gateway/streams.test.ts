import { once } from 'node:events';
import { brotliDecompressSync, gunzipSync } from 'node:zlib';
import { request } from 'undici';
import {
  arrivals,
  chat,
  forgetArrivals,
  gatewayKey,
  lastCharge,
  openHolds,
  openWorld,
  post,
  type World,
} from '../support/gateway';
import { credit, makeOrg } from '../support/ledger';
import { until } from '../support/until';

let world: World;
const path = '/v1/chat/completions';

beforeAll(async () => {
  world = await openWorld();
});

afterAll(() => world.close());

function call(content: string, more: object = {}) {
  return post(world.url + path, world.key, chat(content, more));
}

function decoded({ headers, bytes }: Awaited<ReturnType<typeof post>>): string {
  const decoders = { gzip: gunzipSync, br: brotliDecompressSync };
  const decode = decoders[headers['content-encoding'] as keyof typeof decoders];
  return (decode ? decode(bytes) : bytes).toString();
}

const last = () => lastCharge(world, world.org.org_id);
const asked = { stream: true, stream_options: { include_usage: true } };

test.each([
  'crlf',
  'cr',
  'bytes',
  'big-line size=1000000',
  'chunks count=200',
  'comments count=3 delay=5',
  'usage-last',
])('a stream with %s reaches the client byte for byte and is metered', async (fault) => {
  const body = chat(`Hello [[fault:${fault}]]`, asked);
  const direct = await post(world.models_url + path, 'direct', body);
  const through = await post(world.url + path, world.key, body);
  expect(through.status).toBe(200);
  expect(through.bytes.equals(direct.bytes)).toBe(true);
  expect(await last()).toMatchObject({
    status: 'settled',
    usage_source: 'upstream',
    outcome: 'completed',
  });
});

test.each(['gzip', 'br'])(
  'a stream in %s reaches the client whole and is metered',
  async (fault) => {
    const body = chat(`Hello [[fault:${fault}]]`, asked);
    const direct = await post(world.models_url + path, 'direct', body);
    const through = await post(world.url + path, world.key, body);
    expect(decoded(through)).toBe(decoded(direct));
    expect(await last()).toMatchObject({ usage_source: 'upstream', outcome: 'completed' });
  },
);

test.each(['gzip', 'br'])(
  'a JSON answer in %s reaches the client as it came and is metered',
  async (fault) => {
    const body = chat(`Hello [[fault:${fault}]]`);
    const direct = await post(world.models_url + path, 'direct', body);
    const through = await post(world.url + path, world.key, body);
    expect(through.headers['content-encoding']).toBe(direct.headers['content-encoding']);
    expect(through.bytes.equals(direct.bytes)).toBe(true);
    expect(await last()).toMatchObject({ usage_source: 'upstream' });
  },
);

test.each([{}, { stream: true }])(
  'usage that never comes is estimated, never zero: %j',
  async (more) => {
    expect((await call('Hello there [[fault:no-usage]]', more)).status).toBe(200);
    const charge = await last();
    expect(charge).toMatchObject({ status: 'settled', usage_source: 'estimated' });
    expect(charge.actual_cost_nanos).toBeGreaterThan(0n);
  },
);

test.each(['cut after=3', 'end after=3', 'error-frame after=3'])(
  'a stream that breaks (%s) does not end like a whole one, and what came is charged',
  async (fault) => {
    const { text } = await call(`Hello [[fault:${fault}]] [[fault:chunks count=20]]`, {
      stream: true,
    }).catch((error) => ({ text: String(error) }));
    expect(text).not.toContain('[DONE]');
    if (fault !== 'end after=3') expect(text).toMatch(/"error"|terminated|closed|reset/);
    const charge = await last();
    expect(charge.usage_source).toBe('estimated');
    expect(charge.actual_cost_nanos).toBeGreaterThan(0n);
  },
);

test.each([
  ['error status=500', 500],
  ['error status=429', 429],
  ['html', 502],
  ['redirect', 502],
  ['reset', 502],
])(
  'an upstream that fails before the first byte (%s) answers %i and everything is released',
  async (fault, status) => {
    expect((await call(`Hello [[fault:${fault}]]`)).status).toBe(status);
    expect(await last()).toMatchObject({
      status: 'released',
      outcome: 'failed',
      actual_cost_nanos: 0n,
    });
  },
);

test('an upstream that accepts and never answers is bounded by the first-byte time-out', async () => {
  const gateway = await world.openGateway({ settings: { timeouts: { first_byte_ms: 1_000 } } });
  const answer = await post(gateway.url + path, world.key, chat('Hello [[fault:silence]]'));
  expect(answer.status).toBe(504);
  expect(await last()).toMatchObject({ status: 'released' });
});

test('a stream that falls silent is bounded by the idle time-out, and what came is charged', async () => {
  const gateway = await world.openGateway({ settings: { timeouts: { idle_ms: 1_000 } } });
  await post(
    gateway.url + path,
    world.key,
    chat('Hello [[fault:silence after=3]]', { stream: true }),
  ).catch(() => undefined);
  expect((await last()).actual_cost_nanos).toBeGreaterThan(0n);
});

test('a client that leaves after chunk 3 of 200: the upstream is drained or stopped, the request is settled above zero', async () => {
  await forgetArrivals(world.models_url);
  const answer = await request(world.url + path, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${world.key}` },
    body: JSON.stringify(
      chat('Hello [[fault:chunks count=200]] [[fault:slow delay=5]]', { stream: true }),
    ),
  });
  answer.body.on('error', () => undefined);
  await once(answer.body, 'data');
  answer.body.destroy();
  const charge = await last();
  expect(charge.status).toBe('settled');
  expect(charge.actual_cost_nanos).toBeGreaterThan(0n);
});

test('a call longer than its hold lives is extended, and settles in time', async () => {
  const org = await makeOrg(world.api.db, { reservation_ttl_seconds: 2 });
  await credit(world.api.db, org.org_id, org.org_wallet, 1_000_000_000n);
  const key = await gatewayKey(world.api, org.org_id);
  const { text } = await post(
    world.url + path,
    key,
    chat('Hello [[fault:chunks count=40]] [[fault:slow delay=100]]', { stream: true }),
  );
  expect(text).toContain('[DONE]');
  expect(await lastCharge(world, org.org_id)).toMatchObject({
    status: 'settled',
    usage_source: 'upstream',
  });
});

test("the client's key, cookies and identity headers never go upstream, cookies never come back", async () => {
  await forgetArrivals(world.models_url);
  const headers = { cookie: 'session=1', 'x-user-id': 'somebody', 'x-svc-agent-id': '' };
  await post(world.url + path, world.key, chat('Hello'), {
    cookie: headers.cookie,
    'x-user-id': headers['x-user-id'],
  });
  const [arrived] = await arrivals(world.models_url);
  expect(JSON.stringify(arrived)).not.toContain(world.key);
  expect(arrived?.headers).toMatchObject({ authorization: 'Bearer upstream-secret' });
  expect(arrived?.headers.cookie).toBeUndefined();
  expect(arrived?.headers['x-user-id']).toBeUndefined();
  await until(async () => (await openHolds(world.api, world.org.org_id)) === 0);
});
