import * as pricing from '../../../domain/ledger/pricing';
import { readCatalog } from '../../../domain/prices/catalogs/read';
import { check } from '../../../domain/prices/check';
import { diff } from '../../../domain/prices/diff';
import * as imports from '../../../domain/prices/imports';
import { makePlan } from '../../../domain/prices/plan';
import { undo } from '../../../domain/prices/undo';
import { many } from '../../../domain/sql';
import { listing, none, openPrices, usual } from './world';

const prices = openPrices();
const { world } = prices;

test('a price is imported with its source, changed by the next plan, and undone twice over', async () => {
  const entry = { input_cost_per_token: 3e-7, output_cost_per_token: 1.2e-6, max_output_tokens: 9 };
  const first = await imports.apply(world.db, await prices.planOf({ m: entry }), none, 'a');
  expect(first).toMatchObject({ prices: 1, actor: 'a', undone_at: null });
  expect(await prices.priceOf('m')).toMatchObject({
    ...{ input_per_1m: 0.3, output_per_1m: 1.2, max_output_tokens: 9 },
    ...{ source: 'import', import_id: first.id, catalog: 'litellm made' },
  });
  const dearer = await prices.planOf({ m: { ...entry, input_cost_per_token: 3.3e-7 } });
  const second = await imports.apply(world.db, dearer, none, 'b');
  expect((await prices.priceOf('m'))?.input_per_1m).toBe(0.33);
  expect(await undo(world.db, second.id, 'c')).toEqual({
    ...{ restored: ['openai/m'], removed: [], kept: [] },
  });
  expect(await prices.priceOf('m')).toMatchObject({ input_per_1m: 0.3, source: 'import' });
  await expect(undo(world.db, second.id, 'c')).rejects.toMatchObject({ code: 'import_undone' });
  // What is back is the first import's own again, and can be undone too.
  expect(await undo(world.db, first.id, 'c')).toMatchObject({ removed: ['openai/m'] });
  expect(await prices.priceOf('m')).toBeUndefined();
});

test('an import that another one stands on is undone after that one', async () => {
  const first = await imports.apply(
    world.db,
    await prices.planOf({ m: usual, n: usual }),
    none,
    'a',
  );
  const dearer = { m: { ...usual, input_cost_per_token: 1.1e-6 } };
  const second = await imports.apply(world.db, await prices.planOf(dearer), none, 'a');
  await expect(undo(world.db, first.id, 'a')).rejects.toMatchObject({
    ...{ code: 'prices_changed', details: { extra: { changed: ['openai/m'] } } },
  });
  await undo(world.db, second.id, 'a');
  expect((await undo(world.db, first.id, 'a')).removed).toEqual(['openai/m', 'openai/n']);
});

test('the undoing of an import of new prices leaves none', async () => {
  const plan = await prices.planOf({
    m: { input_cost_per_token: 1e-6, output_cost_per_token: 1e-6 },
  });
  const { id } = await imports.apply(world.db, plan, none, 'a');
  expect(await undo(world.db, id, 'a')).toMatchObject({ removed: ['openai/m'] });
  expect(await prices.priceOf('m')).toBeUndefined();
});

test('a price by hand is kept and listed; taken by name; kept again once a person edits it', async () => {
  const made = await prices.byHand('m', { input_per_1m: 1, output_per_1m: 2 });
  const entries = { m: { input_cost_per_token: 2e-6, output_cost_per_token: 2e-6 } };
  const { m } = await prices.rowsOf(entries);
  expect(m).toMatchObject({ group: 'kept' });
  expect(m?.changes).toEqual([{ amount: 'input_per_1m', was: '1', now: '2', percent: '+100.0' }]);
  await imports.apply(world.db, await prices.planOf(entries), none, 'a');
  expect(await prices.priceOf('m')).toMatchObject({ input_per_1m: 1, source: 'hand' });
  await imports.apply(world.db, await prices.planOf(entries), { ...none, take: ['openai/m'] }, 'a');
  expect(await prices.priceOf('m')).toMatchObject({
    input_per_1m: 2,
    source: 'import',
    id: made.id,
  });
  await pricing.update(world.db, made.id, { input_per_1m: 3 });
  expect(await prices.priceOf('m')).toMatchObject({ source: 'hand' });
  expect((await prices.rowsOf(entries)).m).toMatchObject({ group: 'kept' });
  await pricing.update(world.db, made.id, { source: 'import' });
  expect(await prices.priceOf('m')).toMatchObject({ import_id: expect.stringMatching(/^pimp_/) });
  expect((await prices.rowsOf(entries)).m).toMatchObject({ group: 'changed' });
  const versions = await many(world.db, 'select 1 from model_prices where id = :id', {
    id: made.id,
  });
  expect(versions).toHaveLength(4);
});

