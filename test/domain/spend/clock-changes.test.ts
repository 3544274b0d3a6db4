import { openBatches } from '../../../api/ledger/batches';
import { audit } from '../../../domain/ledger/audit';
import * as editions from '../../../domain/spend/editions';
import { periodOf } from '../../../domain/spend/periods';
import { type Db, many } from '../../../domain/sql';
import { openDatabase } from '../../../runtime/database';
import { createLog } from '../../../runtime/log';
import { openTestDatabase, patient } from '../../support/database';
import { makeFundedOrg, makePrice } from '../../support/ledger';
import { call, ledgerNanos, nanosBy, nanosOf, spent } from './world';

// Spend by hour, day and month around both changes of clocks of a year, also by half an hour. The
// database's clock is put there, as hours are those of the last weeks.

let db: Db;
let lanes: ReturnType<typeof openBatches>;
let url: string;
let close: () => Promise<void>;

beforeAll(async () => {
  const made = await openTestDatabase();
  url = made.url;
  const name = new URL(url).pathname.slice(1);
  await many(
    made.db,
    `create schema clock;
     create table clock.moved (by interval not null);
     insert into clock.moved values ('0');
     create function clock.now() returns timestamptz language sql stable as
       'select pg_catalog.now() + m.by from clock.moved m';
     alter database ${name} set search_path = clock, pg_catalog, public`,
  );
  // Its sessions begin with that clock.
  db = patient(openDatabase(url, 10, 'test'));
  lanes = openBatches(db, createLog('test', 'fatal'));
  await makePrice(db, { effective_from: new Date('2026-01-01') });
  close = async () => {
    await lanes.close();
    const { broken } = await audit(db);
    await db.destroy();
    await made.close();
    expect(broken).toEqual([]);
  };
});
afterAll(() => close());

/** Puts the clock of the database at a moment. */
const setClock = (at: Date) =>
  many(db, 'update clock.moved set by = :at::timestamptz - pg_catalog.now()', { at });

const MINUTE_MS = 60_000;
const DAY_MS = 24 * 60 * MINUTE_MS;

/** A moment as the calendar of a zone has it, by another hand than the database's. */
function localOf(time_zone: string, at: Date): string {
  const parts = new Intl.DateTimeFormat('en-CA', {
    timeZone: time_zone,
    hourCycle: 'h23',
    ...{ year: 'numeric', month: '2-digit', day: '2-digit', hour: '2-digit' },
  }).formatToParts(at);
  const part = (type: string) => parts.find((one) => one.type === type)?.value ?? '';
  return `${part('year')}-${part('month')}-${part('day')}T${part('hour')}`;
}

/**
 * The hour of a moment, or the day or month that it counts in: a day whose midnight comes twice
 * begins at the second one, so the hour before that is the last of the day before.
 */
function bucketOf(time_zone: string, at: Date, interval: keyof typeof LENGTH): string {
  const local = localOf(time_zone, at);
  const hour_ms = 60 * MINUTE_MS;
  const is_again = localOf(time_zone, new Date(at.getTime() + hour_ms)) === local;
  const is_before = interval !== 'hour' && local.endsWith('T00') && is_again;
  const counted = is_before ? localOf(time_zone, new Date(at.getTime() - hour_ms)) : local;
  return counted.slice(0, LENGTH[interval]);
}

/** How much of a local time names a bucket. */
const LENGTH = { hour: 13, day: 10, month: 7 } as const;
const zones = [
  ...['Pacific/Auckland', 'Asia/Kolkata', 'UTC', 'Australia/Lord_Howe'],
  // Midnight comes twice there.
  ...['America/Havana', 'Atlantic/Azores'],
];

