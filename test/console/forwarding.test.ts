import { once } from 'node:events';
import { connect } from 'node:net';
import { Client } from 'undici';
import {
  cookieOf,
  jsonOf,
  startConsole,
  startListener,
  type TestConsole,
} from '../support/console/server';

let api: Awaited<ReturnType<typeof startListener>>;
let web: TestConsole;
let cookie: string;

beforeAll(async () => {
  api = await startListener();
  web = await startConsole(api.url);
  cookie = cookieOf(await web.ask('POST', '/api/session', { body: { access_key: 'svc_ak_own' } }));
});
afterAll(() => Promise.all([web.close(), api.close()]));
beforeEach(() => {
  api.heard.length = 0;
});

const heard = () => api.heard.filter(({ url }) => url !== '/health');

test('the API hears the session, the address and the version, and nothing else of the browser', async () => {
  const answer = await web.ask('GET', '/api/tickets?status=open', {
    cookie,
    headers: {
      'x-request-id': 'of-the-page',
      traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
      authorization: 'Bearer svc_ak_forged',
      'x-org-id': 'org_2',
      'x-forwarded-for': '203.0.113.7',
    },
  });
  expect(answer.status).toBe(200);
  expect(heard()).toHaveLength(1);
  const [{ url, headers }] = heard() as [(typeof api.heard)[number]];
  expect(url).toBe('/v1/cost-tickets?status=open');
  expect(headers).toMatchObject({
    authorization: 'Bearer svc_ak_secret',
    'x-request-id': 'of-the-page',
    'x-svc-console-version': '1.5.0',
    traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
    // This console trusts no proxy, so it names whom it sees.
    'x-forwarded-for': '127.0.0.1',
  });
  for (const name of ['cookie', 'x-org-id', 'origin', 'x-svc-console', 'sec-fetch-site'])
    expect(headers).not.toHaveProperty(name);
  // What the API sets is not the browser's.
  expect(answer.headers.getSetCookie()).toEqual([]);
  expect(answer.headers.get('cache-control')).toBe('no-store');
  expect(answer.headers.get('access-control-allow-origin')).toBeNull();
});

test.each([
  ['/api/nothing', '404'],
  ['/api/v1/cost-tickets', '404'],
  ['/api/gateway/wallets/reserve', '404'],
  ['/api/../v1/gateway/wallets/reserve', 'page'],
  ['/api/tickets/a/b/c', '404'],
  ['/API/tickets', 'page'],
  ['/api/tickets/', '404'],
])('%s is forwarded nowhere', async (path, expected) => {
  const answer = await web.ask('GET', path, { cookie });
  if (expected === '404') expect(answer.status).toBe(404);
  else expect(answer.headers.get('content-type')).toContain('text/html');
  expect(heard()).toEqual([]);
});

test('a name with slashes and dots stays one name', async () => {
  const name = encodeURIComponent('../../gateway/wallets/reserve?x=1#y');
  await web.ask('GET', `/api/keys/${name}`, { cookie });
  expect(heard().map(({ url }) => url)).toEqual([`/v1/tokens/${name}`]);
});

test.each(['%2e%2e', '%2E', '.%2e'])(
  'an id %s, a step up for a proxy on the way, is 404',
  async (id) => {
    // As it stands: a browser would take the step itself.
    const client = new Client(web.url);
    const headers = { cookie, 'x-svc-console': '1', 'sec-fetch-site': 'same-origin' };
    const answer = await client.request({ method: 'GET', path: `/api/keys/${id}`, headers });
    expect([answer.statusCode, await answer.body.json()]).toMatchObject([
      404,
      { error: { code: 'not_found', param: 'name' } },
    ]);
    expect(heard()).toEqual([]);
    await client.close();
  },
);

test('what an answer says of itself beside its body reaches the page', async () => {
  const { headers } = await web.ask('GET', '/api/spend/top/csv?by=tag', { cookie });
  expect(headers.get('x-svc-truncated')).toBe('true');
  expect(headers.get('idempotent-replayed')).toBe('true');
});

test('a method that no row has is answered here', async () => {
  for (const [method, path] of [
    ['PUT', '/api/tickets'],
    ['DELETE', '/api/wallets'],
    ['PATCH', '/api/me'],
  ] as const)
    expect((await web.ask(method, path, { cookie, body: {} })).status).toBe(404);
  expect(heard()).toEqual([]);
});

