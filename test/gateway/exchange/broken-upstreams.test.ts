import { request } from 'undici';
import { leastOf } from '../../support/cpu';
import {
  arrivals,
  chat,
  forgetArrivals,
  lastCharge,
  openWorld,
  post,
  type World,
} from '../../support/gateway';
import { until } from '../../support/until';

let world: World;
const path = '/v1/chat/completions';

beforeAll(async () => {
  world = await openWorld();
});

afterAll(() => world.close());

const last = () => lastCharge(world, world.org.org_id);

function call(content: string, more: object = {}, url = world.url) {
  return post(url + path, world.key, chat(content, more));
}

/** The text of each event of a stream. */
function eventsIn(text: string): string[] {
  return text.split('\n\n').filter((event) => event !== '');
}

test.each([
  ['error status=500', 500, 'sandbox'],
  ['error status=429', 429, 'sandbox'],
  ['error status=400', 400, 'sandbox'],
  ['error status=401', 502, 'upstream_failed'],
  ['error status=402', 502, 'upstream_failed'],
  ['html', 502, 'upstream_failed'],
  ['plain', 502, 'upstream_failed'],
  ['plain status=503', 503, 'upstream_failed'],
  // A 500 would say that the gateway is at fault.
  ['plain status=500', 502, 'upstream_failed'],
  ['redirect', 502, 'upstream_failed'],
  ['reset', 502, 'upstream_failed'],
])(
  'an upstream that fails before the first byte (%s) answers %i %s, and everything is released',
  async (fault, status, code) => {
    for (const stream of [false, true]) {
      await forgetArrivals(world.models_url);
      const answer = await call(`Hello [[fault:${fault}]]`, { stream });
      expect(answer.status).toBe(status);
      expect(JSON.parse(answer.text).error.code).toBe(code);
      expect(answer.text).not.toContain('<');
      expect(await arrivals(world.models_url)).toHaveLength(1);
      expect(await last()).toMatchObject({
        status: 'released',
        outcome: 'failed',
        actual_cost_nanos: 0n,
      });
    }
  },
);

test.each(['cut after=3', 'end after=3'])(
  'a stream that breaks (%s) ends with an error frame, never clean, and what came is charged by count',
  async (fault) => {
    const content = `Hello [[fault:${fault}]] [[fault:chunks count=20]]`;
    const { text, status } = await call(content, { stream: true });
    expect(status).toBe(200);
    expect(text).not.toContain('[DONE]');
    const events = eventsIn(text);
    expect(events).toHaveLength(4);
    expect(JSON.parse(events.at(-1)?.slice('data: '.length) ?? '')).toMatchObject({
      error: { code: 'upstream_failed', type: 'api_error', message: expect.any(String) },
    });
    const charge = await last();
    expect(charge).toMatchObject({ status: 'settled', usage_source: 'estimated' });
    expect(charge.usage.completion_tokens).toBe(2);
  },
);

test('usage so far with every chunk does not make a broken stream whole, and is what is charged', async () => {
  const content = 'Hello [[fault:cut after=5]] [[fault:chunks count=20]] [[fault:usage-each]]';
  const { text } = await call(content, { stream: true });
  expect(eventsIn(text).at(-1)).toContain('"upstream_failed"');
  const charge = await last();
  expect(charge.status).toBe('settled');
  expect(charge.usage.completion_tokens).toBe(4);
});

test.each(['gzip', 'br'])(
  'a compressed stream (%s) that is cut ends with a plain error frame, and what came is charged',
  async (fault) => {
    const content = `Hello [[fault:cut after=5]] [[fault:chunks count=20]] [[fault:${fault}]]`;
    const { text } = await call(content, { stream: true });
    expect(eventsIn(text).at(-1)).toContain('"upstream_failed"');
    const charge = await last();
    expect(charge).toMatchObject({ status: 'settled', usage_source: 'estimated' });
    expect(charge.actual_cost_nanos).toBeGreaterThan(0n);
  },
);

test("an upstream's own error frame reaches the client, neither a clean end nor another error follows, and what came is charged", async () => {
  const content = 'Hello [[fault:error-frame after=3]] [[fault:chunks count=20]]';
  const { text } = await call(content, { stream: true });
  expect(text).toContain('"The model broke."');
  expect(text).not.toContain('[DONE]');
  expect(text).not.toContain('upstream_failed');
  expect(await last()).toMatchObject({ status: 'settled', usage_source: 'estimated' });
});

test('a JSON answer that is cut is none: the client is told, and nothing is charged', async () => {
  const { status, text } = await call('Hello [[fault:cut]]');
  expect([status, JSON.parse(text).error.code]).toEqual([502, 'upstream_failed']);
  expect(await last()).toMatchObject({ status: 'released', actual_cost_nanos: 0n });
});

test.each([
  ['of all targets', { settings: { timeouts: { first_byte_ms: 1_000 } } }],
  ['of its own', { target: { timeout_ms: 1_000 } }],
])(
  'an upstream that accepts and never answers is bounded by the first-byte time-out %s, and everything is released',
  async (_, given) => {
    const gateway = await world.openGateway(given);
    const answer = await call('Hello [[fault:silence]]', {}, gateway.url);
    expect(answer.status).toBe(502);
    expect(JSON.parse(answer.text).error.code).toBe('upstream_timeout');
    expect(await last()).toMatchObject({ status: 'released', actual_cost_nanos: 0n });
  },
);

