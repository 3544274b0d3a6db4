import pino from 'pino';
import { accessOf, activeProvider } from '../../../domain/payments/config';
import { currenciesOf } from '../../../domain/payments/currencies';
import { createSecrets } from '../../../domain/secrets';
import { type Db, many } from '../../../domain/sql';
import {
  type Answer,
  type CallApi,
  makeTenant,
  refusal,
  secrets,
  startApi,
  type Tenant,
} from '../../support/api';
import { makeKey, platformKey } from '../../support/keys';

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
  const base_url = 'http://127.0.0.1:8092';
  const first = await config({ payment_provider_b: { enabled: true, base_url, ...key } });
  expect(first.body.payment_provider_b).toMatchObject({ enabled: true, configured: false });
  const early = await config({ active_provider: 'payment_provider_b' });
  expect(refusal(early)).toMatchObject({ status: 422, param: 'active_provider' });
  expect(early.body.error.message).toContain('webhook secret');
  const whole = await config({
    active_provider: 'payment_provider_b',
    payment_provider_b: { webhook_secret },
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
