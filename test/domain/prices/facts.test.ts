import { readCatalog } from '../../../domain/prices/catalogs/read';
import { diff } from '../../../domain/prices/diff';
import * as imports from '../../../domain/prices/imports';
import { makePlan, nameOf } from '../../../domain/prices/plan';
import { builtInCatalog } from '../../../price-catalogs/built-in';
import { listing, none, openPrices, usual } from './world';

const prices = openPrices();
const { world } = prices;

test('what is known of a model arrives although its price is the same', async () => {
  await imports.apply(world.db, await prices.planOf({ m: usual }), none, 'a');
  const known = { m: { ...usual, max_output_tokens: 512, deprecation_date: '2027-01-31' } };
  expect((await prices.rowsOf(known)).m).toMatchObject({
    group: 'changed',
    has_news: true,
    changes: [{ amount: 'max_output_tokens', was: null, now: '512' }],
  });
  await imports.apply(world.db, await prices.planOf(known), none, 'a');
  expect(await prices.priceOf('m')).toMatchObject({
    ...{ max_output_tokens: 512, metadata: { deprecation_date: '2027-01-31' } },
  });
});

test('what decides how much of an answer is charged asks where it falls', async () => {
  const long = { ...usual, max_output_tokens: 32_000 };
  await imports.apply(world.db, await prices.planOf({ m: long, n: long, o: long }), none, 'a');
  const rows = await prices.rowsOf({
    m: { ...long, max_output_tokens: 4_096 },
    n: { ...long, max_output_tokens: 64_000 },
    o: { ...long, supports_reasoning: true },
  });
  expect(rows.m).toMatchObject({
    group: 'asks',
    changes: [{ amount: 'max_output_tokens', was: '32000', now: '4096', percent: '-87.2' }],
  });
  expect(rows.n).toMatchObject({ group: 'changed', doubts: [] });
  expect(rows.o).toMatchObject({
    group: 'asks',
    changes: [{ amount: 'reasoning', was: 'false', now: 'true' }],
  });
});

test('tokens of a cache that would cost nothing ask, whether new or from an amount left out', async () => {
  const free_cache = { ...usual, cache_read_input_token_cost: 0 };
  await imports.apply(world.db, await prices.planOf({ m: usual }), none, 'a');
  const rows = await prices.rowsOf({ m: free_cache, n: free_cache });
  for (const row of [rows.m, rows.n]) {
    expect(row?.group).toBe('asks');
    expect(row?.changes).toContainEqual(
      expect.objectContaining({ amount: 'cached_input_per_1m', was: null, now: '0' }),
    );
    expect(row?.doubts).toEqual(['cached_input_per_1m is 0, and input_per_1m is 1']);
  }
});

test('an hour of a cache that would cost nothing asks, also where no shorter one is listed', async () => {
  const rows = await prices.rowsOf({
    m: { ...usual, cache_creation_input_token_cost_above_1hr: 0 },
  });
  expect(rows.m?.doubts).toEqual(['cache_write_1h_per_1m is 0, and input_per_1m is 1']);
});

async function routerListing(pricing: object) {
  const base = { prompt: '0.000003', completion: '0.000015' };
  const text = JSON.stringify({ data: [{ id: 'a/m', pricing: { ...base, ...pricing } }] });
  const catalog = await readCatalog(text, { name: 'made', dated: null });
  return catalog.of('openrouter').get('a/m');
}

test('sound and writes for an hour are taken from the list of OpenRouter', async () => {
  const told = { audio: '0.000032', audio_output: '0.000064', input_cache_write_1h: '0.000006' };
  const found = await routerListing({ ...told, input_cache_write: '0.00000375', discount: 0 });
  expect(found).toMatchObject({ lost: [], doubts: [] });
  expect(found?.price.amounts).toEqual({
    ...{ input_per_1m: '3', output_per_1m: '15', cache_write_per_1m: '3.75' },
    ...{ cache_write_1h_per_1m: '6', audio_input_per_1m: '32', audio_output_per_1m: '64' },
  });
});

test.each<[object, boolean]>([
  [{ image: '0.0036' }, true],
  [{ image_output: '0.04' }, true],
  [{ internal_reasoning: '0.00002' }, true],
  [{ internal_reasoning: '0.000015' }, false],
  [{ input_audio_cache: '0.000004' }, true],
  [{ input_audio_cache: '0.0000003', input_cache_read: '0.0000003' }, false],
  [{ input_audio_cache: '0.000001', input_cache_read: '0.0000003' }, true],
  [{ image_token: '0.000008' }, true],
  [{ discount: 0.2 }, true],
  [{ heard_of_by_nobody: '0.001' }, true],
])(
  'what a price cannot say of %j is lost, and asks where less would be charged',
  async (told, asks) => {
    const found = await routerListing(told);
    expect(found?.lost).toHaveLength(1);
    expect(found?.doubts).toEqual(asks ? [expect.stringMatching(/has no place in a price/)] : []);
  },
);

test.each<[object, number]>([
  [{ output_cost_per_second: 0.0001, input_cost_per_second: 0.0001 }, 0],
  [{ output_cost_per_second: 0, input_cost_per_second: 0.0001 }, 0],
  [{ output_cost_per_second: 0.00025 }, 1],
  [{ output_cost_per_second: 0.00025, input_cost_per_second: 0.0001 }, 1],
  [{ output_cost_per_second: 0.00025, input_cost_per_second: 'x' }, 2],
])(
  'seconds that come out, as in %j, ask unless those that go in cost as much',
  async (told, count) => {
    const catalog = await listing({ m: { ...usual, ...told } });
    expect(catalog.of('openai').get('m')?.doubts).toHaveLength(count);
  },
);

