import { randomUUID } from 'node:crypto';
import type { Batches } from '../../../api/ledger/batches';
import type * as calls from '../../../domain/ledger/calls';
import { linesOfOne, sheetOf } from '../../../domain/ledger/price-sheet';
import { settleAnswer } from '../../../domain/ledger/reservations';
import { preview } from '../../../domain/ledger/views/price-preview';
import { storyOf } from '../../../domain/ledger/views/requests';
import { type Db, many, one } from '../../../domain/sql';
import {
  credit,
  makeFundedOrg,
  makeOrg,
  makeOwnKey,
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
  await makePrice(db, { model: 'fees', ...fees });
});

afterAll(() => close());

const fees = {
  cached_input_per_1m: 0.1,
  per_request: 0.000_7,
  per_web_search: 0.01,
  service_tiers: JSON.stringify({ priority: { input_per_1m: 3 }, flex: 0.5 }),
  tiers: JSON.stringify([{ above_prompt_tokens: 1_000, input_per_1m: 4, output_per_1m: 5 }]),
};
const FEE = 700_000n;

const own = { own_keys: true } as const;

/** What a settled call cost; its lines add up to it. */
async function billOf(org_id: string, id: string | null): Promise<bigint> {
  const sheet = await sheetOf(db, id as string, org_id);
  const { sum } = await one<{ sum: bigint }>(
    db,
    `select (coalesce(sum(l::numeric), 0) * 1000000000)::bigint as sum from unnest(:amounts::text[]) as l`,
    { amounts: sheet.lines.map(({ amount }) => amount) },
  );
  expect(sum).toBe(sheet.actual_cost_nanos);
  return sum;
}

test.each([
  [0, 0n],
  [0.5, 50n],
  [1, 100n],
  [1.25, 125n],
])(
  'an own key with the factor %s multiplies the whole price but its fee per request',
  async (price_factor, percent) => {
    const org = await makeFundedOrg(db, 1_000_000);
    const key = await makeOwnKey(db, org.org_id, { price_factor });
    const of_price = (tokens: bigint) => (tokens * TOKEN * percent) / 100n;
    const run = async (asked: Partial<calls.Reserve>, used: Partial<calls.Usage>) => {
      const body = { model: 'fees', max_completion_tokens: 100, ...own, ...asked };
      const hold = await lanes.reserve(reserveBody(org.org_id, 500, body));
      const by = { provider_key_id: key, usage: usage(used) };
      const settled = await lanes.settle(settleBody(org.org_id, hold.reservation_id, 0, by));
      expect(settled.code).toBeNull();
      expect(await billOf(org.org_id, hold.reservation_id)).toBe(settled.actual_cost_nanos);
      return { held: hold.reserved_amount_nanos, cost: settled.actual_cost_nanos, hold };
    };
    const plain = await run({}, { prompt_tokens: 500, cached_tokens: 100, completion_tokens: 50 });
    expect(plain.held).toBe(of_price(700n) + FEE);
    expect(plain.cost).toBe(of_price(510n) + FEE);
    expect(plain.hold.own_keys).toEqual([
      {
        provider: 'openai',
        provider_key_id: key,
        version: 1,
        price_factor: String(price_factor),
        own_keys: 'only',
      },
    ]);
    const long = await run({}, { prompt_tokens: 1_001, completion_tokens: 1 });
    expect(long.cost).toBe(of_price(4_009n) + FEE);
    const tier = await run(
      { service_tier: 'auto' },
      { prompt_tokens: 10, service_tier: 'flex', web_searches: 1 },
    );
    expect(tier.held).toBe(of_price(1_700n) + FEE);
    expect(tier.cost).toBe(of_price(10_005n) + FEE);
  },
);

