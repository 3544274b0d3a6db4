import { Readable } from 'node:stream';
import { Client } from 'undici';
import { many } from '../../../domain/sql';
import { arrivals, chat, forgetArrivals, openWorld, post, type World } from '../../support/gateway';

let world: World;
const path = '/v1/chat/completions';

beforeAll(async () => {
  world = await openWorld();
});

afterAll(() => world.close());

test('a body in chunks above the limit is 413 in the one shape, and its connection serves the next call', async () => {
  const client = new Client(world.url);
  const headers = { 'content-type': 'application/json', authorization: `Bearer ${world.key}` };
  const post = (body: string | Readable) => client.request({ method: 'POST', path, headers, body });
  const chunks = Array.from({ length: 25 }, () => Buffer.alloc(1_000_000, 0x20));
  const refused = await post(Readable.from(chunks));
  expect(refused.statusCode).toBe(413);
  const message = expect.stringMatching(
    /^The request is larger than the \d+(\.\d)? MB that this gateway takes\. Send less at once/,
  );
  expect(await refused.body.json()).toMatchObject({
    error: { code: 'payload_too_large', message },
  });
  const answered = await post(JSON.stringify(chat('Hello')));
  expect(answered.statusCode).toBe(200);
  await answered.body.dump();
  await client.close();
});

test('a body that is refused holds nothing and sends nothing upstream, over HTTP too', async () => {
  await forgetArrivals(world.models_url);
  const held = await many(world.api.db, 'select id from reservations');
  const deep = { ...chat('Hello'), x: JSON.parse('['.repeat(100) + ']'.repeat(100)) };
  for (const [body, status] of [
    [deep, 400],
    [{ ...chat('Hello'), Model: 'gpt-4o' }, 400],
    [{ ...chat('Hello'), max_tokens: 0 }, 422],
  ] as const) {
    const answer = await post(world.url + path, world.key, body);
    expect(answer.status).toBe(status);
    expect(JSON.parse(answer.text)).toMatchObject({
      type: 'error',
      error: { code: expect.any(String), message: expect.any(String) },
      request_id: expect.any(String),
    });
  }
  expect(await many(world.api.db, 'select id from reservations')).toHaveLength(held.length);
  expect(await arrivals(world.models_url)).toEqual([]);
});
