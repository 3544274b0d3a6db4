import { blankPrice } from '../../../../domain/ledger/pricing';
import { makePrice } from '../../../support/ledger';
import { openScripted, type Scripted } from '../../../support/upstream';
import { ask, openSold, options, origin, targets, visits, world } from '../sold';

// Tiers of service at Google: asked for as each of its wires takes them, and charged as served.

const HEADER = 'x-vertex-ai-llm-shared-request-type';
const hello = 'Hello [[fault:usage prompt=1000 completion=40 cached=0]]';
const ordinary = 1_000n * 2_000n + 40n * 8_000n;

let upstream: Scripted;
let sandboxed: string;
let scripted: string;

beforeAll(async () => {
  upstream = await openScripted();
  const price = { ...blankPrice, tiers: null, model: 'tiered', input_per_1m: 2, output_per_1m: 8 };
  const service_tiers = JSON.stringify({ flex: 0.5, priority: 2 });
  for (const provider of ['vertex', 'gemini'])
    await makePrice(world.api.db, { ...price, provider, service_tiers });
  const priced = targets()
    .filter(({ kind }) => kind === 'vertex' || kind === 'gemini')
    .map((row) => ({
      ...row,
      models: row.models.map((model) => ({ ...model, price_as: 'tiered' })),
    }));
  process.env.GATEWAY_AMBIENT_ORIGINS += `,${upstream.url}`;
  sandboxed = await openSold({}, priced);
  scripted = await openSold(
    {},
    priced.map((row) => ({ ...row, base_url: `${upstream.url}/v1` })),
  );
});
afterAll(() => upstream.close());

test.each([
  [undefined, undefined, ordinary],
  ['auto', undefined, ordinary],
  ['default', undefined, ordinary],
  ['flex', 'flex', ordinary / 2n],
  ['priority', 'priority', ordinary * 2n],
])('Vertex is asked for the tier %j by its header', async (service_tier, sent, nanos) => {
  for (const stream of [false, true]) {
    const asked = await ask('gcp-native', hello, { at: sandboxed, stream, body: { service_tier } });
    expect([stream, asked.status]).toEqual([stream, 200]);
    expect(visits[0]?.headers[HEADER]).toBe(sent);
    expect(visits[0]?.body).not.toHaveProperty('serviceTier');
    expect((await asked.charge()).actual_cost_nanos).toBe(nanos);
  }
});

test.each([
  ['ON_DEMAND', ordinary],
  ['PROVISIONED_THROUGHPUT', ordinary],
  ['ON_DEMAND_FLEX', ordinary / 2n],
])('the traffic %s is charged as such, whatever was asked', async (trafficType, nanos) => {
  const counts = { promptTokenCount: 1_000, candidatesTokenCount: 40, totalTokenCount: 1_040 };
  const answer = JSON.stringify({
    candidates: [{ content: { role: 'model', parts: [{ text: 'Hi' }] }, finishReason: 'STOP' }],
    usageMetadata: { ...counts, trafficType },
  });
  for (const stream of [false, true]) {
    if (stream) upstream.play([`data: ${answer}\n\n`]);
    else upstream.play([answer], 'application/json');
    const body = { service_tier: 'flex' };
    const { charge } = await ask('gcp-native', 'Hello', { at: scripted, stream, body });
    expect((await charge()).actual_cost_nanos).toBe(nanos);
  }
});

test.each(['gcp-chat', 'gemini'])(
  '%s: OpenAI’s wire asks for no tier, and none is charged',
  async (model) => {
    for (const service_tier of ['flex', 'priority']) {
      const usual = await (await ask(model, hello, { at: sandboxed })).charge();
      const asked = await ask(model, hello, { at: sandboxed, body: { service_tier } });
      expect([service_tier, asked.status]).toEqual([service_tier, 200]);
      expect(visits[0]?.body).not.toHaveProperty('service_tier');
      const { actual_cost_nanos, held_nanos } = await asked.charge();
      expect([actual_cost_nanos, held_nanos]).toEqual([ordinary, usual.held_nanos]);
    }
  },
);

test('the traffic that Vertex tells on OpenAI’s wire is charged', async () => {
  // As where the operator's own header asks for it.
  const google = { traffic_type: 'ON_DEMAND_PRIORITY' };
  const usage = {
    ...{ prompt_tokens: 1_000, completion_tokens: 40, total_tokens: 1_040 },
    extra_properties: { google },
  };
  const choice = { index: 0, finish_reason: 'stop' };
  const message = { role: 'assistant', content: 'Hi' };
  const whole = { object: 'chat.completion', choices: [{ ...choice, message }], usage };
  const chunk = {
    object: 'chat.completion.chunk',
    choices: [{ ...choice, delta: message }],
    usage,
  };
  for (const stream of [false, true]) {
    if (stream) upstream.play([`data: ${JSON.stringify(chunk)}\n\n`, 'data: [DONE]\n\n']);
    else upstream.play([JSON.stringify(whole)], 'application/json');
    const { charge } = await ask('gcp-chat', 'Hello', { at: scripted, stream });
    expect((await charge()).actual_cost_nanos).toBe(ordinary * 2n);
  }
});

test('Gemini’s own server takes the tier in the body', async () => {
  const body = { service_tier: 'flex' };
  const { charge } = await ask('gemini-native', hello, { at: sandboxed, body });
  expect(visits[0]?.body).toMatchObject({ serviceTier: 'flex' });
  expect(visits[0]?.headers).not.toHaveProperty(HEADER);
  expect((await charge()).actual_cost_nanos).toBe(ordinary / 2n);
});

test.each([
  ['flex', 400, undefined],
  ['SERVICE_TIER_FLEX', 200, 'ON_DEMAND'],
])('the sandbox takes the member %s as Vertex does', async (serviceTier, status, traffic) => {
  await ask('gcp-native', 'Hello', { at: sandboxed });
  const [token] = [...options.vertex.tokens.keys()].slice(-1);
  const models = `${origin}/vertex/v1/projects/acme-1/locations/global/publishers/google/models`;
  const answer = await fetch(`${models}/gemini-3.8-flash:generateContent`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    body: JSON.stringify({ contents: [{ role: 'user', parts: [{ text: 'Hi' }] }], serviceTier }),
  });
  const told = (await answer.json()) as { usageMetadata?: { trafficType?: string } };
  expect([answer.status, told.usageMetadata?.trafficType]).toEqual([status, traffic]);
});
