import { post } from '../../support/gateway';
import { answerOf, openPriced, type Priced } from './priced';

let priced: Priced;
let url: string;

beforeAll(async () => {
  priced = await openPriced();
  url = await priced.urlOf('openai', 'anthropic');
});

afterAll(() => priced.close());

const usage = { prompt_tokens: 1_000, completion_tokens: 100, total_tokens: 1_100 };

const chargeOf = (path: string, body: object, answer: object | string[]) =>
  priced.chargeOf(url + path, body, answer);

const answered = { message: { role: 'assistant', content: 'Yes.' }, finish_reason: 'stop' };
const asked = { model: 's', max_tokens: 200, messages: [{ role: 'user', content: 'Hi' }] };

function chat(request: object, answer: object): Promise<number> {
  const body = { choices: [{ index: 0, ...answered }], usage, ...answer };
  return chargeOf('/v1/chat/completions', { ...asked, ...request }, body);
}

function chatStream(request: object, chunk: object): Promise<number> {
  const chunks = [
    { choices: [{ index: 0, delta: { content: 'Yes.' } }], ...chunk },
    { choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] },
    { choices: [], usage },
  ];
  const frames = [...chunks.map((one) => `data: ${JSON.stringify(one)}\n\n`), 'data: [DONE]\n\n'];
  const body = { ...asked, stream: true, ...request };
  return chargeOf('/v1/chat/completions', body, frames);
}

type Answer = Parameters<typeof answerOf>[0];

function response(request: object, answer: Answer): Promise<number> {
  const body = { model: 's', input: 'Hi', ...request };
  return priced.chargeOf(`${url}/v1/responses`, body, answerOf(answer));
}

test.each([
  ['priority', 0.028],
  ['flex', 0.007],
  ['default', 0.014],
])('chat and Responses answered at the tier %s are charged by it: %d', async (tier, cost) => {
  const request = { model: 'tiered', service_tier: tier };
  const answer = { service_tier: tier };
  expect(await chat(request, answer)).toBe(cost);
  expect(await chatStream(request, answer)).toBe(cost);
  expect(await response(request, answer)).toBe(cost);
  // The tier that answers counts, not the one that was asked for.
  expect(await chat({ model: 'tiered', service_tier: 'auto' }, answer)).toBe(cost);
  expect(await chat({ model: 'tiered' }, answer)).toBe(cost);
  expect(await chat({ model: 'tiered', service_tier: 'priority' }, answer)).toBe(cost);
  // One that answers without a name gave what was asked for.
  expect(await chat(request, {})).toBe(cost);
});

test('an answer of a tier without a price is charged at the base', async () => {
  expect(await chat({}, { service_tier: 'priority' })).toBe(0.014);
  expect(await chat({ service_tier: 'auto' }, { service_tier: 'scale' })).toBe(0.014);
  for (const service_tier of [null, 5, '', 'a b', { x: 1 }])
    expect(await chat({}, { service_tier })).toBe(0.014);
});

test.each<[string, object, object, number]>([
  ['asked for', { web_search_options: {} }, {}, 0.024],
  ['not asked for', {}, {}, 0.014],
  ['of null', { web_search_options: null }, {}, 0.014],
  [
    'counted by the provider',
    { web_search_options: {} },
    { usage: { ...usage, num_search_queries: 3 } },
    0.044,
  ],
  [
    'counted as none',
    { web_search_options: {} },
    { usage: { ...usage, server_tool_use: { web_search_requests: 0 } } },
    0.014,
  ],
])('a search on chat %s', async (_, request, answer, cost) => {
  expect(await chat(request, answer)).toBe(cost);
});

test('a search on a stream of chat is charged too', async () => {
  expect(await chatStream({ web_search_options: {} }, {})).toBe(0.024);
});

test('picture tokens of an answer and of a prompt have prices of their own', async () => {
  const answer = {
    usage: {
      prompt_tokens: 1_000,
      completion_tokens: 1_300,
      prompt_tokens_details: { image_tokens: 400 },
      completion_tokens_details: { image_tokens: 1_290 },
    },
  };
  // 600 x 10 + 400 x 20 + 10 x 40 + 1,290 x 400.
  expect(await chat({ model: 'shown', max_tokens: 2_000 }, answer)).toBe(0.5304);
  expect(await chat({ max_tokens: 2_000 }, answer)).toBe(0.062);
});

const message_usage = { input_tokens: 1_000, output_tokens: 100 };

function claude(request: object, answer: object): Promise<number> {
  const whole = {
    id: 'msg_1',
    type: 'message',
    role: 'assistant',
    content: [{ type: 'text', text: 'Yes.' }],
    stop_reason: 'end_turn',
    usage: message_usage,
    ...answer,
  };
  return chargeOf('/v1/messages', { ...asked, ...request }, whole);
}

const code_result = { type: 'bash_code_execution_tool_result', tool_use_id: 't', content: {} };

