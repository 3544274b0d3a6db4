import { randomUUID } from 'node:crypto';
import { openBatches } from '../../../api/ledger/batches';
import { type Db, many } from '../../../domain/sql';
import { createLog } from '../../../runtime/log';
import { call as settled } from '../../domain/spend/world';
import {
  type CallApi,
  makePerson,
  makeTenant,
  type Person,
  startApi,
  type Tenant,
} from '../../support/api';
import { gatewayToken, makeKey, makeKeyId } from '../../support/keys';
import { credit, makePrice, reserveBody, settleBody, TOKEN } from '../../support/ledger';
import { bodyHash, redeem } from '../../support/tickets';

let db: Db;
let call: CallApi;
let close: () => Promise<void>;
let lanes: ReturnType<typeof openBatches>;
let tenant: Tenant;
let other: Tenant;
let leader: Person;
let key_id: string;
const request_id = randomUUID();

beforeAll(async () => {
  let stop: () => Promise<void>;
  ({ db, call, close: stop } = await startApi());
  lanes = openBatches(db, createLog('test', 'fatal'));
  close = async () => {
    await lanes.close();
    await stop();
  };
  await makePrice(db);
  [tenant, other] = [await makeTenant(db), await makeTenant(db)];
  await credit(db, tenant.org_id, tenant.wallet_id, 10n ** 12n);
  leader = await makePerson({ db, call }, tenant, 'member');
  await many(
    db,
    `insert into team_members (team_id, user_id, role) values (:team_id, :user_id, 'admin')`,
    {
      team_id: tenant.team_id,
      user_id: leader.user_id,
    },
  );
  const { org_id, member_id: user_id, team_id, agent_id } = tenant;
  key_id = await makeKeyId(db, org_id, { user_id, team_id });
  const more = {
    request_id,
    user_id,
    team_id,
    key_id,
    agent_id,
    family: 'chat',
    tags: ['nightly'],
  };
  await settled({ db, lanes }, org_id, 3, new Date('2026-10-05T12:00:00Z'), more);
  await many(
    db,
    `insert into events (id, created_at, org_id, type, request_id, trace_label, payload)
     values ('evt_test', now(), :org_id, 'request.completed', :request_id, 'my label', '{"attempts": 2}')`,
    { org_id, request_id },
  );
  for (let n = 0; n < 5; n += 1) await settled({ db, lanes }, org_id, 1, undefined);
  await lanes.reserve(reserveBody(org_id, 7, { user_id }));
});

afterAll(() => close());

const ledger = async (query: string, key = tenant.billing_key) => {
  const { status, body } = await call(
    'get',
    `/v1/wallets/${tenant.wallet_id}/transactions?${query}`,
    { key },
  );
  expect(status).toBe(200);
  return body;
};

test('an entry says whose call it is of: to whoever bills, who made it, and who leads the team', async () => {
  const ofCall = async (key?: string) => {
    const { transactions } = await ledger('per_page=200', key);
    return transactions.find(({ seq }: { seq: number }) => seq === 3);
  };
  const whole = {
    ...{ request_id, user_id: tenant.member_id, team_id: tenant.team_id, key_id },
    ...{ agent_id: tenant.agent_id, family: 'chat', tags: ['nightly'], exchange_rate: 1 },
    ...{ prompt_tokens: 3, completion_tokens: 0, type: 'settlement', cost_ticket_id: null },
  };
  for (const key of [tenant.billing_key, tenant.member_key, leader.key])
    expect(await ofCall(key)).toMatchObject(whole);
  const stranger = await makePerson({ db, call }, tenant, 'member');
  const hidden = await ofCall(stranger.key);
  expect(hidden).toMatchObject({
    seq: 3,
    actual_cost: 3e-6,
    user_id: null,
    key_id: null,
    tags: null,
  });
});

test.each([
  ['type=credit', [1]],
  ['type=reservation&model=gpt-4o-mini', [14, 12, 10, 8, 6, 4, 2]],
  ['model=unknown', []],
  ['from=2126-01-01', []],
  ['to=2020-01-01', []],
  ['request', [3, 2]],
  ['trace_label=my%20label', [3, 2]],
  ['user', [14, 3, 2]],
])('the ledger by %s', async (query, expected) => {
  const asked = query === 'request' ? `request_id=${request_id}` : query;
  const by_user = query === 'user' ? `user_id=${tenant.member_id}` : asked;
  const { transactions, has_more, next } = await ledger(by_user);
  const seqs = transactions.map(({ seq }: { seq: number }) => seq);
  expect([seqs, has_more, next]).toEqual([expected, false, null]);
});

