import { randomUUID } from 'node:crypto';
import { many } from '../../../domain/sql';
import { chat, gatewayKey, post } from '../../support/gateway';
import { makeKey } from '../../support/keys';
import { until } from '../../support/until';
import { openWire } from '../../support/wire';
import {
  approvers,
  ask,
  CHAT,
  decide,
  gateway,
  makePoor,
  type Poor,
  ticketsOf,
  topUp,
  untilWaiting,
  world,
} from './poor';

// The control plane's own events say whose call caused them, as those of the gateways do.

interface Told {
  type: string;
  request_id: string | null;
  trace_label: string | null;
  payload: Record<string, unknown>;
}

/** The events that who may bill finds by the client's label, the oldest first. */
async function eventsUnder(label: string, { billing_key }: Poor): Promise<Told[]> {
  const answer = await approvers.call('get', `/v1/events?request_id=${label}`, {
    key: billing_key,
  });
  expect(answer.status).toBe(200);
  return answer.body.events.toReversed();
}

async function untilTold(label: string, poor: Poor, count: number): Promise<Told[]> {
  await until(async () => (await eventsUnder(label, poor)).length === count);
  return eventsUnder(label, poor);
}

const callerOf = ({ key_id }: Poor) => ({
  identity_proof_method: 'gateway_key',
  identity_context: { user_id: null, key_id, team_id: null },
});

test("the client's label finds the events of its ticket, with proof and caller; approvers see who asks", async () => {
  const poor = await makePoor();
  const label = randomUUID();
  const short = await ask(poor, 'Hello', { 'x-request-id': label, 'x-svc-hold-ms': '0' });
  expect(short.status).toBe(402);
  const [ticket] = await ticketsOf(poor);
  expect(ticket).toMatchObject({
    ...callerOf(poor),
    trace_label: label,
    asked_by: expect.stringMatching(/^key .+ of Org /),
  });
  expect((await decide(poor, 'deny', { reason: 'too much' })).status).toBe(200);
  const told = await untilTold(label, poor, 2);
  expect(told).toMatchObject([
    { type: 'cost_ticket.created', trace_label: label, payload: callerOf(poor) },
    { type: 'cost_ticket.resolved', trace_label: label, payload: callerOf(poor) },
  ]);
  expect(told.some(({ payload }) => 'trace_label' in payload)).toBe(false);
});

test('of calls that share a ticket, each finds its own redeem and the ticket that it waits on next', async () => {
  const poor = await makePoor();
  const labels = [randomUUID(), randomUUID()] as const;
  const calls = [];
  for (const [at, label] of labels.entries()) {
    calls.push(ask(poor, 'Hello', { 'x-request-id': label }));
    await untilWaiting(poor, at + 1);
  }
  await topUp(poor);
  for (const { status } of await Promise.all(calls)) expect(status).toBe(200);
  const payload = callerOf(poor);
  const [first, second] = labels;
  expect(await untilTold(first, poor, 2)).toMatchObject([
    { type: 'cost_ticket.created', payload },
    { type: 'cost_ticket.resolved', payload: { ...payload, status: 'redeemed' } },
  ]);
  expect(await untilTold(second, poor, 2)).toMatchObject([
    { type: 'cost_ticket.created', payload },
    { type: 'cost_ticket.resolved', payload: { ...payload, status: 'redeemed' } },
  ]);
});

test('a ticket that a call gives back is created again under its label', async () => {
  const poor = await makePoor();
  const label = randomUUID();
  const short = await ask(poor, 'Hello', { 'x-request-id': 'first', 'x-svc-hold-ms': '0' });
  const ticket_id = JSON.parse(short.text).cost_ticket.id;
  await topUp(poor);
  // The machine routes by themselves: redeemed, then canceled.
  const { db } = world.api;
  const [kept] = await many<{ reserve: Record<string, unknown> }>(
    db,
    'select reserve from cost_tickets where id = :ticket_id',
    { ticket_id },
  );
  const machine = (path: string, body: object) =>
    world.api.call('post', `/v1/gateway/wallets/${path}`, {
      key: world.control_plane_token,
      body: {
        org_id: poor.org_id,
        identity_proof_method: 'gateway_key',
        trace_label: label,
        ...body,
      },
    });
  const { request_body_hash, family } = kept?.reserve ?? {};
  const { key_id } = poor;
  const request_id = randomUUID();
  const redeem = { ticket_id, request_id, request_body_hash, family, key_id };
  expect((await machine('redeem-ticket', redeem)).status).toBe(200);
  expect((await machine('settle', { request_id, outcome: 'canceled' })).status).toBe(200);
  expect(await untilTold(label, poor, 2)).toMatchObject([
    { type: 'cost_ticket.resolved', request_id, payload: callerOf(poor) },
    {
      type: 'cost_ticket.created',
      request_id,
      payload: { ...callerOf(poor), cost_ticket_id: ticket_id, reopened: true },
    },
  ]);
});

test('the settlement that takes a wallet below its threshold is named in the event', async () => {
  const poor = await makePoor();
  await topUp(poor, 1_000_000_000n);
  await many(
    world.api.db,
    'update wallets set low_balance_threshold_nanos = 999999999 where id = :id',
    { id: poor.org_wallet },
  );
  const label = randomUUID();
  expect((await ask(poor, 'Hello', { 'x-request-id': label })).status).toBe(200);
  expect(await untilTold(label, poor, 1)).toMatchObject([
    {
      type: 'wallet.balance_low',
      request_id: expect.stringMatching(/^req_/),
      payload: { ...callerOf(poor), reservation_id: expect.stringMatching(/^res_/) },
    },
  ]);
});