test('Messages are charged by the tier and region of their usage, and by the tools that ran', async () => {
  const at = (more: object) => ({ usage: { ...message_usage, ...more } });
  expect(await claude({ model: 'tiered' }, at({ service_tier: 'priority' }))).toBe(0.028);
  expect(await claude({ model: 'tiered' }, at({ service_tier: 'standard' }))).toBe(0.014);
  expect(await claude({ model: 'tiered' }, at({ inference_geo: 'us' }))).toBe(0.0154);
  expect(await claude({ model: 'tiered', inference_geo: 'us' }, {})).toBe(0.0154);
  const tools = { server_tool_use: { web_search_requests: 2 } };
  expect(await claude({}, at(tools))).toBe(0.034);
  const run = { content: [code_result, { type: 'text', text: 'Yes.' }] };
  const asks = { model: 'kinds', tools: [{ type: 'code_execution_20250825', name: 'x' }] };
  expect(await claude(asks, run)).toBe(0.044);
  // A container that a search brings with it is free.
  expect(await claude({ model: 'kinds' }, run)).toBe(0.014);
});

test.each([
  ['read from a cache', { cache_read_input_tokens: 290_000 }, 0.2565],
  ['written for five minutes', { cache_creation_input_tokens: 290_000 }, 2.2575],
  [
    'written for an hour',
    { cache_creation: { ephemeral_1h_input_tokens: 290_000, ephemeral_5m_input_tokens: 0 } },
    3.5625,
  ],
])('a long prompt of Messages, %s', async (_, more, cost) => {
  const used = { input_tokens: 10_000, output_tokens: 1_000, ...more };
  expect(await claude({ model: 'long', max_tokens: 1_000 }, { usage: used })).toBe(cost);
});

const event = (one: { type: string; [member: string]: unknown }) =>
  `event: ${one.type}\ndata: ${JSON.stringify(one)}\n\n`;

test('a stream of Messages tells its tier, its region and its searches on the way', async () => {
  const first = { ...message_usage, output_tokens: 1, service_tier: 'flex', inference_geo: 'us' };
  const none = { server_tool_use: { web_search_requests: 0 } };
  const result = { type: 'web_search_tool_result', tool_use_id: 't', content: [] };
  const begun = [
    event({ type: 'message_start', message: { usage: { ...first, ...none } } }),
    event({ type: 'content_block_start', index: 0, content_block: result }),
    event({ type: 'content_block_delta', index: 1, delta: { type: 'text_delta', text: 'Yes.' } }),
  ];
  const ends = (more: object) => [
    event({
      type: 'message_delta',
      delta: { stop_reason: 'end_turn' },
      usage: { output_tokens: 100, ...more },
    }),
    event({ type: 'message_stop' }),
  ];
  const charge = (model: string, frames: string[]) =>
    chargeOf('/v1/messages', { ...asked, model, stream: true }, frames);
  const told = { server_tool_use: { web_search_requests: 2 } };
  // 0.014 at half the price and 1.1 times it, and the searches at theirs.
  expect(await charge('tiered', [...begun, ...ends(told)])).toBe(0.0277);
  expect(await charge('tiered', [...begun, ...ends({})])).toBe(0.0177);
  // It breaks off after the search, which was seen.
  const cut = await charge('s', begun);
  const without = await charge('s', [begun[0] as string, begun[2] as string]);
  expect(Math.round((cut - without) * 1e9)).toBe(10_000_000);
  const failed = { ...result, content: { type: 'web_search_tool_result_error' } };
  begun[1] = event({ type: 'content_block_start', index: 0, content_block: failed });
  expect(await charge('s', [...begun, ...ends({})])).toBe(0.014);
});

test('unified chat is charged by what the message behind it tells', async () => {
  const body = { ...asked, model: 'tiered' };
  const whole = {
    id: 'msg_1',
    content: [{ type: 'text', text: 'Yes.' }],
    stop_reason: 'end_turn',
    usage: {
      ...message_usage,
      service_tier: 'priority',
      server_tool_use: { web_search_requests: 1 },
    },
  };
  const address = `${await priced.urlOf('anthropic')}/v1/unified/chat/completions`;
  expect(await priced.chargeOf(address, body, whole)).toBe(0.038);
});

test.each<[string, object, string]>([
  ['/v1/chat/completions', { service_tier: 'priority' }, 'service_tier'],
  ['/v1/chat/completions', { service_tier: 'ultra', model: 'tiered' }, 'service_tier'],
  ['/v1/chat/completions', { service_tier: 5 }, 'service_tier'],
  ['/v1/chat/completions', { model: 'plain', web_search_options: {} }, 'web_search_options'],
  ['/v1/chat/completions', { modalities: ['text', 'image'] }, 'modalities'],
  ['/v1/responses', { service_tier: 'flex' }, 'service_tier'],
  ['/v1/responses', { model: 'plain', tools: [{ type: 'web_search' }] }, 'tools'],
  ['/v1/responses', { tools: [{ type: 'image_generation' }] }, 'tools'],
  ['/v1/messages', { inference_geo: 'us' }, 'inference_geo'],
  ['/v1/messages', { model: 'plain', tools: [{ type: 'web_search_20250305' }] }, 'tools'],
])('%s with %j has no price: 422 names it before anything is held', async (path, more, param) => {
  priced.scripted.play(['{}'], 'application/json');
  const body = path === '/v1/responses' ? { model: 's', input: 'Hi' } : asked;
  const count = async () => (await priced.world.api.db('reservations').count())[0]?.count;
  const before = await count();
  const answer = await post(url + path, priced.world.key, { ...body, ...more });
  expect(answer.status).toBe(422);
  expect(JSON.parse(answer.text).error).toMatchObject({
    code: 'invalid_field',
    param,
    message: expect.stringMatching(/price|name/),
  });
  expect(priced.scripted.arrived).toEqual([]);
  expect(await count()).toBe(before);
});
