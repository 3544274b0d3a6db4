import { randomUUID } from 'node:crypto';
import { many } from '../../domain/sql';
import { openDatabase } from '../../runtime/database';
import { makeTenant, refusal, serve } from '../support/api';
import { makeKey, platformKey } from '../support/keys';
import { balance, credit, eventsOf, makePrice, TOKEN } from '../support/ledger';
import {
  approve,
  deny,
  makeShort,
  openTicketWorld,
  redeem,
  type Short,
  show,
  type TicketWorld,
  topUp,
} from '../support/tickets';
import { until } from '../support/until';

let world: TicketWorld;

beforeAll(async () => {
  world = await openTicketWorld();
});

afterAll(() => world.close());

const waiting = (short: Short, more: object = {}) =>
  redeem(world.call, world.machine, short, { wait_ms: 30_000, ...more });

/** Until so many calls wait on a ticket. */
const untilWaiting = (short: Short, calls = 1) =>
  until(async () => (await show(world.call, short)).waiting_calls === calls);

test('approving credits exactly what is missing, holds it, and the held call takes the hold', async () => {
  const { db, call } = world;
  const short = await makeShort(world, 10);
  await topUp(call, short, 4);
  const answer = waiting(short);
  await untilWaiting(short);
  const approved = await approve(call, short, { note: 'for the demo' });
  expect(approved).toMatchObject({
    status: 200,
    body: { credited_amount: 0.000_006, note: 'for the demo', decided_by: expect.any(String) },
  });
  expect(await answer).toMatchObject({
    status: 200,
    body: { reservation_id: approved.body.reservation_id, reserved_amount: 0.000_01 },
  });
  expect(await balance(db, short.wallet_id)).toEqual({
    balance_nanos: 0n,
    reserved_nanos: 10n * TOKEN,
  });
  const resolved = await eventsOf(db, short.org_id, 'cost_ticket.resolved');
  expect(resolved.map(({ status }) => status)).toEqual(['approved', 'redeemed']);
});

test('an approval without a waiting call keeps the hold for whoever redeems the ticket later, once', async () => {
  const { call, machine } = world;
  const short = await makeShort(world, 10);
  const first = await approve(call, short);
  const again = await approve(call, short);
  expect([first.status, first.body.status, again.body]).toEqual([200, 'approved', first.body]);
  const later = { ...short, request_id: 'came-back' };
  const redeemed = await redeem(call, machine, later);
  expect(redeemed.body.reservation_id).toBe(first.body.reservation_id);
  expect((await redeem(call, machine, later)).body.reservation_id).toBe(
    redeemed.body.reservation_id,
  );
  expect(refusal(await redeem(call, machine, { ...short, request_id: 'too-late' }))).toMatchObject({
    status: 409,
    code: 'ticket_redeemed',
  });
  const { credited_amount, decided_by } = first.body;
  expect(await approve(call, short)).toMatchObject({
    status: 200,
    body: { status: 'redeemed', credited_amount, decided_by },
  });
});

test('a denied ticket tells its held call at once, with the reason, and takes no money', async () => {
  const { db, call } = world;
  const short = await makeShort(world, 10);
  const answer = waiting(short);
  await untilWaiting(short);
  const denied = await deny(call, short, { reason: 'too dear' });
  expect(denied).toMatchObject({ status: 200, body: { status: 'denied', note: 'too dear' } });
  const told = await answer;
  expect(refusal(told)).toMatchObject({ status: 403, code: 'ticket_denied' });
  expect(told.headers['x-should-retry']).toBe('false');
  expect(told.body.error.message).toBe('This cost ticket was denied: too dear');
  expect((await deny(call, short, { reason: 'again' })).body.note).toBe('too dear');
  expect(refusal(await approve(call, short))).toMatchObject({ status: 409, code: 'ticket_denied' });
  expect(await balance(db, short.wallet_id)).toMatchObject({ balance_nanos: 0n });
});

