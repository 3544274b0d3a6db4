import { createServer } from 'node:http';
import { json } from 'node:stream/consumers';
import pino from 'pino';
import type { Settle, Usage } from '../../../domain/ledger/calls';
import { blankPrice } from '../../../domain/ledger/pricing';
import { openControlPlane } from '../../../gateway/control-plane/client';
import { nothing_used } from '../../../gateway/families/usage';
import { listen } from '../../../runtime/listen';
import { lastCharge, openWorld, post, type World } from '../../support/gateway';
import { makePrice } from '../../support/ledger';
import { until } from '../../support/until';
import { openScripted, type Scripted } from '../../support/upstream';

// Usage that the ledger refuses is charged by what the hold was made for, never nothing.

let world: World;
let upstream: Scripted;
let url: string;

beforeAll(async () => {
  world = await openWorld();
  upstream = await openScripted();
  // Input is free and answers are not, so that an answer without output would cost nothing.
  await makePrice(world.api.db, {
    ...blankPrice,
    tiers: null,
    provider: 'scripted',
    model: 'talker',
    input_per_1m: 0,
    output_per_1m: 1,
    image_output_per_1m: 8,
    service_tiers: JSON.stringify({ priority: 2 }),
    regions: JSON.stringify({ us: 1.1 }),
  });
  const target = {
    id: 'scripted',
    base_url: upstream.url,
    api_key_env: 'TEST_MODELS_KEY',
    models: ['talker'],
  };
  const targets = [
    { ...target, provider: 'scripted', shape: 'openai' },
    { ...target, provider: 'scripted', shape: 'anthropic', id: 'messages' },
  ];
  ({ url } = await world.openGateway({ settings: { providers: { targets } } }));
});

afterAll(async () => {
  await upstream.close();
  await world.close();
});

const completion = {
  id: 'c',
  object: 'chat.completion',
  choices: [{ index: 0, message: { role: 'assistant', content: '' }, finish_reason: 'stop' }],
  usage: { prompt_tokens: 9, completion_tokens: 0, total_tokens: 9 },
};
const response = {
  id: 'r',
  object: 'response',
  status: 'completed',
  output: [{ type: 'message', id: 'i', content: [{ type: 'output_text', text: '' }] }],
  usage: { input_tokens: 9, output_tokens: 0, total_tokens: 9 },
};
const message = {
  id: 'm',
  type: 'message',
  role: 'assistant',
  content: [],
  stop_reason: 'end_turn',
  usage: { input_tokens: 9, output_tokens: 0 },
};
const messages = [{ role: 'user', content: 'Hello' }];

test.each<[string, string, object, object, bigint]>([
  ['a chat', 'chat/completions', completion, { messages, max_tokens: 64 }, 64_000n],
  [
    'a chat of a dearer tier',
    'chat/completions',
    { ...completion, service_tier: 'priority' },
    { messages, max_tokens: 64, service_tier: 'priority' },
    128_000n,
  ],
  [
    'a message of a dearer region',
    'messages',
    message,
    { messages, max_tokens: 64, inference_geo: 'us' },
    70_400n,
  ],
])(
  '%s whose usage would cost nothing is charged what was held',
  async (_, route, answer, more, cost) => {
    upstream.play([JSON.stringify(answer)], 'application/json');
    const asked = await post(`${url}/v1/${route}`, world.key, { model: 'talker', ...more });
    expect(asked.status).toBe(200);
    expect(await lastCharge(world, world.org.org_id)).toMatchObject({
      status: 'settled',
      usage_source: 'estimated',
      held_nanos: cost,
      actual_cost_nanos: cost,
    });
  },
);

test('pictures that a tool may make are charged as they were held', async () => {
  upstream.play([JSON.stringify(response)], 'application/json');
  const body = { model: 'talker', input: 'Draw', max_output_tokens: 64 };
  const tools = [{ type: 'image_generation' }];
  expect((await post(`${url}/v1/responses`, world.key, { ...body, tools })).status).toBe(200);
  const charge = await lastCharge(world, world.org.org_id);
  expect(charge).toMatchObject({ status: 'settled', usage_source: 'estimated' });
  expect(charge.actual_cost_nanos).toBe(charge.held_nanos);
  expect(charge.held_nanos).toBeGreaterThan(64_000n);
});

// What a settle may say to an API of the version before.
const older = new Set([
  ...['prompt_tokens', 'completion_tokens', 'cached_tokens', 'cache_write_tokens'],
  ...['cache_write_1h_tokens', 'reasoning_tokens', 'audio_input_tokens', 'audio_output_tokens'],
  ...['characters', 'seconds', 'tool_calls'],
]);

/** An API that refuses what the version before does not know, and notes what it hears. */
async function openOlderApi() {
  const heard: Settle[] = [];
  const server = createServer(async (req, res) => {
    const { items } = (await json(req)) as { items: { id: string; body: Settle }[] };
    for (const { id, body } of items) {
      heard.push(body);
      const names = Object.keys(body.usage ?? {});
      const is_known = body.stored_ids === undefined && names.every((name) => older.has(name));
      const refused = { error: { code: 'invalid_field', message: 'It has unknown fields.' } };
      const reply = is_known ? { status: 200, body: {} } : { status: 422, body: refused };
      res.write(`${JSON.stringify({ id, ...reply })}\n`);
    }
    res.end();
  });
  const at = `http://127.0.0.1:${await listen(server, 0)}`;
  return { heard, at, close: () => new Promise((resolve) => server.close(resolve)) };
}

