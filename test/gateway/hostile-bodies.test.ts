import { request } from 'undici';
import { many } from '../../domain/sql';
import { arrivals, chat, forgetArrivals, openWorld, type World } from '../support/gateway';

let world: World;
const path = '/v1/chat/completions';

beforeAll(async () => {
  world = await openWorld();
});

afterAll(() => world.close());

interface Refusal {
  status: number;
  error: { code: string; message: string; param: string | null };
}

/** Sends a body that must be refused: nothing is held and nothing goes upstream. */
async function refusal(body: object | string | Buffer, url = path): Promise<Refusal> {
  const before = await many(world.api.db, 'select id from reservations');
  await forgetArrivals(world.models_url);
  const answer = await send(body, url);
  expect(answer.body).toMatchObject({
    type: 'error',
    error: { code: expect.any(String), message: expect.any(String) },
    request_id: expect.any(String),
  });
  expect(await many(world.api.db, 'select id from reservations')).toHaveLength(before.length);
  expect(await arrivals(world.models_url)).toEqual([]);
  return { status: answer.status, error: answer.body.error as Refusal['error'] };
}

async function send(body: object | string | Buffer, url = path) {
  const is_ready = typeof body === 'string' || Buffer.isBuffer(body);
  const answer = await request(world.url + url, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${world.key}` },
    body: is_ready ? body : JSON.stringify(body),
  });
  const text = await answer.body.text();
  return { status: answer.statusCode, body: JSON.parse(text) as Record<string, unknown> };
}

const nested = (levels: number, inner = '') => '['.repeat(levels) + inner + ']'.repeat(levels);
const opened = (levels: number) => '{"a":'.repeat(levels) + 1 + '}'.repeat(levels);
const message = (members: string) =>
  `{"model":"gpt-4o-mini","max_tokens":64,"messages":[{"role":"user","content":"Hello"${members}}]`;

test.each<[string, string, string]>([
  ['tools', path, `${message('')},"tools":${nested(10_000)}}`],
  ['response_format', path, `${message('')},"response_format":${opened(10_000)}}`],
  ['a tool call', path, `${message(`,"tool_calls":${nested(10_000)}`)}}`],
  ['stream_options', path, `${message('')},"stream":true,"stream_options":${opened(10_000)}}`],
  ['a member nobody reads', path, `${message('')},"x":${nested(10_000)}}`],
  [
    'a member nobody reads, before the rest',
    path,
    `{"x":${nested(10_000)},${message('').slice(1)}}`,
  ],
  ['one level too many', path, `${message('')},"x":${nested(100)}}`],
  ['no object at all', path, nested(10_000)],
  ['an end that never comes', path, '{"x":['.repeat(10_000)],
  [
    'an embedding',
    '/v1/embeddings',
    `{"model":"text-embedding-3-small","input":"Hello","x":${nested(10_000)}}`,
  ],
])('a body nested too deeply is refused before anything is held: %s', async (_, url, body) => {
  expect(await refusal(body, url)).toMatchObject({
    status: 400,
    error: { code: 'invalid_request', message: expect.stringContaining('nested') },
  });
});

test('a body of millions of levels is refused without being parsed', async () => {
  const started_at = performance.now();
  expect(await refusal(nested(9_000_000))).toMatchObject({ status: 400 });
  expect(performance.now() - started_at).toBeLessThan(2_000);
});

test('a hundred levels pass, and brackets in a text are text', async () => {
  expect((await send(`${message('')},"x":${nested(99)}}`)).status).toBe(200);
  expect((await send(chat('{"a":['.repeat(5_000)))).status).toBe(200);
  expect((await send(chat('\\"['.repeat(5_000)))).status).toBe(200);
});
