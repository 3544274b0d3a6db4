import { readFileSync } from 'node:fs';
import path from 'node:path';
import { gunzipSync } from 'node:zlib';
import * as pricing from '../../../domain/ledger/pricing';
import { readCatalog } from '../../../domain/prices/catalogs/read';
import { check } from '../../../domain/prices/check';
import { type DiffRow, diff } from '../../../domain/prices/diff';
import * as imports from '../../../domain/prices/imports';
import { makePlan, nameOf, type Served } from '../../../domain/prices/plan';
import { undo } from '../../../domain/prices/undo';
import { type Db, many, one } from '../../../domain/sql';
import { built_in, builtInCatalog } from '../../../price-catalogs/built-in';
import { openTestDatabase } from '../../support/database';

let db: Db;
let close: () => Promise<void>;

beforeEach(async () => {
  ({ db, close } = await openTestDatabase());
});

afterEach(() => close());

const none = { take: [], free: [] };

function litellm() {
  const file = path.join(__dirname, 'files/litellm-1.110.2.json.gz');
  const text = gunzipSync(readFileSync(file)).toString('utf8');
  return readCatalog(text, { name: 'litellm-1.110.2.json', dated: null });
}

/** A catalog in LiteLLM's format with these entries of OpenAI. */
function listing(entries: Record<string, object>) {
  const file = Object.entries(entries).map(([name, entry]) => [
    name,
    { litellm_provider: 'openai', mode: 'chat', ...entry },
  ]);
  const text = JSON.stringify(Object.fromEntries(file));
  return readCatalog(text, { name: 'made', dated: null });
}

async function planOf(entries: Record<string, object>, served?: Served[]) {
  const catalog = await listing(entries);
  const models = served ?? Object.keys(entries).map((model) => ({ provider: 'openai', model }));
  return makePlan(db, [catalog], { served: models, whole: [] });
}

async function rowsOf(entries: Record<string, object>): Promise<Record<string, DiffRow>> {
  const { rows } = await diff(db, await planOf(entries));
  return Object.fromEntries(rows.map((row) => [row.model, row]));
}

function byHand(model: string, figures: Partial<pricing.Price>) {
  return pricing.create(db, { ...pricing.blankPrice, provider: 'openai', model, ...figures });
}

async function priceOf(model: string, provider?: string) {
  const prices = await pricing.catalog(db);
  return prices.find(
    (price) => price.model === model && price.provider === (provider ?? price.provider),
  );
}

test('a price is imported with its source, changed by the next plan, and undone twice over', async () => {
  const entry = { input_cost_per_token: 3e-7, output_cost_per_token: 1.2e-6, max_output_tokens: 9 };
  const first = await imports.apply(db, await planOf({ m: entry }), none, 'a');
  expect(first).toMatchObject({ prices: 1, actor: 'a', undone_at: null });
  expect(await priceOf('m')).toMatchObject({
    ...{ input_per_1m: 0.3, output_per_1m: 1.2, max_output_tokens: 9 },
    ...{ source: 'import', import_id: first.id, catalog: 'litellm made' },
  });
  const dearer = await planOf({ m: { ...entry, input_cost_per_token: 3.3e-7 } });
  const second = await imports.apply(db, dearer, none, 'b');
  expect((await priceOf('m'))?.input_per_1m).toBe(0.33);
  expect(await undo(db, second.id, 'c')).toEqual({
    ...{ restored: ['openai/m'], removed: [], kept: [] },
  });
  expect(await priceOf('m')).toMatchObject({ input_per_1m: 0.3, source: 'import' });
  await expect(undo(db, second.id, 'c')).rejects.toMatchObject({ code: 'import_undone' });
  // What is back is the first import's own again, and can be undone too.
  expect(await undo(db, first.id, 'c')).toMatchObject({ removed: ['openai/m'] });
  expect(await priceOf('m')).toBeUndefined();
});

test('an import that another one stands on is undone after that one', async () => {
  const first = await imports.apply(db, await planOf({ m: usual, n: usual }), none, 'a');
  const dearer = { m: { ...usual, input_cost_per_token: 1.1e-6 } };
  const second = await imports.apply(db, await planOf(dearer), none, 'a');
  await expect(undo(db, first.id, 'a')).rejects.toMatchObject({
    ...{ code: 'prices_changed', details: { extra: { changed: ['openai/m'] } } },
  });
  await undo(db, second.id, 'a');
  expect((await undo(db, first.id, 'a')).removed).toEqual(['openai/m', 'openai/n']);
});

