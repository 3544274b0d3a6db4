import type { Batches } from '../../../api/ledger/batches';
import type * as calls from '../../../domain/ledger/calls';
import { check } from '../../../domain/prices/check';
import { toldCosts } from '../../../domain/prices/told-costs';
import { type Db, many } from '../../../domain/sql';
import {
  makeFundedOrg,
  makeOwnKey,
  makePrice,
  openLedger,
  reserveBody,
  settleBody,
  type TestOrg,
} from '../../support/ledger';

let db: Db;
let lanes: Batches;
let close: () => Promise<void>;
let org: TestOrg;

beforeAll(async () => {
  ({ db, lanes, close } = await openLedger());
  await many(db, `insert into exchange_rates values ('EUR', 0.9, now())`);
  org = await makeFundedOrg(db, 10_000_000);
});
afterAll(() => close());

const nobody = { served: [], factors: {} };

let models = 0;

/** A model at 1 USD per million, that an import has priced. */
async function pricedModel(columns: Record<string, unknown> = {}): Promise<string> {
  models += 1;
  const model = `told-${models}`;
  await makePrice(db, { model, source: 'import', ...columns });
  return model;
}

interface Run {
  /** Calls of 1,000 tokens, which cost 0.001 USD each. */
  count?: number;
  org_id?: string;
  reserve?: Partial<calls.Reserve>;
  settle?: Partial<calls.Settle>;
}

async function run(model: string, told: string | undefined, given: Run = {}) {
  const { count = 5, org_id = org.org_id, reserve = {}, settle = {} } = given;
  for (let n = 0; n < count; n += 1) {
    const hold = await lanes.reserve(reserveBody(org_id, 1_000, { model, ...reserve }));
    const by = { provider_cost_usd: told, ...settle };
    const row = await lanes.settle(settleBody(org_id, hold.reservation_id, 1_000, by));
    expect(row.code).toBeNull();
    expect(row.actual_cost_nanos).toBeGreaterThan(0n);
  }
}

async function standing(model: string) {
  const found = (await toldCosts(db, 1)).find(({ name }) => name === `openai/${model}`);
  if (found === undefined) return undefined;
  const { name: _, ...rest } = found;
  return rest;
}

const fives = { calls: 5, ours_usd: '0.005', is_decided: false };

test.each<[why: string, told: string, found: object]>([
  ['the same', '0.001', { theirs_usd: '0.005', ratio: '1.0000', standing: 'close' }],
  ['1.9 % off', '0.001019', { theirs_usd: '0.005095', ratio: '0.9814', standing: 'close' }],
  ['20 % too low', '0.00125', { theirs_usd: '0.00625', ratio: '0.8000', standing: 'below' }],
  ['2 % too low', '0.0010204081632653062', { ratio: '0.9800', standing: 'below' }],
  ['25 % too high', '0.0008', { theirs_usd: '0.004', ratio: '1.2500', standing: 'above' }],
  ['theirs is zero', '0', { theirs_usd: '0', ratio: null, standing: 'above' }],
])('a list that is %s is told as such', async (_, told, found) => {
  const model = await pricedModel();
  const faults = async () => (await check(db, [], nobody)).faults;
  const before = await faults();
  await run(model, told);
  const { standing: stands } = found as { standing: string };
  expect(await standing(model)).toMatchObject({ ...fives, ...found });
  expect(await faults()).toBe(before + (stands === 'close' ? 0 : 1));
});

test.each([0.76, 1.2, 0])(
  'the list is compared, whatever an organization pays of it: %s',
  async (price_factor) => {
    const model = await pricedModel();
    const { org_id } = await makeFundedOrg(db, 10_000_000);
    await many(db, 'update organizations set price_factor = :price_factor where id = :org_id', {
      org_id,
      price_factor,
    });
    for (let n = 0; n < 5; n += 1) {
      const hold = await lanes.reserve(reserveBody(org_id, 1_000, { model }));
      const by = { provider_cost_usd: '0.001' };
      await lanes.settle(settleBody(org_id, hold.reservation_id, 1_000, by));
    }
    // What costs nobody anything says nothing of the list.
    const found = price_factor === 0 ? undefined : { ...fives, ratio: '1.0000', standing: 'close' };
    if (found === undefined) expect(await standing(model)).toBeUndefined();
    else expect(await standing(model)).toMatchObject(found);
  },
);

test.each<[why: string, price_factor: number, found: object | undefined]>([
  ['1.4 nanos are charged as 1', 0.000_001, undefined],
  ['1,400 nanos are charged as such', 0.001, { ratio: '1.0000', standing: 'close' }],
])('rounding of tiny charges is no fault of the list: %s', async (_, price_factor, found) => {
  const model = await pricedModel();
  const { org_id } = await makeFundedOrg(db, 10_000_000, { price_factor });
  for (let n = 0; n < 5; n += 1) {
    const hold = await lanes.reserve(reserveBody(org_id, 1_400, { model }));
    const by = { provider_cost_usd: '0.0014' };
    await lanes.settle(settleBody(org_id, hold.reservation_id, 1_400, by));
  }
  if (found === undefined) expect(await standing(model)).toBeUndefined();
  else expect(await standing(model)).toMatchObject(found);
});

