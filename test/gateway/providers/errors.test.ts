import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';
import { gatewayKey, lastCharge, openWorld, type World } from '../../support/gateway';
import { openScripted, type Scripted } from '../../support/upstream';

// The shapes in which providers say that they give no answer, as a client's own SDK reads them.

let world: World;
let upstream: Scripted;
let url: string;
let apiKey: string;

beforeAll(async () => {
  world = await openWorld();
  upstream = await openScripted();
  const target = { auth: { key_env: 'TEST_MODELS_KEY' } };
  const targets = [
    { ...target, id: 'a', kind: 'openai', base_url: `${upstream.url}/v1`, models: ['gpt-4o-mini'] },
    {
      ...target,
      id: 'b',
      kind: 'anthropic',
      base_url: upstream.url,
      models: ['claude-sonnet-4-5'],
    },
  ];
  ({ url } = await world.openGateway({ settings: { providers: { targets } } }));
  apiKey = await gatewayKey(world.api, world.org.org_id);
});
afterAll(async () => {
  await world.close();
  await upstream.close();
});

const google = (more: object = {}) => [
  { error: { code: 429, message: 'Slow down.', status: 'RESOURCE_EXHAUSTED', ...more } },
];
const extra = [
  { type: 'extra_forbidden', loc: ['body', 'store'], msg: 'Slow down.' },
  { type: 'extra_forbidden', loc: ['body', 'user'], msg: 'Not known.' },
];

/** Who says it so, what, and the code that is told; the text is always the same. */
const shapes: [
  name: string,
  said: unknown,
  code: string | null,
  headers?: Record<string, string>,
][] = [
  [
    'OpenAI',
    { error: { message: 'Slow down.', type: 'tokens', code: 'rate_limit_exceeded' } },
    'rate_limit_exceeded',
  ],
  [
    'Anthropic',
    { type: 'error', error: { type: 'rate_limit_error', message: 'Slow down.' } },
    null,
  ],
  ['xAI', { code: 'rate_limit_exceeded', error: 'Slow down.' }, 'rate_limit_exceeded'],
  ['Gemini', google(), '429'],
  [
    'vLLM of old',
    { object: 'error', message: 'Slow down.', type: 'RateLimit', param: null, code: 429 },
    '429',
  ],
  [
    'Mistral',
    { object: 'error', message: { detail: extra }, type: 'invalid_request_error', code: '429' },
    '429',
  ],
  ['FastAPI', { detail: extra }, null],
  [
    'Bedrock',
    { message: 'Slow down.' },
    'ThrottlingException',
    { 'x-amzn-errortype': 'ThrottlingException:http://a/' },
  ],
  ['Cohere', { message: 'Slow down.' }, null],
];

const openai = () => new OpenAI({ apiKey, baseURL: `${url}/v1`, maxRetries: 0 });
const anthropic = () => new Anthropic({ apiKey, baseURL: url, maxRetries: 0 });
const messages = [{ role: 'user' as const, content: 'Hello' }];

interface Told {
  status?: number;
  message: string;
  code?: string | null;
  headers?: Headers;
}

async function failureOf(run: () => Promise<unknown>): Promise<Told> {
  try {
    await run();
  } catch (error) {
    return error as Told;
  }
  throw new Error('It did not fail.');
}

const chats = {
  whole: () => openai().chat.completions.create({ model: 'gpt-4o-mini', messages }),
  stream: async () => {
    const stream = await openai().chat.completions.create({
      model: 'gpt-4o-mini',
      messages,
      stream: true,
    });
    for await (const _ of stream);
  },
};
const talks = {
  whole: () => anthropic().messages.create({ model: 'claude-sonnet-4-5', max_tokens: 9, messages }),
  stream: async () => {
    const stream = await anthropic().messages.create({
      model: 'claude-sonnet-4-5',
      max_tokens: 9,
      messages,
      stream: true,
    });
    for await (const _ of stream);
  },
};

test.each(shapes)(
  '%s: a status, with its text, code and hint, in both SDKs',
  async (_, said, code, headers = {}) => {
    for (const ways of [chats, talks]) {
      for (const way of ['whole', 'stream'] as const) {
        upstream.play([JSON.stringify(said)], 'application/json', 429, {
          ...headers,
          'retry-after-ms': '1500',
        });
        const error = await failureOf(ways[way]);
        expect([error.status, error.message]).toEqual([429, expect.stringContaining('Slow down.')]);
        if (ways === chats && code !== null) expect(error.code).toBe(code);
        expect(error.headers?.get('retry-after-ms')).toBe('1500');
      }
    }
  },
);