test('the undoing of an import of new prices leaves none', async () => {
  const plan = await planOf({ m: { input_cost_per_token: 1e-6, output_cost_per_token: 1e-6 } });
  const { id } = await imports.apply(db, plan, none, 'a');
  expect(await undo(db, id, 'a')).toMatchObject({ removed: ['openai/m'] });
  expect(await priceOf('m')).toBeUndefined();
});

test('a price by hand is kept and listed; taken by name; kept again once a person edits it', async () => {
  const made = await byHand('m', { input_per_1m: 1, output_per_1m: 2 });
  const entries = { m: { input_cost_per_token: 2e-6, output_cost_per_token: 2e-6 } };
  const { m } = await rowsOf(entries);
  expect(m).toMatchObject({ group: 'kept' });
  expect(m?.changes).toEqual([{ amount: 'input_per_1m', was: '1', now: '2', percent: '+100.0' }]);
  await imports.apply(db, await planOf(entries), none, 'a');
  expect(await priceOf('m')).toMatchObject({ input_per_1m: 1, source: 'hand' });
  await imports.apply(db, await planOf(entries), { ...none, take: ['openai/m'] }, 'a');
  expect(await priceOf('m')).toMatchObject({ input_per_1m: 2, source: 'import', id: made.id });
  await pricing.update(db, made.id, { input_per_1m: 3 });
  expect(await priceOf('m')).toMatchObject({ source: 'hand' });
  expect((await rowsOf(entries)).m).toMatchObject({ group: 'kept' });
  await pricing.update(db, made.id, { source: 'import' });
  expect((await rowsOf(entries)).m).toMatchObject({ group: 'changed' });
  const versions = await many(db, 'select 1 from model_prices where id = :id', { id: made.id });
  expect(versions).toHaveLength(4);
});

test('a pattern by hand is not undercut by an exact row of an import', async () => {
  await byHand('gpt-9*', { input_per_1m: 1, output_per_1m: 2 });
  const entries = { 'gpt-9-mini': { input_cost_per_token: 5e-7, output_cost_per_token: 1e-6 } };
  expect((await rowsOf(entries))['gpt-9-mini']).toMatchObject({ group: 'kept' });
});

test('a plan of yesterday is refused whole once one of its prices has changed', async () => {
  const entries = {
    m: { input_cost_per_token: 1e-6, output_cost_per_token: 1e-6 },
    n: { input_cost_per_token: 1e-6, output_cost_per_token: 1e-6 },
  };
  const plan = await planOf(entries);
  await byHand('n', { input_per_1m: 7 });
  await expect(imports.apply(db, plan, none, 'a')).rejects.toMatchObject({
    ...{ code: 'prices_changed', status: 409 },
    details: { extra: { changed: ['openai/n'] } },
  });
  expect(await priceOf('m')).toBeUndefined();
});

