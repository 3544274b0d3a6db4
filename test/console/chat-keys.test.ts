import { many } from '../../domain/sql';
import { makeTenant, startApi, type TestApi } from '../support/api';
import { cookieOf, startConsole, startListener, type TestConsole } from '../support/console/server';

let api: TestApi;

beforeAll(async () => {
  // Each test signs in from an address of its own.
  api = await startApi({ trusted_proxies: ['127.0.0.1'] });
});
afterAll(() => api.close());

async function signedIn(access_key: string, at: TestConsole): Promise<string> {
  const answer = await at.ask('POST', '/api/session', { body: { access_key } });
  expect(answer.status).toBe(204);
  return cookieOf(answer);
}

test('signing out ends each key that tabs of the session have made for its chat at once', async () => {
  const gateway = await startListener();
  const at = await startConsole(api.url, { gateway_url: gateway.url, is_behind_proxy: true });
  const { member_key, owner_key, org_id } = await makeTenant(api.db);
  await api.call('put', `/v1/organizations/${org_id}/member-keys`, {
    key: owner_key,
    body: { enabled: true },
  });
  const living = async () => {
    const { body } = await api.call('get', '/v1/me/keys?status=active', { key: member_key });
    return body.tokens.map(({ name }: { name: string }) => name.slice(0, 8));
  };
  // Both sessions end with the key that opened them, at one moment.
  await many(
    api.db,
    `update tokens set expires_at = clock_timestamp() + interval '1 hour' where org_id = :org_id and purpose = 'key'
       and token_type = 'access'`,
    { org_id },
  );
  const [cookie, other] = [await signedIn(member_key, at), await signedIn(member_key, at)];
  const body = { model: 'm', messages: [{ role: 'user', content: 'Hello' }] };
  const tabs = [cookie, cookie, other].map((one) =>
    at.ask('POST', '/api/chat/messages', { cookie: one, body }),
  );
  const [first] = await Promise.all(tabs);
  expect((await living()).filter((name: string) => name === 'chat of ')).toHaveLength(3);
  // The browser keeps the cookie of one of its tabs.
  const both = `${cookie}; ${first && cookieOf(first)}`;
  expect((await at.ask('DELETE', '/api/session', { cookie: both })).status).toBe(204);
  expect((await living()).filter((name: string) => name === 'chat of ')).toHaveLength(1);
  await Promise.all([at.close(), gateway.close()]);
});
