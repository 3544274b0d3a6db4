import { gzipSync } from 'node:zlib';
import { blankPrice } from '../../../domain/ledger/pricing';
import type { Shape } from '../../../gateway/providers/kind';
import { kinds } from '../../../gateway/providers/table';
import { exceptionFrame } from '../../../sandbox/providers/frames';
import {
  chat,
  gatewayKey,
  lastCharge,
  message,
  openWorld,
  post,
  type World,
} from '../../support/gateway';
import { makePrice } from '../../support/ledger';
import { openScripted, type Scripted } from '../../support/upstream';
import {
  events,
  isFramed,
  isPlain,
  type Pieces,
  stream,
  tierIn,
  typeOf,
  type Way,
  whole,
} from './odd-words';

// Kinds on each of their wires, whose servers answer as servers on a bad day do.

let world: World;
let upstream: Scripted;
let url: string;

// One of each that the pipeline treats otherwise.
const ways: Way[] = ['azure', 'bedrock', 'gemini', 'mistral', 'deepseek'].flatMap((kind) =>
  Object.keys(kinds.get(kind)?.wires ?? {}).map((shape) => ({
    kind,
    shape: shape as Shape,
    id: `${kind}-${shape}`,
  })),
);
const place = { azure: { resource: 'acme' }, bedrock: { region: 'eu-west-1' } };

beforeAll(async () => {
  world = await openWorld();
  upstream = await openScripted();
  const tiers = JSON.stringify([
    { above_prompt_tokens: 272_000, input_per_1m: 2, cached_input_per_1m: 0.2, output_per_1m: 15 },
  ]);
  const service_tiers = JSON.stringify({ flex: 0.5, priority: 2 });
  const price = { ...blankPrice, input_per_1m: 1, output_per_1m: 10, cached_input_per_1m: 0.1 };
  for (const provider of kinds.keys())
    await makePrice(world.api.db, { ...price, tiers, provider, model: 'priced', service_tiers });
  const targets = ways.map(({ kind, shape, id }) => ({
    ...{ id, kind, shape, ...(place[kind as keyof typeof place] ?? {}) },
    base_url: `${upstream.url}/${id}`,
    auth: { key_env: 'TEST_MODELS_KEY' },
    models: [{ name: id, upstream: 'theirs', price_as: 'priced' }],
  }));
  const settings = { providers: { targets }, circuit_breaker: { enabled: false } };
  ({ url } = await world.openGateway({ settings }));
});
afterAll(async () => {
  await world.close();
  await upstream.close();
});

const chatRoute = (way: Way) =>
  isPlain(way) ? '/v1/chat/completions' : '/v1/unified/chat/completions';

async function ask(way: Way, is_stream: boolean, words = 'Hello', more: object = {}) {
  const caller = await gatewayKey(world.api, world.org.org_id);
  const fields = { ...more, model: way.id, ...(is_stream ? { stream: true } : {}) };
  const answer =
    way.shape === 'anthropic'
      ? await post(`${url}/v1/messages`, caller, message(words, fields))
      : await post(`${url}${chatRoute(way)}`, caller, chat(words, fields));
  return { ...(await lastCharge(world, world.org.org_id)), ...answer };
}

const cases = ways.map((way) => [way.id, way] as const);
// So that figures of its size are possible.
const long = 'word '.repeat(70_000);
const gzipped = { 'content-encoding': 'gzip' };
const cost = (fresh: number, cached: number, dear = 1) =>
  BigInt(dear) * (BigInt(fresh) * 1_000n + BigInt(cached) * 100n) +
  (dear === 1 ? 100_000n : 150_000n);

