import { chunk } from './chunks';
import { type FamilyName, guardedBy } from './guarded';

const routes = ['messages', 'completions', 'embeddings', 'audio_speech', 'moderations'];
const filter = { blocked_terms: ['project apollo'] };
const blocking = guardedBy({ 'dlp-filter': filter }, { routes });
const redacting = guardedBy({ 'dlp-filter': { ...filter, action: 'redact' } }, { routes });
const guarding = guardedBy(
  { 'agent-firewall': { tools: { deny: ['get_secret', 'mcp'] } } },
  { routes },
);
const phrase = 'Project Apollo';

const said = (content: unknown) => ({
  model: 'm',
  max_tokens: 9,
  messages: [{ role: 'user', content }],
});
const asking: [FamilyName, string, object][] = [
  ['messages', 'a message', said(phrase)],
  [
    'messages',
    'parts of a message',
    said([
      { type: 'text', text: 'project ' },
      { type: 'text', text: 'apollo' },
    ]),
  ],
  ['messages', 'the system text', { ...said('Hi'), system: [{ type: 'text', text: phrase }] }],
  [
    'messages',
    'a result of a tool',
    said([{ type: 'tool_result', tool_use_id: 't', content: [{ type: 'text', text: phrase }] }]),
  ],
  [
    'messages',
    'a document',
    said([{ type: 'document', source: { type: 'text', media_type: 'text/plain', data: phrase } }]),
  ],
  ['completions', 'a prompt', { model: 'm', prompt: phrase }],
  ['completions', 'one of some prompts', { model: 'm', prompt: ['Hi', phrase] }],
  ['completions', 'a suffix', { model: 'm', prompt: 'Hi', suffix: phrase }],
  ['completions', 'tokens', { model: 'm', prompt: [5109, 45137] }],
  ['completions', 'lists of tokens', { model: 'm', prompt: [[5109], [45137]] }],
  ['embeddings', 'an input', { model: 'm', input: phrase }],
  ['embeddings', 'one of some inputs', { model: 'm', input: ['Hi', phrase] }],
  ['embeddings', 'tokens', { model: 'm', input: [5109, 45137] }],
  ['speech', 'an input', { model: 'm', voice: 'v', input: phrase }],
  ['speech', 'instructions', { model: 'm', voice: 'v', input: 'Hi', instructions: phrase }],
  ['moderations', 'an input', { input: [{ type: 'text', text: phrase }] }],
];

test.each(asking)('%s: a term in %s is blocked', async (family, _, body) => {
  await expect(blocking.request(family, JSON.stringify(body))).rejects.toMatchObject({
    status: 409,
    code: 'input_blocked',
  });
});

test.each(asking)(
  '%s: %s pass a chain that is not to look at the route',
  async (family, _, body) => {
    const { request, emitted } = guardedBy({ 'dlp-filter': filter });
    await request(family, JSON.stringify(body));
    expect(emitted).toEqual([]);
  },
);

const frame = (event: { type: string }) =>
  `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`;
const delta = (index: number, given: object) =>
  frame({ type: 'content_block_delta', index, delta: given } as never);
const text = (words: string, index = 0) => delta(index, { type: 'text_delta', text: words });
const block = (index: number, content_block: object) =>
  frame({ type: 'content_block_start', index, content_block } as never);
const stop = (index: number) => frame({ type: 'content_block_stop', index } as never);
const begin = frame({
  type: 'message_start',
  message: { id: 'msg_1', role: 'assistant', content: [], usage: { input_tokens: 3 } },
} as never);
const finish = [
  frame({
    type: 'message_delta',
    delta: { stop_reason: 'end_turn' },
    usage: { output_tokens: 9 },
  } as never),
  frame({ type: 'message_stop' }),
];
const opened = [begin, block(0, { type: 'text', text: '' })];

/** What a client of Messages reads in a stream. */
function heard(stream: string): { text: string; json: string } {
  const found = { text: '', json: '' };
  for (const line of stream.split('\n')) {
    if (!line.startsWith('data: {')) continue;
    const event = JSON.parse(line.slice('data: '.length));
    for (const holder of [event.delta, event.content_block]) {
      found.text += (holder?.text ?? '') + (holder?.thinking ?? '');
      found.json += holder?.partial_json ?? '';
    }
  }
  return found;
}

test('a term in a stream of Messages is found wherever it is split', () => {
  const words = `About ${phrase}!`;
  for (let at = 1; at < words.length; at += 1) {
    const frames = [...opened, text(words.slice(0, at)), text(words.slice(at)), stop(0), ...finish];
    const blocked = blocking.stream('messages', frames);
    expect(blocked.violation).toEqual({ policy: 'dlp-filter', rule: 'blocked_terms[0]' });
    expect('About ').toContain(heard(blocked.text).text);
    const redacted = redacting.stream('messages', frames);
    expect(heard(redacted.text).text).toBe('About [redacted]!');
    expect(redacted.measured.usage).toMatchObject({ prompt_tokens: 3, completion_tokens: 9 });
  }
});

