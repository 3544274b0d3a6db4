import { once } from 'node:events';
import { connect } from 'node:net';
import { many } from '../../domain/sql';
import { chat, openWorld, type TestGateway, type World } from '../support/gateway';
import { until } from '../support/until';

let world: World;
let one: TestGateway;

beforeAll(async () => {
  world = await openWorld();
  one = await world.openGateway();
});

afterAll(() => world.close());

/** A whole request as the bytes of a connection. */
function bytesOf(content: string, more: object = {}): string {
  const body = JSON.stringify(chat(content, more));
  const head = [
    'POST /v1/chat/completions HTTP/1.1',
    'host: gateway',
    `authorization: Bearer ${world.key}`,
    'content-type: application/json',
    `content-length: ${Buffer.byteLength(body)}`,
  ];
  return `${head.join('\r\n')}\r\n\r\n${body}`;
}

const first = () => bytesOf('A [[fault:chunks count=12; slow delay=50]]', { stream: true });

const reserves = async () => {
  const rows = await many(world.api.db, 'select status from reservations where org_id = :org_id', {
    org_id: world.org.org_id,
  });
  return rows.length;
};

test('requests of one connection are answered whole and in their order', async () => {
  const socket = connect(Number(new URL(one.url).port), '127.0.0.1');
  let text = '';
  socket.on('data', (chunk) => {
    text += chunk;
  });
  socket.write(first() + bytesOf('B [[fault:chunks count=3000]]', { stream: true }) + bytesOf('C'));
  await until(() => text.includes('You said: C'));
  socket.destroy();
  const told = [...text.matchAll(/HTTP\/1\.1 200|\[DONE\]|You said: C/g)].map(([words]) => words);
  const stream = ['HTTP/1.1 200', '[DONE]'];
  expect(told).toEqual([...stream, ...stream, 'HTTP/1.1 200', 'You said: C']);
});

test.each<[string, object]>([
  ['B [[fault:chunks count=3000]]', { stream: true }],
  ['B [[fault:slow delay=1]]', {}],
])('a request behind one whose client leaves is never begun: %s', async (content, more) => {
  const before = await reserves();
  const socket = connect(Number(new URL(one.url).port), '127.0.0.1');
  socket.write(first() + bytesOf(content, more));
  await once(socket, 'data');
  socket.destroy();
  await until(() => one.gateway.calls.size === 0);
  await until(async () => (await reserves()) === before + 1);
  expect(one.gateway.calls.size).toBe(0);
});