test.each(cases)(
  '%s: packed answers and wrong types are read, at the same money',
  async (_, way) => {
    const body = whole(way, 1_000, 900);
    const bytes = Buffer.concat(
      stream(way, events(way, 1_000, 900)).map((one) => Buffer.from(one)),
    );
    const answers: [boolean, Pieces, string, Record<string, string>][] = [
      [false, [body], 'application/json', {}],
      [false, [body], 'text/html', {}],
      [false, [body], '', {}],
      [false, [gzipSync(body)], 'application/json', gzipped],
      [true, [bytes], typeOf(way), {}],
      [true, [gzipSync(bytes)], typeOf(way), gzipped],
      [true, [bytes], isFramed(way) ? 'Application/Vnd.Amazon.EventStream; a=b' : 'text/plain', {}],
      [true, [body], 'application/json', {}],
    ];
    for (const [at, [is_stream, pieces, type, headers]] of answers.entries()) {
      upstream.play(pieces, type, 200, headers);
      const { status, text, actual_cost_nanos, usage_source } = await ask(way, is_stream);
      expect({ at, status }).toEqual({ at, status: 200 });
      // Whole answers go on as they came.
      if (is_stream || headers !== gzipped) expect(text).toContain('Hi there');
      expect({ at, actual_cost_nanos, usage_source }).toEqual({
        ...{ at, actual_cost_nanos: cost(100, 900), usage_source: 'upstream' },
      });
    }
  },
);

test.each(cases)('%s: both sides of a tier, most of it cached', async (_, way) => {
  for (const [prompt, dear] of [
    [272_000, 1],
    [272_001, 2],
  ] as const) {
    const cached = 244_800;
    for (const is_stream of [false, true]) {
      if (is_stream) upstream.play(stream(way, events(way, prompt, cached)), typeOf(way));
      else upstream.play([whole(way, prompt, cached)], 'application/json');
      const { status, actual_cost_nanos } = await ask(way, is_stream, long);
      expect({ status, prompt, is_stream, actual_cost_nanos }).toEqual({
        ...{ status: 200, prompt, is_stream },
        actual_cost_nanos: cost(prompt - cached, cached, dear),
      });
    }
  }
});

test.each(cases)('%s: what is no answer is an error and costs nothing', async (_, way) => {
  const said = JSON.stringify({ error: { message: 'Model is sad', type: 'server_error' } });
  const failing = isFramed(way)
    ? [exceptionFrame('modelErrorException', 'Model is sad')]
    : [
        `event: error\ndata: ${JSON.stringify({ type: 'error', error: { type: 'api_error', message: 'Model is sad' } })}\n\n`,
      ];
  const answers: [string, Pieces, string, number, Record<string, string>][] = [
    ['empty', [], 'application/json', 200, {}],
    ['empty stream', [], typeOf(way), 200, {}],
    ['no content', [], '', 204, {}],
    ['error inside', [said], 'application/json', 200, {}],
    ['error inside, packed', [gzipSync(said)], 'application/json', 200, gzipped],
    ['error event', failing, typeOf(way), 200, {}],
    ['redirect', ['<html>'], 'text/html', 302, { location: 'http://169.254.169.254/secret' }],
    ['page', ['<html>Bad gateway</html>'], 'text/html', 200, {}],
    [
      'half a packing',
      [gzipSync(whole(way, 10, 0)).subarray(0, 30)],
      'application/json',
      200,
      gzipped,
    ],
    ['no packing', [whole(way, 10, 0)], 'application/json', 200, gzipped],
  ];
  for (const is_stream of [false, true])
    for (const [what, pieces, type, status, headers] of answers) {
      if (what === 'error event' && !is_stream) continue;
      upstream.play(pieces, type, status, headers);
      const answer = await ask(way, is_stream);
      const at = { what, is_stream };
      expect({ ...at, ok: answer.status >= 400, status: answer.status }).toMatchObject({
        ...at,
        ok: true,
      });
      const { error } = JSON.parse(answer.text);
      expect({ ...at, error }).toMatchObject({
        ...at,
        error: { message: expect.stringMatching(/./) },
      });
      if (what.startsWith('error')) expect(error.message).toContain('Model is sad');
      expect(answer.text).not.toContain('169.254');
      expect({ ...at, nanos: answer.actual_cost_nanos }).toEqual({ ...at, nanos: 0n });
    }
});

