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
  expect((await prices.rowsOf({ m: { ...usual, ...told } })).m?.doubts).toEqual(asks ? far : []);
});

test('what was far from the others and taken does not ask again', async () => {
  const entries = { m: { ...usual, cache_read_input_token_cost: 1.1e-6 } };
  const plan = await prices.planOf(entries);
  await imports.apply(world.db, plan, { take: ['openai/m'], free: [] }, 'a');
  expect((await prices.rowsOf(entries)).m).toMatchObject({ group: 'same', doubts: [] });
});
