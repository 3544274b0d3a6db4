import { type Db, many } from '../../../domain/sql';
import {
  type Answer,
  type CallApi,
  makeTenant,
  refusal,
  startApi,
  type Tenant,
} from '../../support/api';
import { makeKey, platformKey } from '../../support/keys';

let db: Db;
let call: CallApi;
let close: () => Promise<void>;
let platform: string;

beforeAll(async () => {
  ({ db, call, close } = await startApi());
  platform = await platformKey(db);
  const body = { rates: { EUR: 0.5, JPY: 150, IDR: 16_000 } };
  await call('put', '/v1/admin/exchange-rates', { key: platform, body });
});

afterAll(() => close());

function change(tenant: Tenant, body: object | string): Promise<Answer> {
  return call('put', `/v1/admin/organizations/${tenant.org_id}/wallet-settings`, {
    key: platform,
    body,
  });
}

function credit(tenant: Tenant, amount: number): Promise<Answer> {
  return call('post', '/v1/wallets/credit', {
    key: tenant.billing_key,
    body: { target_wallet_owner_type: 'organization', amount },
  });
}

test('wallet settings have the stated defaults, and a change is partial', async () => {
  const tenant = await makeTenant(db);
  const path = `/v1/admin/organizations/${tenant.org_id}/wallet-settings`;
  const defaults = {
    currency: 'USD',
    reserve_buffer_pct: 0,
    low_balance_threshold: 0,
    reservation_ttl_seconds: 900,
    ticket_ttl_seconds: 86_400,
    default_max_completion_tokens: 4_096,
    manual_credit: 'allowed',
    wallet_user_topup_enabled: true,
    time_zone: 'UTC',
    own_key_factor_min: 1,
    price_factor: 1,
  };
  expect((await call('get', path, { key: platform })).body).toEqual(defaults);
  expect((await change(tenant, {})).body).toEqual(defaults);
  const one = await change(tenant, { reserve_buffer_pct: 12.5, low_balance_threshold: 0.25 });
  expect(one.status).toBe(200);
  expect(one.body).toEqual({ ...defaults, reserve_buffer_pct: 12.5, low_balance_threshold: 0.25 });
});

test.each([
  ['currency', '"XXQ"'],
  ['currency', '"usd"'],
  ['reserve_buffer_pct', '-1'],
  ['reserve_buffer_pct', '1e400'],
  ['low_balance_threshold', '-1'],
  ['low_balance_threshold', '1e-12'],
  ['low_balance_threshold', '9007199254740993'],
  ['low_balance_threshold', '"1"'],
  ['reservation_ttl_seconds', '0'],
  ['reservation_ttl_seconds', '1.5'],
  ['ticket_ttl_seconds', '2592001'],
  ['default_max_completion_tokens', '0'],
  ['manual_credit', '"never"'],
  ['wallet_user_topup_enabled', '"yes"'],
])('the setting %s refuses %s by name', async (name, value) => {
  const tenant = await makeTenant(db);
  expect(refusal(await change(tenant, `{"${name}": ${value}}`))).toMatchObject({
    status: 422,
    param: name,
  });
});

test('settings of an unknown organization are 404', async () => {
  const path = '/v1/admin/organizations/org_unknown/wallet-settings';
  expect((await call('put', path, { key: platform, body: {} })).status).toBe(404);
  expect((await call('get', path, { key: platform })).status).toBe(404);
});

test('the currency changes, with all wallets, only while nothing is in it', async () => {
  const tenant = await makeTenant(db);
  expect((await change(tenant, { currency: 'EUR' })).body.currency).toBe('EUR');
  const wallets = await call('get', '/v1/wallets', { key: tenant.billing_key });
  expect(wallets.body.wallets).toMatchObject([{ currency: 'EUR' }]);
  await credit(tenant, 1);
  const fixed = await change(tenant, { currency: 'USD' });
  expect(refusal(fixed)).toEqual({ status: 409, code: 'currency_in_use', param: 'currency' });
  // And the way that is left.
  expect(fixed.body.error.message).toMatch(
    /Make an organization with the other currency: POST \/v1\/admin\/organizations\.$/,
  );
  expect((await change(tenant, { currency: 'EUR', ticket_ttl_seconds: 60 })).status).toBe(200);
});

test('a key budget fixes the currency too: its amount is in it', async () => {
  const tenant = await makeTenant(db);
  await makeKey(db, tenant.org_id, { token_type: 'gateway', max_budget_nanos: 1n });
  expect(refusal(await change(tenant, { currency: 'EUR' })).code).toBe('currency_in_use');
});

