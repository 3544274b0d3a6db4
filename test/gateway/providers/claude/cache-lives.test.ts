import { blankPrice } from '../../../../domain/ledger/pricing';
import { gatewayKey, lastCharge, openWorld, post, type World } from '../../../support/gateway';
import { credit, makeOrg, makePrice } from '../../../support/ledger';
import { openScripted, type Scripted } from '../../../support/upstream';

// What is written to a cache for an hour costs more than what is written for five minutes, and not
// every answer says which of them it was.

let world: World;
let upstream: Scripted;
const price = {
  ...blankPrice,
  ...{ tiers: null, model: 'm', input_per_1m: 3, output_per_1m: 15, cached_input_per_1m: 0.3 },
  ...{ cache_write_per_1m: 3.75, cache_write_1h_per_1m: 6 },
};

beforeAll(async () => {
  world = await openWorld();
  upstream = await openScripted();
  for (const provider of ['openrouter', 'bedrock', 'anthropic', 'openai'])
    await makePrice(world.api.db, { ...price, provider });
});
afterAll(async () => {
  await world.close();
  await upstream.close();
});

const WRITTEN = 60_000;
// Ten tokens each of other input and of output.
const REST = 10n * 3_000n + 10n * 15_000n;
const FOR_HOUR = BigInt(WRITTEN) * 6_000n + REST;
const FOR_MINUTES = BigInt(WRITTEN) * 3_750n + REST;

const text = 'word '.repeat(WRITTEN);
const marked = (...lives: (string | undefined)[]) => ({
  messages: [
    {
      role: 'user',
      content: lives.map((ttl, at) => ({
        ...{ type: 'text', text: at === 0 ? text : 'Hi' },
        cache_control: { type: 'ephemeral', ...(ttl && { ttl }) },
      })),
    },
  ],
});

interface Asked {
  target: object;
  route: string;
  answer: object | string[];
  more?: object;
}

/** The answer to a call by this key, from a gateway of its own. */
async function ask(key: string, { target, route, answer, more = {} }: Asked, asked: object) {
  const row = { id: 't', auth: { key_env: 'TEST_MODELS_KEY' }, models: ['m'], ...target };
  const targets = [{ base_url: `${upstream.url}/v1`, ...row }];
  const { url } = await world.openGateway({ settings: { providers: { targets } } });
  if (Array.isArray(answer)) upstream.play(answer);
  else upstream.play([JSON.stringify(answer)], 'application/json');
  return post(url + route, key, { model: 'm', max_tokens: 100, ...asked, ...more });
}

async function chargeOf(call: Asked, asked: object) {
  const key = await gatewayKey(world.api, world.org.org_id);
  const { status, text: said } = await ask(key, call, asked);
  expect({ status, said }).toMatchObject({ status: 200 });
  return lastCharge(world, world.org.org_id);
}

async function settled(call: Asked, asked: object) {
  return (await chargeOf(call, asked)).actual_cost_nanos;
}

