import { blankPrice } from '../../../domain/ledger/pricing';
import { chat, gatewayKey, lastCharge, openWorld, post, type World } from '../../support/gateway';
import { makePrice } from '../../support/ledger';
import { openScripted, type Scripted } from '../../support/upstream';

// What providers call the same counts, and the same money by every path.

let world: World;
let upstream: Scripted;
let url: string;
const kinds = ['deepseek', 'xai', 'gemini', 'together', 'groq', 'vllm', 'mistral', 'openrouter'];

beforeAll(async () => {
  world = await openWorld();
  upstream = await openScripted();
  for (const provider of kinds) {
    const price = { input_per_1m: 1, cached_input_per_1m: 0.1, output_per_1m: 10 };
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

const cost = (fresh: number, cached: number, out: number) =>
  BigInt(fresh) * 1_000n + BigInt(cached) * 100n + BigInt(out) * 10_000n;
const text = { role: 'assistant', content: 'Hi' };
const frames = (...all: object[]) => [
  ...all.map((one) => `data: ${JSON.stringify(one)}\n\n`),
  'data: [DONE]\n\n',
];
const ended = { index: 0, delta: {}, finish_reason: 'stop' };

/** Who tells it so, in which members, and what it comes to. */
const tellings: [kind: string, members: object, nanos: bigint][] = [
  [
    'deepseek',
    {
      usage: {
        prompt_tokens: 1_000,
        completion_tokens: 10,
        total_tokens: 1_010,
        prompt_cache_hit_tokens: 900,
        prompt_cache_miss_tokens: 100,
      },
    },
    cost(100, 900, 10),
  ],
  [
    'together',
    {
      usage: {
        prompt_tokens: 1_000,
        completion_tokens: 10,
        total_tokens: 1_010,
        cached_tokens: 900,
      },
    },
    cost(100, 900, 10),
  ],
  [
    'xai',
    {
      usage: {
        prompt_tokens: 1_000,
        completion_tokens: 10,
        total_tokens: 1_050,
        completion_tokens_details: { reasoning_tokens: 40 },
        cost_in_usd_ticks: 1,
      },
    },
    cost(1_000, 0, 50),
  ],
  [
    // Thoughts stand in the total alone.
    'gemini',
    { usage: { prompt_tokens: 1_000, completion_tokens: 10, total_tokens: 1_050 } },
    cost(1_000, 0, 50),
  ],
  [
    'groq',
    { x_groq: { usage: { prompt_tokens: 1_000, completion_tokens: 10, total_tokens: 1_010 } } },
    cost(1_000, 0, 10),
  ],
  [
    'openrouter',
    {
      usage: {
        prompt_tokens: 1_000,
        completion_tokens: 10,
        total_tokens: 1_010,
        prompt_tokens_details: { cached_tokens: 900 },
        cost: 0.5,
      },
    },
    cost(100, 900, 10),
  ],
];

test.each(tellings)(
  '%s tells its usage by its own names, and is charged alike',
  async (kind, told, nanos) => {
    const ask = async (stream: boolean) => {
      const caller = await gatewayKey(world.api, world.org.org_id);
      const body = { ...chat('Hello'), model: kind, ...(stream ? { stream } : {}) };
      const { status } = await post(`${url}/v1/chat/completions`, caller, body);
      const { actual_cost_nanos, usage } = await lastCharge(world, world.org.org_id);
      const { prompt_tokens = 0, completion_tokens = 0 } = usage;
      return { status, actual_cost_nanos, sum: prompt_tokens + completion_tokens };
    };
    const whole = { choices: [{ index: 0, message: text, finish_reason: 'stop' }], ...told };
    upstream.play([JSON.stringify(whole)], 'application/json');
    const paid = await ask(false);
    expect(paid).toMatchObject({ status: 200, actual_cost_nanos: nanos });
    expect(paid.sum).toBeLessThanOrEqual(1_050);
    const role = { choices: [{ index: 0, delta: text }] };
    const streams = [
      // A chunk of its own, one with a choice, and usage so far with every chunk.
      frames(role, { choices: [ended] }, { choices: [], ...told }),
      frames(role, { choices: [ended], ...told }),
      frames({ ...role, ...told }, { choices: [ended], ...told }),
    ];
    for (const pieces of streams) {
      upstream.play(pieces);
      expect(await ask(true)).toEqual(paid);
    }
  },
);

test.each(kinds)('%s without a word of usage is never free', async (kind) => {
  for (const stream of [false, true]) {
    const whole = { choices: [{ index: 0, message: text, finish_reason: 'stop' }] };
    if (stream)
      upstream.play(frames({ choices: [{ index: 0, delta: text }] }, { choices: [ended] }));
    else upstream.play([JSON.stringify(whole)], 'application/json');
    const caller = await gatewayKey(world.api, world.org.org_id);
    const body = { ...chat('Hello'), model: kind, ...(stream ? { stream } : {}) };
    expect((await post(`${url}/v1/chat/completions`, caller, body)).status).toBe(200);
    const { actual_cost_nanos, usage_source } = await lastCharge(world, world.org.org_id);
    expect(usage_source).not.toBe('upstream');
    expect(actual_cost_nanos).toBeGreaterThan(0n);
  }
});

test.each([
  ['models', ['a', 'b']],
  ['plugins', [{ id: 'web' }]],
  ['provider', { order: ['a'] }],
  ['route', 'fallback'],
  ['search_parameters', { mode: 'on' }],
  ['fallbacks', ['a']],
])('"%s" changes who serves or what it costs, and reaches no aggregator', async (name, value) => {
  upstream.play(['{}'], 'application/json');
  const caller = await gatewayKey(world.api, world.org.org_id);
  const body = { ...chat('Hello'), model: 'openrouter', [name]: value };
  const { status, text: said } = await post(`${url}/v1/chat/completions`, caller, body);
  expect([status, JSON.parse(said).error.param]).toEqual([422, name]);
  expect(upstream.arrived).toEqual([]);
});