test.each<[string, (tenant: Tenant) => Promise<unknown>]>([
  [
    "a limit of members' keys",
    ({ org_id, owner_key: key }) =>
      call('put', `/v1/organizations/${org_id}/member-keys`, {
        key,
        body: { enabled: true, max_budget: 5 },
      }),
  ],
  [
    'amounts of top-ups',
    ({ org_id }) =>
      many(
        db,
        `insert into payment_settings (org_id, allowed_topup_amounts_nanos, min_topup_amount_nanos, max_topup_amount_nanos,
           topup_target_scopes, return_origins)
         values (:org_id, '{10000000000}', 10000000000, 10000000000, '{user}', '{}')`,
        { org_id },
      ),
  ],
  [
    'the threshold of a wallet',
    ({ wallet_id, billing_key: key }) =>
      call('put', `/v1/wallets/${wallet_id}`, { key, body: { low_balance_threshold: 5 } }),
  ],
  ["the organization's threshold", (tenant) => change(tenant, { low_balance_threshold: 5 })],
])('%s fixes the currency too: its amount is in it', async (_, set) => {
  const tenant = await makeTenant(db);
  await set(tenant);
  expect(refusal(await change(tenant, { currency: 'EUR' }))).toEqual({
    status: 409,
    code: 'currency_in_use',
    param: 'currency',
  });
});

test('a threshold that is given beside the new currency is in that one', async () => {
  const tenant = await makeTenant(db);
  await change(tenant, { low_balance_threshold: 5 });
  const changed = await change(tenant, { currency: 'EUR', low_balance_threshold: 4 });
  expect(changed.body).toMatchObject({ currency: 'EUR', low_balance_threshold: 4 });
});

test('a currency that changes while wallets are made and credited leaves one currency in the organization', async () => {
  for (let round = 0; round < 10; round += 1) {
    const tenant = await makeTenant(db);
    const body = {
      target_wallet_owner_type: 'team',
      target_wallet_owner_id: tenant.team_id,
      amount: 1,
    };
    await Promise.all([
      call('post', '/v1/wallets/credit', { key: tenant.billing_key, body }),
      change(tenant, { currency: 'EUR' }),
    ]);
    const { body: seen } = await call('get', '/v1/wallets', { key: tenant.billing_key });
    const { body: now } = await change(tenant, {});
    const currencies = new Set(seen.wallets.map((wallet: { currency: string }) => wallet.currency));
    expect([...currencies]).toEqual([now.currency]);
  }
});

test('allocate in another currency is converted once: the same nanos leave and arrive', async () => {
  const tenant = await makeTenant(db);
  await credit(tenant, 10);
  const move = (amount: number, currency: string) =>
    call('post', '/v1/wallets/allocate', {
      key: tenant.billing_key,
      body: { team_id: tenant.team_id, amount, currency },
    });
  expect((await move(1, 'EUR')).body.transactions).toMatchObject([{ amount: -2 }, { amount: 2 }]);
  // 100 JPY at 150 for a dollar are 0.666666667, rounded half up once.
  const { body } = await move(100, 'JPY');
  expect(body.transactions).toMatchObject([{ amount: -0.666666667 }, { amount: 0.666666667 }]);
  expect((await move(1, 'USD')).status).toBe(200);
});

test('a conversion without a rate, to nothing, or beyond all bounds is refused and moves nothing', async () => {
  const tenant = await makeTenant(db);
  await credit(tenant, 10);
  const move = (amount: number, currency: string) =>
    call('post', '/v1/wallets/allocate', {
      key: tenant.billing_key,
      body: { team_id: tenant.team_id, amount, currency },
    });
  expect(refusal(await move(1, 'CHF'))).toMatchObject({
    status: 422,
    code: 'exchange_rate_missing',
  });
  expect(refusal(await move(1e-9, 'JPY'))).toMatchObject({ status: 422, param: 'amount' });
  const rupiah = await makeTenant(db, 'IDR');
  await credit(rupiah, 10);
  const huge = await call('post', '/v1/wallets/allocate', {
    key: rupiah.billing_key,
    body: { team_id: rupiah.team_id, amount: 9_000_000_000, currency: 'USD' },
  });
  expect(refusal(huge)).toMatchObject({ status: 422, code: 'amount_too_large' });
  const ledger = await call('get', `/v1/wallets/${tenant.wallet_id}/transactions`, {
    key: tenant.billing_key,
  });
  expect(ledger.body.total).toBe(1);
});
