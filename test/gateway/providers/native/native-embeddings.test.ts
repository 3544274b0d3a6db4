import OpenAI from 'openai';
import { gatewayKey, lastCharge, post } from '../../../support/gateway';
import { makePrice } from '../../../support/ledger';
import { openSold, origin, visits, world } from '../sold';

// Embeddings spoken to Gemini on its own wire.

let url: string;
const priced = { output_per_1m: 0, per_minute: null };

beforeAll(async () => {
  const row = {
    kind: 'gemini',
    shape: 'gemini',
    base_url: `${origin}/gemini/v1beta`,
    auth: { key_env: 'TEST_MODELS_KEY' },
  };
  const models = ['gemini-embedding-001', 'gemini-embedding-2'];
  for (const model of models)
    await makePrice(world.api.db, { ...priced, provider: 'gemini', model, input_per_1m: 2 });
  url = await openSold({}, [{ ...row, id: 'vectors', models }]);
});

async function embed(body: object) {
  const caller = await gatewayKey(world.api, world.org.org_id);
  return post(`${url}/v1/embeddings`, caller, body);
}

const counted = 'gemini-embedding-2';
const uncounted = 'gemini-embedding-001';

test.each([counted, uncounted])(
  '%s gives a vector for each text, in their order',
  async (model) => {
    visits.length = 0;
    const input = ['one', 'two', 'three'];
    const { status, text } = await embed({ model, input, dimensions: 8, user: 'somebody' });
    expect(status).toBe(200);
    const { object, data, usage, model: told } = JSON.parse(text);
    expect([object, told]).toEqual(['list', model]);
    expect(
      data.map(({ index, object: of }: { index: number; object: string }) => [index, of]),
    ).toEqual(input.map((_, at) => [at, 'embedding']));
    for (const { embedding } of data) expect(embedding).toHaveLength(8);
    expect(
      new Set(data.map(({ embedding }: { embedding: number[] }) => String(embedding))).size,
    ).toBe(3);
    expect(visits.at(-1)?.path).toBe(`/v1beta/models/${model}:batchEmbedContents`);
    expect(visits.at(-1)?.body).toEqual({
      requests: input.map((one) => ({
        model: `models/${model}`,
        content: { role: 'user', parts: [{ text: one }] },
        outputDimensionality: 8,
      })),
    });
    const charge = await lastCharge(world, world.org.org_id);
    expect(charge.usage.prompt_tokens).toBe(usage.prompt_tokens);
    expect(usage.total_tokens).toBe(usage.prompt_tokens);
    expect(charge.actual_cost_nanos).toBe(BigInt(usage.prompt_tokens) * 2_000n);
    expect(charge.usage_source).toBe(model === counted ? 'upstream' : 'estimated');
    expect(charge.actual_cost_nanos).toBeGreaterThan(0n);
  },
);

test('floats and Base64 are the same vector, also by the client that asks for Base64 unasked', async () => {
  const client = new OpenAI({
    apiKey: await gatewayKey(world.api, world.org.org_id),
    baseURL: `${url}/v1`,
    maxRetries: 0,
  });
  const asked = { model: counted, input: 'Hello', dimensions: 16 };
  const decoded = await client.embeddings.create(asked);
  const plain = await client.embeddings.create({ ...asked, encoding_format: 'float' });
  expect(decoded.data[0]?.embedding.map(Math.fround)).toEqual(
    plain.data[0]?.embedding.map(Math.fround),
  );
  expect(plain.data[0]?.embedding).toHaveLength(16);
  const packed = JSON.parse((await embed({ ...asked, encoding_format: 'base64' })).text);
  expect(Buffer.from(packed.data[0].embedding, 'base64')).toHaveLength(64);
});

test.each<[why: string, members: object, param: string]>([
  ['tokens', { input: [1, 2, 3] }, 'input'],
  ['lists of tokens', { input: [[1], [2]] }, 'input'],
  ['no input', { input: undefined }, 'input'],
  ['an object', { input: { a: 1 } }, 'input'],
  ['a form that is none', { encoding_format: 'int8' }, 'encoding_format'],
  ['no dimensions', { dimensions: 0 }, 'dimensions'],
  ['half a dimension', { dimensions: 1.5 }, 'dimensions'],
  ['dimensions as text', { dimensions: '8' }, 'dimensions'],
  ['a member without a word there', { input_type: 'query' }, 'input_type'],
])('%s are refused by name, and nothing is asked', async (_, members, param) => {
  visits.length = 0;
  const { status, text } = await embed({ model: counted, input: 'Hello', ...members });
  expect([status, JSON.parse(text).error.param]).toEqual([422, param]);
  expect(visits).toEqual([]);
});

test('what the provider refuses is told in its words, and costs nothing', async () => {
  for (const input of [Array(101).fill('a'), ['[[fault:error status=400]]']]) {
    const { status, text } = await embed({ model: counted, input });
    expect([status, JSON.parse(text).error.message]).toEqual([
      400,
      expect.stringMatching(/at most 100|asked for/),
    ]);
    expect((await lastCharge(world, world.org.org_id)).actual_cost_nanos).toBe(0n);
  }
});