test('a checkout of the chat is of the organization, whatever the browser sends', async () => {
  await web.ask('POST', '/api/chat/payments/create-checkout', {
    cookie,
    body: {
      amount: 10,
      surface: 'console',
      target_wallet_owner_type: 'user',
      target_wallet_owner_id: 'user_2',
    },
  });
  expect(JSON.parse(heard()[0]?.body ?? '')).toEqual({
    amount: 10,
    surface: 'chat',
    target_wallet_owner_type: 'organization',
  });
  await web.ask('GET', '/api/chat/tickets?mine=false', { cookie });
  expect(heard()[1]?.url).toBe('/v1/cost-tickets?mine=true');
});

test('what the server writes over a body stands in no query either', async () => {
  const body = { amount: 10, return_url: 'https://console.example' };
  const path = '/api/chat/payments/create-checkout?target_wallet_owner_id=user_2&org_id=org_2';
  await web.ask('POST', path, { cookie, body });
  expect(heard()[0]?.url).toBe('/v1/payments/create-checkout');
});

test('a key that is made here is for the gateway, whatever the browser sends', async () => {
  const body = { name: 'x', token_type: 'access', scopes: ['org:billing'] };
  await web.ask('POST', '/api/keys', { cookie, body });
  expect(JSON.parse(heard()[0]?.body ?? '')).toMatchObject({ token_type: 'gateway' });
});

test('two hundred streams that are read for long hold up nobody else', async () => {
  const stop = new AbortController();
  const headers = { accept: 'text/event-stream' };
  const streams = Array.from({ length: 200 }, () =>
    web.ask('GET', '/api/events/stream', { cookie, headers, signal: stop.signal }),
  );
  for (const { status } of await Promise.all(streams)) expect(status).toBe(200);
  expect((await web.ask('GET', '/api/tickets', { cookie })).status).toBe(200);
  stop.abort();
});

test.each([
  ['another name', '&iss=https%3A%2F%2Fother.example', 'other_provider'],
  ['two names', '&iss=https%3A%2F%2Fid.example&iss=https%3A%2F%2Fid.example', 'other_provider'],
  ['another state', '&state=x', 'other_browser'],
  ['its own name', '&iss=https%3A%2F%2Fid.example', undefined],
  ['no name', '', undefined],
])('an identity provider that answers with %s', async (_, query, failed) => {
  const begun = await web.ask('POST', '/api/session/oidc', { body: { issuer_id: 'iss_1' } });
  const { url } = await jsonOf(begun);
  const state = new URL(url).searchParams.get('state');
  const kept = begun.headers.getSetCookie().find((one) => one.includes('sign-in')) ?? '';
  const [sign_in = ''] = kept.split(';');
  api.heard.length = 0;
  const path = `/callback?code=c&state=${state}${query}`;
  const answer = await web.ask('GET', path, { cookie: sign_in });
  const to = failed === undefined ? '/' : `/login?failed=${failed}`;
  expect([answer.status, answer.headers.get('location')]).toEqual([302, to]);
  expect(heard().map((one) => one.url)).toEqual(failed === undefined ? ['/v1/sessions'] : []);
});

test('an invitation is sealed while its person is at the identity provider, and comes with the sign-in', async () => {
  const invitation = 'svc_otc_of-somebody';
  const begun = await web.ask('POST', '/api/session/oidc', {
    body: { issuer_id: 'iss_1', invitation },
  });
  const { url } = await jsonOf(begun);
  const kept = begun.headers.getSetCookie().find((one) => one.includes('sign-in')) ?? '';
  expect(`${url} ${kept}`).not.toContain(invitation);
  const [sign_in = ''] = kept.split(';');
  api.heard.length = 0;
  const path = `/callback?code=c&state=${new URL(url).searchParams.get('state')}`;
  await web.ask('GET', path, { cookie: sign_in });
  expect(JSON.parse(heard()[0]?.body ?? '')).toMatchObject({ code: 'c', invitation });
  const left = await web.ask('GET', '/callback?state=x', { cookie: sign_in });
  expect(left.headers.get('location')).toBe('/login?failed=other_browser&invited=yes');
});

