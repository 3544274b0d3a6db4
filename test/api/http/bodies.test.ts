import { once } from 'node:events';
import { connect } from 'node:net';
import {
  type CallApi,
  makeTenant,
  refusal,
  startApi,
  type Tenant,
  type TestApi,
} from '../../support/api';
import { cpuMsOf, leastOf } from '../../support/cpu';
import { gatewayToken, platformKey } from '../../support/keys';
import { plainConfig } from '../gateways/making';

let api: TestApi;
let call: CallApi;
let tenant: Tenant;

beforeAll(async () => {
  api = await startApi();
  ({ call } = api);
  tenant = await makeTenant(api.db);
});

afterAll(() => api.close());

const post = (body: string, key = tenant.owner_key) => call('post', '/v1/tokens', { key, body });

const names = (count: number) =>
  `{${Array.from({ length: count }, (_, n) => `"n${n}":1`).join(',')}}`;
const scopes = (count: number) =>
  `{"token_type":"access","name":"x","scopes":[${Array(count).fill('"x"').join(',')}]}`;

test.each([
  ['120,000 unknown names', names(120_000), 413],
  ['200,000 scopes', scopes(200_000), 413],
  ['60 kB of unknown names', names(5_500), 413],
  ['1,900 unknown names', names(1_900), 422],
  ['14,000 scopes', scopes(14_000), 413],
  ['1,900 scopes', scopes(1_900), 422],
  ['30,000 levels', `{"scopes":${'['.repeat(15_000)}${']'.repeat(15_000)}}`, 400],
])('a body of %s costs less than it costs to parse one of 1 MB', async (_name, body, status) => {
  const large = names(100_000);
  const parsed = await leastOf(15, 0, () => cpuMsOf(() => JSON.parse(large)));
  // A connection that rested for that long may be on its way to its end.
  await post(body).catch(() => undefined);
  // The client of this test is in the same process, so its part is in the figure.
  const answered = async () => expect((await post(body)).status).toBe(status);
  const cost = await leastOf(15, parsed, () => cpuMsOf(answered));
  expect(cost).toBeLessThan(parsed);
});

test('a body that names a member twice, in whatever spelling, is 400 and does nothing', async () => {
  for (const [param, body] of [
    ['name', '{"name":"a","token_type":"access","name":"b"}'],
    ['name', '{"name":"a","token_type":"access","na\\u006de":"b"}'],
    ['x', '{"name":"a","token_type":"access","scopes":[{"x":1,"x":2}]}'],
  ] as const)
    expect(refusal(await post(body))).toEqual({ status: 400, code: 'invalid_request', param });
  const twice = '{"name":"a:{\\"name\\"","token_type":"access","scopes":[]}';
  expect((await post(twice)).status).toBe(201);
});

test('bodies of people may have 64 kB, a whole configuration and those of gateways 1 MB', async () => {
  const long = 'x'.repeat(70_000);
  expect((await post(JSON.stringify({ name: long }))).status).toBe(413);
  const platform = await platformKey(api.db);
  const body = {
    config: plainConfig({
      model_groups: [{ name: 'a', description: long, models: ['gpt-4o-mini'] }],
    }),
  };
  const config = await call('put', '/v1/admin/gateway-config', { key: platform, body });
  expect(config.status).toBe(200);
  const key = await gatewayToken(api.db);
  const reserve = { key, body: { org_id: long } };
  expect((await call('post', '/v1/gateway/wallets/reserve', reserve)).status).toBe(422);
});

/** Sends bytes as they are; what comes back until the connection ends. */
async function raw(text: string, dripping = ''): Promise<string> {
  const { hostname, port } = new URL(api.url);
  const socket = connect(Number(port), hostname);
  let answer = '';
  socket.setEncoding('utf8').on('data', (chunk) => {
    answer += chunk;
  });
  socket.on('error', () => undefined);
  socket.write(text);
  const timer = setInterval(() => dripping && socket.write(dripping), 500);
  await once(socket, 'close');
  clearInterval(timer);
  return answer;
}

test('a webhook of nobody may not drip: its connection ends with 408', async () => {
  const head = 'POST /v1/payments/webhooks/payment_provider_b HTTP/1.1\r\nhost: x\r\n';
  const answer = await raw(`${head}content-length: 1000000\r\n\r\n{`, ' ');
  expect(answer).toMatch(/^HTTP\/1.1 408 /);
});

test('a request with two Host headers is 400', async () => {
  const answer = await raw(
    'GET /health HTTP/1.1\r\nhost: a\r\nHost: b\r\nconnection: close\r\n\r\n',
  );
  expect(answer).toMatch(/^HTTP\/1.1 400 /);
  const one = await raw('GET /health HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n');
  expect(one).toMatch(/^HTTP\/1.1 200 /);
});
