import { randomUUID } from 'node:crypto';
import type { Batches } from '../../../api/ledger/batches';
import type * as calls from '../../../domain/ledger/calls';
import { amounts } from '../../../domain/ledger/price-lists';
import { linesOfOne, sheetOf } from '../../../domain/ledger/price-sheet';
import { preview } from '../../../domain/ledger/views/price-preview';
import { type Db, many, one } from '../../../domain/sql';
import {
  balance,
  inFlight,
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
  await makePrice(db, { model: 'all', ...all });
  await makePrice(db, { model: 'fee', per_request: 0.000_7 });
  await makePrice(db, { model: 'least', minimum: 0.000_8, per_request: 0.000_1 });
});

afterAll(() => close());

/** A price that says every amount. */
const all = {
  ...Object.fromEntries(amounts.map((name, at) => [name, (at + 3) / 1_000])),
  minimum: 0,
  minimum_seconds: 10,
  service_tiers: JSON.stringify({ priority: { input_per_1m: 3, per_request: 0.5 }, flex: 0.5 }),
  regions: JSON.stringify({ us: 1.1 }),
  tiers: JSON.stringify([{ above_prompt_tokens: 1_000, input_per_1m: 4, output_per_1m: 5 }]),
};

/** What a settled call cost; its lines add up to it, to the nano. */
async function billOf(org_id: string, id: string | null) {
  const sheet = await sheetOf(db, id as string, org_id);
  const { sum } = await one<{ sum: string }>(
    db,
    `select (coalesce(sum(l::numeric), 0) * 1000000000)::text as sum from unnest(:amounts::text[]) as l`,
    { amounts: sheet.lines.map(({ amount }) => amount) },
  );
  expect(Number(sum)).toBe(Number(sheet.actual_cost_nanos));
  return sheet;
}

/** A call of an organization with this factor, held and settled. */
async function callOf(
  org_id: string,
  asked: Partial<calls.Reserve>,
  used: Partial<calls.Usage>,
  by: Partial<calls.Settle> = {},
) {
  const hold = await lanes.reserve(reserveBody(org_id, 1_000, asked));
  expect(hold.code).toBeNull();
  const settled = await lanes.settle(
    settleBody(org_id, hold.reservation_id, 0, { usage: usage(used), ...by }),
  );
  expect(settled.code).toBeNull();
  const sheet = await billOf(org_id, hold.reservation_id);
  return { hold, held: hold.reserved_amount_nanos, cost: settled.actual_cost_nanos, sheet };
}

const used: [string, Partial<calls.Reserve>, Partial<calls.Usage>][] = [
  ['tokens', {}, { prompt_tokens: 500, completion_tokens: 50 }],
  ['cached tokens', {}, { prompt_tokens: 500, cached_tokens: 333 }],
  ['written tokens', {}, { prompt_tokens: 700, cache_write_tokens: 1, cache_write_1h_tokens: 2 }],
  ['audio', {}, { prompt_tokens: 7, audio_input_tokens: 7, completion_tokens: 3 }],
  ['spoken', {}, { prompt_tokens: 7, completion_tokens: 3, audio_output_tokens: 3 }],
  ['images', {}, { prompt_tokens: 7, image_input_tokens: 7 }],
  ['made images', {}, { prompt_tokens: 7, completion_tokens: 9, image_output_tokens: 9 }],
  ['video', {}, { prompt_tokens: 7, video_input_tokens: 7 }],
  ['made video', {}, { prompt_tokens: 7, completion_tokens: 9, video_output_tokens: 9 }],
  ['minutes', {}, { prompt_tokens: 1, seconds: 61 }],
  ['few seconds', {}, { prompt_tokens: 1, seconds: 3 }],
  ['characters', {}, { prompt_tokens: 1, characters: 12_345 }],
  ['pages', {}, { prompt_tokens: 1, pages: 3 }],
  ['tools', {}, { prompt_tokens: 1, tool_calls: 3, web_searches: 2, file_searches: 1 }],
  ['containers', {}, { prompt_tokens: 1, containers: 2 }],
  ['a long prompt', {}, { prompt_tokens: 1_001, completion_tokens: 1 }],
  ['a tier', { service_tier: 'priority' }, { prompt_tokens: 77, service_tier: 'priority' }],
  ['a cheaper tier', { service_tier: 'flex' }, { prompt_tokens: 77, service_tier: 'flex' }],
  ['a region', { region: 'us' }, { prompt_tokens: 77, region: 'us' }],
];

