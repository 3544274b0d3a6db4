import { createStreamMeter } from '../../../gateway/exchange/meter';
import { chatReader } from '../../../gateway/families/chat';
import { newSseState, readFrames, unfinished } from '../../../gateway/wire/sse';
import { cpuMsOf, leastOf } from '../../support/cpu';

const events = [
  'data: {"choices":[{"index":0,"delta":{"content":"Gr\u00fc\u00dfe \u{1f44b}\u{1f3fd}"}}]}',
  ': a comment',
  'event: named\nid: 7\ndata: first\ndata: second',
  'data:without a blank',
  'data: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}',
  'data: [DONE]',
];
const ends = { LF: '\n', CRLF: '\r\n', CR: '\r' };

function streamWith(end: string, lines: string[] = events): Buffer {
  return Buffer.from(lines.map((text) => `${text}\n\n`.replaceAll('\n', end)).join(''));
}

/** What a reader makes of a stream that arrives in these chunks. */
function read(chunks: Buffer[]) {
  const state = newSseState();
  const frames = chunks.flatMap((chunk) => readFrames(state, chunk));
  const bytes = Buffer.concat([...frames.map((frame) => frame.bytes), unfinished(state)]);
  const told = frames.flatMap(({ data, event }) => (data === undefined ? [] : [{ data, event }]));
  return { bytes, told, rest: unfinished(state) };
}

const expected = [
  { data: events[0]?.slice(6), event: undefined },
  { data: 'first\nsecond', event: 'named' },
  { data: 'without a blank', event: undefined },
  { data: events[4]?.slice(6), event: undefined },
  { data: '[DONE]', event: undefined },
];

test.each(Object.entries(ends))(
  'a stream with %s split in two at every byte gives the same events and the same bytes',
  (_, end) => {
    const whole = streamWith(end);
    for (let at = 0; at <= whole.length; at += 1) {
      const { bytes, told, rest } = read([whole.subarray(0, at), whole.subarray(at)]);
      expect(told).toEqual(expected);
      expect(bytes.equals(whole)).toBe(true);
      expect(rest).toHaveLength(0);
    }
  },
);

test.each(Object.entries(ends))(
  'a stream with %s that arrives byte by byte, split characters included, gives the same events',
  (_, end) => {
    const whole = streamWith(end);
    const { bytes, told } = read([...whole].map((byte) => Buffer.from([byte])));
    expect(told).toEqual(expected);
    expect(bytes.equals(whole)).toBe(true);
  },
);

test('line ends of all kinds in one stream, and a byte order mark before it, are understood', () => {
  const { told } = read([Buffer.from('\ufeffdata: a\r\n\ndata: b\r\rdata: c\n\r\n')]);
  expect(told.map(({ data }) => data)).toEqual(['a', 'b', 'c']);
});

test('a line of 1 MB in chunks of 1 kB is one event, and takes time that grows with its length alone', async () => {
  const took = async (length: number) => {
    const whole = Buffer.from(`data: ${'x'.repeat(length)}\n\n`);
    const chunks: Buffer[] = [];
    for (let at = 0; at < whole.length; at += 1_000) chunks.push(whole.subarray(at, at + 1_000));
    let answer = read([]);
    const spent_ms = await cpuMsOf(() => {
      answer = read(chunks);
    });
    expect(answer.told.map(({ data }) => data?.length)).toEqual([length]);
    expect(answer.bytes.equals(whole)).toBe(true);
    return spent_ms;
  };
  // Eight times as long; a walk of each chunk over the whole line takes 64 times as long.
  const bound = 30 * (await leastOf(5, 0, () => took(1_000_000))) + 20;
  expect(await leastOf(5, bound, () => took(8_000_000))).toBeLessThan(bound);
});

test('what never ended is kept apart', () => {
  const { told, rest } = read([Buffer.from('data: a\n\ndata: b\n')]);
  expect(told).toHaveLength(1);
  expect(rest.toString()).toBe('data: b\n');
});

test.each(Object.entries(ends))(
  'the extra usage chunk of a stream with %s is dropped at every split, the rest is untouched, the usage is known',
  (_, end) => {
    const whole = streamWith(end);
    const without = streamWith(
      end,
      events.filter((text) => !text.includes('usage')),
    );
    for (let at = 0; at <= whole.length; at += 1) {
      const meter = createStreamMeter(chatReader, { hides_usage: true });
      const passed = [whole.subarray(0, at), whole.subarray(at)].map((part) => meter.push(part));
      expect(Buffer.concat([...passed, meter.rest()]).toString()).toBe(without.toString());
      expect(meter.measured()).toMatchObject({
        usage: { prompt_tokens: 3, completion_tokens: 2 },
        is_done: true,
      });
    }
  },
);

test('usage on a last chunk that has a choice is read, and the chunk is not dropped', () => {
  const chunk = {
    choices: [{ index: 0, delta: {}, finish_reason: 'stop' }],
    usage: { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 },
  };
  const whole = streamWith('\n', [`data: ${JSON.stringify(chunk)}`]);
  const meter = createStreamMeter(chatReader, { hides_usage: true });
  expect(meter.push(whole).equals(whole)).toBe(true);
  expect(meter.measured()).toMatchObject({ usage: { prompt_tokens: 3 }, has_finish: true });
});