test('a pattern by hand is not undercut by an exact row of an import', async () => {
  await prices.byHand('gpt-9*', { input_per_1m: 1, output_per_1m: 2 });
  const entries = { 'gpt-9-mini': { input_cost_per_token: 5e-7, output_cost_per_token: 1e-6 } };
  expect((await prices.rowsOf(entries))['gpt-9-mini']).toMatchObject({ group: 'kept' });
});

test('a plan of yesterday is refused whole once one of its prices has changed', async () => {
  const entries = {
    m: { input_cost_per_token: 1e-6, output_cost_per_token: 1e-6 },
    n: { input_cost_per_token: 1e-6, output_cost_per_token: 1e-6 },
  };
  const plan = await prices.planOf(entries);
  await prices.byHand('n', { input_per_1m: 7 });
  await expect(imports.apply(world.db, plan, none, 'a')).rejects.toMatchObject({
    ...{ code: 'prices_changed', status: 409 },
    details: { extra: { changed: ['openai/n'] } },
  });
  expect(await prices.priceOf('m')).toBeUndefined();
});

test('of two takings of one plan at once one is refused', async () => {
  const plan = await prices.planOf({
    m: { input_cost_per_token: 1e-6, output_cost_per_token: 1e-6 },
  });
  const both = await Promise.allSettled([1, 2].map(() => imports.apply(world.db, plan, none, 'a')));
  expect(both.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected']);
});

const cached = { ...usual, cache_read_input_token_cost: 1e-7 };

const tiered = { ...usual, input_cost_per_token_above_200k_tokens: 2e-6 };

test.each<[string, Record<string, number>, Record<string, number>, RegExp]>([
  ['zero', usual, { input_cost_per_token: 0, output_cost_per_token: 0 }, /4 to 0|1 to 0/],
  ['a thousandfold', usual, { ...usual, input_cost_per_token: 1e-3 }, /factor near 1000/],
  ['a thousandth', usual, { ...usual, input_cost_per_token: 1e-9 }, /factor near 1000/],
  ['a tenth', usual, { ...usual, output_cost_per_token: 4e-7 }, /factor near 10:/],
  ['a third more', usual, { ...usual, input_cost_per_token: 1.34e-6 }, /\+34\.0 per cent/],
  ['less than half', usual, { ...usual, output_cost_per_token: 1.9e-6 }, /-52\.5 per cent/],
  ['no cached price', cached, usual, /cached_input_per_1m \(0\.1\) is no longer listed/],
  ['no tier', tiered, usual, /above 200000: input_per_1m \(2\) is no longer listed/],
])('a catalog that says %s asks, and changes nothing unasked', async (_, was, now, why) => {
  await imports.apply(world.db, await prices.planOf({ m: was }), none, 'a');
  const before = await prices.priceOf('m');
  const { m } = await prices.rowsOf({ m: now });
  expect(m?.group).toBe('asks');
  expect(m?.doubts.join('\n')).toMatch(why);
  await expect(
    imports.apply(world.db, await prices.planOf({ m: now }), none, 'a'),
  ).rejects.toMatchObject({
    ...{ code: 'import_asks', details: { extra: { asks: ['openai/m'] } } },
  });
  await imports.apply(
    world.db,
    await prices.planOf({ m: now }),
    { ...none, skip_asking: true },
    'a',
  );
  expect(await prices.priceOf('m')).toEqual(before);
});

test('a model without an amount is free only if somebody says so', async () => {
  const plan = await prices.planOf({
    local: { input_cost_per_token: 0, output_cost_per_token: 0 },
  });
  await expect(
    imports.apply(world.db, plan, { ...none, take: ['openai/local'] }, 'a'),
  ).rejects.toMatchObject({ code: 'invalid_field', details: { param: 'free' } });
  await imports.apply(world.db, plan, { ...none, free: ['openai/local'] }, 'a');
  expect(await prices.priceOf('local')).toMatchObject({ free: true });
  const priced = await prices.planOf({ m: usual });
  await expect(
    imports.apply(world.db, priced, { ...none, free: ['openai/m'] }, 'a'),
  ).rejects.toMatchObject({ code: 'invalid_field' });
});

test('a factor is on every amount, exactly, and its provider is priced as its seller', async () => {
  const catalog = await readCatalog(
    JSON.stringify({
      'azure/gpt-5.4': {
        ...{
          litellm_provider: 'azure',
          input_cost_per_token: 2.5e-6,
          output_cost_per_token: 1.5e-5,
        },
        ...{ input_cost_per_token_above_272k_tokens: 5e-6, input_cost_per_token_priority: 5e-6 },
      },
    }),
    { name: 'made', dated: null },
  );
  const served = [{ provider: 'azure-eu', model: 'gpt-5.4', seller: 'azure' }];
  const plan = await makePlan(world.db, [catalog], { served, whole: [] }, { 'azure-eu': '1.1' });
  await imports.apply(world.db, plan, none, 'a');
  expect(await prices.priceOf('gpt-5.4')).toMatchObject({
    ...{ provider: 'azure-eu', input_per_1m: 2.75, output_per_1m: 16.5 },
    tiers: [{ above_prompt_tokens: 272_000, input_per_1m: 5.5 }],
    service_tiers: { priority: { input_per_1m: 5.5 } },
  });
});

test('a taken price keeps what no catalog says: regions, factors, containers, a least charge', async () => {
  await prices.byHand('m', {
    ...{ input_per_1m: 1, output_per_1m: 4, per_container: 0.03, minimum: 0.001 },
    ...{ regions: { eu: 1.1 }, service_tiers: { priority: 2 }, max_output_tokens: 77 },
  });
  const entries = { m: { ...usual, input_cost_per_token: 1.2e-6 } };
  await imports.apply(world.db, await prices.planOf(entries), { ...none, take: ['openai/m'] }, 'a');
  expect(await prices.priceOf('m')).toMatchObject({
    ...{ input_per_1m: 1.2, per_container: 0.03, minimum: 0.001, source: 'import' },
    ...{ regions: { eu: 1.1 }, service_tiers: { priority: 2 }, max_output_tokens: 77 },
  });
});

test('a price that moves asks about the tiers and regions of it that are not listed any more', async () => {
  const priority = { input_cost_per_token_priority: 2e-6, output_cost_per_token_priority: 8e-6 };
  await imports.apply(world.db, await prices.planOf({ m: { ...usual, ...priority } }), none, 'a');
  const dearer = { ...usual, input_cost_per_token: 1.2e-6 };
  const doubts = async (entry: object) => (await prices.rowsOf({ m: entry })).m?.doubts;
  expect(await doubts(usual)).toEqual([]);
  expect(await doubts(dearer)).toEqual([
    'tiers of service (priority) are not listed, and stay as they are',
  ]);
  expect(await doubts({ ...dearer, ...priority, input_cost_per_token_priority: 2.4e-6 })).toEqual(
    [],
  );
  // The tier says nothing of a search.
  const search = { search_context_cost_per_query: { search_context_size_low: 0.01 } };
  expect(await doubts({ ...usual, ...search })).toEqual([]);
  const regions = { eu: { input_per_1m: 1.1 }, us: 1.1 };
  await many(world.db, 'update model_prices set regions = :regions returning id', {
    regions: JSON.stringify(regions),
  });
  expect(await doubts(dearer)).toContain(
    'prices of regions (eu) are not listed, and stay as they are',
  );
  expect((await prices.rowsOf({ m: dearer })).m?.group).toBe('asks');
});

test('a factor and a seller hold for the next import and for checks; losing the factor asks', async () => {
  const catalog = await listing({ m: usual });
  const served = [{ provider: 'openai-eu', model: 'm', seller: 'openai' }];
  const first = await makePlan(world.db, [catalog], { served, whole: [] }, { 'openai-eu': '1.1' });
  await imports.apply(world.db, first, none, 'a');
  expect((await check(world.db, [catalog], { served: [], factors: {} })).faults).toBe(0);
  const whole = [{ provider: 'openai-eu' }];
  const again = await makePlan(world.db, [catalog], { served: [], whole });
  expect((await diff(world.db, again)).rows[0]?.group).toBe('same');
  const without = await makePlan(world.db, [catalog], { served, whole: [] }, { 'openai-eu': '1' });
  const [row] = (await diff(world.db, without)).rows;
  expect(row).toMatchObject({ group: 'asks' });
  expect(row?.doubts).toContain('its factor moves from 1.1 to 1');
});

test('what a price has no place for is never free', async () => {
  const plan = await prices.planOf({ pictures: { output_cost_per_image: 0.06 } });
  expect((await diff(world.db, plan)).rows[0]).toMatchObject({
    is_empty: true,
    may_be_free: false,
  });
  for (const consent of [
    { ...none, free: ['openai/pictures'] },
    { ...none, take: ['openai/pictures'] },
  ])
    await expect(imports.apply(world.db, plan, consent, 'a')).rejects.toMatchObject({
      code: 'invalid_field',
    });
});

test.each([
  ['a fee that appears', { ...usual, input_cost_per_request: 5 }, /per_request \(5\) is new/],
  ['tokens and minutes', { ...usual, input_cost_per_second: 1e-4 }, /both be charged/],
  ['a fee that no call has', { ...usual, input_cost_per_request: 400 }, /per_request is 400 USD/],
])('%s asks', async (_, entry, why) => {
  await imports.apply(world.db, await prices.planOf({ m: usual }), none, 'a');
  const { m } = await prices.rowsOf({ m: entry });
  expect(m?.group).toBe('asks');
  expect(m?.doubts.join('; ')).toMatch(why);
});

test('a price that was to begin later is no price before: undo gives none back', async () => {
  const later = new Date(Date.now() + 30 * 86_400_000);
  await prices.byHand('m', { input_per_1m: 5, effective_from: later } as never);
  const { id } = await imports.apply(
    world.db,
    await prices.planOf({ m: usual }),
    { ...none, take: ['openai/m'] },
    'a',
  );
  expect(await prices.priceOf('m')).toMatchObject({ input_per_1m: 1 });
  expect(await undo(world.db, id, 'a')).toEqual({
    ...{ restored: [], kept: [], removed: ['openai/m'] },
  });
  expect(await prices.priceOf('m')).toBe(undefined);
  const versions = await many(
    world.db,
    'select effective_from from model_prices where retired_at is null',
  );
  expect(versions).toEqual([{ effective_from: later }]);
});

test('a check names served models without a price, and imported prices that a catalog has moved', async () => {
  await imports.apply(world.db, await prices.planOf({ m: usual, n: usual }), none, 'a');
  await prices.byHand('h', { input_per_1m: 5, output_per_1m: 5 });
  const catalog = await listing({
    m: { ...usual, input_cost_per_token: 1.1e-6 },
    n: usual,
    h: usual,
  });
  const served = ['m', 'o'].map((model) => ({ provider: 'openai', model }));
  const report = await check(world.db, [catalog], { served, factors: {} });
  expect(report).toMatchObject({ unpriced: ['openai/o'], faults: 2, old: [] });
  expect(report.differs.map(({ name }) => name)).toEqual(['openai/m']);
  expect(report.by_hand.map(({ name }) => name)).toEqual(['openai/h']);
});
