import { randomBytes } from 'node:crypto';
import { makeTenant, startApi, type TestApi } from '../support/api';
import {
  cookie_key,
  cookieOf,
  jsonOf,
  startConsole,
  startListener,
  type TestConsole,
} from '../support/console/server';
import { platformKey } from '../support/keys';

let api: TestApi;
let web: TestConsole;

beforeAll(async () => {
  // Each test signs in from an address of its own.
  api = await startApi({ trusted_proxies: ['127.0.0.1'] });
  web = await startConsole(api.url, { is_behind_proxy: true });
});
afterAll(async () => {
  await web.close();
  await api.close();
});

async function signedIn(access_key: string, at = web): Promise<string> {
  const answer = await at.ask('POST', '/api/session', { body: { access_key } });
  expect(answer.status).toBe(204);
  return cookieOf(answer);
}

test('a person signs in by a key, is who they are, and the key stands in no answer', async () => {
  const { member_key, member_id, org_id } = await makeTenant(api.db);
  const answer = await web.ask('POST', '/api/session', { body: { access_key: member_key } });
  const [set = ''] = answer.headers.getSetCookie();
  expect(set).toMatch(
    /^__Host-Http-svc=[\w.-]+; SameSite=Strict; Max-Age=\d+; Path=\/; Secure; HttpOnly$/,
  );
  expect(set).not.toContain('svc_ak');
  expect(await answer.text()).toBe('');
  const cookie = cookieOf(answer);
  const me = await jsonOf(await web.ask('GET', '/api/me', { cookie }));
  expect(me).toMatchObject({ user: { user_id: member_id }, org_id });
  expect(me.session).not.toBeNull();
});

test.each([
  ['a key that is none', { access_key: 'svc_ak_none' }, 401, 'invalid_credential'],
  ['a code that is none', { one_time_code: 'svc_otc_none' }, 401, 'invalid_credential'],
  ['two ways at once', { access_key: 'a', one_time_code: 'b' }, 422, 'invalid_field'],
  ['a field that nobody knows', { password: 'x' }, 422, 'unknown_field'],
])('%s signs nobody in', async (_, body, status, code) => {
  const answer = await web.ask('POST', '/api/session', { body });
  expect([answer.status, (await jsonOf(answer)).error.code]).toEqual([status, code]);
  expect(answer.headers.getSetCookie()).toEqual([]);
});

test('signing out ends the session at the API, so a copy of the cookie is worth nothing', async () => {
  const { member_key } = await makeTenant(api.db);
  const cookie = await signedIn(member_key);
  const out = await web.ask('DELETE', '/api/session', { cookie });
  expect([out.status, cookieOf(out)]).toEqual([204, '']);
  const again = await web.ask('GET', '/api/me', { cookie });
  expect(again.status).toBe(401);
  // Whoever signs in again meanwhile has another cookie by then: a late answer takes none out.
  const body = { model: 'm', messages: [] };
  const chat = await web.ask('POST', '/api/chat/messages', { cookie, body });
  for (const answer of [again, chat]) expect(answer.headers.getSetCookie()).toEqual([]);
  expect((await web.ask('DELETE', '/api/session', { cookie })).status).toBe(204);
});

test('a copy of the cookie chats no more once the session has ended, though it holds a key', async () => {
  const gateway = await startListener();
  const at = await startConsole(api.url, { gateway_url: gateway.url, is_behind_proxy: true });
  const { member_key, owner_key, org_id } = await makeTenant(api.db);
  await api.call('put', `/v1/organizations/${org_id}/member-keys`, {
    key: owner_key,
    body: { enabled: true },
  });
  const cookie = await signedIn(member_key, at);
  const body = { model: 'm', messages: [{ role: 'user', content: 'Hello' }] };
  const first = await at.ask('POST', '/api/chat/messages', { cookie, body });
  expect([first.status, gateway.heard.length]).toEqual([200, 1]);
  const copy = `${cookie}; ${cookieOf(first)}`;
  // Signed out in another browser, which knows nothing of the key.
  await at.ask('DELETE', '/api/session', { cookie });
  const again = await at.ask('POST', '/api/chat/messages', { cookie: copy, body });
  expect([again.status, gateway.heard.length]).toEqual([401, 1]);
  await Promise.all([at.close(), gateway.close()]);
});

