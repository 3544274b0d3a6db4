import { randomUUID } from 'node:crypto';
import type { Batches } from '../../../api/ledger/batches';
import type * as calls from '../../../domain/ledger/calls';
import { linesOfOne } from '../../../domain/ledger/price-sheet';
import type { Db } from '../../../domain/sql';
import {
  chat,
  eventsOf,
  makeFundedOrg,
  makeOrg,
  makePrice,
  openLedger,
  reserveBody,
  settleBody,
  type TestOrg,
  TOKEN,
  usage,
} from '../../support/ledger';

let db: Db;
let lanes: Batches;
let close: () => Promise<void>;
let org: TestOrg;
const model = randomUUID();

beforeAll(async () => {
  ({ db, lanes, close } = await openLedger());
  org = await makeFundedOrg(db, 10_000_000);
  await makePrice(db, {
    model,
    input_per_1m: 10,
    output_per_1m: 40,
    per_web_search: 0.02,
    per_file_search: 0.003,
    per_container: 0.05,
    per_page: 0.001,
    image_output_per_1m: 400,
    service_tiers: JSON.stringify({
      flex: 0.5,
      priority: { input_per_1m: 20, output_per_1m: 100 },
    }),
    regions: JSON.stringify({ us: 1.1 }),
  });
});

afterAll(() => close());

const reserve = (more: Partial<calls.Reserve>) =>
  lanes.reserve(reserveBody(org.org_id, 1_000, { model, max_completion_tokens: 100, ...more }));

const plain = 14_000n * TOKEN;

test.each<[string | null | undefined, bigint]>([
  [undefined, plain],
  [null, plain],
  ['standard', plain],
  ['standard_only', plain],
  ['auto', 30_000n * TOKEN],
  ['default', 30_000n * TOKEN],
  ['priority', 30_000n * TOKEN],
  // The provider may serve the ordinary tier, and charges for that then.
  ['flex', plain],
])('a request for the tier %s holds %d', async (service_tier, held) => {
  expect((await reserve({ service_tier })).reserved_amount_nanos).toBe(held);
});

test('a model with no tier but the ordinary one holds it for auto and default', async () => {
  for (const service_tier of ['auto', 'default'])
    expect(
      (await lanes.reserve(reserveBody(org.org_id, 100, { service_tier }))).reserved_amount_nanos,
    ).toBe(100n * TOKEN);
});

test('a tier or a region that no price knows is refused; one that a candidate knows is held', async () => {
  const fallbacks = [chat];
  expect(await reserve({ service_tier: 'ultra' })).toMatchObject({
    code: 'service_tier_not_priced',
    param: 'service_tier',
  });
  expect(await reserve({ service_tier: 'ultra', fallbacks })).toMatchObject({
    code: 'service_tier_not_priced',
  });
  expect((await reserve({ service_tier: 'flex', fallbacks })).code).toBeNull();
  expect(await reserve({ region: 'eu' })).toMatchObject({
    code: 'region_not_priced',
    param: 'region',
  });
  expect((await reserve({ region: 'global' })).reserved_amount_nanos).toBe(plain);
  expect((await reserve({ region: 'us' })).reserved_amount_nanos).toBe(15_400n * TOKEN);
});

test('what is free is free at every tier', async () => {
  const free = randomUUID();
  await makePrice(db, { model: free, free: true, input_per_1m: 0, output_per_1m: 0 });
  const held = await reserve({ model: free, service_tier: 'ultra', region: 'eu' });
  expect(held.reserved_amount_nanos).toBe(0n);
});

test('what a request may bring is held: searches, containers, pages and pictures', async () => {
  const units = { web_searches: 2, file_searches: 1, containers: 1, pages: 3 };
  expect((await reserve({ units })).reserved_amount_nanos).toBe(plain + 96_000_000n);
  const pictures = { image_output_tokens: 1_000 };
  expect((await reserve({ units: pictures })).reserved_amount_nanos).toBe(plain + 400_000n * TOKEN);
});

test('sound is held for at its own price, as far as that is dearer than text', async () => {
  const [sound, cheap] = [randomUUID(), randomUUID()];
  const price = { input_per_1m: 10, output_per_1m: 40 };
  await makePrice(db, { ...price, model: sound, audio_input_per_1m: 40, audio_output_per_1m: 80 });
  await makePrice(db, { ...price, model: cheap, audio_input_per_1m: 1, audio_output_per_1m: 1 });
  const heldOf = async (of: string, units: object, more: object = {}) =>
    (await reserve({ model: of, units, ...more })).reserved_amount_nanos;
  expect(await heldOf(sound, {})).toBe(plain);
  expect(await heldOf(sound, { audio_input_tokens: 900 })).toBe(41_000n * TOKEN);
  expect(await heldOf(sound, { audio_output_tokens: 1_000_000_000 })).toBe(18_000n * TOKEN);
  const both = { audio_input_tokens: 5_000, audio_output_tokens: 50 };
  expect(await heldOf(sound, both)).toBe(46_000n * TOKEN);
  const pictures = { image_output_tokens: 10, audio_output_tokens: 1_000_000 };
  expect(await heldOf(sound, pictures)).toBe(18_400n * TOKEN);
  // It may be words after all.
  expect(await heldOf(cheap, both)).toBe(plain);
  expect(await heldOf(model, both)).toBe(plain);
});

