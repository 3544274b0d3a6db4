import { createServer, type IncomingHttpHeaders, type Server } from 'node:http';
import { listen } from '../../../runtime/listen';
import { chat, gatewayKey, message, openWorld, post, type World } from '../../support/gateway';

let world: World;
let server: Server;
let url: string;
let arrived: { path: string; headers: IncomingHttpHeaders; model: string }[];

beforeAll(async () => {
  world = await openWorld();
  server = createServer(async (req, res) => {
    const chunks: Buffer[] = [];
    for await (const chunk of req) chunks.push(chunk as Buffer);
    const { model } = JSON.parse(Buffer.concat(chunks).toString());
    arrived.push({ path: req.url ?? '', headers: req.headers, model });
    const is_chat = req.url?.includes('/chat/');
    const text = 'Hello';
    const answer = is_chat
      ? { choices: [{ message: { role: 'assistant', content: text }, finish_reason: 'stop' }] }
      : { type: 'message', content: [{ type: 'text', text }], stop_reason: 'end_turn' };
    const usage = { prompt_tokens: 5, completion_tokens: 1, input_tokens: 5, output_tokens: 1 };
    res.writeHead(200, { 'content-type': 'application/json' });
    res.end(JSON.stringify({ id: 'x', model, ...answer, usage }));
  });
  url = `http://127.0.0.1:${await listen(server, 0)}`;
});
beforeEach(() => {
  arrived = [];
});
afterAll(async () => {
  await world.close();
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
});

const claude = 'claude-sonnet-4-5';

async function openAt(query: string, more: object = {}) {
  const targets = [
    {
      id: 'a',
      provider: 'openai',
      shape: 'openai',
      models: ['gpt-4o-mini', 'gpt-4o'],
      path: '/v1',
    },
    { id: 'b', provider: 'anthropic', shape: 'anthropic', models: [claude], path: '/deep/er/' },
  ].map(({ path, ...target }) => ({ ...target, base_url: `${url}${path}${query}` }));
  return (await world.openGateway({ settings: { providers: { targets }, ...more } })).url;
}

test('the query of a base URL goes along with every request, whatever the family', async () => {
  const query = '?api-version=2024-10-21&x=a%20b';
  const gateway = await openAt(query);
  const asked: [string, object][] = [
    ['/v1/chat/completions', chat('Hello')],
    ['/v1/messages', message('Hello')],
    ['/v1/unified/chat/completions', chat('Hello', { model: claude })],
  ];
  for (const [path, body] of asked)
    expect((await post(gateway + path, world.key, body)).status).toBe(200);
  expect(arrived.map(({ path }) => path)).toEqual([
    `/v1/chat/completions${query}`,
    `/deep/er/v1/messages${query}`,
    `/deep/er/v1/messages${query}`,
  ]);
});

test("a server that wants no key is sent none, not even the client's", async () => {
  const gateway = await openAt('');
  expect((await post(`${gateway}/v1/chat/completions`, world.key, chat('Hi'))).status).toBe(200);
  expect((await post(`${gateway}/v1/messages`, world.key, message('Hi'))).status).toBe(200);
  for (const { headers } of arrived) {
    expect(headers.authorization).toBeUndefined();
    expect(headers['x-api-key']).toBeUndefined();
  }
  expect(arrived.map(({ path }) => path)).toEqual(['/v1/chat/completions', '/deep/er/v1/messages']);
});

test('a group goes before a model of its name, and lets nobody have what their key may not use', async () => {
  const gateway = await openAt('', {
    model_groups: [{ name: 'gpt-4o-mini', models: ['gpt-4o', 'gpt-4o-mini'] }],
  });
  const ask = (key: string) => post(`${gateway}/v1/chat/completions`, key, chat('Hello'));
  const of = (allowed_models: string[]) =>
    gatewayKey(world.api, world.org.org_id, { allowed_models });
  expect((await ask(world.key)).status).toBe(200);
  expect((await ask(await of(['gpt-4o-mini']))).status).toBe(200);
  expect((await ask(await of([claude]))).status).toBe(403);
  expect(arrived.map(({ model }) => model)).toEqual(['gpt-4o', 'gpt-4o-mini']);
  const headers = { authorization: `Bearer ${world.key}` };
  const listed = await fetch(`${gateway}/v1/models`, { headers });
  const { data } = (await listed.json()) as { data: { id: string; owned_by: string }[] };
  expect(data.map(({ id, owned_by }) => [id, owned_by])).toEqual([
    ['gpt-4o', 'openai'],
    [claude, 'anthropic'],
    ['gpt-4o-mini', 'svc'],
  ]);
});