test.each(used)(
  'of %s each organization pays its factor, rounded once, and its lines say so',
  async (_, asked, counts) => {
    const body = { model: 'all', ...asked };
    for (const factor of [0.76, 1.2, 0.333_333, 10]) {
      const org = await makeFundedOrg(db, 100_000_000, { price_factor: factor });
      const { cost, sheet, hold } = await callOf(org.org_id, body, counts);
      const listed = await one<{ cost: bigint; held: bigint }>(
        db,
        `select round(usage_cost(p, u) * :factor::numeric)::bigint as cost,
           ceil(dearest_charge(p, expected_usage(i, p, 4096), null, null) * :factor::numeric)::bigint as held
         from model_prices p
         cross join lateral (select jsonb_populate_record(null::usage_counts, :counts::jsonb) as u) as c
         cross join lateral (select jsonb_populate_record(null::reserve_item, :item::jsonb) as i) as r
         where p.model = 'all'`,
        {
          factor,
          counts: JSON.stringify(usage(counts)),
          item: JSON.stringify({
            estimated_prompt_tokens: 1_000,
            max_completion_tokens: 0,
            ...asked,
          }),
        },
      );
      expect({ factor, cost }).toEqual({ factor, cost: listed.cost });
      expect({ factor, held: hold.reserved_amount_nanos }).toEqual({ factor, held: listed.held });
      expect(sheet.price_factor).toBe(String(factor));
    }
  },
);

test('every amount of a price takes part, whatever amounts there are to come', async () => {
  const { price } = await one<{ price: Record<string, number> }>(
    db,
    `select to_jsonb(charged_price(p, null, null, 0.76)) as price from model_prices p where p.model = 'all'`,
  );
  for (const [at, name] of amounts.entries()) {
    if (name.startsWith('minimum')) continue;
    expect([name, price[name]]).toEqual([name, Number((((at + 3) / 1_000) * 0.76).toFixed(9))]);
  }
  expect([price.minimum, price.minimum_seconds]).toEqual([0, 10]);
});

test.each([
  [0, 0n],
  [0.76, 76n],
  [1, 100n],
  [1.2, 120n],
])('the factor %s is on the fee per request and on the least charge', async (factor, percent) => {
  const { org_id } = await makeFundedOrg(db, 1_000_000, { price_factor: factor });
  const of_price = (nanos: bigint) => (nanos * percent) / 100n;
  const fee = await callOf(org_id, { model: 'fee' }, { prompt_tokens: 10 });
  expect(fee.held).toBe(of_price(1_000n * TOKEN + 700_000n));
  expect(fee.cost).toBe(of_price(10n * TOKEN + 700_000n));
  expect(fee.sheet.price_factor).toBe(factor === 1 ? null : String(factor));
  const least = await callOf(org_id, { model: 'least' }, { prompt_tokens: 10 });
  expect(least.cost).toBe(of_price(800_000n));
  const many_tokens = await callOf(org_id, { model: 'least' }, { prompt_tokens: 900 });
  expect(many_tokens.cost).toBe(of_price(1_000_000n));
});

test('free of charge needs no money, and is no settlement without a price', async () => {
  const org = await makeOrg(db, { price_factor: 0 });
  const { hold, held, cost } = await callOf(org.org_id, {}, { prompt_tokens: 100 });
  expect([held, cost]).toEqual([0n, 0n]);
  expect(await linesOfOne(db, org.org_id, hold.reservation_id as string)).toEqual([]);
  expect(await balance(db, org.org_wallet)).toEqual({ balance_nanos: 0n, reserved_nanos: 0n });
  const nothing = await lanes.reserve(reserveBody((await makeOrg(db)).org_id, 1));
  expect(nothing.code).toBe('insufficient_balance');
});