test.each([['another text'], ['svc_otc_'], [`svc_otc_${'x'.repeat(4_000)}`], [7], [null]])(
  'no sign-in begins with %j as an invitation',
  async (invitation) => {
    const body = { issuer_id: 'iss_1', invitation };
    const begun = await web.ask('POST', '/api/session/oidc', { body });
    const { error } = await jsonOf(begun);
    expect([begun.status, error.param]).toEqual([422, 'invitation']);
    expect(begun.headers.getSetCookie()).toEqual([]);
  },
);

test.each([
  ['a body that is no JSON', '{', 400],
  ['a body that is no object', '[1]', 400],
  ['a body of more than 1 MiB', JSON.stringify({ note: 'x'.repeat(1_100_000) }), 413],
])('%s is refused here', async (_, body, status) => {
  const answer = await web.ask('POST', '/api/tickets/t1/deny', { cookie, body });
  expect(answer.status).toBe(status);
  expect(heard()).toEqual([]);
});

const refused: [string, Record<string, string>][] = [
  ['no mark', { 'x-svc-console': '' }],
  ['another mark', { 'x-svc-console': '2' }],
  ['another site', { 'sec-fetch-site': 'cross-site' }],
  ['a sibling of the site', { 'sec-fetch-site': 'same-site' }],
  ['a page that was typed', { 'sec-fetch-site': 'none' }],
  ['a foreign origin', { origin: 'https://evil.example' }],
  ['the origin null', { origin: 'null' }],
  ['neither site nor origin', { 'sec-fetch-site': '' }],
];

describe.each(['GET /api/tickets', 'POST /api/tickets/t1/deny', 'DELETE /api/session'])(
  '%s',
  (route) => {
    const [method = '', path = ''] = route.split(' ');
    const body = method === 'POST' ? {} : undefined;

    test.each(refused)('from %s is 403, and asks nobody', async (_, headers) => {
      const answer = await web.ask(method, path, {
        cookie,
        headers,
        ...(body ? { body } : {}),
      });
      expect(answer.status).toBe(403);
      expect(await answer.json()).toMatchObject({ error: { code: 'browser_not_allowed' } });
      expect(heard()).toEqual([]);
    });
  },
);

test('a browser that says no site is known by its exact origin', async () => {
  const headers = { 'sec-fetch-site': '', origin: 'https://console.example' };
  expect((await web.ask('GET', '/api/tickets', { cookie, headers })).status).toBe(200);
});

test('a question of another site before its request is answered with nothing that allows it', async () => {
  const answer = await web.ask('OPTIONS', '/api/tickets', {
    headers: { origin: 'https://evil.example', 'access-control-request-method': 'GET' },
  });
  expect([...answer.headers.keys()].filter((name) => name.startsWith('access-control'))).toEqual(
    [],
  );
});

test('the page is never stored and strictly bound; files of a build never change', async () => {
  const page = await web.ask('GET', '/tickets?status=open');
  expect(page.status).toBe(200);
  expect(page.headers.get('cache-control')).toBe('no-store');
  const policy = page.headers.get('content-security-policy') ?? '';
  expect(policy).toMatch(/^default-src 'none'; script-src 'self'; style-src 'self' 'nonce-/);
  expect(policy).not.toMatch(/unsafe|\*|https?:/);
  const again = await web.ask('GET', '/tickets');
  expect(again.headers.get('content-security-policy')).not.toBe(policy);
  const file = await web.ask('GET', '/assets/main-abc123.js');
  expect(file.headers.get('cache-control')).toBe('public, max-age=31536000, immutable');
  for (const path of ['/assets/main-old.js', '/assets/..%2fbuilt.json', '/favicon.ico'])
    expect([path, (await web.ask('GET', path)).status]).toEqual([path, 404]);
});

test('a body that does not come is refused in words, and its connection ends', async () => {
  const socket = connect(Number(new URL(web.url).port), '127.0.0.1');
  const parts: Buffer[] = [];
  socket.on('data', (part) => parts.push(part));
  const head = [
    'POST /api/session HTTP/1.1',
    'host: console.example',
    'x-svc-console: 1',
    'sec-fetch-site: same-origin',
    'content-type: application/json',
    'content-length: 30',
  ];
  socket.write(`${head.join('\r\n')}\r\n\r\n{"access_key":`);
  await once(socket, 'close');
  const said = Buffer.concat(parts).toString();
  expect(said).toMatch(/^HTTP\/1\.1 408 /);
  expect(said).toContain('The body did not arrive within 10 s. Send it again.');
});
