import { createHash, randomUUID } from 'node:crypto';
import * as rules from '../../../domain/ledger/approval-rules';
import { type Db, many, one } from '../../../domain/sql';
import { type CallApi, makeTenant, refusal, startApi } from '../../support/api';
import { gatewayToken, issueKey } from '../../support/keys';
import { makePrice, reserveBody } from '../../support/ledger';

let db: Db;
let call: CallApi;
let close: () => Promise<void>;
let machine: string;

beforeAll(async () => {
  ({ db, call, close } = await startApi());
  machine = await gatewayToken(db);
  await makePrice(db);
});

afterAll(() => close());

const hashOf = (text: string) => `sha256:${createHash('sha256').update(text).digest('hex')}`;

function reserve(org_id: string, n: number, more: object = {}) {
  const request_body_hash = hashOf(String(n));
  const body = { ...reserveBody(org_id, 3_000), request_id: randomUUID(), request_body_hash };
  return call('post', '/v1/gateway/wallets/reserve', { key: machine, body: { ...body, ...more } });
}

async function many402(org_id: string, from: number, to: number, more: object = {}) {
  for (let n = from; n < to; n += 1) expect((await reserve(org_id, n, more)).status).toBe(402);
}

const minutesAgo = (minutes: number) => new Date(Date.now() - minutes * 60_000);

const keyOf = async (org_id: string) => (await issueKey(db, org_id, { token_type: 'gateway' })).id;

function written(org_id: string) {
  return one<Record<string, number>>(
    db,
    `select (select count(*)::int from cost_tickets where org_id = :org_id) as tickets,
       (select count(*)::int from outbox where org_id = :org_id) as messages,
       (select count(*)::int from events where org_id = :org_id) as events`,
    { org_id },
  );
}

test('a key has 50 open tickets; one more call is 429 with its headers, and writes one event for all', async () => {
  const { org_id } = await makeTenant(db);
  const key_id = await keyOf(org_id);
  await many402(org_id, 0, 50, { key_id });
  const before = await written(org_id);
  const asked_at = Date.now() / 1_000;
  const refused = await reserve(org_id, 50, { key_id });
  const told_at = Date.now() / 1_000;
  expect(refusal(refused)).toEqual({
    status: 429,
    code: 'open_tickets_exceeded',
    param: 'key_id',
  });
  const reset = Number(refused.headers['x-ratelimit-reset']);
  expect(refused.headers).toMatchObject({
    'x-ratelimit-limit': '50',
    'x-ratelimit-remaining': '0',
    'x-should-retry': 'false',
  });
  const retry_s = Number(refused.headers['retry-after']);
  expect(retry_s).toBeGreaterThan(reset - told_at - 5);
  expect(retry_s).toBeLessThan(reset - asked_at + 5);
  expect(refused.body.cost_ticket).toBeUndefined();
  for (let n = 51; n < 60; n += 1) expect((await reserve(org_id, n, { key_id })).status).toBe(429);
  const after = await written(org_id);
  expect(after).toEqual({ ...before, events: (before.events ?? 0) + 1 });
  const [event] = await many<{ type: string; payload: object }>(
    db,
    'select type, payload from events where org_id = :org_id order by id desc limit 1',
    { org_id },
  );
  expect(event).toMatchObject({
    type: 'cost_ticket.exceeded',
    payload: { key_id, open_tickets: 50 },
  });
  // After ten minutes it is said again, and what was kept of before goes.
  await db('ticket_bounds')
    .where({ org_id })
    .update({ told_at: minutesAgo(11) });
  await db('ticket_bounds').insert({ org_id, key_id: 'of before', told_at: minutesAgo(11) });
  expect((await reserve(org_id, 60, { key_id })).status).toBe(429);
  expect(await written(org_id)).toEqual({ ...after, events: (after.events ?? 0) + 1 });
  expect(await db('ticket_bounds').where({ org_id }).pluck('key_id')).toEqual([key_id]);
  // An equal request finds its ticket, another key has its own 50, and one that ends makes room.
  expect((await reserve(org_id, 7, { key_id })).body.cost_ticket.id).toMatch(/^ticket_/);
  expect((await reserve(org_id, 50, { key_id: await keyOf(org_id) })).status).toBe(402);
  const [first] = await db('cost_tickets').where({ org_id, key_id }).limit(1);
  await many(db, `select resolve_ticket(:id, 'denied', false)`, { id: first.id });
  expect((await reserve(org_id, 50, { key_id })).status).toBe(402);
});

test('a call that a rule approves needs no room; one that no rule approves leaves no ticket', async () => {
  const { org_id, member_id: user_id } = await makeTenant(db);
  const key_id = await keyOf(org_id);
  const caller = { key_id, user_id };
  await many402(org_id, 0, 50, caller);
  const { cost } = await one<{ cost: bigint }>(
    db,
    'select max(estimated_cost_nanos) as cost from cost_tickets where org_id = :org_id',
    { org_id },
  );
  await rules.create(db, {
    org_id,
    name: 'Two calls',
    team_id: null,
    max_per_call_nanos: cost,
    max_per_day_nanos: 10n * cost,
    source: 'organization',
    created_by: 'test',
  });
  const before = await written(org_id);
  // Nothing covers it.
  const refused = await reserve(org_id, 50, caller);
  expect(refusal(refused)).toMatchObject({ status: 429, code: 'open_tickets_exceeded' });
  expect(await written(org_id)).toEqual({ ...before, events: (before.events ?? 0) + 1 });
  // The user's wallet and the organization's cover it together.
  await many(
    db,
    `select credit(w.org_id, w.id, :half, 'half') from wallets w
     where w.org_id = :org_id and (w.owner_type = 'organization' or w.owner_user_id = :user_id)`,
    { org_id, user_id, half: cost - cost / 3n },
  );
  expect((await reserve(org_id, 51, caller)).status).toBe(200);
  const open = await db('cost_tickets').where({ org_id, status: 'open' });
  expect(open).toHaveLength(50);
  expect((await reserve(org_id, 52, caller)).status).toBe(429);
});

test('an organization has 500 open tickets, whatever keys it makes; others have their own', async () => {
  const { org_id } = await makeTenant(db);
  await many402(org_id, 0, 1);
  await many(
    db,
    `insert into cost_tickets (id, org_id, provider, model, request_body_hash, estimated_cost_nanos, currency, reserve, expires_at, created_at)
     select new_id('ticket'), t.org_id, t.provider, t.model, 'x' || n, t.estimated_cost_nanos, t.currency, t.reserve, t.expires_at, t.created_at
     from cost_tickets t cross join generate_series(1, 499) as n where t.org_id = :org_id`,
    { org_id },
  );
  const refused = await reserve(org_id, 1, { key_id: await keyOf(org_id) });
  expect(refusal(refused)).toEqual({
    status: 429,
    code: 'open_tickets_exceeded',
    param: 'org_id',
  });
  expect(refused.headers['x-ratelimit-limit']).toBe('500');
  expect((await reserve((await makeTenant(db)).org_id, 1)).status).toBe(402);
  // Those that are past their time count no more, though nobody has closed them.
  await db('cost_tickets').where({ org_id }).update({ expires_at: new Date() });
  expect((await reserve(org_id, 1)).status).toBe(402);
});
