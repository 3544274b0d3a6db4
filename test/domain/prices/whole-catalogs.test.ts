import { diff } from '../../../domain/prices/diff';
import * as imports from '../../../domain/prices/imports';
import { makePlan, nameOf } from '../../../domain/prices/plan';
import { seller_names } from '../../../domain/prices/sellers';
import { undo } from '../../../domain/prices/undo';
import { builtInCatalog } from '../../../price-catalogs/built-in';
import { litellm, none, openPrices, usual } from './world';

const prices = openPrices();
const { world } = prices;

const entriesOf = (count: number, input_cost_per_token: number) =>
  Object.fromEntries(
    Array.from({ length: count }, (_, at) => [`m${at}`, { ...usual, input_cost_per_token }]),
  );

/** How many statements a plan, its diff and its import take, a change too, and the way back. */
async function statementsFor(count: number): Promise<number> {
  let statements = 0;
  const note = () => {
    statements += 1;
  };
  world.db.on('query', note);
  try {
    const made: string[] = [];
    for (const [input, group] of [
      [1e-6, 'new'],
      [1.1e-6, 'changed'],
    ] as const) {
      const plan = await prices.planOf(entriesOf(count, input));
      expect(plan.rows).toHaveLength(count);
      const { rows } = await diff(world.db, plan);
      expect(rows.filter((row) => row.group === group)).toHaveLength(count);
      const { id, prices: versions } = await imports.apply(world.db, plan, none, 'a');
      expect(versions).toBe(count);
      made.push(id);
    }
    for (const id of made.reverse()) await undo(world.db, id, 'a');
  } finally {
    world.db.removeListener('query', note);
  }
  expect(await prices.priceOf('m0')).toBeUndefined();
  return statements;
}

test('a catalog of 1,700 models takes as many statements as one of 17', async () => {
  const few = await statementsFor(17);
  expect(await statementsFor(1_700)).toBe(few);
});

// Real prices of small embeddings and of one small model, and a figure of Cohere that is a thousand
// times the vendor's. Fireworks' steps of pictures, which stand as tokens, ask by their cache too.
const far_alone = [
  'cohere/embed-multilingual-light-v3.0',
  'perplexity/perplexity/nemotron-3.5-lightning-30b-a3b',
  'perplexity/pplx-embed-context-v1-0.6b',
  'perplexity/pplx-embed-v1-0.6b',
  'together/BAAI/bge-base-en-v1.5',
  'together/together-ai-embedding-up-to-150m',
];

test('of all that LiteLLM lists, little is far from what the catalog inside lists', async () => {
  const whole = seller_names.map((provider) => ({ provider }));
  const wanted = { served: [], whole };
  const plan = await makePlan(world.db, [await litellm()], wanted, {}, [], await builtInCatalog());
  const far = plan.rows.filter(({ doubts }) => doubts.some((one) => one.includes('genai-prices')));
  const { rows } = await diff(world.db, plan);
  const others = new Set(
    rows.filter(({ doubts }) => doubts.some((one) => !one.includes('genai-prices'))).map(nameOf),
  );
  expect(
    far
      .map(nameOf)
      .filter((name) => !others.has(name))
      .sort(),
  ).toEqual(far_alone);
});
