import { setTimeout as sleep } from 'node:timers/promises';
import { request } from 'undici';
import { newId } from '../../../domain/ids';
import { type Db, many, one } from '../../../domain/sql';
import { openDatabase } from '../../../runtime/database';
import { createLog } from '../../../runtime/log';
import { type CallApi, makeTenant, refusal, serve } from '../../support/api';
import { openTestDatabase, patient, type TestDatabase } from '../../support/database';
import { makeKey } from '../../support/keys';
import { until } from '../../support/until';
import { follow, type Seen } from './following';

let api: Awaited<ReturnType<typeof serve>>;
let database: TestDatabase;
let db: Db;
// The one session that reads for people: what it has read it reports at once if it is asked.
let reads: Db;
let call: CallApi;
const lines: string[] = [];

beforeAll(async () => {
  const log = createLog('test', 'silent');
  Object.assign(log, { error: (_: unknown, message: string) => lines.push(message) });
  database = await openTestDatabase();
  ({ db } = database);
  reads = patient(openDatabase(database.url, 1, 'test'));
  api = await serve({ db, log, pools: { people: db, reads, machine: db } });
  ({ call } = api);
});

afterAll(async () => {
  await api.close();
  await reads.destroy();
  await database.close();
});

const FOREIGN = 20_000;
/** Longer than between two looks for events. */
const POLL_MS = 700;

/** So many events of a kind, written in transactions of 1,000 as batches of gateways are. */
async function write(org_id: string, type: string, count: number): Promise<void> {
  for (let left = count; left > 0; left -= 1_000)
    await many(
      db,
      `insert into events (id, created_at, org_id, type, trace_label, payload)
       select i.id, id_time(i.id), :org_id, :type, 'mine', '{"tokens": 1}'
       from generate_series(1, :count) as n cross join lateral (select new_id('evt') as id, n) as i`,
      { org_id, type, count: Math.min(left, 1_000) },
    );
}

/** How many rows were read of all partitions so far, by whichever index. */
async function rowsRead(): Promise<number> {
  await many(reads, 'select pg_stat_force_next_flush()');
  const { read } = await one<{ read: number }>(
    reads,
    `select (sum(idx_tup_fetch) + sum(seq_tup_read))::int as read from pg_stat_user_tables
     where relname like 'events%'`,
  );
  return read;
}

async function readMeanwhile(run: () => Promise<unknown>): Promise<number> {
  const before = await rowsRead();
  await run();
  return (await rowsRead()) - before;
}

/** Waits until the streams of tests before have read all there is. */
async function untilAllIsRead(): Promise<void> {
  let before = -1;
  await until(async () => {
    const last = before;
    await sleep(POLL_MS);
    before = await rowsRead();
    return before === last;
  });
}

test('streams that see nothing read each foreign event once in all, and then nothing more', async () => {
  const { org_id, owner_key } = await makeTenant(db);
  const query = '?type=payment.refunded';
  const streams: Seen[] = [];
  for (let n = 0; n < 20; n += 1) streams.push(await follow(api.url, owner_key, { query }));
  await untilAllIsRead();
  // They show what is theirs, and have read by then what came before it.
  const haveShown = async (count: number) => {
    await write(org_id, 'payment.refunded', 1);
    await until(() => streams.every(({ types }) => types.length === count));
  };
  const written = await readMeanwhile(async () => {
    await write(org_id, 'request.completed', FOREIGN);
    await haveShown(1);
  });
  expect(written).toBeLessThan(FOREIGN * 1.5);
  expect(await readMeanwhile(() => haveShown(2))).toBeLessThan(500);
  for (const stream of streams) stream.close();
});

test('streams that resume far back catch up together, a step at a time, and skip nothing', async () => {
  const { org_id, owner_key } = await makeTenant(db);
  await write(org_id, 'wallet.balance_low', 1);
  const { id } = await one<{ id: string }>(db, 'select id from events where org_id = :org_id', {
    org_id,
  });
  await write(org_id, 'request.completed', FOREIGN);
  await write(org_id, 'wallet.balance_low', 450);
  const given = { query: '?type=wallet.balance_low', headers: { 'last-event-id': id } };
  const streams: Seen[] = [];
  const read = await readMeanwhile(async () => {
    for (let n = 0; n < 10; n += 1) streams.push(await follow(api.url, owner_key, given));
    await until(() => streams.every(({ ids }) => ids.length === 450));
  });
  expect(new Set(streams[0]?.ids).size).toBe(450);
  expect(read).toBeLessThan(FOREIGN * 3);
  for (const stream of streams) stream.close();
});

