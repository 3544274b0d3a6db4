import { once } from 'node:events';
import { createServer, type IncomingMessage } from 'node:http';
import { connect, type Socket } from 'node:net';
import type { AppError } from '../../../domain/errors';
import { createArrivals } from '../../../gateway/call/arrivals';
import { readBytes } from '../../../gateway/wire/read';
import { listen } from '../../../runtime/listen';
import {
  chat,
  gatewayKey,
  openWorld,
  post,
  type TestGateway,
  type World,
} from '../../support/gateway';
import { makeFundedOrg } from '../../support/ledger';
import { until } from '../../support/until';

let world: World;
let gateway: TestGateway;
/** The bytes that the gateway has of bodies that are not whole. */
let taken = 0;
const path = '/v1/chat/completions';
const opened: Socket[] = [];

beforeAll(async () => {
  world = await openWorld();
  gateway = await world.openGateway({ settings: { arriving_limit_bytes: 1_000_000 } });
  const { arrivals } = gateway.gateway;
  gateway.gateway.arrivals = {
    begin(sender) {
      const arrival = arrivals.begin(sender);
      let own = 0;
      return {
        ...arrival,
        take(bytes) {
          arrival.take(bytes);
          own += bytes;
          taken += bytes;
        },
        end() {
          arrival.end();
          taken -= own;
          own = 0;
        },
      };
    },
  };
});

afterEach(() => {
  for (const socket of opened.splice(0)) socket.destroy();
});

afterAll(() => world.close());

/** A body of which so many bytes are sent, and its end is not; the answer once there is one. */
async function begin(to: string, key: string, bytes: number, at = path, missing = 1) {
  const { hostname, port, host } = new URL(to);
  const socket = connect(Number(port), hostname);
  opened.push(socket);
  let answer = '';
  socket.on('data', (data) => {
    answer += data;
  });
  socket.on('error', () => undefined);
  await once(socket, 'connect');
  socket.write(
    `POST ${at} HTTP/1.1\r\nhost: ${host}\r\nauthorization: Bearer ${key}\r\n` +
      'content-type: application/json\r\naccept: application/json, text/event-stream\r\n' +
      `content-length: ${bytes + missing}\r\n\r\n`,
  );
  socket.write(Buffer.alloc(bytes, 0x20));
  return { socket, answer: () => answer };
}

test('bodies that do not end take a key’s share of the gateway, another key’s are taken, and each that ends makes room', async () => {
  const org = await makeFundedOrg(world.api.db, 1_000_000);
  const [key, second] = [
    await gatewayKey(world.api, org.org_id),
    await gatewayKey(world.api, org.org_id),
  ];
  const begun = await begin(gateway.url, key, 200_000);
  await until(() => taken === 200_000);
  expect(begun.answer()).toBe('');
  const refused = await begin(gateway.url, key, 200_000);
  await until(async () => refused.answer() !== '');
  expect(refused.answer()).toMatch(/^HTTP\/1.1 429 /);
  expect(refused.answer()).toMatch(/\r\nretry-after: 2\r\n/i);
  expect(refused.answer()).toMatch(/\r\nx-ratelimit-limit: 250000\r\n/i);
  expect(refused.answer()).toContain('"rate_limit_exceeded"');
  expect((await post(gateway.url + path, second, chat('Hello'))).status).toBe(200);
  expect((await post(gateway.url + path, world.key, chat('Hello'))).status).toBe(200);
  begun.socket.destroy();
  await until(() => taken === 0);
  const next = await begin(gateway.url, key, 200_000);
  await until(() => taken === 200_000);
  expect(next.answer()).toBe('');
});

test('an organization’s keys together take half of the gateway, and a stranger’s bodies arrive', async () => {
  const org = await makeFundedOrg(world.api.db, 1_000_000);
  const bodies: Awaited<ReturnType<typeof begin>>[] = [];
  // What the test before has left.
  await until(() => taken === 0);
  for (let n = 0; n < 8; n += 1) {
    const before = taken;
    const body = await begin(gateway.url, await gatewayKey(world.api, org.org_id), 100_000);
    bodies.push(body);
    await until(() => taken === before + 100_000 || (body.answer() !== '' && taken === before));
  }
  const refused = bodies.filter(({ answer }) => answer() !== '');
  expect(refused).toHaveLength(3);
  for (const { answer } of refused) expect(answer()).toMatch(/^HTTP\/1.1 429 /);
  const large = chat('x'.repeat(200_000));
  expect((await post(gateway.url + path, world.key, large)).status).toBe(200);
});

/** Reads one body with these times; what came of it. */
async function openReader(times: { idle_ms: number; whole_ms: number }) {
  const arrivals = createArrivals(times);
  const sender = { owner: 'key', org_id: 'org', bytes_max: 1_000_000, orgShare: () => 1_000_000 };
  const read: Promise<Buffer>[] = [];
  const server = createServer((req: IncomingMessage, res) => {
    const body = readBytes(req, 1_000_000, arrivals.begin(sender));
    read.push(body);
    body.then(
      () => res.end(),
      () => res.destroy(),
    );
  });
  const url = `http://127.0.0.1:${await listen(server, 0)}`;
  const close = () => server.close();
  return { url, read, close };
}

test.each([
  ['a byte is waited for no longer than its time', { idle_ms: 150, whole_ms: 60_000 }, 0],
  ['a body that trickles has a time in all', { idle_ms: 60_000, whole_ms: 300 }, 20],
])('%s: 408', async (_title, times, every_ms) => {
  const { url, read, close } = await openReader(times);
  const { socket } = await begin(url, 'key', 10_000, '/', 90_000);
  const timer = every_ms > 0 ? setInterval(() => socket.write(' '), every_ms) : undefined;
  await until(async () => read.length === 1);
  const error = await (read[0] as Promise<Buffer>).catch((thrown: AppError) => thrown);
  clearInterval(timer);
  expect(error).toMatchObject({ status: 408, code: 'invalid_request' });
  close();
});

test('a body in ten thousands of tiny chunks is read as it was sent', async () => {
  const { url, read, close } = await openReader({ idle_ms: 60_000, whole_ms: 600_000 });
  const { hostname, port, host } = new URL(url);
  const socket = connect(Number(port), hostname);
  opened.push(socket);
  socket.write(`POST / HTTP/1.1\r\nhost: ${host}\r\ntransfer-encoding: chunked\r\n\r\n`);
  const digits = Array.from({ length: 30_000 }, (_, n) => String(n % 10));
  socket.write(digits.map((digit) => `1\r\n${digit}\r\n`).join(''));
  socket.write('0\r\n\r\n');
  await until(async () => read.length === 1);
  expect((await (read[0] as Promise<Buffer>)).toString()).toBe(digits.join(''));
  close();
});
