import { setTimeout as sleep } from 'node:timers/promises';
import { keepPartitions } from '../../../domain/exports/kept-events';
import { newId } from '../../../domain/ids';
import { type Db, many, one } from '../../../domain/sql';
import {
  type CallApi,
  makeTenant,
  refusal,
  startApi,
  type Tenant,
  type TestApi,
} from '../../support/api';
import { untilVisible } from '../../support/database';
import { gatewayToken, makeKey, platformKey } from '../../support/keys';
import { until } from '../../support/until';
import { follow as followAt } from './following';

let api: TestApi;
let db: Db;
let call: CallApi;
let machine: string;

beforeAll(async () => {
  api = await startApi();
  ({ db, call } = api);
  machine = await gatewayToken(db);
});

afterAll(() => api.close());

async function append(org_id: string, type: string, payload: object = {}, through = db) {
  await many(through, 'select append_event(:org_id, :type, :payload)', {
    org_id,
    type,
    payload: JSON.stringify(payload),
  });
  if (through === db) await untilVisible(db);
  // Ids of one millisecond have no order.
  await sleep(2);
}

const list = async ({ owner_key }: Tenant, query = '') =>
  (await call('get', `/v1/events?${query}`, { key: owner_key })).body;

const follow = (key: string, headers: Record<string, string> = {}, query = '') =>
  followAt(api.url, key, { headers, query });

/**
 * Until the streams have looked for events a few times more: each asks the database again and
 * again.
 */
async function untilLooked(): Promise<void> {
  let looks = 0;
  const count = (_answer: unknown, { sql }: { sql: string }) => {
    if (sql.includes('pg_snapshot_xmin(pg_current_snapshot())::text')) looks += 1;
  };
  db.on('query-response', count);
  await until(() => looks >= 3);
  db.removeListener('query-response', count);
}

test('events are listed newest first, by type, agent, request or time, a page at a time', async () => {
  const tenant = await makeTenant(db);
  for (let n = 0; n < 5; n += 1)
    await append(tenant.org_id, n % 2 ? 'wallet.balance_low' : 'reservation.expired', {
      agent_id: `a${n}`,
      request_id: `r${n}`,
      held_nanos: '1500000000',
    });
  const all = await list(tenant);
  expect(all.events.map((event: { request_id: string }) => event.request_id)).toEqual([
    ...['r4', 'r3', 'r2', 'r1', 'r0'],
  ]);
  expect(all.events[0]).toMatchObject({ type: 'reservation.expired', payload: { held: 1.5 } });
  const first = await list(tenant, 'limit=2');
  const second = await list(tenant, `limit=2&cursor=${first.next_cursor}`);
  const third = await list(tenant, `limit=2&cursor=${second.next_cursor}`);
  expect([...first.events, ...second.events, ...third.events]).toEqual(all.events);
  expect(third.next_cursor).toBeNull();
  // As every list says it.
  expect([first, second, third].map(({ has_more }) => has_more)).toEqual([true, true, false]);
  expect((await list(tenant, 'type=wallet.balance_low')).events).toHaveLength(2);
  expect((await list(tenant, 'agent_id=a3')).events).toMatchObject([{ request_id: 'r3' }]);
  expect((await list(tenant, 'request_id=r2')).events).toHaveLength(1);
  const { created_at } = all.events[2];
  expect((await list(tenant, `since=${created_at}`)).events.length).toBeGreaterThanOrEqual(3);
  expect((await list(tenant, `until=${created_at}`)).events.length).toBeLessThanOrEqual(2);
  const path = `/v1/events/${all.events[1].id}`;
  expect((await call('get', path, { key: tenant.owner_key })).body).toEqual(all.events[1]);
});

