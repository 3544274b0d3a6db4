import { setTimeout as sleep } from 'node:timers/promises';
import {
  type CallApi,
  makeTenant,
  refusal,
  startApi,
  type Tenant,
  type TestApi,
} from '../../support/api';
import { gatewayToken } from '../../support/keys';

let api: TestApi;
let call: CallApi;
let tenant: Tenant;

beforeAll(async () => {
  // Twenty at once, then two a second.
  api = await startApi({ requests_per_minute: 120 });
  ({ call } = api);
  tenant = await makeTenant(api.db);
});

afterAll(() => api.close());

test('a key that asks too much is 429 with all its headers, before its body is read; others and gateways go on', async () => {
  const path = '/v1/wallets/balance';
  const ask = (key: string) => call('get', path, { key });
  const answers = [];
  for (let n = 0; n < 30; n += 1) answers.push((await ask(tenant.owner_key)).status);
  expect(answers.slice(0, 20)).toEqual(Array(20).fill(200));
  const body = '{"this is": no JSON';
  const refused = await call('post', '/v1/tokens', { key: tenant.owner_key, body });
  expect(refusal(refused)).toMatchObject({ status: 429, code: 'rate_limit_exceeded' });
  expect(refused.body.error.type).toBe('rate_limit_error');
  expect(refused.headers).toMatchObject({
    'retry-after': '1',
    'x-ratelimit-limit': '120',
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
  await sleep(1_100);
  expect((await ask(tenant.owner_key)).status).toBe(200);
});
