import { addDays, beginOf, daysBetween, firstOfMonth } from '../../console/web/base/days';
import { amountOf, decimalText, nanosOf, sumText } from '../../console/web/base/decimals';
import { type Bucket, barsOf } from '../../console/web/spend/series';

test('amounts are added to the last billionth', () => {
  expect(nanosOf(0.1) + nanosOf(0.2)).toBe(300_000_000n);
  expect(nanosOf(-0.5)).toBe(-500_000_000n);
  expect(nanosOf(1e-9)).toBe(1n);
  expect(nanosOf(-0.000_000_25)).toBe(-250n);
  // Its binary fraction is 99999999.099999994...
  expect(nanosOf(99_999_999.1)).toBe(99_999_999_100_000_000n);
  expect(nanosOf(0.1 + 0.2)).toBe(300_000_000n);
  expect(decimalText(99_999_999.1)).toBe('99999999.1');
  expect(decimalText(1e-9)).toBe('0.000000001');
  expect(decimalText(-0.000_000_25)).toBe('-0.00000025');
  expect(amountOf(99_999_802_000n)).toBe(99.999802);
  expect(amountOf(-1n)).toBe(-1e-9);
  expect(sumText(['0.1', '0.2', '0.00000000001'])).toBe('0.30000000001');
  expect(sumText(['-0.5', '2'])).toBe('1.5');
  expect(sumText(['-0.5', '0.25'])).toBe('-0.25');
  expect(sumText([])).toBe('0');
});

test('days are of the calendar, whatever clocks do', () => {
  expect(addDays('2027-03-28', 1)).toBe('2027-03-29');
  expect(addDays('2027-01-01', -1)).toBe('2026-12-31');
  expect(daysBetween('2026-10-24', '2026-10-26')).toBe(2);
  expect(firstOfMonth('2026-12-31', 1)).toBe('2027-01-01');
  expect(firstOfMonth('2027-01-15', -1)).toBe('2026-12-01');
});

// As PostgreSQL reads `day::timestamp at time zone`, by which spend has its days.
test.each([
  ['2026-11-30', 'UTC', '2026-11-30T00:00:00.000Z'],
  ['2026-11-30', 'Pacific/Auckland', '2026-11-29T11:00:00.000Z'],
  ['2026-11-30', 'America/Los_Angeles', '2026-11-30T08:00:00.000Z'],
  ['2026-11-30', 'Asia/Kathmandu', '2026-11-29T18:15:00.000Z'],
  ['2026-10-25', 'Europe/Berlin', '2026-10-24T22:00:00.000Z'],
  ['2026-10-26', 'Europe/Berlin', '2026-10-25T23:00:00.000Z'],
  // Midnight comes twice.
  ['2026-11-01', 'America/Havana', '2026-11-01T05:00:00.000Z'],
  ['2026-10-25', 'Atlantic/Azores', '2026-10-25T01:00:00.000Z'],
  // Midnight never comes, and once a whole day did not.
  ['2026-03-08', 'America/Havana', '2026-03-08T05:00:00.000Z'],
  ['2026-04-24', 'Africa/Cairo', '2026-04-23T22:00:00.000Z'],
  ['2011-12-30', 'Pacific/Apia', '2011-12-30T10:00:00.000Z'],
])('%s begins in %s at %s', (day, zone, begins) => {
  expect(beginOf(day, zone)).toBe(begins);
});

const bucket = (local: string, model: string | null, cost: number): Bucket => ({
  start: `${local}T00:00:00.000Z`,
  local,
  group: { model },
  cost,
  requests: 1,
  prompt_tokens: 1,
  completion_tokens: 1,
});

const slots = ['2026-11-29', '2026-11-30'].map((key) => ({ key, label: key }));
const asked = { slots, by: 'model', measure: 'cost', overlaps: false, is_hour: false } as const;

test('what the first groups leave of a bar is of the others, also of groups that were left out', () => {
  const bars = barsOf({
    ...asked,
    sums: [bucket('2026-11-30', null, 1)],
    buckets: [bucket('2026-11-30', 'a', 0.7), bucket('2026-11-30', null, 0.1)],
    first: ['a', null],
  });
  expect(bars.map(({ parts, others, total }) => [parts, others, total])).toEqual([
    [[0n, 0n], 0n, 0n],
    [[700_000_000n, 100_000_000n], 200_000_000n, 1_000_000_000n],
  ]);
});

test('groups that overlap are added up by themselves', () => {
  const [, bar] = barsOf({
    ...asked,
    overlaps: true,
    sums: [bucket('2026-11-30', null, 1)],
    buckets: [bucket('2026-11-30', 'a', 1), bucket('2026-11-30', 'b', 1)],
    first: ['a'],
  });
  expect(bar?.others).toBe(1_000_000_000n);
});