test('whoever may bill sees what concerns money; events:read sees all; others and strangers nothing', async () => {
  const tenant = await makeTenant(db);
  const stranger = await makeTenant(db);
  await append(tenant.org_id, 'cost_ticket.created');
  await append(tenant.org_id, 'request.completed');
  const typesOf = async (key: string) =>
    (await call('get', `/v1/events?org_id=${tenant.org_id}`, { key })).body.events?.map(
      (event: { type: string }) => event.type,
    );
  expect(await typesOf(tenant.billing_key)).toEqual(['cost_ticket.created']);
  expect(await typesOf(await makeKey(db, tenant.org_id, { scopes: ['events:read'] }))).toEqual([
    'request.completed',
    'cost_ticket.created',
  ]);
  expect(await typesOf(await platformKey(db))).toHaveLength(2);
  expect((await call('get', '/v1/events', { key: tenant.member_key })).status).toBe(403);
  expect((await call('get', '/v1/events')).status).toBe(401);
  const [event] = (await list(tenant)).events;
  for (const path of [`/v1/events/${event.id}`, `/v1/events?org_id=${tenant.org_id}`])
    expect((await call('get', path, { key: stranger.owner_key })).status).toBe(404);
  const hidden = await call('get', `/v1/events/${event.id}`, { key: tenant.billing_key });
  expect(hidden.status).toBe(404);
});

test("an event's id is enough for a platform admin, and for nobody else", async () => {
  const tenant = await makeTenant(db);
  const other = await makeTenant(db);
  await append(tenant.org_id, 'wallet.balance_low');
  const [{ id }] = (await list(tenant, 'type=wallet.balance_low')).events;
  const show = (key: string, query = '') => call('get', `/v1/events/${id}${query}`, { key });
  const platform = await platformKey(db);
  const shown = await show(platform);
  expect([shown.status, shown.body.id, shown.body.org_id]).toEqual([200, id, tenant.org_id]);
  expect((await show(platform, `?org_id=${other.org_id}`)).status).toBe(404);
  expect((await show(other.owner_key)).status).toBe(404);
});

test('a stream tells what happens, resumes after the last event seen, and skips nothing that commits late', async () => {
  const tenant = await makeTenant(db);
  const live = await follow(tenant.billing_key);
  await append(tenant.org_id, 'cost_ticket.created', { n: 1 });
  await until(() => live.ids.length === 1);
  live.close();

  // The older event commits after the younger one has been seen.
  const slow = await db.transaction();
  await append(tenant.org_id, 'wallet.balance_low', { n: 2 }, slow);
  // Not waited for: the older transaction hides it.
  await many(db, 'select append_event(:org_id, :type, :payload)', {
    ...{ org_id: tenant.org_id, type: 'cost_ticket.resolved', payload: '{"n":3}' },
  });
  const again = await follow(tenant.billing_key, { 'last-event-id': live.ids[0] as string });
  await untilLooked();
  expect(again.types).toEqual([]);
  await slow.commit();
  await until(() => again.ids.length === 2);
  expect(again.data.map(({ payload }) => payload)).toEqual([{ n: 2 }, { n: 3 }]);
  again.close();

  const narrow = await follow(tenant.owner_key, {}, '?type=request.blocked');
  await append(tenant.org_id, 'request.completed');
  await append(tenant.org_id, 'request.blocked');
  await until(() => narrow.types.length === 1);
  expect(narrow.types).toEqual(['request.blocked']);
  narrow.close();
  const unknown = await call('get', '/v1/events/stream', {
    key: tenant.owner_key,
    headers: { 'last-event-id': newId('evt') },
  });
  expect(refusal(unknown)).toEqual({ status: 404, code: 'not_found', param: 'Last-Event-ID' });
});

test('a stream that has shown nothing resumes where it was: nothing that happened meanwhile is lost', async () => {
  const tenant = await makeTenant(db);
  const quiet = await follow(tenant.billing_key, {}, '?type=wallet.balance_low');
  await until(() => quiet.last_id !== '');
  quiet.close();
  await append(tenant.org_id, 'wallet.balance_low', { n: 1 });
  const resumed = (last_id: string) =>
    follow(tenant.billing_key, { 'last-event-id': last_id }, '?type=wallet.balance_low');
  const again = await resumed(quiet.last_id);
  await until(() => again.ids.length === 1);
  // A later place, told with a sign of life, leaves it out.
  await until(() => again.last_id !== again.ids[0]);
  again.close();
  const later = await resumed(again.last_id);
  await append(tenant.org_id, 'wallet.balance_low', { n: 2 });
  await until(() => later.ids.length === 1);
  expect(later.data.map(({ payload }) => payload)).toEqual([{ n: 2 }]);
  later.close();
  // Of another organization it names no more than a moment.
  const other = await makeTenant(db);
  const foreign = await follow(other.billing_key, { 'last-event-id': quiet.last_id });
  await append(other.org_id, 'wallet.balance_low', { n: 3 });
  await until(() => foreign.ids.length === 1);
  expect(foreign.data.map(({ payload }) => payload)).toEqual([{ n: 3 }]);
  foreign.close();
});

