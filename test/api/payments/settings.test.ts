import pino from 'pino';
import { accessOf, activeProvider } from '../../../domain/payments/config';
import { currenciesOf } from '../../../domain/payments/currencies';
import { createSecrets } from '../../../domain/secrets';
import { type Db, many } from '../../../domain/sql';
import {
  type Answer,
  type CallApi,
  makeKey,
  makeTenant,
  platformKey,
  refusal,
  secrets,
  startApi,
  type Tenant,
} from '../../support/api';

let db: Db;
let call: CallApi;
let close: () => Promise<void>;
let platform: string;
/** All that the API has logged. */
let logged = '';

const secretsOfA = { client_id: 'client-aaa', client_secret: 'shh-aaaa', webhook_id: 'WH-aaaa' };
const secretsOfB = { secret_key: 'sk_test_bbbb', webhook_secret: 'whsec_bbbb' };

beforeAll(async () => {
  const write = (line: string) => {
    logged += line;
  };
  ({ db, call, close } = await startApi({ log: pino({ level: 'trace' }, { write }) }));
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

test('before the first change no provider is enabled, configured or active', async () => {
  const none = { enabled: false, configured: false, previous_webhook_secret_until: null };
  expect((await config()).body).toEqual({
    active_provider: null,
    payment_provider_a: {
      ...none,
      base_url: 'https://api-m.paypal.com',
      supported_currencies: currenciesOf('payment_provider_a'),
    },
    payment_provider_b: {
      ...none,
      base_url: 'https://api.stripe.com',
      supported_currencies: currenciesOf('payment_provider_b'),
    },
  });
  expect(await accessOf(db, secrets, 'payment_provider_a')).toMatchObject({ webhook_secrets: [] });
});

test('a provider is set up in parts, chosen once it is whole, and told to organizations', async () => {
  const tenant = await makeTenant(db, 'EUR');
  const { webhook_secret, ...key } = secretsOfB;
  const first = await config({ payment_provider_b: { enabled: true, ...key } });
  expect(first.body.payment_provider_b).toMatchObject({ enabled: true, configured: false });
  const early = await config({ active_provider: 'payment_provider_b' });
  expect(refusal(early)).toMatchObject({ status: 422, param: 'active_provider' });
  expect(early.body.error.message).toContain('webhook secret');
  const whole = await config({
    active_provider: 'payment_provider_b',
    payment_provider_b: { webhook_secret, base_url: 'http://127.0.0.1:8092' },
  });
  expect(whole.body).toMatchObject({
    active_provider: 'payment_provider_b',
    payment_provider_b: { enabled: true, configured: true, base_url: 'http://127.0.0.1:8092' },
  });
  expect(await accessOf(db, secrets, 'payment_provider_b')).toEqual({
    base_url: 'http://127.0.0.1:8092',
    credentials: key,
    webhook_secrets: [webhook_secret],
  });
  expect((await bill(tenant)).body).toMatchObject({
    active_provider: 'payment_provider_b',
    available_providers: ['payment_provider_b'],
    payment_provider_configured: true,
    currency_supported_by_active_provider: true,
  });
  await config({ payment_provider_b: { supported_currencies: ['USD'] } });
  expect((await bill(tenant)).body.currency_supported_by_active_provider).toBe(false);
  // Disabled it takes no new sessions, and still those that are under way.
  await config({ payment_provider_b: { enabled: false } });
  expect((await bill(tenant)).body).toMatchObject({
    active_provider: 'payment_provider_b',
    available_providers: [],
    payment_provider_configured: false,
    currency_supported_by_active_provider: false,
  });
  expect(await activeProvider(db)).toBeUndefined();
  expect((await accessOf(db, secrets, 'payment_provider_b')).credentials).toEqual(key);
  expect((await config({ active_provider: null })).body.active_provider).toBeNull();
});

test('the config is for platform admins alone', async () => {
  const { owner_key } = await makeTenant(db);
  const gateway = await makeKey(db, null, { scopes: ['control_plane'] });
  for (const key of [owner_key, gateway]) {
    expect((await config(undefined, key)).status).toBe(403);
    expect((await config({ payment_provider_a: { enabled: true } }, key)).status).toBe(403);
  }
  expect((await config({ payment_provider_a: { enabled: true } }, 'svc_ak_no')).status).toBe(401);
});

test.each([
  [{ active_provider: 'payment_provider_c' }, 'active_provider'],
  [{ active_provider: 'payment_provider_a' }, 'active_provider'],
  [{ payment_provider_a: { secret_key: 'sk_test_bbbb' } }, 'payment_provider_a.secret_key'],
  [{ payment_provider_b: { client_id: 'client-aaa' } }, 'payment_provider_b.client_id'],
  [{ payment_provider_a: { client_secret: '' } }, 'payment_provider_a.client_secret'],
  [{ payment_provider_a: { webhook_id: ' ' } }, 'payment_provider_a.webhook_id'],
  [{ payment_provider_b: { webhook_secret: '' } }, 'payment_provider_b.webhook_secret'],
  [{ payment_provider_b: { webhook_secret: null } }, 'payment_provider_b.webhook_secret'],
  [{ payment_provider_b: { secret_key: 'sk test bbbb' } }, 'payment_provider_b.secret_key'],
  [{ payment_provider_b: { secret_key: 'sk\nX: y' } }, 'payment_provider_b.secret_key'],
  [{ payment_provider_b: { enabled: 'yes' } }, 'payment_provider_b.enabled'],
  [
    { payment_provider_a: { supported_currencies: ['USD', 'KWD'] } },
    'payment_provider_a.supported_currencies.1',
  ],
  [{ payment_provider_b: { supported_currencies: [] } }, 'payment_provider_b.supported_currencies'],
  [
    { payment_provider_b: { supported_currencies: ['usd'] } },
    'payment_provider_b.supported_currencies.0',
  ],
  [{ payment_provider_b: { base_url: 'http://api.stripe.com' } }, 'payment_provider_b.base_url'],
  [{ payment_provider_b: { base_url: 'ftp://127.0.0.1' } }, 'payment_provider_b.base_url'],
  [
    { payment_provider_b: { base_url: 'https://k:sk_test_bbbb@api.stripe.com' } },
    'payment_provider_b.base_url',
  ],
  [
    { payment_provider_b: { base_url: 'https://api.stripe.com/v1' } },
    'payment_provider_b.base_url',
  ],
])('%j is refused by its field, without repeating a secret', async (body, param) => {
  const before = (await config()).body;
  const answer = await config(body);
  expect(refusal(answer)).toMatchObject({ status: 422, param });
  expect(answer.text).not.toMatch(/sk_test|bbbb|X: y/);
  expect((await config()).body).toEqual(before);
});

test('a replaced webhook secret stays good for 72 hours; the same one again changes nothing', async () => {
  const put = (webhook_secret: string) => config({ payment_provider_b: { webhook_secret } });
  const good = async () => (await accessOf(db, secrets, 'payment_provider_b')).webhook_secrets;
  await put('whsec_one');
  expect(await good()).toEqual(['whsec_one']);
  const { body } = await put('whsec_two');
  expect(await good()).toEqual(['whsec_two', 'whsec_one']);
  const until_ms = new Date(body.payment_provider_b.previous_webhook_secret_until).getTime();
  expect(Math.abs(until_ms - Date.now() - 72 * 3_600_000)).toBeLessThan(60_000);
  await put('whsec_two');
  await config({ payment_provider_b: { enabled: true } });
  expect(await good()).toEqual(['whsec_two', 'whsec_one']);
  await many(
    db,
    `update payment_providers set previous_webhook_secret_until = clock_timestamp() - interval '1 second'`,
  );
  expect(await good()).toEqual(['whsec_two']);
  expect((await config()).body.payment_provider_b.previous_webhook_secret_until).toBeNull();
});

test('two changes of the config at once are both kept', async () => {
  await Promise.all([
    config({ payment_provider_b: { secret_key: secretsOfB.secret_key } }),
    config({ payment_provider_b: { webhook_secret: secretsOfB.webhook_secret } }),
    config({ payment_provider_a: { client_id: secretsOfA.client_id } }),
    config({ payment_provider_a: { client_secret: secretsOfA.client_secret } }),
    config({ payment_provider_a: { webhook_id: secretsOfA.webhook_id, enabled: true } }),
  ]);
  const { body } = await config();
  expect(body.payment_provider_a).toMatchObject({ configured: true, enabled: true });
  expect(body.payment_provider_b.configured).toBe(true);
});

test('secrets are in no answer, log line, event, stored answer or row in the clear', async () => {
  const body = {
    payment_provider_a: { enabled: true, ...secretsOfA },
    payment_provider_b: { enabled: true, ...secretsOfB },
  };
  const answers = [
    await call('put', '/v1/admin/payments/config', {
      key: platform,
      body,
      headers: { 'idempotency-key': 'config-1' },
    }),
    await config({ active_provider: 'payment_provider_a' }),
    await config(),
  ];
  const tables = await many<{ name: string }>(
    db,
    `select tablename as name from pg_tables where schemaname = 'public'`,
  );
  const rows: string[] = [];
  for (const { name } of tables) {
    const found = await many<{ row: string }>(db, `select t::text as row from "${name}" t`);
    rows.push(...found.map(({ row }) => row));
  }
  expect(logged).toContain('payment_provider_a.client_secret');
  const everything = [logged, ...rows, ...answers.map(({ text }) => text)].join('\n');
  for (const secret of [...Object.values(secretsOfA), ...Object.values(secretsOfB)])
    expect(everything).not.toContain(secret);
});

test('what is sealed opens in its own place only, and under the key of this deployment only', async () => {
  await config({ payment_provider_b: secretsOfB });
  const other = createSecrets(Buffer.alloc(32, 7).toString('base64'));
  await expect(accessOf(db, other, 'payment_provider_b')).rejects.toThrow('SVC_SECRETS_KEY');
  await many(
    db,
    `update payment_providers set credentials = jsonb_build_object('secret_key', webhook_secret)`,
  );
  await expect(accessOf(db, secrets, 'payment_provider_b')).rejects.toThrow('something else');
  // Entered anew it works again.
  await config({ payment_provider_b: secretsOfB });
  const { credentials } = await accessOf(db, secrets, 'payment_provider_b');
  expect(credentials).toEqual({ secret_key: secretsOfB.secret_key });
});
