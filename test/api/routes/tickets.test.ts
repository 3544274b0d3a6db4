import { many } from '../../../domain/sql';
import { makeTenant, refusal } from '../../support/api';
import { makeKeyId } from '../../support/keys';
import { balance, eventsOf, makePrice, TOKEN } from '../../support/ledger';
import {
  approve,
  bodyHash,
  makeShort,
  openTicketWorld,
  redeem,
  show,
  type TicketWorld,
  topUp,
} from '../../support/tickets';

let world: TicketWorld;

beforeAll(async () => {
  world = await openTicketWorld();
});

afterAll(() => world.close());

async function age(ticket_id: string): Promise<void> {
  await many(
    world.db,
    `update cost_tickets set expires_at = clock_timestamp() - interval '1 second' where id = :ticket_id`,
    { ticket_id },
  );
}

test('a ticket tells the exact shortfall of each wallet, and paying it in unblocks exactly', async () => {
  const { db, call, machine } = world;
  const tenant = await makeTenant(db);
  await topUp(call, tenant, 400);
  const owners = { team_id: tenant.team_id, user_id: tenant.member_id };
  const short = await makeShort(world, 1_000, owners, tenant);
  const ticket = await show(call, short);
  expect(ticket).toMatchObject({
    status: 'open',
    estimated_cost: 0.001,
    balance: 0.0004,
    shortfall: 0.0006,
    currency: 'USD',
    wallet_owner_type: 'organization',
    wallets: [
      { owner_type: 'user', balance: 0, shortfall: 0.001 },
      { owner_type: 'team', balance: 0, shortfall: 0.001 },
      { owner_type: 'organization', balance: 0.0004, shortfall: 0.0006 },
    ],
  });
  const seen = await call('get', `/v1/wallets/balance?team_id=${tenant.team_id}`, {
    key: tenant.member_key,
  });
  expect(seen.body).toMatchObject({ user_balance: 0, team_balance: 0, org_balance: 0.0004 });
  await topUp(call, tenant, 599);
  expect((await redeem(call, machine, short)).status).toBe(402);
  await topUp(call, tenant, 1);
  expect((await redeem(call, machine, short)).body).toMatchObject({
    wallet_owner_type: 'organization',
    reserved_amount: 0.001,
    balance_after: 0,
  });
});

test('the shortfall counts open holds: balance 10, held 8, asked 5, shortfall 3', async () => {
  const { db, call, machine } = world;
  const tenant = await makeTenant(db);
  await topUp(call, tenant, 10);
  const held = { ...(await makeShort(world, 11, {}, tenant)).body, estimated_prompt_tokens: 8 };
  await call('post', '/v1/gateway/wallets/reserve', {
    key: machine,
    body: { ...held, request_id: 'holds-8' },
  });
  const short = await makeShort(world, 5, {}, tenant);
  expect((await show(call, short)).shortfall).toBe(0.000_003);
});

test('the same caller with the same body finds its open ticket; another key, body or model gets its own', async () => {
  const { db } = world;
  const tenant = await makeTenant(db);
  const [key_id, other_id] = [
    await makeKeyId(db, tenant.org_id),
    await makeKeyId(db, tenant.org_id),
  ];
  await makePrice(db, { model: 'another' });
  const request_body_hash = bodyHash();
  const one = await makeShort(world, 10, { key_id, request_body_hash }, tenant);
  const again = await makeShort(world, 10, { key_id, request_body_hash }, tenant);
  expect(again.ticket_id).toBe(one.ticket_id);
  const others = [
    await makeShort(world, 10, { key_id: other_id, request_body_hash }, tenant),
    await makeShort(world, 10, { key_id }, tenant),
    await makeShort(world, 10, { key_id, request_body_hash, model: 'another' }, tenant),
    await makeShort(world, 10, { key_id, request_body_hash, session_id: 's' }, tenant),
  ];
  const ids = others.map(({ ticket_id }) => ticket_id);
  expect(new Set([one.ticket_id, ...ids]).size).toBe(5);
  expect(await eventsOf(db, tenant.org_id, 'cost_ticket.created')).toHaveLength(5);
});

