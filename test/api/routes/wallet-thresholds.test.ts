import { newKey } from '../../../domain/people/keys';
import { type Db, many } from '../../../domain/sql';
import { type CallApi, makeTenant, refusal, startApi, type Tenant } from '../../support/api';
import { makeKey, platformKey } from '../../support/keys';

let db: Db;
let call: CallApi;
let close: () => Promise<void>;
let platform: string;
let tenant: Tenant;

beforeAll(async () => {
  ({ db, call, close } = await startApi());
  platform = await platformKey(db);
});

beforeEach(async () => {
  tenant = await makeTenant(db);
});

afterAll(() => close());

const roots = ['/v1/wallets', '/v1/admin/wallets'] as const;

function keyFor(root: string): string {
  return root === '/v1/wallets' ? tenant.billing_key : platform;
}

function put(root: string, body: object | string, key = keyFor(root)) {
  return call('put', `${root}/${tenant.wallet_id}`, { key, body });
}

test.each(roots)(
  "PUT %s/{id} sets a wallet's own threshold, and null takes it back",
  async (root) => {
    const set = await put(root, { low_balance_threshold: 2.5 });
    expect(set.status).toBe(200);
    expect(set.body).toMatchObject({ wallet_id: tenant.wallet_id, low_balance_threshold: 2.5 });
    const { body } = await call('get', '/v1/wallets', { key: tenant.billing_key });
    expect(body.wallets).toEqual([set.body]);
    expect((await put(root, { low_balance_threshold: 0 })).body.low_balance_threshold).toBe(0);
    expect(
      (await put(root, { low_balance_threshold: null })).body.low_balance_threshold,
    ).toBeNull();
  },
);

test.each(roots)('PUT %s/{id} refuses what is no amount, and other fields', async (root) => {
  for (const value of ['-1', '1e-12', '9007199254740993', '"1"', '[]']) {
    const answer = await put(root, `{"low_balance_threshold": ${value}}`);
    expect({ value, ...refusal(answer) }).toMatchObject({
      value,
      status: 422,
      param: 'low_balance_threshold',
    });
  }
  expect(refusal(await put(root, {}))).toMatchObject({
    status: 422,
    param: 'low_balance_threshold',
  });
  expect(refusal(await put(root, { low_balance_threshold: 1, balance: 9 }))).toMatchObject({
    status: 422,
    code: 'unknown_field',
    param: 'balance',
  });
});

test.each(roots)('PUT %s/{id} needs a credential that may', async (root) => {
  const body = { low_balance_threshold: 1 };
  const path = `${root}/${tenant.wallet_id}`;
  expect((await call('put', path, { body })).status).toBe(401);
  expect((await put(root, body, await newKey('access'))).status).toBe(401);
  const reader = await makeKey(db, tenant.org_id, { scopes: ['agents:read'] });
  expect(refusal(await put(root, body, reader))).toMatchObject({
    status: 403,
    code: 'permission_denied',
  });
});

test("another organization's wallet is not found, and keeps its threshold", async () => {
  const body = { low_balance_threshold: 1 };
  const other = await makeTenant(db);
  expect((await put('/v1/wallets', body, other.billing_key)).status).toBe(404);
  expect((await put('/v1/admin/wallets', body, other.billing_key)).status).toBe(403);
  for (const root of roots) {
    const answer = await call('put', `${root}/wal_unknown`, { key: keyFor(root), body });
    expect(answer.status).toBe(404);
  }
  const { body: seen } = await call('get', '/v1/wallets', { key: tenant.billing_key });
  expect(seen.wallets).toMatchObject([{ low_balance_threshold: null }]);
});

test("a wallet's own threshold outranks the organization's", async () => {
  const credit = { target_wallet_owner_type: 'organization', amount: 10 };
  const allocate = (amount: number) =>
    call('post', '/v1/wallets/allocate', {
      key: tenant.billing_key,
      body: { team_id: tenant.team_id, amount },
    });
  await call('post', '/v1/wallets/credit', { key: tenant.billing_key, body: credit });
  await call('put', `/v1/admin/organizations/${tenant.org_id}/wallet-settings`, {
    key: platform,
    body: { low_balance_threshold: 8 },
  });
  const lows = () =>
    many<{ threshold: string }>(
      db,
      `select payload->>'threshold_nanos' as threshold from events where org_id = :org_id and type = 'wallet.balance_low'`,
      { org_id: tenant.org_id },
    );
  await put('/v1/wallets', { low_balance_threshold: 5 });
  await allocate(4);
  expect(await lows()).toEqual([]);
  await allocate(2);
  expect(await lows()).toEqual([{ threshold: '5000000000' }]);
});
