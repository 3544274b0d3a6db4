import type { Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Frame } from '../../support/socket';
import { until } from '../../support/until';
import { connected, responds, world } from './connected';

const path = '/v1/responses';

describe('a socket', () => {
  it('of a client that sends without reading holds no more than a bound, and goes on once it reads', async () => {
    const { url, sockets, close } = await world.openGateway({});
    const client = await connected(path, { url });
    const [session] = [...sockets.sessions.keys()] as unknown as { ws: typeof client.ws }[];
    const held = () => session?.ws.bufferedAmount ?? 0;
    client.ws.pause();
    for (let n = 0; n < 30_000; n += 1) client.send('{}');
    await until(() => session?.ws.isPaused === true);
    expect(held()).toBeLessThan(16_000_000);
    client.ws.resume();
    await until(() => client.frames.length === 30_000);
    expect(held()).toBe(0);
    await close();
  });
});

describe('a client that reads slowly', () => {
  it('does not make the gateway keep what it has not read', async () => {
    const { url, sockets, close } = await world.openGateway();
    const client = await connected(path, { url });
    for (let lane = 0; lane < 4; lane += 1) {
      const much = responds('Much. [[fault:big-line size=1000000]]', {
        stream_id: `lane ${lane}`,
        max_output_tokens: 900_000,
      });
      for (let frame = 0; frame < 8; frame += 1) client.send(much);
    }
    client.ws.pause();
    const [session] = sockets.sessions.keys();
    const unread = () =>
      (session as unknown as { ws: { bufferedAmount: number } }).ws.bufferedAmount;
    await until(() => unread() > 1_000_000);
    // No event says that it has stopped growing: the largest of some looks counts.
    let most = 0;
    for (let look = 0; look < 20; look += 1) {
      await sleep(10);
      most = Math.max(most, unread());
    }
    // A megabyte, and the frame that each lane had in hand.
    expect(most).toBeLessThan(1_048_576 + 4 * 2_200_000);
    client.ws.resume();
    const isEnd = ({ type }: Frame) => type === 'response.completed';
    await until(() => client.frames.filter(isEnd).length === 32, 120_000);
    await close();
  });
});

describe('a client that reads slowly but steadily', () => {
  it('gets the whole of a large frame, however many pings stand behind it', async () => {
    // The fourth ping cuts a client that has read nothing: 1.6 s, as a busy machine may stop for
    // some hundred milliseconds.
    const { url, close } = await world.openGateway({ settings: { sockets: { ping_ms: 400 } } });
    const client = await connected(path, { url });
    client.send(responds('Much. [[fault:big-line size=12000000]]', { max_output_tokens: 900_000 }));
    const { _socket: socket } = client.ws as unknown as { _socket: Socket };
    const pause = () => socket.pause();
    socket.on('data', pause);
    const slow = setInterval(() => socket.resume(), 16);
    await until(() => socket.bytesRead > 1_000_000);
    const began_at = performance.now();
    await until(() => socket.bytesRead > 12_000_000 || socket.destroyed, 120_000);
    clearInterval(slow);
    socket.off('data', pause);
    socket.resume();
    // Long enough for the pings to matter.
    expect(performance.now() - began_at).toBeGreaterThan(2_000);
    expect(socket.destroyed).toBe(false);
    await client.some(({ type }) => type === 'response.incomplete');
    await close();
  });

  it('is cut where it reads no more', async () => {
    const { url, sockets, close } = await world.openGateway({
      settings: { sockets: { ping_ms: 400 } },
    });
    const client = await connected(path, { url });
    client.send(responds('Much. [[fault:big-line size=12000000]]', { max_output_tokens: 900_000 }));
    const { _socket: socket } = client.ws as unknown as { _socket: Socket };
    const stop = () => {
      if (socket.bytesRead > 100_000) client.ws.pause();
    };
    socket.on('data', stop);
    // Cut by a reset, or by an end.
    client.ws.on('error', () => undefined);
    await until(() => client.ws.isPaused);
    await until(() => sockets.sessions.size === 0);
    socket.off('data', stop);
    client.ws.resume();
    await client.closed;
    expect(socket.bytesRead).toBeLessThan(12_000_000);
    await close();
  });
});
