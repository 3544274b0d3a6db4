import { randomBytes } from 'node:crypto';
import { mkdtemp, readFile, rm, stat } from 'node:fs/promises';
import path from 'node:path';
import { accessOf, getConfig, putConfig } from '../../domain/payments/config';
import { getOrgSettings } from '../../domain/payments/settings';
import * as codes from '../../domain/people/one-time-codes';
import { createSecrets } from '../../domain/secrets';
import { seedPayments } from '../../sandbox/demo/payment-seed';
import { seed } from '../../sandbox/demo/seed';
import { signInCode } from '../../sandbox/demo/sign-in';
import { startApi, type TestApi } from '../support/api';
import { scratchRoot } from '../support/scratch';

let api: TestApi;
let data_dir: string;

beforeAll(async () => {
  api = await startApi();
  data_dir = await mkdtemp(path.join(scratchRoot(), 'svc-seed-'));
});

afterAll(async () => {
  await rm(data_dir, { recursive: true });
  await api.close();
});

test('the demo organization is made once: the second start finds its keys and its money', async () => {
  const first = await seed(api.db, { data_dir });
  expect(await seed(api.db, { data_dir })).toEqual(first);
  const file = path.join(data_dir, 'keys.json');
  expect(JSON.parse(await readFile(file, 'utf8'))).toEqual(first);
  expect((await stat(file)).mode & 0o777).toBe(0o600);

  const { keys, wallet_id, models } = first;
  const all = await api.call('get', '/v1/admin/organizations', { key: keys.platform_admin });
  expect(all.body).toMatchObject({ total: 1, organizations: [{ id: first.organization_id }] });
  const ledger = await api.call('get', `/v1/wallets/${wallet_id}/transactions`, {
    key: keys.member,
  });
  expect(ledger.body).toMatchObject({ total: 1, transactions: [{ amount: 100, type: 'credit' }] });
  const prices = await api.call('get', '/v1/model-pricing');
  const priced = prices.body.models.map(({ model }: { model: string }) => model);
  expect(priced).toEqual(expect.arrayContaining([...models, 'o4-mini', 'claude-sonnet-4-5']));
});

test('the sign-in link of a start is void once there is another start; a code of a terminal is not', async () => {
  const seeded = await seed(api.db, { data_dir });
  const { organization_id: org_id, owner_id: user_id } = seeded;
  const by = { id: 'terminal', user_id: null, scopes: [] };
  const made = await codes.create(api.db, { purpose: 'session', org_id, user_id, by });
  const [first, second] = [
    await signInCode(api.database_url, seeded),
    await signInCode(api.database_url, seeded),
  ];
  const statusOf = async (one_time_code: string) =>
    (await api.call('post', '/v1/sessions', { body: { one_time_code } })).status;
  expect([await statusOf(first), await statusOf(second), await statusOf(made.code)]).toEqual([
    401, 201, 201,
  ]);
});

test('each demo key does what its name says, and no more', async () => {
  const { keys, organization_id, user_id, team_id } = await seed(api.db, { data_dir });
  const credit = {
    target_wallet_owner_type: 'user',
    target_wallet_owner_id: user_id,
    amount: 1,
  };
  const billed = (key: string) => api.call('post', '/v1/wallets/credit', { key, body: credit });
  expect((await billed(keys.billing_admin)).status).toBe(201);
  expect((await billed(keys.member)).status).toBe(403);
  const verified = await api.call('post', '/v1/gateway/keys/verify', {
    key: keys.control_plane,
    body: { key: keys.gateway },
  });
  expect(verified.body).toMatchObject({
    org_id: organization_id,
    user_id,
    team_id,
    allowed_models: null,
    expires_at: null,
  });
});

test('a lost data directory makes new keys and ends the old platform keys', async () => {
  const lost = await seed(api.db, { data_dir });
  await rm(path.join(data_dir, 'keys.json'));
  const found = await seed(api.db, { data_dir });
  expect(found.organization_id).not.toBe(lost.organization_id);
  const admin = (key: string) => api.call('get', '/v1/admin/audit', { key });
  expect((await admin(lost.keys.platform_admin)).status).toBe(401);
  expect((await admin(found.keys.platform_admin)).body).toEqual({ clean: true, broken: [] });
});

const places = (port: number) => ({
  urls: {
    payment_provider_a: `http://127.0.0.1:${port}`,
    payment_provider_b: `http://127.0.0.1:${port + 1}`,
  },
  shop_url: `http://127.0.0.1:${port + 2}`,
});

test('both sandbox providers are set up, move with their ports, and a provider of elsewhere stays as it is', async () => {
  const { organization_id: org_id } = await seed(api.db, { data_dir });
  const secrets = createSecrets(randomBytes(32).toString('base64'));
  await seedPayments(api.db, secrets, org_id, places(20_100));
  await seedPayments(api.db, secrets, org_id, places(20_200));
  const config = await getConfig(api.db);
  expect(config).toMatchObject({
    active_provider: 'payment_provider_a',
    payment_provider_a: { enabled: true, configured: true, base_url: 'http://127.0.0.1:20200' },
    payment_provider_b: { enabled: true, configured: true, base_url: 'http://127.0.0.1:20201' },
  });
  const { return_origins } = await getOrgSettings(api.db, org_id);
  expect(return_origins).toEqual(['http://127.0.0.1:3000', 'http://127.0.0.1:20202']);

  await putConfig(api.db, secrets, {
    payment_provider_b: {
      base_url: 'https://api.stripe.com',
      credentials: { secret_key: 'own' },
      webhook_secret: 'whsec_own',
    },
    active_provider: 'payment_provider_b',
  });
  await seedPayments(api.db, secrets, org_id, places(20_300));
  expect((await getConfig(api.db)).active_provider).toBe('payment_provider_b');
  expect(await accessOf(api.db, secrets, 'payment_provider_b')).toMatchObject({
    base_url: 'https://api.stripe.com',
    credentials: { secret_key: 'own' },
  });
});