test('an amount above the shortfall is credited whole; below it nothing is', async () => {
  const { db, call } = world;
  const short = await makeShort(world, 10);
  expect(refusal(await approve(call, short, { amount: 0.000_009 }))).toMatchObject({
    status: 409,
    code: 'amount_below_shortfall',
  });
  expect(await balance(db, short.wallet_id)).toMatchObject({ balance_nanos: 0n });
  expect((await approve(call, short, { amount: 1 })).body).toMatchObject({
    status: 'approved',
    credited_amount: 1,
  });
  expect(await balance(db, short.wallet_id)).toEqual({
    balance_nanos: 999_990_000n,
    reserved_nanos: 10n * TOKEN,
  });
});

test('the wallet of an approval may be named, and must be one that may pay', async () => {
  const { db, call } = world;
  const tenant = await makeTenant(db);
  const stranger = await makeTenant(db);
  const short = await makeShort(world, 10, { team_id: tenant.team_id }, tenant);
  const { wallets } = await show(call, short);
  expect(refusal(await approve(call, short, { wallet_id: stranger.wallet_id }))).toEqual({
    status: 422,
    code: 'invalid_field',
    param: 'wallet_id',
  });
  const { wallet_id } = wallets.find((each: { owner_type: string }) => each.owner_type === 'team');
  expect((await approve(call, short, { wallet_id })).status).toBe(200);
  expect(await balance(db, wallet_id)).toEqual({ balance_nanos: 0n, reserved_nanos: 10n * TOKEN });
});

test("under platform_only an organization's approval moves its own money; only the platform makes new", async () => {
  const { db, call } = world;
  const tenant = await makeTenant(db);
  await many(db, `update organizations set manual_credit = 'platform_only' where id = :org_id`, {
    org_id: tenant.org_id,
  });
  await credit(db, tenant.org_id, tenant.wallet_id, 8n * TOKEN);
  const short = await makeShort(world, 10, { team_id: tenant.team_id }, tenant);
  expect(refusal(await approve(call, short))).toMatchObject({
    code: 'insufficient_balance',
    status: 409,
  });
  expect(refusal(await approve(call, short, { wallet_id: tenant.wallet_id }))).toMatchObject({
    status: 409,
    code: 'manual_credit_not_allowed',
  });
  const alone = await makeShort(world, 10, {}, tenant);
  expect(refusal(await approve(call, alone))).toMatchObject({
    status: 409,
    code: 'manual_credit_not_allowed',
  });
  await credit(db, tenant.org_id, tenant.wallet_id, 1n * TOKEN);
  const smaller = await makeShort(world, 10, { team_id: tenant.team_id }, tenant);
  await credit(db, tenant.org_id, (await show(call, smaller)).wallets[0].wallet_id, 2n * TOKEN);
  expect((await approve(call, smaller)).body.credited_amount).toBe(0.000_008);
  const platform = await platformKey(db);
  expect((await approve(call, alone, {}, platform)).status).toBe(200);
});

test("a lapsed approval's hold ends the ticket, and the credit stays", async () => {
  const { db, call, machine } = world;
  const short = await makeShort(world, 10);
  const { body } = await approve(call, short);
  for (const table of ['reservations', 'cost_tickets'])
    await many(
      db,
      `update ${table} set expires_at = clock_timestamp() - interval '1 second' where id = any(:ids)`,
      { ids: [body.reservation_id, short.ticket_id] },
    );
  expect(refusal(await redeem(call, machine, short))).toMatchObject({ status: 410 });
  await many(db, 'select sweep_holds(:org_id)', { org_id: short.org_id });
  expect((await show(call, short)).status).toBe('expired');
  expect(await balance(db, short.wallet_id)).toEqual({
    balance_nanos: 10n * TOKEN,
    reserved_nanos: 0n,
  });
});