test('an expired ticket is 410 to its call and 409 to an approver, by the clock alone', async () => {
  const { db, call, machine } = world;
  const short = await makeShort(world, 10);
  await age(short.ticket_id);
  expect((await show(call, short)).status).toBe('expired');
  expect(refusal(await approve(call, short))).toMatchObject({
    status: 409,
    code: 'ticket_expired',
  });
  await topUp(call, short, 10);
  expect(refusal(await redeem(call, machine, short))).toMatchObject({
    status: 410,
    code: 'ticket_expired',
  });
  expect(await eventsOf(db, short.org_id, 'cost_ticket.resolved')).toHaveLength(1);
  const next = await call('post', '/v1/gateway/wallets/reserve', {
    key: machine,
    body: short.body,
  });
  expect(next.status).toBe(200);
});

test('another key, user, body or organization cannot redeem a ticket', async () => {
  const { db, call, machine } = world;
  const tenant = await makeTenant(db);
  const key_id = await makeKeyId(db, tenant.org_id);
  const short = await makeShort(world, 10, { key_id }, tenant);
  await topUp(call, tenant, 100);
  const other = { key_id: await makeKeyId(db, tenant.org_id) };
  for (const more of [other, { key_id: null }, { request_body_hash: bodyHash() }])
    expect(refusal(await redeem(call, machine, short, more))).toMatchObject({
      status: 409,
      code: 'ticket_owner_differs',
    });
  const stranger = await makeTenant(db);
  expect(refusal(await redeem(call, machine, short, { org_id: stranger.org_id }))).toMatchObject({
    status: 404,
    code: 'not_found',
  });
  const ofUser = await makeShort(world, 200, { user_id: tenant.member_id }, tenant);
  expect(refusal(await redeem(call, machine, ofUser, { user_id: null }))).toMatchObject({
    code: 'ticket_owner_differs',
  });
});

test('a redemption is judged by the price, key, budget, team and cap of its own moment', async () => {
  const { db, call, machine } = world;
  const tenant = await makeTenant(db);
  const key_id = await makeKeyId(db, tenant.org_id, { max_budget_nanos: 50n * TOKEN });
  const id = 'price_moves';
  await makePrice(db, { id, model: 'moving' });
  const owners = { key_id, team_id: tenant.team_id, agent_id: tenant.agent_id };
  const dear = await makeShort(world, 10, { ...owners, model: 'moving' }, tenant);
  const byTeam = await makeShort(world, 10, owners, tenant);
  const byCap = await makeShort(world, 11, owners, tenant);
  const byBudget = await makeShort(world, 12, owners, tenant);
  const byKey = await makeShort(world, 13, owners, tenant);
  await makePrice(db, { id, model: 'moving', input_per_1m: 3, effective_from: new Date() });
  await topUp(call, tenant, 29);
  const answer = await redeem(call, machine, dear);
  expect(answer.body.cost_ticket).toMatchObject({ estimated_cost: 0.000_03, shortfall: 0.000_001 });
  await topUp(call, tenant, 1);
  expect((await redeem(call, machine, dear)).status).toBe(200);

  await topUp(call, tenant, 1_000);
  await many(db, 'update tokens set max_budget_nanos = 41000 where id = :key_id', { key_id });
  expect(refusal(await redeem(call, machine, byBudget))).toMatchObject({
    status: 403,
    code: 'key_budget_exceeded',
  });
  expect(refusal(await approve(call, byBudget))).toMatchObject({
    status: 409,
    code: 'key_budget_exceeded',
  });
  await call('post', `/v1/agents/${tenant.agent_id}/usage-constraints`, {
    key: tenant.owner_key,
    body: {
      ...{ constraint_type: 'responses', provider: 'openai', model_pattern: '*', max_value: 1 },
      ...{ interval: 'day', enforcement_mode: 'reject' },
    },
  });
  expect(refusal(await redeem(call, machine, byCap))).toMatchObject({
    status: 429,
    code: 'usage_constraint_exceeded',
  });
  expect(refusal(await approve(call, byCap))).toMatchObject({
    status: 409,
    code: 'usage_constraint_exceeded',
  });
  await call('delete', `/v1/organizations/${tenant.org_id}/teams/${tenant.team_id}`, {
    key: tenant.owner_key,
  });
  expect(refusal(await redeem(call, machine, byTeam))).toMatchObject({
    status: 422,
    param: 'team_id',
  });
  expect((await approve(call, byTeam)).status).toBe(409);
  await many(db, 'update tokens set revoked_at = now() where id = :key_id', { key_id });
  expect((await redeem(call, machine, byKey)).status).toBe(422);
  expect(await balance(db, tenant.wallet_id)).toMatchObject({ balance_nanos: 1_000n * TOKEN });
});

