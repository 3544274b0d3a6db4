import { randomUUID } from 'node:crypto';
import type { Db } from '../../../domain/sql';
import { type CallApi, makeTenant, refusal, startApi, type Tenant } from '../../support/api';
import { gatewayToken, makeKey, platformKey } from '../../support/keys';
import { makePrice, reserveBody, settleBody } from '../../support/ledger';

let db: Db;
let call: CallApi;
let close: () => Promise<void>;
let tenant: Tenant;
let machine: string;
let platform: string;

beforeAll(async () => {
  ({ db, call, close } = await startApi());
  machine = await gatewayToken(db);
  platform = await platformKey(db);
  await makePrice(db);
});

beforeEach(async () => {
  tenant = await makeTenant(db);
  await call('post', '/v1/admin/wallets/credit', {
    key: platform,
    body: { org_id: tenant.org_id, target_wallet_owner_type: 'organization', amount: 10 },
  });
});

afterAll(() => close());

const suspend = (body: object = {}, verb = 'suspend') =>
  call('post', `/v1/admin/organizations/${tenant.org_id}/${verb}`, { key: platform, body });

const reserve = (more: object = {}) =>
  call('post', '/v1/gateway/wallets/reserve', {
    key: machine,
    body: { ...reserveBody(tenant.org_id, 1_000), ...more },
  });

const suspended = { status: 403, code: 'organization_suspended' };

test('keys of a suspended organization are refused at the API and for gateways, and work again afterwards', async () => {
  const gateway_key = await makeKey(db, tenant.org_id, { token_type: 'gateway' });
  const verify = () =>
    call('post', '/v1/gateway/keys/verify', { key: machine, body: { key: gateway_key } });
  const read = () => call('get', '/v1/wallets', { key: tenant.owner_key });
  const done = await suspend({ reason: 'unpaid since May' });
  expect(done).toMatchObject({
    status: 200,
    body: { suspended_at: expect.any(String), suspended_for: 'unpaid since May' },
  });
  expect(refusal(await read())).toMatchObject(suspended);
  expect(refusal(await verify())).toMatchObject(suspended);
  expect(refusal(await reserve())).toMatchObject(suspended);
  // Others go on.
  const other = await makeTenant(db);
  expect((await call('get', '/v1/wallets', { key: other.owner_key })).status).toBe(200);
  expect((await suspend({}, 'unsuspend')).body).toMatchObject({ suspended_at: null });
  expect([(await read()).status, (await verify()).status, (await reserve()).status]).toEqual([
    200, 200, 200,
  ]);
});

test('a repeat changes nothing, and a batch tells each item by itself', async () => {
  const first = await suspend({ reason: 'one' });
  expect((await suspend({ reason: 'two' })).body).toEqual(first.body);
  const other = await makeTenant(db);
  const item = (org_id: string) => ({ id: org_id, op: 'reserve', body: reserveBody(org_id, 1) });
  const items = [item(tenant.org_id), item(other.org_id)];
  const { text } = await call('post', '/v1/gateway/wallets/batch', {
    key: machine,
    body: { items },
  });
  const lines = text
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));
  const of = (org_id: string) => lines.find(({ id }) => id === org_id);
  expect(of(tenant.org_id)).toMatchObject({
    ...{ status: 403, body: { error: { code: 'organization_suspended' } } },
  });
  expect(of(other.org_id).status).toBe(402);
});

test('money is untouched: what was held settles, and the platform credits and reads', async () => {
  const held = await reserve();
  await suspend();
  const body = settleBody(tenant.org_id, held.body.reservation_id, 400);
  const settled = await call('post', '/v1/gateway/wallets/settle', { key: machine, body });
  expect(settled).toMatchObject({ status: 200, body: { status: 'settled' } });
  const wallets = await call('get', `/v1/wallets?org_id=${tenant.org_id}`, { key: platform });
  expect(wallets.body.wallets[0]).toMatchObject({ balance: 9.9996, reserved: 0 });
});

test('only the platform suspends, and only what is there', async () => {
  const path = `/v1/admin/organizations/${tenant.org_id}/suspend`;
  expect((await call('post', path, { key: tenant.owner_key, body: {} })).status).toBe(403);
  const unknown = `/v1/admin/organizations/org_${randomUUID()}/suspend`;
  expect((await call('post', unknown, { key: platform, body: {} })).status).toBe(404);
  expect(refusal(await suspend({ reason: 'x'.repeat(1_001) }))).toMatchObject({
    ...{ status: 422, param: 'reason' },
  });
  await suspend();
  const listed = await call('get', '/v1/admin/organizations?status=suspended&per_page=200', {
    key: platform,
  });
  const ids = listed.body.organizations.map(({ id }: { id: string }) => id);
  expect(ids).toContain(tenant.org_id);
});
