import type { Catalog } from '../../../domain/prices/catalogs/catalog';
import { CatalogError, readCatalog } from '../../../domain/prices/catalogs/read';
import { check } from '../../../domain/prices/check';
import * as imports from '../../../domain/prices/imports';
import { makePlan } from '../../../domain/prices/plan';
import { servedBy } from '../../../domain/prices/served';
import { listing, none, openPrices, usual } from './world';

const prices = openPrices();
const { world } = prices;

const nobody = { served: [], factors: {} };

/** Another catalog than `listing`, with one model of OpenAI. */
function genai(input_mtok: number): Promise<Catalog> {
  const model = { id: 'm', prices: [{ prices: { input_mtok, output_mtok: 4 } }] };
  const text = JSON.stringify([{ id: 'openai', models: [model] }]);
  return readCatalog(text, { name: 'made', dated: null });
}

test('what another catalog says than the one of the import is shown, and is no fault', async () => {
  await imports.apply(world.db, await prices.planOf({ m: usual }), none, 'a');
  const other = await genai(1.2);
  expect(await check(world.db, [other], nobody)).toMatchObject({
    ...{ faults: 0, differs: [] },
    beside: [
      {
        ...{ name: 'openai/m', catalog: 'genai-prices made' },
        changes: [{ amount: 'input_per_1m', was: '1', now: '1.2', percent: '+20.0' }],
      },
    ],
  });
  // Its own catalog is compared with it, wherever it stands among them.
  const dearer = await listing({ m: { ...usual, input_cost_per_token: 1.1e-6 } });
  expect(await check(world.db, [other, dearer], nobody)).toMatchObject({
    ...{ faults: 1, beside: [] },
    differs: [{ name: 'openai/m', catalog: 'litellm made' }],
  });
  const same = await listing({ m: usual });
  expect(await check(world.db, [other, same], nobody)).toMatchObject({ faults: 0, beside: [] });
});

test('a price whose target has another factor by now is a fault, whichever catalog lists it', async () => {
  const catalog = await listing({ m: usual });
  const served = [{ provider: 'openai-eu', model: 'm', seller: 'openai' }];
  const plan = await makePlan(world.db, [catalog], { served, whole: [] }, { 'openai-eu': '1.1' });
  await imports.apply(world.db, plan, none, 'a');
  const now = (factor: string) => ({ served, factors: { 'openai-eu': factor } });
  expect((await check(world.db, [catalog], now('1.1'))).faults).toBe(0);
  const moved = await check(world.db, [catalog], now('1.2'));
  expect(moved).toMatchObject({ faults: 1, differs: [{ name: 'openai-eu/m' }] });
  expect(moved.differs[0]?.doubts).toContain('its factor moves from 1.1 to 1.2');
  const changes = [{ amount: 'price_factor', was: '1.1', now: '1.2', percent: '+9.1' }];
  for (const other of [await genai(1), await listing({ n: usual })])
    expect(await check(world.db, [other], now('1.2'))).toMatchObject({
      ...{ faults: 1, beside: [] },
      differs: [{ name: 'openai-eu/m', catalog: 'litellm made', changes }],
    });
});

test('two factors of one provider are refused, in one configuration and in two', () => {
  const target = (price_factor: number) => ({ provider: 'azure-eu', kind: 'azure', price_factor });
  const config = (...targets: object[]) => ({ providers: { targets } });
  expect(() => servedBy(config(target(1.1), target(1.2)))).toThrow(CatalogError);
  expect(() => servedBy(config(target(1.1)), config(target(1.2)))).toThrow(
    'The provider azure-eu has the factors 1.1 and 1.2.',
  );
  expect(servedBy(config(target(1.1)), config(target(1.1))).factors).toEqual({ 'azure-eu': '1.1' });
});