const chat = '/v1/chat/completions';
const unified = '/v1/unified/chat/completions';
const choice = { index: 0, message: { role: 'assistant', content: 'Hi' }, finish_reason: 'stop' };
const completion = (details: object) => ({
  ...{ id: 'x', object: 'chat.completion', model: 'm', choices: [choice] },
  usage: {
    ...{ prompt_tokens: WRITTEN + 10, completion_tokens: 10, total_tokens: WRITTEN + 20 },
    prompt_tokens_details: { cached_tokens: 0, ...details },
  },
});
const used = { input_tokens: 10, output_tokens: 10 };
const message = (usage: object) => ({
  ...{ id: 'x', type: 'message', role: 'assistant', model: 'm', stop_reason: 'end_turn' },
  ...{ content: [{ type: 'text', text: 'Hi' }], usage: { ...used, ...usage } },
});
const events = (usage: object, metrics?: object) =>
  [
    { type: 'message_start', message: { ...message(usage), content: [] } },
    { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } },
    { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'Hi' } },
    { type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage: { output_tokens: 10 } },
    { type: 'message_stop', ...metrics },
  ].map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`);
const converse = (details: object) => ({
  ...{ output: { message: { role: 'assistant', content: [{ text: 'Hi' }] } } },
  stopReason: 'end_turn',
  usage: {
    ...{ inputTokens: 10, outputTokens: 10, totalTokens: WRITTEN + 20 },
    ...{ cacheReadInputTokens: 0, cacheWriteInputTokens: WRITTEN, ...details },
  },
});

const anthropic = { kind: 'anthropic' };
const bedrock = { kind: 'bedrock', region: 'eu-west-1' };
const upstream_name = 'eu.anthropic.claude-opus-5-5';
const over_converse = {
  ...{ ...bedrock, shape: 'converse' },
  models: [{ name: 'm', upstream: upstream_name, price_as: 'm' }],
};
const sum = { cache_creation_input_tokens: WRITTEN };
const split = (minutes: number, hour: number) => ({
  ...sum,
  cache_creation: { ephemeral_5m_input_tokens: minutes, ephemeral_1h_input_tokens: hour },
});
const metrics = {
  'amazon-bedrock-invocationMetrics': {
    ...{ inputTokenCount: 10, outputTokenCount: 10 },
    ...{ cacheReadInputTokenCount: 0, cacheWriteInputTokenCount: WRITTEN },
  },
};
const streamed = { more: { stream: true } };
const answers: Record<'a sum' | 'lives', [string, Asked][]> = {
  'a sum': [
    [
      'chat',
      {
        target: { kind: 'openrouter' },
        route: chat,
        answer: completion({ cache_write_tokens: WRITTEN }),
      },
    ],
    ['Messages', { target: anthropic, route: '/v1/messages', answer: message(sum) }],
    ['a stream', { target: anthropic, route: '/v1/messages', answer: events(sum), ...streamed }],
    ['a translation', { target: anthropic, route: unified, answer: message(sum) }],
    [
      'a translated stream',
      { target: anthropic, route: unified, answer: events(sum), ...streamed },
    ],
    [
      'the metrics of Bedrock',
      { target: bedrock, route: '/v1/messages', answer: events({}, metrics), ...streamed },
    ],
    ['Converse', { target: over_converse, route: unified, answer: converse({}) }],
  ],
  lives: [
    ['Messages', { target: anthropic, route: '/v1/messages', answer: message(split(WRITTEN, 0)) }],
    [
      'a stream',
      {
        ...{ target: anthropic, route: '/v1/messages', ...streamed },
        answer: events(split(WRITTEN, 0)),
      },
    ],
    ['a translation', { target: anthropic, route: unified, answer: message(split(WRITTEN, 0)) }],
    [
      'a translated stream',
      { target: anthropic, route: unified, answer: events(split(WRITTEN, 0)), ...streamed },
    ],
    [
      'Converse',
      {
        ...{ target: over_converse, route: unified },
        answer: converse({ cacheDetails: [{ ttl: '5m', inputTokens: WRITTEN }] }),
      },
    ],
  ],
};

test.each(answers['a sum'])(
  'a sum of what was written is charged for the life that was asked for: %s',
  async (_, asked) => {
    expect(await settled(asked, marked('1h'))).toBe(FOR_HOUR);
    expect(await settled(asked, marked(undefined))).toBe(FOR_MINUTES);
    expect(await settled(asked, marked('5m', '1h'))).toBe(FOR_HOUR);
  },
);

test.each(answers.lives)(
  'what an answer says of lives goes before what was asked for: %s',
  async (_, asked) => {
    expect(await settled(asked, marked('5m', '1h'))).toBe(FOR_MINUTES);
  },
);

test('a mark that a provider does not get says nothing of what it writes', async () => {
  const answer = completion({ cache_write_tokens: WRITTEN });
  const asked = { target: { kind: 'openai' }, route: chat, answer };
  expect(await settled(asked, marked('1h'))).toBe(FOR_MINUTES);
});

const claude_call = {
  target: anthropic,
  route: '/v1/messages',
  answer: message(split(0, WRITTEN)),
};

test('what is marked is held for at the price of writes, where a provider gets the mark', async () => {
  const heldFor = async (call: Asked, asked: object) => (await chargeOf(call, asked)).held_nanos;
  const { messages } = marked(undefined);
  const content = messages
    .flatMap((one) => one.content)
    .map(({ type, text: said }) => ({ type, text: said }));
  const plain = await heldFor(claude_call, { messages: [{ role: 'user', content }] });
  const minutes = await heldFor(claude_call, marked(undefined));
  const hour = await heldFor(claude_call, marked('1h'));
  expect(minutes - plain).toBeGreaterThan(BigInt(WRITTEN) * 750n);
  expect(hour - plain).toBe(4n * (minutes - plain));
  const openai = { target: { kind: 'openai' }, route: chat, answer: completion({}) };
  expect(await heldFor(openai, marked('1h'))).toBe(
    await heldFor(openai, { messages: [{ role: 'user', content }] }),
  );
});

test('a wallet that could pay for the prompt alone is asked for what its cache costs', async () => {
  const { db } = world.api;
  const { org_id, org_wallet } = await makeOrg(db, {});
  await credit(db, org_id, org_wallet, 230_000_000n);
  const key = await gatewayKey(world.api, org_id);
  const { status, text: said } = await ask(key, claude_call, marked('1h'));
  expect({ status, said }).toMatchObject({ status: 402 });
  expect(JSON.parse(said).cost_ticket).toBeDefined();
  expect(upstream.arrived).toEqual([]);
  await credit(db, org_id, org_wallet, 250_000_000n);
  expect((await ask(key, claude_call, marked('1h'))).status).toBe(200);
  const { actual_cost_nanos, held_nanos } = await lastCharge(world, org_id);
  expect(actual_cost_nanos).toBe(FOR_HOUR);
  expect(held_nanos).toBeGreaterThanOrEqual(actual_cost_nanos);
});
