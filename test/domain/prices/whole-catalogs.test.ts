import { diff } from '../../../domain/prices/diff';
import * as imports from '../../../domain/prices/imports';
import { undo } from '../../../domain/prices/undo';
import { none, openPrices, usual } from './world';

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
