import { randomUUID } from 'node:crypto';
import { request } from 'undici';
import { type Db, many } from '../../../domain/sql';
import {
  type Answer,
  type CallApi,
  makeTenant,
  refusal,
  startApi,
  type Tenant,
} from '../../support/api';
import { gatewayToken } from '../../support/keys';
import { makePrice, reserveBody, settleBody } from '../../support/ledger';
import { until } from '../../support/until';

let db: Db;
let url: string;
let call: CallApi;
let close: () => Promise<void>;
let key: string;
let tenant: Tenant;

beforeAll(async () => {
  ({ db, url, call, close } = await startApi());
  key = await gatewayToken(db);
  tenant = await funded();
  await makePrice(db);
});

afterAll(() => close());

function post(path: string, body: object): Promise<Answer> {
  return call('post', `/v1/gateway/${path}`, { key, body });
}

async function funded(): Promise<Tenant> {
  const made = await makeTenant(db);
  const body = { target_wallet_owner_type: 'organization', amount: 1 };
  await call('post', '/v1/wallets/credit', { key: made.billing_key, body });
  return made;
}

interface Line {
  id: string;
  status: number;
  // biome-ignore lint/suspicious/noExplicitAny: a line is the answer of any single route.
  body: any;
}

async function batch(items: object[], headers = {}): Promise<Record<string, Line>> {
  const answer = await call('post', '/v1/gateway/wallets/batch', { key, body: { items }, headers });
  expect([answer.status, answer.headers['content-type']]).toEqual([200, 'application/x-ndjson']);
  expect(answer.text.endsWith('\n')).toBe(true);
  const lines: Line[] = answer.text
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line));
  expect(lines).toHaveLength(items.length);
  return Object.fromEntries(lines.map((line) => [line.id, line]));
}

test('what one call brings of an organization is one commit, the first item too', async () => {
  const ids = Array.from({ length: 5 }, () => randomUUID());
  const bodies = ids.map((request_id) => reserveBody(tenant.org_id, 1_000, { request_id }));
  await batch(bodies.map((body, n) => ({ id: `${n}`, op: 'reserve', body })));
  const sql = 'select distinct xmin from reservations where request_id = any(:ids)';
  const commits = await many(db, sql, { ids });
  expect(commits).toHaveLength(1);
});

test('each item is a line with the status and body that its single route would answer', async () => {
  const { org_id } = tenant;
  const request_id = randomUUID();
  const held = await batch([
    { id: 'a', op: 'reserve', body: reserveBody(org_id, 1_000, { request_id }) },
    { id: 'b', op: 'reserve', body: reserveBody(org_id, 1_000, { model: 'unpriced' }) },
    { id: 'c', op: 'reserve', body: reserveBody(org_id, 900_000_000) },
    { id: 'd', op: 'reserve', body: { ...reserveBody(org_id, 1), nonsense: 1 } },
    { id: 'e', op: 'settle', body: settleBody(org_id, 'res_unknown', 1) },
    { id: 'f', op: 'settle', body: { org_id, outcome: 'completed', usage: {} } },
  ]);
  const single = await call('post', '/v1/gateway/wallets/reserve', {
    key,
    body: reserveBody(org_id, 1_000, { request_id }),
  });
  expect(held.a).toEqual({ id: 'a', status: 200, body: single.body });
  expect(held.b).toMatchObject({
    status: 422,
    body: { type: 'error', error: { code: 'model_not_priced' } },
  });
  expect(held.c).toMatchObject({
    status: 402,
    body: { cost_ticket: { shortfall: expect.any(Number) } },
  });
  expect(held.d).toMatchObject({
    status: 422,
    body: { error: { code: 'unknown_field', param: 'nonsense' } },
  });
  expect(held.e).toMatchObject({ status: 404 });
  expect(held.f).toMatchObject({ status: 422, body: { error: { param: 'reservation_id' } } });
  const { reservation_id } = single.body;
  const done = await batch([
    { id: 'x', op: 'extend', body: { items: [{ org_id, reservation_id }] } },
    { id: 's', op: 'settle', body: settleBody(org_id, reservation_id, 10) },
  ]);
  expect(done.x).toMatchObject({ status: 200, body: { results: [{ reservation_id }] } });
  expect(done.s).toMatchObject({ status: 200, body: { status: 'settled', actual_cost: 0.00001 } });
});

test('64 items are done in one call, 65 and none are refused whole', async () => {
  const items = Array.from({ length: 64 }, (_, n) => {
    const request_id = randomUUID();
    return {
      id: String(n),
      op: 'settle',
      body: { org_id: tenant.org_id, request_id, outcome: 'canceled' },
    };
  });
  const lines = await batch(items);
  expect(Object.values(lines).map(({ body }) => body.status)).toEqual(Array(64).fill('released'));
  for (const wrong of [[...items, { ...items[0], id: '64' }], []]) {
    const answer = await call('post', '/v1/gateway/wallets/batch', { key, body: { items: wrong } });
    expect(refusal(answer)).toMatchObject({ status: 422, param: 'items' });
  }
});

