import type { Batches } from '../../../api/ledger/batches';
import { audit } from '../../../domain/ledger/audit';
import * as excess from '../../../domain/ledger/excess';
import { linesOfOne } from '../../../domain/ledger/price-sheet';
import { type Db, many } from '../../../domain/sql';
import { makeKeyId } from '../../support/keys';
import {
  balance,
  eventsOf,
  makeFundedOrg,
  makeOverdue,
  makePrice,
  openLedger,
  reserveBody,
  settleBody,
  TOKEN,
  usage,
} from '../../support/ledger';

let db: Db;
let lanes: Batches;
let close: () => Promise<void>;

beforeAll(async () => {
  ({ db, lanes, close } = await openLedger());
});

afterAll(() => close());

const UNIT = 1_000_000_000n;
const most = { prompt_tokens: Number.MAX_SAFE_INTEGER, completion_tokens: Number.MAX_SAFE_INTEGER };

/** A hold of 0.00000075 at the price of gpt-4o-mini, settled at usage beyond all sense. */
async function absurd() {
  const org = await makeFundedOrg(db, 5_000_000);
  const hold = await lanes.reserve(reserveBody(org.org_id, 5, { model: 'mini' }));
  const row = await lanes.settle(
    settleBody(org.org_id, hold.reservation_id, 0, { usage: usage(most) }),
  );
  return { org, hold, row };
}

beforeAll(async () => {
  await makePrice(db, { model: 'mini', input_per_1m: 0.15, output_per_1m: 0.6 });
});

const rows = async (org_id: string) => {
  const first = { sort: '-created_at', page: 1, per_page: 200 };
  return (await excess.list(db, { org_id }, first)).rows;
};

test('a settle far above its hold is charged to 10 units, and the rest waits for a person', async () => {
  const { org, hold, row } = await absurd();
  expect(hold.reserved_amount_nanos).toBe(750n);
  expect(row).toMatchObject({ code: null, status: 'settled', actual_cost_nanos: 10n * UNIT });
  const [kept, ...more] = await rows(org.org_id);
  expect(more).toEqual([]);
  const beyond = 6_755_399_441_055_743_250n - 10n * UNIT;
  expect(kept).toMatchObject({
    status: 'open',
    reservation_id: hold.reservation_id,
    wallet_id: org.org_wallet,
    currency: 'USD',
    charged_nanos: 10n * UNIT,
    excess_nanos: beyond,
  });
  expect(await eventsOf(db, org.org_id, 'settlement.bounded')).toMatchObject([
    { settlement_excess_id: kept?.id, charged_nanos: String(10n * UNIT), held_nanos: '750' },
  ]);
  // A repeat answers the same and puts nothing aside again.
  const again = await lanes.settle(
    settleBody(org.org_id, hold.reservation_id, 0, { usage: usage(most) }),
  );
  expect(again).toMatchObject({ status: 'settled', actual_cost_nanos: 10n * UNIT });
  expect(await rows(org.org_id)).toHaveLength(1);
  const lines = await linesOfOne(db, org.org_id, hold.reservation_id as string);
  expect(lines.map(({ what }) => what)).toEqual(['input', 'output', 'beyond_bound']);
});

test.each([
  ['of a small hold 10 units', 1, 9_999_999, 0n],
  ['of a small hold more than 10 units', 1, 10_000_001, TOKEN],
  ['of a large hold a hundred times it', 1_000_000, 100_000_000, 0n],
  ['of a large hold more than that', 1_000_000, 100_000_001, TOKEN],
])('the bound %s', async (_, held, used, beyond) => {
  const org = await makeFundedOrg(db, 2_000_000);
  const hold = await lanes.reserve(reserveBody(org.org_id, held));
  const row = await lanes.settle(settleBody(org.org_id, hold.reservation_id, used));
  expect(row.actual_cost_nanos).toBe(BigInt(used) * TOKEN - beyond);
  expect((await rows(org.org_id)).map((one) => one.excess_nanos)).toEqual(beyond ? [beyond] : []);
});