test.each([
  [
    'two blocks',
    [text('project '), stop(0), block(1, { type: 'text', text: '' }), text('apollo', 1)],
  ],
  [
    'the beginning of a block',
    [text('project '), stop(0), block(1, { type: 'text', text: 'apollo' })],
  ],
  [
    'thoughts',
    [delta(0, { type: 'thinking_delta', thinking: 'project ' }), delta(0, { thinking: 'apollo' })],
  ],
  ['a citation', [delta(0, { type: 'citations_delta', citation: { cited_text: phrase } })]],
  [
    'a result of a search',
    [block(1, { type: 'web_search_tool_result', content: [{ title: phrase }] })],
  ],
  [
    'the arguments of a tool',
    [delta(1, { partial_json: '{"a":"project\\u0020' }), delta(1, { partial_json: 'apollo"}' })],
  ],
  ['an error', [frame({ type: 'error', error: { type: 'x', message: phrase } } as never)]],
])('a stream of Messages with a term in %s is blocked', (_, frames) => {
  const { text: given, violation } = blocking.stream('messages', [...opened, ...frames, ...finish]);
  expect(violation).toMatchObject({ policy: 'dlp-filter' });
  expect(given).not.toMatch(/apollo/i);
});

test('the arguments of a tool stay JSON after a redaction', () => {
  const pieces = ['{"about":"pro', 'ject apol', 'lo","n":1}'];
  const frames = [
    begin,
    block(0, { type: 'tool_use', id: 't', name: 'look', input: {} }),
    ...pieces.map((partial_json) => delta(0, { type: 'input_json_delta', partial_json })),
    stop(0),
    ...finish,
  ];
  const { json } = heard(redacting.stream('messages', frames).text);
  expect(JSON.parse(json)).toEqual({ about: '[redacted]', n: 1 });
});

test('a stream of Messages without a term passes byte for byte', () => {
  const frames = [...opened, text('Project Zeus'), stop(0), ...finish].join('');
  expect(blocking.stream('messages', [frames]).text).toBe(frames);
  expect(guarding.stream('messages', [frames]).text).toBe(frames);
});

test('a whole answer of Messages is looked at', async () => {
  const answer = { content: [{ type: 'text', text: `About ${phrase}` }], stop_reason: 'end_turn' };
  expect(await blocking.answer('messages', JSON.stringify(answer))).toMatchObject({
    violation: { rule: 'blocked_terms[0]' },
  });
  const { text: left = '' } = await redacting.answer('messages', JSON.stringify(answer));
  expect(JSON.parse(left).content[0].text).toBe('About [redacted]');
});

test.each([
  ['a tool', { tools: [{ name: 'get_secret', input_schema: {} }] }],
  ['a tool of a type', { tools: [{ type: 'custom', name: 'GET_SECRET', input_schema: {} }] }],
  ['the tool to be called', { tool_choice: { type: 'tool', name: 'get_secret' } }],
  ['a server of tools', { mcp_servers: [{ type: 'url', url: 'https://x.test', name: 'x' }] }],
  [
    'a tool of a server',
    { mcp_servers: [{ name: 'x', tool_configuration: { allowed_tools: ['get_secret'] } }] },
  ],
])('Messages that offer %s which is denied are blocked', async (_, more) => {
  await expect(
    guarding.request('messages', JSON.stringify({ ...said('Hi'), ...more })),
  ).rejects.toMatchObject({ status: 409, details: { extra: { policy: 'agent-firewall' } } });
  await guarding.request('messages', JSON.stringify(said('Hi')));
});

test('Messages that call a denied tool are blocked, streamed and whole', async () => {
  const called = { type: 'tool_use', id: 't', name: 'Get_Secret', input: {} };
  expect(guarding.stream('messages', [...opened, block(1, called), ...finish])).toMatchObject({
    violation: { policy: 'agent-firewall', rule: 'tools.deny[0]' },
  });
  expect(await guarding.answer('messages', JSON.stringify({ content: [called] }))).toMatchObject({
    violation: { rule: 'tools.deny[0]' },
  });
});

test('a term in a stream of completions is found, for each choice by itself', () => {
  const piece = (words: string, index = 0) =>
    `data: ${JSON.stringify({ choices: [{ index, text: words, logprobs: null }] })}\n\n`;
  expect(
    blocking.stream('completions', [piece('pro'), piece('ject '), piece('x', 1), piece('apollo')]),
  ).toMatchObject({ violation: { rule: 'blocked_terms[0]' } });
  const apart = [piece('project '), piece('apollo', 1), chunk({})].join('');
  expect(blocking.stream('completions', [apart, 'data: [DONE]\n\n'])).toMatchObject({
    violation: undefined,
  });
});

test('answers of numbers and sound are not read, errors are', async () => {
  const frames = ['data: {"type":"speech.audio.delta","audio":"project apollo"}\n\n'];
  expect(blocking.stream('speech', frames)).toMatchObject({ violation: undefined });
  expect(blocking.stream('speech', frames).text).toBe(frames.join(''));
});
