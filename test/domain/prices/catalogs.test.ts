import { readFileSync } from 'node:fs';
import path from 'node:path';
import { readCatalog } from '../../../domain/prices/catalogs/read';
import { diff } from '../../../domain/prices/diff';
import { leaps, percentOf } from '../../../domain/prices/doubts';
import * as imports from '../../../domain/prices/imports';
import { makePlan, nameOf } from '../../../domain/prices/plan';
import { undo } from '../../../domain/prices/undo';
import { one } from '../../../domain/sql';
import { built_in, builtInCatalog } from '../../../price-catalogs/built-in';
import { listing, litellm, none, openPrices, usual } from './world';

const prices = openPrices();
const { world } = prices;

test('a new model takes no price of its sibling, which is a hint at most', async () => {
  const served = [{ provider: 'openai', model: 'gpt-5-5' }];
  const plan = await prices.planOf({ 'gpt-5': usual }, served);
  expect(plan.rows).toEqual([]);
  expect(plan.missing).toEqual([{ ...served[0], near: ['gpt-5'] }]);
  const built_in = await makePlan(world.db, [await builtInCatalog()], {
    served: [
      { provider: 'anthropic', model: 'claude-sonnet-5-5-unheard-of' },
      { provider: 'gemini', model: 'gemini-3.8-flash-cyber-unheard-of' },
    ],
    whole: [],
  });
  expect(built_in.rows).toEqual([]);
  expect(built_in.missing.map(({ near }) => near.length > 0)).toEqual([true, true]);
});

test('an entry without amounts confirms nothing, and one with amounts takes its place', async () => {
  const empty = await listing({ m: {} });
  const priced = await listing({ m: usual });
  const served = [{ provider: 'openai', model: 'm' }];
  const plan = await makePlan(world.db, [empty, priced], { served, whole: [] });
  expect(plan.rows[0]).toMatchObject({ confirmed_by: [] });
  expect((await diff(world.db, plan)).rows[0]).toMatchObject({ group: 'new', is_empty: false });
  const other = await listing({ m: { ...usual, cache_creation_input_token_cost: 2e-6 } });
  const more = { ...usual, cache_creation_input_token_cost: 1.25e-6 };
  const doubted = await makePlan(world.db, [await listing({ m: more }), other], {
    served,
    whole: [],
  });
  expect((await diff(world.db, doubted)).rows[0]).toMatchObject({ group: 'asks' });
});

test.each<[string, object, object, boolean]>([
  ['that the first does not list', { input_cost_per_token: 1e-6 }, usual, false],
  ['that is a fee', usual, { ...usual, input_cost_per_request: 0.01 }, false],
  ['of a cache', usual, { ...usual, cache_read_input_token_cost: 1e-7 }, false],
  ['that is charged so anyway', usual, { ...usual, cache_read_input_token_cost: 1e-6 }, true],
  ['that the second does not list', { ...usual, cache_read_input_token_cost: 1e-7 }, usual, true],
])('an amount %s says whether two catalogs agree', async (_, first, second, agrees) => {
  const served = [{ provider: 'openai', model: 'm' }];
  const catalogs = [await listing({ m: first }), await listing({ m: second })];
  const [row] = (await makePlan(world.db, catalogs, { served, whole: [] })).rows;
  expect(row?.confirmed_by).toHaveLength(agrees ? 1 : 0);
  expect(row?.doubts.some((doubt) => doubt.includes('says otherwise'))).toBe(!agrees);
});

test('the long prices of xAI hold from the threshold on, which catalogs name', async () => {
  const plan = await makePlan(world.db, [await litellm()], {
    served: [],
    whole: [{ provider: 'xai' }],
  });
  const starts = plan.rows.flatMap(({ price }) =>
    price.tiers.map((one) => one.above_prompt_tokens),
  );
  expect(starts.length).toBeGreaterThan(40);
  expect(new Set(starts)).toEqual(new Set([199_999]));
  const cost = { input: 3, output: 15, context_over_200k: { input: 6, output: 30 } };
  const models = { m: { id: 'm', cost } };
  const text = JSON.stringify({ xai: { models }, google: { models } });
  const listed = await readCatalog(text, { name: 'made', dated: null });
  const startOf = (seller: string) =>
    listed.of(seller).get('m')?.price.tiers[0]?.above_prompt_tokens;
  expect([startOf('xai'), startOf('gemini')]).toEqual([199_999, 200_000]);
});

test('long prices of OpenAI and xAI that start a token apart are the same', async () => {
  const whole = [{ provider: 'openai' }, { provider: 'xai' }];
  const catalogs = [await builtInCatalog(), await litellm()];
  const { rows } = await makePlan(world.db, catalogs, { served: [], whole });
  const long = rows.filter(({ price }) => price.tiers.length > 0);
  expect(long.filter(({ confirmed_by }) => confirmed_by.length > 0).map(nameOf)).toEqual(
    expect.arrayContaining([
      ...['openai/gpt-5.4', 'openai/gpt-5.5', 'openai/gpt-5.6-sol', 'openai/gpt-6-astra'],
      'xai/grok-4.6',
    ]),
  );
  expect(long.flatMap(({ doubts }) => doubts).filter((one) => one.includes('otherwise'))).toEqual(
    [],
  );
});

