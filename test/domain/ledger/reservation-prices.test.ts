import { randomUUID } from 'node:crypto';
import type { Batches } from '../../../api/ledger/batches';
import type * as calls from '../../../domain/ledger/calls';
import { type Db, many } from '../../../domain/sql';
import {
  balance,
  credit,
  inFlight,
  makeFundedOrg,
  makeOrg,
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

const fundedOrg = (tokens: number, columns?: Record<string, unknown>) =>
  makeFundedOrg(db, tokens, columns);

test('a price changed or deleted in flight: settled at the price frozen in the reservation', async () => {
  const model = randomUUID();
  const org = await fundedOrg(1_000);
  await makePrice(db, { model });
  const hold = await lanes.reserve(reserveBody(org.org_id, 100, { model }));
  await many(db, 'update model_prices set retired_at = clock_timestamp() where model = :model', {
    model,
  });
  expect((await lanes.reserve(reserveBody(org.org_id, 100, { model }))).code).toBe(
    'model_not_priced',
  );
  expect(
    (await lanes.settle(settleBody(org.org_id, hold.reservation_id, 100))).actual_cost_nanos,
  ).toBe(100n * TOKEN);
});

test('an unpriced model, dated name or prefix is refused; a pattern covers what it says and the longest wins', async () => {
  const org = await fundedOrg(1_000);
  await makePrice(db, { model: 'claude-*', input_per_1m: 3 });
  await makePrice(db, { model: 'claude-sonnet-*', input_per_1m: 5 });
  await makePrice(db, { model: 'claude-sonnet-4', input_per_1m: 7 });
  const held = async (model: string) => {
    const row = await lanes.reserve(reserveBody(org.org_id, 1, { model }));
    return row.code ?? row.reserved_amount_nanos;
  };
  expect(await held('gpt-4o-mini-2024-07-18')).toBe('model_not_priced');
  expect(await held('gpt-4o')).toBe('model_not_priced');
  expect(await held('claude-opus')).toBe(3n * TOKEN);
  expect(await held('claude-sonnet-4-5')).toBe(5n * TOKEN);
  expect(await held('claude-sonnet-4')).toBe(7n * TOKEN);
});

test('the dearest of the candidates is held, and settle charges the one that answered', async () => {
  const org = await fundedOrg(1_000);
  const model = randomUUID();
  await makePrice(db, { model, input_per_1m: 4 });
  const fallbacks = [{ provider: 'openai', model }];
  const hold = await lanes.reserve(reserveBody(org.org_id, 10, { fallbacks }));
  expect(hold.reserved_amount_nanos).toBe(40n * TOKEN);
  expect(
    (await lanes.settle(settleBody(org.org_id, hold.reservation_id, 10, { model: 'other' }))).code,
  ).toBe('price_not_frozen');
  expect(
    (
      await lanes.settle(
        settleBody(org.org_id, hold.reservation_id, 10, { provider: 'openai', model }),
      )
    ).actual_cost_nanos,
  ).toBe(40n * TOKEN);
  expect(
    (
      await lanes.reserve(
        reserveBody(org.org_id, 1, { fallbacks: [{ provider: 'openai', model: 'none' }] }),
      )
    ).code,
  ).toBe('model_not_priced');
});

test('each kind of token is priced once, at its own price; a tier applies to the whole request', async () => {
  const org = await fundedOrg(1_000_000);
  const model = randomUUID();
  await makePrice(db, {
    model,
    input_per_1m: 10,
    output_per_1m: 20,
    cached_input_per_1m: 1,
    cache_write_per_1m: 12,
    cache_write_1h_per_1m: 16,
    audio_input_per_1m: 100,
    audio_output_per_1m: 200,
    per_minute: 0.6,
    per_1m_characters: 30,
    per_request: 0.001,
    per_tool_call: 0.01,
    tiers: JSON.stringify([{ above_prompt_tokens: 1_000, input_per_1m: 11, output_per_1m: 21 }]),
  });
  const cost = async (counts: Partial<calls.Usage>) => {
    const hold = await lanes.reserve(reserveBody(org.org_id, 10, { model }));
    return (
      await lanes.settle(settleBody(org.org_id, hold.reservation_id, 0, { usage: usage(counts) }))
    ).actual_cost_nanos;
  };
  const request = 1_000_000n;
  expect(
    await cost({
      prompt_tokens: 100,
      cached_tokens: 40,
      completion_tokens: 10,
      reasoning_tokens: 5,
    }),
  ).toBe(request + 60_0000n + 4_0000n + 20_0000n);
  expect(
    await cost({
      prompt_tokens: 100,
      cache_write_tokens: 10,
      cache_write_1h_tokens: 10,
      audio_input_tokens: 10,
    }),
  ).toBe(request + 70_0000n + 12_0000n + 16_0000n + 100_0000n);
  expect(await cost({ completion_tokens: 10, audio_output_tokens: 4 })).toBe(
    request + 12_0000n + 80_0000n,
  );
  expect(await cost({ seconds: 30, characters: 1_000, tool_calls: 2 })).toBe(
    request + 300_000_000n + 30_000_000n + 20_000_000n,
  );
  expect(await cost({ prompt_tokens: 1_001, completion_tokens: 1 })).toBe(
    request + 11_011_000n + 21_000n,
  );
  expect(await cost({ prompt_tokens: 1_000, completion_tokens: 1 })).toBe(
    request + 10_000_000n + 20_000n,
  );
});

test('what failed before any use is not charged, not even the price per request', async () => {
  const org = await fundedOrg(1_000_000);
  const model = randomUUID();
  await makePrice(db, { model, per_request: 0.001 });
  const hold = await lanes.reserve(reserveBody(org.org_id, 10, { model }));
  const row = await lanes.settle(
    settleBody(org.org_id, hold.reservation_id, 0, { outcome: 'failed' }),
  );
  expect(row).toMatchObject({ status: 'released', actual_cost_nanos: 0n });
});

test('10,000 requests of 0.0004 cost 4.00 exactly', async () => {
  const org = await fundedOrg(0);
  await credit(db, org.org_id, org.org_wallet, 5_000_000_000n);
  const calls = Array.from({ length: 10_000 }, () => async () => {
    const hold = await lanes.reserve(reserveBody(org.org_id, 400));
    await lanes.settle(settleBody(org.org_id, hold.reservation_id, 400));
  });
  await inFlight(64, calls);
  expect(await balance(db, org.org_wallet)).toEqual({
    balance_nanos: 1_000_000_000n,
    reserved_nanos: 0n,
  });
});

test('a five-token embedding at 0.02 per million costs exactly 100 nanos; halves round up once', async () => {
  const org = await fundedOrg(1_000);
  const model = randomUUID();
  await makePrice(db, { model, input_per_1m: 0.02, output_per_1m: 0.0005 });
  const hold = await lanes.reserve(reserveBody(org.org_id, 5, { model }));
  expect(
    (await lanes.settle(settleBody(org.org_id, hold.reservation_id, 5))).actual_cost_nanos,
  ).toBe(100n);
  const half = await lanes.reserve(reserveBody(org.org_id, 5, { model }));
  const row = await lanes.settle(
    settleBody(org.org_id, half.reservation_id, 0, { usage: usage({ completion_tokens: 1 }) }),
  );
  expect(row.actual_cost_nanos).toBe(1n);
});

test('a wallet in another currency pays at the rate of its reserve; without a rate nothing is held', async () => {
  const org = await makeOrg(db, { currency: 'EUR' });
  await credit(db, org.org_id, org.org_wallet, 1_000n * TOKEN);
  expect((await lanes.reserve(reserveBody(org.org_id, 100))).code).toBe('exchange_rate_missing');
  await db('exchange_rates').insert({ currency: 'EUR', rate: 0.5, updated_at: new Date() });
  const hold = await lanes.reserve(reserveBody(org.org_id, 100));
  expect(hold).toMatchObject({ reserved_amount_nanos: 50n * TOKEN, currency: 'EUR' });
  await many(db, `update exchange_rates set rate = 2 where currency = 'EUR'`);
  expect(
    (await lanes.settle(settleBody(org.org_id, hold.reservation_id, 100))).actual_cost_nanos,
  ).toBe(50n * TOKEN);
});

test('the buffer is held on top of the estimate and given back', async () => {
  const org = await fundedOrg(1_000, { reserve_buffer_pct: 25 });
  const hold = await lanes.reserve(reserveBody(org.org_id, 100));
  expect(hold).toMatchObject({
    estimated_cost_nanos: 100n * TOKEN,
    reserved_amount_nanos: 125n * TOKEN,
  });
  expect(
    (await lanes.settle(settleBody(org.org_id, hold.reservation_id, 100))).released_amount_nanos,
  ).toBe(25n * TOKEN);
});
