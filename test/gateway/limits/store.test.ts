import pino from 'pino';
import type { Check, Rule } from '../../../gateway/limits/buckets';
import { type Counters, openCounters } from '../../../gateway/limits/counters';
import type { StoreSettings } from '../../../gateway/limits/store';
import type { StoreClient } from '../../../gateway/limits/store-client';
import { fixedWindow, leases, slidingWindow, tokenBucket } from '../../../gateway/limits/windows';
import { type BreakableRedis, openRedis } from '../../support/redis';
import { until } from '../../support/until';

// No test crosses the edge of a window of a hundred days.
const EDGELESS_MS = 8_640_000_000;

let redis: BreakableRedis;
let opened: Counters[] = [];
let lines: string[] = [];
let prefix: string;

beforeAll(async () => {
  redis = await openRedis();
});
beforeEach(() => {
  lines = [];
  prefix = `t${Math.random().toString(36).slice(2)}:`;
});
afterEach(async () => {
  for (const limits of opened) await limits.close();
  opened = [];
});
afterAll(() => redis.close());

/** The counters of one gateway, over the shared store. */
async function open(more: Partial<StoreSettings> = {}): Promise<Counters> {
  const log = pino({ level: 'info' }, { write: (line: string) => void lines.push(line) });
  const limits = openCounters(log);
  opened.push(limits);
  const store = { url: redis.url, key_prefix: prefix, sync_interval_ms: 100, local_fallback: true };
  limits.use({ store: { ...store, ...more } });
  if (more.url === undefined) await until(() => limits.storeState() === 'up');
  return limits;
}

function rule(limit: number, more: Partial<Rule> = {}): Rule {
  return {
    ...{
      scope: 'global',
      limit_type: 'rpm',
      limit,
      window: fixedWindow(EDGELESS_MS),
      name: 'test:',
    },
    ...{ queue_ms: 0, retry_after: undefined },
    ...more,
  };
}

function ask(limits: Counters, ...rules: Rule[]): Promise<Check | undefined> {
  return Promise.resolve(limits.admit(rules.map((one) => limits.check(one, '', 1, 1))));
}

async function passes(
  limits: readonly Counters[],
  times: number,
  ...rules: Rule[]
): Promise<number> {
  const asked = Array.from({ length: times }, (_, n) =>
    ask(limits[n % limits.length] as Counters, ...rules),
  );
  return (await Promise.all(asked)).filter((refused) => refused === undefined).length;
}

const four = () => Promise.all([open(), open(), open(), open()] as const);

test('a shared limit of 10 over four gateways is 10, however its requests come', async () => {
  const gateways = await four();
  expect(await passes(gateways, 80, rule(10))).toBe(10);
  const second = rule(10, { name: 'one by one:' });
  let passed = 0;
  for (let n = 0; n < 40; n += 1) passed += await passes([gateways[n % 4] as Counters], 1, second);
  expect(passed).toBe(10);
});

test.each([
  ['sliding window', rule(10, { window: slidingWindow(EDGELESS_MS) })],
  ['token bucket', rule(10, { window: tokenBucket(EDGELESS_MS) })],
  ['number of calls under way', rule(10, { window: leases(), limit_type: 'parallel' })],
])('a shared %s is exact over four gateways', async (_, shared) => {
  expect(await passes(await four(), 80, shared)).toBe(10);
});

test('a larger shared limit is counted here while there is room, and exactly where it is near', async () => {
  const gateways = await four();
  const before = await commands();
  let passed = 0;
  for (let n = 0; n < 60; n += 1) passed += await passes(gateways, 20, rule(1_000));
  expect(passed).toBeGreaterThan(700);
  expect(passed).toBeLessThanOrEqual(1_000);
  // What was granted to a gateway that does not need it goes back within a tick.
  await until(async () => {
    passed += await passes(gateways, 20, rule(1_000));
    return passed >= 1_000;
  });
  expect(passed + (await passes(gateways, 20, rule(1_000)))).toBe(1_000);
  // The first four fifths ask rarely, the rest each time.
  expect((await commands()) - before).toBeLessThan(900);
});

async function commands(): Promise<number> {
  const said = await redis.client.info('commandstats');
  return Number(/cmdstat_evalsha:calls=(\d+)/.exec(said)?.[1] ?? 0);
}

