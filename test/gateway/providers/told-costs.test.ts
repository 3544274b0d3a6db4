import { blankPrice } from '../../../domain/ledger/pricing';
import { many, one } from '../../../domain/sql';
import { chat, gatewayKey, lastCharge, openWorld, post, type World } from '../../support/gateway';
import { makePrice } from '../../support/ledger';
import { until } from '../../support/until';
import { openScripted, type Scripted } from '../../support/upstream';

// What a provider says that a call cost is kept beside what is charged, and decides nothing.

let world: World;
let upstream: Scripted;
let url: string;
const kinds = ['openrouter', 'xai', 'together'];

beforeAll(async () => {
  world = await openWorld();
  upstream = await openScripted();
  for (const provider of kinds) {
    const price = { input_per_1m: 1, output_per_1m: 10 };
    await makePrice(world.api.db, { ...blankPrice, tiers: null, provider, model: 'm', ...price });
  }
  const targets = kinds.map((kind) => ({
    id: kind,
    kind,
    base_url: `${upstream.url}/v1`,
    auth: { key_env: 'TEST_MODELS_KEY' },
    models: [{ name: kind, upstream: 'm', price_as: 'm' }],
  }));
  ({ url } = await world.openGateway({ settings: { providers: { targets } } }));
});
afterAll(async () => {
  await world.close();
  await upstream.close();
});

const counts = { prompt_tokens: 1_000, completion_tokens: 10, total_tokens: 1_010 };
const CHARGED = 1_100_000n;
const text = { role: 'assistant', content: 'Hi' };
const ended = { index: 0, delta: {}, finish_reason: 'stop' };
const role = { choices: [{ index: 0, delta: text }] };
const framed = (...all: string[]) => [...all.map((one) => `data: ${one}\n\n`), 'data: [DONE]\n\n'];

/** The usage of an answer, with members as their text. */
const usageText = (members: string) => `${JSON.stringify(counts).slice(0, -1)}${members}}`;

/** What is kept of a call, and what its event says. */
async function kept(kind: string, more: object = {}, path = '/v1/chat/completions') {
  const caller = await gatewayKey(world.api, world.org.org_id);
  const { org_id } = world.org;
  const body = path.endsWith('responses')
    ? { model: kind, input: 'Hello', ...more }
    : { ...chat('Hello'), model: kind, ...more };
  const { status, headers } = await post(url + path, caller, body);
  const { actual_cost_nanos } = await lastCharge(world, org_id);
  const request_id = String(headers['x-svc-request-id']);
  const row = await one<{ told: string | null }>(
    world.api.db,
    'select provider_cost_usd::text as told from reservations where request_id = :request_id',
    { request_id },
  );
  let events: { payload: Record<string, unknown> }[] = [];
  await until(async () => {
    const sql = `select payload from events where type = 'request.completed' and request_id = :request_id`;
    events = await many(world.api.db, sql, { request_id });
    return events.length > 0;
  });
  expect(events[0]?.payload.provider_cost_usd ?? null).toBe(row.told);
  return { status, actual_cost_nanos, told: row.told };
}

