import {
  cookieOf,
  jsonOf,
  startConsole,
  startListener,
  type TestConsole,
} from '../support/console/server';

// The listener stands for the API and for the gateway: it answers each with a key.
let api: Awaited<ReturnType<typeof startListener>>;
let gateway: Awaited<ReturnType<typeof startListener>>;
let web: TestConsole;
let cookie: string;

beforeAll(async () => {
  [api, gateway] = await Promise.all([startListener(), startListener()]);
  web = await startConsole(api.url, { gateway_url: gateway.url });
});
afterAll(() => Promise.all([web.close(), api.close(), gateway.close()]));
beforeEach(async () => {
  cookie = cookieOf(await web.ask('POST', '/api/session', { body: { access_key: 'svc_ak_own' } }));
  api.heard.length = 0;
  gateway.heard.length = 0;
});

const messages = [{ role: 'user', content: 'Hello' }];

test('the gateway hears the model, the messages and the key, and nothing else of the browser', async () => {
  const answer = await web.ask('POST', '/api/chat/messages', {
    cookie,
    body: { model: 'gpt-4o-mini', messages },
    headers: { 'x-svc-hold-ms': '1', 'x-svc-tags': 'a=b', authorization: 'Bearer svc_gk_forged' },
  });
  expect(answer.status).toBe(200);
  const [{ url, headers, body }] = gateway.heard as [(typeof gateway.heard)[number]];
  expect(url).toBe('/v1/unified/chat/completions');
  expect(JSON.parse(body)).toEqual({
    model: 'gpt-4o-mini',
    messages,
    stream: true,
    stream_options: { include_usage: true },
  });
  expect(headers).toMatchObject({
    authorization: 'Bearer svc_ak_secret',
    'x-svc-include-cost': 'true',
    'x-svc-hold-ms': '0',
  });
  for (const name of ['cookie', 'origin', 'x-svc-tags', 'x-svc-cost-ticket'])
    expect(headers).not.toHaveProperty(name);
});

test('a message with a ticket waits, and says the same again', async () => {
  const body = { model: 'm', messages };
  await web.ask('POST', '/api/chat/messages', { cookie, body });
  await web.ask('POST', '/api/chat/messages', { cookie, body: { ...body, ticket_id: 'ticket_1' } });
  const [first, second] = gateway.heard;
  expect(second?.body).toBe(first?.body);
  expect(second?.headers).toMatchObject({
    'x-svc-cost-ticket': 'ticket_1',
    'x-svc-hold-ms': '50000',
  });
});

test('a key is made once and kept in a cookie, which says nothing of it; signing out ends it', async () => {
  const body = { model: 'm', messages };
  const made = () => api.heard.filter(({ url }) => url === '/v1/me/keys');
  const first = await web.ask('POST', '/api/chat/messages', { cookie, body });
  expect(made()).toHaveLength(1);
  const { name, expires_at } = JSON.parse(made()[0]?.body ?? '');
  // It ends with the session at the latest, which here has ten minutes.
  expect(Date.parse(expires_at) - Date.now()).toBeLessThanOrEqual(600_000);
  const sealed = cookieOf(first);
  expect(sealed).not.toContain('svc_ak_secret');
  const both = `${cookie}; ${sealed}`;
  await web.ask('POST', '/api/chat/messages', { cookie: both, body });
  expect(made()).toHaveLength(1);
  const out = await web.ask('DELETE', '/api/session', { cookie: both });
  expect(out.headers.getSetCookie().map((set) => set.split(';')[0])).toEqual([
    '__Host-Http-svc=',
    '__Host-Http-svc-chat=',
  ]);
  expect(api.heard.map(({ method, url }) => `${method} ${url}`)).toContain(
    `DELETE /v1/me/keys/${encodeURIComponent(name)}`,
  );
});