test("an operator's session is a key of its own: it sees the chosen organization, and ends at sign-out", async () => {
  const { org_id, wallet_id } = await makeTenant(api.db);
  const platform = await platformKey(api.db);
  const first = await signedIn(platform);
  expect(await jsonOf(await web.ask('GET', '/api/session', { cookie: first }))).toMatchObject({
    is_operator: true,
    org_id: null,
  });
  expect((await web.ask('GET', '/api/wallets', { cookie: first })).status).toBe(422);
  const chosen = await web.ask('PUT', '/api/session/org', { cookie: first, body: { org_id } });
  const cookie = cookieOf(chosen);
  const { wallets } = await jsonOf(await web.ask('GET', '/api/wallets', { cookie }));
  expect(wallets).toMatchObject([{ wallet_id }]);
  const credit = { target_wallet_owner_type: 'organization', amount: 5 };
  const credited = await web.ask('POST', '/api/wallets/credit', { cookie, body: credit });
  expect([credited.status, (await jsonOf(credited)).wallet.balance]).toEqual([201, 5]);
  // A page of another tab, which shows no organization or another one, does nothing in this one.
  for (const shown of ['', 'org_other']) {
    const headers = { 'x-svc-console-org': shown };
    const elsewhere = { cookie, body: credit, headers };
    const answer = await web.ask('POST', '/api/wallets/credit', elsewhere);
    expect([answer.status, (await jsonOf(answer)).error.code]).toEqual([
      403,
      'browser_not_allowed',
    ]);
  }
  const shown = await web.ask('GET', '/api/wallets', {
    cookie,
    headers: { 'x-svc-console-org': org_id },
  });
  expect((await jsonOf(shown)).wallets).toMatchObject([{ balance: 5 }]);
  expect((await web.ask('DELETE', '/api/session', { cookie })).status).toBe(204);
  expect((await web.ask('GET', '/api/wallets', { cookie })).status).toBe(401);
  expect((await web.ask('GET', '/api/wallets', { cookie: first })).status).toBe(401);
  // The key that was typed is as it was.
  expect((await api.call('get', '/v1/admin/organizations', { key: platform })).status).toBe(200);
});

test('nobody else chooses an organization', async () => {
  const [own, other] = [await makeTenant(api.db), await makeTenant(api.db)];
  const cookie = await signedIn(own.member_key);
  const body = { org_id: other.org_id };
  expect((await web.ask('PUT', '/api/session/org', { cookie, body })).status).toBe(422);
  const asked = await web.ask('GET', `/api/wallets?org_id=${other.org_id}`, { cookie });
  expect(asked.status).toBe(404);
});

test('a key for cookies is exchanged without signing anybody out', async () => {
  const { member_key } = await makeTenant(api.db);
  const fresh = randomBytes(32).toString('base64');
  const [before, during, after] = await Promise.all([
    signedIn(member_key),
    startConsole(api.url, { cookie_keys: [fresh, cookie_key], is_behind_proxy: true }),
    startConsole(api.url, { cookie_keys: [fresh] }),
  ]);
  const statusAt = async (at: TestConsole, cookie: string) =>
    (await at.ask('GET', '/api/me', { cookie })).status;
  const sealed_anew = await signedIn(member_key, during);
  expect([await statusAt(during, before), await statusAt(during, sealed_anew)]).toEqual([200, 200]);
  expect([await statusAt(after, sealed_anew), await statusAt(after, before)]).toEqual([200, 401]);
  await Promise.all([during.close(), after.close()]);
});

test.each([
  ['another text', () => '__Host-Http-svc=e30.a.b.c.d'],
  ['one letter changed', (cookie: string) => cookie.replace(/.{4}$/, 'AAAA')],
  ['two of one name', (cookie: string) => `${cookie}; ${cookie}`],
])('a cookie that is %s is none', async (_, change) => {
  const { member_key } = await makeTenant(api.db);
  const cookie = change(await signedIn(member_key));
  expect((await web.ask('GET', '/api/me', { cookie })).status).toBe(401);
});