test('a stream that falls silent is bounded by the idle time-out: an error frame, and what came is charged', async () => {
  const gateway = await world.openGateway({ settings: { timeouts: { idle_ms: 1_000 } } });
  const content = 'Hello [[fault:silence after=3]]';
  const { text } = await call(content, { stream: true }, gateway.url);
  expect(eventsIn(text).at(-1)).toContain('"upstream_timeout"');
  const charge = await last();
  expect(charge).toMatchObject({ status: 'settled', usage_source: 'estimated' });
  expect(charge.actual_cost_nanos).toBeGreaterThan(0n);
});

test('comment lines alone keep a stream alive longer than the idle time-out', async () => {
  const gateway = await world.openGateway({ settings: { timeouts: { idle_ms: 1_000 } } });
  const content = 'Hello [[fault:comments count=10 delay=300]]';
  // A machine that stops for a second is asked again.
  const broken = await leastOf(3, 1, async () => {
    const { text } = await call(content, { stream: true }, gateway.url);
    return text.includes('[DONE]') ? 0 : 1;
  });
  expect(broken).toBe(0);
  expect(await last()).toMatchObject({ status: 'settled', usage_source: 'upstream' });
});

test('an upstream that is not there is 502, and everything is released', async () => {
  const target = { base_url: 'http://127.0.0.1:9/v1' };
  const gateway = await world.openGateway({ target });
  expect((await call('Hello', {}, gateway.url)).status).toBe(502);
  expect(await last()).toMatchObject({ status: 'released', actual_cost_nanos: 0n });
});

/** Reads so many events of a stream, then goes away. */
async function leaveAfter(events: number, content: string, more: object, url = world.url) {
  const answer = await request(url + path, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${world.key}` },
    body: JSON.stringify(chat(content, { stream: true, ...more })),
  });
  let text = '';
  for await (const chunk of answer.body) {
    text += chunk;
    // Leaving the loop ends the connection.
    if (eventsIn(text).length >= events) break;
  }
}

async function upstreamIsOver(): Promise<boolean> {
  const [arrived] = await arrivals(world.models_url);
  return Boolean(arrived?.closed_early || arrived?.finished);
}

test('a client that leaves after chunk 3 of 200: the upstream is drained within bounds, and its own usage is charged', async () => {
  await forgetArrivals(world.models_url);
  const content = 'Hello [[fault:chunks count=200]] [[fault:slow delay=5]]';
  await leaveAfter(3, content, { max_tokens: 1_000 });
  const charge = await last();
  expect(charge).toMatchObject({ status: 'settled', usage_source: 'upstream' });
  expect(charge.usage.completion_tokens).toBeGreaterThanOrEqual(200);
  await until(upstreamIsOver);
});

test('a client that leaves a stream with usage so far in every chunk pays for the whole of it', async () => {
  const content = 'Hello [[fault:chunks count=100]] [[fault:slow delay=5]] [[fault:usage-each]]';
  await leaveAfter(3, content, { max_tokens: 1_000 });
  const { usage } = await last();
  expect(usage.completion_tokens).toBeGreaterThanOrEqual(100);
});

test('a client that leaves a stream longer than the drain reads: the upstream is stopped, what it sent is charged', async () => {
  await forgetArrivals(world.models_url);
  // It never ends by itself: sockets would take the rest of one that does.
  const content = 'Hello [[fault:chunks count=20000]] [[fault:silence after=19000]]';
  await leaveAfter(3, content, { max_tokens: 30_000 });
  const charge = await last();
  expect(charge).toMatchObject({ status: 'settled', usage_source: 'estimated' });
  expect(charge.usage.completion_tokens).toBeGreaterThan(100);
  await until(upstreamIsOver);
  const [arrived] = await arrivals(world.models_url);
  expect(arrived?.closed_early).toBe(true);
});

test('a client that leaves a reasoning model whose usage never comes: settled at the hold', async () => {
  const gateway = await world.openGateway({ settings: { timeouts: { idle_ms: 1_000 } } });
  const content = 'Hello [[fault:silence after=3]]';
  await leaveAfter(3, content, { model: 'o4-mini' }, gateway.url);
  const charge = await last();
  expect(charge).toMatchObject({ status: 'settled', usage_source: 'estimated' });
  expect(charge.actual_cost_nanos).toBe(charge.held_nanos);
});

test('a client that never reads is left after the idle time-out, and the request is settled above zero', async () => {
  const gateway = await world.openGateway({ settings: { timeouts: { idle_ms: 1_000 } } });
  const content = 'Hello [[fault:big-line size=8000000]] [[fault:usage prompt=10 completion=20]]';
  const answer = await request(gateway.url + path, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${world.key}` },
    body: JSON.stringify(chat(content, { stream: true, max_tokens: null })),
  });
  answer.body.on('error', () => undefined);
  const charge = await last();
  expect(charge.status).toBe('settled');
  expect(charge.actual_cost_nanos).toBeGreaterThan(0n);
  await until(() => gateway.gateway.calls.size === 0);
  answer.body.destroy();
});
