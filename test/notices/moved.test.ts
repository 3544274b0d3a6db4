import { randomUUID } from 'node:crypto';
import { createServer, type ServerResponse } from 'node:http';
import { maybe, one } from '../../domain/sql';
import { listen } from '../../runtime/listen';
import { makeTenant, type Tenant } from '../support/api';
import { until } from '../support/until';
import { makeDestination, type NoticeWorld, openNoticeWorld, present } from './world';

// A destination gets another address while something is under way to the old one: what the old one
// answers is nothing against the new one.

let world: NoticeWorld;
let tenant: Tenant;
/** What the old address has been asked and has not answered. */
const held: { path: string; res: ServerResponse }[] = [];
const old = createServer((req, res) => {
  req.resume().on('end', () => held.push({ path: req.url ?? '', res }));
});
let old_url: string;

beforeAll(async () => {
  world = await openNoticeWorld();
  tenant = await makeTenant(world.db);
  old_url = `http://127.0.0.1:${await listen(old, 0)}`;
});
afterEach(() => {
  world.ways.first_pause_ms = 100;
});
afterAll(async () => {
  old.closeAllConnections();
  old.close();
  await world.close();
});

const secret = `whsec_${Buffer.alloc(32, 'a').toString('base64')}`;

/** A destination whose old address has got a message, and holds its answer. */
async function underWay(channel: 'webhook' | 'slack' | 'teams') {
  const path = `/${channel === 'webhook' ? 'hooks' : channel}/${randomUUID()}`;
  const there = { ...world, receiver_url: old_url };
  const { id } = await makeDestination(there, tenant.owner_key, { channel, path });
  const at = `/v1/notice-destinations/${id}`;
  const asked = (method: 'get' | 'post' | 'put', where: string, body?: object) =>
    world.call(method, where, { key: tenant.owner_key, ...(body && { body }) });
  const message = await asked('post', `${at}/test`);
  expect(message.status).toBe(201);
  const { res } = await present(() => held.find((request) => request.path === path));
  const move = async () => {
    const url = `${world.receiver_url}${path}-new`;
    const body = channel === 'webhook' ? { url, secret } : { url };
    expect(await asked('put', at, body)).toMatchObject({ status: 200 });
    return `${path}-new`;
  };
  const answer = (status: number) => res.writeHead(status).end('{}');
  const told = async () => (await asked('get', `/v1/notice-messages/${message.body.id}`)).body;
  return { id, move, answer, told, look: async () => (await asked('get', at)).body };
}

const failures = async (id: string) =>
  (
    await one<{ failures: number }>(
      world.db,
      'select failures from notice_queues where destination_id = :id',
      { id },
    )
  ).failures;

const arrived = (path: string) => world.receiver.arrivals.filter((one) => one.path === path);

test.each(['webhook', 'slack', 'teams'] as const)(
  'a 410 of the old address of a %s does not disable the new one, which gets what waits',
  async (channel) => {
    const { id, move, answer, told, look } = await underWay(channel);
    const path = await move();
    answer(410);
    await until(async () => (await told()).status !== 'waiting');
    expect(await told()).toMatchObject({ status: 'delivered', last_error: null });
    expect(arrived(path)).toHaveLength(1);
    expect(await look()).toMatchObject({ disabled_at: null, disabled_reason: null });
    const said = await maybe(
      world.db,
      `select 1 from events where org_id = :org_id and type = 'notice.disabled' and payload ->> 'destination_id' = :id`,
      { org_id: tenant.org_id, id },
    );
    expect(said).toBeUndefined();
  },
);

test.each([503, 400])(
  'after a %i of the old address the new one is asked at once',
  async (status) => {
    world.ways.first_pause_ms = 3_600_000;
    const { id, move, answer, told } = await underWay('webhook');
    const path = await move();
    answer(status);
    await until(async () => (await told()).status !== 'waiting');
    expect(await told()).toMatchObject({ status: 'delivered', attempts: 2 });
    expect(arrived(path)).toHaveLength(1);
    expect(await failures(id)).toBe(0);
  },
);

test('an address that is the same is disabled by its 410, whatever else of it was changed', async () => {
  const { id, answer, told, look } = await underWay('webhook');
  const body = { name: 'Another name', kinds: ['payment'] };
  const key = tenant.owner_key;
  expect(await world.call('put', `/v1/notice-destinations/${id}`, { key, body })).toMatchObject({
    status: 200,
  });
  answer(410);
  await until(async () => (await told()).status !== 'waiting');
  expect(await look()).toMatchObject({ disabled_at: expect.any(String) });
});