test('a factor of 0 without a fee costs nothing, and a minimum is multiplied too', async () => {
  const org = await makeFundedOrg(db, 1_000);
  const key = await makeOwnKey(db, org.org_id, { price_factor: 0 });
  const by = { provider_key_id: key };
  const hold = await lanes.reserve(reserveBody(org.org_id, 100, own));
  expect(hold.reserved_amount_nanos).toBe(0n);
  const settled = await lanes.settle(settleBody(org.org_id, hold.reservation_id, 100, by));
  expect(settled).toMatchObject({ code: null, status: 'settled', actual_cost_nanos: 0n });
  expect(await linesOfOne(db, org.org_id, hold.reservation_id as string)).toEqual([]);

  await makePrice(db, { model: 'least', minimum: 0.000_8 });
  await many(db, 'update provider_keys set price_factor = 0.25 where id = :key', { key });
  const least = await lanes.reserve(reserveBody(org.org_id, 100, { model: 'least', ...own }));
  const charged = await lanes.settle(settleBody(org.org_id, least.reservation_id, 100, by));
  expect(charged.actual_cost_nanos).toBe(200n * TOKEN);
  expect(await billOf(org.org_id, least.reservation_id)).toBe(200n * TOKEN);
});

test('with first the dearer of both is held, and what served is charged', async () => {
  const org = await makeFundedOrg(db, 10_000);
  const cheap = await makeOwnKey(db, org.org_id, { price_factor: 0.5, own_keys: 'first' });
  const hold = () => lanes.reserve(reserveBody(org.org_id, 100, own));
  const [by_own, by_platform] = [await hold(), await hold()];
  expect(by_own.reserved_amount_nanos).toBe(100n * TOKEN);
  const settle = (id: string | null, provider_key_id?: string) =>
    lanes.settle(settleBody(org.org_id, id, 100, { provider_key_id }));
  expect((await settle(by_own.reservation_id, cheap)).actual_cost_nanos).toBe(50n * TOKEN);
  expect((await settle(by_platform.reservation_id)).actual_cost_nanos).toBe(100n * TOKEN);
  expect(await sheetOf(db, by_platform.reservation_id as string, org.org_id)).toMatchObject({
    provider_key_id: null,
    price_factor: null,
  });

  await many(db, 'update provider_keys set price_factor = 1.25 where id = :cheap', { cheap });
  const dear = await hold();
  expect(dear.reserved_amount_nanos).toBe(125n * TOKEN);
  expect((await settle(dear.reservation_id)).actual_cost_nanos).toBe(100n * TOKEN);
});

test('each provider of a call has its own factor, and the dearest is held', async () => {
  const org = await makeFundedOrg(db, 10_000);
  const [at_openai, at_other] = [randomUUID(), randomUUID()];
  await makePrice(db, { model: at_openai, input_per_1m: 8 });
  await makePrice(db, { provider: 'anthropic', model: at_other, input_per_1m: 2 });
  const key = await makeOwnKey(db, org.org_id, { price_factor: 0.1 });
  const fallbacks = [{ provider: 'anthropic', model: at_other }];
  const body = reserveBody(org.org_id, 100, { model: at_openai, fallbacks, ...own });
  const hold = await lanes.reserve(body);
  expect(hold.reserved_amount_nanos).toBe(200n * TOKEN);
  const wrong = { provider: 'anthropic', model: at_other, provider_key_id: key };
  const refused = await lanes.settle(settleBody(org.org_id, hold.reservation_id, 10, wrong));
  expect(refused.code).toBe('provider_key_not_frozen');
  expect(() => settleAnswer(refused)).toThrow('This key of the provider was not part');
  const right = { provider_key_id: key };
  const settled = await lanes.settle(settleBody(org.org_id, hold.reservation_id, 100, right));
  expect(settled.actual_cost_nanos).toBe(80n * TOKEN);
});

