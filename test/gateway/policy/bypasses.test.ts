import { type FamilyName, guardedBy } from './guarded';

const terms = { blocked_terms: ['project apollo'] };
const phrase = 'project apollo';

const blocking = guardedBy({ 'dlp-filter': { ...terms, stages: ['output'] } });
const redacting = guardedBy({
  'dlp-filter': {
    ...terms,
    action: 'redact',
    stages: ['output'],
    detect_patterns: ['credit_card'],
  },
});
const guarding = guardedBy({ 'agent-firewall': { tools: { deny: ['delete_*'] } } });

const usage = { prompt_tokens: 7, completion_tokens: 9, total_tokens: 16 };
const told = { input_tokens: 5, output_tokens: 6, total_tokens: 11 };
const answers = {
  chat: { id: 'c', choices: [{ index: 0, message: { content: 'ok' } }], usage },
  responses: { id: 'r', object: 'response', status: 'completed', output: [], usage: told },
};

function frame(event: object | string): string {
  return `data: ${typeof event === 'string' ? event : JSON.stringify(event)}\n\n`;
}

const chunk = (delta: object, more: object = {}) =>
  frame({ id: 'c', choices: [{ index: 0, delta, ...more }] });
const end = [
  chunk({}, { finish_reason: 'stop' }),
  frame({ id: 'c', choices: [], usage }),
  'data: [DONE]\n\n',
];
const completed = frame({
  type: 'response.completed',
  response: { id: 'r', status: 'completed', output: [], usage: told },
});
const at = { output_index: 0, content_index: 0, item_id: 'i' };
const piece = (more: object) => frame({ type: 'response.output_text.delta', ...at, ...more });

type Policies = ReturnType<typeof guardedBy>;

function streamed(policies: Policies, family: FamilyName, frames: readonly string[]) {
  return policies.stream(family, [...frames, ...(family === 'chat' ? end : [completed])]);
}

const odds = (token: string) => ({ token, logprob: 0, bytes: null, top_logprobs: [] });
const call = (given: object) => chunk({ tool_calls: [{ index: 0, type: 'function', ...given }] });

test.each<[string, FamilyName, string[]]>([
  [
    'in the first of two members',
    'chat',
    [frame(`{"choices":[{"index":0,"delta":{"content":"${phrase}","content":"x"}}]}`)],
  ],
  [
    'in the first of two lists of choices',
    'chat',
    [frame(`{"choices":[{"index":0,"delta":{"content":"${phrase}"}}],"choices":[]}`)],
  ],
  ['in odds alone', 'chat', [chunk({}, { logprobs: { content: [odds(phrase)] } })]],
  [
    'in odds, token by token',
    'chat',
    [chunk({ content: 'a' }, { logprobs: { content: [odds('project '), odds('apollo')] } })],
  ],
  ['in odds of Responses', 'responses', [piece({ delta: 'a', logprobs: [odds(phrase)] })]],
  ['beside a delta', 'chat', [chunk({}, { text: phrase })]],
  ['in an error', 'chat', [frame({ error: { message: phrase, type: 'server_error', code: 'x' } })]],
  ['in a comment', 'chat', [`: ${phrase}\n\n`]],
  ['in comments', 'chat', [': project\n\n', ': apollo\n\n']],
  ['in the name of an event', 'chat', [`event: ${phrase}\n${chunk({ content: 'a' })}`]],
  ['in the id of an event', 'chat', [`id: ${phrase}\n${chunk({ content: 'a' })}`]],
  ['in a field that nobody knows', 'chat', [`${phrase}: x\n${chunk({ content: 'a' })}`]],
  ['in the name of a member', 'chat', [chunk({ content: 'a', [phrase]: 1 })]],
  ['in a label', 'chat', [call({ id: phrase, function: { name: 'x', arguments: '' } })]],
  [
    'under a number written as a text',
    'chat',
    [
      frame({ choices: [{ index: 1, delta: { content: 'project ' } }] }),
      frame({ choices: [{ index: '1', delta: { content: 'apollo' } }] }),
    ],
  ],
  [
    'on both sides of an end',
    'chat',
    [chunk({ content: 'project ' }, { finish_reason: 'length' }), chunk({ content: 'apollo' })],
  ],
  ['behind the last frame', 'chat', [...end, chunk({ content: phrase })]],
  [
    'on both sides of the last frame',
    'chat',
    [chunk({ content: 'project ' }), 'data: [DONE]\n\n', chunk({ content: 'apollo' })],
  ],
  [
    'in two parts of an item',
    'responses',
    [piece({ delta: 'project ' }), piece({ delta: 'apollo', content_index: 1 })],
  ],
  ['beside a piece', 'responses', [piece({ delta: 'a', text: phrase })]],
  [
    'where sound is expected',
    'responses',
    [frame({ type: 'response.audio.delta', delta: phrase })],
  ],
  [
    'in why it failed',
    'responses',
    [
      frame({
        type: 'response.failed',
        response: { id: 'r', status: 'failed', error: { message: phrase }, output: [] },
      }),
    ],
  ],
  [
    'in a summary of the response',
    'responses',
    [frame({ type: 'response.created', response: { id: 'r', reasoning: { summary: phrase } } })],
  ],
])('a stream with a phrase %s does not give it on', (_, family, frames) => {
  for (const policies of [blocking, redacting]) {
    const { text } = streamed(policies, family, frames);
    expect(text).not.toMatch(/apollo/i);
  }
});