test('a prompt that a cache is marked for is held for at the price of writes of its life', async () => {
  const [claude, minutes, cheap, tiered] = Array.from({ length: 4 }, () => randomUUID());
  const price = { input_per_1m: 10, output_per_1m: 40 };
  const writes = { cache_write_per_1m: 12.5, cache_write_1h_per_1m: 20 };
  await makePrice(db, { ...price, ...writes, model: claude, audio_input_per_1m: 40 });
  await makePrice(db, { ...price, model: minutes, cache_write_per_1m: 12.5 });
  await makePrice(db, { ...price, model: cheap, cache_write_per_1m: 0 });
  const tiers = [{ above_prompt_tokens: 500, input_per_1m: 20, output_per_1m: 40 }];
  await makePrice(db, { ...price, ...writes, model: tiered, tiers: JSON.stringify(tiers) });
  const heldOf = async (of: string | undefined, cache_life?: '5m' | '1h', more: object = {}) =>
    (await reserve({ model: of as string, cache_life, ...more })).reserved_amount_nanos;
  expect(await heldOf(claude)).toBe(plain);
  expect(await heldOf(claude, '5m')).toBe(16_500n * TOKEN);
  expect(await heldOf(claude, '1h')).toBe(24_000n * TOKEN);
  expect(await heldOf(minutes, '1h')).toBe(16_500n * TOKEN);
  expect(await heldOf(cheap, '1h')).toBe(plain);
  expect(await heldOf(model, '1h')).toBe(plain);
  expect(await heldOf(tiered, '1h')).toBe(44_000n * TOKEN);
  // Sound has no part in it.
  const units = { audio_input_tokens: 900 };
  expect(await heldOf(claude, '1h', { units })).toBe(42_000n * TOKEN);
});

test.each<[string, bigint, number]>([
  ['priority', 30_000n * TOKEN, 0],
  ['flex', 7_000n * TOKEN, 0],
  ['default', plain, 0],
  ['ultra', plain, 1],
])('an answer of the tier %s is charged %d', async (service_tier, cost, events) => {
  const own = await makeFundedOrg(db, 100_000);
  const hold = await lanes.reserve(
    reserveBody(own.org_id, 1_000, { model, max_completion_tokens: 100, service_tier: 'auto' }),
  );
  const used = usage({ prompt_tokens: 1_000, completion_tokens: 100, service_tier });
  const row = await lanes.settle(settleBody(own.org_id, hold.reservation_id, 0, { usage: used }));
  expect(row).toMatchObject({ code: null, actual_cost_nanos: cost });
  const told = await eventsOf(db, own.org_id, 'settlement.tier_unpriced');
  expect(told).toHaveLength(events);
  if (events > 0)
    expect(told[0]).toMatchObject({
      reservation_id: hold.reservation_id,
      service_tier,
      region: null,
    });
});

test('an answer of a region without a price is charged at the base, with an event', async () => {
  const own = await makeFundedOrg(db, 100_000);
  const hold = await lanes.reserve(reserveBody(own.org_id, 1_000, { model }));
  const used = usage({ prompt_tokens: 1_000, region: 'mars' });
  await lanes.settle(settleBody(own.org_id, hold.reservation_id, 0, { usage: used }));
  expect(await eventsOf(db, own.org_id, 'settlement.tier_unpriced')).toMatchObject([
    { region: 'mars', service_tier: null },
  ]);
});

test('names alone are no usage: what failed before any use costs nothing', async () => {
  const hold = await reserve({});
  const used = usage({ service_tier: 'priority' });
  const settled = settleBody(org.org_id, hold.reservation_id, 0, {
    usage: used,
    outcome: 'failed',
  });
  expect(await lanes.settle(settled)).toMatchObject({ status: 'released', actual_cost_nanos: 0n });
});

test("an agent's cap counts an answer that names its tier", async () => {
  const own = await makeFundedOrg(db, 100_000);
  const [agent] = await db('agents').insert({ org_id: own.org_id, name: 'Agent' }).returning('id');
  await db('usage_constraints').insert({
    org_id: own.org_id,
    agent_id: agent.id,
    constraint_type: 'responses',
    provider: 'openai',
    model_pattern: '*',
    max_value: 1,
    interval: 'month',
    enforcement_mode: 'reject',
    counted_from: new Date(0),
  });
  const body = () => reserveBody(own.org_id, 10, { agent_id: agent.id });
  const hold = await lanes.reserve(body());
  const used = usage({ prompt_tokens: 10, service_tier: 'default' });
  await lanes.settle(settleBody(own.org_id, hold.reservation_id, 0, { usage: used }));
  expect((await lanes.reserve(body())).code).toBe('usage_constraint_exceeded');
});

test('the sheet of a settled request adds up to its cost, in the currency of its wallet', async () => {
  const own = await makeOrg(db, { currency: 'CHF' });
  await db('exchange_rates').insert({ currency: 'CHF', rate: 0.9, updated_at: new Date() });
  const hold = await lanes.reserve(
    reserveBody(own.org_id, 0, { model, max_completion_tokens: 0, fallbacks: [chat] }),
  );
  const used = usage({ prompt_tokens: 7, completion_tokens: 3, cached_tokens: 1, web_searches: 1 });
  const row = await lanes.settle(settleBody(own.org_id, hold.reservation_id, 0, { usage: used }));
  const lines = await linesOfOne(db, own.org_id, hold.reservation_id as string);
  const nanos = lines.map(({ amount }) => Math.round(Number(amount) * 1e9));
  expect(BigInt(nanos.reduce((sum, one) => sum + one, 0))).toBe(row.actual_cost_nanos);
  expect(lines.map(({ what }) => what)).toEqual(['input', 'cached_input', 'output', 'web_search']);
  expect(lines[3]).toEqual({
    what: 'web_search',
    quantity: '1',
    unit_price: '0.018',
    amount: '0.018',
  });
  expect(await linesOfOne(db, org.org_id, hold.reservation_id as string)).toEqual([]);
});