test('what was granted to a gateway that rests goes back, and is granted to nobody twice', async () => {
  const [first, second] = await four();
  expect(await passes([first], 1, rule(1_000))).toBe(1);
  expect(await counted(`${prefix}test:`)).toBe(51);
  await until(async () => (await counted(`${prefix}test:`)) === 1);
  let passed = 0;
  await until(async () => {
    passed += await passes([second], 50, rule(1_000));
    return passed >= 999;
  });
  expect(passed).toBe(999);
  expect(await passes([first], 5, rule(1_000))).toBe(0);
});

test('what one gateway gives back, another may take at once', async () => {
  const [first, second] = await four();
  const slots = rule(1, { window: leases(), limit_type: 'parallel' });
  const check = first.check(slots, '', 1, 1);
  expect(await first.admit([check])).toBeUndefined();
  expect(await ask(second, slots)).toBeDefined();
  first.release(check);
  await until(async () => (await ask(second, slots)) === undefined);
});

test('a request that a later counter refuses takes nothing from the earlier ones', async () => {
  const limits = await open();
  const wide = rule(50, { name: 'wide:' });
  const narrow = rule(1, { name: 'narrow:' });
  expect(await passes([limits], 20, wide, narrow)).toBe(1);
  const check = limits.check(wide, '', 1, 1);
  await limits.admit([check]);
  expect(check.used).toBe(2);
});

test('the counter says what is left, from one request to the next, whichever gateway is asked', async () => {
  const gateways = await four();
  const used: number[] = [];
  for (let n = 0; n < 8; n += 1) {
    const limits = gateways[n % 4] as Counters;
    const check = limits.check(rule(20), '', 1, 1);
    await limits.admit([check]);
    used.push(check.used);
  }
  expect(used).toEqual([1, 2, 3, 4, 5, 6, 7, 8]);
});

test('tokens that were estimated and not used are given back to all gateways', async () => {
  const [first, second] = await four();
  const tokens = rule(1_000, { limit_type: 'tpm' });
  const large = first.check(tokens, '', 900, 900);
  expect(await first.admit([large])).toBeUndefined();
  const refused = second.check(tokens, '', 500, 500);
  expect(await second.admit([refused])).toBe(refused);
  first.correct(large, 120);
  await until(async () => (await second.admit([second.check(tokens, '', 500, 500)])) === undefined);
});

test('keys have the prefix and end by themselves', async () => {
  const limits = await open();
  const brief = rule(10, { window: fixedWindow(1_000) });
  await ask(limits, brief, rule(10, { name: 'bucket:', window: tokenBucket(200) }));
  const keys = await redis.client.keys(`${prefix}*`);
  expect(keys.sort()).toEqual([`${prefix}bucket:`, `${prefix}epoch`, `${prefix}test:`]);
  expect(await redis.client.pttl(`${prefix}epoch`)).toBeGreaterThan(0);
  for (const key of keys.filter((one) => !one.endsWith('epoch'))) {
    const left_ms = await redis.client.pttl(key);
    expect(left_ms).toBeGreaterThan(0);
    expect(left_ms).toBeLessThanOrEqual(2_000);
  }
});

test('a store that is emptied between two requests is told again what was counted', async () => {
  const gateways = await four();
  expect(await passes(gateways, 8, rule(10))).toBe(8);
  await redis.client.flushall();
  await until(async () => (await counted(`${prefix}test:`)) === 8);
  expect(await passes(gateways, 40, rule(10))).toBe(2);
});

test.each([
  ['window', rule(10)],
  ['large window', rule(1_000)],
  ['sliding window', rule(10, { window: slidingWindow(EDGELESS_MS) })],
  ['token bucket', rule(10, { window: tokenBucket(EDGELESS_MS) })],
  ['number of calls under way', rule(10, { window: leases(), limit_type: 'parallel' })],
])(
  'a shared %s that is used up lets nothing through once its store is emptied',
  async (_, shared) => {
    const [first, second] = [await open(), await open()];
    let passed = 0;
    // The first one does not hear what the second counts.
    for (const limits of [first, second])
      for (let n = 0; n < shared.limit / 2; n += 1) passed += await passes([limits], 1, shared);
    // What the first was granted to count ahead goes back within a tick.
    await until(async () => {
      passed += await passes([second], 1, shared);
      return passed === shared.limit;
    });
    await redis.client.flushall();
    expect(await passes([first, second], 20, shared)).toBe(0);
    await redis.client.flushall();
    expect(await passes([second], 5, shared)).toBe(0);
  },
);

async function counted(key: string): Promise<number> {
  const fields = await redis.client.hvals(key);
  return fields.reduce((sum, text) => sum + Number(text.split(':')[1] ?? 0), 0);
}

