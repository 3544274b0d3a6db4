import type { DiffRow } from '../../../domain/prices/diff';
import * as imports from '../../../domain/prices/imports';
import { none, openPrices, usual } from './world';

// Slips of units in what a catalog lists for the first time.

const prices = openPrices();
const { world } = prices;

const far = [expect.stringMatching(/is new, and far from what models cost/)];
const searches = (search_context_size_medium: number) => ({
  search_context_cost_per_query: { search_context_size_medium },
});

/** What is listed beside 1 and 4 USD per million, and whether it asks. */
const figures: [object, boolean][] = [
  [{ cache_read_input_token_cost: 1e-7 }, false],
  [{ cache_read_input_token_cost: 1e-6 }, false],
  [{ cache_read_input_token_cost: 1.1e-6 }, true],
  [{ cache_read_input_token_cost: 1e-4 }, true],
  [{ cache_read_input_token_cost: 1e-10 }, true],
  [{ cache_creation_input_token_cost: 1.25e-6 }, false],
  [{ cache_creation_input_token_cost: 1.25e-3 }, true],
  [{ cache_creation_input_token_cost_above_1hr: 2e-6 }, false],
  [{ cache_creation_input_token_cost_above_1hr: 2e-9 }, true],
  [{ input_cost_per_audio_token: 6e-5 }, false],
  [{ input_cost_per_audio_token: 6e-3 }, true],
  [{ output_cost_per_image_token: 4e-5 }, false],
  [{ output_cost_per_image_token: 1e-3 }, true],
  [{ input_cost_per_token_above_200k_tokens: 2e-6 }, false],
  [{ input_cost_per_token_above_200k_tokens: 2e-3 }, true],
  [{ input_cost_per_token_priority: 2e-6, output_cost_per_token_priority: 8e-6 }, false],
  [{ input_cost_per_token_priority: 2e-6, output_cost_per_token_priority: 8e-3 }, true],
  [searches(0.01), false],
  [searches(10), true],
  [searches(0.00001), true],
  [{ code_interpreter_cost_per_session: 0.03 }, false],
  [{ code_interpreter_cost_per_session: 30 }, true],
];

test.each(figures)('of a new price %j asks: %s', async (told, asks) => {
  const row = (await prices.rowsOf({ m: { ...usual, ...told } })).m;
  expect(row?.doubts).toEqual(asks ? far : []);
  expect(row?.group).toBe(asks ? 'asks' : 'new');
});

test.each(figures)(
  'of a price that is there already, %j that is new asks: %s',
  async (told, asks) => {
    await imports.apply(world.db, await prices.planOf({ m: usual }), none, 'a');
    const row = (await prices.rowsOf({ m: { ...usual, ...told } })).m;
    expect(row?.doubts).toEqual(asks ? far : []);
    expect(row?.group).toBe(asks ? 'asks' : 'changed');
  },
);

test.each<[object, boolean]>([
  [{ output_cost_per_token: 20e-6 }, false],
  [{ output_cost_per_token: 4e-3 }, true],
  [{ output_cost_per_token: 4e-9 }, true],
  [{ input_cost_per_token: 1e-9 }, true],
  [{ input_cost_per_token: 1e-3 }, true],
])('one side of a new price that is a thousand times off (%j) asks: %s', async (told, asks) => {
  const { doubts } = (await prices.rowsOf({ m: { ...usual, ...told } })).m as DiffRow;
  expect(doubts).toEqual(asks ? expect.arrayContaining(far) : []);
});

test('what was far from the others and taken does not ask again', async () => {
  const entries = { m: { ...usual, cache_read_input_token_cost: 1.1e-6 } };
  const plan = await prices.planOf(entries);
  await imports.apply(world.db, plan, { take: ['openai/m'], free: [] }, 'a');
  expect((await prices.rowsOf(entries)).m).toMatchObject({ group: 'same', doubts: [] });
});

test.each<[slip: number, asks: boolean]>([
  [1, false],
  [1e3, true],
  [1e-3, true],
  [1e6, true],
  [1e-6, true],
])(
  'a new model whose figures are all %d times what they should be asks: %s',
  async (slip, asks) => {
    const entry = { input_cost_per_token: 2.5e-6 * slip, output_cost_per_token: 10e-6 * slip };
    expect((await prices.rowsOf({ m: entry })).m?.group).toBe(asks ? 'asks' : 'new');
  },
);

test.each<[string, input: number, words: RegExp | undefined]>([
  ['gpt-4.1-nano', 1e-7, undefined],
  ['gpt-4.1-nano', 1e-5, /is more than 10 times what genai-prices lists for this model \(0\.1\)/],
  ['gpt-4-32k', 1e-6, /is less than a 10th of what genai-prices lists for this model \(60\)/],
])('a new price of %s asks by what the catalog inside knows of it', async (model, input, words) => {
  const entry = { input_cost_per_token: input, output_cost_per_token: 4 * input };
  const row = (await prices.rowsOf({ [model]: entry }))[model];
  if (words === undefined) expect(row).toMatchObject({ group: 'new', doubts: [] });
  else expect(row?.doubts[0]).toMatch(words);
});

test('a price that is there is compared with itself, whatever others cost', async () => {
  const entry = { input_cost_per_token: 2.5e-3, output_cost_per_token: 1e-2 };
  const plan = await prices.planOf({ m: entry });
  await imports.apply(world.db, plan, { take: ['openai/m'], free: [] }, 'a');
  const dearer = { ...entry, input_cost_per_token: 2.6e-3 };
  expect((await prices.rowsOf({ m: dearer })).m).toMatchObject({ group: 'changed', doubts: [] });
});
