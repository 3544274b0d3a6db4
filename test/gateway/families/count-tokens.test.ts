import { createServer, type Server } from 'node:http';
import Anthropic from '@anthropic-ai/sdk';
import { many } from '../../../domain/sql';
import { listen } from '../../../runtime/listen';
import {
  arrivals,
  forgetArrivals,
  gatewayKey,
  message,
  openWorld,
  post,
  type World,
} from '../../support/gateway';
import { makeOrg } from '../../support/ledger';
import { openAtMinute } from '../../support/limits';

let world: World;
let path: string;

const asked = (content: string, more: object = {}) => {
  const { max_tokens: _, ...body } = message(content, more);
  return body;
};

beforeAll(async () => {
  world = await openWorld();
  path = `${world.url}/v1/messages/count_tokens`;
});

afterAll(() => world.close());

beforeEach(() => forgetArrivals(world.models_url));

/** A gateway before one provider of Messages that gives this answer. */
async function before(answer: { status?: number; body: string; type?: string }) {
  const provider = createServer((req, res) => {
    req.resume();
    res.writeHead(answer.status ?? 200, { 'content-type': answer.type ?? 'application/json' });
    res.end(answer.body);
  });
  const base_url = `http://127.0.0.1:${await listen(provider, 0)}`;
  opened.push(provider);
  return withTarget({ base_url });
}

const opened: Server[] = [];

afterAll(() => {
  for (const server of opened) server.close();
});

async function withTarget(more: object): Promise<string> {
  const target = {
    id: 'one',
    provider: 'anthropic',
    shape: 'anthropic',
    api_key_env: 'TEST_MODELS_KEY',
    models: ['claude-sonnet-4-5'],
    ...more,
  };
  const { url } = await world.openGateway({
    settings: { providers: { targets: [target] } },
  });
  return `${url}/v1/messages/count_tokens`;
}

test('the official client counts the tokens of a message as its provider does', async () => {
  const client = new Anthropic({ baseURL: world.url, apiKey: world.key });
  const body = {
    model: 'claude-sonnet-4-5',
    system: 'Be short.',
    messages: [{ role: 'user' as const, content: 'Hello' }],
  };
  const { input_tokens } = await client.messages.countTokens(body);
  const { usage } = await client.messages.create({ ...body, max_tokens: 9 });
  expect(input_tokens).toBe(usage.input_tokens);
  const [counted] = await arrivals(world.models_url);
  expect(counted).toMatchObject({ path: '/v1/messages/count_tokens', body });
  expect(counted?.headers).toMatchObject({ 'x-api-key': 'upstream-secret' });
});

test('the query of a base URL ends the path', async () => {
  const asked_for: string[] = [];
  const provider = createServer((req, res) => {
    asked_for.push(req.url ?? '');
    req.resume().on('end', () => res.end('{"input_tokens":7}'));
  });
  opened.push(provider);
  const base_url = `http://127.0.0.1:${await listen(provider, 0)}/base?api-version=1`;
  const { text } = await post(await withTarget({ base_url }), world.key, asked('Hello'));
  expect([text, asked_for]).toEqual([
    '{"input_tokens":7}',
    ['/base/v1/messages/count_tokens?api-version=1'],
  ]);
});

test('nothing is held and nothing is charged, without money too', async () => {
  const { org_id } = await makeOrg(world.api.db);
  const key = await gatewayKey(world.api, org_id);
  expect((await post(path, key, asked('Hello'))).status).toBe(200);
  const sql = 'select id from reservations where org_id = :org_id';
  expect(await many(world.api.db, sql, { org_id })).toEqual([]);
});

test('a model of another wire is counted here', async () => {
  const { status, text } = await post(path, world.key, { ...asked('Hello'), model: 'gpt-4o-mini' });
  expect({ status, body: JSON.parse(text) }).toEqual({ status: 200, body: { input_tokens: 5 } });
  expect(await arrivals(world.models_url)).toEqual([]);
});

test.each([
  '{}',
  'null',
  '[]',
  '7',
  '{"input_tokens":"7"}',
  '{"input_tokens":-7}',
  '{"input_tokens":1.5}',
  '{"input_tokens":1e308}',
  '{"input_tokens":9007199254740993}',
  '{"input_tokens":7',
  '{"error":{"message":"no"},"input_tokens":null}',
  '',
  `{"input_tokens":7,"x":"${'x'.repeat(70_000)}"}`,
])('what is no count is counted here (%#)', async (body) => {
  const { status, text } = await post(await before({ body }), world.key, asked('Hello'));
  // 5 tokens of ours are at most 6 of that provider's.
  expect({ status, body: JSON.parse(text) }).toEqual({ status: 200, body: { input_tokens: 6 } });
});

test.each([401, 402, 403, 404, 408, 429, 500, 503, 529])(
  'where the provider answers %i the tokens are counted here',
  async (status) => {
    const url = await before({
      status,
      body: '{"type":"error","error":{"type":"x","message":"no"}}',
    });
    const counted = await post(url, world.key, asked('Hello'));
    expect({ status: counted.status, text: counted.text }).toEqual({
      status: 200,
      text: '{"input_tokens":6}',
    });
  },
);

