import { randomUUID } from 'node:crypto';
import { type Db, many } from '../../domain/sql';
import { type Answer, type CallApi, refusal, startApi } from '../support/api';
import { locksAwaited } from '../support/database';
import { platformKey } from '../support/keys';
import { until } from '../support/until';

// When a price that is set comes into force, and how the catalog is read.

let db: Db;
let call: CallApi;
let close: () => Promise<void>;
let key: string;

beforeAll(async () => {
  ({ db, call, close } = await startApi());
  key = await platformKey(db);
});

afterAll(() => close());

function create(body: object): Promise<Answer> {
  const blank = { provider: 'openai', model: randomUUID(), input_per_1m: 1, output_per_1m: 2 };
  return call('post', '/v1/admin/model-pricing', { key, body: { ...blank, ...body } });
}

function update(id: string, body: object): Promise<Answer> {
  return call('put', `/v1/admin/model-pricing/${id}`, { key, body });
}

async function catalog(): Promise<Record<string, unknown>[]> {
  return (await call('get', '/v1/model-pricing')).body.models;
}

async function priceOf(model: string) {
  return (await catalog()).find((price) => price.model === model);
}

test('a start that is over means now: what is set comes into force', async () => {
  const { id, model, effective_from } = (await create({})).body;
  const yesterday = new Date(Date.now() - 86_400_000).toISOString();
  const set = await update(id, { input_per_1m: 3, effective_from: yesterday });
  expect([set.status, set.body.input_per_1m]).toEqual([200, 3]);
  expect(Date.parse(set.body.effective_from)).toBeGreaterThanOrEqual(Date.parse(effective_from));
  expect(await priceOf(model)).toEqual(set.body);
  // Sent back as it was shown: in milliseconds, where the database knows microseconds.
  const again = await update(id, { input_per_1m: 4, effective_from: set.body.effective_from });
  expect(await priceOf(model)).toEqual(again.body);
  expect(again.body.input_per_1m).toBe(4);
});

test('a new name counts from now: one that is to come leaves the price in force', async () => {
  const { id, model } = (await create({})).body;
  const renamed = `model ${randomUUID()}`;
  const effective_from = new Date(Date.now() + 3_600_000).toISOString();
  expect(refusal(await update(id, { model: renamed, effective_from }))).toMatchObject({
    status: 422,
    code: 'invalid_field',
    param: 'effective_from',
  });
  expect(await priceOf(model)).toMatchObject({ id });
  expect((await update(id, { model: renamed })).status).toBe(200);
  expect(await priceOf(renamed)).toMatchObject({ id });
  // A price that is only planned takes none away under another name.
  const coming = (await create({ effective_from })).body;
  const moved = await update(coming.id, { model: randomUUID(), effective_from });
  expect([moved.status, moved.body.effective_from]).toEqual([200, effective_from]);
});

test('all who ask for the catalog at one time share one reading of it', async () => {
  const { id, model } = (await create({})).body;
  let asked: Promise<Answer[]> | undefined;
  await db.transaction(async (trx) => {
    await many(trx, 'lock table model_prices in access exclusive mode');
    asked = Promise.all(Array.from({ length: 30 }, () => call('get', '/v1/model-pricing')));
    await until(async () => (await locksAwaited(db)) > 0);
    // One that came later is answered, so that those before it have come.
    expect((await call('get', '/v1/issuers')).status).toBe(200);
    expect(await locksAwaited(db)).toBe(1);
  });
  const answers = (await asked) ?? [];
  expect(answers.map(({ status }) => status)).toEqual(Array.from({ length: 30 }, () => 200));
  expect(new Set(answers.map(({ headers }) => headers.etag)).size).toBe(1);
  // A reading is over with its answers: what is changed then is shown.
  expect(answers[0]?.body.models).toContainEqual(expect.objectContaining({ id, model }));
  await update(id, { input_per_1m: 17 });
  expect(await priceOf(model)).toMatchObject({ input_per_1m: 17 });
});
