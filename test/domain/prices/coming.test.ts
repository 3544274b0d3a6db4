import * as pricing from '../../../domain/ledger/pricing';
import { readCatalog } from '../../../domain/prices/catalogs/read';
import { diff } from '../../../domain/prices/diff';
import * as imports from '../../../domain/prices/imports';
import { makePlan } from '../../../domain/prices/plan';
import { undo } from '../../../domain/prices/undo';
import { many } from '../../../domain/sql';
import { none, openPrices, usual } from './world';

const prices = openPrices();
const { world } = prices;

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
    makePlan(world.db, [catalog], { served: [{ provider: 'openai', model: 'm' }], whole: [] });
  await imports.apply(world.db, await plan(), none, 'a');
  const versions = (await pricing.list(world.db)).map(({ input_per_1m, effective_from }) => [
    input_per_1m,
    effective_from.toISOString().slice(0, 10),
  ]);
  expect(versions).toEqual([
    [1, new Date().toISOString().slice(0, 10)],
    [1.1, day],
  ]);
  expect((await diff(world.db, await plan())).rows[0]?.group).toBe('same');
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
  return makePlan(world.db, [await turning(from, now, later)], { served, whole: [] });
}

const cheap = { input_mtok: 1, output_mtok: 2 };

const dear = { input_mtok: 1.2, output_mtok: 2.4 };

test('a plan that is taken after a start day takes the price of that day', async () => {
  const plan = await turningPlan(dayIn(40), cheap, dear);
  plan.rows[0]?.coming.forEach((later) => {
    later.from = dayIn(-1);
  });
  await imports.apply(world.db, plan, none, 'a');
  expect(await prices.priceOf('m')).toMatchObject({ input_per_1m: 1.2, output_per_1m: 2.4 });
  expect(await pricing.list(world.db)).toHaveLength(1);
});

test('a coming price is judged as a present one is, and shown', async () => {
  await imports.apply(world.db, await prices.planOf({ m: usual }), none, 'a');
  const times1000 = { input_mtok: 1_000, output_mtok: 4 };
  const absurd = await turningPlan(dayIn(40), { input_mtok: 1, output_mtok: 4 }, times1000);
  const [row] = (await diff(world.db, absurd)).rows;
  expect(row).toMatchObject({ group: 'asks' });
  expect(row?.coming[0]?.changes).toEqual([
    { amount: 'input_per_1m', was: '1', now: '1000', percent: '+99900.0' },
  ]);
  expect(row?.doubts.join()).toMatch(
    /from \d{4}-\d\d-\d\d: input_per_1m moves by a factor near 1000/,
  );
  const zero = { input_mtok: 0, output_mtok: 0 };
  const empty = await turningPlan(dayIn(40), { input_mtok: 1, output_mtok: 4 }, zero);
  await imports.apply(world.db, empty, { ...none, take: ['openai/m'] }, 'a');
  expect((await pricing.list(world.db)).every(({ input_per_1m }) => input_per_1m > 0)).toBe(true);
});

test('a coming price that a catalog corrects or takes back is planned anew or not at all', async () => {
  await imports.apply(world.db, await turningPlan(dayIn(40), cheap, dear), none, 'a');
  const corrected = { ...dear, input_mtok: 1.1 };
  await imports.apply(world.db, await turningPlan(dayIn(40), cheap, corrected), none, 'a');
  const planned = async () =>
    (await pricing.list(world.db))
      .filter(({ effective_from }) => effective_from > new Date())
      .map(({ input_per_1m }) => input_per_1m);
  expect(await planned()).toEqual([1.1]);
  const plain = { m: { input_cost_per_token: 1e-6, output_cost_per_token: 2e-6 } };
  const [row] = (await diff(world.db, await prices.planOf(plain))).rows;
  expect(row).toMatchObject({ group: 'changed', withdrawn: [dayIn(40)] });
  await imports.apply(world.db, await prices.planOf(plain), none, 'a');
  expect(await planned()).toEqual([]);
});

