import OpenAI from 'openai';
import { lastCharge, openWorld, post, type World } from '../../support/gateway';
import { openScripted, type Scripted } from '../../support/upstream';

let world: World;
let upstream: Scripted;
let blocking: string;
let redacting: string;
let guarding: string;

const terms = { blocked_terms: ['project apollo'] };
const usage = { prompt_tokens: 7, completion_tokens: 9, total_tokens: 16 };

beforeAll(async () => {
  world = await openWorld();
  upstream = await openScripted();
  const target = { base_url: `${upstream.url}/v1` };
  const open = async (policy: object) => {
    const settings = { policies: { chain: Object.keys(policy) }, policy };
    return (await world.openGateway({ settings, target })).url;
  };
  blocking = await open({
    'dlp-filter': { ...terms, detect_patterns: ['email'], stages: ['output'] },
  });
  redacting = await open({ 'dlp-filter': { ...terms, action: 'redact', stages: ['output'] } });
  guarding = await open({ 'agent-firewall': { tools: { deny: ['delete_*'] } } });
});

afterAll(async () => {
  await world.close();
  await upstream.close();
});

/** The frame of a chat chunk. */
function chunk(delta: object, more: object = {}, index = 0): string {
  const choices = [{ index, delta, logprobs: null, finish_reason: null, ...more }];
  return `data: ${JSON.stringify({ id: 'c', object: 'chat.completion.chunk', choices })}\n\n`;
}

const head = chunk({ role: 'assistant', content: '' });
const end = [
  chunk({}, { finish_reason: 'stop' }),
  `data: ${JSON.stringify({ id: 'c', choices: [], usage })}\n\n`,
  'data: [DONE]\n\n',
];
const stream = {
  model: 'gpt-4o-mini',
  messages: [{ role: 'user' as const, content: 'x' }],
  stream: true as const,
  stream_options: { include_usage: true },
};

function say(words: string[], index = 0): string[] {
  return words.map((content) => chunk({ content }, {}, index));
}

async function ask(url: string, pieces: readonly (string | Buffer)[]) {
  upstream.play(pieces);
  return post(`${url}/v1/chat/completions`, world.key, stream);
}

/** What may give a phrase away. */
function shown(text: string): string {
  return text.replace(/logprobs|in_progress|Never name project apollo/g, '');
}

interface Heard {
  content: string[];
  arguments: string;
  error?: { code: string; policy: string };
}

/** What a client gets to see of a stream. */
function heard(text: string): Heard {
  const found: Heard = { content: ['', ''], arguments: '' };
  for (const line of text.split('\n')) {
    if (!line.startsWith('data: {')) continue;
    const event = JSON.parse(line.slice('data: '.length));
    if (event.error) found.error = event.error;
    for (const { index, delta } of event.choices ?? []) {
      found.content[index] += delta.content ?? '';
      found.arguments += delta.tool_calls?.[0]?.function?.arguments ?? '';
    }
  }
  return found;
}

const phrase = [head, ...say(['Hello ', 'to Pro', 'ject', ' A', 'pollo', ' you']), ...end];

test('a blocked phrase over several events is not given on in any part, wherever a chunk ends', async () => {
  const bytes = Buffer.from(phrase.join(''));
  for (let at = 1; at < bytes.length; at += 37) {
    const { text } = await ask(blocking, [bytes.subarray(0, at), bytes.subarray(at)]);
    const { content, error } = heard(text);
    expect([at, error?.code, error?.policy]).toEqual([at, 'output_blocked', 'dlp-filter']);
    expect(['', 'Hello ']).toContain(content[0]);
    expect(shown(text)).not.toMatch(/pro|roject|pollo|\[DONE\]/i);
  }
});

test('a blocked phrase that comes one byte at a time is not given on, and what the upstream used is charged', async () => {
  const { status, text } = await ask(
    blocking,
    [...Buffer.from(phrase.join(''))].map((byte) => Buffer.from([byte])),
  );
  expect(status).toBe(200);
  expect(heard(text)).toMatchObject({ content: ['Hello ', ''], error: { code: 'output_blocked' } });
  const charge = await lastCharge(world, world.org.org_id);
  expect(charge).toMatchObject({ status: 'settled', usage_source: 'upstream' });
  expect(charge.usage).toMatchObject({ prompt_tokens: 7, completion_tokens: 9 });
  expect(charge.actual_cost_nanos).toBeGreaterThan(0n);
});

