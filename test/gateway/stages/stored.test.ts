import { many } from '../../../domain/sql';
import {
  arrivals,
  chat,
  forgetArrivals,
  gatewayKey,
  message,
  openWorld,
  post,
  type World,
} from '../../support/gateway';
import { credit, makeOrg, type TestOrg } from '../../support/ledger';
import { connect } from '../../support/socket';
import { until } from '../../support/until';

let world: World;
let other: TestOrg;
let foreign: string;

const path = '/v1/responses';
const asks = (more: object = {}) => ({
  model: 'gpt-4o-mini',
  input: 'Hello',
  max_output_tokens: 64,
  ...more,
});

beforeAll(async () => {
  world = await openWorld();
  // What the tools of these requests may cost is known.
  await many(
    world.api.db,
    `update model_prices set per_file_search = 0.0025, per_container = 0.03 where model = 'gpt-4o-mini'`,
  );
  other = await makeOrg(world.api.db);
  await credit(world.api.db, other.org_id, other.org_wallet, 100_000_000_000n);
  foreign = await gatewayKey(world.api, other.org_id);
});

afterAll(() => world.close());

beforeEach(() => forgetArrivals(world.models_url));

async function ask(more: object, key = world.key, url = world.url) {
  const { status, text } = await post(url + path, key, asks(more));
  return { status, body: text.startsWith('{') ? JSON.parse(text) : undefined, text };
}

async function made(key = world.key): Promise<string> {
  return (await ask({ input: `Hello ${Math.random()}` }, key)).body.id;
}

async function untilStored(id: string): Promise<void> {
  const sql = 'select id from stored_ids where id = :id';
  await until(async () => (await many(world.api.db, sql, { id })).length > 0);
}

test('what an answer has made is known at once to its organization, and to no other', async () => {
  const id = await made();
  expect((await ask({ previous_response_id: id })).status).toBe(200);
  await forgetArrivals(world.models_url);
  const refused = await ask({ previous_response_id: id }, foreign);
  expect(refused).toMatchObject({
    status: 404,
    body: { type: 'error', error: { code: 'stored_id_unknown', param: 'previous_response_id' } },
  });
  expect(await arrivals(world.models_url)).toEqual([]);
  const sql = 'select id from reservations where org_id = :org_id';
  expect(await many(world.api.db, sql, { org_id: other.org_id })).toEqual([]);
});

test('another gateway knows it with the settlement', async () => {
  const id = await made();
  await untilStored(id);
  const { url } = await world.openGateway();
  expect((await ask({ previous_response_id: id }, world.key, url)).status).toBe(200);
  expect((await ask({ previous_response_id: id }, foreign, url)).status).toBe(404);
});

test('what a stream has made is known from its first event on', async () => {
  const { text } = await ask({ input: 'Stream', stream: true });
  const [, id = ''] = /"id":"(resp_[^"]+)"/.exec(text) ?? [];
  expect((await ask({ previous_response_id: id })).status).toBe(200);
  expect((await ask({ previous_response_id: id }, foreign)).status).toBe(404);
  // The items of the answer too.
  const reference = { input: [{ type: 'item_reference', id: 'msg_sandbox' }] };
  expect((await ask(reference)).status).toBe(200);
  expect((await ask(reference, foreign)).status).toBe(404);
});

test.each<[string, object, string]>([
  ['a response', { previous_response_id: 'resp_none' }, 'previous_response_id'],
  ['a conversation', { conversation: 'conv_1' }, 'conversation'],
  ['a conversation as an object', { conversation: { id: 'conv_1' } }, 'conversation'],
  ['an item', { input: [{ type: 'item_reference', id: 'none' }] }, 'input'],
  [
    'a file',
    { input: [{ role: 'user', content: [{ type: 'input_file', file_id: 'f' }] }] },
    'file_id',
  ],
  [
    'a picture',
    { input: [{ role: 'user', content: [{ type: 'input_image', file_id: 'f' }] }] },
    'file_id',
  ],
  [
    'a variable of a prompt that is called input',
    { prompt: { id: 'p', variables: { input: { type: 'input_file', file_id: 'f' } } } },
    'file_id',
  ],
  [
    'a vector store',
    { tools: [{ type: 'file_search', vector_store_ids: ['vs_1'] }] },
    'vector_store_ids',
  ],
  ['a container', { tools: [{ type: 'code_interpreter', container: 'cntr_1' }] }, 'container'],
  ['an id that is too long', { previous_response_id: 'r'.repeat(1_001) }, 'previous_response_id'],
  ['an id that nobody can keep', { previous_response_id: 'r\u0000' }, 'previous_response_id'],
])('%s that nobody has made here is 404, and nothing goes upstream', async (_, more, param) => {
  const { status, body } = await ask(more);
  expect({ status, error: body.error }).toMatchObject({
    status: 404,
    error: {
      code: 'stored_id_unknown',
      param,
      message: expect.stringContaining('is known under the id'),
    },
  });
  expect(await arrivals(world.models_url)).toEqual([]);
});

