import { nothing_measured } from '../../../../gateway/families/reader';
import { chatOverConverse } from '../../../../gateway/families/unified/converse-answer';
import { chatOverGemini } from '../../../../gateway/families/unified/gemini-answer';
import { chatOverMessages } from '../../../../gateway/families/unified/messages';
import { FRAME_MAX_BYTES } from '../../../../gateway/wire/sse';

// How streams of other wires end, break and go astray, as their translators tell it.

const wires = { gemini: chatOverGemini, converse: chatOverConverse, messages: chatOverMessages };
type Wire = keyof typeof wires;
const all = Object.keys(wires) as Wire[];

const open = (wire: Wire, choices = 1) =>
  wires[wire].open(true, { headers: {}, model: 'm', choices });
const frame = (data: object, name?: string) =>
  `${name === undefined ? '' : `event: ${name}\n`}data: ${JSON.stringify(data)}\n\n`;
const candidate = (more: object) => ({ content: { parts: [{ text: 'A' }] }, ...more });
const counts = (candidatesTokenCount: number) => ({
  usageMetadata: { promptTokenCount: 5, candidatesTokenCount },
});

const whole: Record<Wire, string> = {
  gemini: frame({ candidates: [candidate({ finishReason: 'STOP' })], ...counts(4) }),
  converse:
    frame({ role: 'assistant' }, 'messageStart') +
    frame({ stopReason: 'end_turn' }, 'messageStop') +
    frame({ usage: { inputTokens: 5, outputTokens: 4 } }, 'metadata'),
  messages:
    frame({ type: 'message_start', message: { id: 'a', usage: { input_tokens: 5 } } }) +
    frame({
      type: 'message_delta',
      delta: { stop_reason: 'end_turn' },
      usage: { output_tokens: 4 },
    }) +
    frame({ type: 'message_stop' }),
};

/** What a stream becomes. */
function told(wire: Wire, text: string, is_broken = false): string {
  const translator = open(wire);
  return `${translator.push(Buffer.from(text))}${translator.end(is_broken)}`;
}

test('gemini: of each count the largest of a stream is charged', () => {
  const usageMetadata = {
    ...{ promptTokenCount: 10, candidatesTokenCount: 5, thoughtsTokenCount: 2_000 },
    totalTokenCount: 2_015,
    candidatesTokensDetails: [{ modality: 'IMAGE', tokenCount: 3 }],
  };
  const events = [
    { candidates: [candidate({ finishReason: 'STOP' })], usageMetadata },
    { usageMetadata: { promptTokenCount: 10, totalTokenCount: 10, candidatesTokensDetails: [] } },
  ];
  const translator = open('gemini');
  for (const event of events) translator.push(Buffer.from(frame(event)));
  expect(translator.end().toString()).toMatch(/"prompt_tokens":10,"completion_tokens":2005,/);
  const measured = { ...nothing_measured };
  translator.tell(measured);
  expect(measured).toMatchObject({
    is_usage_partial: false,
    usage: { completion_tokens: 2_005, reasoning_tokens: 2_000, image_output_tokens: 3 },
  });
});

const prompt_alone = { promptTokenCount: 7, totalTokenCount: 7 };

test.each([
  { usageMetadata: prompt_alone, modelVersion: 'x' },
  { usageMetadata: prompt_alone, candidates: [], promptFeedback: {} },
])('gemini: the answer %j is an empty choice with its usage', (event) => {
  const translator = chatOverGemini.open(false, { headers: {}, model: 'm' });
  translator.push(Buffer.from(JSON.stringify(event)));
  const end = { finish_reason: 'stop', native_finish_reason: 'NO_CANDIDATES' };
  const usage = { prompt_tokens: 7, completion_tokens: 0 };
  expect(JSON.parse(translator.end().toString())).toMatchObject({
    choices: [{ index: 0, message: { role: 'assistant', content: '' }, ...end }],
    usage,
  });
  const text = told('gemini', frame(event));
  expect(text).toContain('"native_finish_reason":"NO_CANDIDATES"');
  expect(text).toMatch(/"prompt_tokens":7,"completion_tokens":0[^\n]*\n\ndata: \[DONE\]\n\n$/);
  expect(told('gemini', frame(event), true)).toBe('');
  for (const words of [{ error: { message: 'overloaded' } }, { message: 'overloaded' }]) {
    const failed = frame(words);
    expect(told('gemini', frame(event) + failed)).toBe(failed);
  }
});