test.each([
  ['in the second choice', [head, ...say(['fine ', 'words']), ...say(['a pro', 'ject apollo'], 1)]],
  ['in the arguments of a tool', [head, ...callOf('note', ['{"text":"pro', 'ject ', 'apollo"}'])]],
  [
    'escaped in the arguments of a tool',
    [head, ...callOf('note', ['{"t":"\\u00', '50roject\\', 'u0020apollo"}'])],
  ],
  [
    'escaped twice',
    [head, ...callOf('note', ['{"t":"{\\"a\\":\\"', '\\\\u0050roject apollo\\"}"}'])],
  ],
  ['in a refusal', [head, chunk({ refusal: 'project ' }), chunk({ refusal: 'apollo' })]],
  [
    'in a thought',
    [head, chunk({ reasoning_content: 'Project' }), chunk({ reasoning_content: '\napollo' })],
  ],
  ['with invisible characters', [head, ...say(['pro\u200b', '\u00adject ap\u2060ollo'])]],
  ['in wide letters', [head, ...say(['\uff30\uff32', '\uff2f\uff2a\uff25\uff23\uff34 apollo'])]],
  ['with accents of its own', [head, ...say(['proj', 'e\u0301ct apo', 'llo'])]],
  ['as parts of a list', [head, chunk({ content: [{ type: 'text', text: 'project apollo' }] })]],
  ['an address', [head, ...say(['mail me', '@exam', 'ple.org', ' now'])]],
  ['at the very end', [head, ...say(['project ', 'apollo'])]],
  [
    'in a last event that never ends',
    [
      head,
      ...say(['project ', 'apoll']),
      chunk({}, { finish_reason: 'stop' }, 1),
      chunk({ content: 'o' }).trimEnd(),
    ],
  ],
])('a blocked phrase %s is found, and no part of it is given on', async (_, pieces) => {
  const has_end = !pieces.at(-1)?.endsWith('}');
  const { text } = await ask(blocking, has_end ? [...pieces, ...end] : pieces);
  expect(text).toContain('"output_blocked"');
  expect(shown(text)).not.toMatch(/pro|roj|pollo|llo|me@|@exam/i);
});

function callOf(name: string, pieces: string[]): string[] {
  const first = { index: 0, id: 'call_1', type: 'function', function: { name, arguments: '' } };
  return [
    chunk({ tool_calls: [first] }),
    ...pieces.map((given) => chunk({ tool_calls: [{ index: 0, function: { arguments: given } }] })),
  ];
}

test('a stream that is blocked before anything was sent is answered 409, once, and charged', async () => {
  const { status, text, headers } = await ask(blocking, [
    [chunk({ role: 'assistant', content: 'Project Apollo' }), ...end].join(''),
  ]);
  expect(status).toBe(409);
  expect(headers['x-should-retry']).toBe('false');
  expect(JSON.parse(text).error).toEqual({
    code: 'output_blocked',
    type: 'policy_violation',
    message: expect.stringContaining('dlp-filter'),
    param: null,
    policy: 'dlp-filter',
  });
  expect((await lastCharge(world, world.org.org_id)).actual_cost_nanos).toBeGreaterThan(0n);
});

test('an upstream that goes on without end after a block is left, and charged by what came', async () => {
  const more = say(Array.from({ length: 300 }, () => 'word '.repeat(2_000)));
  const { text } = await ask(blocking, [
    head,
    ...say(['Well. ', 'Project Apollo']),
    ...more,
    ...end,
  ]);
  expect(heard(text)).toMatchObject({ content: ['Well. ', ''], error: { code: 'output_blocked' } });
  const charge = await lastCharge(world, world.org.org_id);
  expect(charge).toMatchObject({ status: 'settled', usage_source: 'estimated' });
  expect(charge.usage.completion_tokens).toBeGreaterThan(1_000);
});

