import { callOf, chunk, end, head, heard, phrase, say } from './chunks';
import { guardedBy } from './guarded';

const terms = { blocked_terms: ['project apollo'] };
const blocking = guardedBy({
  'dlp-filter': { ...terms, detect_patterns: ['email'], stages: ['output'] },
});
const redacting = guardedBy({
  'dlp-filter': { ...terms, action: 'redact', stages: ['output'] },
});
const guarding = guardedBy({ 'agent-firewall': { tools: { deny: ['delete_*'] } } });

function ask(policies: ReturnType<typeof guardedBy>, pieces: readonly (string | Buffer)[]) {
  return policies.stream('chat', pieces);
}

/** What may give a phrase away. */
function shown(text: string): string {
  return text.replace(/logprobs|in_progress|Never name project apollo/g, '');
}

test('a blocked phrase over several events is not given on in any part, wherever a chunk ends', () => {
  const bytes = Buffer.from(phrase.join(''));
  for (let at = 1; at < bytes.length; at += 37) {
    const { text, violation } = ask(blocking, [bytes.subarray(0, at), bytes.subarray(at)]);
    const { content } = heard(text);
    expect([at, violation?.policy]).toEqual([at, 'dlp-filter']);
    expect(['', 'Hello ']).toContain(content[0]);
    expect(shown(text)).not.toMatch(/pro|roject|pollo|\[DONE\]/i);
  }
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
])('a blocked phrase %s is found, and no part of it is given on', (_, pieces) => {
  const has_end = !pieces.at(-1)?.endsWith('}');
  const { text, violation } = ask(blocking, has_end ? [...pieces, ...end] : pieces);
  expect(violation?.policy).toBe('dlp-filter');
  expect(shown(text)).not.toMatch(/pro|roj|pollo|llo|me@|@exam/i);
});

test('what nothing is found in passes byte for byte, in spite of beginnings that were held back', () => {
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
  const { text, violation } = ask(blocking, pieces);
  expect(violation).toBeUndefined();
  expect(text).toBe(pieces.join(''));
});

test('redaction takes out the phrase over several events; all else stays, the other events byte for byte', () => {
  const odds = { logprobs: { content: [{ token: 'Pro', top_logprobs: [] }] } };
  const pieces = [
    head,
    ...say(['Hello ']),
    chunk({ content: 'to Pro' }, odds),
    ...say(['ject', ' A', 'pollo you', ' and project', ' apollo.', ' Bye'], 0),
    ...end,
  ];
  for (const sent of [pieces, [pieces.join('')], [...pieces.join('')]]) {
    const { text } = ask(redacting, sent);
    expect(heard(text).content[0]).toBe('Hello to [redacted] you and [redacted]. Bye');
    expect(text).not.toMatch(/pollo|"Pro"/);
    for (const kept of [head, say(['Hello '])[0], say([' Bye'])[0], ...end]) {
      expect(text).toContain(kept);
    }
  }
});

test('a tool that is denied is not called: neither its name, in pieces too, nor its arguments are given on', () => {
  const split = [
    chunk({
      tool_calls: [{ index: 0, id: 'call_1', function: { name: 'delete', arguments: '' } }],
    }),
    chunk({ tool_calls: [{ index: 0, function: { name: '_file' } }] }),
    chunk({ tool_calls: [{ index: 0, function: { arguments: '{"path":"/"}' } }] }),
  ];
  for (const calls of [callOf('delete_file', ['{"path":"/"}']), callOf('delete_all', []), split]) {
    const { text, violation } = ask(guarding, [head, ...say(['Well. ']), ...calls, ...end]);
    expect(heard(text)).toMatchObject({ content: ['Well. ', ''], arguments: '' });
    expect(violation?.policy).toBe('agent-firewall');
    expect(text).not.toContain('delete');
  }
});

test('a tool that is allowed is called, byte for byte', () => {
  const pieces = [head, ...callOf('undelete_file', ['{"path":', '"/"}']), ...end];
  expect(ask(guarding, pieces).text).toBe(pieces.join(''));
});

test('a text of one word without end is held back no longer than a window', () => {
  const words = Array.from({ length: 40 }, () => 'x'.repeat(100));
  const pieces = [head, ...say(words), ...end];
  expect(ask(blocking, pieces).text).toBe(pieces.join(''));
});
