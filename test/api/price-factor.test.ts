import { makeTenant, refusal } from '../support/api';
import { platformKey } from '../support/keys';
import { makeOrg, makeOwnKey, makePrice, reserveBody } from '../support/ledger';
import {
  approve,
  makeShort,
  openTicketWorld,
  redeem,
  show,
  type TicketWorld,
  topUp,
} from '../support/tickets';
import { until } from '../support/until';

let world: TicketWorld;
let platform: string;

beforeAll(async () => {
  world = await openTicketWorld();
  platform = await platformKey(world.db);
});

afterAll(() => world.close());

const at = (org_id: string) => `/v1/admin/organizations/${org_id}/wallet-settings`;
const put = (org_id: string, body: object | string, key = platform) =>
  world.call('put', at(org_id), { key, body });
const setFactor = async (org_id: string, price_factor: number) => {
  const { status, body } = await put(org_id, { price_factor });
  expect([status, body.price_factor]).toEqual([200, price_factor]);
};

test('the platform alone says what an organization pays, and its billing people read it', async () => {
  const { db, call } = world;
  const [tenant, other] = [await makeTenant(db), await makeTenant(db)];
  await setFactor(tenant.org_id, 0.76);
  for (const key of [tenant.billing_key, tenant.owner_key, tenant.member_key])
    expect((await put(tenant.org_id, { price_factor: 0.5 }, key)).status).toBe(403);
  const read = (key: string) =>
    call('get', `/v1/organizations/${tenant.org_id}/wallet-settings`, { key });
  expect((await read(tenant.billing_key)).body.price_factor).toBe(0.76);
  expect((await read(tenant.member_key)).status).toBe(403);
  expect((await read(other.billing_key)).status).toBe(404);
  const mine = await call('get', `/v1/organizations/${other.org_id}/wallet-settings`, {
    key: other.billing_key,
  });
  expect(mine.body.price_factor).toBe(1);
});

test.each([
  '-1',
  '-0.000001',
  '10.000001',
  '11',
  '1e3',
  '1e-7',
  '0.1234567',
  '"abc"',
  '"0.76"',
  '""',
  'null',
  'true',
  '[1]',
  '{}',
])('the factor %s is refused by name and changes nothing', async (value) => {
  const { db, call } = world;
  const { org_id } = await makeTenant(db);
  await setFactor(org_id, 1.2);
  const refused = await put(org_id, `{"price_factor": ${value}, "ticket_ttl_seconds": 60}`);
  expect(refusal(refused)).toMatchObject({ status: 422, param: 'price_factor' });
  const { body } = await call('get', at(org_id), { key: platform });
  expect(body).toMatchObject({ price_factor: 1.2, ticket_ttl_seconds: 86_400 });
});

test.each([0, 0.000_001, 0.76, 1, 1.2, 10])(
  'the factor %s is kept to its last digit, also by the table',
  async (price_factor) => {
    const { org_id } = await makeTenant(world.db);
    await setFactor(org_id, price_factor);
    const [row] = await world.db('organizations').where({ id: org_id }).select('price_factor');
    expect(Number(row.price_factor)).toBe(price_factor);
  },
);

test('the table takes no factor that the route would refuse', async () => {
  for (const price_factor of ['-0.1', '10.5', '0.1234567'])
    await expect(makeOrg(world.db, { price_factor })).rejects.toThrow('price_factor');
});

test('the audit log says what the factor was and is, and the same of the least factor of own keys', async () => {
  const { db, call } = world;
  const { org_id, owner_key: key } = await makeTenant(db);
  await setFactor(org_id, 1.2);
  await setFactor(org_id, 0.76);
  await setFactor(org_id, 0.76);
  await put(org_id, { own_key_factor_min: 0.25 });
  const { body } = await call('get', '/v1/audit-events?action=organization.changed', { key });
  const sides = body.audit_events.map(({ before, after }: Record<string, object>) => [
    before,
    after,
  ]);
  expect(sides).toEqual([
    [{ own_key_factor_min: 1 }, { own_key_factor_min: 0.25 }],
    [{ price_factor: 1.2 }, { price_factor: 0.76 }],
    [{ price_factor: 1 }, { price_factor: 1.2 }],
  ]);
});

test('a discount lets a call go on that waits for money at the other API', async () => {
  const { call, other, machine } = world;
  const short = await makeShort(world, 100);
  await topUp(call, short, 80);
  const answer = redeem(other, machine, short, { wait_ms: 30_000 });
  await until(async () => (await show(call, short)).waiting_calls === 1);
  await setFactor(short.org_id, 0.76);
  expect((await answer).body).toMatchObject({ reserved_amount: 0.000_076 });
  expect(await show(call, short)).toMatchObject({ status: 'redeemed' });
});

