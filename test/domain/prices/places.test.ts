import { readCatalog } from '../../../domain/prices/catalogs/read';
import { check } from '../../../domain/prices/check';
import { diff } from '../../../domain/prices/diff';
import { servedIn } from '../../../domain/prices/factors';
import * as imports from '../../../domain/prices/imports';
import { makePlan } from '../../../domain/prices/plan';
import { atPlaces, servedBy } from '../../../domain/prices/served';
import { builtInCatalog } from '../../../price-catalogs/built-in';
import { listing, openPrices, usual } from './world';

// What a list does not say of where a model is served, of a least length, and of a factor.

const prices = openPrices();
const { world } = prices;

const vertex = (location: string, more: object = {}) => ({
  ...{
    id: location,
    kind: 'vertex',
    shape: 'anthropic',
    project: 'acme-1',
    location,
    models: ['m'],
  },
  ...more,
});
const config = (...targets: object[]) => ({ providers: { targets } });
const claude = { ...usual, litellm_provider: 'vertex_ai-anthropic_models' };

/** What is found of the model, whether it is asked for by name or with all of its seller. */
async function rowOf(entry: object, ...targets: object[]) {
  const file = JSON.stringify({
    'vertex_ai/m': entry,
    m: { ...entry, litellm_provider: 'openai' },
  });
  const catalog = await readCatalog(file, { name: 'made', dated: null });
  const { served, factors } = servedBy(config(...targets));
  const sellers = [...new Map(served.map(({ provider, seller }) => [provider, seller]))];
  const whole = atPlaces(
    sellers.map(([provider, seller]) => ({ provider, seller })),
    served,
  );
  const rowWith = async (wanted: Parameters<typeof makePlan>[2]) => {
    const plan = await makePlan(world.db, [catalog], wanted, factors, []);
    return (await diff(world.db, plan)).rows.find(({ model }) => model === 'm');
  };
  const row = await rowWith({ served, whole: [] });
  expect(await rowWith({ served: [], whole })).toEqual(row);
  return row;
}

const dearer = { ...claude, regional_endpoint_uplift_multiplier: 1.1 };
const uplifted = (place: string) => [
  expect.stringMatching(new RegExp(`served at ${place}, where litellm made says a factor of 1.1`)),
];

test.each<[string, object, object[], unknown[]]>([
  ['a region', dearer, [vertex('europe-west4')], uplifted('europe-west4')],
  ['several regions', dearer, [vertex('eu')], uplifted('eu')],
  ['everywhere', dearer, [vertex('global')], []],
  ['both', dearer, [vertex('global'), vertex('us-east5')], uplifted('us-east5')],
  ['a region at the list’s price', claude, [vertex('europe-west4')], []],
  ['a region with a factor', dearer, [vertex('europe-west4', { price_factor: 1.1 })], []],
])('a model that is served in %s', async (_, entry, targets, doubts) => {
  const row = await rowOf(entry, ...targets);
  expect(row?.doubts).toEqual(doubts);
  expect(row?.group).toBe(doubts.length > 0 ? 'asks' : 'new');
});

test.each([
  ['https://eu.api.openai.com/v1', uplifted('eu')],
  ['https://api.openai.com/v1', []],
  ['https://eu.api.openai.com.example/v1', []],
])('OpenAI at %s', async (base_url, doubts) => {
  const entry = { ...usual, regional_processing_uplift_multiplier_eu: 1.1 };
  const row = await rowOf(entry, { id: 'o', kind: 'openai', base_url, models: ['m'] });
  expect(row?.doubts).toEqual(doubts);
});

