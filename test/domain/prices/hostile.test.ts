import { plan as schema } from '../../../api/answers/prices';
import * as pricing from '../../../domain/ledger/pricing';
import type { Catalog, Listing } from '../../../domain/prices/catalogs/catalog';
import { readCatalog } from '../../../domain/prices/catalogs/read';
import * as imports from '../../../domain/prices/imports';
import { makePlan } from '../../../domain/prices/plan';
import { undo } from '../../../domain/prices/undo';
import { listing, none, openPrices } from './world';

// Files that somebody made to be read wrongly.

const prices = openPrices();
const { world } = prices;
const facts = { name: 'made', dated: null };
const borrowed = ['constructor', 'toString', '__proto__', 'valueOf'];

async function planOf(catalog: Catalog, provider: string, factors: Record<string, string> = {}) {
  const plan = await makePlan(world.db, [catalog], { served: [], whole: [{ provider }] }, factors);
  const read = schema.safeParse(JSON.parse(JSON.stringify(plan)));
  expect(read.error?.issues ?? []).toEqual([]);
  return plan;
}

test.each([
  ['openai', (figures: string) => `[{"id":"openai","models":[{"id":"m","prices":{${figures}}}]}]`],
  ['openrouter', (figures: string) => `{"data":[{"id":"m","pricing":{${figures}}}]}`],
  ['openai', (figures: string) => `{"openai":{"models":{"m":{"cost":{${figures}}}}}}`],
  ['openai', (figures: string) => `{"m":{"litellm_provider":"openai",${figures}}}`],
])('names of every object are no amounts, in the format of %s %#', async (provider, write) => {
  const figures = borrowed.map((name) => `"${name}":1`).join(',');
  const catalog = await readCatalog(write(figures), facts);
  const { rows } = await planOf(catalog, provider);
  expect(rows.map(({ model, price }) => ({ model, amounts: price.amounts }))).toEqual([
    { model: 'm', amounts: {} },
  ]);
});

test('entries called like members of every object are models like any other', async () => {
  const entry = '{"litellm_provider":"openai","input_cost_per_token":1e-6}';
  const text = `{${borrowed.map((name) => `"${name}":${entry}`).join(',')}}`;
  const { rows } = await planOf(await readCatalog(text, facts), 'openai');
  expect(rows.map(({ model }) => model)).toEqual(borrowed);
});

const figure = async (value: string): Promise<Listing | undefined> => {
  const text = `{"m":{"litellm_provider":"openai","input_cost_per_token":${value},"output_cost_per_token":2e-6}}`;
  return (await readCatalog(text, facts)).of('openai').get('m');
};

test.each([
  ['1e-7', '0.1'],
  ['"1e-7"', '0.1'],
  ['" 0.0000001 "', '0.1'],
  ['-0', '0'],
  ['0.00000012345', '0.12345'],
  ['1E-6', '1'],
])('%s a token is %s a million', async (value, amount) => {
  const found = await figure(value);
  expect(found?.price.amounts.input_per_1m).toBe(amount);
  expect(found?.doubts).toEqual([]);
});

test.each(['1e400', '-1e-6', '"NaN"', '"Infinity"', 'true', '[1]', '{}', '"0x1"', '"1,5"', '""'])(
  '%s is no amount, and asks',
  async (value) => {
    const found = await figure(value);
    expect(found?.price.amounts.input_per_1m).toBeUndefined();
    expect(found?.doubts.join()).toMatch(/input_cost_per_token is no amount/);
  },
);

test('a value that is nested too deeply to be shown asks like any other', async () => {
  const found = await figure(`${'['.repeat(100_000)}${']'.repeat(100_000)}`);
  expect(found?.doubts.join()).toMatch(/is no amount: (more than can be shown|\[{99})/);
  expect(found?.price.amounts.input_per_1m).toBeUndefined();
});

test('what is no JSON is told in words', async () => {
  await expect(figure('NaN')).rejects.toThrow(/made is no JSON/);
});

test('an amount that a factor makes too long is rounded to what a price can say', async () => {
  // Four cents an hour, by minutes: a period of sixes.
  const file = [{ id: 'groq', models: [{ id: 'whisper', prices: { input_audio_hours: 0.04 } }] }];
  const catalog = await readCatalog(JSON.stringify(file), facts);
  const { rows } = await planOf(catalog, 'groq', { groq: '1.1' });
  expect(rows[0]?.price.amounts.per_minute).toBe('0.000733333334');
});

test('a model whose name no row can hold is left out of a plan', async () => {
  const entry = { input_cost_per_token: 1e-6, output_cost_per_token: 1e-6 };
  const names = ['x'.repeat(300), 'a*b', 'nul\u0000', '\ud800', '', 'ok'];
  const catalog = await listing(Object.fromEntries(names.map((name) => [name, entry])));
  const plan = await planOf(catalog, 'openai');
  expect(plan.rows.map(({ model }) => model)).toEqual(['ok']);
  await imports.apply(world.db, plan, none, 'a');
  expect(await prices.priceOf('ok')).toMatchObject({ input_per_1m: 1 });
});

test('prices change beside a taking and a way back, and none is lost or doubled', async () => {
  const entry = { input_cost_per_token: 1e-6, output_cost_per_token: 1e-6 };
  const held = await prices.byHand('m', { input_per_1m: 1, output_per_1m: 1 });
  for (let round = 0; round < 5; round += 1) {
    const dearer = { ...entry, input_cost_per_token: (round + 2) * 1e-6 };
    const plan = await prices.planOf({ m: dearer, [`n${round}`]: entry });
    const [taken, edited] = await Promise.allSettled([
      imports.apply(world.db, plan, { ...none, take: ['openai/m'] }, 'a'),
      pricing.update(world.db, held.id, { output_per_1m: 10 + round }),
      imports.apply(world.db, plan, { ...none, take: ['openai/m'] }, 'b'),
    ]);
    expect(edited.status).toBe('fulfilled');
    const id = taken.status === 'fulfilled' ? taken.value.id : undefined;
    // A person who came after it is the one who is heard; before it, the plan is refused.
    expect(await prices.priceOf('m')).toMatchObject({ source: 'hand', output_per_1m: 10 + round });
    if (id === undefined) continue;
    const again = await Promise.allSettled([
      undo(world.db, id, 'a'),
      undo(world.db, id, 'b'),
      pricing.update(world.db, held.id, { output_per_1m: 20 + round }),
    ]);
    expect(again.filter(({ status }) => status === 'fulfilled')).toHaveLength(2);
    expect(await prices.priceOf('m')).toMatchObject({ source: 'hand', output_per_1m: 20 + round });
    expect(await prices.priceOf(`n${round}`)).toBeUndefined();
  }
});
