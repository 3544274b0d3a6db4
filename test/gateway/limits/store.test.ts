import type { Counters } from '../../../gateway/limits/counters';
import { StoreClient } from '../../../gateway/limits/store-client';
import { fixedWindow, leases, slidingWindow, tokenBucket } from '../../../gateway/limits/windows';
import { leastOf } from '../../support/cpu';
import { until } from '../../support/until';
import {
  ask,
  counted,
  EDGELESS_MS,
  four,
  fourPatient,
  open,
  passes,
  prefix,
  redis,
  rule,
} from './shared-store';

// Where the script is told what a request needs of its first counter.
const NEED = 5;

test('a shared limit of 10 over four gateways is 10, however its requests come', async () => {
  const gateways = await fourPatient();
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
  expect(await passes(await fourPatient(), 80, shared)).toBe(10);
});

test('a request that does not pass leaves nothing of those under way beside it in the store', async () => {
  const client = new StoreClient(redis.url, Date.now);
  await until(() => client.isConnected());
  const slot = Math.floor(Date.now() / EDGELESS_MS);
  const ask = async (epoch_ms: number) => {
    await redis.client.set(`${prefix}epoch`, `somebody:${epoch_ms}`);
    const counter = ['slots', 10, 1, EDGELESS_MS, 1, `${slot}:19`, `${slot}:20`, '', 0, 0];
    const keys = [`${prefix}epoch`, `${prefix}test:`];
    return (await client.run(keys, [Date.now(), 'first', 300, ...counter]))[1];
  };
  // Refused, and not decided yet.
  expect([await ask(0), await ask(Date.now())]).toEqual([1, -1]);
  client.close();
  expect(await passes([await open()], 20, rule(10))).toBe(10);
});

test('a larger shared limit is counted here while there is room, and exactly where it is near', async () => {
  const gateways = await four();
  const run = jest.spyOn(StoreClient.prototype, 'run');
  let passed = 0;
  for (let n = 0; n < 60; n += 1) passed += await passes(gateways, 20, rule(1_000));
  // The first four fifths ask rarely, the rest each time. What asks nothing is a report.
  const questions = run.mock.calls.filter(([, args]) => (args[NEED] ?? '') !== '');
  expect(questions.length).toBeLessThan(900);
  expect(passed).toBeGreaterThan(700);
  expect(passed).toBeLessThanOrEqual(1_000);
  // What was granted to a gateway that does not need it goes back within a tick.
  await until(async () => {
    passed += await passes(gateways, 20, rule(1_000));
    return passed >= 1_000;
  });
  expect(passed + (await passes(gateways, 20, rule(1_000)))).toBe(1_000);
});

test('what was granted to a gateway that rests goes back, and is granted to nobody twice', async () => {
  const [first, second] = await four();
  const check = first.check(rule(1_000), '', 1, 1);
  expect(await first.admit([check])).toBeUndefined();
  expect(check.bucket.granted).toBe(51);
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
  const brief = rule(10, { window: fixedWindow(60_000) });
  await ask(limits, brief, rule(10, { name: 'bucket:', window: tokenBucket(60_000) }));
  const found = await redis.client.keys(`${prefix}*`);
  // It asks once whether the store takes writes.
  const keys = found.filter((key) => key !== `${prefix}probe`);
  expect(keys.sort()).toEqual([`${prefix}bucket:`, `${prefix}epoch`, `${prefix}test:`]);
  expect(await redis.client.pttl(`${prefix}epoch`)).toBeGreaterThan(0);
  for (const key of keys.filter((one) => !one.endsWith('epoch'))) {
    const left_ms = await redis.client.pttl(key);
    expect(left_ms).toBeGreaterThan(0);
    expect(left_ms).toBeLessThanOrEqual(120_000);
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
    // Both report again within its warm-up; a machine that stops for so long is asked once more.
    const slow = { sync_interval_ms: 300 };
    let tries = 0;
    const passing = async () => {
      tries += 1;
      const used_up = { ...shared, name: `test ${tries}:` };
      const [first, second] = [await open(slow), await open(slow)];
      let passed = 0;
      // The first one does not hear what the second counts.
      for (const limits of [first, second])
        for (let n = 0; n < shared.limit / 2; n += 1) passed += await passes([limits], 1, used_up);
      // What the first was granted to count ahead goes back within a tick.
      await until(async () => {
        passed += await passes([second], 1, used_up);
        return passed === shared.limit;
      });
      await redis.client.flushall();
      const more = await passes([first, second], 20, used_up);
      await redis.client.flushall();
      return more + (await passes([second], 5, used_up));
    };
    expect(await leastOf(3, 1, passing)).toBe(0);
  },
);

test('a gateway that dies holds its slots for half a minute at most', async () => {
  const [first, second] = await four();
  const slots = rule(1, { window: leases(), limit_type: 'parallel' });
  expect(await ask(first, slots)).toBeUndefined();
  expect(await ask(second, slots)).toBeDefined();
  // Without a word, as a killed process: its connection is cut off from its counters.
  clientOf(first).close();
  expect(await ask(second, slots)).toBeDefined();
  const later = clientOf(second).now() + 31_000;
  jest.spyOn(clientOf(second), 'now').mockReturnValue(later);
  expect(await ask(second, slots)).toBeUndefined();
});

const clientOf = (limits: Counters) =>
  (limits as unknown as { store: { client: StoreClient } }).store.client;