test.each([
  ['a list that is dearer there by now', claude, dearer, ['europe-west4']],
  ['a dearer place beside the one before', dearer, dearer, ['global', 'europe-west4']],
])('an import and a check ask once about %s', async (_, before, after, places) => {
  const catalogOf = (entry: object) =>
    readCatalog(JSON.stringify({ 'vertex_ai/m': entry }), { name: 'made', dated: null });
  const first = servedBy(config(vertex(places[0] as string)));
  const planOf = async (entry: object, { served, factors }: typeof first) =>
    makePlan(world.db, [await catalogOf(entry)], { served, whole: [] }, factors, []);
  await imports.apply(world.db, await planOf(before, first), { take: [], free: [] }, 'a');
  expect((await check(world.db, [await catalogOf(before)], first)).faults).toBe(0);
  const now = servedBy(config(...places.map((place) => vertex(place))));
  const changes = [{ amount: 'factor at europe-west4', was: null, now: '1.1', percent: '+10.0' }];
  const doubts = uplifted('europe-west4');
  const plan = await planOf(after, now);
  expect((await diff(world.db, plan)).rows).toMatchObject([{ group: 'asks', changes, doubts }]);
  const found = await check(world.db, [await catalogOf(after)], now);
  expect(found).toMatchObject({ faults: 1, differs: [{ name: 'vertex/m', changes, doubts }] });
  await imports.apply(world.db, plan, { take: ['vertex/m'], free: [] }, 'a');
  const taken = await planOf(after, now);
  expect((await diff(world.db, taken)).rows).toMatchObject([{ group: 'same' }]);
  expect((await check(world.db, [await catalogOf(after)], now)).faults).toBe(0);
  // A factor decides, and another one of the list is told again.
  const decided = servedBy(config(vertex('europe-west4', { price_factor: 1.1 })));
  expect((await diff(world.db, await planOf(after, decided))).rows[0]?.doubts).toEqual([
    'its factor moves from 1 to 1.1',
  ]);
  const more = { ...claude, regional_endpoint_uplift_multiplier: 1.2 };
  expect((await diff(world.db, await planOf(more, now))).rows[0]?.changes).toEqual([
    { amount: 'factor at europe-west4', was: '1.1', now: '1.2', percent: '+9.1' },
  ]);
});

test('a catalog that says nothing of places asks where some cost more', async () => {
  const targets = [{ ...vertex('europe-west4'), models: ['gemini-2.5-pro'] }];
  const { served } = servedBy(config(...targets));
  const plan = await makePlan(world.db, [await builtInCatalog()], { served, whole: [] });
  expect(plan.rows[0]?.doubts).toEqual([expect.stringContaining('vertex may ask more')]);
});

test('a sound at Groq is paid for ten seconds at least, whatever its factor', async () => {
  const served = [{ provider: 'groq', model: 'whisper-large-v3' }];
  const wanted = { served, whole: [] };
  const catalog = await builtInCatalog();
  const plan = await makePlan(world.db, [catalog], wanted, { groq: '2' });
  expect(plan.rows[0]?.price.amounts).toMatchObject({ minimum_seconds: '10' });
  const take = plan.rows.map(({ provider, model }) => `${provider}/${model}`);
  await imports.apply(world.db, plan, { take, free: [] }, 'a');
  expect(await prices.priceOf('whisper-large-v3')).toMatchObject({ minimum_seconds: 10 });
  const again = await diff(world.db, await makePlan(world.db, [catalog], wanted));
  expect(again.rows[0]?.group).toBe('same');
});

test('a factor that its targets no longer say is 1; one that an import was told stays', async () => {
  const catalog = await listing({ m: usual });
  const target = { id: 'a', kind: 'openai', provider: 'openai-eu', models: ['m'] };
  const at = (price_factor?: number) => servedIn(world.db, config({ ...target, price_factor }));
  const importBy = async (found: Awaited<ReturnType<typeof at>>, told: Record<string, string>) => {
    const factors = { ...found.factors, ...told };
    const wanted = { served: found.served, whole: [] };
    const plan = await makePlan(world.db, [catalog], wanted, factors, Object.keys(told));
    const take = ['openai-eu/m'];
    return imports.apply(world.db, plan, { take, free: [] }, 'a');
  };
  await importBy(await at(1.1), {});
  expect((await check(world.db, [catalog], await at(1.1))).faults).toBe(0);
  const moved = await check(world.db, [catalog], await at());
  expect(moved).toMatchObject({ faults: 1, differs: [{ name: 'openai-eu/m' }] });
  expect(moved.differs[0]?.doubts).toContain('its factor moves from 1.1 to 1');
  // A configuration that does not name the provider says nothing of it.
  expect((await check(world.db, [catalog], await servedIn(world.db, {}))).faults).toBe(0);
  await importBy(await at(), {});
  expect(await prices.priceOf('m')).toMatchObject({ input_per_1m: 1 });
  await importBy(await at(), { 'openai-eu': '1.2' });
  for (const [input_cost_per_token, input_per_1m] of [
    [2e-6, '2.4'],
    [3e-6, '3.6'],
  ] as const) {
    expect((await check(world.db, [catalog], await at())).faults).toBe(0);
    const news = await listing({ m: { ...usual, input_cost_per_token } });
    const { served, factors } = await at();
    const plan = await makePlan(world.db, [news], { served, whole: [] }, factors, []);
    expect(plan.rows[0]).toMatchObject({
      factor: '1.2',
      price: { amounts: { input_per_1m } },
    });
    await importBy(await at(), {});
  }
  // What was told goes with its prices: since then the targets have said the factor.
  await importBy(await at(1.1), {});
  expect(await at()).toMatchObject({ factors: { 'openai-eu': '1' } });
});
