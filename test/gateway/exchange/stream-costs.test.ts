import { chat, message, type World } from '../../support/gateway';
import { type Costs, events, nanosOf, openCosts, streamed, withoutCost } from './costly';
import { data, delta, finish, named, usage } from './streamed';

let costs: Costs;
let world: World;

beforeAll(async () => {
  costs = await openCosts();
  ({ world } = costs);
});

afterAll(() => costs.close());

test.each([
  ['/v1/chat/completions', { ...chat('Hello'), ...streamed }],
  ['/v1/unified/chat/completions', { ...chat('Hello'), ...streamed, model: 'claude-sonnet-4-5' }],
  ['/v1/responses', { model: 'gpt-4o-mini', input: 'Hello', stream: true }],
  ['/v1/messages', message('Hello', { stream: true })],
  ['/v1/completions', { model: 'gpt-4o-mini', prompt: 'Hello', ...streamed }],
])('a stream of %s tells its cost with its last usage, and in a trailer', async (path, body) => {
  const { text, trailers, headers } = await costs.stream(world.url + path, body);
  const told = events(text).filter((event) => JSON.stringify(event).includes('"cost"'));
  expect(told).toHaveLength(1);
  const [event] = told;
  await costs.expectCost(event.response ?? event);
  expect(trailers).toMatchObject({
    'x-svc-cost': (event.response ?? event).usage.cost_details.cost,
    'x-svc-cost-currency': 'USD',
  });
  expect(headers.trailer).toContain('x-svc-cost');
});

test('a stream that asks is another one in its cost alone, byte by byte, and one that does not ask in nothing', async () => {
  const frames = [
    data(delta('He')),
    ': a sign of life\r\n\r\n',
    data(delta('llo'), finish()),
    `data: {"id":"c","choices":[],"usage": {"prompt_tokens":1000 ,"completion_tokens":50,"cost":7,"cost_details":{"upstream":7}} , "x":"\u00fc"}\n\n`,
    'data: [DONE]\n\n',
  ];
  const body = { ...chat('Hi', streamed), model: 'priced' };
  costs.scripted.play(frames);
  const plain = await costs.stream(`${costs.scripted_url}/v1/chat/completions`, body, {});
  expect(plain.text).toBe(frames.join(''));
  expect(plain.headers.trailer).toBeUndefined();
  costs.scripted.play(frames);
  const told = await costs.stream(`${costs.scripted_url}/v1/chat/completions`, body);
  expect(withoutCost(told.text)).toBe(
    frames.join('').replace(',"cost":7,"cost_details":{"upstream":7}', ''),
  );
  await costs.expectCost(events(told.text).at(-1));
});

test('usage in every chunk holds nothing back but the last one', async () => {
  const frames = [
    data({ ...delta('He'), usage: { prompt_tokens: 5, completion_tokens: 1 } }),
    data({ ...delta('llo'), usage: { prompt_tokens: 5, completion_tokens: 2 } }),
    data(finish({ usage })),
    'data: [DONE]\n\n',
  ];
  costs.scripted.play(frames);
  const { text } = await costs.stream(`${costs.scripted_url}/v1/chat/completions`, {
    ...chat('Hi', streamed),
    model: 'priced',
  });
  expect(events(text).map((event) => 'cost' in event.usage)).toEqual([false, false, true]);
});

test('a stream whose client asked for no usage tells the cost in a comment, which no client takes for an event', async () => {
  const { text, trailers } = await costs.stream(
    `${world.url}/v1/chat/completions`,
    chat('Hello', { stream: true }),
  );
  const nanos = await costs.charge();
  expect(nanosOf(trailers['x-svc-cost'] ?? '')).toBe(nanos);
  expect(text).toContain(`\n\n: x-svc-cost ${trailers['x-svc-cost']} USD\n\ndata: [DONE]\n\n`);
  expect(text).not.toContain('prompt_tokens');
});

test('a stream of messages tells so far what it used, and the cost only with the end', async () => {
  costs.scripted.play([
    named('message_start', { message: { usage: { input_tokens: 9, output_tokens: 1 } } }),
    named('content_block_delta', { index: 0, delta: { type: 'text_delta', text: 'Hi' } }),
    named('message_delta', { delta: {}, usage: { output_tokens: 3 } }),
    named('message_delta', { delta: { stop_reason: 'end_turn' }, usage: { output_tokens: 5 } }),
    named('message_stop'),
  ]);
  const { text } = await costs.stream(`${costs.scripted_url}/v1/messages`, {
    ...message('Hi', { stream: true }),
    model: 'priced',
  });
  expect(events(text).map((event) => event.usage?.cost !== undefined)).toEqual([
    false,
    false,
    false,
    true,
    false,
  ]);
});

test('a stream that a policy looks at tells its cost as others do', async () => {
  const { url } = await world.openGateway({
    settings: {
      pack: 'baseline',
      policies: { chain: ['dlp-filter'] },
      policy: { 'dlp-filter': { blocked_terms: ['apollo'], stages: ['output'] } },
    },
  });
  const { text } = await costs.stream(`${url}/v1/chat/completions`, chat('Hello', streamed));
  await costs.expectCost(events(text).at(-1));
  expect(text.endsWith('data: [DONE]\n\n')).toBe(true);
});

test.each([
  ['at once', ['the apollo plan'], 409],
  ['in its middle', ['Hello', ` ${'word '.repeat(400)}`, ' the apollo plan'], 200],
])(
  'a stream that a policy withholds %s says that its cost is pending, and is charged',
  async (_, words, status) => {
    costs.scripted.play([data(...words.map((word) => delta(word)), finish({ usage }))]);
    const targets = [
      {
        ...{ id: 'one', provider: 'openai', shape: 'openai', base_url: costs.scripted.url },
        ...{ api_key_env: 'TEST_MODELS_KEY', models: ['priced'] },
      },
    ];
    const { url } = await world.openGateway({
      settings: {
        pack: 'baseline',
        providers: { targets },
        policies: { chain: ['dlp-filter'] },
        policy: { 'dlp-filter': { blocked_terms: ['apollo'], stages: ['output'] } },
      },
    });
    const body = { ...chat('Hi', streamed), model: 'priced' };
    const { text, trailers, headers } = await costs.stream(`${url}/v1/chat/completions`, body);
    expect(text).not.toContain('apollo');
    const told = status === 409 ? headers : trailers;
    expect(told['x-svc-cost-status']).toBe('pending');
    expect(told['x-svc-cost']).toBeUndefined();
    expect(await costs.charge()).toBeGreaterThan(0n);
  },
);

test('a stream that breaks off tells behind its end what was charged of it', async () => {
  costs.scripted.play([data(delta('Hello'), delta(' world'))]);
  const body = { ...chat('Hi', streamed), model: 'priced' };
  const { text, trailers } = await costs.stream(`${costs.scripted_url}/v1/chat/completions`, body);
  expect(text).toContain('upstream_failed');
  expect(nanosOf(trailers['x-svc-cost'] ?? '')).toBe(await costs.charge());
});