test('what a hold froze stands, whatever becomes of the key; repeats answer the same', async () => {
  const org = await makeFundedOrg(db, 10_000);
  const key = await makeOwnKey(db, org.org_id, { price_factor: 0.5 });
  const body = reserveBody(org.org_id, 100, own);
  const hold = await lanes.reserve(body);
  await many(
    db,
    `update provider_keys set price_factor = 2, version = 2, revoked_at = now() where id = :key`,
    { key },
  );
  const again = await lanes.reserve(body);
  expect(again).toMatchObject({
    reservation_id: hold.reservation_id,
    own_keys: hold.own_keys,
    reserved_amount_nanos: hold.reserved_amount_nanos,
  });
  const settlement = settleBody(org.org_id, hold.reservation_id, 100, { provider_key_id: key });
  const settled = await lanes.settle(settlement);
  expect(settled.actual_cost_nanos).toBe(50n * TOKEN);
  const repeated = await lanes.settle(settlement);
  expect(repeated).toMatchObject({
    actual_cost_nanos: 50n * TOKEN,
    balance_after_nanos: settled.balance_after_nanos,
    transaction_id: settled.transaction_id,
  });
  const viewer = { org_id: org.org_id, user_id: null, sees_all: true };
  expect(await storyOf(db, body.request_id, viewer)).toMatchObject({
    own_keys: hold.own_keys,
    provider_key_id: key,
    price_lines: [{ what: 'input', quantity: '100', unit_price: '0.0000005', amount: '0.00005' }],
  });
  const after = await lanes.reserve(reserveBody(org.org_id, 100, own));
  expect(after).toMatchObject({ own_keys: null, reserved_amount_nanos: 100n * TOKEN });
});

test('nobody else is charged otherwise: neither another organization nor who does not ask', async () => {
  const [org, other] = [await makeFundedOrg(db, 1_000), await makeFundedOrg(db, 1_000)];
  const key = await makeOwnKey(db, org.org_id, { price_factor: 0 });
  for (const body of [
    reserveBody(other.org_id, 100, own),
    reserveBody(org.org_id, 100),
    reserveBody(other.org_id, 100, { ...own, service_tier: 'default' }),
  ]) {
    const hold = await lanes.reserve(body);
    expect(hold).toMatchObject({ own_keys: null, reserved_amount_nanos: 100n * TOKEN });
    const by = { provider_key_id: key };
    const lied = await lanes.settle(settleBody(body.org_id, hold.reservation_id, 100, by));
    expect(lied.code).toBe('provider_key_not_frozen');
    const settled = await lanes.settle(settleBody(body.org_id, hold.reservation_id, 100));
    expect(settled.actual_cost_nanos).toBe(100n * TOKEN);
  }
});

test('a call that waited for money has the keys of the moment in which it was paid', async () => {
  const org = await makeOrg(db);
  const key = await makeOwnKey(db, org.org_id, { price_factor: 0.5 });
  const body = reserveBody(org.org_id, 100, own);
  const { cost_ticket } = await lanes.reserve(body);
  expect(cost_ticket).toMatchObject({ estimated_cost_nanos: String(50n * TOKEN) });
  await many(db, `update provider_keys set version = 2, price_factor = 0.75 where id = :key`, {
    key,
  });
  await credit(db, org.org_id, org.org_wallet, 75n * TOKEN);
  const redeemed = await lanes.redeem({
    org_id: org.org_id,
    ticket_id: cost_ticket?.id as string,
    request_id: body.request_id,
    request_body_hash: body.request_body_hash,
    wait_ms: 0,
  });
  expect(redeemed).toMatchObject({
    code: null,
    reserved_amount_nanos: 75n * TOKEN,
    own_keys: [{ provider_key_id: key, version: 2, price_factor: '0.75' }],
  });
  const by = { provider_key_id: key };
  const settled = await lanes.settle(settleBody(org.org_id, redeemed.reservation_id, 100, by));
  expect(settled.actual_cost_nanos).toBe(75n * TOKEN);
});

test('a change of a price is tried on what own keys would pay of it', async () => {
  const org = await makeFundedOrg(db, 1_000);
  const model = randomUUID();
  await makePrice(db, { model });
  const key = await makeOwnKey(db, org.org_id, { price_factor: 0.5 });
  const hold = await lanes.reserve(reserveBody(org.org_id, 100, { model, ...own }));
  const by = { provider_key_id: key };
  await lanes.settle(settleBody(org.org_id, hold.reservation_id, 100, by));
  const price = { provider: 'openai', model, input_per_1m: 4, output_per_1m: 0, free: false };
  expect(await preview(db, price as never, 1)).toMatchObject({
    calls: 1,
    present_cost_nanos: 50n * TOKEN,
    new_cost_nanos: 200n * TOKEN,
    dearer_calls: 1,
  });
});
