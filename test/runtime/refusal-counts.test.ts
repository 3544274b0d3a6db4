import { createRefusalCounts } from '../../runtime/refusal-counts';

test('of one caller and reason the first is told, then one a minute with how many it stands for', () => {
  let now = 0;
  const counts = createRefusalCounts(() => now);
  const told: (number | undefined)[] = [];
  for (let n = 0; n < 1_000; n += 1) told.push(counts.take('org', 'model key'));
  expect(told.filter((count) => count !== undefined)).toEqual([1]);
  now = 60_000;
  expect(counts.take('org', 'model key')).toBe(1_000);
  expect(counts.take('org', 'budget key')).toBe(1);
});

test('a flood of many callers is 60 events a minute of an organization, and none less of another', () => {
  let now = 0;
  const counts = createRefusalCounts(() => now);
  const flood = () =>
    Array.from({ length: 20_000 }, (_, n) => counts.take('org', `model key_${n % 500}`)).filter(
      (count) => count !== undefined,
    );
  expect(flood()).toHaveLength(60);
  expect(counts.take('other', 'model key')).toBe(1);
  now = 60_000;
  expect(flood()).toHaveLength(60);
});

test('what is remembered of callers that nobody ends to name is bounded', () => {
  const counts = createRefusalCounts(() => 0);
  const told = Array.from({ length: 50_000 }, (_, n) => counts.take('org', `model key_${n}`));
  expect(told.filter((count) => count !== undefined)).toHaveLength(60);
});