describe.each([
  ['forward in Auckland', '2026-09-26T14:00:00Z'],
  ['back in Auckland', '2027-04-03T14:00:00Z'],
  ['forward by half an hour on Lord Howe', '2026-10-03T15:30:00Z'],
  ['back by half an hour on Lord Howe', '2027-04-03T15:00:00Z'],
  ['back over midnight in Havana, into a month', '2026-11-01T05:00:00Z'],
  ['back over midnight on the Azores', '2026-10-25T01:00:00Z'],
])('as clocks go %s', (_, changed) => {
  const change = Date.parse(changed);
  const near = [-121, -90, -61, -60, -59, -31, -30, -29, -1, 0, 1, 29, 30, 31, 59, 60, 61, 90, 121];
  const times = [
    ...near.map((minutes) => change + minutes * MINUTE_MS),
    ...[change - 1, change - DAY_MS, change + DAY_MS, change + DAY_MS - MINUTE_MS],
    // The next month has begun, or the one before is not over, in some zones.
    ...['2026-09-30T10:30:00Z', '2026-09-30T13:00:00Z', '2027-03-31T10:30:00Z', '2027-03-31T13:00Z']
      .map((at) => Date.parse(at))
      .filter((at) => Math.abs(at - change) < 14 * DAY_MS),
  ];

  test('hours, days and months add up to the ledger in each zone, folded, half folded and anew', async () => {
    await setClock(new Date(change + 8 * DAY_MS));
    const [first = '', ...others] = zones;
    const { org_id } = await makeFundedOrg(db, 100_000, { time_zone: first });
    for (const [n, at] of times.entries())
      await call({ db, lanes }, org_id, 3 ** (n % 9), new Date(at), { tags: ['all'] });
    const from = new Date(change - 16 * DAY_MS);
    const to = new Date(change + 8 * DAY_MS);
    const requireExact = async (time_zone: string) => {
      for (const interval of ['hour', 'day', 'month'] as const) {
        const asked = {
          interval,
          from: localOf(time_zone, from).slice(0, 10),
          to: localOf(time_zone, to).slice(0, 10),
        };
        const expected: Record<string, bigint> = {};
        for (const [n, at] of times.entries()) {
          const name = bucketOf(time_zone, new Date(at), interval);
          expected[name] = (expected[name] ?? 0n) + nanosOf(3 ** (n % 9));
        }
        const { buckets, totals, ...head } = await spent(db, org_id, asked);
        const found: Record<string, bigint> = {};
        for (const { local, cost_nanos, start } of buckets) {
          const name = local.slice(0, LENGTH[interval]);
          found[name] = (found[name] ?? 0n) + cost_nanos;
          // It begins in the hour that it is called by.
          if (interval === 'hour') expect(localOf(time_zone, start)).toBe(name);
        }
        expect([time_zone, interval, head.time_zone, found]).toEqual([
          time_zone,
          interval,
          time_zone,
          expected,
        ]);
        expect(totals.cost_nanos).toBe(await ledgerNanos(db, org_id));
      }
    };
    await requireExact(first);
    await editions.openEditions(db);
    await editions.foldStep(db, 21);
    await requireExact(first);
    while ((await editions.foldStep(db, 21)) > 0);
    await requireExact(first);
    for (const time_zone of others) {
      await many(db, 'update organizations set time_zone = :time_zone where id = :org_id', {
        time_zone,
        org_id,
      });
      await editions.openEditions(db);
      while ((await editions.foldStep(db, 21)) > 0);
      await requireExact(time_zone);
    }
    const tagged = await nanosBy(db, org_id, {
      interval: 'month',
      from: localOf('UTC', from).slice(0, 10),
      to: localOf('UTC', to).slice(0, 10),
      group_by: ['tag'],
    });
    const sum = Object.values(tagged).reduce((all, nanos) => all + nanos, 0n);
    expect(sum).toBe(await ledgerNanos(db, org_id));
  });
});

test('an hour that comes twice has two buckets, and one of 90 minutes is one', async () => {
  const asked = { interval: 'hour', from: '2027-04-03', to: '2027-04-06' } as const;
  await setClock(new Date('2027-04-07T00:00:00Z'));
  for (const [time_zone, first, buckets] of [
    [
      'Pacific/Auckland',
      '2027-04-03T13:00:00Z',
      [
        ['2027-04-04T02:00', 4],
        ['2027-04-04T02:00', 4],
      ],
    ],
    [
      'Australia/Lord_Howe',
      '2027-04-03T14:00:00Z',
      [
        ['2027-04-04T01:00', 6],
        ['2027-04-04T02:00', 2],
      ],
    ],
  ] as const) {
    const { org_id } = await makeFundedOrg(db, 100_000, { time_zone });
    for (let quarter = 0; quarter < 8; quarter += 1)
      await call({ db, lanes }, org_id, 1, new Date(Date.parse(first) + quarter * 15 * MINUTE_MS));
    const look = async () => {
      const found = (await spent(db, org_id, asked)).buckets;
      return found.map(({ local, requests }) => [local, requests]);
    };
    expect(await look()).toEqual(buckets);
    await editions.openEditions(db);
    while ((await editions.foldStep(db)) > 0);
    expect(await look()).toEqual(buckets);
  }
});