test('a hold that lapses names its caller, and the label that another event of its call has', async () => {
  const poor = await makePoor();
  await topUp(poor);
  const limits = { rate_limits: { per_key: { rpm: 100 } } };
  const models = await openWire(world.models_url);
  const target = { base_url: `${models.url}/v1` };
  const limited = await world.openGateway({ settings: limits, target });
  const label = randomUUID();
  // It goes on while its gateway is thought to be dead.
  models.keepAfter('');
  const slow = post(limited.url + CHAT, poor.key, chat('Hello'), { 'x-request-id': label });
  const { db } = world.api;
  const held = async () =>
    many(
      db,
      `select r.id from reservations r join events e on e.request_id = r.request_id where r.org_id = :org_id and r.status = 'open'`,
      { org_id: poor.org_id },
    );
  await until(async () => (await held()).length === 1);
  await many(
    db,
    `update reservations set expires_at = clock_timestamp() where org_id = :org_id and status = 'open'`,
    { org_id: poor.org_id },
  );
  await many(db, 'select expire_holds(:org_id)', { org_id: poor.org_id });
  expect(await untilTold(label, poor, 1)).toMatchObject([
    { type: 'reservation.expired', trace_label: label, payload: callerOf(poor) },
  ]);
  models.release();
  expect((await slow).status).toBe(200);
  await limited.close();
  await models.close();
});

test('without a proof there is a proof method and no identity', async () => {
  const poor = await makePoor();
  const identity = { mode: 'header_soft', org_id: poor.org_id };
  const soft = await world.openGateway({ settings: { identity } });
  const label = randomUUID();
  const answer = await post(soft.url + CHAT, 'anybody', chat('Hello'), { 'x-request-id': label });
  expect(answer.status).toBe(402);
  const [told] = await untilTold(label, poor, 1);
  expect(told?.payload).toMatchObject({ identity_proof_method: 'header_soft' });
  expect(told?.payload).not.toHaveProperty('identity_context');
  expect((await ticketsOf(poor))[0]).toMatchObject({ identity_context: null });
});

test('a gateway of the version before, which says neither, opens tickets that name the caller', async () => {
  const poor = await makePoor();
  const { key_id, org_id } = poor;
  const body = {
    org_id,
    key_id,
    provider: 'openai',
    model: 'gpt-4o-mini',
    estimated_prompt_tokens: 10,
    request_body_hash: `sha256:${'b'.repeat(64)}`,
    request_id: randomUUID(),
  };
  const reserve = (more: object = {}) =>
    world.api.call('post', '/v1/gateway/wallets/reserve', {
      key: world.control_plane_token,
      body: { ...body, ...more },
    });
  expect((await reserve()).status).toBe(402);
  expect(await untilTold(body.request_id, poor, 1)).toMatchObject([
    { trace_label: null, payload: { identity_context: callerOf(poor).identity_context } },
  ]);
  // A repeat is the same item under whichever label it comes.
  await topUp(poor);
  const held = await reserve({ trace_label: 'one' });
  const again = await reserve({ trace_label: 'other', identity_proof_method: 'gateway_key' });
  expect([held.status, again.status]).toEqual([200, 200]);
  expect(again.body.reservation_id).toBe(held.body.reservation_id);
  await world.api.call('post', '/v1/gateway/wallets/settle', {
    key: world.control_plane_token,
    body: { org_id, request_id: body.request_id, outcome: 'canceled' },
  });
});

test('the one event of too many open tickets names the first caller', async () => {
  const poor = await makePoor();
  await ask(poor, 'first', { 'x-svc-hold-ms': '0' });
  await many(
    world.api.db,
    `insert into cost_tickets (id, org_id, key_id, provider, model, request_body_hash, estimated_cost_nanos, currency, reserve, expires_at, created_at)
     select new_id('ticket'), t.org_id, t.key_id, t.provider, t.model, 'x' || n, t.estimated_cost_nanos, t.currency, t.reserve, t.expires_at, t.created_at
     from cost_tickets t cross join generate_series(1, 49) as n where t.org_id = :org_id`,
    { org_id: poor.org_id },
  );
  const label = randomUUID();
  const headers = { 'x-request-id': label, 'x-svc-hold-ms': '0' };
  expect((await ask(poor, 'second', headers)).status).toBe(429);
  expect(await untilTold(label, poor, 1)).toMatchObject([
    { type: 'cost_ticket.exceeded', payload: callerOf(poor) },
  ]);
});

test('keys and people have names in who asked', async () => {
  const poor = await makePoor();
  const { user_id, team_id, org_id } = poor;
  const key = await gatewayKey(world.api, org_id, { user_id, team_id });
  const answer = await post(gateway.url + CHAT, key, chat('Hello'), { 'x-svc-hold-ms': '0' });
  expect(answer.status).toBe(402);
  const billing_key = await makeKey(world.api.db, org_id, { scopes: ['org:billing'] });
  const [ticket] = await ticketsOf({ ...poor, billing_key });
  expect(ticket).toMatchObject({
    asked_by: expect.stringMatching(/^User \S+ of team Team \S+ of Org \S+$/),
    identity_context: { user_id, team_id },
  });
});