const escaped = [
  'project&nbsp;apollo',
  '%2570roject%2520%2561pollo',
  '\\u005cu0070roject apoll\\u005cu006f',
  'project&amp;#32;apoll&#111',
  'project+apollo',
  '\\160roject \\141pollo',
  'pro\0ject apol\x01lo',
];

test.each(escaped)('a stream of "%s", a character at a time, gives on no part of it', (said) => {
  const frames = [...`Well, ${said} is`].map((content) => chunk({ content }));
  const content = (answer: string) =>
    answer
      .split('\n\n')
      .filter((event) => event.startsWith('data: {"id"'))
      .map((event) => JSON.parse(event.slice('data: '.length)).choices[0]?.delta.content ?? '')
      .join('');
  const blocked = streamed(blocking, 'chat', frames);
  expect(blocked.violation).toMatchObject({ policy: 'dlp-filter' });
  expect(content(blocked.text)).toBe('Well, ');
  const redacted = streamed(redacting, 'chat', frames);
  expect(content(redacted.text)).toBe('Well, [redacted] is');
});

test.each([
  ['in another member', { ...answers.chat, note: phrase }, 'chat'],
  ['in a name', { ...answers.chat, choices: [{ message: { parsed: { [phrase]: 1 } } }] }, 'chat'],
  [
    'in odds',
    { ...answers.chat, choices: [{ message: {}, logprobs: { content: [odds(phrase)] } }] },
    'chat',
  ],
  [
    'in two parts',
    {
      ...answers.responses,
      output: [
        {
          type: 'message',
          content: [
            { type: 'output_text', text: 'project ', annotations: [{ title: 't', url: 'u' }] },
            { type: 'output_text', text: 'apollo' },
          ],
        },
      ],
    },
    'responses',
  ],
] as const)('an answer with a phrase %s does not give it on', async (_, answer, family) => {
  for (const policies of [blocking, redacting]) {
    const checked = await policies.answer(family, JSON.stringify(answer));
    expect(checked.text ?? checked.violation).toBeDefined();
    expect(JSON.stringify(checked)).not.toMatch(/apollo/i);
  }
});

test.each<[string, string[]]>([
  [
    'that goes on behind its arguments',
    [
      call({ id: 'a', function: { name: 'dele', arguments: '{' } }),
      call({ function: { name: 'te_x', arguments: '}' } }),
    ],
  ],
  [
    'that stands first of two',
    [
      frame(
        '{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"name":"delete_x","name":"ok","arguments":"{}"}}]}}]}',
      ),
    ],
  ],
  [
    'in an object of another kind',
    [call({ function: { name: 'ok' }, custom: { name: 'delete_x' } })],
  ],
  [
    'that is told again',
    [
      call({ id: 'a', function: { name: 'ok', arguments: '{' } }),
      call({ function: { name: 'delete_x', arguments: '}' } }),
    ],
  ],
])('the name of a denied tool %s is not given on whole', (_, frames) => {
  const { text: answer } = streamed(guarding, 'chat', frames);
  expect(answer).not.toMatch(/delete_x|te_x/);
});

test('the words of a refusal are looked at too: our own are told instead, or what is left of them', async () => {
  const refusal = { error: { message: `No ${phrase} here`, type: 'invalid_request_error' } };
  const told = JSON.stringify(refusal);
  const blocked = blocking.refusal(400, told);
  await expect(blocked).rejects.toMatchObject({
    status: 400,
    message: expect.stringContaining(
      'The provider answered 400. The answer to this request was blocked',
    ),
  });
  await expect(blocked).rejects.not.toMatchObject({ message: expect.stringContaining('apollo') });
  const left = (await redacting.refusal(400, told)).toString();
  expect(left).toContain('No [redacted] here');
  expect(left).not.toContain('apollo');
});

test.each([
  { text: `x "${phrase}" y` },
  { card: 4111111111111111, more: [-4111111111111111, 1] },
  { [phrase]: '\tProject\nApollo\\' },
  { text: '\\u0070roject apollo', more: `\\${phrase}` },
  { text: 'no. \t4111111111111111' },
])('arguments that are redacted are JSON still, in one and in pieces: %j', (given) => {
  const told = JSON.stringify(given);
  for (const pieces of [[told], told.match(/.{1,4}/g) ?? [], [...told]]) {
    const { text: answer } = streamed(
      redacting,
      'chat',
      pieces.map((part) => call({ function: { name: 'f', arguments: part } })),
    );
    const joined = answer
      .split('\n\n')
      .filter((event) => event.includes('tool_calls'))
      .map((event) => JSON.parse(event.slice(6)).choices[0].delta.tool_calls[0].function.arguments)
      .join('');
    expect(Object.keys(JSON.parse(joined))).toHaveLength(Object.keys(given).length);
    expect(joined).not.toMatch(/apollo|4111/i);
  }
});
