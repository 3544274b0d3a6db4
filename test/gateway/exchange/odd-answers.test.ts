import { cpuMsOf, leastOf } from '../../support/cpu';
import { post } from '../../support/gateway';
import { until } from '../../support/until';
import { ask, openScriptedGateway, requests, transcribe, upstream, world } from './scripted';
import { data, delta, named, usage } from './streamed';

// Answers in odd forms, and figures beside the tokens that nobody can have used.

const choices = [{ index: 0, message: { content: 'Hi' }, finish_reason: 'stop' }];
const json = (body: object, type = 'application/json') =>
  upstream.play([JSON.stringify(body)], type);

test('a response of very many items is read in time that grows with them', async () => {
  const output = Array.from({ length: 20_000 }, (_, at) => ({
    type: 'web_search_call',
    id: `${at}`,
  }));
  const told = { input_tokens: 1_000, output_tokens: 5 };
  json({ id: 'r', status: 'completed', output, usage: told });
  const costs = () => cpuMsOf(async () => expect((await ask('responses')).status).toBe(200));
  expect(await leastOf(3, 15_000, costs)).toBeLessThan(15_000);
});

test.each([undefined, null, {}, 'x', 5, true])(
  'a message whose content is %j is one without content',
  async (content) => {
    const message = { type: 'message', stop_reason: 'end_turn', content };
    json({ ...message, usage: { input_tokens: 10, output_tokens: 1 } });
    const { status, text } = await ask('unified');
    expect([status, JSON.parse(text).choices[0].message.content]).toEqual([200, '']);
  },
);

test.each(['text/html', 'text/plain', 'application/octet-stream', 'text/event-stream', ''])(
  'an answer that is labelled "%s" reaches the client as the JSON that it is',
  async (type) => {
    json({ id: 'c', choices, usage }, type);
    const { status, headers, charge } = await ask('chat');
    expect([status, headers['content-type']]).toEqual([200, 'application/json']);
    expect(charge.status).toBe('settled');
  },
);

test('a total that comes before its shares gives way to them', async () => {
  const shares = { prompt_tokens: 1_000, completion_tokens: 5, total_tokens: 1_005 };
  const ended = { choices: [{ index: 0, delta: {}, finish_reason: 'stop' }], usage: shares };
  upstream.play([
    data({ ...delta('Hi'), usage: { total_tokens: 1_005 } }, ended),
    'data: [DONE]\n\n',
  ]);
  const { charge } = await ask('chat', { stream: true });
  expect(charge).toMatchObject({
    usage_source: 'upstream',
    usage: { prompt_tokens: 1_000, completion_tokens: 5 },
  });
});

test('several choices without a cap are charged as told, within their bytes', async () => {
  const content = 'x'.repeat(30_000);
  const both = [0, 1].map((index) => ({ index, message: { content }, finish_reason: 'stop' }));
  json({ choices: both, usage: { prompt_tokens: 10, completion_tokens: 20_000 } });
  const { charge } = await ask('chat', { n: 2, max_tokens: null });
  expect(charge.usage.completion_tokens).toBe(20_000);
});

const search = { tools: [{ type: 'web_search' }] };
const response = (more: object) => ({
  id: 'r',
  status: 'completed',
  output: [{ type: 'message', content: [{ type: 'output_text', text: 'Hi' }] }],
  usage: { input_tokens: 10, output_tokens: 5 },
  ...more,
});

test.each<['responses' | 'chat', object, object, number]>([
  ['responses', response({ tool_usage: { web_search: { num_requests: 1e9 } } }), search, 100],
  [
    'responses',
    response({ tool_usage: { web_search: { num_requests: 500 } } }),
    { ...search, max_tool_calls: 2 },
    2,
  ],
  ['chat', { choices, usage: { ...usage, num_search_queries: 900 } }, {}, 100],
])(
  'searches of %s are bounded by what was allowed, else by a hundred',
  async (name, told, more, most) => {
    json(told);
    const { charge } = await ask(name, more as Record<string, unknown>);
    expect(charge.usage.web_searches).toBe(most);
  },
);

test('a sound lasts no longer than its bytes can hold', async () => {
  for (const told of [{ usage: { type: 'duration', seconds: 1e9 } }, { duration: 1e300 }]) {
    json({ text: 'Hi', ...told });
    const { status, charge } = await transcribe();
    expect(status).toBe(200);
    expect(charge.usage.seconds).toBeLessThan(500);
  }
});

test('a sound whose samples cannot be counted may last as long as its bytes allow, whatever it says', async () => {
  const value = Buffer.alloc(2_000_000, 'A');
  const parts = [
    { name: 'file', value, file: 'voice.m4a' },
    { name: 'model', value: 'whisper-1' },
  ];
  json({ text: 'Hi', usage: { type: 'duration', seconds: 3_000 } });
  expect((await transcribe(parts)).charge.usage.seconds).toBe(3_000);
  json({ text: 'Hi', usage: { type: 'duration', seconds: 1e9 } });
  expect((await transcribe(parts)).charge.usage.seconds).toBeLessThan(5_000);
});

test('speech and embeddings have no more tokens than their input allows', async () => {
  upstream.play([
    named('speech.audio.delta', { audio: 'QUJD' }),
    named('speech.audio.done', { usage: { input_tokens: 2, output_tokens: 9e12 } }),
  ]);
  const spoken = await ask('speech', { stream_format: 'sse' });
  expect(spoken.charge.usage.completion_tokens).toBeLessThan(1_000);
  json({ data: [{ embedding: [1] }], usage: { prompt_tokens: 1, completion_tokens: 9e15 } });
  const embedded = await ask('embeddings');
  expect(embedded.charge.usage.completion_tokens).toBe(0);
});

test('a target whose trial was left by its client is tried again', async () => {
  const breaker = { enabled: true, failures: 1, open_ms: 50 };
  const gateway = await openScriptedGateway({ circuit_breaker: breaker });
  const [path, body] = requests.chat;
  const call = () => post(gateway.url + path, world.key, body);
  upstream.play(['{}'], 'application/json', 500);
  expect((await call()).status).toBe(502);
  upstream.play(['{', '}'], 'application/json');
  await until(async () => {
    const gone = new AbortController();
    let is_refused = false;
    const asked = fetch(gateway.url + path, {
      method: 'POST',
      headers: { authorization: `Bearer ${world.key}`, 'content-type': 'application/json' },
      body: JSON.stringify(body),
      signal: gone.signal,
    }).then(
      () => {
        is_refused = true;
      },
      () => undefined,
    );
    await until(() => upstream.arrived.length > 0 || is_refused);
    gone.abort();
    await asked;
    return upstream.arrived.length > 0;
  });
  json({ choices, usage });
  await until(async () => (await call()).status === 200);
});
