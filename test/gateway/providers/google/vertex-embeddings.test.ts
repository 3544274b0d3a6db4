import OpenAI from 'openai';
import { gatewayKey, lastCharge, post } from '../../../support/gateway';
import { makePrice } from '../../../support/ledger';
import { openSold, origin, visits, world } from '../sold';

// Embeddings of Vertex: by `predict`, or by `embedContent` for the models since then.

const predicted = 'text-embedding-005';
const alone = 'gemini-embedding-001';
const embedded = 'gemini-embedding-2';
const path = '/v1/projects/acme-1/locations/europe-west4/publishers/google/models';

let url: string;

beforeAll(async () => {
  const models = [predicted, alone, embedded];
  const row = {
    id: 'vectors',
    kind: 'vertex',
    shape: 'gemini',
    project: 'acme-1',
    location: 'europe-west4',
    base_url: `${origin}/vertex/v1`,
    auth: { google: { credentials_file_env: 'TEST_GOOGLE_FILE' } },
    models,
  };
  for (const model of models)
    await makePrice(world.api.db, {
      provider: 'vertex',
      model,
      input_per_1m: 2,
      output_per_1m: 0,
      per_minute: null,
    });
  url = await openSold({}, [row]);
});

async function embed(body: object) {
  visits.length = 0;
  const caller = await gatewayKey(world.api, world.org.org_id);
  const { status, text } = await post(`${url}/v1/embeddings`, caller, body);
  return { status, body: JSON.parse(text) };
}

/** What was asked of Vertex, without what was asked of it for a token. */
const asked = () => visits.find(({ path: of }) => of.includes('/publishers/'));

test.each<[model: string, texts: string[], method: string, sent: object]>([
  [
    predicted,
    ['one', 'two and more', 'three'],
    'predict',
    {
      instances: [{ content: 'one' }, { content: 'two and more' }, { content: 'three' }],
      parameters: { autoTruncate: false, outputDimensionality: 8 },
    },
  ],
  [
    alone,
    ['one'],
    'predict',
    {
      instances: [{ content: 'one' }],
      parameters: { autoTruncate: false, outputDimensionality: 8 },
    },
  ],
  [
    embedded,
    ['one'],
    'embedContent',
    {
      content: { role: 'user', parts: [{ text: 'one' }] },
      autoTruncate: false,
      outputDimensionality: 8,
    },
  ],
])('%s gives %j their vectors by %s', async (model, input, method, sent) => {
  const { status, body } = await embed({ model, input, dimensions: 8 });
  expect([status, body.object, body.model]).toEqual([200, 'list', model]);
  expect(body.data.map(({ index }: { index: number }) => index)).toEqual([...input.keys()]);
  for (const { embedding } of body.data) expect(embedding).toHaveLength(8);
  expect(asked()?.path).toBe(`${path}/${model}:${method}`);
  expect(asked()?.body).toEqual(sent);
  const charge = await lastCharge(world, world.org.org_id);
  expect(charge.usage_source).toBe('upstream');
  expect(charge.usage.prompt_tokens).toBe(body.usage.prompt_tokens);
  expect(charge.actual_cost_nanos).toBe(BigInt(body.usage.prompt_tokens) * 2_000n);
  expect(charge.actual_cost_nanos).toBeGreaterThan(0n);
});

test('each text has the vector that it has alone', async () => {
  const input = ['one', 'two'];
  const { body } = await embed({ model: predicted, input, dimensions: 8 });
  for (const [at, text] of input.entries()) {
    const { body: single } = await embed({ model: predicted, input: text, dimensions: 8 });
    expect(single.data[0].embedding).toEqual(body.data[at].embedding);
  }
});

test('the client that asks for Base64 reads the same vector', async () => {
  const caller = await gatewayKey(world.api, world.org.org_id);
  const client = new OpenAI({ apiKey: caller, baseURL: `${url}/v1`, maxRetries: 0 });
  const given = { model: predicted, input: 'Hello', dimensions: 16 };
  const decoded = await client.embeddings.create(given);
  const plain = await client.embeddings.create({ ...given, encoding_format: 'float' });
  expect(decoded.data[0]?.embedding.map(Math.fround)).toEqual(
    plain.data[0]?.embedding.map(Math.fround),
  );
});

test('a model of one text refuses several by name, and nothing is asked', async () => {
  const { status, body } = await embed({ model: embedded, input: ['one', 'two'] });
  expect([status, body.error.param]).toEqual([422, 'input']);
  expect(visits).toEqual([]);
});

test.each([
  ['a text that is too long', predicted, ['word '.repeat(3_000)], /token count exceeds/],
  ['a text that is too long', embedded, ['word '.repeat(3_000)], /token count exceeds/],
  ['more texts than are taken', alone, ['one', 'two'], /from 1 to 1/],
  ['a fault', predicted, ['[[fault:error status=400]]'], /asked for/],
])('%s is refused by %s in its words, and costs nothing', async (_, model, input, words) => {
  const { status, body } = await embed({ model, input });
  expect([status, body.error.message]).toEqual([400, expect.stringMatching(words)]);
  expect((await lastCharge(world, world.org.org_id)).actual_cost_nanos).toBe(0n);
});
