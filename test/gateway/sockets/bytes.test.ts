import { randomUUID } from 'node:crypto';
import { chat, gatewayKey, post, type TestGateway } from '../../support/gateway';
import type { Client } from '../../support/socket';
import { until } from '../../support/until';
import { behindWire, connected, models, responds, world } from './connected';

const path = '/v1/responses/ws';

/** A gateway whose first key may have a quarter of so many bytes on their way, and such a key. */
async function bounded(arriving_limit_bytes: number): Promise<TestGateway & { key: string }> {
  const gateway = await behindWire({ arriving_limit_bytes });
  return { ...gateway, key: await gatewayKey(world.api, world.org.org_id) };
}

/** Resolves once the gateway has read all that was sent before. */
function untilRead({ ws }: Client): Promise<void> {
  const mark = randomUUID();
  return new Promise((resolve) => {
    const heard = (data: Buffer) => {
      if (data.toString() !== mark) return;
      ws.off('pong', heard);
      resolve();
    };
    ws.on('pong', heard);
    ws.ping(mark);
  });
}

/** Takes the frames of one answer away once its last one is there, of a whole or a cut one. */
async function ended({ frames }: Client): Promise<void> {
  const last = () =>
    frames.findIndex(({ type }) => type === 'response.completed' || type === 'response.incomplete');
  await until(() => last() >= 0);
  frames.splice(0, last() + 1);
}

/** A frame of a call in two parts, the first one of so many bytes. */
function inParts(bytes: number): [string, string] {
  const frame = JSON.stringify(responds('x'.repeat(bytes)));
  return [frame.slice(0, bytes), frame.slice(bytes)];
}

test('frames that are not whole take a key’s share of the gateway: the socket that goes beyond it ends', async () => {
  const { url, key, sockets, close } = await bounded(1_000_000);
  const [first, second] = [
    await connected(path, { url, key }),
    await connected(path, { url, key }),
  ];
  const [part, rest] = inParts(200_000);
  first.ws.send(part, { fin: false });
  await untilRead(first);
  expect([first.ws.readyState, first.frames]).toEqual([first.ws.OPEN, []]);
  second.ws.send(part, { fin: false });
  expect((await second.closed).code).toBe(1009);
  expect(second.frames).toMatchObject([
    { type: 'error', status: 429, error: { code: 'websocket_stream_limit_reached' } },
  ]);
  await until(() => sockets.sessions.size === 1);
  const another = await gatewayKey(world.api, world.org.org_id);
  const asked = await post(`${url}/v1/chat/completions`, another, chat('x'.repeat(100_000)));
  expect(asked.status).toBe(200);
  first.ws.send(rest, { fin: true });
  await ended(first);
  // What became whole is counted no more, and neither is what a socket leaves behind.
  const third = await connected(path, { url, key });
  third.ws.send(part, { fin: false });
  await untilRead(third);
  third.ws.terminate();
  await until(() => sockets.sessions.size === 1);
  first.ws.send(part, { fin: false });
  await untilRead(first);
  expect(first.ws.readyState).toBe(first.ws.OPEN);
  await close();
});

test('pings between the parts of a frame count for nothing', async () => {
  const { url, key, close } = await bounded(100_000);
  const [idle, client] = [await connected(path, { url, key }), await connected(path, { url, key })];
  idle.ws.send('{"type":', { fin: false });
  for (let n = 0; n < 300; n += 1) {
    idle.ws.ping(Buffer.alloc(120));
    // A client that is given a hundred pongs at once ends by itself.
    if (n % 20 === 19) await untilRead(idle);
  }
  client.ws.send(inParts(20_000)[0], { fin: false });
  await untilRead(client);
  expect([idle.ws.readyState, client.ws.readyState]).toEqual([client.ws.OPEN, client.ws.OPEN]);
  await close();
});

test('frames that wait take it too: one more is refused, the socket stays, and each that runs makes room', async () => {
  const { url, key, close } = await bounded(100_000);
  const slowly = 'Slowly. [[fault:chunks count=10; slow delay=30]]';
  const [client, beside] = [
    await connected(path, { url, key }),
    await connected(path, { url, key }),
  ];
  models.keepAfter('response.output_text.delta');
  for (const one of [client, beside]) {
    one.send(responds(slowly));
    await one.some(({ type }) => type === 'response.created');
  }
  client.send(responds('x'.repeat(20_000)));
  await untilRead(client);
  for (const one of [client, beside]) {
    one.send(responds('y'.repeat(8_000)));
    expect(await one.answer('error')).toContainEqual(
      expect.objectContaining({
        status: 429,
        error: expect.objectContaining({ code: 'websocket_stream_limit_reached' }),
      }),
    );
  }
  models.release();
  await ended(client);
  await ended(client);
  models.keepAfter('response.output_text.delta');
  client.send(responds(slowly));
  await client.some(({ type }) => type === 'response.created');
  client.send(responds('z'.repeat(20_000)));
  await untilRead(client);
  models.release();
  await ended(client);
  await ended(client);
  expect(client.frames.filter(({ type }) => type === 'error')).toEqual([]);
  await close();
});
