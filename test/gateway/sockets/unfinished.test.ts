import type { Socket } from 'node:net';
import { createArrivals } from '../../../gateway/call/arrivals';
import { MessageReader } from '../../../gateway/sockets/message-reader';
import type { TestGateway } from '../../support/gateway';
import type { Client } from '../../support/socket';
import { until } from '../../support/until';
import { connected, world } from './connected';

const path = '/v1/responses/ws';
const TEXT = 0x1;
const CONTINUED = 0x0;
const PING = 0x9;

/** A frame of a client, whose mask changes nothing. */
function frame(opcode: number, payload: string, { fin = true } = {}): Buffer {
  const data = Buffer.from(payload);
  const short = data.length < 126;
  const head = Buffer.alloc(short ? 6 : 8);
  head[0] = (fin ? 0x80 : 0) | opcode;
  head[1] = 0x80 | (short ? data.length : 126);
  if (!short) head.writeUInt16BE(data.length, 2);
  return Buffer.concat([head, data]);
}

const long = 'x'.repeat(300);

test.each([
  ['one frame', [frame(TEXT, 'abc')]],
  ['an empty one', [frame(TEXT, '')]],
  ['a long one', [frame(TEXT, long)]],
  ['parts', [frame(TEXT, 'ab', { fin: false }), frame(CONTINUED, long)]],
  [
    'parts with a ping between',
    [frame(TEXT, 'ab', { fin: false }), frame(PING, 'p'), frame(CONTINUED, '')],
  ],
])('%s are a message that is whole with its last byte, wherever it is cut', (_title, frames) => {
  const all = Buffer.concat(frames);
  for (let at = 1; at < all.length; at += 1) {
    const reader = new MessageReader();
    reader.read(all.subarray(0, at));
    expect([at, reader.messages, reader.is_whole]).toEqual([at, 0, false]);
    reader.read(all.subarray(at));
    expect([at, reader.messages, reader.is_whole, reader.bytes]).toEqual([at, 1, true, 0]);
  }
});

test('a message that has begun counts with the data that has come, and with nothing else', () => {
  const reader = new MessageReader();
  reader.read(Buffer.concat([frame(TEXT, 'whole'), frame(TEXT, 'begun', { fin: false })]));
  expect([reader.messages, reader.bytes, reader.is_whole]).toEqual([1, 5, false]);
  reader.read(frame(PING, 'ping'));
  reader.read(frame(CONTINUED, long, { fin: false }).subarray(0, -100));
  expect([reader.messages, reader.bytes, reader.is_whole]).toEqual([1, 205, false]);
  const large = Buffer.from([0x81, 0xff, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
  const other = new MessageReader();
  other.read(large);
  other.read(Buffer.alloc(70_000));
  expect([other.bytes, other.is_whole]).toEqual([70_000, false]);
});

/** A gateway whose bodies and frames have these times. */
async function timed(times: { idle_ms: number; whole_ms: number }): Promise<TestGateway> {
  const made = await world.openGateway();
  made.gateway.arrivals = createArrivals(times);
  return made;
}

/** The bytes of a client as they leave it. */
const rawOf = ({ ws }: Client) => (ws as unknown as { _socket: Socket })._socket;

/** Waits until the gateway has ended a client that it did not get a whole frame of. */
async function expectSlow({ sockets }: TestGateway, client: Client): Promise<void> {
  expect(await client.closed).toEqual({
    code: 1008,
    reason: 'A frame did not arrive in time. Connect again.',
  });
  expect(client.frames.at(-1)).toMatchObject({
    ...{ type: 'error', status: 408, error: { code: 'invalid_request' } },
  });
  await until(() => sockets.sessions.size === 0);
}

const SHORT = { idle_ms: 150, whole_ms: 60_000 };

test.each<[string, (client: Client) => unknown]>([
  ['a part of a message', ({ ws }) => ws.send('{"type":', { fin: false })],
  ['a part of a frame', (client) => rawOf(client).write(frame(TEXT, 'whole').subarray(0, -1))],
  ['the first byte of a frame', (client) => rawOf(client).write(Buffer.from([0x81]))],
  [
    'a frame that begins in one read with the end of another',
    (client) =>
      rawOf(client).write(
        Buffer.concat([frame(TEXT, '{"type":"none"}'), frame(TEXT, 'whole').subarray(0, -1)]),
      ),
  ],
])('%s is waited for no longer than a byte of a body: the socket ends', async (_title, begin) => {
  const gateway = await timed(SHORT);
  const client = await connected(path, { url: gateway.url });
  begin(client);
  await expectSlow(gateway, client);
  await gateway.close();
});

test.each<[string, { idle_ms: number; whole_ms: number }, (client: Client) => void]>([
  ['pings between its parts', SHORT, ({ ws }) => ws.ping()],
  [
    'one byte after the other',
    { idle_ms: 60_000, whole_ms: 300 },
    ({ ws }) => ws.send(' ', { fin: false }),
  ],
])('a message gains no time by %s', async (_title, times, go_on) => {
  const gateway = await timed(times);
  const client = await connected(path, { url: gateway.url });
  client.ws.send('{"type":', { fin: false });
  const timer = setInterval(() => client.ws.readyState === client.ws.OPEN && go_on(client), 20);
  await expectSlow(gateway, client);
  clearInterval(timer);
  await gateway.close();
});

test('a socket that has sent whole frames alone may be silent', async () => {
  const gateway = await timed(SHORT);
  const idle = await connected(path, { url: gateway.url });
  idle.send({ type: 'none' });
  await idle.answer('error');
  const slow = await connected(path, { url: gateway.url });
  slow.ws.send('{', { fin: false });
  expect((await slow.closed).code).toBe(1008);
  expect([idle.ws.readyState, idle.frames]).toEqual([idle.ws.OPEN, []]);
  idle.send({ type: 'none' });
  await idle.answer('error');
  idle.ws.close();
  await gateway.close();
});
