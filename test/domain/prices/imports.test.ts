import { readFileSync } from 'node:fs';
import path from 'node:path';
import { gunzipSync } from 'node:zlib';
import * as pricing from '../../../domain/ledger/pricing';
import { readCatalog } from '../../../domain/prices/catalogs/read';
import { check } from '../../../domain/prices/check';
import { type DiffRow, diff } from '../../../domain/prices/diff';
import * as imports from '../../../domain/prices/imports';
import { makePlan, nameOf, type Served } from '../../../domain/prices/plan';
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
  expect(await imports.undo(db, second.id, 'c')).toEqual({
    ...{ restored: ['openai/m'], removed: [], kept: [] },
  });
  expect(await priceOf('m')).toMatchObject({ input_per_1m: 0.3, source: 'import' });
  await expect(imports.undo(db, second.id, 'c')).rejects.toMatchObject({ code: 'import_undone' });
  // The price that is in force is the second's undoing, no longer the first import's own.
  expect(await imports.undo(db, first.id, 'c')).toMatchObject({ kept: ['openai/m'] });
});

test('the undoing of an import of new prices leaves none', async () => {
  const plan = await planOf({ m: { input_cost_per_token: 1e-6, output_cost_per_token: 1e-6 } });
  const { id } = await imports.apply(db, plan, none, 'a');
  expect(await imports.undo(db, id, 'a')).toMatchObject({ removed: ['openai/m'] });
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
  const undone = await imports.undo(db, first.id, 'a');
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