test('what the list gives for nothing is told however little it is charged', async () => {
  const model = await pricedModel({ free: true });
  for (let n = 0; n < 5; n += 1) {
    const hold = await lanes.reserve(reserveBody(org.org_id, 1_000, { model }));
    const by = { provider_cost_usd: '0.001' };
    await lanes.settle(settleBody(org.org_id, hold.reservation_id, 1_000, by));
  }
  expect(await standing(model)).toMatchObject({
    ours_usd: '0',
    ratio: '0.0000',
    standing: 'below',
  });
});

test('four calls are too few to warn', async () => {
  const model = await pricedModel();
  await run(model, '0.002', { count: 4 });
  expect(await standing(model)).toMatchObject({ calls: 4, ratio: '0.5000', standing: 'few' });
});

test.each([
  ['by hand', { source: 'hand' }],
  ['with a factor', { price_factor: 1.25 }],
])('a price %s may be above, and never below', async (_, columns) => {
  const margin = await pricedModel(columns);
  const loss = await pricedModel(columns);
  const before = (await check(db, [], nobody)).faults;
  await run(margin, '0.0008');
  expect(await standing(margin)).toMatchObject({ standing: 'above', is_decided: true });
  expect((await check(db, [], nobody)).faults).toBe(before);
  await run(loss, '0.002');
  expect((await check(db, [], nobody)).faults).toBe(before + 1);
});

test('only calls that tell a cost are compared, and only those of the days that are asked for', async () => {
  const model = await pricedModel();
  await run(model, undefined);
  expect(await standing(model)).toBeUndefined();
  await run(model, '0.001');
  await many(
    db,
    `update reservations set closed_at = closed_at - interval '25 hours' where model = :model`,
    { model },
  );
  expect(await standing(model)).toBeUndefined();
  const [found] = (await toldCosts(db, 2)).filter(({ name }) => name.endsWith(`/${model}`));
  expect(found).toMatchObject({ calls: 5, standing: 'close' });
});

test('calls by an own key of an organization are nobody else’s matter', async () => {
  const model = await pricedModel();
  const { org_id } = await makeFundedOrg(db, 1_000_000);
  const provider_key_id = await makeOwnKey(db, org_id, { price_factor: 0.5 });
  await run(model, '0.9', { org_id, reserve: { own_keys: true }, settle: { provider_key_id } });
  expect(await standing(model)).toBeUndefined();
});

test('wallets of another currency are compared in USD, and fallbacks by the price of what served', async () => {
  const [asked, served] = [await pricedModel(), await pricedModel({ price_factor: 2 })];
  const { org_id } = await makeFundedOrg(db, 1_000_000, { currency: 'EUR' });
  const fallback = { provider: 'openai', model: served };
  await run(asked, '0.001', {
    org_id,
    reserve: { fallbacks: [fallback] },
    settle: { ...fallback },
  });
  expect(await standing(asked)).toBeUndefined();
  expect(await standing(served)).toMatchObject({ ...fives, standing: 'close', is_decided: true });
});

test('what is put aside as excess counts, once, before and after somebody charges it', async () => {
  const model = await pricedModel();
  const { org_id } = await makeFundedOrg(db, 100_000_000);
  for (let n = 0; n < 5; n += 1) {
    const hold = await lanes.reserve(reserveBody(org_id, 1, { model }));
    const by = { provider_cost_usd: '12' };
    await lanes.settle(settleBody(org_id, hold.reservation_id, 12_000_000, by));
  }
  const whole = { ours_usd: '60', theirs_usd: '60', standing: 'close' };
  const open = await many<{ id: string }>(
    db,
    'select id from settlement_excess where org_id = :org_id',
    { org_id },
  );
  expect(open).toHaveLength(5);
  expect(await standing(model)).toMatchObject(whole);
  const [first] = open;
  await many(db, `select decide_excess(:id, 'charge', null, 'test')`, { id: first?.id });
  expect(await standing(model)).toMatchObject(whole);
});

test('a batch of settlements keeps the figure of each, and an item without one none', async () => {
  const model = await pricedModel();
  const holds = [];
  for (let n = 0; n < 3; n += 1)
    holds.push(await lanes.reserve(reserveBody(org.org_id, 10, { model })));
  const tell = ['0.5', undefined, '0.25'];
  await Promise.all(
    holds.map(({ reservation_id }, n) =>
      lanes.settle(settleBody(org.org_id, reservation_id, 10, { provider_cost_usd: tell[n] })),
    ),
  );
  const rows = await many<{ told: string | null }>(
    db,
    'select provider_cost_usd::text as told from reservations where model = :model order by created_at, id',
    { model },
  );
  expect(rows.map(({ told }) => told)).toEqual(['0.5', null, '0.25']);
});
