import type { Batches } from '../../../api/ledger/batches';
import { audit } from '../../../domain/ledger/audit';
import * as budgets from '../../../domain/ledger/budgets';
import { reserveAnswer, reserveItem } from '../../../domain/ledger/reservations';
import { type Db, many, one } from '../../../domain/sql';
import { makeKeyId } from '../../support/keys';
import {
  eventsOf,
  inFlight,
  makeFundedOrg,
  makeOverdue,
  openLedger,
  reserveBody,
  settleBody,
  TOKEN,
} from '../../support/ledger';
import { makeBudget, ownBody } from './making';

let db: Db;
let lanes: Batches;
let other: Batches;
let close: () => Promise<void>;

beforeAll(async () => {
  ({ db, lanes, other, close } = await openLedger());
});

afterAll(() => close());

test('200 parallel calls on a budget for 20: exactly 20 hold', async () => {
  const org = await makeFundedOrg(db, 10_000);
  const budget = await makeBudget(db, org, 200);
  const calls = Array.from({ length: 200 }, (_, n) => () => {
    const body = reserveBody(org.org_id, 10, ownBody());
    return (n % 2 ? lanes : other).reserve(body);
  });
  const rows = await inFlight(200, calls);
  expect(rows.filter(({ code }) => code === null)).toHaveLength(20);
  expect(new Set(rows.map(({ code }) => code))).toEqual(new Set([null, 'key_budget_exceeded']));
  expect(await budgets.get(db, org.org_id, budget.id)).toMatchObject({
    held_nanos: 200n * TOKEN,
    remaining_nanos: 0n,
  });
});

test.each(['key', 'user', 'team', 'organization'] as const)(
  'a budget of a %s counts its calls and no others; settle, release and expiry correct it',
  async (owner_type) => {
    const org = await makeFundedOrg(db, 10_000);
    const key_id = await makeKeyId(db, org.org_id, { token_type: 'gateway' });
    const { user_id, team_id, org_id } = org;
    const owner_id = { key: key_id, user: user_id, team: team_id, organization: org_id }[
      owner_type
    ];
    const { id } = await makeBudget(db, org, 100, { owner_type, owner_id });
    const its = { key_id, user_id, team_id };
    const hold = async (tokens: number, who: object = its) =>
      lanes.reserve(reserveBody(org_id, tokens, { ...who, ...ownBody() }));
    const standing = async () => {
      const { spent_nanos, held_nanos } = await budgets.get(db, org_id, id);
      return [spent_nanos / TOKEN, held_nanos / TOKEN];
    };
    const first = await hold(60);
    expect(await standing()).toEqual([0n, 60n]);
    if (owner_type !== 'organization') await hold(500, {});
    expect((await hold(41)).code).toBe('key_budget_exceeded');
    await lanes.settle(settleBody(org_id, first.reservation_id, 30));
    expect(await standing()).toEqual([30n, 0n]);
    const second = await hold(41);
    await lanes.settle(settleBody(org_id, second.reservation_id, 0, { outcome: 'canceled' }));
    expect(await standing()).toEqual([30n, 0n]);
    const third = await hold(50);
    await makeOverdue(db, third.reservation_id);
    await many(db, 'select expire_holds(:org_id)', { org_id });
    expect(await standing()).toEqual([30n, 0n]);
    await lanes.settle(settleBody(org_id, third.reservation_id, 70));
    expect(await standing()).toEqual([100n, 0n]);
    expect((await hold(1)).code).toBe('key_budget_exceeded');
    expect((await audit(db)).broken).toEqual([]);
  },
);

test('a hold counts in the window in which it was made, also once that is over', async () => {
  const org = await makeFundedOrg(db, 10_000);
  const { org_id } = org;
  const { id } = await makeBudget(db, org, 100, { window: 'hour' });
  const old = await lanes.reserve(reserveBody(org_id, 80, ownBody()));
  // The clock, moved for the rows of an hour ago.
  await many(
    db,
    `update budgets set starts_at = starts_at - interval '1 hour', ends_at = ends_at - interval '1 hour' where id = :id`,
    { id },
  );
  await many(
    db,
    `update reservations set created_at = created_at - interval '1 hour', id = 'res_' || lpad(to_hex(floor(extract(epoch from created_at - interval '1 hour') * 1000)::bigint), 12, '0') || substr(id, 17)
     where id = :id`,
    { id: old.reservation_id },
  );
  await many(
    db,
    `update wallet_transactions set reservation_id = (select r.id from reservations r where r.org_id = :org_id)
     where reservation_id = :id`,
    { org_id, id: old.reservation_id },
  );
  const { reservation_id } = await one<{ reservation_id: string }>(
    db,
    'select id as reservation_id from reservations where org_id = :org_id',
    { org_id },
  );
  const next = await lanes.reserve(reserveBody(org_id, 90, ownBody()));
  expect(next.code).toBeNull();
  await lanes.settle(settleBody(org_id, reservation_id, 95));
  expect(await budgets.get(db, org_id, id)).toMatchObject({
    spent_nanos: 0n,
    held_nanos: 90n * TOKEN,
  });
  expect(
    await many(db, 'select spent_nanos, held_nanos from budget_windows where budget_id = :id', {
      id,
    }),
  ).toEqual([{ spent_nanos: 95n * TOKEN, held_nanos: 0n }]);
  expect((await audit(db)).broken).toEqual([]);
});

