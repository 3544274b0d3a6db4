import * as editions from '../../../domain/spend/editions';
import { many, one } from '../../../domain/sql';
import {
  makeFundedOrg,
  makeOverdue,
  openLedger,
  reserveBody,
  settleBody,
} from '../../support/ledger';
import { randomOf, seed } from '../../support/random';
import { breakWritesTo, call, ledgerNanos, nanosBy, nanosOf, spent } from './world';

let ledger: Awaited<ReturnType<typeof openLedger>>;

beforeAll(async () => {
  ledger = await openLedger();
});

afterAll(() => ledger.close());

/** The calendar day of a zone, by another hand than the database's. */
function dayIn(time_zone: string, at: Date): string {
  return new Intl.DateTimeFormat('en-CA', { timeZone: time_zone }).format(at);
}

const HOUR_MS = 3_600_000;

describe.each([
  // New Zealand's clocks went forward on 2026-09-27.
  ['Pacific/Auckland', '2026-09-26T06:00:00Z'],
  // Half an hour beside all others, and Europe's change of 2026-10-25 is none there.
  ['Asia/Kolkata', '2026-10-24T06:20:00Z'],
  ['Europe/Berlin', '2026-10-24T06:20:00Z'],
  ['UTC', '2026-10-24T06:20:00Z'],
])('in %s', (time_zone, first) => {
  test('days add up to the ledger, folded, half folded and not at all, whatever kills the fold', async () => {
    const { db } = ledger;
    const { org_id } = await makeFundedOrg(db, 1_000_000, { time_zone });
    const expected: Record<string, bigint> = {};
    const random = randomOf(seed);
    for (let hour = 0; hour < 60; hour += 1) {
      const at = new Date(Date.parse(first) + hour * HOUR_MS + Math.floor(random() * HOUR_MS));
      const tokens = 1 + Math.floor(random() * 1_000);
      await call(ledger, org_id, tokens, at, hour % 3 === 0 ? { tags: [`of-${hour}`, 'all'] } : {});
      const day = dayIn(time_zone, at);
      expected[day] = (expected[day] ?? 0n) + nanosOf(tokens);
    }
    const asked = { from: '2026-09-01', to: '2026-11-01' };
    expect(await nanosBy(db, org_id, asked)).toEqual(expected);
    await editions.openEditions(db);
    for (const table of ['spend_days', 'spend_tags', 'spend_tag_days', 'spend_cursors']) {
      const mend = await breakWritesTo(db, table);
      await expect(editions.foldStep(db, 37)).rejects.toThrow(`killed at ${table}`);
      await mend();
      expect(await nanosBy(db, org_id, asked)).toEqual(expected);
      expect(await editions.foldStep(db, 37)).toBeGreaterThan(0);
      expect(await nanosBy(db, org_id, asked)).toEqual(expected);
    }
    while ((await editions.foldStep(db, 37)) > 0);
    expect(await nanosBy(db, org_id, asked)).toEqual(expected);
    const { totals } = await spent(db, org_id, asked);
    expect(totals).toMatchObject({ cost_nanos: await ledgerNanos(db, org_id), requests: 60 });
    const { count } = await one<{ count: number }>(
      db,
      `select count(*)::int as count from spend_editions e join spend_cursors c using (edition)
       join wallets w on w.id = c.wallet_id where e.org_id = :org_id and c.folded_seq = w.seq and w.seq > 0`,
      { org_id },
    );
    expect(count).toBe(1);
  });
});

test('hours of a zone with half hours begin with its hours, and add up', async () => {
  const { db } = ledger;
  const { org_id } = await makeFundedOrg(db, 100_000, { time_zone: 'Asia/Kolkata' });
  const base = Math.floor(Date.now() / HOUR_MS) * HOUR_MS - 10 * HOUR_MS;
  for (const minutes of [0, 29, 30, 59, 89, 90])
    await call(ledger, org_id, 10, new Date(base + minutes * 60_000));
  const from = new Date(base - 30 * 60_000).toISOString();
  const to = new Date(base + 2.5 * HOUR_MS).toISOString();
  const asked = { from, to, interval: 'hour' } as const;
  const look = async () => {
    const { buckets } = await spent(db, org_id, asked);
    return buckets.map(({ start, requests }) => [(start.getTime() - base) / 60_000, requests]);
  };
  const expected = [
    [-30, 2],
    [30, 3],
    [90, 1],
  ];
  expect(await look()).toEqual(expected);
  await editions.openEditions(db);
  while ((await editions.foldStep(db, 5)) > 0);
  expect(await look()).toEqual(expected);
});