test('events pass as they happen, and go on after the last one that was read', async () => {
  const { org_id, owner_key } = await makeTenant(api.db);
  const { user_id } = (
    await api.call('post', `/v1/organizations/${org_id}/members`, {
      key: owner_key,
      body: { name: 'Olga', role: 'owner' },
    })
  ).body;
  const named = await api.call('post', '/v1/tokens', {
    key: owner_key,
    body: { name: 'olga', token_type: 'access', scopes: ['org:billing', 'events:read'], user_id },
  });
  const cookie = await signedIn(named.body.key);
  const stop = new AbortController();
  const headers = { accept: 'text/event-stream' };
  const stream = await web.ask('GET', '/api/events/stream', {
    cookie,
    headers,
    signal: stop.signal,
  });
  expect(stream.headers.get('content-type')).toContain('text/event-stream');
  await api.call('post', '/v1/tokens', {
    key: owner_key,
    body: { name: 'seen live', token_type: 'gateway', user_id },
  });
  const first = await idOf(stream, 'key.issued');
  stop.abort();
  const again = new AbortController();
  const resumed = await web.ask('GET', '/api/events/stream', {
    cookie,
    headers: { ...headers, 'last-event-id': first },
    signal: again.signal,
  });
  await api.call('post', '/v1/tokens', {
    key: owner_key,
    body: { name: 'seen after', token_type: 'gateway', user_id },
  });
  expect(await idOf(resumed, 'key.issued')).not.toBe(first);
  again.abort();
});

async function idOf(stream: Response, type: string): Promise<string> {
  let text = '';
  for await (const part of stream.body as unknown as AsyncIterable<Uint8Array>) {
    text += Buffer.from(part).toString();
    const id = new RegExp(`^id: (.*)\nevent: ${type}$`, 'm').exec(text)?.[1];
    if (id !== undefined) return id;
  }
  throw new Error(`The stream ended without ${type}: ${text}`);
}

test('the health route asks nobody, the other says whether the API is there', async () => {
  const away = await startConsole('http://127.0.0.1:9');
  const health = await fetch(`${away.url}/api/health`);
  expect(await health.json()).toEqual({
    status: 'ok',
    version: '1.5.0',
    api_url: 'https://api.example',
    gateway_url: 'https://gateway.example',
  });
  expect((await fetch(`${away.url}/readyz`)).status).toBe(503);
  expect((await fetch(`${web.url}/readyz`)).status).toBe(200);
  const answer = await away.ask('POST', '/api/session', { body: { access_key: 'x' } });
  expect([answer.status, (await jsonOf(answer)).error.code]).toEqual([503, 'unavailable']);
  await away.close();
});

test('identity providers are asked for by words, and the one that is chosen by its id', async () => {
  const other = await startListener();
  const web = await startConsole(other.url);
  const found = await web.ask('GET', '/api/session/issuers?q=exa%20mple');
  expect([found.status, await jsonOf(found)]).toEqual([
    200,
    { issuers: [{ id: 'iss_1', name: 'Example' }], has_more: false },
  ]);
  await web.ask('GET', '/api/session/issuers?q=%20');
  const begun = await web.ask('POST', '/api/session/oidc', { body: { issuer_id: 'iss_1' } });
  expect(begun.status).toBe(200);
  const asked = other.heard.map(({ url }) => url).filter((url) => url.startsWith('/v1/issuers'));
  expect(asked).toEqual(['/v1/issuers?q=exa%20mple', '/v1/issuers', '/v1/issuers?id=iss_1']);
  await Promise.all([web.close(), other.close()]);
});

test.each([
  ['1.4.9', 'api', 'upgrade the API first'],
  ['1.5.0', undefined, ''],
  ['1.5.7', undefined, ''],
  ['1.6.0', undefined, ''],
  ['1.7.0', 'console', 'upgrade the console'],
  ['2.0.0', 'console', 'upgrade the console'],
  ['0.9.0', 'api', 'upgrade the API first'],
])(
  'before an API %s it says what to upgrade, also to who is signed out: %s',
  async (version, upgrade, words) => {
    const other = await startListener(version);
    const before = await startConsole(other.url);
    // A page asks first who is signed in.
    const answer = await before.ask('GET', '/api/me');
    const forms = await before.ask('GET', '/api/session/issuers');
    if (upgrade !== undefined) {
      expect([answer.status, forms.status]).toEqual([426, 426]);
      const { error } = await jsonOf(answer);
      expect(error.message).toContain(`the API ${version}: ${words}.`);
      expect(error).toMatchObject({ api_version: version, console_version: '1.5.0', upgrade });
      // Nothing else was asked.
      expect(other.heard.map(({ url }) => url)).toEqual(['/health']);
    } else expect([answer.status, forms.status]).toEqual([401, 200]);
    await Promise.all([before.close(), other.close()]);
  },
);