test.each<[kind: string, members: string, told: string | null]>([
  ['openrouter', ',"cost":0.0011', '0.0011'],
  ['openrouter', ',"cost":1.5e-7', '0.00000015'],
  ['openrouter', ',"cost":0', '0'],
  ['openrouter', ',"cost":"0.002"', '0.002'],
  // The vendor's figure beside it is the same money again.
  [
    'openrouter',
    ',"cost":0.1,"is_byok":false,"cost_details":{"upstream_inference_cost":0.1}',
    '0.1',
  ],
  // By a key of one's own at the vendor it is another's, and floats would make 0.30000000000000004.
  [
    'openrouter',
    ',"cost":0.1,"is_byok":true,"cost_details":{"upstream_inference_cost":0.2}',
    '0.3',
  ],
  [
    'openrouter',
    ',"cost":0,"is_byok":true,"cost_details":{"upstream_inference_cost":0.036}',
    '0.036',
  ],
  ['openrouter', ',"cost":0.1,"is_byok":true,"cost_details":null', null],
  ['openrouter', ',"cost":null', null],
  ['openrouter', '', null],
  ['xai', ',"cost_in_usd_ticks":37756000', '0.0037756'],
  ['xai', ',"cost_in_usd_ticks":1', '0.0000000001'],
  ['xai', ',"cost":5', null],
  // A kind whose API says none: what is called so there is nobody's word.
  ['together', ',"cost":5', null],
])('%s with {…%s} tells %s, whole and streamed', async (kind, members, told) => {
  const usage = usageText(members);
  upstream.play(
    [
      `{"choices":[{"index":0,"message":${JSON.stringify(text)},"finish_reason":"stop"}],"usage":${usage}}`,
    ],
    'application/json',
  );
  const whole = { status: 200, actual_cost_nanos: CHARGED, told };
  expect(await kept(kind)).toEqual(whole);
  upstream.play(
    framed(
      JSON.stringify(role),
      JSON.stringify({ choices: [ended] }),
      `{"choices":[],"usage":${usage}}`,
    ),
  );
  expect(await kept(kind, { stream: true })).toEqual(whole);
});

test.each(['-0.1', '1e400', '10000.01', 'true', '"much"', '[]', '{"usd":1}', '"NaN"', '"-1"'])(
  'a cost of %s is none: it is dropped and counted, and the call is charged as ever',
  async (figure) => {
    upstream.play(
      [
        `{"choices":[{"index":0,"message":${JSON.stringify(text)},"finish_reason":"stop"}],"usage":${usageText(`,"cost":${figure}`)}}`,
      ],
      'application/json',
    );
    const countOf = async () => {
      const { unsound_costs } = (await (await fetch(`${url}/svc/health`)).json()) as {
        unsound_costs?: Record<string, number>;
      };
      return unsound_costs?.openrouter ?? 0;
    };
    const before = await countOf();
    const found = await kept('openrouter');
    expect(found).toEqual({ status: 200, actual_cost_nanos: CHARGED, told: null });
    expect(await countOf()).toBe(before + 1);
  },
);

test('a stream that is cut ahead of its usage tells no cost', async () => {
  upstream.play([`data: ${JSON.stringify(role)}\n\n`]);
  const { status, told, actual_cost_nanos } = await kept('openrouter', { stream: true });
  expect([status, told]).toEqual([200, null]);
  expect(actual_cost_nanos).toBeGreaterThan(0n);
});

test('usage so far with each chunk: the last word counts', async () => {
  const chunk = (members: object, cost: number) =>
    JSON.stringify({ ...members, usage: { ...counts, cost } });
  upstream.play(framed(chunk(role, 0.5), chunk({ choices: [ended] }, 0.7)));
  expect(await kept('openrouter', { stream: true })).toMatchObject({ told: '0.7' });
});

test('Responses tell it too, whole and in the event that ends a stream', async () => {
  const output = [{ type: 'message', content: [{ type: 'output_text', text: 'Hi' }] }];
  const usage = { input_tokens: 1_000, output_tokens: 10, total_tokens: 1_010 };
  const whole = { output, usage: { ...usage, cost_in_usd_ticks: 11_000_000 } };
  const found = { status: 200, actual_cost_nanos: CHARGED, told: '0.0011' };
  upstream.play([JSON.stringify(whole)], 'application/json');
  expect(await kept('xai', {}, '/v1/responses')).toEqual(found);
  const events = [
    { type: 'response.created', response: { usage: null } },
    { type: 'response.output_text.delta', delta: 'Hi' },
    { type: 'response.completed', response: whole },
  ];
  upstream.play(events.map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`));
  expect(await kept('xai', { stream: true }, '/v1/responses')).toEqual(found);
});