test('expired, late and excess settlements count once, what failed as no call', async () => {
  const { db, lanes } = ledger;
  const { org_id } = await makeFundedOrg(db, 100_000_000);
  await editions.openEditions(db);
  const fold = async () => {
    while ((await editions.foldStep(db)) > 0);
  };
  const late = await lanes.reserve(reserveBody(org_id, 100));
  await makeOverdue(db, late.reservation_id);
  await many(db, 'select expire_holds(:org_id)', { org_id });
  await fold();
  expect((await spent(db, org_id)).totals).toMatchObject({ cost_nanos: 0n, requests: 0 });
  await lanes.settle(settleBody(org_id, late.reservation_id, 70));
  const failed = await lanes.reserve(reserveBody(org_id, 100));
  await lanes.settle(settleBody(org_id, failed.reservation_id, 0, { outcome: 'failed' }));
  await fold();
  const bounded = await lanes.reserve(reserveBody(org_id, 10));
  // Beyond 10 units of the currency.
  await lanes.settle(settleBody(org_id, bounded.reservation_id, 15_000_000));
  await fold();
  const { id } = await one<{ id: string }>(
    db,
    'select id from settlement_excess where reservation_id = :id',
    { id: bounded.reservation_id },
  );
  await many(db, `select decide_excess(:id, 'charge', 'yes', 'somebody')`, { id });
  const { totals } = await spent(db, org_id);
  expect(totals).toEqual({
    cost_nanos: await ledgerNanos(db, org_id),
    requests: 2,
    prompt_tokens: 15_000_070,
    completion_tokens: 0,
    cached_tokens: 0,
  });
  expect(totals.cost_nanos).toBe(nanosOf(15_000_070));
  await fold();
  expect((await spent(db, org_id)).totals).toEqual(totals);
});

test('a call that failed for nothing is no request, also after its hold had expired', async () => {
  const { db, lanes } = ledger;
  const { org_id } = await makeFundedOrg(db, 1_000);
  await editions.openEditions(db);
  const settleLate = async (tokens: number, outcome: 'failed' | 'completed') => {
    const { reservation_id } = await lanes.reserve(reserveBody(org_id, 100));
    await makeOverdue(db, reservation_id);
    await many(db, 'select expire_holds(:org_id)', { org_id });
    await lanes.settle(settleBody(org_id, reservation_id, tokens, { outcome }));
  };
  await settleLate(0, 'failed');
  await settleLate(7, 'failed');
  await settleLate(9, 'completed');
  const expected = { requests: 2, cost_nanos: nanosOf(16), prompt_tokens: 16 };
  expect((await spent(db, org_id)).totals).toMatchObject(expected);
  while ((await editions.foldStep(db)) > 0);
  expect((await spent(db, org_id)).totals).toMatchObject(expected);
});