test.each(cases)('%s: a tier of service is charged if its provider heard of it', async (_, way) => {
  upstream.play([whole(way, 1_000, 0)], 'application/json');
  const { held_nanos: usual } = await ask(way, false);
  for (const [service_tier, percent] of [
    ['flex', 50n],
    ['priority', 200n],
  ] as const)
    for (const is_stream of [false, true]) {
      // The answer does not say which tier served.
      if (is_stream) upstream.play(stream(way, events(way, 1_000, 0)), typeOf(way));
      else upstream.play([whole(way, 1_000, 0)], 'application/json');
      const asked = await ask(way, is_stream, 'Hello', { service_tier });
      const { status, text, actual_cost_nanos, held_nanos } = asked;
      expect([status, text]).toEqual([200, expect.stringContaining('Hi there')]);
      const is_heard = tierIn(upstream.arrived[0]?.body ?? {}) === service_tier;
      // The ordinary tier may serve all the same.
      expect(held_nanos).toBe(is_heard && service_tier === 'priority' ? 2n * usual : usual);
      expect({ service_tier, is_stream, is_heard, actual_cost_nanos }).toEqual({
        ...{ service_tier, is_stream, is_heard },
        actual_cost_nanos: is_heard ? (cost(1_000, 0) * percent) / 100n : cost(1_000, 0),
      });
    }
});

test.each<[id: string, headers: Record<string, string>, more: object, percent: bigint]>([
  ['gemini-gemini', { 'x-gemini-service-tier': 'STANDARD' }, {}, 100n],
  ['gemini-gemini', { 'x-gemini-service-tier': 'flex' }, {}, 50n],
  ['bedrock-converse', {}, { serviceTier: { type: 'default' } }, 100n],
  ['bedrock-converse', {}, { serviceTier: { type: 'flex' } }, 50n],
])(
  '%s: the tier that %j or %j tells is charged, whatever was asked',
  async (id, headers, more, percent) => {
    const way = ways.find((one) => one.id === id) as Way;
    const body = { ...JSON.parse(whole(way, 1_000, 0)), ...more };
    upstream.play([JSON.stringify(body)], 'application/json', 200, headers);
    const { actual_cost_nanos } = await ask(way, false, 'Hello', { service_tier: 'priority' });
    expect(actual_cost_nanos).toBe((cost(1_000, 0) * percent) / 100n);
  },
);

test.each(cases)('%s: what repeats the key is told without it', async (_, way) => {
  const message = 'Unknown header: Bearer upstream-secret';
  const bodies = [{ error: { message, type: 'invalid_request_error' } }, { detail: message }];
  for (const status of [200, 400, 422, 500])
    for (const body of bodies) {
      upstream.play([JSON.stringify(body)], 'application/json', status);
      const { text } = await ask(way, false);
      expect([status, text]).toEqual([status, expect.not.stringContaining('upstream-secret')]);
    }
});

test.each(cases)('%s: a stream that is cut is told, and charged for what came', async (_, way) => {
  const all = events(way, 1_000, 0);
  const pieces = stream(
    way,
    all.slice(0, way.shape === 'anthropic' ? 3 : way.shape === 'converse' ? 2 : 1),
  );
  if (way.shape === 'openai') pieces.pop();
  upstream.play(pieces, typeOf(way));
  const { status, text, actual_cost_nanos } = await ask(way, true);
  expect([status, text]).toEqual([200, expect.stringContaining('Hi there')]);
  expect(text).toContain('upstream_failed');
  expect(text).not.toMatch(/message_stop|\[DONE\]/);
  expect(actual_cost_nanos).toBeGreaterThan(0n);
});

test('an index that the operator’s own identity reads is asked for nobody', async () => {
  upstream.play(['{}'], 'application/json');
  const key = await gatewayKey(world.api, world.org.org_id);
  const data_sources = [{ type: 'azure_search', parameters: { index_name: 'salaries' } }];
  const body = { ...chat('Hello'), model: 'azure-openai', data_sources };
  const { status, text } = await post(`${url}/v1/chat/completions`, key, body);
  expect([status, JSON.parse(text).error.param]).toEqual([422, 'data_sources']);
  expect(upstream.arrived).toEqual([]);
});