test.each<[string, object, string]>([
  ['/v1/messages', message('Hi', { container: 'c_1' }), 'container'],
  [
    '/v1/messages',
    message('Hi', { thread: { type: 'continue', previous_message_id: 'msg_1' } }),
    'previous_message_id',
  ],
  [
    '/v1/chat/completions',
    { ...chat('Hi'), messages: [{ role: 'assistant', audio: { id: 'a_1' } }] },
    'audio',
  ],
  [
    '/v1/chat/completions',
    {
      ...chat('Hi'),
      messages: [{ role: 'user', content: [{ type: 'file', file: { file_id: 'f' } }] }],
    },
    'file_id',
  ],
])('%s: an unknown id is refused in the shape of its clients', async (route, body, param) => {
  const { status, text } = await post(world.url + route, world.key, body);
  expect({ status, body: JSON.parse(text) }).toMatchObject({
    status: 404,
    body: { type: 'error', error: { code: 'stored_id_unknown', type: 'not_found_error', param } },
  });
});

test('a message may be continued by the organization that has it, and the hold has the surcharge', async () => {
  const { text } = await post(
    `${world.url}/v1/messages`,
    world.key,
    message('Begin', { thread: { type: 'create' } }),
  );
  const thread = { type: 'continue', previous_message_id: JSON.parse(text).id };
  const going_on = message('Go on', { thread });
  const held = async (body: object) => {
    expect((await post(`${world.url}/v1/messages`, world.key, body)).status).toBe(200);
    const sql = `select held_nanos from reservations where org_id = :org_id order by created_at desc, id desc limit 1`;
    const [row] = await many<{ held_nanos: bigint }>(world.api.db, sql, {
      org_id: world.org.org_id,
    });
    return row?.held_nanos ?? 0n;
  };
  expect((await held(going_on)) - (await held(message('Go on')))).toBe(4_096n * 3_000n);
  expect((await post(`${world.url}/v1/messages`, foreign, going_on)).status).toBe(404);
});

test('keys of one organization share ids, unless both name different users', async () => {
  const { db } = world.api;
  const [row] = await many<{ id: string }>(
    db,
    `insert into users (name) values ('Other') returning id`,
  );
  const user_id = row?.id as string;
  await db('memberships').insert({ org_id: world.org.org_id, user_id, role: 'member' });
  const one = await gatewayKey(world.api, world.org.org_id, { user_id: world.org.user_id });
  const two = await gatewayKey(world.api, world.org.org_id, { user_id });
  const id = await made(one);
  const { url } = await world.openGateway();
  for (const at of [world.url, url]) {
    expect((await ask({ previous_response_id: id }, world.key, at)).status).toBe(200);
    expect((await ask({ previous_response_id: id }, two, at)).status).toBe(404);
    await untilStored(id);
  }
  expect((await ask({ previous_response_id: await made() }, two)).status).toBe(200);
});

test('a key that was revoked a moment ago hears of that, not of the id', async () => {
  const key = await gatewayKey(world.api, world.org.org_id);
  expect((await ask({}, key)).status).toBe(200);
  await many(
    world.api.db,
    'update tokens set revoked_at = clock_timestamp() where id = (select max(id) from tokens) returning id',
  );
  expect((await ask({ previous_response_id: 'resp_none' }, key)).status).toBe(401);
});

test('a frame of a socket may name what its organization has, and nothing else', async () => {
  const id = await made();
  const asked = async (key: string) => {
    const client = await connect(`${world.url}/v1/responses/ws`, {
      authorization: `Bearer ${key}`,
    });
    client.send({ type: 'response.create', ...asks({ previous_response_id: id }) });
    await client.some(({ type }) => type === 'error' || type === 'response.completed');
    client.ws.close();
    return client.frames.at(-1);
  };
  expect(await asked(world.key)).toMatchObject({ type: 'response.completed' });
  expect(await asked(foreign)).toMatchObject({ status: 404, error: { code: 'stored_id_unknown' } });
});

test('a call that brings a ticket is asked for its ids too', async () => {
  const poor = await makeOrg(world.api.db);
  const key = await gatewayKey(world.api, poor.org_id);
  await credit(world.api.db, poor.org_id, poor.org_wallet, 1_000_000_000n);
  const id = await made(key);
  await untilStored(id);
  const { url } = await world.openGateway();
  const body = asks({ previous_response_id: id, max_output_tokens: 4_000_000 });
  const short = await post(url + path, key, body);
  expect(short.status).toBe(402);
  const ticket = JSON.parse(short.text).error.cost_ticket.id;
  await many(world.api.db, `delete from stored_ids where id = :id returning id`, { id });
  const gone = await post(url + path, key, body, { 'x-svc-cost-ticket': ticket });
  expect(gone.status).toBe(404);
});

test.each([
  ['letters', 'x'],
  // Six times as long on their way.
  ['letters that JSON escapes', '\u0001'],
])(
  'ids of more %s than can be asked about are unknown, and no fault of the gateway',
  async (_, letter) => {
    const ids = Array.from({ length: 400 }, (_, n) => `${n}${letter.repeat(900)}`);
    const tools = [{ type: 'file_search', vector_store_ids: ids }];
    expect(await ask({ tools })).toMatchObject({
      status: 404,
      body: { error: { code: 'stored_id_unknown' } },
    });
    expect(await arrivals(world.models_url)).toEqual([]);
  },
);