const delta = 'data: {"choices":[{"index":0,"delta":{"role":"assistant","content":"Hi"}}]}\n\n';
const begun = [
  'event: message_start\ndata: {"type":"message_start","message":{"id":"m","type":"message","role":"assistant","content":[],"model":"m","usage":{"input_tokens":9,"output_tokens":1}}}\n\n',
  'event: content_block_start\ndata: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}\n\n',
  'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hi"}}\n\n',
];

test.each(shapes)('%s: within a stream, ahead of all and behind a word', async (_, said) => {
  const frame = `data: ${JSON.stringify(said)}\n\n`;
  const named = `event: error\n${frame}`;
  for (const [run, lead, end] of [
    [chats.stream, [delta], frame],
    [talks.stream, begun, named],
    [talks.stream, begun, frame],
  ] as const) {
    upstream.play([end]);
    const early = await failureOf(run);
    expect(early.message).toContain('Slow down.');
    expect(early.status).toBeGreaterThanOrEqual(400);
    upstream.play([...lead, end]);
    const late = await failureOf(run);
    expect(late.message).toContain('Slow down.');
    const { outcome } = await lastCharge(world, world.org.org_id);
    expect(outcome).toBe('failed');
  }
});

test('an error within a stream repeats no credential, wherever it stands in it', async () => {
  const secret = process.env.TEST_MODELS_KEY as string;
  expect(secret.length).toBeGreaterThan(6);
  const words = { message: 'Slow down.', type: 'server_error', code: null };
  const saids = [
    { error: { ...words, message: `Slow down. Authorization: Bearer ${secret}` } },
    { error: words, request: { headers: { 'x-api-key': secret } } },
    { type: 'error', error: { ...words, message: `Slow down. x-api-key: ${secret}` } },
  ];
  for (const said of saids) {
    const frame = `event: error\ndata: ${JSON.stringify(said)}\n\n`;
    for (const [path, model, lead] of [
      ['/v1/chat/completions', 'gpt-4o-mini', [delta]],
      ['/v1/messages', 'claude-sonnet-4-5', begun],
    ] as const) {
      upstream.play([...lead, frame]);
      const answer = await fetch(`${url}${path}`, {
        method: 'POST',
        headers: { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' },
        body: JSON.stringify({ model, messages, max_tokens: 9, stream: true }),
      });
      const text = await answer.text();
      expect(text).toContain('Slow down.');
      expect(text).not.toContain(secret);
    }
  }
});

const delayed = (retryDelay: string) =>
  google({ details: [{ '@type': 'type.googleapis.com/google.rpc.RetryInfo', retryDelay }] });

test.each([
  [delayed('23s'), {}, '23'],
  [delayed('1.5s'), {}, '2'],
  // Longer than any wait: reading it took the square of its length, and every tenant waited.
  [delayed(`${'1'.repeat(900_000)}x`), {}, '1'],
  [delayed(`${'9'.repeat(400)}s`), {}, '1'],
  [delayed('90000h'), {}, '1'],
  [
    { message: 'Slow down.' },
    { 'x-ratelimit-remaining-requests': '0', 'x-ratelimit-reset-requests': '1m2.5s' },
    '63',
  ],
  [
    { message: 'Slow down.' },
    {
      'x-ratelimit-remaining-tokens': '0',
      'x-ratelimit-reset-tokens': '800ms',
      'x-ratelimit-remaining-requests': '9',
      'x-ratelimit-reset-requests': '2h',
    },
    '1',
  ],
  [{ message: 'Slow down.' }, { 'retry-after': '7' }, '7'],
  [{ message: 'Slow down.' }, { 'retry-after': '0' }, '1'],
  [{ message: 'Slow down.' }, { 'retry-after': '0.5' }, '1'],
  [{ message: 'Slow down.' }, { 'retry-after': 'Sun, 06 Nov 1994 08:49:37 GMT' }, '1'],
  [{ message: 'Slow down.' }, {}, '1'],
  // Nothing is said but the status.
  [{}, {}, '1'],
])('%j with %j says to wait %s s', async (said, headers, wait) => {
  upstream.play([JSON.stringify(said)], 'application/json', 429, headers as Record<string, string>);
  const error = await failureOf(chats.whole);
  expect([error.status, error.headers?.get('retry-after')]).toEqual([429, wait]);
  expect(error.headers?.get('x-ratelimit-limit')).toMatch(/^\d+$/);
  expect(error.headers?.get('x-ratelimit-remaining')).toBe('0');
  expect(error.headers?.get('x-ratelimit-reset')).toMatch(/^\d{10,}$/);
  expect(error.headers?.get('x-should-retry')).toBe(Number(wait) > 60 ? 'false' : null);
});
