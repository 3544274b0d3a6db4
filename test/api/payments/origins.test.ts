import { createServer } from 'node:http';
import { many } from '../../../domain/sql';
import { createProviderOf } from '../../../payment-providers/configured';
import { listen } from '../../../runtime/listen';
import { payment_hosts, refusal, secrets, startApi, type TestApi } from '../../support/api';
import { makeKey } from '../../support/keys';

let api: TestApi;
let admin: string;
// What a stranger's server was asked, with the credentials that came along.
const heard: string[] = [];
const stranger = createServer((request, response) => {
  heard.push(`${request.url} ${request.headers.authorization}`);
  response.end('{}');
});
let stranger_url: string;

beforeAll(async () => {
  api = await startApi();
  admin = await makeKey(api.db, null, { scopes: ['platform:admin'] });
  stranger_url = `http://127.0.0.1:${await listen(stranger, 0)}`;
});
afterAll(async () => {
  stranger.close();
  await api.close();
});

const put = (body: object) => api.call('put', '/v1/admin/payments/config', { key: admin, body });

const a = { client_id: 'client-1', client_secret: 'secret-1', webhook_id: 'webhook-1' };
const b = { secret_key: 'sk_test_1', webhook_secret: 'whsec_1' };

const names = ['payment_provider_a', 'payment_provider_b'] as const;
const access = { payment_provider_a: a, payment_provider_b: b };

test.each(names)(
  'stored credentials of %s do not leave by a change of its address',
  async (name) => {
    expect((await put({ [name]: { enabled: true, ...access[name] } })).status).toBe(200);
    const before = await api.call('get', '/v1/admin/payments/config', { key: admin });
    const [first = '', ...rest] = Object.keys(access[name]);
    const { [first as never]: _, ...without } = access[name] as Record<string, string>;
    expect(rest.length).toBeGreaterThan(0);
    for (const given of [{}, without])
      expect(refusal(await put({ [name]: { base_url: stranger_url, ...given } }))).toMatchObject({
        status: 422,
        param: `${name}.base_url`,
      });
    expect((await api.call('get', '/v1/admin/payments/config', { key: admin })).body).toEqual(
      before.body,
    );
    // Who knows them may take them along; the same address needs nothing.
    const moved = await put({ [name]: { base_url: stranger_url, ...access[name] } });
    expect(moved.body[name]).toMatchObject({ base_url: stranger_url, configured: true });
    expect((await put({ [name]: { base_url: stranger_url } })).status).toBe(200);
    expect(heard).toEqual([]);
  },
);

test.each([
  'https://169.254.169.254',
  'https://10.0.0.1',
  'http://localhost:25',
  'http://127.0.0.2:8092',
  'https://api.stripe.com.evil.example',
  'https://api-m.paypal.com',
])('%s is no host of provider B, and this process does not list it', async (base_url) => {
  const { status, body } = await put({ payment_provider_b: { ...b, base_url } });
  expect([status, body.error.param]).toEqual([422, 'payment_provider_b.base_url']);
  expect(body.error.message).toContain('PAYMENT_HOSTS');
});

test.each([
  ['payment_provider_a', 'https://api-m.paypal.com'],
  ['payment_provider_a', 'https://api-m.sandbox.paypal.com'],
  ['payment_provider_b', 'https://api.stripe.com'],
] as const)('%s may be at %s, a host of its own', async (name, base_url) => {
  const { status, body } = await put({ [name]: { ...access[name], base_url } });
  expect([status, body[name].base_url]).toEqual([200, base_url]);
});

test.each(names)('an address of %s that was stored before the list is not asked', async (name) => {
  await put({ [name]: { enabled: true, ...access[name], base_url: stranger_url } });
  const asked = async (hosts: readonly string[]) => {
    const provider = await createProviderOf(api.db, secrets, hosts)(name);
    return provider.read('order-1');
  };
  heard.length = 0;
  await expect(asked([])).rejects.toThrow(/Nothing is sent to .* PAYMENT_HOSTS/);
  expect(heard).toEqual([]);
  await asked(payment_hosts).catch(() => undefined);
  expect(heard.length).toBeGreaterThan(0);
  await many(api.db, 'delete from payment_providers where name = :name', { name });
});
