import { createServer, type Server } from 'node:http';
import net from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Batches, openBatches } from '../../../gateway/control-plane/batches';
import { listen } from '../../../runtime/listen';
import { until } from '../../support/until';

// Connections to a control plane that is overloaded or far away come up late, and then what waited
// for them is written.

const bodies: number[] = [];
let server: Server;
let url: string;
let batches: Batches;

beforeAll(async () => {
  server = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const { items } = JSON.parse(Buffer.concat(chunks).toString());
    bodies.push(...items.map((item: { body: { n: number } }) => item.body.n));
    response.end(
      items
        .map(({ id }: { id: string }) => `${JSON.stringify({ id, status: 200, body: {} })}\n`)
        .join(''),
    );
  });
  url = `http://127.0.0.1:${await listen(server, 0)}`;
});

afterEach(async () => {
  jest.restoreAllMocks();
  bodies.length = 0;
  await batches.close();
});

afterAll(() => {
  server.closeAllConnections();
  server.close();
});

/** From now on connections come up so late; how many were asked for. */
function connectLate(ms: number) {
  return jest.spyOn(net, 'connect').mockImplementation(((options: net.NetConnectOpts) => {
    const socket = new net.Socket();
    void sleep(ms).then(() => socket.connect(options));
    return socket;
  }) as typeof net.connect);
}

test('a reserve that is given up while its connection comes up may have been sent, and is', async () => {
  const connect = connectLate(600);
  batches = openBatches({ urls: [url], headers: {} });
  const first = batches.send('reserve', { n: 1 }, 300);
  expect(await first).toEqual({ status: 0, was_sent: true });
  expect(bodies).toEqual([]);
  expect(connect).toHaveBeenCalled();
  await until(() => bodies.length > 0);
  expect(bodies).toEqual([1]);
});

test('a reserve that is given up while no connection comes up was not sent', async () => {
  const closed = createServer();
  const port = await listen(closed, 0);
  await new Promise((done) => closed.close(done));
  batches = openBatches({ urls: [`http://127.0.0.1:${port}`], headers: {} });
  // Each try is refused at once, and the next one comes after a pause.
  expect(await batches.send('reserve', { n: 2 }, 350)).toEqual({ status: 0, was_sent: false });
});

test('a reserve whose connection comes up in time is answered, though another one before it is given up', async () => {
  connectLate(400);
  batches = openBatches({ urls: [url], headers: {} });
  const given_up = batches.send('reserve', { n: 3 }, 200);
  const patient = batches.send('reserve', { n: 4 }, 5_000);
  expect(await given_up).toEqual({ status: 0, was_sent: true });
  expect(await patient).toMatchObject({ status: 200 });
  expect(bodies).toEqual([3, 4]);
});
