import { type Db, many } from '../../../domain/sql';
import {
  type Answer,
  type CallApi,
  makeTenant,
  refusal,
  startApi,
  type Tenant,
} from '../../support/api';
import { platformKey } from '../../support/keys';

let db: Db;
let call: CallApi;
let close: () => Promise<void>;
let platform: string;

const secretsOfA = { client_id: 'client-aaa', client_secret: 'shh-aaaa', webhook_id: 'WH-aaaa' };

beforeAll(async () => {
  ({ db, call, close } = await startApi());
  platform = await platformKey(db);
});

afterAll(() => close());

beforeEach(async () => {
  await many(db, 'delete from payment_config');
  await many(db, 'delete from payment_providers');
});

function settings(key: string, body?: object | string, query = ''): Promise<Answer> {
  return call(body === undefined ? 'get' : 'put', `/v1/payments/settings${query}`, { key, body });
}

function config(body?: object | string, key = platform): Promise<Answer> {
  return call(body === undefined ? 'get' : 'put', '/v1/admin/payments/config', { key, body });
}

function bill({ billing_key }: Tenant, body?: object | string): Promise<Answer> {
  return settings(billing_key, body);
}

const untouched = {
  currency: 'USD',
  wallet_user_topup_enabled: true,
  active_provider: null,
  available_providers: [],
  payment_provider_configured: false,
  currency_supported_by_active_provider: false,
  allowed_topup_amounts: [10, 25, 50, 100],
  min_topup_amount: 5,
  max_topup_amount: 1_000,
  topup_target_scopes: ['user', 'team', 'organization'],
  return_origins: [],
};

test('settings have the stated defaults, and a change is partial', async () => {
  const tenant = await makeTenant(db);
  expect((await bill(tenant)).body).toEqual(untouched);
  const change = { max_topup_amount: 200.5, return_origins: ['https://console.example.com'] };
  expect((await bill(tenant, change)).body).toEqual({ ...untouched, ...change });
  const more = { allowed_topup_amounts: [20], topup_target_scopes: ['organization'] };
  expect((await bill(tenant, more)).body).toEqual({ ...untouched, ...change, ...more });
  expect((await bill(tenant)).body).toEqual({ ...untouched, ...change, ...more });
  expect((await bill(tenant, {})).body).toEqual({ ...untouched, ...change, ...more });
  // Another organization has its own.
  expect((await bill(await makeTenant(db))).body).toEqual(untouched);
});

test('settings are for org:billing of the organization, and for platform admins who name it', async () => {
  const tenant = await makeTenant(db);
  const other = await makeTenant(db);
  for (const body of [undefined, { max_topup_amount: 50, allowed_topup_amounts: [] }]) {
    expect((await settings('svc_ak_none', body)).status).toBe(401);
    expect((await settings(tenant.member_key, body)).status).toBe(403);
    expect(refusal(await settings(platform, body))).toMatchObject({ status: 422, param: 'org_id' });
  }
  const foreign = `?org_id=${other.org_id}`;
  expect((await settings(tenant.billing_key, undefined, foreign)).status).toBe(404);
  expect((await bill(tenant, { org_id: other.org_id, min_topup_amount: 6 })).status).toBe(404);
  const named = await settings(platform, { org_id: tenant.org_id, min_topup_amount: 7 });
  expect(named.body.min_topup_amount).toBe(7);
  const seen = await settings(platform, undefined, `?org_id=${tenant.org_id}`);
  expect(seen.body.min_topup_amount).toBe(7);
  expect((await bill(other)).body.min_topup_amount).toBe(5);
});

test('what is offered can be paid: amounts below the least of the provider are neither shown nor taken', async () => {
  const tenant = await makeTenant(db);
  const b = { secret_key: 'sk_test_aaaa', webhook_secret: 'whsec_aaaa', enabled: true };
  const supported_currencies = ['USD', 'HUF'];
  const active = await config({
    ...{
      payment_provider_b: { ...b, supported_currencies },
      active_provider: 'payment_provider_b',
    },
  });
  expect(active.status).toBe(200);
  for (const [param, value] of [
    ['allowed_topup_amounts', [0.25]],
    ['max_topup_amount', 0.25],
  ] as const)
    expect(refusal(await bill(tenant, { min_topup_amount: 0.25, [param]: value }))).toMatchObject({
      status: 422,
      param,
    });
  const least = await bill(tenant, { min_topup_amount: 0.25, allowed_topup_amounts: [0.5, 20] });
  expect(least.body).toMatchObject({ min_topup_amount: 0.5, allowed_topup_amounts: [0.5, 20] });
  // None of the defaults can be paid in forints.
  const forints = await makeTenant(db, 'HUF');
  expect((await bill(forints)).body).toMatchObject({
    allowed_topup_amounts: [],
    min_topup_amount: 175,
    max_topup_amount: 1_000,
  });
});

test('whoever may buy reads what they may buy, and nothing of how it is set up', async () => {
  const tenant = await makeTenant(db);
  const { currency, payment_provider_configured, currency_supported_by_active_provider, ...rest } =
    untouched;
  const { wallet_user_topup_enabled, active_provider, available_providers, ...amounts } = rest;
  const seen = {
    ...{ currency, payment_provider_configured, currency_supported_by_active_provider },
    ...amounts,
  };
  const options = async (key: string) => {
    const answer = await call('get', '/v1/payments/options', { key });
    expect(answer.status).toBe(200);
    return answer.body;
  };
  expect(await options(tenant.member_key)).toEqual({ ...seen, may_top_up: true });
  await call('put', `/v1/admin/organizations/${tenant.org_id}/wallet-settings`, {
    ...{ key: platform, body: { wallet_user_topup_enabled: false } },
  });
  expect(await options(tenant.member_key)).toEqual({ ...seen, may_top_up: false });
  expect(await options(tenant.billing_key)).toEqual({ ...seen, may_top_up: true });
});

