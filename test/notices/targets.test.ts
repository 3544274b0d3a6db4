import { randomUUID } from 'node:crypto';
import dns from 'node:dns';
import { createServer } from 'node:http';
import { many, one } from '../../domain/sql';
import { post } from '../../notices/network';
import { listen } from '../../runtime/listen';
import { createNetworks } from '../../runtime/networks';
import { makeTenant, type Tenant } from '../support/api';
import { repeated, until } from '../support/until';
import { makeDestination, type NoticeWorld, openNoticeWorld, present } from './world';

let world: NoticeWorld;
let tenant: Tenant;
beforeAll(async () => {
  world = await openNoticeWorld();
  tenant = await makeTenant(world.db);
});
afterEach(() => {
  jest.restoreAllMocks();
  world.receiver.clearFaults();
});
afterAll(() => world.close());

const make = (body: object, key = tenant.owner_key) =>
  world.call('post', '/v1/notice-destinations', { key, body: { name: 'N', ...body } });
const hook = (url: string) => make({ channel: 'webhook', url });
const refused = (param: string, message: RegExp) => ({
  status: 422,
  body: { error: { param, message: expect.stringMatching(message) } },
});
const world_only = { networks: undefined, chat_hosts: [] };

test.each([
  'http://169.254.169.254/latest/meta-data/',
  'https://10.0.0.1/hook',
  'https://192.168.1.1/hook',
  'https://[::1]/hook',
  'https://[::ffff:10.0.0.1]/hook',
  'https://[fd00::1]/hook',
  'https://0x0a000001/hook',
  'https://167772161/hook',
  'https://224.0.0.1/hook',
  'https://012.0.0.1/hook',
  'https://10.1/hook',
  'https://①⓪.0.0.1/hook',
  'https://[::10.0.0.1]/hook',
  'https://[::ffff:a9fe:a9fe]/hook',
  'https://[64:ff9b::a00:1]/hook',
  'https://[2002:a00:1::]/hook',
])('a webhook to %s is refused when it is made, and is not connected to', async (url) => {
  expect(await hook(url)).toMatchObject(refused('url', /inside a network/));
  const outcome = await post({ url, body: '{}' }, world_only);
  expect(outcome).toMatchObject({ outcome: 'failed', error: expect.stringMatching(/inside/) });
});

/** What the name server answers from now on. */
function naming() {
  const { prototype } = dns.promises.Resolver;
  jest.spyOn(prototype, 'resolve6').mockRejectedValue(new Error('ENODATA'));
  return jest.spyOn(prototype, 'resolve4') as unknown as jest.Mock;
}

test('a name that resolves anew to an inner address is not connected to; the address that was judged is used', async () => {
  const resolve = naming();
  resolve.mockResolvedValueOnce(['93.184.216.34']).mockResolvedValue(['127.0.0.1']);
  const url = 'https://rebinding.example/hook';
  expect((await hook(url)).status).toBe(201);
  const again = await post({ url, body: '{}' }, world_only);
  expect(again).toMatchObject({
    outcome: 'failed',
    error: expect.stringMatching(/inside a network/),
  });
  // One of several is enough to refuse the name.
  resolve.mockResolvedValue(['93.184.216.34', '10.0.0.1']);
  expect(await hook(url)).toMatchObject(refused('url', /inside a network/));
  // The name itself is unknown, so that only the judged address can have been connected to.
  resolve.mockClear().mockResolvedValue(['127.0.0.1']);
  const port = new URL(world.receiver_url).port;
  const reach = { networks: createNetworks(['127.0.0.0/8']), chat_hosts: [] };
  const there = await post({ url: `http://nowhere.invalid:${port}/hooks/once`, body: '{}' }, reach);
  expect(there).toMatchObject({ outcome: 'delivered', status: 200 });
  expect(resolve).toHaveBeenCalledTimes(1);
});

test('names that nobody answers for hold none of the threads that others need', async () => {
  const resolve = naming();
  resolve.mockImplementation(() => new Promise(() => undefined));
  const lookup = jest.spyOn(dns.promises, 'lookup');
  const waiting = Array.from({ length: 8 }, (_, n) =>
    post({ url: `https://silent-${n}.example/hook`, body: '{}' }, world_only),
  );
  for (const outcome of await Promise.all(waiting))
    expect(outcome).toMatchObject({
      outcome: 'failed',
      error: expect.stringMatching(/10 seconds/),
    });
  expect(lookup).not.toHaveBeenCalled();
});

