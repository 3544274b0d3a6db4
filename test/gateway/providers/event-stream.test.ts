import { openConverseStream, openEventStream } from '../../../gateway/providers/event-stream';
import { chunkFrame, eventFrame, exceptionFrame, frame } from '../../../sandbox/providers/frames';

// Frames of Bedrock that are damaged, or that hold what would end a line of an event stream.

const event = { ':message-type': 'event', ':event-type': 'chunk' };
const framed = (text: string) =>
  frame(event, JSON.stringify({ bytes: Buffer.from(text).toString('base64') }));
const ping = 'event: ping\ndata: {"type":"ping"}\n\n';

test('what came whole before a damaged frame is given, wherever the pieces end', () => {
  const damaged = chunkFrame({ type: 'ping' });
  damaged[damaged.length - 1] = (damaged.at(-1) as number) ^ 1;
  const bytes = Buffer.concat([chunkFrame({ type: 'ping' }), damaged, chunkFrame({ type: 'no' })]);
  for (const size of [1, 7, bytes.length]) {
    const { push, end } = openEventStream();
    let text = '';
    const read = () => {
      for (let at = 0; at < bytes.length; at += size)
        text += push(bytes.subarray(at, at + size)).toString();
      end();
    };
    expect(read).toThrow();
    expect([size, text]).toEqual([size, ping]);
  }
});

test('a frame in thousands of pieces is joined once', () => {
  const joined = jest.spyOn(Buffer, 'concat');
  const { push, end } = openEventStream();
  const bytes = framed(JSON.stringify({ type: 'ping', text: 'x'.repeat(200_000) }));
  joined.mockClear();
  let text = '';
  for (let at = 0; at < bytes.length; at += 64) text += push(bytes.subarray(at, at + 64));
  const joins = joined.mock.calls.length;
  end();
  expect(text).toContain('x'.repeat(200_000));
  expect(joins).toBeLessThanOrEqual(2);
});

test('an event of several lines is one event, and a type is one word', () => {
  const { push, end } = openEventStream();
  expect(push(framed('{\r\n "type": "ping",\n\n "a": "b"\n}')).toString()).toBe(
    'event: ping\ndata: {  "type": "ping",  "a": "b" }\n\n',
  );
  expect(push(framed('{"type":"ping\\n\\nevent: message_stop"}'))).toHaveLength(0);
  for (const text of ['{}', '{"type":7}', '{"type":""}'])
    expect(push(framed(text))).toHaveLength(0);
  expect(push(frame({ ...event }, '{"p":"abc"}'))).toHaveLength(0);
  end();
});

test.each(['null', '[', 'no JSON'])('an event of %s is damage', (text) => {
  expect(() => openEventStream().push(framed(text))).toThrow();
  expect(() => openEventStream().push(frame(event, text))).toThrow();
});

test('a length that no frame has is damage at once, before its bytes are waited for', () => {
  for (const length of [0, 15, 2 ** 31]) {
    const bytes = Buffer.alloc(12);
    bytes.writeUInt32BE(length);
    expect(() => openEventStream().push(bytes)).toThrow(/no length/);
  }
});

test('an event of a conversation has the name that its headers say', () => {
  const { push, end } = openConverseStream();
  const bytes = Buffer.concat([
    eventFrame({ messageStart: { role: 'assistant' } }),
    // A name that would be another line of the stream is none.
    frame({ ...event, ':event-type': 'a\n\nevent: b' }, '{}'),
    exceptionFrame('serviceUnavailableException', 'Away'),
  ]);
  expect(`${push(bytes.subarray(0, 9))}${push(bytes.subarray(9))}`).toBe(
    'event: messageStart\ndata: {"role":"assistant","p":"abcdefgh"}\n\n' +
      'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"Away"}}\n\n',
  );
  end();
  for (const text of ['7', 'null', '[', 'no JSON'])
    expect(() => openConverseStream().push(frame(event, text))).toThrow();
});