test('another time zone folds anew beside what is read, and takes its place; a rebuild mends what was spoilt', async () => {
  const { db } = ledger;
  const { org_id } = await makeFundedOrg(db, 100_000);
  const at = new Date('2026-10-10T22:00:00Z');
  for (let n = 0; n < 5; n += 1) await call(ledger, org_id, 10, at);
  const asked = { from: '2026-10-01', to: '2026-10-31' };
  await editions.openEditions(db);
  while ((await editions.foldStep(db)) > 0);
  expect(await nanosBy(db, org_id, asked)).toEqual({ '2026-10-10': nanosOf(50) });
  await db('organizations').where({ id: org_id }).update({ time_zone: 'Asia/Kolkata' });
  await editions.openEditions(db);
  await editions.foldStep(db, 4);
  // Of the old zone until the new one is made.
  expect(await spent(db, org_id, asked)).toMatchObject({ time_zone: 'UTC' });
  while ((await editions.foldStep(db, 4)) > 0);
  expect(await spent(db, org_id, asked)).toMatchObject({ time_zone: 'Asia/Kolkata' });
  expect(await nanosBy(db, org_id, asked)).toEqual({ '2026-10-11': nanosOf(50) });

  await many(
    db,
    `update spend_days set cost_nanos = cost_nanos + 1 where edition in
       (select edition from spend_editions where org_id = :org_id and state = 'current')`,
    { org_id },
  );
  const { broken } = await one<{ broken: number }>(
    db,
    `select count(*)::int as broken from audit_6() where check_name like 'spend_%'`,
  );
  expect(broken).toBe(1);
  await editions.rebuild(db, org_id);
  while ((await editions.madeNow(db)) > 0) await editions.foldStep(db);
  expect(await nanosBy(db, org_id, asked)).toEqual({ '2026-10-11': nanosOf(50) });
  await editions.sweep(db);
  const left = await many(
    db,
    `select distinct edition from spend_days where edition not in
       (select edition from spend_editions)`,
  );
  expect(left).toEqual([]);
});

test.each([
  ['spend_days', `update spend_days set user_id = 'x'`, 'spend_is_folded_calls'],
  ['calls', 'update spend_days set requests = requests + 1', 'spend_is_folded_calls'],
  ['tokens', 'update spend_days set cached_tokens = 9', 'spend_is_folded_calls'],
  ['tags', 'update spend_tag_days set cost_nanos = cost_nanos + 1', 'spend_tags_are_folded_calls'],
  ['a tag', `update spend_tag_days set tag = 'c'`, 'spend_tags_are_folded_calls'],
  ['hours', `update spend_hours set user_id = 'x'`, 'spend_hours_are_folded_calls'],
  ['hours', 'update spend_hours set requests = requests + 1', 'spend_hours_are_folded_calls'],
  ['hours', 'update spend_hours set cached_tokens = 9', 'spend_hours_are_folded_calls'],
  [
    'hours',
    `update spend_hours set hour = hour + case when extract(hour from hour at time zone 'UTC') > 0 then -1 else 1 end * interval '1 hour'`,
    'spend_hours_are_folded_calls',
  ],
  [
    'the hours of a day that has no spend',
    `insert into spend_hours select edition, hour - interval '3 days', key_id, user_id, team_id, agent_id, family, provider, model, 1, 1, 1, 0, 0 from spend_hours`,
    'spend_hours_are_folded_calls',
  ],
])('the proof finds what is wrong of %s', async (_, spoil, check) => {
  const { db } = ledger;
  const { org_id } = await makeFundedOrg(db, 100_000);
  await call(ledger, org_id, 10, undefined, { tags: ['a'] });
  await editions.openEditions(db);
  while ((await editions.foldStep(db)) > 0);
  const undone = new Error('undone');
  const spoilt = db.transaction(async (trx) => {
    const of_org = 'edition in (select edition from spend_editions where org_id = :org_id)';
    await many(trx, `${spoil} where ${of_org}`, { org_id });
    const rows = await many<{ check_name: string }>(
      trx,
      'select distinct check_name from audit_9()',
    );
    expect(rows).toEqual([{ check_name: check }]);
    throw undone;
  });
  await expect(spoilt).rejects.toBe(undone);
});

test('folds beside each other count nothing twice', async () => {
  const { db } = ledger;
  const organizations = await Promise.all(
    Array.from({ length: 4 }, () => makeFundedOrg(db, 100_000)),
  );
  await editions.openEditions(db);
  const work = organizations.map(async ({ org_id }) => {
    for (let n = 0; n < 30; n += 1) await call(ledger, org_id, 10, undefined);
  });
  let is_over = false;
  const folds = Array.from({ length: 4 }, async () => {
    while (!is_over) await editions.foldStep(db, 7);
  });
  await Promise.all(work);
  is_over = true;
  await Promise.all(folds);
  while ((await editions.foldStep(db, 7)) > 0);
  for (const { org_id } of organizations)
    expect((await spent(db, org_id)).totals).toMatchObject({
      cost_nanos: nanosOf(300),
      requests: 30,
    });
});