test('an unknown name is told of as an inner one is, whose names are nobody’s business', async () => {
  const resolve = naming();
  const problems: unknown[] = [];
  for (const answer of [[], ['10.0.0.1']]) {
    resolve.mockResolvedValue(answer);
    const outcome = await post({ url: 'https://some.example/hook', body: '{}' }, world_only);
    problems.push(outcome.error);
  }
  expect(problems[0]).toBe(problems[1]);
});

test('plain http goes to networks that the operator lists alone', async () => {
  naming().mockResolvedValue(['93.184.216.34']);
  expect(await hook('http://plain.example/hook')).toMatchObject(refused('url', /https/));
});

test.each([
  [{ channel: 'webhook' }, 'url', /needed/],
  [{ channel: 'webhook', url: 'ftp://example.com' }, 'url', /must be an address/],
  [{ channel: 'webhook', url: 'https://me:word@127.0.0.1/x' }, 'url', /user name/],
  [{ channel: 'webhook', url: 'https://127.0.0.1/x', secret: 'short' }, 'secret', /whsec_/],
  [{ channel: 'slack', url: 'https://hooks.slack.example/x' }, 'url', /NOTICE_CHAT_HOSTS/],
  [{ channel: 'email', url: 'https://127.0.0.1/x' }, 'url', /recipients/],
  [{ channel: 'webhook', url: 'https://127.0.0.1/x', kinds: ['audit_broken'] }, 'kinds', /none of/],
  [{ channel: 'webhook', url: 'https://127.0.0.1/x', kinds: ['all'] }, 'kinds.0', /./],
  [{ channel: 'sms' }, 'channel', /./],
])('%j is refused and told why', async (body, param, message) => {
  expect(await make(body)).toMatchObject(refused(param, message));
});

test('an address that changes needs its secret again', async () => {
  const path = `/hooks/${randomUUID()}`;
  const { id } = await makeDestination(world, tenant.owner_key, { channel: 'webhook', path });
  const change = (body: object) =>
    world.call('put', `/v1/notice-destinations/${id}`, { key: tenant.owner_key, body });
  const url = `${world.receiver_url}/hooks/another`;
  expect(await change({ url })).toMatchObject(refused('secret', /needs its secret again/));
  const secret = `whsec_${Buffer.alloc(32, 'a').toString('base64')}`;
  expect(await change({ url, secret })).toMatchObject({ status: 200, body: { url } });
});

async function tried(path: string, fault: object) {
  world.receiver.addFault({ path, ...fault });
  const channel = path.startsWith('/teams/') ? 'teams' : 'webhook';
  const { id } = await makeDestination(world, tenant.owner_key, { channel, path });
  const answer = await world.call('post', `/v1/notice-destinations/${id}/test`, {
    key: tenant.owner_key,
  });
  const look = async () =>
    (await world.call('get', `/v1/notice-messages/${answer.body.id}`, { key: tenant.owner_key }))
      .body;
  return { id, look };
}

test.each([
  ['redirect', { answer: 'redirect', times: 1 }, 307, /redirect, which is not followed/],
  ['error', { answer: 'error', times: 1 }, 500, /answered 500/],
  ['reset', { answer: 'reset', times: 1 }, null, /could not be reached/],
  ['bad request', { answer: 'error', status: 400, times: 1 }, 400, /answered 400/],
  // As Teams answers when it was asked too often, or could not deliver.
  ['200 of', { answer: 'undelivered', status: 429, times: 1 }, 200, /delivery failed with 429/],
  ['200 of', { answer: 'undelivered', status: 413, times: 1 }, 200, /delivery failed with 413/],
])(
  'after a %s a message waits, says why, and is tried again until it arrives',
  async (_, fault, status, error) => {
    world.ways.first_pause_ms = 60_000;
    const path = `/${fault.answer === 'undelivered' ? 'teams' : 'hooks'}/${randomUUID()}`;
    const { id, look } = await tried(path, fault);
    const waiting = await present(async () => {
      const message = await look();
      return message.last_error === null ? undefined : message;
    });
    expect(waiting).toMatchObject({
      status: 'waiting',
      last_status: status,
      last_error: expect.stringMatching(error),
    });
    world.ways.first_pause_ms = 100;
    // The pause is over.
    await many(
      world.db,
      `update notice_messages set next_at = clock_timestamp() where destination_id = :id`,
      { id },
    );
    await many(world.db, 'select wake_notices(:id)', { id });
    await until(async () => (await look()).status === 'delivered');
    expect((await look()).attempts).toBe(2);
  },
);