test('a call of the hour before the second midnight is of the month before, as in budgets and statements', async () => {
  await setClock(new Date('2026-11-02T00:00:00Z'));
  const { org_id } = await makeFundedOrg(db, 100_000, { time_zone: 'America/Havana' });
  await call({ db, lanes }, org_id, 3, new Date('2026-11-01T04:30:00Z'));
  await call({ db, lanes }, org_id, 5, new Date('2026-11-01T05:00:00Z'));
  const asked = { from: '2026-10-01', to: '2026-11-02' } as const;
  const look = async () => {
    for (const [interval, first, second] of [
      ['month', '2026-10', '2026-11'],
      ['day', '2026-10-31', '2026-11-01'],
    ] as const)
      expect(await nanosBy(db, org_id, { interval, ...asked })).toEqual({
        [first]: nanosOf(3),
        [second]: nanosOf(5),
      });
    // Both hours are called by one name.
    const { buckets } = await spent(db, org_id, {
      ...{ interval: 'hour', from: '2026-10-31', to: '2026-11-02' },
    });
    expect(buckets.map(({ start, requests }) => [start.toISOString(), requests])).toEqual([
      ['2026-11-01T04:00:00.000Z', 1],
      ['2026-11-01T05:00:00.000Z', 1],
    ]);
  };
  await look();
  await editions.openEditions(db);
  while ((await editions.foldStep(db)) > 0);
  await look();
});

test.each([
  // 24 hours, of which the first is the first of two.
  ['America/Havana', '2026-11-02T03:30:00Z', '2026-11-01T04:00:00Z', '2026-11-02T04:00:00Z'],
  ['America/Havana', '2026-11-01T04:30:00Z', '2026-10-31T05:00:00Z', '2026-11-01T05:00:00Z'],
  ['Europe/Berlin', '2026-10-26T00:30:00Z', '2026-10-25T01:00:00Z', '2026-10-26T01:00:00Z'],
  // An hour of 90 minutes, and one of 30.
  ['Australia/Lord_Howe', '2027-04-03T14:40:00Z', '2027-04-02T15:00:00Z', '2027-04-03T15:30:00Z'],
  ['Australia/Lord_Howe', '2026-10-03T15:40:00Z', '2026-10-02T15:30:00Z', '2026-10-03T16:00:00Z'],
])('the last 24 hours of %s at %s begin at %s', async (time_zone, now, from, to) => {
  await setClock(new Date(now));
  const period = await periodOf(db, time_zone, { interval: 'hour' });
  expect([period.from, period.to]).toEqual([new Date(from), new Date(to)]);
});

test.each([
  ['hour', '2026-11-01T04:00:00Z', '2026-10-31'],
  ['hour', '2026-11-01T05:00:00Z', '2026-11-01'],
  ['day', '2026-11-01T05:00:00Z', '2026-11-01'],
  ['day', '2026-11-01', '2026-11-01'],
] as const)(
  'a period by %s may begin at %s in Havana, which is of %s',
  async (interval, from, day) => {
    await setClock(new Date('2026-11-03T00:00:00Z'));
    const period = await periodOf(db, 'America/Havana', { interval, from });
    expect(period.from_day).toBe(day);
  },
);

test('no day of Havana begins at the first of two midnights', async () => {
  await setClock(new Date('2026-11-03T00:00:00Z'));
  const asked = { interval: 'day', from: '2026-11-01T04:00:00Z' } as const;
  await expect(periodOf(db, 'America/Havana', asked)).rejects.toMatchObject({
    ...{ code: 'invalid_field', details: { param: 'from' } },
  });
});