test.each([
  ['members may make keys', true, [], '/v1/me/keys', 200],
  ['only who manages keys may', false, ['tokens:write'], '/v1/tokens', 200],
  ['neither is so', false, ['org:billing'], undefined, 403],
])('%s: one key is asked for where it is allowed, and none where not', async (...given) => {
  const [, member_keys, permissions, url, status] = given;
  Object.assign(api, { member_keys, permissions });
  const answer = await web.ask('GET', '/api/chat/models', { cookie });
  Object.assign(api, { member_keys: true, permissions: [] });
  expect(answer.status).toBe(status);
  const made = api.heard.filter(({ method }) => method === 'POST');
  expect(made.map((one) => one.url)).toEqual(url === undefined ? [] : [url]);
  // People are told what to switch on, and no route.
  if (status === 403) expect((await jsonOf(answer)).error.message).not.toMatch(/\/v1\//);
});

test('keys of chats whose session has ended by itself are ended before another is made', async () => {
  const at = (hours: number) => new Date(Date.UTC(2030, 0, 1, hours)).toISOString();
  Object.assign(api, {
    sessions: [{ id: 'ses_living', expires_at: at(2) }],
    my_keys: [
      { name: 'chat of 2029-12-31, 0a1b2c3d', expires_at: at(1) },
      { name: 'chat of 2029-12-31, 0a1b2c3e', expires_at: at(2) },
      { name: 'chat of my own', expires_at: at(1) },
      { name: 'ci', expires_at: null },
    ],
  });
  await web.ask('POST', '/api/chat/messages', { cookie, body: { model: 'm', messages } });
  Object.assign(api, { sessions: [], my_keys: [] });
  const changed = api.heard.filter(({ method }) => method !== 'GET');
  expect(changed.map(({ method, url }) => `${method} ${url}`)).toEqual([
    `DELETE /v1/me/keys/${encodeURIComponent('chat of 2029-12-31, 0a1b2c3d')}`,
    'POST /v1/me/keys',
  ]);
});

test('a late answer of the chat leaves the session of a newer sign-in as it is, and is not of it', async () => {
  const body = { model: 'm', messages };
  const late = await web.ask('POST', '/api/chat/messages', { cookie, body });
  expect(late.headers.getSetCookie().map((set) => set.split('=')[0])).toEqual([
    '__Host-Http-svc-chat',
  ]);
  // Another tab has signed in meanwhile: the browser keeps that session beside the late cookie.
  api.session_key = 'svc_ak_of_another_tab';
  const signed_in = await web.ask('POST', '/api/session', { body: { access_key: 'svc_ak_own' } });
  api.heard.length = 0;
  const both = `${cookieOf(signed_in)}; ${cookieOf(late)}`;
  await web.ask('POST', '/api/chat/messages', { cookie: both, body });
  const made = api.heard.filter(({ url }) => url === '/v1/me/keys');
  expect(made).toHaveLength(1);
  expect(made[0]?.headers.authorization).toBe('Bearer svc_ak_of_another_tab');
  api.session_key = 'svc_ak_secret';
});

test.each([
  [{ messages }, 'model'],
  [{ model: 'm', messages: [] }, 'messages'],
  [{ model: 'm', messages: [{ role: 'system', content: 'x' }] }, 'messages'],
  [{ model: 'm', messages: [{ role: 'user', content: [] }] }, 'messages'],
  [{ model: 'm', messages, ticket_id: 1 }, 'ticket_id'],
  [{ model: 'm', messages, temperature: 2 }, 'temperature'],
])('%j is refused by its field, and asks nobody', async (body, param) => {
  const answer = await web.ask('POST', '/api/chat/messages', { cookie, body });
  expect(answer.status).toBe(422);
  expect((await jsonOf(answer)).error.param).toBe(param);
  expect([...api.heard, ...gateway.heard]).toEqual([]);
});

test('without a session, and without a gateway, nobody is asked', async () => {
  const body = { model: 'm', messages };
  expect((await web.ask('POST', '/api/chat/messages', { body })).status).toBe(401);
  const alone = await startConsole(api.url);
  const none = await alone.ask('POST', '/api/chat/messages', { cookie, body });
  expect(none.status).toBe(503);
  expect((await jsonOf(none)).error.message).toContain('CONSOLE_GATEWAY_URL');
  await alone.close();
  expect(gateway.heard).toEqual([]);
});