test('the official client throws in the middle of a stream that is blocked, with the code', async () => {
  upstream.play(phrase);
  const client = new OpenAI({ baseURL: `${blocking}/v1`, apiKey: world.key });
  const events = await client.chat.completions.create(stream);
  let said = '';
  const read = async () => {
    for await (const event of events) said += event.choices[0]?.delta.content ?? '';
  };
  await expect(read()).rejects.toMatchObject({ code: 'output_blocked', type: 'policy_violation' });
  expect(said).toBe('Hello ');
  expect(upstream.arrived).toHaveLength(1);
});

test('what nothing is found in passes byte for byte, in spite of beginnings that were held back', async () => {
  const pieces = [
    ':\n\n',
    head,
    ...say([
      'pro',
      'ject',
      ' ',
      'b and project apol',
      'ka; a@b',
      ' \\u00',
      ' 5% &#',
      '\ud83d\udc4b',
    ]),
    ...callOf('note', ['{"text":"pro', 'ject"}']),
    ...say(['project ap'], 1),
    'event: odd\r\ndata: {"choices":[]}\r\n\r\n',
    ...end,
  ];
  const { text, status } = await ask(blocking, pieces);
  expect(status).toBe(200);
  expect(text).toBe(pieces.join(''));
});

test('usage that the client did not ask for stays hidden behind a policy, and is metered', async () => {
  upstream.play([head, ...say(['good ', 'words']), ...end]);
  const asked = { ...stream, stream_options: undefined };
  const { text } = await post(`${blocking}/v1/chat/completions`, world.key, asked);
  expect(text).not.toContain('usage');
  expect(text).toContain('[DONE]');
  const charge = await lastCharge(world, world.org.org_id);
  expect(charge).toMatchObject({ usage_source: 'upstream', usage: { prompt_tokens: 7 } });
});

test('redaction takes out the phrase over several events; all else stays, the other events byte for byte', async () => {
  const odds = { logprobs: { content: [{ token: 'Pro', top_logprobs: [] }] } };
  const pieces = [
    head,
    ...say(['Hello ']),
    chunk({ content: 'to Pro' }, odds),
    ...say(['ject', ' A', 'pollo you', ' and project', ' apollo.', ' Bye'], 0),
    ...end,
  ];
  for (const sent of [pieces, [pieces.join('')], [...pieces.join('')]]) {
    const { text } = await ask(redacting, sent);
    expect(heard(text).content[0]).toBe('Hello to [redacted] you and [redacted]. Bye');
    expect(text).not.toMatch(/pollo|"Pro"/);
    for (const kept of [head, say(['Hello '])[0], say([' Bye'])[0], ...end]) {
      expect(text).toContain(kept);
    }
  }
});

test('a tool that is denied is not called: neither its name, in pieces too, nor its arguments are given on', async () => {
  const split = [
    chunk({
      tool_calls: [{ index: 0, id: 'call_1', function: { name: 'delete', arguments: '' } }],
    }),
    chunk({ tool_calls: [{ index: 0, function: { name: '_file' } }] }),
    chunk({ tool_calls: [{ index: 0, function: { arguments: '{"path":"/"}' } }] }),
  ];
  for (const calls of [callOf('delete_file', ['{"path":"/"}']), callOf('delete_all', []), split]) {
    const { text } = await ask(guarding, [head, ...say(['Well. ']), ...calls, ...end]);
    expect(heard(text)).toMatchObject({
      content: ['Well. ', ''],
      arguments: '',
      error: { code: 'output_blocked', policy: 'agent-firewall' },
    });
    expect(text).not.toContain('delete');
  }
});

test('a tool that is allowed is called, byte for byte', async () => {
  const pieces = [head, ...callOf('undelete_file', ['{"path":', '"/"}']), ...end];
  expect((await ask(guarding, pieces)).text).toBe(pieces.join(''));
});

test('a text of one word without end is held back no longer than a window', async () => {
  const words = Array.from({ length: 40 }, () => 'x'.repeat(100));
  const pieces = [head, ...say(words), ...end];
  expect((await ask(blocking, pieces)).text).toBe(pieces.join(''));
});
