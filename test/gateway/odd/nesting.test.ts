import type { ServerResponse } from 'node:http';
import { gzipSync } from 'node:zlib';
import { chat, post } from '../../support/gateway';
import { first, openRouted, path, world } from '../exchange/routed';

type Answer = (res: ServerResponse) => void;
const events =
  (...pieces: string[]): Answer =>
  (res) => {
    res.writeHead(200, { 'content-type': 'text/event-stream' });
    for (const p of pieces) res.write(p);
    res.end();
  };

// Errors that are compressed, huge, or nested more deeply than anybody reads.

test('http error status with GZIP in capitals keeps the words', async () => {
  const url = await openRouted();
  first.answer = (res) => {
    res
      .writeHead(400, { 'content-type': 'application/json', 'content-encoding': 'x-gzip' })
      .end(
        gzipSync(
          JSON.stringify({ error: { message: 'Too long.', code: 'context_length_exceeded' } }),
        ),
      );
  };
  const { status, text } = await post(url + path, world.key, chat('Hello'));
  expect([status, text.includes('Too long.')]).toEqual([400, true]);
});
test('huge nested JSON in a 200', async () => {
  const url = await openRouted();
  first.answer = (res) => {
    res
      .writeHead(200, { 'content-type': 'application/json' })
      .end(`{"choices":${'['.repeat(200_000)}${']'.repeat(200_000)}}`);
  };
  const { status } = await post(url + path, world.key, chat('Hello'));
  expect(status).toBe(200);
});
test('huge nested JSON in an event', async () => {
  const url = await openRouted();
  first.answer = events(`data: {"choices":${'['.repeat(200_000)}${']'.repeat(200_000)}}\n\n`);
  const { status } = await post(url + path, world.key, chat('Hello', { stream: true }));
  expect(status).toBe(200);
});
test('deep tool_usage / detail list in a 200 error', async () => {
  const url = await openRouted();
  first.answer = (res) => {
    res
      .writeHead(200, { 'content-type': 'application/json' })
      .end(`{"detail":${'['.repeat(20_000)}"x"${']'.repeat(20_000)}}`);
  };
  const { status } = await post(url + path, world.key, chat('Hello'));
  expect(status).toBe(200);
});
test('detail as very deep list in a 422', async () => {
  const url = await openRouted();
  first.answer = (res) => {
    res
      .writeHead(422, { 'content-type': 'application/json' })
      .end(`{"detail":${'['.repeat(100_000)}"x"${']'.repeat(100_000)}}`);
  };
  const { status, text } = await post(url + path, world.key, chat('Hello'));
  expect({ status, text }).toMatchObject({ status: 422 });
});