test.each<[string, object, RegExp]>([
  [
    'start elsewhere',
    { ...usual, input_cost_per_token_above_128k_tokens: 2e-6 },
    /above 128000: input_per_1m 2$/,
  ],
  [
    'cost otherwise',
    { ...usual, input_cost_per_token_above_200k_tokens: 3e-6 },
    /above 200000: input_per_1m 3$/,
  ],
  ['are not there', usual, /for prompts of any length$/],
])('long prices that %s are told in words', async (_, second, words) => {
  const served = [{ provider: 'openai', model: 'm' }];
  const first = { ...usual, input_cost_per_token_above_200k_tokens: 2e-6 };
  const catalogs = [await listing({ m: first }), await listing({ m: second })];
  const [row] = (await makePlan(world.db, catalogs, { served, whole: [] })).rows;
  expect(row?.doubts).toEqual([expect.stringMatching(words)]);
});

test.each([
  ['vertex', 'gemini-embedding-001'],
  ['bedrock', 'openai.gpt-6-sol'],
])('LiteLLM’s file prices %s/%s', async (provider, model) => {
  const served = [{ provider, model }];
  const plan = await makePlan(world.db, [await litellm()], { served, whole: [] });
  expect(plan.missing).toEqual([]);
  expect(plan.rows[0]?.price.amounts.input_per_1m).toMatch(/^[\d.]+$/);
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
  const plan = await makePlan(world.db, [catalog], { served: [], whole });
  expect(plan.rows.map(({ model }) => model)).toEqual(['m']);
  expect(plan.rows[0]?.doubts[0]).toMatch(/^azure_ai\/m is another entry of this name/);
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

test('of the prices of a day the dearest is taken at each length of prompt', async () => {
  const at = (start_time: string, prices: object) => ({ constraint: { start_time }, prices });
  const of = (base: number, price: number) => ({ base, tiers: [{ start: 200_000, price }] });
  const prices = [
    { prices: { input_mtok: 1, output_mtok: of(9, 9) } },
    at('08:00:00', { input_mtok: of(2, 4), output_mtok: of(5, 20) }),
    at('20:00:00', { input_mtok: 3 }),
  ];
  const file = JSON.stringify([{ id: 'openai', models: [{ id: 'm', prices }] }]);
  const made = await readCatalog(file, { name: 'c', dated: null });
  expect(made.of('openai').get('m')).toMatchObject({
    price: {
      amounts: { input_per_1m: '3', output_per_1m: '9' },
      tiers: [{ above_prompt_tokens: 200_000, input_per_1m: '4', output_per_1m: '20' }],
    },
    doubts: ['its price depends on the time of day; the dearest is taken'],
  });
});

test.each([
  ['1.25', null],
  ['1.2504', 'moves by +25.0 per cent'],
  ['0.5', null],
  ['0.4999', 'moves by -50.0 per cent'],
])('1 that becomes %s asks by the figures, not by how they are shown', (now, words) => {
  const found = leaps([{ amount: 'input_per_1m', was: '1', now, percent: percentOf('1', now) }]);
  expect(found).toEqual(words === null ? [] : [expect.stringContaining(words)]);
});

test('the catalogs of two sources are imported whole, twice, and leave what is by hand', async () => {
  await prices.byHand('gpt-4o', { input_per_1m: 9, output_per_1m: 9 });
  const catalogs = [await builtInCatalog(), await litellm()];
  const sellers = ['openai', 'anthropic', 'gemini', 'azure', 'bedrock', 'mistral', 'xai', 'groq'];
  const whole = sellers.map((provider) => ({ provider }));
  const plan = await makePlan(world.db, catalogs, { served: [], whole });
  expect(plan.rows.length).toBeGreaterThan(1_000);
  const first = await imports.apply(world.db, plan, { ...none, skip_asking: true }, 'a');
  expect(first.prices).toBeGreaterThan(600);
  expect(await prices.priceOf('gpt-4o', 'openai')).toMatchObject({
    input_per_1m: 9,
    source: 'hand',
  });
  const again = await makePlan(world.db, catalogs, { served: [], whole });
  const { rows } = await diff(world.db, again);
  const groups = new Set(rows.map(({ group }) => group));
  expect(groups).toEqual(new Set(['same', 'asks', 'kept']));
  expect(rows.filter(({ group }) => group === 'kept').map(nameOf)).toContain('openai/gpt-4o');
  const second = await imports.apply(world.db, again, { ...none, skip_asking: true }, 'a');
  expect(second.prices).toBe(0);
  const undone = await undo(world.db, first.id, 'a');
  expect(undone.kept).toEqual([]);
  const { count } = await one<{ count: number }>(
    world.db,
    'select count(*)::int as count from model_prices where retired_at is null',
  );
  expect(count).toBe(1);
});

test('the catalog inside is the release that it says', () => {
  const file = require.resolve('@pydantic/genai-prices');
  const { version } = JSON.parse(readFileSync(path.join(file, '../../package.json'), 'utf8'));
  expect(version).toBe(built_in.version);
});