test('a window changed while holds are open counts them in both windows', async () => {
  const org = await makeFundedOrg(db, 10_000);
  const { org_id } = org;
  const { id } = await makeBudget(db, org, 100, { window: 'month' });
  const open = await lanes.reserve(reserveBody(org_id, 60, ownBody()));
  const changed = await budgets.update(db, org_id, id, { window: 'week' });
  expect(changed).toMatchObject({ window: 'week', held_nanos: 60n * TOKEN });
  await lanes.settle(settleBody(org_id, open.reservation_id, 20));
  expect(await budgets.get(db, org_id, id)).toMatchObject({
    spent_nanos: 20n * TOKEN,
    held_nanos: 0n,
  });
  expect((await audit(db)).broken).toEqual([]);
});

test('a budget that is made in its window begins with what was held and spent in it', async () => {
  const org = await makeFundedOrg(db, 10_000);
  const { org_id } = org;
  const spent = await lanes.reserve(reserveBody(org_id, 30, ownBody()));
  await lanes.settle(settleBody(org_id, spent.reservation_id, 25));
  const open = await lanes.reserve(reserveBody(org_id, 40, ownBody()));
  const { id, ...made } = await makeBudget(db, org, 100);
  expect(made).toMatchObject({ spent_nanos: 25n * TOKEN, held_nanos: 40n * TOKEN });
  await lanes.settle(settleBody(org_id, open.reservation_id, 10));
  expect(await budgets.get(db, org_id, id)).toMatchObject({
    spent_nanos: 35n * TOKEN,
    held_nanos: 0n,
  });
});

test('thresholds tell once a window, and each call beyond one is warned', async () => {
  const org = await makeFundedOrg(db, 10_000);
  const { org_id } = org;
  const { id } = await makeBudget(db, org, 100);
  const warned = async (tokens: number) =>
    reserveAnswer(await lanes.reserve(reserveBody(org_id, tokens, ownBody()))).warnings;
  expect(await warned(49)).toEqual([]);
  expect(await warned(1)).toMatchObject([
    { id, threshold_pct: 50, used_nanos: String(50n * TOKEN) },
  ]);
  expect(await warned(10)).toMatchObject([{ id, threshold_pct: 50 }]);
  expect(await warned(39)).toMatchObject([{ id, threshold_pct: 80 }]);
  expect((await lanes.reserve(reserveBody(org_id, 2, ownBody()))).code).toBe('key_budget_exceeded');
  expect((await lanes.reserve(reserveBody(org_id, 2, ownBody()))).code).toBe('key_budget_exceeded');
  const told = await eventsOf(db, org_id, 'budget.threshold');
  expect(told.map(({ threshold_pct }) => threshold_pct)).toEqual([50, 80, 100]);
});

test.each(['refuse', 'ticket'] as const)(
  'a call for more than the whole budget tells 100 once, and takes no threshold from the others (%s)',
  async (on_exceed) => {
    const org = await makeFundedOrg(db, 10_000);
    const { org_id } = org;
    await makeBudget(db, org, 100, { on_exceed });
    const told = async () =>
      (await eventsOf(db, org_id, 'budget.threshold'))
        .map(({ threshold_pct, used_nanos }) => ({
          threshold_pct,
          used: Number(BigInt(String(used_nanos)) / TOKEN),
        }))
        .sort((a, b) => a.used - b.used);
    for (const tokens of [180, 180])
      expect((await lanes.reserve(reserveBody(org_id, tokens, ownBody()))).code).not.toBeNull();
    expect(await told()).toEqual([{ threshold_pct: 100, used: 0 }]);
    for (const tokens of [50, 30, 20])
      expect((await lanes.reserve(reserveBody(org_id, tokens, ownBody()))).code).toBeNull();
    expect(await told()).toEqual([
      { threshold_pct: 100, used: 0 },
      { threshold_pct: 50, used: 50 },
      { threshold_pct: 80, used: 80 },
    ]);
  },
);

/** The thresholds that were told; those of one call stand in no order. */
async function toldOf(org_id: string): Promise<number[]> {
  const told = await eventsOf(db, org_id, 'budget.threshold');
  return told.map(({ threshold_pct }) => Number(threshold_pct)).sort((a, b) => a - b);
}

test('a call that passes several thresholds tells of each, once', async () => {
  const org = await makeFundedOrg(db, 10_000);
  const { org_id } = org;
  await makeBudget(db, org, 100);
  for (const tokens of [10, 75, 1])
    expect((await lanes.reserve(reserveBody(org_id, tokens, ownBody()))).code).toBeNull();
  expect(await toldOf(org_id)).toEqual([50, 80]);
});

test('a limit that is lowered below what is used tells of each threshold that it passes', async () => {
  const org = await makeFundedOrg(db, 10_000);
  const { org_id } = org;
  const { id } = await makeBudget(db, org, 1_000);
  expect((await lanes.reserve(reserveBody(org_id, 85, ownBody()))).code).toBeNull();
  await budgets.update(db, org_id, id, { limit_nanos: 100n * TOKEN });
  expect(await toldOf(org_id)).toEqual([50, 80]);
});

test('an API of the version before spends no more than a budget allows', async () => {
  const org = await makeFundedOrg(db, 10_000);
  const { org_id } = org;
  await makeBudget(db, org, 100);
  const reserves = Array.from({ length: 12 }, () => reserveBody(org_id, 10, ownBody()));
  const rows = await many<{ code: string | null }>(
    db,
    `select (r.answer).code from lane_3(:org_id, '[]', '[]', :reserves) as r`,
    { org_id, reserves: JSON.stringify(reserves.map(reserveItem)) },
  );
  expect(rows.filter(({ code }) => code === null)).toHaveLength(10);
  expect(rows.filter(({ code }) => code === 'key_budget_exceeded')).toHaveLength(2);
});
