import { gzipSync } from 'node:zlib';
import { ask, names, streaming, transcribe, upstream } from './scripted';
import { data, delta, finish, named, usage } from './streamed';

// A status of success is no answer yet: what comes must be one of its family. What is none reaches
// nobody as a success, and costs nothing.

const free = { status: 'released', outcome: 'failed', actual_cost_nanos: 0n };
const error = { message: 'x', code: 502 };

type Nothing = [string, string | Buffer, string?, Record<string, string>?];

const json = 'application/json';
const packed = { 'content-encoding': 'gzip' };

const nothings: Nothing[] = [
  ['an error', JSON.stringify({ error })],
  ['an error beside no choices', JSON.stringify({ error, choices: [] })],
  ['an error in a choice', JSON.stringify({ choices: [{ index: 0, error }] })],
  ['an error as a text', JSON.stringify({ error: 'The model is not loaded.' })],
  ['an object that is an error', JSON.stringify({ object: 'error', message: 'x', code: 502 })],
  ['an error of a type', JSON.stringify({ type: 'error', error: { type: 'api_error' } })],
  ['a detail', JSON.stringify({ detail: 'Model not found.' })],
  ['a message', JSON.stringify({ message: 'Try later.' })],
  ['a list with an error', JSON.stringify([{ error }])],
  ['nothing', ''],
  ['an empty object', '{}'],
  ['null', 'null'],
  ['a list', '[]'],
  ['a number', '5'],
  ['a text', '"Hello"'],
  ['half a JSON', '{"choices":[{"index":0,"message":{"content":"Hel'],
  ['a page', '<!doctype html><title>Welcome</title>'],
  ['a stream of nothing', 'data: [DONE]\n\n', 'text/event-stream'],
  ['an event that is no answer', named('ping'), 'text/event-stream'],
  ['an error as an event', data({ error }), 'text/event-stream'],
  ['a named error', 'event: error\ndata: It broke.\n\n', 'text/event-stream'],
  ['bytes that are not compressed', '{"choices":[]}', json, packed],
  ['an error, compressed', gzipSync(JSON.stringify({ error })), json, packed],
];

describe.each(nothings)('%s', (_, body, type = json, headers = {}) => {
  test.each(names)('is no answer of %s: 502, and nothing is charged', async (name) => {
    upstream.play([body], type, 200, headers);
    const { status, text, charge } = await ask(name);
    expect({ status, charge }).toMatchObject({ status: 502, charge: free });
    expect(JSON.parse(text).error.message).toEqual(expect.any(String));
  });

  test.each(streaming)('is no stream of %s: 502, and nothing is charged', async (name) => {
    upstream.play([body], type, 200, headers);
    const { status, text, charge } = await ask(name, { stream: true });
    expect({ status, charge }).toMatchObject({ status: 502, charge: free });
    expect(JSON.parse(text).error.message).toEqual(expect.any(String));
  });
});

test('what is no answer is none in place of a transcript or of sound, whatever its type says', async () => {
  for (const [body, type] of [
    [JSON.stringify({ error }), 'audio/mpeg'],
    [JSON.stringify({ error }), 'text/plain'],
    ['<html><p>Busy', 'audio/mpeg'],
    ['', 'audio/mpeg'],
    [JSON.stringify({ error: { message: 'You’ve run out of credit' } }), 'application/json'],
    ['<html><p>Zugriff gestört', 'audio/mpeg'],
  ] as const) {
    upstream.play([body], type);
    const spoken = await ask('speech');
    expect({ body, status: spoken.status, charge: spoken.charge }).toMatchObject({
      body,
      status: 502,
      charge: free,
    });
    upstream.play([body], type);
    const written = await transcribe();
    expect({ body, status: written.status, charge: written.charge }).toMatchObject({
      body,
      status: 502,
      charge: free,
    });
  }
});

test.each<[string, object, number]>([
  ['502', { message: 'x', code: 502 }, 502],
  ['503 as a text', { message: 'x', code: '503' }, 503],
  ['429', { message: 'x', code: 429 }, 429],
  ['a word', { message: 'x', code: 'server_error' }, 502],
  ['400', { message: 'x', code: 400 }, 400],
  ['a type that is the fault of the client', { message: 'x', type: 'invalid_request_error' }, 400],
  ['404 within an answer', { message: 'x', code: 404 }, 404],
  ['401, which is no matter of the client', { message: 'x', code: 401 }, 502],
  ['words of the account', { message: 'x', code: 'insufficient_quota' }, 502],
])('an error within an answer has its own status: %s', async (_, told, status) => {
  upstream.play([JSON.stringify({ error: told })], 'application/json');
  expect(await ask('chat')).toMatchObject({ status, charge: free });
  upstream.play([data({ error: told })]);
  expect(await ask('chat', { stream: true })).toMatchObject({ status, charge: free });
});