test('tickets are for org:billing, and never across tenants', async () => {
  const { db, call } = world;
  const short = await makeShort(world, 10);
  const stranger = await makeTenant(db);
  const path = `/v1/cost-tickets/${short.ticket_id}`;
  expect((await call('get', path, { key: short.member_key })).status).toBe(403);
  expect((await call('get', '/v1/cost-tickets', { key: short.member_key })).status).toBe(403);
  expect((await call('get', path)).status).toBe(401);
  for (const send of [approve, deny])
    expect(refusal(await send(call, short, {}, stranger.billing_key))).toMatchObject({
      status: 404,
    });
  expect((await call('get', path, { key: stranger.billing_key })).status).toBe(404);
  const platform = await platformKey(db);
  const listed = await call('get', `/v1/cost-tickets?org_id=${short.org_id}&status=open`, {
    key: platform,
  });
  expect(listed.body).toMatchObject({
    total: 1,
    has_more: false,
    tickets: [{ id: short.ticket_id }],
  });
  const none = await call('get', `/v1/cost-tickets?status=denied`, { key: short.billing_key });
  expect(none.body).toEqual({ tickets: [], total: 0, has_more: false });
});

test.each([[-1], [0], ['1'], [1e-12], [9e15]])(
  'an approval of %p is refused, and no money moves',
  async (amount) => {
    const { db, call } = world;
    const short = await makeShort(world, 10);
    expect((await approve(call, short, { amount })).status).toBe(422);
    expect(await balance(db, short.wallet_id)).toMatchObject({ balance_nanos: 0n });
    expect((await show(call, short)).status).toBe('open');
  },
);

test('approving with an Idempotency-Key answers the repeat with the first answer', async () => {
  const { call } = world;
  const short = await makeShort(world, 10);
  const send = () =>
    call('post', `/v1/cost-tickets/${short.ticket_id}/approve`, {
      key: short.billing_key,
      body: {},
      headers: { 'idempotency-key': 'approve-once' },
    });
  const first = await send();
  expect(first.status).toBe(200);
  expect((await send()).text).toBe(first.text);
});

test('a person who may bill approves under their own name', async () => {
  const { db, call } = world;
  const short = await makeShort(world, 10);
  await many(db, `update memberships set role = 'billing_admin' where user_id = :member_id`, {
    member_id: short.member_id,
  });
  const key = await makeKey(db, short.org_id, {
    user_id: short.member_id,
    scopes: ['org:billing'],
  });
  expect((await approve(call, short, {}, key)).body.decided_by).toBe(short.member_id);
});

test('verdicts hold no database connection while Temporal records them', async () => {
  const { db, temporal } = world;
  const { connectionString } = db.client.config.connection;
  const held = holdUp(temporal.update);
  const small = openDatabase(connectionString, 2, 'two connections');
  const api = await serve({
    db: small,
    temporal: { ...temporal, update: held.update },
  });
  const shorts = [];
  for (let n = 0; n < 4; n += 1) shorts.push(await makeShort(world, 10));
  const verdicts = shorts.map((short, n) =>
    api.call('post', `/v1/cost-tickets/${short.ticket_id}/approve`, {
      key: short.billing_key,
      body: {},
      headers: { 'idempotency-key': `verdict ${n}` },
    }),
  );
  const [short] = shorts;
  await until(() => held.count() === verdicts.length);
  expect((await api.call('get', '/v1/wallets', { key: short?.billing_key })).status).toBe(200);
  expect(held.count()).toBe(verdicts.length);
  held.release();
  expect((await Promise.all(verdicts)).map(({ status }) => status)).toEqual([200, 200, 200, 200]);
  await api.close();
  await small.destroy();
});

/** Temporal on a bad day: updates wait until they are released. */
function holdUp(update: TicketWorld['temporal']['update']) {
  let count = 0;
  let release = () => {};
  const released = new Promise<void>((resolve) => {
    release = resolve;
  });
  const late: typeof update = async (...message) => {
    count += 1;
    await released;
    return update(...message) as never;
  };
  return { update: late, count: () => count, release };
}

test('an approval of what has no price any more says that the price is missing', async () => {
  const { db, call } = world;
  const model = `gone ${randomUUID()}`;
  await makePrice(db, { model });
  const short = await makeShort(world, 10, { model });
  await many(db, 'update model_prices set retired_at = now() where model = :model', { model });
  expect(refusal(await approve(call, short))).toMatchObject({
    status: 409,
    code: 'model_not_priced',
  });
});