test('of two takings of one plan at once one is refused', async () => {
  const plan = await planOf({ m: { input_cost_per_token: 1e-6, output_cost_per_token: 1e-6 } });
  const both = await Promise.allSettled([1, 2].map(() => imports.apply(db, plan, none, 'a')));
  expect(both.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected']);
});

const usual = { input_cost_per_token: 1e-6, output_cost_per_token: 4e-6 };
const cached = { ...usual, cache_read_input_token_cost: 1e-7 };
const tiered = { ...usual, input_cost_per_token_above_200k_tokens: 2e-6 };

test.each<[string, Record<string, number>, Record<string, number>, RegExp]>([
  ['zero', usual, { input_cost_per_token: 0, output_cost_per_token: 0 }, /4 to 0|1 to 0/],
  ['a thousandfold', usual, { ...usual, input_cost_per_token: 1e-3 }, /factor near 1000/],
  ['a thousandth', usual, { ...usual, input_cost_per_token: 1e-9 }, /factor near 1000/],
  ['a tenth', usual, { ...usual, output_cost_per_token: 4e-7 }, /factor near 10:/],
  ['a third more', usual, { ...usual, input_cost_per_token: 1.34e-6 }, /\+34\.0 per cent/],
  ['less than half', usual, { ...usual, output_cost_per_token: 1.9e-6 }, /-52\.5 per cent/],
  ['no cached price', cached, usual, /cached_input_per_1m \(0\.1\) is no longer listed/],
  ['no tier', tiered, usual, /above 200000: input_per_1m \(2\) is no longer listed/],
])('a catalog that says %s asks, and changes nothing unasked', async (_, was, now, why) => {
  await imports.apply(db, await planOf({ m: was }), none, 'a');
  const before = await priceOf('m');
  const { m } = await rowsOf({ m: now });
  expect(m?.group).toBe('asks');
  expect(m?.doubts.join('\n')).toMatch(why);
  await expect(imports.apply(db, await planOf({ m: now }), none, 'a')).rejects.toMatchObject({
    ...{ code: 'import_asks', details: { extra: { asks: ['openai/m'] } } },
  });
  await imports.apply(db, await planOf({ m: now }), { ...none, skip_asking: true }, 'a');
  expect(await priceOf('m')).toEqual(before);
});

test('a model without an amount is free only if somebody says so', async () => {
  const plan = await planOf({ local: { input_cost_per_token: 0, output_cost_per_token: 0 } });
  await expect(
    imports.apply(db, plan, { ...none, take: ['openai/local'] }, 'a'),
  ).rejects.toMatchObject({ code: 'invalid_field', details: { param: 'free' } });
  await imports.apply(db, plan, { ...none, free: ['openai/local'] }, 'a');
  expect(await priceOf('local')).toMatchObject({ free: true });
  const priced = await planOf({ m: usual });
  await expect(
    imports.apply(db, priced, { ...none, free: ['openai/m'] }, 'a'),
  ).rejects.toMatchObject({ code: 'invalid_field' });
});

test('a new model takes no price of its sibling, which is a hint at most', async () => {
  const served = [{ provider: 'openai', model: 'gpt-5-5' }];
  const plan = await planOf({ 'gpt-5': usual }, served);
  expect(plan.rows).toEqual([]);
  expect(plan.missing).toEqual([{ ...served[0], near: ['gpt-5'] }]);
  const built_in = await makePlan(db, [await builtInCatalog()], {
    served: [
      { provider: 'anthropic', model: 'claude-sonnet-5-5-unheard-of' },
      { provider: 'gemini', model: 'gemini-3.8-flash-cyber-unheard-of' },
    ],
    whole: [],
  });
  expect(built_in.rows).toEqual([]);
  expect(built_in.missing.map(({ near }) => near.length > 0)).toEqual([true, true]);
});

test('a factor is on every amount, exactly, and its provider is priced as its seller', async () => {
  const catalog = await readCatalog(
    JSON.stringify({
      'azure/gpt-5.4': {
        ...{
          litellm_provider: 'azure',
          input_cost_per_token: 2.5e-6,
          output_cost_per_token: 1.5e-5,
        },
        ...{ input_cost_per_token_above_272k_tokens: 5e-6, input_cost_per_token_priority: 5e-6 },
      },
    }),
    { name: 'made', dated: null },
  );
  const served = [{ provider: 'azure-eu', model: 'gpt-5.4', seller: 'azure' }];
  const plan = await makePlan(db, [catalog], { served, whole: [] }, { 'azure-eu': '1.1' });
  await imports.apply(db, plan, none, 'a');
  expect(await priceOf('gpt-5.4')).toMatchObject({
    ...{ provider: 'azure-eu', input_per_1m: 2.75, output_per_1m: 16.5 },
    tiers: [{ above_prompt_tokens: 272_000, input_per_1m: 5.5 }],
    service_tiers: { priority: { input_per_1m: 5.5 } },
  });
});

test('a price of a coming day is planned, and the next import plans it no second time', async () => {
  const day = new Date(Date.now() + 40 * 86_400_000).toISOString().slice(0, 10);
  const catalog = await readCatalog(
    JSON.stringify([
      {
        id: 'openai',
        models: [
          {
            id: 'm',
            prices: [
              { prices: { input_mtok: 1, output_mtok: 2 } },
              {
                constraint: { type: 'start_date', start_date: day },
                prices: { input_mtok: 1.1, output_mtok: 2 },
              },
            ],
          },
        ],
      },
    ]),
    { name: 'made', dated: null },
  );
  const plan = () =>
    makePlan(db, [catalog], { served: [{ provider: 'openai', model: 'm' }], whole: [] });
  await imports.apply(db, await plan(), none, 'a');
  const versions = (await pricing.list(db)).map(({ input_per_1m, effective_from }) => [
    input_per_1m,
    effective_from.toISOString().slice(0, 10),
  ]);
  expect(versions).toEqual([
    [1, new Date().toISOString().slice(0, 10)],
    [1.1, day],
  ]);
  expect((await diff(db, await plan())).rows[0]?.group).toBe('same');
});

const dayIn = (days: number) => new Date(Date.now() + days * 86_400_000).toISOString().slice(0, 10);

/** A catalog in the format of genai-prices, with one model that has a price from a day on. */
function turning(from: string, now: object, later: object) {
  const model = {
    id: 'm',
    prices: [
      { prices: now },
      { constraint: { type: 'start_date', start_date: from }, prices: later },
    ],
  };
  const text = JSON.stringify([{ id: 'openai', models: [model] }]);
  return readCatalog(text, { name: 'made', dated: null });
}

async function turningPlan(from: string, now: object, later: object) {
  const served = [{ provider: 'openai', model: 'm' }];
  return makePlan(db, [await turning(from, now, later)], { served, whole: [] });
}

const cheap = { input_mtok: 1, output_mtok: 2 };
const dear = { input_mtok: 1.2, output_mtok: 2.4 };

test('a plan that is taken after a start day takes the price of that day', async () => {
  const plan = await turningPlan(dayIn(40), cheap, dear);
  plan.rows[0]?.coming.forEach((later) => {
    later.from = dayIn(-1);
  });
  await imports.apply(db, plan, none, 'a');
  expect(await priceOf('m')).toMatchObject({ input_per_1m: 1.2, output_per_1m: 2.4 });
  expect(await pricing.list(db)).toHaveLength(1);
});

test('a coming price is judged as a present one is, and shown', async () => {
  await imports.apply(db, await planOf({ m: usual }), none, 'a');
  const times1000 = { input_mtok: 1_000, output_mtok: 4 };
  const absurd = await turningPlan(dayIn(40), { input_mtok: 1, output_mtok: 4 }, times1000);
  const [row] = (await diff(db, absurd)).rows;
  expect(row).toMatchObject({ group: 'asks' });
  expect(row?.coming[0]?.changes).toEqual([
    { amount: 'input_per_1m', was: '1', now: '1000', percent: '+99900.0' },
  ]);
  expect(row?.doubts.join()).toMatch(
    /from \d{4}-\d\d-\d\d: input_per_1m moves by a factor near 1000/,
  );
  const zero = { input_mtok: 0, output_mtok: 0 };
  const empty = await turningPlan(dayIn(40), { input_mtok: 1, output_mtok: 4 }, zero);
  await imports.apply(db, empty, { ...none, take: ['openai/m'] }, 'a');
  expect((await pricing.list(db)).every(({ input_per_1m }) => input_per_1m > 0)).toBe(true);
});

test('a coming price that a catalog corrects or takes back is planned anew or not at all', async () => {
  await imports.apply(db, await turningPlan(dayIn(40), cheap, dear), none, 'a');
  const corrected = { ...dear, input_mtok: 1.1 };
  await imports.apply(db, await turningPlan(dayIn(40), cheap, corrected), none, 'a');
  const planned = async () =>
    (await pricing.list(db))
      .filter(({ effective_from }) => effective_from > new Date())
      .map(({ input_per_1m }) => input_per_1m);
  expect(await planned()).toEqual([1.1]);
  const plain = { m: { input_cost_per_token: 1e-6, output_cost_per_token: 2e-6 } };
  const [row] = (await diff(db, await planOf(plain))).rows;
  expect(row).toMatchObject({ group: 'changed', withdrawn: [dayIn(40)] });
  await imports.apply(db, await planOf(plain), none, 'a');
  expect(await planned()).toEqual([]);
});

test('an import whose planned price has come into force is undone to the price before it', async () => {
  await imports.apply(db, await planOf({ m: usual }), none, 'a');
  const usual_and_dear = await turningPlan(
    dayIn(40),
    { input_mtok: 1, output_mtok: 4 },
    { input_mtok: 1.2, output_mtok: 4 },
  );
  const { id } = await imports.apply(db, usual_and_dear, none, 'a');
  await many(
    db,
    `update model_prices set effective_from = clock_timestamp()
     where import_id = :id and effective_from > now() returning id`,
    { id },
  );
  expect(await priceOf('m')).toMatchObject({ input_per_1m: 1.2 });
  expect(await undo(db, id, 'a')).toMatchObject({ restored: ['openai/m'] });
  expect(await priceOf('m')).toMatchObject({ input_per_1m: 1 });
});

test('a price that a person sets is not replaced later by one that an import has planned', async () => {
  await imports.apply(db, await turningPlan(dayIn(40), cheap, dear), none, 'a');
  const { id = '' } = (await priceOf('m')) ?? {};
  await pricing.update(db, id, { input_per_1m: 0.6 });
  expect((await pricing.list(db)).map(({ input_per_1m }) => input_per_1m)).toEqual([0.6]);
});

test('a version that a person has planned makes a price theirs, and outlives an undo', async () => {
  const { id } = await imports.apply(db, await planOf({ m: usual }), none, 'a');
  const { id: price_id = '' } = (await priceOf('m')) ?? {};
  const effective_from = new Date(`${dayIn(30)}T00:00:00Z`);
  await pricing.update(db, price_id, { input_per_1m: 9, effective_from });
  const dearer = { m: { ...usual, input_cost_per_token: 1.1e-6 } };
  expect((await rowsOf(dearer)).m).toMatchObject({ group: 'kept' });
  await undo(db, id, 'a');
  expect((await pricing.list(db)).map(({ input_per_1m }) => input_per_1m)).toEqual([9]);
});

test('a price that only begins later has its one id, and is a person’s', async () => {
  const effective_from = new Date(`${dayIn(30)}T00:00:00Z`);
  const made = await byHand('m', { input_per_1m: 5, effective_from });
  expect((await rowsOf({ m: usual })).m).toMatchObject({ group: 'kept' });
  await imports.apply(db, await planOf({ m: usual }), { ...none, take: ['openai/m'] }, 'a');
  const ids = new Set((await pricing.list(db)).map(({ id }) => id));
  expect(ids).toEqual(new Set([made.id]));
});

test('a taken price keeps what no catalog says: regions, factors, containers, a least charge', async () => {
  await byHand('m', {
    ...{ input_per_1m: 1, output_per_1m: 4, per_container: 0.03, minimum: 0.001 },
    ...{ regions: { eu: 1.1 }, service_tiers: { priority: 2 }, max_output_tokens: 77 },
  });
  const entries = { m: { ...usual, input_cost_per_token: 1.2e-6 } };
  await imports.apply(db, await planOf(entries), { ...none, take: ['openai/m'] }, 'a');
  expect(await priceOf('m')).toMatchObject({
    ...{ input_per_1m: 1.2, per_container: 0.03, minimum: 0.001, source: 'import' },
    ...{ regions: { eu: 1.1 }, service_tiers: { priority: 2 }, max_output_tokens: 77 },
  });
});

test('a factor and a seller hold for the next import and for checks; losing the factor asks', async () => {
  const catalog = await listing({ m: usual });
  const served = [{ provider: 'openai-eu', model: 'm', seller: 'openai' }];
  const first = await makePlan(db, [catalog], { served, whole: [] }, { 'openai-eu': '1.1' });
  await imports.apply(db, first, none, 'a');
  expect((await check(db, [catalog], [])).faults).toBe(0);
  const whole = [{ provider: 'openai-eu' }];
  const again = await makePlan(db, [catalog], { served: [], whole });
  expect((await diff(db, again)).rows[0]?.group).toBe('same');
  const without = await makePlan(db, [catalog], { served, whole: [] }, { 'openai-eu': '1' });
  const [row] = (await diff(db, without)).rows;
  expect(row).toMatchObject({ group: 'asks' });
  expect(row?.doubts).toContain('its factor moves from 1.1 to 1');
});

test('an entry without amounts confirms nothing, and one with amounts takes its place', async () => {
  const empty = await listing({ m: {} });
  const priced = await listing({ m: usual });
  const served = [{ provider: 'openai', model: 'm' }];
  const plan = await makePlan(db, [empty, priced], { served, whole: [] });
  expect(plan.rows[0]).toMatchObject({ confirmed_by: [], known_to: 2 });
  expect((await diff(db, plan)).rows[0]).toMatchObject({ group: 'new', is_empty: false });
  const other = await listing({ m: { ...usual, cache_creation_input_token_cost: 2e-6 } });
  const more = { ...usual, cache_creation_input_token_cost: 1.25e-6 };
  const doubted = await makePlan(db, [await listing({ m: more }), other], { served, whole: [] });
  expect((await diff(db, doubted)).rows[0]).toMatchObject({ group: 'asks' });
});

test('what a price has no place for is never free', async () => {
  const plan = await planOf({ pictures: { output_cost_per_image: 0.06 } });
  expect((await diff(db, plan)).rows[0]).toMatchObject({ is_empty: true, may_be_free: false });
  for (const consent of [
    { ...none, free: ['openai/pictures'] },
    { ...none, take: ['openai/pictures'] },
  ])
    await expect(imports.apply(db, plan, consent, 'a')).rejects.toMatchObject({
      code: 'invalid_field',
    });
});

test.each([
  ['a fee that appears', { ...usual, input_cost_per_request: 5 }, /per_request \(5\) is new/],
  ['tokens and minutes', { ...usual, input_cost_per_second: 1e-4 }, /both be charged/],
  ['a fee that no call has', { ...usual, input_cost_per_request: 400 }, /per_request is 400 USD/],
])('%s asks', async (_, entry, why) => {
  await imports.apply(db, await planOf({ m: usual }), none, 'a');
  const { m } = await rowsOf({ m: entry });
  expect(m?.group).toBe('asks');
  expect(m?.doubts.join('; ')).toMatch(why);
});

test('two entries of one name are a doubt, patterns and commitments no models', async () => {
  const azure = { ...usual, litellm_provider: 'azure' };
  const file = {
    'azure/m': { ...azure, output_cost_per_token: 2.4e-5 },
    'azure_ai/m': { ...azure, litellm_provider: 'azure_ai' },
    'azure/1-month-commitment/m': azure,
    'azure/gpt-*': azure,
  };
  const catalog = await readCatalog(JSON.stringify(file), { name: 'made', dated: null });
  const whole = [{ provider: 'azure' }];
  const plan = await makePlan(db, [catalog], { served: [], whole });
  expect(plan.rows.map(({ model }) => model)).toEqual(['m']);
  expect(plan.rows[0]?.doubts[0]).toMatch(/^azure_ai\/m is another entry of this name/);
});

test('what is known of a model arrives although its price is the same', async () => {
  await imports.apply(db, await planOf({ m: usual }), none, 'a');
  const known = { m: { ...usual, max_output_tokens: 512, deprecation_date: '2027-01-31' } };
  expect((await rowsOf(known)).m).toMatchObject({ group: 'changed', has_news: true, changes: [] });
  await imports.apply(db, await planOf(known), none, 'a');
  expect(await priceOf('m')).toMatchObject({
    ...{ max_output_tokens: 512, metadata: { deprecation_date: '2027-01-31' } },
  });
});

test.each<[string, unknown]>([
  [
    'OpenRouter',
    {
      data: [
        {
          id: 'a/m',
          context_length: 9,
          pricing: { prompt: '0.000001', completion: '0.000004', request: '0' },
        },
      ],
    },
  ],
  [
    'models.dev',
    { openrouter: { models: { 'a/m': { limit: { context: 9 }, cost: { input: 1, output: 4 } } } } },
  ],
])('the list of %s is read', async (_, data) => {
  const catalog = await readCatalog(JSON.stringify(data), { name: 'made', dated: null });
  expect(catalog.of('openrouter').get('a/m')).toMatchObject({
    price: { amounts: { input_per_1m: '1', output_per_1m: '4' } },
    metadata: { context_length: 9 },
  });
});

test('a price above so many tokens is a tier, adaptive prices are a doubt, and odd rows hurt none', async () => {
  const models = {
    long: { cost: { input: 1, output: 4, context_over_200k: { input: 2, output: 8 } } },
    odd: null,
    strange: { limit: { context: '1M' }, cost: { input: 'x', output: 1e30 } },
  };
  const dev = await readCatalog(JSON.stringify({ openai: { models } }), { name: 'a', dated: null });
  expect(dev.of('openai').get('long')?.price.tiers).toEqual([
    { above_prompt_tokens: 200_000, input_per_1m: '2', output_per_1m: '8' },
  ]);
  const strange = dev.of('openai').get('strange');
  expect(strange?.price.amounts).toEqual({});
  expect(strange?.metadata).toEqual({});
  expect(strange?.doubts).toHaveLength(2);
  const router = { data: [null, { id: 'auto', pricing: { prompt: '-1', completion: '-1' } }] };
  const auto = await readCatalog(JSON.stringify(router), { name: 'b', dated: null });
  expect(auto.of('openrouter').get('auto')?.doubts).toHaveLength(2);
  const genai = [
    {
      id: 'openai',
      models: [null, { id: 'm', prices: { input_mtok: { base: 1, tiers: [null] } } }],
    },
  ];
  const made = await readCatalog(JSON.stringify(genai), { name: 'c', dated: null });
  expect([...made.of('openai').keys()]).toEqual(['m']);
});

test('the catalogs of two sources are imported whole, twice, and leave what is by hand', async () => {
  await byHand('gpt-4o', { input_per_1m: 9, output_per_1m: 9 });
  const catalogs = [await builtInCatalog(), await litellm()];
  const sellers = ['openai', 'anthropic', 'gemini', 'azure', 'bedrock', 'mistral', 'xai', 'groq'];
  const whole = sellers.map((provider) => ({ provider }));
  const plan = await makePlan(db, catalogs, { served: [], whole });
  expect(plan.rows.length).toBeGreaterThan(1_000);
  const first = await imports.apply(db, plan, { ...none, skip_asking: true }, 'a');
  expect(first.prices).toBeGreaterThan(600);
  expect(await priceOf('gpt-4o', 'openai')).toMatchObject({ input_per_1m: 9, source: 'hand' });
  const again = await makePlan(db, catalogs, { served: [], whole });
  const { rows } = await diff(db, again);
  const groups = new Set(rows.map(({ group }) => group));
  expect(groups).toEqual(new Set(['same', 'asks', 'kept']));
  expect(rows.filter(({ group }) => group === 'kept').map(nameOf)).toContain('openai/gpt-4o');
  const second = await imports.apply(db, again, { ...none, skip_asking: true }, 'a');
  expect(second.prices).toBe(0);
  const undone = await undo(db, first.id, 'a');
  expect(undone.kept).toEqual([]);
  const { count } = await one<{ count: number }>(
    db,
    'select count(*)::int as count from model_prices where retired_at is null',
  );
  expect(count).toBe(1);
});

test('a check names served models without a price, and imported prices that a catalog has moved', async () => {
  await imports.apply(db, await planOf({ m: usual, n: usual }), none, 'a');
  await byHand('h', { input_per_1m: 5, output_per_1m: 5 });
  const catalog = await listing({
    m: { ...usual, input_cost_per_token: 1.1e-6 },
    n: usual,
    h: usual,
  });
  const served = ['m', 'o'].map((model) => ({ provider: 'openai', model }));
  const report = await check(db, [catalog], served);
  expect(report).toMatchObject({ unpriced: ['openai/o'], faults: 2, old: [] });
  expect(report.differs.map(({ name }) => name)).toEqual(['openai/m']);
  expect(report.by_hand.map(({ name }) => name)).toEqual(['openai/h']);
});

test('the catalog inside is the release that it says', () => {
  const file = require.resolve('@pydantic/genai-prices');
  const { version } = JSON.parse(readFileSync(path.join(file, '../../package.json'), 'utf8'));
  expect(version).toBe(built_in.version);
});
