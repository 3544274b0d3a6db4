import { createRefusalCounts } from '../../runtime/refusal-counts';

const MINUTE_MS = 60_000;

/** Counts with a clock of their own, and who was told of what: the reason, the count, and whether it is of several. */
function openCounts() {
  const timers = new Map<object, { at: number; action: () => void }>();
  let now = 0;
  const counts = createRefusalCounts((action, ms) => {
    const timer = {};
    timers.set(timer, { at: now + ms, action });
    return () => timers.delete(timer);
  });
  const pass = (ms: number) => {
    now += ms;
    for (const [timer, { at, action }] of timers)
      if (at <= now) {
        timers.delete(timer);
        action();
      }
  };
  const told: [string, number, boolean][] = [];
  const refuse = (group: string, reason: string) =>
    counts.count(group, reason, (count, is_rest) => told.push([reason, count, is_rest]));
  const taken = () => told.splice(0);
  return { counts, refuse, taken, pass, timers };
}

const sum = (told: [string, number, boolean][]) => told.reduce((all, [, count]) => all + count, 0);

test('of one caller and reason the first is told of at once, and those that follow as the minute ends, though no other comes', () => {
  const { refuse, taken, pass } = openCounts();
  for (let n = 0; n < 1_000; n += 1) refuse('org', 'model key');
  expect(taken()).toEqual([['model key', 1, false]]);
  pass(MINUTE_MS - 1);
  expect(taken()).toEqual([]);
  pass(1);
  expect(taken()).toEqual([['model key', 999, false]]);
  // Of the next minute there is no event before it ends, if it goes on; another reason has its own.
  refuse('org', 'model key');
  refuse('org', 'budget key');
  expect(taken()).toEqual([['budget key', 1, false]]);
  pass(MINUTE_MS);
  expect(taken()).toEqual([['model key', 1, false]]);
  pass(MINUTE_MS);
  pass(MINUTE_MS);
  expect(taken()).toEqual([]);
  refuse('org', 'model key');
  expect(taken()).toEqual([['model key', 1, false]]);
});

test('a flood of many callers is 60 events a minute of an organization, each refusal is in one, and none less of another', () => {
  const { refuse, taken, pass } = openCounts();
  for (let minute = 0; minute < 3; minute += 1) {
    for (let n = 0; n < 20_000; n += 1) refuse('org', `model key_${n % 500}`);
    const at_once = taken();
    expect(at_once).toHaveLength(minute === 0 ? 59 : 0);
    refuse('other', `model ${minute}`);
    expect(taken()).toEqual([[`model ${minute}`, 1, false]]);
    pass(MINUTE_MS);
    const later = taken();
    expect(later).toHaveLength(60);
    expect(later.filter(([, , is_rest]) => is_rest)).toEqual([
      [expect.any(String), 20_000 - 59 * 40, true],
    ]);
    expect(sum(at_once) + sum(later)).toBe(20_000);
  }
});

test('what is remembered is bounded, and nothing of it is lost', () => {
  const { counts, refuse, taken, timers } = openCounts();
  for (let n = 0; n < 50_000; n += 1) refuse('org', `model key_${n}`);
  for (let n = 0; n < 25_000; n += 1) for (const _ of [1, 2]) refuse(`org_${n}`, 'model key');
  counts.close();
  expect(sum(taken())).toBe(100_000);
  expect(timers.size).toBe(0);
});

test('what is left is told of as a process stops, and later ones at once', () => {
  const { counts, refuse, taken } = openCounts();
  for (let n = 0; n < 10; n += 1) refuse('org', 'model key');
  taken();
  counts.close();
  expect(taken()).toEqual([['model key', 9, false]]);
  refuse('org', 'model key');
  expect(taken()).toEqual([['model key', 1, false]]);
});
