import { chatOverMessages } from '../../../../gateway/families/unified/messages';

interface Call {
  index?: number;
  id?: string;
  function: { name?: string; arguments: string };
}

/** The calls of a whole answer with these content blocks. */
function callsOf(content: string): Call[] {
  const translator = chatOverMessages.open(false, { headers: {}, model: 'x' });
  const text = ` {"id":"m","model":"x","content":"old","content":${content},
    "usage":{"input_tokens":1,"output_tokens":1},"stop_reason":"tool_use"}`;
  translator.push(Buffer.from(text.slice(0, 40)));
  translator.push(Buffer.from(text.slice(40)));
  const answer = JSON.parse(translator.end().toString());
  expect(answer.choices[0].finish_reason).toBe('tool_calls');
  return answer.choices[0].message.tool_calls;
}

/** The chunks of a stream of these events. */
function chunksOf(events: string[]): { choices: { delta: { tool_calls?: Call[] } }[] }[] {
  const translator = chatOverMessages.open(true, { headers: {}, model: 'x' });
  const text = events.map((event) => `data: ${event}\n\n`).join('');
  const bytes = Buffer.concat([translator.push(Buffer.from(text)), translator.end()]);
  return bytes
    .toString()
    .split('\n\n')
    .filter((frame) => frame.startsWith('data: {'))
    .map((frame) => JSON.parse(frame.slice(6)));
}

/** The arguments of the calls of a stream, added up. */
function streamedArguments(events: string[]): string[] {
  const all = chunksOf(events).flatMap(({ choices }) => choices[0]?.delta.tool_calls ?? []);
  const added: string[] = [];
  for (const { index = 0, function: named } of all)
    added[index] = (added[index] ?? '') + named.arguments;
  return added;
}

const start =
  '{"type":"message_start","message":{"id":"m","model":"x","usage":{"input_tokens":1}}}';
const end =
  '{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":1}}';
const begin = (index: number, input: string) =>
  `{"type":"content_block_start","index":${index},"content_block":{"type":"tool_use","id":"t${index}","name":"now"${input}}}`;
const delta = (index: number, json: string) =>
  JSON.stringify({
    type: 'content_block_delta',
    index,
    delta: { type: 'input_json_delta', partial_json: json },
  });
const stop = (index: number) => `{"type":"content_block_stop","index":${index}}`;

const big = '{"n": 9007199254740993, "list":[1e400 , 1.50],\t"s":"\\u00e9"}';

test.each<[string, string]>([
  ['', '{}'],
  [',"input":null', '{}'],
  [',"input":{}', '{}'],
  [`,"input":${big}`, big],
  [`,"input":{"a":1} ,"input":${big}`, big],
  [',"input" : {"a" : {"input": 1}}', '{"a" : {"input": 1}}'],
])('a call with %j has the arguments %j, in JSON and in a stream', (input, expected) => {
  const text = `[{"type":"text","text":"\\"input\\":[{"},7,{"type":"tool_use","id":"a","name":"now"${input}}]`;
  expect(callsOf(text).map((call) => call.function.arguments)).toEqual([expected]);
  expect(streamedArguments([start, begin(0, input), stop(0), end])).toEqual([expected]);
  // Some say nothing of the end of a block.
  expect(streamedArguments([start, begin(0, input), end])).toEqual([expected]);
  expect(streamedArguments([start, begin(0, input), delta(0, ''), stop(0), end])).toEqual([
    expected,
  ]);
});

test('calls that lie in one another each have their own arguments', () => {
  const events = [
    start,
    begin(1, ',"input":{}'),
    delta(1, '{"a": '),
    begin(2, ',"input":{}'),
    begin(4, ',"input":{"b":2}'),
    delta(1, '9007199254740993}'),
    stop(2),
    stop(1),
    stop(4),
    end,
  ];
  expect(streamedArguments(events)).toEqual(['{"a": 9007199254740993}', '{}', '{"b":2}']);
});

test('parts take the place of what stood in the begin', () => {
  const events = [start, begin(0, ',"input":{"a":1}'), delta(0, '{"a":2}'), stop(0), end];
  expect(streamedArguments(events)).toEqual(['{"a":2}']);
});

test('arguments come before the end of the answer', () => {
  const chunks = chunksOf([start, begin(0, ''), end]);
  const reasons = chunks.map(
    ({ choices }) => (choices[0] as { finish_reason?: string }).finish_reason,
  );
  expect(reasons).toEqual([null, null, null, 'tool_calls']);
});

test.each(['[]', 'null', '7', '"x"', '{"error":{"message":"x"}}', '{"content":null}', '{"conte'])(
  'what is no message passes as it came: %s',
  (text) => {
    const translator = chatOverMessages.open(false, { headers: {}, model: 'x' });
    translator.push(Buffer.from(text));
    expect(translator.end().toString()).toBe(text);
  },
);

test('a message without content is an answer without words', () => {
  const translator = chatOverMessages.open(false, { headers: {}, model: 'x' });
  translator.push(Buffer.from('{"id":"m","content":[],"stop_reason":"end_turn"}'));
  const { choices } = JSON.parse(translator.end().toString());
  expect(choices).toMatchObject([{ message: { content: '' }, finish_reason: 'stop' }]);
});