test.each(['at_', 'at_1_2_3', `at_1_${'0'.repeat(13)}_`, `at_${'9'.repeat(30)}_1796246400000_`])(
  'a place that is none, or of days that are not kept, is refused: %s',
  async (last_id) => {
    const { owner_key } = await makeTenant(db);
    const answer = await call('get', '/v1/events/stream', {
      key: owner_key,
      headers: { 'last-event-id': last_id },
    });
    expect(refusal(answer)).toEqual({ status: 404, code: 'not_found', param: 'Last-Event-ID' });
  },
);

test('events of a gateway are written once, however often they are told', async () => {
  const tenant = await makeTenant(db);
  const item = {
    ...{ id: newId('evt'), org_id: tenant.org_id, type: 'rate_limit.exceeded' },
    ...{ action: 'rate_limited', request_id: 'req_1', trace_label: 'mine' },
    payload: { scope: 'per_key', limit_type: 'rpm' },
  };
  const tell = (items: object[]) =>
    call('post', '/v1/gateway/events', { key: machine, body: { items } });
  const foreign = { ...item, id: newId('evt'), org_id: 'org_nobody' };
  expect((await tell([item, foreign])).body).toEqual({ recorded: 1 });
  await untilVisible(db);
  expect((await tell([item])).body).toEqual({ recorded: 0 });
  expect((await list(tenant, 'action=rate_limited')).events).toEqual([
    { ...item, agent_id: null, created_at: expect.any(String) },
  ]);
  expect((await list(tenant, 'request_id=mine')).events).toHaveLength(1);
  for (const [param, wrong] of [
    ['items.0.id', { id: 'evt_1' }],
    ['items.0.id', { id: newId('evt', Date.now() - 8 * 86_400_000) }],
    ['items.0.type', { type: 'payment.completed' }],
    ['items.0.payload', { payload: 'text' }],
    ['items.0.payload', { payload: { cost_nanos: 'abc' } }],
    ['items.0.payload', { payload: nested(1_000) }],
  ] as const)
    expect(refusal(await tell([{ ...item, ...wrong }]))).toMatchObject({ status: 422, param });
});

function nested(levels: number): object {
  let value = {};
  for (let n = 0; n < levels; n += 1) value = { value };
  return value;
}

test('each day has its partition before it comes; what lay in the default one moves; old days are dropped', async () => {
  const tenant = await makeTenant(db);
  await append(tenant.org_id, 'wallet.balance_low');
  const old = newId('evt', Date.now() - 95 * 86_400_000);
  await many(
    db,
    `select add_event_partition((current_date - 95)::date);
     insert into events (id, created_at, org_id, type, payload) values ('${old}', id_time('${old}'), '${tenant.org_id}', 'x', '{}')`,
  );
  expect(await keepPartitions(db)).toBe(9);
  expect(await keepPartitions(db)).toBe(0);
  const counted = await one<{ in_default: number; in_all: number }>(
    db,
    `select (select count(*)::int from events_default where org_id = :org_id) as in_default,
       (select count(*)::int from events where org_id = :org_id) as in_all`,
    { org_id: tenant.org_id },
  );
  expect(counted).toEqual({ in_default: 0, in_all: 1 });
  // Money does not stop while the day's table is being made: a writer of today holds no lock that
  // matters for long.
  const writer = await db.transaction();
  await append(tenant.org_id, 'wallet.balance_low', {}, writer);
  await expect(
    many(db, `select add_event_partition((current_date + 30)::date)`),
  ).resolves.toHaveLength(1);
  await writer.commit();
});
