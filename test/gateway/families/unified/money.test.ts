import { createServer, type ServerResponse } from 'node:http';
import { request } from 'undici';
import { listen } from '../../../../runtime/listen';
import {
  chat,
  lastCharge,
  message,
  openWorld,
  post,
  type TestGateway,
  type World,
} from '../../../support/gateway';
import { until } from '../../../support/until';
import { openScripted, type Scripted } from '../../../support/upstream';

const path = '/v1/unified/chat/completions';
const claude = 'claude-sonnet-4-5';
let world: World;
let upstream: Scripted;
let url: string;

beforeAll(async () => {
  world = await openWorld();
  upstream = await openScripted();
  ({ url } = await gatewayTo(upstream.url));
});

afterAll(async () => {
  await world.close();
  await upstream.close();
});

function gatewayTo(base_url: string): Promise<TestGateway> {
  const target = {
    id: 'scripted',
    provider: 'anthropic',
    shape: 'anthropic',
    base_url,
    api_key_env: 'TEST_MODELS_KEY',
    models: [claude],
  };
  return world.openGateway({ settings: { providers: { targets: [target] } } });
}

/** The frame of an event on Anthropic's wire. */
function event(type: string, more: object): string {
  return `event: ${type}\ndata: ${JSON.stringify({ type, ...more })}\n\n`;
}

const told = {
  input_tokens: 1_000,
  cache_read_input_tokens: 400,
  output_tokens: 1,
  cache_creation: { ephemeral_5m_input_tokens: 30, ephemeral_1h_input_tokens: 200 },
};
const start = event('message_start', { message: { id: 'm', model: claude, usage: told } });
const text = event('content_block_delta', {
  index: 0,
  delta: { type: 'text_delta', text: 'Hello there' },
});
const so_far = event('message_delta', { delta: {}, usage: { output_tokens: 50 } });
const end = event('message_delta', {
  delta: { stop_reason: 'end_turn' },
  usage: { output_tokens: 60 },
});
const failed = event('error', { error: { type: 'overloaded_error', message: 'Busy' } });

const last = () => lastCharge(world, world.org.org_id);
const user = (content: string) => [{ role: 'user' as const, content }];

test('the same words cost the same through Messages and through the one shape', async () => {
  const messages = [{ role: 'user', content: 'Hello there' }];
  await post(`${world.url}/v1/messages`, world.key, message('Hello there'));
  const direct = await last();
  await post(world.url + path, world.key, { model: claude, max_tokens: 64, messages });
  expect((await last()).actual_cost_nanos).toBe(direct.actual_cost_nanos);
});

test('usage is not shown to a client who did not ask, and is charged', async () => {
  const body = { model: claude, max_tokens: 64, stream: true, messages: user('Hello') };
  const { text } = await post(world.url + path, world.key, body);
  expect(text).not.toContain('"usage":{');
  expect(text).toMatch(/data: \[DONE\]\n\n$/);
  expect(await last()).toMatchObject({ usage_source: 'upstream' });
});

test('what was cached is charged at its price', async () => {
  const text = 'Long and the same every time. '.repeat(50);
  const messages = [
    {
      role: 'system',
      content: [{ type: 'text', text, cache_control: { type: 'ephemeral', ttl: '1h' } }],
    },
    ...user('Hello'),
  ];
  const body = { model: claude, max_tokens: 64, messages };
  await post(world.url + path, world.key, body);
  expect((await last()).usage.cache_write_1h_tokens).toBeGreaterThan(0);
  await post(world.url + path, world.key, { ...body, stream: true });
  expect((await last()).usage.cached_tokens).toBeGreaterThan(0);
});

/** What both routes charge for the same stream. */
async function charges(pieces: string[]) {
  const found = [];
  for (const [route, body] of [
    ['/v1/messages', message('Hello', { stream: true })],
    [path, chat('Hello', { model: claude, stream: true })],
  ] as const) {
    upstream.play(pieces);
    await post(url + route, world.key, body);
    const { usage, usage_source, actual_cost_nanos, status } = await lastCharge(
      world,
      world.org.org_id,
    );
    found.push({ usage, usage_source, actual_cost_nanos, status });
  }
  return found;
}

const input = { prompt_tokens: 1_630, cached_tokens: 400, cache_write_tokens: 30 };

test.each<[string, string[], Record<string, number>, string]>([
  // Nothing was delivered, so nothing is owed.
  ['behind its first event', [start], { prompt_tokens: 0, completion_tokens: 0 }, 'upstream'],
  ['behind its first words', [start, text], { ...input, completion_tokens: 3 }, 'estimated'],
  ['behind output so far', [start, text, so_far], { ...input, completion_tokens: 50 }, 'estimated'],
  ['behind its usage', [start, text, end], { ...input, completion_tokens: 60 }, 'upstream'],
  ['by an error', [start, text, failed], { ...input, completion_tokens: 3 }, 'estimated'],
])(
  'a stream that breaks off %s is charged by what its provider told, as Messages are',
  async (_, pieces, usage, usage_source) => {
    const [messages, unified] = await charges(pieces);
    const status = usage.completion_tokens ? 'settled' : 'released';
    expect(messages).toMatchObject({ status, usage, usage_source });
    expect(unified).toEqual(messages);
  },
);

test('an answer that breaks off after its client has gone is charged by what came of it', async () => {
  let answer: ServerResponse | undefined;
  const server = createServer((req, res) => {
    req.resume().once('end', () => {
      res.writeHead(200, { 'content-type': 'application/json' });
      res.write(`{"content":[{"type":"text","text":"${'Hello there, all of you. '.repeat(4)}`);
      answer = res;
    });
  });
  const slow = await gatewayTo(`http://127.0.0.1:${await listen(server, 0)}`);
  const left = new AbortController();
  const asked = request(slow.url + path, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${world.key}` },
    body: JSON.stringify(chat('Hello', { model: claude })),
    signal: left.signal,
  });
  const gone = expect(asked).rejects.toThrow();
  await until(() => answer !== undefined);
  left.abort();
  await gone;
  await until(() => [...slow.gateway.calls].every((call) => call.client_is_gone));
  answer?.destroy();
  const charge = await lastCharge(world, world.org.org_id);
  expect(charge).toMatchObject({ status: 'settled', usage_source: 'estimated' });
  expect(charge.usage.completion_tokens).toBeGreaterThan(20);
  await new Promise((resolve) => server.close(resolve));
});

test('an answer too long to be translated is 502, and held no longer than up to the bound', async () => {
  const piece = Buffer.alloc(1_048_576, 'x');
  const begin = `{"content":[{"type":"text","text":"`;
  upstream.play([begin, ...Array.from({ length: 40 }, () => piece), '"}]}'], 'application/json');
  const { status, text } = await post(url + path, world.key, chat('Hello', { model: claude }));
  expect(status).toBe(502);
  expect(JSON.parse(text).error.message).toContain('longer than 32 MiB');
});