const empty = { index: 0, message: { role: 'assistant', content: '' } };

test.each<[string, object, object]>([
  [
    'all of it thought, cut at the cap',
    { choices: [{ ...empty, finish_reason: 'length' }], usage },
    { usage: { completion_tokens: 50 } },
  ],
  [
    'a refusal',
    { choices: [{ index: 0, message: { refusal: 'No.' }, finish_reason: 'stop' }], usage },
    { usage: { completion_tokens: 50 } },
  ],
  [
    'no text and no usage, but an end',
    { choices: [{ ...empty, finish_reason: 'stop' }] },
    { usage_source: 'estimated' },
  ],
  ['no choices, but usage', { choices: [], usage }, { usage: { completion_tokens: 50 } }],
  [
    'an error that is none',
    { error: null, choices: [{ ...empty, finish_reason: 'stop' }], usage },
    { usage: { completion_tokens: 50 } },
  ],
])('an answer is one, also with %s', async (_, answer, charge) => {
  upstream.play([JSON.stringify(answer)], 'application/json');
  expect(await ask('chat')).toMatchObject({
    status: 200,
    charge: { status: 'settled', ...charge },
  });
});

test('a message without content that has ended is an answer', async () => {
  const answer = { type: 'message', content: [], stop_reason: 'end_turn' };
  const told = { ...answer, usage: { input_tokens: 1_000, output_tokens: 2 } };
  upstream.play([JSON.stringify(told)], 'application/json');
  const { status, charge } = await ask('messages');
  expect({ status, charge }).toMatchObject({ status: 200, charge: { status: 'settled' } });
});

test('a stream whose first chunk has no choices is an answer once it says something', async () => {
  const chunks = [{ id: 'c', choices: [], prompt_filter_results: [] }, delta('Hi')];
  upstream.play([data(...chunks, finish({ usage })), 'data: [DONE]\n\n']);
  const { status, text, charge } = await ask('chat', { stream: true });
  expect([status, text.includes('prompt_filter_results')]).toEqual([200, true]);
  expect(charge).toMatchObject({ status: 'settled', usage: { completion_tokens: 50 } });
});

const start = named('message_start', {
  message: { id: 'm', usage: { input_tokens: 2_000, output_tokens: 1 } },
});
const overloaded = named('error', { error: { type: 'overloaded_error', message: 'Busy' } });
const created = named('response.created', { response: { id: 'r', status: 'in_progress' } });
const failed = named('response.failed', {
  response: { id: 'r', status: 'failed', error: { code: 'server_error', message: 'Busy' } },
});

const role = data({ choices: [{ index: 0, delta: { role: 'assistant' } }] });

test.each<['messages' | 'unified' | 'responses' | 'chat', string[], number]>([
  ['messages', [start, overloaded], 529],
  ['unified', [start, overloaded], 529],
  ['responses', [created, failed], 502],
  ['chat', [role, data({ error })], 502],
])(
  'a stream of %s that its provider fails before any content costs nothing',
  async (name, pieces, told) => {
    upstream.play(pieces);
    const { status, text, charge } = await ask(name, { stream: true });
    expect({ status, charge }).toMatchObject({ status: told, charge: free });
    expect(JSON.parse(text).error.message).toMatch(/Busy|x/);
  },
);

test.each<['messages' | 'unified' | 'chat', string[]]>([
  [
    'messages',
    [
      start,
      named('content_block_delta', { delta: { type: 'text_delta', text: 'Hi' } }),
      overloaded,
    ],
  ],
  ['chat', [data(delta('Hi')), data({ error })]],
])(
  'what a stream of %s delivered before its provider failed is charged, as failed',
  async (name, pieces) => {
    upstream.play(pieces);
    const { status, text, charge } = await ask(name, { stream: true });
    expect([status, text.includes('Hi'), text.match(/error/g)?.length]).toEqual([
      200,
      true,
      expect.any(Number),
    ]);
    expect(charge).toMatchObject({
      status: 'settled',
      outcome: 'failed',
      usage_source: 'estimated',
    });
    expect(charge.actual_cost_nanos).toBeGreaterThan(0n);
  },
);