test.each<[string, (org_id: string, model: string) => Promise<unknown>]>([
  ['an own key that comes', (org_id) => makeOwnKey(world.db, org_id, { price_factor: 0.76 })],
  ['a price that falls', (_, model) => makePrice(world.db, { model, ...fallen() })],
  [
    'a fallen price that comes into force',
    (_, model) => makePrice(world.db, { model, ...fallen(1_000) }),
  ],
])('%s lets a call go on that waits for money', async (...given) => {
  const [name, arrange] = given;
  const { db, call, machine } = world;
  const model = name.replaceAll(' ', '-');
  await makePrice(db, { model });
  const short = await makeShort(world, 100, { model, own_keys: true });
  await topUp(call, short, 80);
  const answer = redeem(call, machine, short, { wait_ms: 30_000 });
  await until(async () => (await show(call, short)).waiting_calls === 1);
  await arrange(short.org_id, model);
  expect((await answer).body).toMatchObject({ reserved_amount: 0.000_076 });
});

const fallen = (in_ms = 0) => ({
  ...{ input_per_1m: 0.76, effective_from: new Date(Date.now() + in_ms) },
});

test('what costs nothing by now goes on, and is approved, whatever its organization owes', async () => {
  const { db, call, machine } = world;
  const tenant = await makeTenant(db);
  const { org_id } = tenant;
  await topUp(call, tenant, 100);
  const body = reserveBody(org_id, 100);
  const held = await call('post', '/v1/gateway/wallets/reserve', { key: machine, body });
  const { reservation_id } = held.body;
  const used = { outcome: 'completed', usage: { prompt_tokens: 105, completion_tokens: 0 } };
  const settled = await call('post', '/v1/gateway/wallets/settle', {
    ...{ key: machine, body: { org_id, reservation_id, ...used } },
  });
  expect(settled.body).toMatchObject({ actual_cost: 0.000_105 });
  const waiting = await makeShort(world, 10, {}, tenant);
  const approved = await makeShort(world, 10, {}, tenant);
  const answer = redeem(call, machine, waiting, { wait_ms: 30_000 });
  await until(async () => (await show(call, waiting)).waiting_calls === 1);
  await setFactor(org_id, 0);
  expect(await answer).toMatchObject({ status: 200, body: { reserved_amount: 0 } });
  expect((await approve(call, approved)).status).toBe(200);
  expect((await redeem(call, machine, approved)).body).toMatchObject({ reserved_amount: 0 });
});

test('an approval holds by the factor of its moment, and the call that redeems it keeps that', async () => {
  const { call, machine } = world;
  const short = await makeShort(world, 100);
  const free = await makeShort(world, 100);
  await setFactor(short.org_id, 1.2);
  await topUp(call, short, 120);
  expect((await approve(call, short)).status).toBe(200);
  await setFactor(short.org_id, 0.5);
  const redeemed = await redeem(call, machine, short);
  expect(redeemed.body).toMatchObject({ reserved_amount: 0.000_12 });
  const settled = await call('post', '/v1/gateway/wallets/settle', {
    key: machine,
    body: {
      ...{ org_id: short.org_id, reservation_id: redeemed.body.reservation_id },
      ...{ outcome: 'completed', usage: { prompt_tokens: 100, completion_tokens: 0 } },
    },
  });
  expect(settled.body).toMatchObject({ actual_cost: 0.000_12, released_amount: 0 });
  const sheet = await call('get', `/v1/reservations/${redeemed.body.reservation_id}/price-sheet`, {
    key: short.billing_key,
  });
  expect(sheet.body).toMatchObject({
    ...{ price_factor: '1.2', actual_cost: 0.000_12 },
    lines: [{ what: 'input', quantity: '100', unit_price: '0.0000012', amount: '0.00012' }],
  });

  await setFactor(free.org_id, 0);
  expect((await approve(call, free)).status).toBe(200);
  expect((await redeem(call, machine, free)).body).toMatchObject({ reserved_amount: 0 });
});

test('a gateway is told what an organization pays', async () => {
  const { db, call, machine } = world;
  const { org_id } = await makeTenant(db);
  await setFactor(org_id, 1.2);
  const told = await call('post', '/v1/gateway/keys/funds', { key: machine, body: { org_id } });
  expect(told.body).toMatchObject({ price_factor: '1.2', budgets: [] });
  expect(told.body).not.toHaveProperty('own_keys');
  await makeOwnKey(db, org_id, { provider: 'b', price_factor: 1.25 });
  await makeOwnKey(db, org_id, { provider: 'a', price_factor: 0, own_keys: 'first' });
  await makeOwnKey(db, org_id, { provider: 'c', revoked_at: new Date() });
  const again = await call('post', '/v1/gateway/keys/funds', { key: machine, body: { org_id } });
  expect(again.body.own_keys).toEqual([
    { provider: 'a', price_factor: '0', own_keys: 'first' },
    { provider: 'b', price_factor: '1.25', own_keys: 'only' },
  ]);
  const body = reserveBody(org_id, 1);
  expect((await call('post', '/v1/gateway/wallets/reserve', { key: machine, body })).status).toBe(
    402,
  );
});
