import { randomBytes, randomUUID } from 'node:crypto';
import { createServer } from 'node:net';
import { sendNotices } from '../../activities/notices';
import { createSecrets } from '../../domain/secrets';
import { many } from '../../domain/sql';
import { listen } from '../../runtime/listen';
import { createNetworks } from '../../runtime/networks';
import {
  createReceiver,
  createReceiverServer,
  type Receiver,
} from '../../sandbox/notices/receiver';
import { type Answer, makeTenant, type Tenant } from '../support/api';
import { openPaymentProcesses, type PaymentProcesses } from '../support/payments/processes';
import { until } from '../support/until';

// What is sealed for a destination is in its messages, and nowhere else, however a delivery ends.

const CHANNELS = ['webhook', 'slack', 'teams'] as const;
const FAULTS = ['error', 'reset', 'redirect', 'timeout', 'large', 'endless', 'broken', 'gone'];

let world: PaymentProcesses;
let tenant: Tenant;
let receiver: Receiver;
let url: string;
let closeReceiver: () => void;

beforeAll(async () => {
  world = await openPaymentProcesses({
    NOTICE_NETWORKS: '127.0.0.0/8',
    NOTICE_CHAT_HOSTS: '127.0.0.1,nowhere.invalid',
    LOG_LEVEL: 'trace',
  });
  tenant = await makeTenant(world.db);
  receiver = createReceiver();
  const server = createReceiverServer(receiver);
  url = `http://127.0.0.1:${await listen(server, 0)}`;
  closeReceiver = () => {
    server.closeAllConnections();
    server.close();
  };
});
afterAll(async () => {
  closeReceiver();
  await world.close();
});

const asOwner = (method: 'get' | 'post' | 'put', path: string, body?: object): Promise<Answer> =>
  world.call(method, path, { key: tenant.owner_key, ...(body && { body }) });

/** A destination with a secret of its own, and a message that is sent there. */
async function tell(channel: (typeof CHANNELS)[number], base: string, fault?: string) {
  const token = randomBytes(18).toString('hex');
  const secret = `whsec_${randomBytes(32).toString('base64')}`;
  const path = `/${channel === 'webhook' ? 'hooks' : channel}/${token}`;
  if (fault !== undefined)
    receiver.addFault({ path, answer: fault, status: channel === 'webhook' ? 400 : 503, times: 0 });
  const given = { name: 'N', channel, url: `${base}${path}`, kinds: ['payment'] };
  const body = channel === 'webhook' ? { ...given, secret } : given;
  const made = await asOwner('post', '/v1/notice-destinations', body);
  expect([made.status, channel === 'webhook' ? made.body.secret : undefined]).toEqual([
    201,
    channel === 'webhook' ? secret : undefined,
  ]);
  const test = await asOwner('post', `/v1/notice-destinations/${made.body.id}/test`);
  expect(test.status).toBe(201);
  const kept = channel === 'webhook' ? secret.slice('whsec_'.length) : token;
  return { id: made.body.id as string, message_id: test.body.id as string, secret: kept, path };
}

/** A port where nobody listens. */
async function closedPort(): Promise<number> {
  const server = createServer();
  const port = await listen(server as never, 0);
  await new Promise((resolve) => server.close(resolve));
  return port;
}

/** All rows of all tables, as text. */
async function rowsText(): Promise<string> {
  const tables = await many<{ name: string }>(
    world.db,
    `select format('%I.%I', schemaname, tablename) as name from pg_tables
     where schemaname not in ('pg_catalog', 'information_schema')`,
  );
  const texts: string[] = [];
  for (const { name } of tables) {
    const rows = await many<{ text: string }>(world.db, `select t::text as text from ${name} t`);
    texts.push(...rows.map(({ text }) => text));
  }
  return texts.join('\n');
}

/** All histories of Temporal, with what their payloads hold in clear. */
async function historiesText(): Promise<{ text: string; workflows: number }> {
  const texts: string[] = [];
  let workflows = 0;
  for await (const { workflowId, runId } of world.client.workflow.list()) {
    const history = await world.client.workflow.getHandle(workflowId, runId).fetchHistory();
    const text = JSON.stringify(history, (_, value) =>
      value instanceof Uint8Array || value?.type === 'Buffer'
        ? Buffer.from(value.data ?? value).toString()
        : value,
    );
    texts.push(text);
    workflows += 1;
  }
  return { text: texts.join('\n'), workflows };
}