test('a zero that OpenRouter writes for a model without a cache leaves the price of its input', async () => {
  const pricing = { prompt: '0.000003', completion: '0.000015', input_cache_read: '0' };
  const text = JSON.stringify({ data: [{ id: 'a/m', pricing }] });
  const catalog = await readCatalog(text, { name: 'made', dated: null });
  expect(catalog.of('openrouter').get('a/m')?.price.amounts).toEqual({
    input_per_1m: '3',
    output_per_1m: '15',
  });
});

test.each<[string, object, RegExp]>([
  ['what comes out', { input_cost_per_token: 1e-6 }, /^output_per_1m is not listed/],
  [
    'what comes out at 0',
    { input_cost_per_token: 1e-6, output_cost_per_token: 0 },
    /^output_per_1m is 0: tokens of output would cost nothing/,
  ],
  ['what goes in', { output_cost_per_token: 1e-6 }, /^input_per_1m is not listed/],
  [
    'what goes in, but from a cache',
    { output_cost_per_token: 1e-6, cache_read_input_token_cost: 1e-7 },
    /^input_per_1m is not listed/,
  ],
])('a new price that gives away %s asks', async (_, entry, why) => {
  const { m } = await prices.rowsOf({ m: entry });
  expect(m?.group).toBe('asks');
  expect(m?.doubts.filter((doubt) => why.test(doubt))).toHaveLength(1);
  const plan = await prices.planOf({ m: entry });
  await expect(imports.apply(world.db, plan, none, 'a')).rejects.toMatchObject({
    code: 'import_asks',
  });
});

const text = { input_cost_per_token: 1e-6, output_cost_per_token: 1e-5 };
const writes = { ...text, cache_creation_input_token_cost: 1.25e-6 };

test.each<[string, object, RegExp]>([
  ['acme-tts-1', text, /^per_minute or per_1m_characters is not listed: speech/],
  ['speech-2', { ...text, output_cost_per_audio_token: 1e-5 }, /^per_minute or .* not listed/],
  ['gpt-4o-audio-preview', text, /sound would be charged as text$/],
  ['a-realtime-b', text, /sound would be charged as text$/],
  ['gpt-4o-search-preview-2025-03-11', text, /its searches would cost nothing$/],
  ['o3-deep-research', text, /its searches would cost nothing$/],
  ['sonar', text, /its searches would cost nothing$/],
  ['claude-opus-9', writes, /^cache_write_1h_per_1m is not listed: writes for an hour/],
])('a new price of %s without what its provider charges for asks', async (model, entry, why) => {
  const row = (await prices.rowsOf({ [model]: entry }))[model];
  expect(row?.group).toBe('asks');
  expect(row?.doubts.filter((doubt) => why.test(doubt))).toHaveLength(1);
});

test.each<[string, object]>([
  ['gemini-9-flash-tts', text],
  ['gpt-4o-audio-preview', { ...text, input_cost_per_audio_token: 4e-5 }],
  ['audiobook', text],
  ['gpt-9', writes],
  ['claude-opus-9', { ...writes, cache_creation_input_token_cost_above_1hr: 2e-6 }],
])('a new price of %s that leaves nothing out does not ask', async (model, entry) => {
  const row = (await prices.rowsOf({ [model]: entry }))[model];
  expect(row).toMatchObject({ group: 'new', doubts: [] });
});

test('a new price of a model that gives out no text, or that is charged otherwise, does not ask', async () => {
  const rows = await prices.rowsOf({
    'text-embedding-9': { input_cost_per_token: 1e-6, output_cost_per_token: 0 },
    voice: { input_cost_per_token: 1e-6, output_cost_per_audio_token: 1e-5 },
    minutes: { input_cost_per_second: 1e-4 },
  });
  for (const row of Object.values(rows)) expect(row).toMatchObject({ group: 'new', doubts: [] });
});

test('a model of a seller that asks a share for tokens of a cache asks without their price', async () => {
  const whole = [{ provider: 'fireworks' }];
  const plan = await makePlan(world.db, [await builtInCatalog()], { served: [], whole });
  const { rows } = await diff(world.db, plan);
  const bare = plan.rows.filter(({ price }) => price.amounts.cached_input_per_1m === undefined);
  const asks = rows.filter(({ doubts }) => doubts.some((one) => /^cached_input_per_1m/.test(one)));
  expect(asks.map(nameOf)).toEqual(bare.map(nameOf));
  expect(asks.map(nameOf)).toContain('fireworks/accounts/fireworks/models/glm-4p7');
  expect(new Set(asks.map(({ group }) => group))).toEqual(new Set(['asks']));
  expect(rows.filter(({ group }) => group === 'new').length).toBeGreaterThan(40);
});

test('what Fireworks lists without a side of text is no model whose tokens are kept', async () => {
  const amounts = { input_cost_per_token: 1e-7 };
  const entry = { litellm_provider: 'fireworks_ai', mode: 'embedding', ...amounts };
  const file = JSON.stringify({ 'fireworks_ai/embed': entry });
  const catalog = await readCatalog(file, { name: 'made', dated: null });
  const served = [{ provider: 'fireworks', model: 'embed' }];
  const plan = await makePlan(world.db, [catalog], { served, whole: [] });
  expect((await diff(world.db, plan)).rows[0]).toMatchObject({ group: 'new', doubts: [] });
});
