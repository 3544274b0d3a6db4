import type { Db } from '../../../domain/sql';
import {
  type Answer,
  type CallApi,
  makeTenant,
  refusal,
  startApi,
  type Tenant,
} from '../../support/api';
import { gatewayToken, makeKey, platformKey } from '../../support/keys';
import { credit, makePrice, reserveBody } from '../../support/ledger';
import { until } from '../../support/until';

let db: Db;
let call: CallApi;
let close: () => Promise<void>;
let gateway: string;
let admin: string;

beforeAll(async () => {
  ({ db, call, close } = await startApi());
  gateway = await gatewayToken(db);
  admin = await platformKey(db);
  await makePrice(db, { input_per_1m: 0.15, output_per_1m: 0.6 });
});

afterAll(() => close());

const most = { prompt_tokens: 9007199254740991, completion_tokens: 9007199254740991 };

/** Settles a hold of 0.00000075 at usage beyond all sense; the excess that it leaves. */
async function makeExcess(): Promise<{ tenant: Tenant; answer: Answer; id: string }> {
  const tenant = await makeTenant(db);
  const { org_id } = tenant;
  await credit(db, org_id, tenant.wallet_id, 5_000_000_000n);
  const hold = await call('post', '/v1/gateway/wallets/reserve', {
    key: gateway,
    body: reserveBody(org_id, 5),
  });
  expect(hold.body.reserved_amount).toBe(0.00000075);
  const { reservation_id } = hold.body;
  const answer = await call('post', '/v1/gateway/wallets/settle', {
    key: gateway,
    body: { org_id, reservation_id, outcome: 'completed', usage: most },
  });
  const { body } = await list('?status=open&per_page=1');
  return { tenant, answer, id: body.settlement_excess[0].id };
}

const list = (query = '', key = admin) =>
  call('get', `/v1/admin/settlement-excess${query}`, { key });
const decide = (id: string, body: object, key = admin) =>
  call('post', `/v1/admin/settlement-excess/${id}`, { key, body });

test('an absurd settle is answered 200 at the bound, and a platform admin charges the rest once', async () => {
  const { tenant, answer, id } = await makeExcess();
  expect(answer).toMatchObject({ status: 200, body: { status: 'settled', actual_cost: 10 } });
  const charged = await decide(id, { action: 'charge', note: 'seen' });
  expect(charged.status).toBe(200);
  expect(charged.body).toEqual({
    id,
    org_id: tenant.org_id,
    reservation_id: answer.body.reservation_id,
    status: 'charged',
    wallet_id: tenant.wallet_id,
    currency: 'USD',
    charged: 10,
    excess: 6755399431.055743,
    created_at: expect.any(String),
    decided_at: expect.any(String),
    decided_by: expect.any(String),
    note: 'seen',
    transaction_id: expect.stringMatching(/^txn_/),
  });
  expect(refusal(await decide(id, { action: 'charge' }))).toMatchObject({
    status: 409,
    code: 'already_decided',
  });
  const { body } = await call('get', `/v1/admin/audit`, { key: admin });
  expect(body).toEqual({ clean: true, broken: [] });
  const entries = await call('get', `/v1/admin/wallets/${tenant.wallet_id}/transactions`, {
    key: admin,
  });
  expect(entries.body.transactions[0]).toMatchObject({
    type: 'settlement',
    phase: 'excess',
    reservation_id: answer.body.reservation_id,
    description: 'seen',
    actor: charged.body.decided_by,
  });
  // The call that settled is nobody's hand.
  expect(entries.body.transactions[1]).toMatchObject({ phase: 'close', actor: null });
});

test('an excess may be dropped; it is told in the events, and listed by its state', async () => {
  const { tenant, id } = await makeExcess();
  expect((await decide(id, { action: 'drop' })).body).toMatchObject({ id, status: 'dropped' });
  expect(refusal(await decide(id, { action: 'charge' })).status).toBe(409);
  const ids = async (query: string) =>
    (await list(query)).body.settlement_excess.map((row: { id: string }) => row.id);
  expect(await ids('?status=dropped')).toEqual([id]);
  expect(await ids('?status=open')).toEqual([]);
  expect(await ids('')).toContain(id);
  const path = `/v1/events?org_id=${tenant.org_id}&type=settlement.bounded&limit=1`;
  // An event is shown once no older transaction of the server is open.
  await until(async () => (await call('get', path, { key: admin })).body.events.length > 0);
  const events = await call('get', path, { key: admin });
  expect(events.body.events[0].payload).toMatchObject({
    settlement_excess_id: id,
    charged: 10,
  });
});

test('a decision that is repeated under its Idempotency-Key gets the first answer', async () => {
  const { id } = await makeExcess();
  const again = () =>
    call('post', `/v1/admin/settlement-excess/${id}`, {
      key: admin,
      body: { action: 'charge' },
      headers: { 'idempotency-key': id },
    });
  const first = await again();
  expect(first.status).toBe(200);
  expect((await again()).body).toEqual(first.body);
});

test('only a platform admin sees and decides them, with a word that is known', async () => {
  const { tenant, id } = await makeExcess();
  const own = await makeKey(db, tenant.org_id, { token_type: 'access', scopes: ['org:billing'] });
  for (const answer of [await list('', own), await decide(id, { action: 'drop' }, own)])
    expect(answer.status).toBe(403);
  expect((await call('get', '/v1/admin/settlement-excess')).status).toBe(401);
  for (const action of ['forget', '', null, 1])
    expect(refusal(await decide(id, { action }))).toMatchObject({ status: 422, param: 'action' });
  expect(refusal(await decide(id, {}))).toMatchObject({ status: 422, param: 'action' });
  expect(refusal(await decide('excess_nobody', { action: 'drop' })).status).toBe(404);
  expect(refusal(await list('?status=pending'))).toMatchObject({ status: 422, param: 'status' });
});