test('a search reads what it finds: by label, by kind; one that finds nothing goes on at its cursor', async () => {
  const { org_id, owner_key, billing_key } = await makeTenant(db);
  await write(org_id, 'cost_ticket.created', 3);
  await write(org_id, 'request.completed', FOREIGN);
  // Which index is the small one the planner knows by statistics, which tables in use have.
  await many(db, 'analyze events');
  await until(async () => (await list('limit=1')).events.length === 1);
  await untilAllIsRead();
  async function list(query: string, key = owner_key) {
    return (await call('get', `/v1/events?${query}`, { key })).body;
  }
  const cheap = await readMeanwhile(async () => {
    expect((await list('type=cost_ticket.created')).events).toHaveLength(3);
    expect((await list('', billing_key)).events).toHaveLength(3);
    expect((await list('request_id=mine&limit=5')).events).toHaveLength(5);
    expect((await list('request_id=nobody')).events).toEqual([]);
  });
  expect(cheap).toBeLessThan(500);
  const dear = await readMeanwhile(async () => {
    const first = await list('agent_id=nobody');
    expect(first).toMatchObject({ events: [], has_more: true });
    let pages = 1;
    for (let next = first; next.has_more; pages += 1) {
      next = await list(`agent_id=nobody&cursor=${next.next_cursor}`);
      expect(next.events).toEqual([]);
    }
    expect(pages).toBe(Math.ceil((FOREIGN + 3) / 2_000));
  });
  expect(dear).toBeLessThan(FOREIGN * 1.5);
});

test('what a stream shows loses a right with the next heartbeat, and ends with the key', async () => {
  const { org_id } = await makeTenant(db);
  const key = await makeKey(db, org_id, { scopes: ['events:read', 'org:billing'] });
  const [{ id }] = await db('tokens').where({ org_id }).orderBy('created_at', 'desc').limit(1);
  const stream = await follow(api.url, key);
  await write(org_id, 'request.completed', 1);
  await until(() => stream.types.length === 1);
  await db('tokens')
    .where({ id })
    .update({ scopes: ['org:billing'] });
  const { beats } = stream;
  await until(() => stream.beats > beats);
  await write(org_id, 'request.completed', 1);
  await write(org_id, 'wallet.balance_low', 1);
  await until(() => stream.types.length === 2);
  expect(stream.types).toEqual(['request.completed', 'wallet.balance_low']);
  await db('tokens').where({ id }).update({ revoked_at: new Date() });
  await until(stream.has_ended);
});

test('a stream whose rights cannot be read for a fault of ours ends, and the log has the fault', async () => {
  const { owner_key } = await makeTenant(db);
  lines.length = 0;
  const stream = await follow(api.url, owner_key);
  await many(db, 'alter table tokens rename to tokens_elsewhere');
  try {
    await until(stream.has_ended);
  } finally {
    await many(db, 'alter table tokens_elsewhere rename to tokens');
  }
  expect(lines).toEqual(['unexpected error']);
});

test('one key leaves places to the other keys of its organization, and its organization to others', async () => {
  const { org_id, owner_key, billing_key } = await makeTenant(db);
  const streams: Seen[] = [];
  for (let n = 0; n < 25; n += 1) streams.push(await follow(api.url, owner_key));
  const refused = await call('get', '/v1/events/stream', { key: owner_key });
  expect(refusal(refused)).toMatchObject({ status: 429, code: 'rate_limit_exceeded' });
  expect(refused.headers).toMatchObject({
    'x-ratelimit-limit': '25',
    'x-ratelimit-remaining': '0',
    'x-ratelimit-reset': expect.any(String),
    'retry-after': expect.any(String),
  });
  streams.push(await follow(api.url, billing_key));
  streams.push(await follow(api.url, await makeKey(db, org_id, { scopes: ['events:read'] })));
  for (const stream of streams) stream.close();
});

test('HEAD of the stream answers and takes no place; a client that breaks off is no error of ours', async () => {
  const { org_id, owner_key } = await makeTenant(db);
  for (let n = 0; n < 60; n += 1) {
    const headers = { authorization: `Bearer ${owner_key}` };
    const head = await request(`${api.url}/v1/events/stream`, { method: 'HEAD', headers });
    await head.body.dump();
    expect(head.statusCode).toBe(200);
    expect(head.headers['content-type']).toBe('text/event-stream');
  }
  lines.length = 0;
  const [stream, other] = [await follow(api.url, owner_key), await follow(api.url, owner_key)];
  stream.close();
  await write(org_id, 'wallet.balance_low', 1);
  await until(() => other.ids.length === 1);
  other.close();
  expect(lines).toEqual([]);
  const unknown = { 'last-event-id': newId('evt') };
  const missing = await call('get', '/v1/events/stream', { key: owner_key, headers: unknown });
  expect(missing.status).toBe(404);
});
