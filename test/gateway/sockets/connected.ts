import { chat, openWorld, type TestGateway, type World } from '../../support/gateway';
import { type Client, connect } from '../../support/socket';
import { openWire, type Wire } from '../../support/wire';

// A world, and sockets that are cut after each test. A test file that imports this also gets its
// hooks.

export let world: World;
/** The wire to the models of a gateway that `behindWire` opens. */
export let models: Wire;
export const open: Client[] = [];

beforeAll(async () => {
  world = await openWorld();
  models = await openWire(world.models_url);
});

afterEach(async () => {
  for (const client of open.splice(0)) client.ws.terminate();
  models.release();
});

afterAll(async () => {
  await world.close();
  await models.close();
});

/** A gateway whose models answer when a test lets them. */
export function behindWire(settings: object = {}): Promise<TestGateway> {
  return world.openGateway({ settings, target: { base_url: `${models.url}/v1` } });
}

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