test('converse: usage without a message is an empty choice', () => {
  const translator = chatOverConverse.open(false, { headers: {}, model: 'm' });
  translator.push(Buffer.from('{"output":{},"usage":{"inputTokens":7}}'));
  expect(JSON.parse(translator.end().toString())).toMatchObject({
    choices: [{ message: { content: '' }, finish_reason: 'stop' }],
    usage: { prompt_tokens: 7 },
  });
});

test.each(all)('%s: a whole stream stays one if its connection breaks behind it', (wire) => {
  for (const is_broken of [false, true]) {
    const text = told(wire, whole[wire], is_broken);
    expect(text).toContain('"finish_reason":"stop"');
    expect(text).toMatch(/"prompt_tokens":5,"completion_tokens":4[^\n]*\n\ndata: \[DONE\]\n\n$/);
    expect(text.match(/\[DONE\]/g)).toHaveLength(1);
  }
});

test.each<[string, object[], number]>([
  ['a choice that never came', [{ candidates: [candidate({ finishReason: 'STOP' })] }], 2],
  [
    'usage that came before the end alone',
    [
      { candidates: [candidate({})], ...counts(1) },
      { candidates: [candidate({ finishReason: 'STOP' })] },
    ],
    1,
  ],
])('gemini: %s makes a broken stream no whole one', (_, events, choices) => {
  const translator = open('gemini', choices);
  for (const event of events) translator.push(Buffer.from(frame(event)));
  expect(translator.end(true)).toHaveLength(0);
});

test.each(all)(
  '%s: a last frame without its blank line counts where a stream ends well',
  (wire) => {
    const text = whole[wire].trimEnd();
    expect(told(wire, text)).toContain('[DONE]');
    expect(told(wire, text)).toMatch(/"prompt_tokens":5,"completion_tokens":4/);
    expect(told(wire, text, true)).not.toContain('[DONE]');
  },
);

test.each(all)('%s: a frame that is too long to be read is an error', (wire) => {
  const translator = open(wire);
  const piece = Buffer.alloc(1_048_576, 'a');
  translator.push(Buffer.from('data: {"candidates":[{"content":{"parts":[{"text":"'));
  const feed = () => {
    for (let bytes = 0; bytes <= FRAME_MAX_BYTES; bytes += piece.length) translator.push(piece);
  };
  expect(feed).toThrow(/longer than 16 MiB/);
});

test.each(all)('%s: what is no event of it reaches nobody, and failures do', (wire) => {
  const stray = [{ foo: 'secret' }, { response: { foo: 'secret' } }];
  expect(told(wire, stray.map((event) => frame(event)).join(''))).toBe('');
  const failures = ['{"message":"overloaded"}', '{"error":{"message":"overloaded","code":1}}'];
  for (const text of failures) {
    const data = told(wire, `data: ${text}\n\n`);
    expect(data).toBe(`data: ${text}\n\n`);
  }
});

test.each(all)('%s: words of an error that are no object are told too', (wire) => {
  const listed = 'data: [{"error":{"message":"overloaded","code":503}}]\n\n';
  expect(told(wire, listed)).toBe('data: {"error":{"message":"overloaded","code":503}}\n\n');
  for (const end of ['\n\n', '\r\n\r\n', ''])
    expect(told(wire, `event: error\ndata: overloaded${end}`)).toBe(
      'event: error\ndata: overloaded\n\n',
    );
  expect(told(wire, 'data: overloaded\n\n')).toBe('');
  expect(told(wire, frame({ why: 'overloaded' }, 'error'))).toMatch(/^data: \{"error":\{/);
});

test.each<[Wire, string]>([
  ['messages', 'event: ping\ndata: {"type":"ping"}\n\n'],
  ['messages', ': alive\n\n'],
  ['gemini', ': alive\r\n\r\n'],
  ['converse', ':\n\n'],
])('%s: %j is a sign of life on the wire of chats too', (wire, sign) => {
  expect(told(wire, `${sign}${sign}`)).toBe(': ping\n\n: ping\n\n');
  const text = told(wire, sign + whole[wire]);
  expect(text.startsWith(': ping\n\ndata: {')).toBe(true);
  expect(text.endsWith('data: [DONE]\n\n')).toBe(true);
  // A stray line end is none.
  expect(told(wire, '\n\n\r\n')).toBe('');
});