test.each([
  [{ id: 'a', op: 'redeem-all', body: {} }, 'items.0.op'],
  [{ op: 'reserve', body: {} }, 'items.0.id'],
  [{ id: 'a', op: 'reserve', body: [] }, 'items.0.body'],
  [{ id: 'a', op: 'reserve', body: {}, more: 1 }, 'items.0.more'],
])('a batch with the item %j is refused whole, by name', async (item, param) => {
  const answer = await call('post', '/v1/gateway/wallets/batch', { key, body: { items: [item] } });
  expect(refusal(answer)).toMatchObject({ status: 422, param });
});

test('an old gateway gets 426 on its reserves; its settlements are taken', async () => {
  const { org_id } = tenant;
  const lines = await batch(
    [
      { id: 'r', op: 'reserve', body: reserveBody(org_id, 1) },
      { id: 's', op: 'settle', body: { org_id, request_id: randomUUID(), outcome: 'canceled' } },
    ],
    { 'x-svc-gateway-version': '1.3.9' },
  );
  expect([lines.r?.status, lines.s?.status]).toEqual([426, 200]);
});

test('half a surrogate pair in one call does not reach the ledger', async () => {
  const body = JSON.stringify({
    items: [{ id: 'a', op: 'reserve', body: reserveBody(tenant.org_id, 1) }],
  });
  const broken = body.replace('"gpt-4o-mini"', '"gpt\\ud800"');
  expect((await call('post', '/v1/gateway/wallets/batch', { key, body: broken })).status).toBe(422);
});

test('a slow organization delays nobody: the line of another leaves before it', async () => {
  const slow = await makeTenant(db);
  const trx = await db.transaction();
  await many(trx, 'select lock_organization(:org_id)', { org_id: slow.org_id });
  const cancel = (id: string, org_id: string) => ({
    id,
    op: 'settle',
    body: { org_id, request_id: randomUUID(), outcome: 'canceled' },
  });
  const answer = await request(`${url}/v1/gateway/wallets/batch`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ items: [cancel('slow', slow.org_id), cancel('fast', tenant.org_id)] }),
  });
  const order: string[] = [];
  for await (const chunk of answer.body) {
    for (const line of String(chunk).trimEnd().split('\n')) order.push(JSON.parse(line).id);
    if (order.length === 1) await trx.rollback();
  }
  expect(order).toEqual(['fast', 'slow']);
});

/** Sessions that wait for another one's lock. */
async function waiting(): Promise<number> {
  const rows = await many(
    db,
    `select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
  );
  return rows.length;
}

test('items are finished though their caller has gone', async () => {
  const request_id = randomUUID();
  const { org_id } = tenant;
  const trx = await db.transaction();
  await many(trx, 'select lock_organization(:org_id)', { org_id });
  const leaving = new AbortController();
  const sent = request(`${url}/v1/gateway/wallets/batch`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({
      items: [{ id: 'a', op: 'reserve', body: reserveBody(org_id, 7, { request_id }) }],
    }),
    signal: leaving.signal,
  });
  const refused = sent.then(
    () => false,
    () => true,
  );
  await until(async () => (await waiting()) > 0);
  leaving.abort();
  expect(await refused).toBe(true);
  await trx.rollback();
  // The time-out of until is the failure: nobody asks again.
  const holds = () => db('reservations').where({ request_id }).select('status');
  await until(async () => (await holds()).length > 0);
  expect(await holds()).toEqual([{ status: 'open' }]);
});

test('a batch that fails is sent item by item, and a second item under an id of its own body waits for the first', async () => {
  const { org_id } = await funded();
  const hold = async () =>
    (await post('wallets/reserve', reserveBody(org_id, 10))).body.reservation_id as string;
  const [a, b] = [await hold(), await hold()];
  const items = [
    { id: '1', op: 'settle', body: settleBody(org_id, a, 1) },
    { id: '2', op: 'settle', body: settleBody(org_id, b, 1) },
    { id: '3', op: 'settle', body: settleBody(org_id, a, 2) },
  ];
  const lines = await db.transaction(async (trx) => {
    await trx.raw('select lock_organization(?)', [org_id]);
    const answer = batch(items);
    const cancel = async () => {
      const rows = await many<{ pid: number }>(
        db,
        `select pid, pg_cancel_backend(pid) from pg_stat_activity
         where datname = current_database() and wait_event_type = 'Lock' and query like '%lane_%'`,
        {},
      );
      return rows.length > 0;
    };
    await until(cancel);
    return { answer };
  });
  const answers = await lines.answer;
  expect(Object.values(answers).map(({ status }) => status)).toEqual([200, 200, 200]);
  expect(answers['3']?.body.actual_cost).toBe(answers['1']?.body.actual_cost);
});