test('organizations in one statement and side by side pay what is theirs alone', async () => {
  const factors = [0.76, 1, 1.2, 0, 0.5];
  const orgs = await Promise.all(
    factors.map((price_factor) => makeFundedOrg(db, 10_000, { price_factor })),
  );
  const costs = await inFlight(
    100,
    Array.from({ length: 10 }, () => orgs)
      .flat()
      .map(({ org_id }) => async () => {
        const hold = await lanes.reserve(reserveBody(org_id, 100));
        const { actual_cost_nanos } = await lanes.settle(
          settleBody(org_id, hold.reservation_id, 100),
        );
        return [hold.reserved_amount_nanos, actual_cost_nanos];
      }),
  );
  for (const [at, cost] of costs.entries()) {
    const due = BigInt(Math.round((factors[at % factors.length] as number) * 100)) * TOKEN;
    expect(cost).toEqual([due, due]);
  }
  for (const [at, { org_wallet }] of orgs.entries()) {
    const spent = BigInt(Math.round((factors[at] as number) * 1_000)) * TOKEN;
    expect((await balance(db, org_wallet)).balance_nanos).toBe(10_000n * TOKEN - spent);
  }
});

test('a fallback is charged by the factor too, and the dearest is held', async () => {
  const { org_id } = await makeFundedOrg(db, 10_000, { price_factor: 0.5 });
  const model = randomUUID();
  await makePrice(db, { provider: 'anthropic', model, input_per_1m: 4 });
  const fallbacks = [{ provider: 'anthropic', model }];
  const by = { provider: 'anthropic', model };
  const { held, cost } = await callOf(org_id, { fallbacks }, { prompt_tokens: 100 }, by);
  expect([held, cost]).toEqual([2_000n * TOKEN, 200n * TOKEN]);
});

test('the factor of an own key stands in the place of the one of its organization', async () => {
  const { org_id } = await makeFundedOrg(db, 100_000, { price_factor: 0.76 });
  const own = { own_keys: true, model: 'fee' } as const;
  const key = await makeOwnKey(db, org_id, { price_factor: 0.5, own_keys: 'first' });
  const both = await callOf(org_id, own, { prompt_tokens: 100 }, { provider_key_id: key });
  // The platform's price times 0.76 is dearer than that of the key, which has the whole fee.
  expect(both.held).toBe(760n * TOKEN + 532_000n);
  expect(both.cost).toBe(50n * TOKEN + 700_000n);
  expect(both.sheet).toMatchObject({ price_factor: '0.5', provider_key_id: key });
  const platform = await callOf(org_id, own, { prompt_tokens: 100 });
  expect(platform.cost).toBe(76n * TOKEN + 532_000n);
  expect(platform.sheet).toMatchObject({ price_factor: '0.76', provider_key_id: null });
  await many(db, `update provider_keys set own_keys = 'only' where id = :key`, { key });
  const only = await callOf(org_id, own, { prompt_tokens: 100 }, { provider_key_id: key });
  expect(only.held).toBe(500n * TOKEN + 700_000n);
});

test('amounts in another currency are rounded once, after factor and rate', async () => {
  await many(db, `insert into exchange_rates values ('EUR', 0.917, now())`);
  const { org_id } = await makeFundedOrg(db, 10_000, { currency: 'EUR', price_factor: 0.333_333 });
  const { held, cost } = await callOf(org_id, {}, { prompt_tokens: 7 });
  expect(held).toBe(305_667n);
  // 7,000 × 0.333333 × 0.917 = 2,139.664527.
  expect(cost).toBe(2_140n);
});

test('a change of a price is tried on what each organization would pay of it', async () => {
  const model = randomUUID();
  await makePrice(db, { model });
  for (const price_factor of [0.5, 1.2]) {
    const { org_id } = await makeFundedOrg(db, 10_000, { price_factor });
    await callOf(org_id, { model }, { prompt_tokens: 100 });
  }
  const price = { provider: 'openai', model, input_per_1m: 4, output_per_1m: 0, free: false };
  expect(await preview(db, price as never, 1)).toMatchObject({
    calls: 2,
    present_cost_nanos: 170n * TOKEN,
    new_cost_nanos: 680n * TOKEN,
  });
});