test('an excess is charged once: to the wallet, its reservation, its key and the caps of its agent', async () => {
  const org = await makeFundedOrg(db, 2_000_000);
  const key_id = await makeKeyId(db, org.org_id, { max_budget_nanos: 100n * UNIT });
  const [agent] = await db('agents').insert({ org_id: org.org_id, name: 'Agent' }).returning('id');
  const [cap] = await db('usage_constraints')
    .insert({
      org_id: org.org_id,
      agent_id: agent.id,
      constraint_type: 'cost',
      provider: 'openai',
      model_pattern: '*',
      max_value: 1_000,
      interval: 'month',
      enforcement_mode: 'reject',
      counted_from: new Date(0),
    })
    .returning('id');
  await many(db, 'select recount_constraint(:id)', { id: cap.id });
  const hold = await lanes.reserve(reserveBody(org.org_id, 1, { key_id, agent_id: agent.id }));
  const settle = () => lanes.settle(settleBody(org.org_id, hold.reservation_id, 12_000_000));
  const first = await settle();
  const [kept] = await rows(org.org_id);
  const id = kept?.id as string;
  const decision = { id, action: 'charge', note: 'it was true', by: 'user_x' } as const;
  const settled = await Promise.allSettled([1, 2, 3].map(() => excess.decide(db, decision)));
  expect(settled.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected', 'rejected']);
  await expect(excess.decide(db, { ...decision, action: 'drop' })).rejects.toMatchObject({
    code: 'already_decided',
    status: 409,
  });
  const [charged] = await rows(org.org_id);
  expect(charged).toMatchObject({ status: 'charged', decided_by: 'user_x', note: 'it was true' });
  expect(charged?.transaction_id).toMatch(/^txn_/);
  expect(await balance(db, org.org_wallet)).toEqual({
    balance_nanos: -10n * UNIT,
    reserved_nanos: 0n,
  });
  const key = await db('tokens').where({ id: key_id }).first();
  expect(key.spent_nanos).toBe(12n * UNIT);
  const counted = await db('constraint_usage').where({ constraint_id: cap.id }).first();
  expect(Number(counted.cost_nanos)).toBe(12e9);
  expect(await settle()).toEqual(first);
  const lines = await linesOfOne(db, org.org_id, hold.reservation_id as string);
  expect(lines).toEqual([
    { what: 'input', quantity: '12000000', unit_price: '0.000001', amount: '12' },
  ]);
  expect(await audit(db)).toEqual({ clean: true, broken: [] });
});

test('an excess that is dropped moves nothing', async () => {
  const { org } = await absurd();
  const [kept] = await rows(org.org_id);
  const id = kept?.id as string;
  const before = await balance(db, org.org_wallet);
  expect(await excess.decide(db, { id, action: 'drop', by: 'user_x' })).toMatchObject({
    status: 'dropped',
    note: null,
    transaction_id: null,
  });
  expect(await balance(db, org.org_wallet)).toEqual(before);
});

test('the audit sees an excess that was charged without an entry, and an entry without one', async () => {
  const { org } = await absurd();
  const [kept] = await rows(org.org_id);
  await db('settlement_excess').where({ id: kept?.id }).update({ status: 'charged' });
  const checks = async () => (await audit(db)).broken.map(({ check }) => check);
  expect(await checks()).toContain('excess_is_charged_once');
  await db('settlement_excess').where({ id: kept?.id }).update({ status: 'open' });
  expect(await checks()).toEqual([]);
});

test('a late settle is bounded as one in time, and a batch goes on beside it', async () => {
  const org = await makeFundedOrg(db, 2_000_000);
  const [first, second] = await Promise.all([
    lanes.reserve(reserveBody(org.org_id, 1)),
    lanes.reserve(reserveBody(org.org_id, 1)),
  ]);
  await makeOverdue(db, first.reservation_id);
  await lanes.reserve(reserveBody(org.org_id, 1));
  const settled = await Promise.all([
    lanes.settle(settleBody(org.org_id, first.reservation_id, 50_000_000)),
    lanes.settle(settleBody(org.org_id, second.reservation_id, 7)),
  ]);
  expect(settled).toMatchObject([
    { status: 'late', actual_cost_nanos: 10n * UNIT },
    { status: 'settled', actual_cost_nanos: 7n * TOKEN },
  ]);
});

test.each([9_050_000_000n, 9_300_000_000n])(
  'a cost of %d units is refused where a hundred holds are more than an amount may be',
  async (units) => {
    // The wallet is below its threshold already, so that the settlement has nobody to tell.
    const columns = { low_balance_threshold_nanos: `${3_000_000_000n * UNIT}` };
    const org = await makeFundedOrg(db, 2_000_000_000_000_000, columns);
    await makePrice(db, { model: `dear-${units}`, input_per_1m: 1_000_000_000, output_per_1m: 0 });
    const hold = await lanes.reserve(reserveBody(org.org_id, 100_000, { model: `dear-${units}` }));
    const settled = await lanes.settle(
      settleBody(org.org_id, hold.reservation_id, Number(units / 1_000n)),
    );
    expect(settled).toMatchObject({ code: 'amount_too_large' });
    const { balance_nanos, reserved_nanos } = await balance(db, org.org_wallet);
    expect([balance_nanos, reserved_nanos]).toEqual([1_900_000_000n * UNIT, 100_000_000n * UNIT]);
  },
);