test('an API of the version before, which refuses what it does not know, takes the last estimate', async () => {
  const { heard, at, close } = await openOlderApi();
  const lines: Record<string, unknown>[] = [];
  const log = pino({ level: 'error' }, { write: (line: string) => lines.push(JSON.parse(line)) });
  const control_plane = openControlPlane({ urls: [at], token: 'svc_ak_test' }, log);
  const estimate: Usage = {
    ...nothing_used,
    prompt_tokens: 10,
    completion_tokens: 64,
    image_output_tokens: 9,
    characters: 5,
    web_searches: 2,
    containers: 1,
    service_tier: 'priority',
    region: 'us',
  };
  control_plane.settle(
    {
      org_id: 'org_1',
      reservation_id: 'res_1',
      outcome: 'completed',
      usage: { ...nothing_used, prompt_tokens: 5, service_tier: 'priority' },
      usage_source: 'upstream',
      stored_ids: [{ kind: 'response', id: 'r', provider: 'openai' }],
    },
    estimate,
  );
  await until(() => control_plane.unsettled() === 0);
  await control_plane.close();
  await close();
  const [, second, third] = heard;
  expect(heard).toHaveLength(3);
  // The API of today is told all, so that nothing is charged at the base, and binds the ids.
  expect(second).toMatchObject({ usage: estimate, stored_ids: [{ id: 'r' }] });
  expect(third).toEqual({
    org_id: 'org_1',
    reservation_id: 'res_1',
    outcome: 'completed',
    usage: {
      ...nothing_used,
      prompt_tokens: 10,
      completion_tokens: 64,
      characters: 5,
      tool_calls: 3,
    },
    usage_source: 'estimated',
  });
  expect(lines.map(({ msg }) => msg)).toEqual([
    'a usage was refused, the estimate is charged: It has unknown fields.',
  ]);
});

test('what an answer delivered before it failed is charged by an API of the version before too', async () => {
  const { heard, at, close } = await openOlderApi();
  const control_plane = openControlPlane(
    { urls: [at], token: 'svc_ak_test' },
    pino({ level: 'silent' }),
  );
  const usage = { ...nothing_used, prompt_tokens: 5, completion_tokens: 2, web_searches: 1 };
  control_plane.settle(
    {
      org_id: 'org_1',
      reservation_id: 'res_1',
      outcome: 'failed',
      usage,
      usage_source: 'estimated',
      stored_ids: [{ kind: 'response', id: 'r', provider: 'openai' }],
    },
    { ...nothing_used, prompt_tokens: 10, completion_tokens: 64 },
  );
  await until(() => control_plane.unsettled() === 0);
  await control_plane.close();
  await close();
  expect(heard).toHaveLength(2);
  expect(heard[1]).toMatchObject({
    outcome: 'failed',
    usage: { prompt_tokens: 5, completion_tokens: 2, tool_calls: 1 },
  });
});

test.each<['completed' | 'failed', number]>([
  ['completed', 64],
  ['failed', 2],
])(
  'an answer of a model that its hold has not frozen is %s and charged at the price of the hold',
  async (outcome, completion_tokens) => {
    const heard: Settle[] = [];
    const server = createServer(async (req, res) => {
      const { items } = (await json(req)) as { items: { id: string; body: Settle }[] };
      for (const { id, body } of items) {
        heard.push(body);
        const error = { code: 'invalid_field', param: 'model', message: 'It is not frozen.' };
        const is_frozen = body.model === undefined;
        const reply = is_frozen ? { status: 200, body: {} } : { status: 422, body: { error } };
        res.write(`${JSON.stringify({ id, ...reply })}\n`);
      }
      res.end();
    });
    const at = `http://127.0.0.1:${await listen(server, 0)}`;
    const log = pino({ level: 'silent' });
    const control_plane = openControlPlane({ urls: [at], token: 'svc_ak_test' }, log);
    const hold = { org_id: 'org_1', reservation_id: 'res_1' };
    control_plane.settle(
      {
        ...hold,
        outcome,
        provider: 'openai',
        model: 'o3',
        provider_key_id: 'pk_1',
        usage: { ...nothing_used, prompt_tokens: 5, completion_tokens: 2 },
        usage_source: 'upstream',
      },
      { ...nothing_used, prompt_tokens: 10, completion_tokens: 64 },
    );
    await until(() => control_plane.unsettled() === 0);
    await control_plane.close();
    await new Promise((resolve) => server.close(resolve));
    const last = heard.at(-1);
    expect(last).toMatchObject({ ...hold, outcome, usage: { completion_tokens } });
    for (const name of ['provider', 'model', 'provider_key_id'])
      expect(last).not.toHaveProperty(name);
  },
);
