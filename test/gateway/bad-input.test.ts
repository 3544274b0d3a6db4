import { once } from 'node:events';
import { connect } from 'node:net';
import { request } from 'undici';
import { many } from '../../domain/sql';
import { routes } from '../../gateway/routes';
import { arrivals, chat, forgetArrivals, openWorld, post, type World } from '../support/gateway';

let world: World;
const path = '/v1/chat/completions';

beforeAll(async () => {
  world = await openWorld();
});

afterAll(() => world.close());

async function reservations(): Promise<number> {
  return (await many(world.api.db, 'select id from reservations')).length;
}

test.each<[string, number, object | string, Record<string, string>]>([
  ['no key', 401, chat('Hello'), {}],
  ['broken JSON', 400, '{"model": ', {}],
  ['not an object', 400, '[1]', {}],
  ['a deciding key twice', 400, '{"model":"gpt-4o-mini","model":"gpt-4o","messages":[]}', {}],
  ['another content type', 415, 'model=x', { 'content-type': 'text/plain' }],
  [
    'another charset',
    415,
    chat('Hello'),
    { 'content-type': 'application/json; charset=iso-8859-1' },
  ],
  ['no model', 422, { messages: [] }, {}],
  ['a model that is not text', 422, { model: 5, messages: [] }, {}],
  ['a deciding key twice, in other case', 400, '{"model":"gpt-4o-mini","MODEL":"gpt-4o"}', {}],
  ['a deciding key twice, escaped', 400, '{"model":"gpt-4o-mini","\\u006dodel":"gpt-4o"}', {}],
  ['a cap twice', 400, '{"model":"gpt-4o-mini","max_tokens":1,"max_tokens":9,"messages":[]}', {}],
  ['a compressed body', 415, chat('Hello'), { 'content-encoding': 'gzip' }],
  ['a cap below zero', 422, chat('Hello', { max_tokens: -1 }), {}],
  ['a cap that is no whole number', 422, chat('Hello', { max_tokens: 1.5 }), {}],
  ['no choices', 422, chat('Hello', { n: 0 }), {}],
  ['a stream that is text', 422, chat('Hello', { stream: 'yes' }), {}],
  ['an unknown model', 404, chat('Hello', { model: 'none' }), {}],
  ['an unpriced model', 422, chat('Hello', { model: 'unpriced' }), {}],
  ['an empty body', 400, '', {}],
  ['a body above the limit', 413, `{"model":"gpt-4o-mini","x":"${'a'.repeat(22_000_000)}"}`, {}],
])('bad input: %s is refused with %i, nothing is held', async (words, status, body, headers) => {
  const before = await reservations();
  await forgetArrivals(world.models_url);
  const answer = await post(
    world.url + path,
    words === 'no key' ? undefined : world.key,
    body,
    headers,
  );
  expect(answer.status).toBe(status);
  expect(JSON.parse(answer.text)).toMatchObject({
    type: 'error',
    error: { code: expect.any(String), message: expect.any(String) },
  });
  expect(await reservations()).toBe(before);
  expect(await arrivals(world.models_url)).toEqual([]);
});

test.each(['', ' \n'])('an empty body (%j) is told as one', async (body) => {
  const answer = await post(world.url + path, world.key, body);
  const message = 'The body is empty. Send a JSON object.';
  expect([answer.status, JSON.parse(answer.text).error]).toMatchObject([
    400,
    { code: 'invalid_json', message },
  ]);
});

test('a body of 20 MB passes', async () => {
  const answer = await post(
    world.url + path,
    world.key,
    chat('Hello', { x: 'a'.repeat(20_000_000) }),
  );
  expect(answer.status).toBe(200);
});

test('an unknown path is 404 and never forwarded', async () => {
  await forgetArrivals(world.models_url);
  expect(
    (await post(`${world.url}/v1/images/generations`, world.key, { model: 'gpt-4o' })).status,
  ).toBe(404);
  expect(await arrivals(world.models_url)).toEqual([]);
});

test('a key that decides nothing may come twice, and text that looks like one is text', async () => {
  const body = `{"x":1,"x":2,"model":"gpt-4o-mini","messages":[{"role":"user","content":"{\\"model\\":1,\\"model\\":2}"}]}`;
  expect((await post(world.url + path, world.key, body)).status).toBe(200);
});

test('without a key nothing of the body is looked at: 401 comes before it is sent', async () => {
  const socket = connect(Number(new URL(world.url).port), '127.0.0.1');
  socket.write(`POST ${path} HTTP/1.1\r\nhost: gateway\r\ncontent-type: text/nonsense\r\n`);
  socket.write('content-length: 9000000000\r\n\r\n');
  const [head] = await once(socket, 'data');
  expect(head.toString()).toMatch(/^HTTP\/1\.1 401 .*www-authenticate: Bearer/is);
  socket.destroy();
});

test('each proxy route asks for a key before all else', async () => {
  for (const [method, url] of [
    ...routes.map((route) => [route.method, route.path] as const),
    ['GET', '/v1/models/gpt-4o'],
  ] as const) {
    const answer = await request(world.url + url, { method });
    expect(answer.statusCode).toBe(401);
    await answer.body.dump();
  }
});

test('other methods on a proxy path are 404', async () => {
  for (const method of ['GET', 'PUT', 'DELETE'] as const) {
    const answer = await request(world.url + path, { method });
    expect(answer.statusCode).toBe(404);
    await answer.body.dump();
  }
});