test('parts follow each other by cursors, and one of another list is refused', async () => {
  const seen: number[] = [];
  let next: string | null = 'first';
  while (next !== null) {
    const part: { transactions: { seq: number }[]; next: string | null } = await ledger(
      `type=settlement&per_page=2&cursor=${next}`,
    );
    seen.push(...part.transactions.map(({ seq }) => seq));
    next = part.next;
  }
  expect(seen).toEqual([13, 11, 9, 7, 5, 3]);
  const { next: foreign } = await ledger('type=settlement&per_page=2');
  for (const query of [`cursor=${foreign}`, 'type=credit&page=2', 'type=debit', 'from=soon']) {
    const at = `/v1/wallets/${tenant.wallet_id}/transactions?${query}`;
    expect((await call('get', at, { key: tenant.billing_key })).status).toBe(422);
  }
});

const NANO = 10n ** 9n;

/** The sum of the amounts of price lines, exactly, in billionths of a nano. */
function attosIn(lines: readonly { amount: string }[]): bigint {
  return lines.reduce((sum, { amount }) => {
    const [, units = '', fraction = ''] = /^(\d+)(?:\.(\d{1,18}))?$/.exec(amount) ?? [];
    return sum + BigInt(units + fraction.padEnd(18, '0'));
  }, 0n);
}

test("one call's story: its lines add up to its cost, and its entries are there", async () => {
  const story = (key: string, id = request_id) => call('get', `/v1/requests/${id}`, { key });
  const { status, body } = await story(tenant.member_key);
  expect(status).toBe(200);
  expect(body).toMatchObject({
    ...{ request_id, status: 'settled', outcome: 'completed', tags: ['nightly'] },
    hold: { wallet_id: tenant.wallet_id, reserved_amount: 3e-6, exchange_rate: 1 },
    cost_ticket: null,
    usage: { prompt_tokens: 3 },
    settlement: { actual_cost: 3e-6, currency: 'USD' },
    events: [{ type: 'request.completed', payload: { attempts: 2 } }],
  });
  expect(attosIn(body.price_lines)).toBe(3n * TOKEN * NANO);
  expect(body.transactions.map(({ type }: { type: string }) => type)).toEqual([
    'reservation',
    'settlement',
  ]);
  const stranger = await makePerson({ db, call }, tenant, 'member');
  expect((await story(leader.key)).status).toBe(200);
  expect((await story(stranger.key)).status).toBe(404);
  expect((await story(other.owner_key)).status).toBe(404);
});

test("a call is found by its client's X-Request-Id: the newest, with the others beside it", async () => {
  const { org_id, member_id: user_id } = tenant;
  const label = 'label of two';
  const named = async (more: object = {}) => {
    const request_id = randomUUID();
    await settled({ db, lanes }, org_id, 1, undefined, { request_id, ...more });
    await many(
      db,
      `insert into events (id, created_at, org_id, type, request_id, trace_label, payload)
       values (new_id('evt'), now(), :org_id, 'request.completed', :request_id, :label, '{}')`,
      { org_id, request_id, label },
    );
    return request_id;
  };
  const own = await named({ user_id });
  const foreign = await named();
  // A type that members may see gives away no call of another.
  await many(
    db,
    `insert into events (id, created_at, org_id, type, request_id, trace_label, payload)
     values (new_id('evt'), now(), :org_id, 'cost_ticket.resolved', :foreign, :label, '{}')`,
    { org_id, foreign, label },
  );
  const at = `/v1/requests/${encodeURIComponent(label)}`;
  const shown = async (key: string) => (await call('get', at, { key })).body;
  expect(await shown(tenant.billing_key)).toMatchObject({
    request_id: foreign,
    status: 'settled',
    other_request_ids: [own],
  });
  // Who sees one of both is told of no other.
  expect(await shown(tenant.member_key)).toMatchObject({ request_id: own, other_request_ids: [] });
  const { body } = await call('get', `/v1/requests/${own}`, { key: tenant.billing_key });
  expect(body).toMatchObject({ request_id: own, other_request_ids: [] });
  const stranger = await makePerson({ db, call }, tenant, 'member');
  for (const key of [stranger.key, other.owner_key])
    expect((await call('get', at, { key })).status).toBe(404);
});