test.each(['large', 'endless', 'broken'])(
  'a server that answers 200 with a %s body has taken the message, which is sent once',
  async (answer) => {
    const { look } = await tried(`/hooks/${randomUUID()}`, { answer, times: 0 });
    await until(async () => (await look()).status !== 'waiting');
    expect(await look()).toMatchObject({ status: 'delivered', attempts: 1, last_status: 200 });
  },
);

test('of an answer of 100 MB no more than 64 kB is read', async () => {
  let sent = 0;
  const server = createServer((req, res) => {
    req.resume();
    res.writeHead(200);
    const more = () => {
      while (sent < 100 * 1_048_576 && !res.destroyed) {
        sent += 16_384;
        if (!res.write(Buffer.alloc(16_384))) return void res.once('drain', more);
      }
      res.end();
    };
    more();
  });
  const url = `http://127.0.0.1:${await listen(server, 0)}/hook`;
  const reach = { networks: createNetworks(['127.0.0.0/8']), chat_hosts: [] };
  const cut = new Promise((resolve) => {
    server.once('connection', (socket) => socket.once('close', resolve));
  });
  expect(await post({ url, body: '{}' }, reach)).toMatchObject({ outcome: 'delivered' });
  await cut;
  // What the sockets of both sides hold is on its way unasked.
  expect(sent).toBeLessThan(16 * 1_048_576);
  server.close();
});

test('a server that never answers is left after 10 s', async () => {
  const path = `/hooks/${randomUUID()}`;
  const { id, look } = await tried(path, { answer: 'timeout', times: 1 });
  const message = await present(async () => {
    const found = await look();
    return found.last_error === null ? undefined : found;
  });
  expect(message.last_error).toMatch(/within 10 seconds/);
  const { failed_at } = await one<{ failed_at: Date }>(
    world.db,
    'select failed_at from notice_queues where destination_id = :id',
    { id },
  );
  const after_ms = failed_at.getTime() - Date.parse(message.created_at);
  expect(after_ms).toBeGreaterThanOrEqual(9_900);
  // Some of it is the way to the server.
  expect(after_ms).toBeLessThan(30_000);
});

test('410 disables a destination and says so; it is told again once somebody enables it', async () => {
  const path = `/hooks/${randomUUID()}`;
  const { id, look } = await tried(path, { answer: 'gone', times: 1 });
  await until(async () => (await look()).status === 'failed');
  expect((await look()).last_error).toMatch(/410/);
  const at = `/v1/notice-destinations/${id}`;
  const key = tenant.owner_key;
  expect((await world.call('get', at, { key })).body).toMatchObject({
    disabled_at: expect.any(String),
    disabled_reason: expect.stringMatching(/410/),
  });
  const told = await one<{ count: number }>(
    world.db,
    `select count(*)::int as count from events where org_id = :org_id and type = 'notice.disabled' and payload ->> 'destination_id' = :id`,
    { org_id: tenant.org_id, id },
  );
  expect(told.count).toBe(1);
  expect(await world.call('post', `${at}/test`, { key })).toMatchObject({ status: 422 });
  await world.call('put', at, { key, body: { enabled: true } });
  expect((await world.call('post', `${at}/test`, { key })).status).toBe(201);
  await until(() => world.receiver.arrivals.some((one) => one.path === path));
});

test('of many that are made at once an organization keeps fifty', async () => {
  const { owner_key } = await makeTenant(world.db);
  const url = `${world.receiver_url}/hooks/many`;
  const asked = Array.from({ length: 53 }, () =>
    repeated(() => make({ channel: 'webhook', url }, owner_key)),
  );
  const answers = await Promise.all(asked);
  const made = answers.filter(({ status }) => status === 201);
  const others = answers.filter(({ status }) => status !== 201);
  expect(made).toHaveLength(50);
  for (const one of others) expect(one).toMatchObject(refused('name', /There are 50/));
});