test('a frozen store costs one wait of 50 ms, then nothing; the log has one line for each change', async () => {
  const limits = await open();
  expect(await passes([limits], 3, rule(10))).toBe(3);
  redis.freeze();
  const took: number[] = [];
  for (let n = 0; n < 20; n += 1) {
    const began = performance.now();
    await ask(limits, rule(10));
    took.push(performance.now() - began);
  }
  redis.thaw();
  expect(took.filter((ms) => ms > 20).length).toBeLessThanOrEqual(1);
  expect(Math.max(...took)).toBeLessThan(150);
  expect(limits.storeState()).toBe('down');
  await until(() => limits.storeState() === 'up');
  expect(lines.map((line) => JSON.parse(line).msg)).toEqual([
    'the store of shared limits is away: each gateway counts by itself',
    'the store of shared limits answers again',
  ]);
});

test('what a frozen store hears late is counted once, and the request that found it frozen too', async () => {
  // No tick, so that it is a request that finds out.
  const limits = await open({ sync_interval_ms: 60_000 });
  expect(await passes([limits], 3, rule(10))).toBe(3);
  redis.freeze();
  const passed = await passes([limits], 4, rule(10));
  const alone = await passes([limits], 20, rule(10));
  redis.thaw();
  expect([passed, alone]).toEqual([4, 3]);
  await until(() => limits.storeState() === 'up');
  await until(async () => (await counted(`${prefix}test:`)) === 10);
  expect(await passes([limits], 5, rule(10))).toBe(0);
});

test('what a request counts while many counters are told is not overwritten by what was known before', async () => {
  const limits = await open({ sync_interval_ms: 60_000 });
  const checks = Array.from({ length: 250 }, (_, n) => limits.check(rule(10), `${n}`, 1, 1));
  for (const check of checks) expect(await limits.admit([check])).toBeUndefined();
  for (const check of checks) limits.correct(check, 2);
  // Now the first of them are on their way.
  await new Promise((resolve) => setImmediate(resolve));
  await limits.admit([limits.check(rule(10), '249', 1, 1)]);
  await limits.close();
  expect(await counted(`${prefix}test:249`)).toBe(3);
  expect(await counted(`${prefix}test:100`)).toBe(2);
});

test('what a frozen store was told of a token bucket, and lost, is told again', async () => {
  const limits = await open({ sync_interval_ms: 60_000 });
  const bucket = rule(10, { name: 'bucket:', window: tokenBucket(EDGELESS_MS) });
  for (let n = 0; n < 3; n += 1) limits.countHere(limits.check(bucket, '', 1, 1));
  redis.freeze();
  expect(await ask(limits, bucket)).toBeUndefined();
  expect(limits.storeState()).toBe('down');
  await redis.kill();
  await redis.restart();
  await until(() => limits.storeState() === 'up');
  await until(async () => Number(await redis.client.hget(`${prefix}bucket:`, 'level')) > 3.9);
});

test('while the store is away each gateway counts by itself, and afterwards all together again', async () => {
  const gateways = await four();
  await redis.kill();
  await until(() => gateways.every((limits) => limits.storeState() === 'down'));
  expect(await passes([gateways[0]], 30, rule(10))).toBe(10);
  expect(await passes([gateways[1]], 5, rule(10))).toBe(5);
  await redis.restart();
  await until(() => gateways.every((limits) => limits.storeState() === 'up'));
  await until(async () => (await counted(`${prefix}test:`)) === 15);
  expect(await passes(gateways, 8, rule(10))).toBe(0);
});

test('without local_fallback everything passes while the store is away', async () => {
  const limits = await open({ local_fallback: false, url: 'redis://127.0.0.1:1' });
  await until(() => limits.storeState() === 'down');
  expect(await passes([limits], 30, rule(10))).toBe(30);
  expect(limits.isSuspended()).toBe(true);
  expect(lines).toHaveLength(1);
});

test('a gateway that dies holds its slots for half a minute at most', async () => {
  const [first, second] = await four();
  const slots = rule(1, {
    window: { kind: 'lease', slot_ms: 250, counted: 2 },
    limit_type: 'parallel',
  });
  expect(await ask(first, slots)).toBeUndefined();
  expect(await ask(second, slots)).toBeDefined();
  // Without a word, as a killed process: its connection is cut off from its counters.
  (first as unknown as { store: { client: StoreClient } }).store.client.close();
  await until(async () => (await ask(second, slots)) === undefined, 3_000);
  expect(leases()).toMatchObject({ slot_ms: 15_000, counted: 2 });
});