test('where no provider is, and where one breaks off, the tokens are counted here', async () => {
  const nowhere = await withTarget({ base_url: 'http://127.0.0.1:9' });
  expect(JSON.parse((await post(nowhere, world.key, asked('Hello'))).text)).toEqual({
    input_tokens: 6,
  });
  for (const fault of ['reset', 'cut', 'html', 'redirect', 'nothing']) {
    const { text } = await post(path, world.key, asked(`[[fault:${fault}]]`));
    expect(JSON.parse(text)).toEqual({ input_tokens: expect.any(Number) });
  }
  expect(JSON.parse((await post(path, world.key, asked('[[fault:count tokens=0]]'))).text)).toEqual(
    {
      input_tokens: 0,
    },
  );
});

test('a refusal that repeats the key tells no client of it', async () => {
  const { status, text } = await post(
    await before({
      status: 400,
      body: '{"error":{"message":"no: x-api-key: upstream-secret","type":"invalid_request_error"}}',
    }),
    world.key,
    asked('Hello'),
  );
  expect(status).toBe(400);
  expect(text).toContain('[credential]');
  expect(text).not.toContain('upstream-secret');
});

test('refusals that repeat a long request close its provider for nobody', async () => {
  const url = await before({ status: 422, body: JSON.stringify({ detail: 'x'.repeat(70_000) }) });
  const statuses: number[] = [];
  for (let n = 0; n < 7; n += 1) statuses.push((await post(url, world.key, asked('Hello'))).status);
  expect(statuses).toEqual(Array(7).fill(422));
});

test('what the client has to mend is told with the provider’s words', async () => {
  const { status, text } = await post(path, world.key, asked('[[fault:error status=400]]'));
  expect({ status, body: JSON.parse(text) }).toMatchObject({
    status: 400,
    body: {
      type: 'error',
      error: { type: 'invalid_request_error', message: 'A fault was asked for.' },
    },
  });
});

test('key, models and body are checked as those of Messages, and refused in their shape', async () => {
  const bound = await gatewayKey(world.api, world.org.org_id, { allowed_models: ['gpt-4o-mini'] });
  const cases: [string | undefined, object | string, number, string][] = [
    [undefined, asked('Hi'), 401, 'invalid_credential'],
    ['svc_gk_00000000000000000000000000000000', asked('Hi'), 401, 'invalid_credential'],
    [bound, asked('Hi'), 403, 'model_not_allowed'],
    [world.key, { ...asked('Hi'), model: 'claude-none' }, 404, 'model_not_found'],
    [world.key, '{"model":', 400, 'invalid_json'],
    [world.key, { model: 'claude-sonnet-4-5' }, 422, 'invalid_field'],
    [world.key, asked('Hi', { speed: 'fast' }), 422, 'invalid_field'],
  ];
  for (const [key, body, status, code] of cases) {
    const refused = await post(path, key, body);
    expect({ status: refused.status, body: JSON.parse(refused.text) }).toMatchObject({
      status,
      body: {
        type: 'error',
        error: { code, message: expect.any(String), type: expect.any(String) },
      },
    });
  }
  const { url } = await world.openGateway({ settings: { body_limit_bytes: 2_000 } });
  const large = asked('x'.repeat(2_000));
  expect((await post(`${url}/v1/messages/count_tokens`, world.key, large)).status).toBe(413);
});

test('a key that was revoked a moment ago counts nothing', async () => {
  const key = await gatewayKey(world.api, world.org.org_id);
  expect((await post(path, key, asked('Hi'))).status).toBe(200);
  await many(
    world.api.db,
    'update tokens set revoked_at = clock_timestamp() where id = (select max(id) from tokens) returning id',
  );
  expect((await post(path, key, asked('Hi'))).status).toBe(401);
});

test('limits of requests apply, and those of tokens are given back', async () => {
  const settings = { rate_limits: { per_key: { rpm: 2, tpm: 100_000 } } };
  const { url } = await openAtMinute(world, { settings });
  const key = await gatewayKey(world.api, world.org.org_id);
  const count = () => post(`${url}/v1/messages/count_tokens`, key, asked('Hi'));
  expect([(await count()).status, (await count()).status, (await count()).status]).toEqual([
    200, 200, 429,
  ]);
});

test('the policies of Messages look at what is counted', async () => {
  const policies = { chain: ['dlp-filter'], routes: ['messages'] };
  const policy = { 'dlp-filter': { blocked_terms: ['project apollo'] } };
  const { url } = await world.openGateway({ settings: { policies, policy } });
  const blocked = await post(`${url}/v1/messages/count_tokens`, world.key, asked('Project Apollo'));
  expect(blocked.status).toBe(409);
  expect(await arrivals(world.models_url)).toEqual([]);
});
