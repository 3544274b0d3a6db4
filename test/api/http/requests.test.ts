import { Agent } from 'undici';
import { type CallApi, makeTenant, refusal, startApi, type Tenant } from '../../support/api';
import { platformKey } from '../../support/keys';

let call: CallApi;
let close: () => Promise<void>;
let url: string;
let tenant: Tenant;
let platform: string;

beforeAll(async () => {
  const api = await startApi();
  ({ call, close, url } = api);
  tenant = await makeTenant(api.db);
  platform = await platformKey(api.db);
});

afterAll(() => close());

test('a name given twice, in path and body, is refused; the body never replaces the path', async () => {
  const answer = await call('put', `/v1/admin/organizations/${tenant.org_id}/wallet-settings`, {
    key: platform,
    body: { id: 'org_of_somebody_else', ticket_ttl_seconds: 5 },
  });
  expect(refusal(answer)).toEqual({ status: 422, code: 'unknown_field', param: 'id' });
  const inQuery = await call('post', `/v1/tokens/x/rotate?name=y`, { key: tenant.owner_key });
  expect(refusal(inQuery)).toEqual({ status: 422, code: 'unknown_field', param: 'name' });
});

test('a field named __proto__ is an unknown field, not a prototype', async () => {
  const body = '{"__proto__": {"name": "x"}, "token_type": "access"}';
  const answer = await call('post', '/v1/tokens', { key: tenant.owner_key, body });
  expect(refusal(answer)).toEqual({ status: 422, code: 'unknown_field', param: '__proto__' });
});

test('a path that cannot be decoded is no fault of the service', async () => {
  const answer = await call('get', '/v1/tokens/%E0%A4%A', { key: tenant.owner_key });
  expect(answer.status).toBeLessThan(500);
  expect(answer.body.type).toBe('error');
});

test('a compressed body is 415: it is read as it stands', async () => {
  const answer = await call('post', '/v1/tokens', {
    key: tenant.owner_key,
    body: '{}',
    headers: { 'content-encoding': 'gzip' },
  });
  expect(refusal(answer)).toMatchObject({ status: 415, code: 'unsupported_media_type' });
});

test('after a body of 20 MB the same connection serves the next request', async () => {
  const one_connection = new Agent({ connections: 1 });
  const send = async (body: string) => {
    const answer = await one_connection.request({
      origin: url,
      path: '/v1/tokens',
      method: 'POST',
      headers: { authorization: `Bearer ${tenant.owner_key}`, 'content-type': 'application/json' },
      body,
      // Long for a busy machine, and not for a request that never has its turn.
      signal: AbortSignal.timeout(60_000),
    });
    return { status: answer.statusCode, body: (await answer.body.json()) as { type?: string } };
  };
  const refused = await send(JSON.stringify({ name: 'x'.repeat(20_000_000) }));
  expect(refused).toMatchObject({ status: 413, body: { error: { code: 'payload_too_large' } } });
  expect(await send('{"name": "next", "token_type": "gateway"}')).toMatchObject({ status: 201 });
  await one_connection.close();
});