test('after deliveries that ended in every way no log, row, history, event or answer has a secret', async () => {
  const closed = await closedPort();
  const all: Awaited<ReturnType<typeof tell>>[] = [];
  for (const channel of CHANNELS) {
    for (const fault of FAULTS) all.push(await tell(channel, url, fault));
    all.push(await tell(channel, url));
    all.push(await tell(channel, `http://127.0.0.1:${closed}`));
  }
  for (const { message_id } of all)
    await until(async () => {
      const { body } = await asOwner('get', `/v1/notice-messages/${message_id}`);
      return body.last_error !== null || body.status === 'delivered';
    });
  const outcomes = await many<{ last_error: string | null }>(
    world.db,
    'select distinct last_error from notice_messages order by 1',
  );
  // Each way of failing was met: words of its own for each.
  expect(outcomes.length).toBeGreaterThanOrEqual(7);
  const answers: string[] = [];
  for (const path of [
    '/v1/notice-destinations',
    '/v1/notice-messages',
    '/v1/notices',
    '/v1/audit-log',
    '/v1/events',
    ...all.flatMap(({ id, message_id }) => [
      `/v1/notice-destinations/${id}`,
      `/v1/notice-messages/${message_id}`,
    ]),
  ]) {
    const answer = await asOwner('get', path);
    expect([path, answer.status]).toEqual([path, 200]);
    answers.push(answer.text);
  }
  const rows = await rowsText();
  const histories = await historiesText();
  const log = world.lines.join('\n');
  // Each place is really looked at: it knows the destinations by their ids.
  expect(log).toContain('/v1/notice-destinations');
  expect(log).toContain('worker_lifecycle runs');
  for (const [place, text] of Object.entries({ rows, answers: answers.join() }))
    expect([place, all.filter(({ id }) => !text.includes(id))]).toEqual([place, []]);
  expect(all.filter(({ id }) => !histories.text.includes(id))).toEqual([]);
  expect(histories.workflows).toBeGreaterThanOrEqual(all.length);
  const places = { rows, log, histories: histories.text, answers: answers.join('\n') };
  for (const { secret, path } of all)
    for (const [place, text] of Object.entries(places))
      for (const form of formsOf(secret))
        expect([place, path.split('/')[1], text.includes(form)]).toEqual([
          place,
          path.split('/')[1],
          false,
        ]);
});

/** A secret as it is, and in other spellings of its bytes. */
function formsOf(secret: string): string[] {
  const is_key = secret.endsWith('=');
  const bytes = is_key ? Buffer.from(secret, 'base64') : Buffer.from(secret);
  return [
    secret,
    bytes.toString('hex'),
    bytes.toString('base64url'),
    bytes.toString('base64'),
    encodeURIComponent(secret),
  ];
}

test('under another SVC_SECRETS_KEY nothing leaves and the log says why; a new secret, or the old key, is enough', async () => {
  const made = await asOwner('post', '/v1/notice-destinations', {
    name: randomUUID(),
    channel: 'webhook',
    url: `${url}/hooks/rotated`,
    kinds: ['payment'],
  });
  const destination_id = made.body.id as string;
  await world.worker.kill();
  await asOwner('post', `/v1/notice-destinations/${destination_id}/test`);
  const ways = {
    networks: createNetworks(['127.0.0.0/8']),
    chat_hosts: [],
    public_url: undefined,
    mail: undefined,
  };
  const rotated = createSecrets(randomBytes(32).toString('base64'));
  const arrived = () => receiver.arrivals.filter(({ path }) => path === '/hooks/rotated');
  await sendNotices({ db: world.db, secrets: rotated, ways }, { destination_id, pause_ms: 0 });
  const message = async () => world.db('notice_messages').where({ destination_id }).first();
  expect(await message()).toMatchObject({
    status: 'waiting',
    attempts: 1,
    last_error: expect.stringContaining('another SVC_SECRETS_KEY'),
  });
  expect(arrived()).toEqual([]);
  const shown = await asOwner('get', `/v1/notice-destinations/${destination_id}`);
  expect(shown.body.disabled_at).toBe(null);
  // The old key is back.
  await many(
    world.db,
    'update notice_messages set next_at = clock_timestamp() where destination_id = :destination_id',
    { destination_id },
  );
  await world.worker.start();
  await until(async () => (await message())?.status === 'delivered');
  expect(arrived()).toHaveLength(1);
});
