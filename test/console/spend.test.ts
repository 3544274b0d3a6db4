import {
  addDays,
  beginOf,
  dayIn,
  daysBetween,
  firstOfMonth,
  zoned,
} from '../../console/web/base/days';
import { amountOf, decimalText, nanosOf, sumText } from '../../console/web/base/decimals';
import { intervalsOf, movedTo, periodOf, slotsOf } from '../../console/web/spend/period';
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

test('a zone that this runtime does not know is shown as UTC, and breaks nothing', () => {
  const unknown = 'Antarctica/Yet_Unknown';
  const at = '2026-11-29T23:30:00.000Z';
  expect(dayIn(unknown, Date.parse(at))).toBe('2026-11-29');
  expect(beginOf('2026-11-30', unknown)).toBe('2026-11-30T00:00:00.000Z');
  expect(zoned(unknown, 'en', { timeStyle: 'long' }).format(Date.parse(at))).toBe(
    '11:30:00 PM UTC',
  );
  const days = { from: '2026-11-01', to: '2026-12-01' };
  const cut = { begins: at, ends: '2026-11-30T02:30:00.000Z', locale: 'en', starts: [] };
  expect(slotsOf(days, 'hour', { ...cut, zone: unknown })).toEqual(
    slotsOf(days, 'hour', { ...cut, zone: 'UTC' }),
  );
});

const november = { from: '2026-11-01', to: '2026-12-01' };

test.each([
  ['a first day in it', { from: '2026-11-10' }, '2026-11-10', '2026-11-30'],
  ['a last day in it', { until: '2026-11-10' }, '2026-11-01', '2026-11-10'],
  ['a first day behind it', { from: '2026-12-05' }, '2026-12-05', '2026-12-05'],
  ['a last day before it', { until: '2026-10-05' }, '2026-10-05', '2026-10-05'],
  ['none', {}, '2026-11-01', '2026-11-30'],
])('a period that is given %s has that day', (_, change, from, until) => {
  expect(movedTo(november, change)).toEqual({ period: 'custom', from, until });
});

test('days of an address are a period in either order', () => {
  const asked = { period: 'custom', from: '2026-11-30', until: '2026-11-01' } as const;
  expect(periodOf(asked, 'UTC')).toEqual(november);
  expect(periodOf({ ...asked, from: '2026-11-01', until: '2026-11-30' }, 'UTC')).toEqual(november);
});

test('hours are offered for days of which the API keeps them', () => {
  const ago = (days: number) => {
    const from = addDays(dayIn('UTC', Date.now()), -days);
    return intervalsOf({ from, to: addDays(from, 2) }, false, 'UTC');
  };
  expect(ago(33)).toEqual(['hour', 'day', 'month']);
  expect(ago(36)).toEqual(['day', 'month']);
});

// As the database's `local_hour` has them.
test.each([
  // Its clocks change by half an hour: once an hour has 90 minutes, once 30.
  ['Australia/Lord_Howe', '2024-04-06T13:00', '13:00 14:00 15:30 16:30'],
  ['Australia/Lord_Howe', '2024-10-05T13:30', '13:30 14:30 15:30 16:00'],
  // An hour comes twice, and one never.
  ['America/New_York', '2024-11-03T04:00', '04:00 05:00 06:00 07:00'],
  ['America/New_York', '2024-03-10T05:00', '05:00 06:00 07:00 08:00'],
  ['Asia/Kathmandu', '2024-05-01T18:15', '18:15 19:15 20:15 21:15'],
  // What stands for a zone that the browser does not know.
  ['UTC', '2024-05-01T18:30', '18:30 19:30 20:30 21:30'],
])('the hours of %s from %s on are those of the server', (zone, from, hours) => {
  const begins = `${from}:00.000Z`;
  const ends = new Date(Date.parse(begins) + 5 * 3_600_000).toISOString();
  const cut = { begins, ends, zone, locale: 'en' };
  const days = { from: '2024-01-01', to: '2024-01-02' };
  const keys = slotsOf(days, 'hour', { ...cut, starts: [] }).map(({ key }) => key.slice(11, 16));
  expect(keys.slice(0, 4).join(' ')).toBe(hours);
  // No bucket of the server is left out, whatever the browser knows of the zone.
  const starts = [`${from.slice(0, 10)}T17:45:00.000Z`, begins];
  const all = slotsOf(days, 'hour', { ...cut, starts }).map(({ key }) => key);
  expect(all).toContain(starts[0]);
  expect(all.filter((key) => key === begins)).toHaveLength(1);
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
