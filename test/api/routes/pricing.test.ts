import { randomUUID } from 'node:crypto';
import type { Db } from '../../../domain/sql';
import { type Answer, type CallApi, refusal, startApi } from '../../support/api';
import { platformKey } from '../../support/keys';

let db: Db;
let call: CallApi;
let close: () => Promise<void>;
let key: string;

beforeAll(async () => {
  ({ db, call, close } = await startApi());
  key = await platformKey(db);
});

afterAll(() => close());

function create(body: object | string): Promise<Answer> {
  const blank = { provider: 'openai', model: randomUUID(), input_per_1m: 1, output_per_1m: 2 };
  return call('post', '/v1/admin/model-pricing', {
    key,
    body: typeof body === 'string' ? body : { ...blank, ...body },
  });
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

test('a price is made, shown to everybody, changed in part and deleted', async () => {
  const model = `model ${randomUUID()}`;
  const made = await create({
    model,
    cached_input_per_1m: 0.1,
    tiers: [{ above_prompt_tokens: 200_000, input_per_1m: 2, output_per_1m: 4 }],
  });
  expect(made.status).toBe(201);
  expect(made.body).toEqual({
    id: expect.stringMatching(/^price_/),
    provider: 'openai',
    model,
    input_per_1m: 1,
    output_per_1m: 2,
    cached_input_per_1m: 0.1,
    cache_write_per_1m: null,
    cache_write_1h_per_1m: null,
    audio_input_per_1m: null,
    audio_output_per_1m: null,
    image_input_per_1m: null,
    image_output_per_1m: null,
    video_input_per_1m: null,
    video_output_per_1m: null,
    per_minute: null,
    per_1m_characters: null,
    per_request: null,
    per_tool_call: null,
    per_web_search: null,
    per_file_search: null,
    per_container: null,
    per_page: null,
    minimum: null,
    minimum_seconds: null,
    service_tiers: null,
    regions: null,
    max_output_tokens: null,
    reasoning: false,
    tiers: [{ above_prompt_tokens: 200_000, input_per_1m: 2, output_per_1m: 4 }],
    free: false,
    ...{ source: 'hand', catalog: null, import_id: null, metadata: null },
    effective_from: expect.any(String),
    created_at: expect.any(String),
    updated_at: expect.any(String),
  });
  expect(await priceOf(model)).toEqual(made.body);
  const { id, created_at } = made.body;
  const changed = await update(id, { output_per_1m: 3, cached_input_per_1m: null });
  expect(changed.body).toMatchObject({
    id,
    created_at,
    input_per_1m: 1,
    output_per_1m: 3,
    cached_input_per_1m: null,
  });
  expect(await priceOf(model)).toEqual(changed.body);
  expect((await call('delete', `/v1/admin/model-pricing/${id}`, { key })).status).toBe(200);
  expect(await priceOf(model)).toBeUndefined();
  for (const gone of [
    await update(id, { input_per_1m: 1 }),
    await call('delete', `/v1/admin/model-pricing/${id}`, { key }),
  ])
    expect(gone.status).toBe(404);
});

test('the smallest and the most precise price come back as they were sent', async () => {
  for (const input_per_1m of [1e-9, 0.0375, 123456789.012345])
    expect((await create({ input_per_1m })).body.input_per_1m).toBe(input_per_1m);
});

test("a model has one price: a second one is 409, by another's rename too", async () => {
  const { model } = (await create({})).body;
  expect(refusal(await create({ model }))).toEqual({
    status: 409,
    code: 'already_exists',
    param: 'model',
  });
  const other = (await create({})).body;
  expect((await update(other.id, { model })).status).toBe(409);
  const twice = randomUUID();
  const answers = await Promise.all(Array.from({ length: 10 }, () => create({ model: twice })));
  expect(answers.filter(({ status }) => status === 201)).toHaveLength(1);
});

test('a change that comes into force later leaves the present price alone', async () => {
  const { id, model } = (await create({})).body;
  const effective_from = new Date(Date.now() + 3_600_000).toISOString();
  expect((await update(id, { input_per_1m: 9, effective_from })).status).toBe(200);
  expect(await priceOf(model)).toMatchObject({ input_per_1m: 1 });
  const coming = (await create({ effective_from })).body;
  expect(await priceOf(coming.model)).toBeUndefined();
  const { body } = await call('get', '/v1/admin/model-pricing', { key });
  expect(body.models.map((price: { id: string }) => price.id)).toContain(coming.id);
});

test('planned versions are listed, and only the one that is named is replaced or deleted', async () => {
  const { id, model } = (await create({})).body;
  const at = (hours: number) => new Date(Date.now() + hours * 3_600_000).toISOString();
  const [first, second] = [at(1), at(2)];
  await update(id, { input_per_1m: 5, effective_from: first });
  await update(id, { input_per_1m: 7, effective_from: second });
  const versions = async () => {
    const { body } = await call('get', '/v1/admin/model-pricing', { key });
    const own = body.models.filter((price: { id: string }) => price.id === id);
    return own.map((price: Record<string, number>) => [price.input_per_1m, price.output_per_1m]);
  };
  const [[, output]] = await versions();
  expect(await versions()).toEqual([
    [1, output],
    [5, output],
    [7, output],
  ]);
  // A change of now leaves what is planned.
  await update(id, { input_per_1m: 2 });
  expect(await priceOf(model)).toMatchObject({ input_per_1m: 2 });
  await update(id, { output_per_1m: 50, effective_from: second });
  expect(await versions()).toEqual([
    [2, output],
    [5, output],
    [7, 50],
  ]);
  const renamed = await update(id, { model: randomUUID() });
  expect([renamed.status, renamed.body.error.param]).toEqual([422, 'model']);
  const drop = (query = '') => call('delete', `/v1/admin/model-pricing/${id}${query}`, { key });
  expect((await drop(`?effective_from=${first}`)).status).toBeLessThan(300);
  expect((await drop(`?effective_from=${first}`)).status).toBe(404);
  expect(await versions()).toEqual([
    [2, output],
    [7, 50],
  ]);
  expect((await drop()).status).toBeLessThan(300);
  expect(await versions()).toEqual([]);
});

const figures = ['-1', '"1"', '1e400', 'true', '[]'];
const fields = [
  'input_per_1m',
  'output_per_1m',
  'cached_input_per_1m',
  'per_minute',
  'per_request',
  'per_tool_call',
  'per_web_search',
  'image_output_per_1m',
  'minimum',
];

test.each(fields)(
  '%s that is negative, infinite or no number is refused, and nothing is written',
  async (field) => {
    const before = await catalog();
    for (const figure of figures) {
      const answer = await create(
        `{"provider": "openai", "model": "wrong", "input_per_1m": 1, "${field}": ${figure}}`.replace(
          '"input_per_1m": 1, "input_per_1m"',
          '"input_per_1m"',
        ),
      );
      expect({ figure, ...refusal(answer) }).toMatchObject({ figure, status: 422, param: field });
    }
    expect(await catalog()).toEqual(before);
  },
);

test.each([
  [{ model: 'a*b' }, 'model'],
  [{ model: '' }, 'model'],
  [{ max_output_tokens: 0 }, 'max_output_tokens'],
  [{ max_output_tokens: 1.5 }, 'max_output_tokens'],
  [{ tiers: [] }, 'tiers'],
  [
    { tiers: [{ above_prompt_tokens: -1, input_per_1m: 1, output_per_1m: 1 }] },
    'tiers.0.above_prompt_tokens',
  ],
  [
    { tiers: [{ above_prompt_tokens: 1, input_per_1m: 1, output_per_1m: 1, extra: 1 }] },
    'tiers.0.extra',
  ],
  [{ tiers: [{ above_prompt_tokens: 1, cached_input_per_1m: -1 }] }, 'tiers.0.cached_input_per_1m'],
  [
    { tiers: [{ above_prompt_tokens: 1, cached_input_per_1m: null }] },
    'tiers.0.cached_input_per_1m',
  ],
  [{ service_tiers: { priority: -1 } }, 'service_tiers.priority'],
  [{ service_tiers: { 'a b': 1 } }, 'service_tiers.a b'],
  [{ service_tiers: { priority: { surprise: 1 } } }, 'service_tiers.priority.surprise'],
  [{ regions: { us: '1' } }, 'regions.us'],
  [{ regions: [] }, 'regions'],
  [{ effective_from: 'soon' }, 'effective_from'],
  [{ reasoning: 1 }, 'reasoning'],
  [{ price: 1 }, 'price'],
])('a price with %j is refused by name', async (body, param) => {
  expect(refusal(await create(body))).toMatchObject({ status: 422, param });
});

test('a forgotten amount does not make a model free: free is said on purpose', async () => {
  expect(refusal(await create({ input_per_1m: 0, output_per_1m: 0 }))).toMatchObject({
    status: 422,
    param: 'free',
  });
  expect((await create({ input_per_1m: 0, output_per_1m: 0, free: true })).body.free).toBe(true);
  const { id } = (await create({})).body;
  expect(refusal(await update(id, { input_per_1m: 0, output_per_1m: 0 }))).toMatchObject({
    status: 422,
    param: 'free',
  });
  expect((await update(id, {})).status).toBe(422);
});

test('the catalog has an ETag: unchanged is 304 without a body, changed is not', async () => {
  await create({});
  const first = await call('get', '/v1/model-pricing');
  const etag = String(first.headers.etag);
  expect(etag).toMatch(/^"[^"]+"$/);
  const again = await call('get', '/v1/model-pricing', { headers: { 'if-none-match': etag } });
  expect([again.status, again.text]).toEqual([304, '']);
  await create({});
  const changed = await call('get', '/v1/model-pricing', { headers: { 'if-none-match': etag } });
  expect(changed.status).toBe(200);
  expect(changed.headers.etag).not.toBe(etag);
});

function putRates(body: object | string): Promise<Answer> {
  return call('put', '/v1/admin/exchange-rates', { key, body });
}

test('exchange rates are units for one USD, and a change is merged', async () => {
  await putRates({ rates: { EUR: 0.92, JPY: 150 } });
  const merged = await putRates({ base: 'USD', rates: { EUR: 0.95 } });
  expect(merged.body).toMatchObject({
    base: 'USD',
    rates: { EUR: 0.95, JPY: 150 },
    updated_at: expect.any(String),
  });
  expect((await call('get', '/v1/admin/exchange-rates', { key })).body).toEqual(merged.body);
});

test.each(['0', '-1', '"1"', '1e400', 'null'])(
  'an exchange rate of %s is refused, and none of the call is kept',
  async (rate) => {
    const before = (await call('get', '/v1/admin/exchange-rates', { key })).body;
    const answer = await putRates(`{"rates": {"CHF": 0.9, "NOK": ${rate}}}`);
    expect(refusal(answer)).toMatchObject({ status: 422, param: 'rates.NOK' });
    expect((await call('get', '/v1/admin/exchange-rates', { key })).body).toEqual(before);
  },
);

test.each([
  { rates: { XXQ: 1 } },
  { rates: { eur: 1 } },
  { rates: { USD: 2 } },
  { base: 'EUR', rates: {} },
  {},
])('exchange rates %j are refused', async (body) => {
  expect((await putRates(body)).status).toBe(422);
});
