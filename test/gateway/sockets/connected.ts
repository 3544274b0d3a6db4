import { chat, openWorld, type World } from '../../support/gateway';
import { type Client, connect } from '../../support/socket';

// A world, and sockets that are cut after each test. A test file that imports this also gets its
// hooks.

export let world: World;
export const open: Client[] = [];

beforeAll(async () => {
  world = await openWorld();
});

afterEach(async () => {
  for (const client of open.splice(0)) client.ws.terminate();
});

afterAll(() => world.close());

export async function connected(
  path = '/v1/chat/completions/ws',
  {
    url = world.url,
    key = world.key,
    headers = {},
  }: { url?: string; key?: string; headers?: Record<string, string> } = {},
): Promise<Client> {
  const client = await connect(`${url}${path}`, { authorization: `Bearer ${key}`, ...headers });
  open.push(client);
  return client;
}

export function asks(content: string, more: object = {}) {
  return { type: 'chat.completion.create', ...chat(content, more) };
}

export function responds(input: string, more: object = {}) {
  return { type: 'response.create', model: 'gpt-4o-mini', input, max_output_tokens: 64, ...more };
}
