import { setTimeout as sleep } from 'node:timers/promises';
import { tokenBucket } from '../../../gateway/limits/windows';
import { waitForStore } from '../../support/limits';
import { until } from '../../support/until';
import {
  ask,
  counted,
  EDGELESS_MS,
  four,
  freeze,
  lines,
  open,
  passes,
  prefix,
  redis,
  rule,
  thaw,
} from './shared-store';

test('a frozen store costs one wait of 50 ms, then nothing; the log has one line for each change', async () => {
  const limits = await open();
  expect(await passes([limits], 3, rule(10))).toBe(3);
  freeze(limits);
  const took: number[] = [];
  for (let n = 0; n < 20; n += 1) {
    const began = performance.now();
    await ask(limits, rule(10));
    took.push(performance.now() - began);
  }
  thaw(limits);
  // If each of them waited, none would take less.
  expect(took.filter((ms) => ms < 50).length).toBeGreaterThan(took.length / 2);
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
  freeze(limits);
  const passed = await passes([limits], 4, rule(10));
  const alone = await passes([limits], 20, rule(10));
  thaw(limits);
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
  freeze(limits);
  expect(await ask(limits, bucket)).toBeUndefined();
  expect(limits.storeState()).toBe('down');
  await redis.kill();
  await redis.restart();
  waitForStore(limits, 10_000);
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

test('a store that was made a replica answers and takes no writes: it is away until it does', async () => {
  const limits = await open();
  expect(await passes([limits], 3, rule(10))).toBe(3);
  await redis.client.replicaof('127.0.0.1', 1);
  await ask(limits, rule(10));
  await until(() => limits.storeState() === 'down');
  // Many probes long.
  await sleep(2_000);
  expect(limits.storeState()).toBe('down');
  expect(lines).toHaveLength(1);
  await redis.client.replicaof('NO', 'ONE');
  await until(() => limits.storeState() === 'up');
  expect(lines).toHaveLength(2);
});