test('a wallet is shown alone, with its open holds', async () => {
  const at = `/v1/wallets/${tenant.wallet_id}`;
  expect((await call('get', at, { key: tenant.member_key })).body.owner_type).toBe('organization');
  expect((await call('get', at, { key: other.owner_key })).status).toBe(404);
  const { body } = await call('get', `${at}/reservations?status=open`, { key: tenant.billing_key });
  expect(body).toMatchObject({
    reservations: [{ user_id: tenant.member_id, reserved_amount: 7e-6, status: 'open' }],
    total: 1,
  });
});

test('the story of a call that its ticket paid for: lines that add up exactly, ticket and entries', async () => {
  const short = await makeTenant(db);
  const { org_id, wallet_id, owner_key: key } = short;
  const machine = await gatewayToken(db);
  const body = { ...reserveBody(org_id, 7), request_body_hash: bodyHash() };
  const path = '/v1/gateway/wallets/reserve';
  const refused = await call('post', path, { key: machine, body });
  expect(refused.status).toBe(402);
  const ticket_id = refused.body.cost_ticket.id;
  await credit(db, org_id, wallet_id, 100n * TOKEN);
  const held = await redeem(call, machine, {
    ...{ org_id, ticket_id, request_id: body.request_id, body },
  });
  expect(held.status).toBe(200);
  await lanes.settle(settleBody(org_id, held.body.reservation_id, 5));

  const story = (await call('get', `/v1/requests/${body.request_id}`, { key })).body;
  expect(story).toMatchObject({
    ...{ status: 'settled', outcome: 'completed', usage: { prompt_tokens: 5 } },
    cost_ticket: { id: ticket_id, status: 'redeemed' },
    hold: { reservation_id: held.body.reservation_id, reserved_amount: 7e-6 },
    settlement: { actual_cost: 5e-6 },
  });
  expect(attosIn(story.price_lines)).toBe(5n * TOKEN * NANO);
  const amounts = story.transactions.map((one: { amount: number }) => one.amount);
  expect(amounts).toEqual([-7e-6, 2e-6]);
});

test('a call that was refused before it held anything has its events, for those who may read them', async () => {
  const { org_id, owner_key, billing_key, member_key } = tenant;
  const id = randomUUID();
  for (const [n, type] of ['rate_limit.exceeded', 'request.refused'].entries())
    await many(
      db,
      `insert into events (id, created_at, org_id, type, request_id, payload)
       values (:event_id, '2026-11-30T12:00:00Z', :org_id, :type, :id, '{"model": "m"}')`,
      { event_id: `evt_${n}_${id}`, org_id, type, id },
    );
  const story = (key: string, of = id) => call('get', `/v1/requests/${of}`, { key });
  const reader = await makeKey(db, org_id, { scopes: ['events:read'] });
  for (const key of [owner_key, reader]) {
    const { status, body } = await story(key);
    expect(status).toBe(200);
    expect(body).toMatchObject({
      ...{ request_id: id, created_at: '2026-11-30T12:00:00.000Z', status: null, hold: null },
      ...{ cost_ticket: null, settlement: null, price_lines: [], transactions: [] },
      events: [{ type: 'rate_limit.exceeded' }, { type: 'request.refused' }],
    });
  }
  for (const key of [billing_key, member_key, other.owner_key])
    expect((await story(key)).status).toBe(404);
  // Money's own event is for who bills, too.
  await many(
    db,
    `insert into events (id, created_at, org_id, type, request_id, payload)
     values (:event_id, '2026-11-30T12:00:00Z', :org_id, 'cost_ticket.exceeded', :id, '{}')`,
    { event_id: `evt_2_${id}`, org_id, id },
  );
  expect((await story(billing_key)).body.events).toMatchObject([{ type: 'cost_ticket.exceeded' }]);
  // A call with a hold is not told as one without.
  expect((await story(reader, request_id)).status).toBe(404);
});

test('of a label that stands on very many events, the newest are looked at', async () => {
  const labelled = (first: number, last: number, of: string | null) =>
    many(
      db,
      `insert into events (id, created_at, org_id, type, request_id, trace_label, payload)
       select 'evt_l' || n, now(), :org_id, 'request.completed', :of::text, 'crowded', '{}' from generate_series(:first::int, :last::int) as n`,
      { org_id: tenant.org_id, of, first, last },
    );
  await labelled(10_001, 10_001, request_id);
  await labelled(10_002, 20_000, null);
  const found = async () => (await ledger('trace_label=crowded')).transactions.length;
  expect(await found()).toBe(2);
  await labelled(20_001, 20_001, null);
  expect(await found()).toBe(0);
});
