import {
  type Answer,
  type CallApi,
  makeTenant,
  refusal,
  startApi,
  type Tenant,
  type TestApi,
} from '../../support/api';
import { gatewayToken } from '../../support/keys';
import { until } from '../../support/until';

let api: TestApi;
let call: CallApi;
let tenant: Tenant;

beforeAll(async () => {
  // Two at once, then one in five seconds.
  api = await startApi({ requests_per_minute: 12 });
  ({ call } = api);
  tenant = await makeTenant(api.db);
});

afterAll(() => api.close());

test('a key that asks too much is 429 with all its headers, before its body is read; others and gateways go on', async () => {
  const path = '/v1/wallets/balance';
  const ask = (key: string) => call('get', path, { key });
  for (let n = 0; n < 2; n += 1) expect((await ask(tenant.owner_key)).status).toBe(200);
  const body = '{"this is": no JSON';
  const broken = () => call('post', '/v1/tokens', { key: tenant.owner_key, body });
  // At once, as on a busy machine the next token may be there by now.
  const answers = await Promise.all(Array.from({ length: 5 }, broken));
  const refused = answers.find(({ status }) => status === 429) as Answer;
  expect(refusal(refused)).toMatchObject({ status: 429, code: 'rate_limit_exceeded' });
  expect(refused.body.error.type).toBe('rate_limit_error');
  expect(refused.headers).toMatchObject({
    'retry-after': expect.stringMatching(/^[1-5]$/),
    'x-ratelimit-limit': '12',
    'x-ratelimit-remaining': '0',
    'x-ratelimit-reset': expect.stringMatching(/^\d{10}$/),
  });
  expect((await ask(tenant.billing_key)).status).toBe(200);
  const machine = await gatewayToken(api.db);
  const verify = { key: machine, body: { key: 'svc_gk_probe' } };
  for (let n = 0; n < 40; n += 1) {
    expect((await call('post', '/v1/gateway/keys/verify', verify)).status).toBe(401);
    expect((await call('get', '/health')).status).toBe(200);
    const webhook = { body: '{}', headers: { 'content-type': 'application/json' } };
    const path = '/v1/payments/webhooks/payment_provider_b';
    expect((await call('post', path, webhook)).status).not.toBe(429);
  }
  await until(async () => (await ask(tenant.owner_key)).status === 200);
});
