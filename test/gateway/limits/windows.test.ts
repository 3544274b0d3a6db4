import {
  add,
  type Count,
  carryingWindow,
  decide,
  fixedWindow,
  leases,
  newCount,
  remove,
  slidingWindow,
  tokenBucket,
  usedAt,
  type Window,
  written,
} from '../../../gateway/limits/windows';

/** Asks for one more, and counts it where it fits. */
function ask(window: Window, limit: number, count: Count, now: number, need = 1): boolean {
  const { is_allowed } = decide({ window, limit }, count, now, need);
  if (is_allowed) add(window, count, now, need);
  return is_allowed;
}

test('a fixed window lets exactly its limit through, to its last millisecond, and begins anew with the next', () => {
  const window = fixedWindow(60_000);
  const count = newCount();
  const times = [0, 1, 59_998, 59_999, 59_999, 60_000, 60_001, 119_999, 120_000];
  const passed = times.map((now) => ask(window, 3, count, now));
  expect(passed).toEqual([true, true, true, false, false, true, true, true, true]);
});

test('a fixed window says the milliseconds to its end', () => {
  const window = fixedWindow(60_000);
  const count = newCount();
  add(window, count, 61_000, 5);
  expect(decide({ window, limit: 5 }, count, 90_000, 1)).toEqual({
    is_allowed: false,
    used: 5,
    wait_ms: 30_000,
  });
});

test('a sliding window never lets more than its limit through in any stretch of its length', () => {
  const window = slidingWindow(60_000);
  const passed: number[] = [];
  const count = newCount();
  let seed = 7;
  for (let now = 0; now < 600_000; now += 1 + (seed % 900)) {
    seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648;
    if (ask(window, 10, count, now)) passed.push(now);
  }
  for (const [n, at] of passed.entries()) {
    const within = passed.slice(n).filter((other) => other < at + 60_000);
    expect(within.length).toBeLessThanOrEqual(10);
  }
  // It does not starve either: a sixtieth of the window is lost at most.
  expect(passed.length).toBeGreaterThanOrEqual(95);
});

test('a sliding window does not forget at the edge where a fixed one does', () => {
  const sliding = newCount();
  const fixed = newCount();
  const late = [59_000, 59_500, 59_999].map((now) => [
    ask(slidingWindow(60_000), 3, sliding, now),
    ask(fixedWindow(60_000), 3, fixed, now),
  ]);
  expect(late.flat().every(Boolean)).toBe(true);
  expect(ask(fixedWindow(60_000), 3, fixed, 60_000)).toBe(true);
  expect(ask(slidingWindow(60_000), 3, sliding, 60_000)).toBe(false);
  const { wait_ms } = decide({ window: slidingWindow(60_000), limit: 3 }, sliding, 60_000, 1);
  expect(ask(slidingWindow(60_000), 3, sliding, 60_000 + wait_ms - 1)).toBe(false);
  expect(ask(slidingWindow(60_000), 3, sliding, 60_000 + wait_ms)).toBe(true);
});

test('a token bucket of 60 a minute with a burst of 20 passes 20 at once, then one a second', () => {
  const window = tokenBucket(1_000);
  const count = newCount();
  const at_once = Array.from({ length: 25 }, () => ask(window, 20, count, 5_500));
  expect(at_once.filter(Boolean)).toHaveLength(20);
  expect(ask(window, 20, count, 6_499)).toBe(false);
  expect(ask(window, 20, count, 6_500)).toBe(true);
  expect(ask(window, 20, count, 6_500)).toBe(false);
  expect(ask(window, 20, count, 7_500)).toBe(true);
  expect(decide({ window, limit: 20 }, count, 7_500, 1).wait_ms).toBeCloseTo(1_000, 3);
});

test('a burst above the rate of an address comes off the minutes that follow', () => {
  const window = carryingWindow(60_000, 10);
  const count = newCount();
  const minute = (now: number) =>
    Array.from({ length: 40 }, () => ask(window, 15, count, now)).filter(Boolean).length;
  expect([minute(0), minute(60_000), minute(120_000), minute(300_000)]).toEqual([15, 10, 10, 15]);
});

test('what is given back fits again in the window that counted it, and in no other', () => {
  const window = fixedWindow(60_000);
  const count = newCount();
  const at = add(window, count, 1_000, 8);
  remove(window, count, at, 3);
  expect(usedAt(window, count, 2_000)).toBe(5);
  add(window, count, 60_000, 4);
  remove(window, count, at, 5);
  expect(usedAt(window, count, 60_000)).toBe(4);
});

test('a count that has the number of a slot is not taken for one', () => {
  const window = fixedWindow(1_000);
  const count = newCount();
  const at = add(window, count, 5_000, 5);
  remove(window, count, at, 2);
  expect(written(window, count, 5_500)).toBe('5:3');
});

test('leases count calls under way, whatever the time', () => {
  const window = leases();
  const count = newCount();
  expect([ask(window, 2, count, 0), ask(window, 2, count, 9_999_999)]).toEqual([true, true]);
  expect(ask(window, 2, count, 99_999_999)).toBe(false);
  remove(window, count, 0, 1);
  expect(ask(window, 2, count, 0)).toBe(true);
});

test('a request larger than its limit never fits, and waits for the end of the window', () => {
  const window = fixedWindow(60_000);
  const decision = decide({ window, limit: 100 }, newCount(), 30_000, 5_000);
  expect(decision).toEqual({ is_allowed: false, used: 0, wait_ms: 30_000 });
});

test('a clock that was set back does not open a window anew', () => {
  const window = fixedWindow(60_000);
  const count = newCount();
  expect(ask(window, 1, count, 120_000)).toBe(true);
  expect(ask(window, 1, count, 119_000)).toBe(false);
});