test('a revoked key redeems nothing, also an approved ticket', async () => {
  const { db, call, machine } = world;
  const tenant = await makeTenant(db);
  const key_id = await makeKeyId(db, tenant.org_id);
  const [open, approved] = [
    await makeShort(world, 10, { key_id }, tenant),
    await makeShort(world, 11, { key_id }, tenant),
  ];
  await approve(call, approved);
  await topUp(call, tenant, 100);
  await many(db, 'update tokens set revoked_at = now() where id = :key_id', { key_id });
  for (const short of [open, approved])
    expect(refusal(await redeem(call, machine, short))).toMatchObject({ status: 401 });
  expect((await show(call, approved)).status).toBe('approved');
});

test('a redeemed hold that is canceled unused opens its ticket again in the same step', async () => {
  const { db, call, machine } = world;
  const short = await makeShort(world, 10);
  await topUp(call, short, 10);
  await redeem(call, machine, short);
  const { org_id, request_id } = short;
  const cancel = { org_id, request_id, outcome: 'canceled' };
  await call('post', '/v1/gateway/wallets/settle', { key: machine, body: cancel });
  expect(await show(call, short)).toMatchObject({ status: 'open', request_id: null });
  expect(await balance(db, short.wallet_id)).toEqual({
    balance_nanos: 10n * TOKEN,
    reserved_nanos: 0n,
  });
  expect((await redeem(call, machine, { ...short, request_id: 'second' })).status).toBe(200);
});

test('a redeem whose answer was lost gives the same reservation to the same call', async () => {
  const { call, other, machine } = world;
  const short = await makeShort(world, 10);
  await topUp(call, short, 20);
  const answers = await Promise.all([
    redeem(call, machine, short, { wait_ms: 1_000 }),
    redeem(other, machine, short),
    redeem(call, machine, short),
  ]);
  const ids = answers.map(({ body }) => body.reservation_id);
  expect(new Set(ids).size).toBe(1);
  expect(answers.map(({ status }) => status)).toEqual([200, 200, 200]);
});

test.each([
  ['wait_ms', { wait_ms: 30_001 }],
  ['wait_ms', { wait_ms: -1 }],
  ['wait_ms', { wait_ms: 1.5 }],
  ['request_body_hash', { request_body_hash: 'md5:1' }],
  ['ticket_id', { ticket_id: undefined }],
  ['request_id', { request_id: 7 }],
])('a redeem whose %s is wrong is refused by name', async (param, more) => {
  const short = await makeShort(world, 10);
  expect(refusal(await redeem(world.call, world.machine, short, more))).toMatchObject({
    status: 422,
    param,
  });
});

test('a ticket that nobody can look up now is no matter of rights: 503 for all, and 403 only if there is none', async () => {
  const { db, call } = world;
  const tenant = await makeTenant(db);
  const { ticket_id } = await makeShort(world, 100, { user_id: tenant.member_id }, tenant);
  const path = `/v1/cost-tickets/${ticket_id}`;
  const asked = { key: tenant.member_key };
  expect((await call('get', path, asked)).status).toBe(200);
  expect(refusal(await call('get', '/v1/cost-tickets/ticket_of_nobody', asked))).toMatchObject({
    ...{ status: 403, code: 'permission_denied' },
  });
  const answer = await db.transaction(async (trx) => {
    await many(trx, 'lock table cost_tickets in access exclusive mode');
    return call('get', path, asked);
  });
  expect(refusal(answer)).toMatchObject({ status: 503, code: 'unavailable' });
  expect(Number(answer.headers['retry-after'])).toBeGreaterThan(0);
});