test.each([
  [{ min_topup_amount: 2_000 }, 'min_topup_amount', '2000', '1000'],
  [{ max_topup_amount: 4 }, 'max_topup_amount', '5', '4'],
  [{ min_topup_amount: 60, max_topup_amount: 50 }, 'min_topup_amount', '60', '50'],
  [{ min_topup_amount: 11 }, 'min_topup_amount', '10', '11'],
  [{ max_topup_amount: 99 }, 'max_topup_amount', '100', '99'],
  [{ allowed_topup_amounts: [10, 4.99] }, 'allowed_topup_amounts', '4.99', '5'],
  [{ allowed_topup_amounts: [1_001] }, 'allowed_topup_amounts', '1001', '1000'],
])(
  '%j contradicts itself: the field and both numbers are named',
  async (body, param, ...numbers) => {
    const tenant = await makeTenant(db);
    const answer = await bill(tenant, body);
    expect(refusal(answer)).toEqual({ status: 422, code: 'invalid_field', param });
    for (const number of numbers) expect(answer.body.error.message).toContain(number);
    expect((await bill(tenant)).body).toEqual(untouched);
  },
);

test('two changes at once never leave a contradiction behind', async () => {
  const tenant = await makeTenant(db);
  await bill(tenant, { allowed_topup_amounts: [] });
  const answers = await Promise.all([
    bill(tenant, { min_topup_amount: 600 }),
    bill(tenant, { max_topup_amount: 500 }),
  ]);
  expect(answers.map(({ status }) => status).sort()).toEqual([200, 422]);
});

test('an amount that is no whole number of what can be paid is refused', async () => {
  const tenant = await makeTenant(db, 'HUF');
  const wish = { min_topup_amount: 500.5 };
  const allowed = { max_topup_amount: 90_000, allowed_topup_amounts: [1_000, 5_000] };
  expect((await bill(tenant, allowed)).status).toBe(200);
  // HUF has two decimals until the active provider takes none.
  expect((await bill(tenant, wish)).status).toBe(200);
  await config({
    active_provider: 'payment_provider_a',
    payment_provider_a: { enabled: true, ...secretsOfA },
  });
  const answer = await bill(tenant, wish);
  expect(refusal(answer)).toMatchObject({ status: 422, param: 'min_topup_amount' });
  expect(answer.body.error.message).toContain('500.5');
  expect(answer.body.error.message).toContain('1 HUF');
  const cents = await bill(await makeTenant(db), { allowed_topup_amounts: [10.001] });
  expect(refusal(cents)).toMatchObject({ status: 422, param: 'allowed_topup_amounts' });
});

test.each([
  [{ min_topup_amount: 0 }, 'min_topup_amount'],
  [{ min_topup_amount: -1 }, 'min_topup_amount'],
  [{ min_topup_amount: '5' }, 'min_topup_amount'],
  [{ max_topup_amount: 1e-12 }, 'max_topup_amount'],
  ['{"max_topup_amount": 1e400}', 'max_topup_amount'],
  ['{"max_topup_amount": 9007199254740993}', 'max_topup_amount'],
  [{ max_topup_amount: null }, 'max_topup_amount'],
  [{ allowed_topup_amounts: [10, 0] }, 'allowed_topup_amounts.1'],
  [{ allowed_topup_amounts: 10 }, 'allowed_topup_amounts'],
  [{ topup_target_scopes: [] }, 'topup_target_scopes'],
  [{ topup_target_scopes: ['user', 'agent'] }, 'topup_target_scopes.1'],
  [{ return_origins: ['http://example.com'] }, 'return_origins.0'],
  [{ return_origins: ['https://ok.example', 'https://example.com/path'] }, 'return_origins.1'],
  [{ return_origins: ['https://example.com/'] }, 'return_origins.0'],
  [{ return_origins: ['https://me@example.com'] }, 'return_origins.0'],
  [{ return_origins: ['https://example.com?x'] }, 'return_origins.0'],
  [{ return_origins: ['//example.com'] }, 'return_origins.0'],
  [{ return_origins: ['javascript:alert(1)'] }, 'return_origins.0'],
  [{ return_origins: ['https://*.example.com/'] }, 'return_origins.0'],
  [{ return_origins: ['https://*.example'] }, 'return_origins.0'],
  [{ return_origins: ['https://shop*.example.com'] }, 'return_origins.0'],
  [{ return_origins: ['null'] }, 'return_origins.0'],
  [{ return_origins: ['http://127.0.0.1.example.com'] }, 'return_origins.0'],
  [{ active_provider: 'payment_provider_b' }, 'active_provider'],
  [{ wallet_user_topup_enabled: false }, 'wallet_user_topup_enabled'],
])('%j is refused by its field, and nothing is changed', async (body, param) => {
  const tenant = await makeTenant(db);
  expect(refusal(await bill(tenant, body))).toMatchObject({ status: 422, param });
  expect((await bill(tenant)).body).toEqual(untouched);
});

test('return origins on this machine may be plain http, and each stands once', async () => {
  const tenant = await makeTenant(db);
  const origins = ['http://127.0.0.1:3000', 'http://localhost:3000', 'http://[::1]:3000'];
  const { body } = await bill(tenant, { return_origins: [...origins, ...origins] });
  expect(body.return_origins).toEqual(origins);
  expect((await bill(tenant, { return_origins: [] })).body.return_origins).toEqual([]);
});