test('undo brings back the coming prices that the import took back or corrected', async () => {
  const first = await imports.apply(world.db, await turningPlan(dayIn(40), cheap, dear), none, 'a');
  const planned = async () =>
    (await pricing.list(world.db))
      .filter(({ effective_from }) => effective_from > new Date())
      .map(({ input_per_1m }) => input_per_1m);
  const plain = { m: { input_cost_per_token: 1e-6, output_cost_per_token: 2e-6 } };
  for (const plan of [
    await prices.planOf(plain),
    await turningPlan(dayIn(40), cheap, { ...dear, input_mtok: 1.1 }),
  ]) {
    const { id } = await imports.apply(world.db, plan, none, 'a');
    expect(await planned()).not.toEqual([1.2]);
    expect(await undo(world.db, id, 'a')).toEqual({
      ...{ restored: ['openai/m'], removed: [], kept: [] },
    });
    expect(await planned()).toEqual([1.2]);
    expect(await prices.priceOf('m')).toMatchObject({ input_per_1m: 1 });
  }
  expect(await undo(world.db, first.id, 'a')).toMatchObject({ removed: ['openai/m'] });
  expect(await pricing.list(world.db)).toEqual([]);
});

test('an import that a later one has planned upon is undone after that one', async () => {
  await prices.byHand('m', { input_per_1m: 9, output_per_1m: 9 });
  const plain = { m: { input_cost_per_token: 1e-6, output_cost_per_token: 2e-6 } };
  const by_name = { ...none, take: ['openai/m'] };
  const first = await imports.apply(world.db, await prices.planOf(plain), by_name, 'a');
  const later = await imports.apply(world.db, await turningPlan(dayIn(40), cheap, dear), none, 'a');
  await expect(undo(world.db, first.id, 'a')).rejects.toMatchObject({
    code: 'prices_changed',
    message: expect.stringContaining(later.id),
  });
  expect(await prices.priceOf('m')).toMatchObject({ input_per_1m: 1, source: 'import' });
  expect(await undo(world.db, later.id, 'a')).toMatchObject({ restored: ['openai/m'] });
  expect(await undo(world.db, first.id, 'a')).toMatchObject({ restored: ['openai/m'] });
  expect(await prices.priceOf('m')).toMatchObject({ input_per_1m: 9, source: 'hand' });
  const starts = (await pricing.list(world.db)).map(({ effective_from }) => effective_from);
  expect(starts.filter((start) => start > new Date())).toEqual([]);
});

test('an import whose planned price has come into force is undone to the price before it', async () => {
  await imports.apply(world.db, await prices.planOf({ m: usual }), none, 'a');
  const usual_and_dear = await turningPlan(
    dayIn(40),
    { input_mtok: 1, output_mtok: 4 },
    { input_mtok: 1.2, output_mtok: 4 },
  );
  const { id } = await imports.apply(world.db, usual_and_dear, none, 'a');
  await many(
    world.db,
    `update model_prices set effective_from = clock_timestamp()
     where import_id = :id and effective_from > now() returning id`,
    { id },
  );
  expect(await prices.priceOf('m')).toMatchObject({ input_per_1m: 1.2 });
  expect(await undo(world.db, id, 'a')).toMatchObject({ restored: ['openai/m'] });
  expect(await prices.priceOf('m')).toMatchObject({ input_per_1m: 1 });
});

test('a price that a person sets is not replaced later by one that an import has planned', async () => {
  await imports.apply(world.db, await turningPlan(dayIn(40), cheap, dear), none, 'a');
  const { id = '' } = (await prices.priceOf('m')) ?? {};
  await pricing.update(world.db, id, { input_per_1m: 0.6 });
  expect((await pricing.list(world.db)).map(({ input_per_1m }) => input_per_1m)).toEqual([0.6]);
});

test('a version that a person has planned makes a price theirs, and outlives an undo', async () => {
  const { id } = await imports.apply(world.db, await prices.planOf({ m: usual }), none, 'a');
  const { id: price_id = '' } = (await prices.priceOf('m')) ?? {};
  const effective_from = new Date(`${dayIn(30)}T00:00:00Z`);
  await pricing.update(world.db, price_id, { input_per_1m: 9, effective_from });
  const dearer = { m: { ...usual, input_cost_per_token: 1.1e-6 } };
  expect((await prices.rowsOf(dearer)).m).toMatchObject({ group: 'kept' });
  await undo(world.db, id, 'a');
  expect((await pricing.list(world.db)).map(({ input_per_1m }) => input_per_1m)).toEqual([9]);
});

test('a price that only begins later has its one id, and is a person’s', async () => {
  const effective_from = new Date(`${dayIn(30)}T00:00:00Z`);
  const made = await prices.byHand('m', { input_per_1m: 5, effective_from });
  expect((await prices.rowsOf({ m: usual })).m).toMatchObject({ group: 'kept' });
  await imports.apply(
    world.db,
    await prices.planOf({ m: usual }),
    { ...none, take: ['openai/m'] },
    'a',
  );
  const ids = new Set((await pricing.list(world.db)).map(({ id }) => id));
  expect(ids).toEqual(new Set([made.id]));
});
