import {
  cookieOf,
  jsonOf,
  startConsole,
  startListener,
  type TestConsole,
} from '../support/console/server';

// One browser has one cookie, whatever its tabs show: a page says what it shows.

let api: Awaited<ReturnType<typeof startListener>>;
let web: TestConsole;

beforeAll(async () => {
  api = await startListener();
  web = await startConsole(api.url, { gateway_url: api.url });
});
afterAll(() => Promise.all([web.close(), api.close()]));

/** The cookie of somebody who signs in to an organization. */
async function signedIn(user_id: string, org_id: string): Promise<string> {
  Object.assign(api, { user_id, org_id });
  const cookie = cookieOf(await web.ask('POST', '/api/session', { body: { access_key: 'key' } }));
  api.heard.length = 0;
  return cookie;
}

const shows = (user_id: string, org_id: string) => ({
  'x-svc-console-user': user_id,
  'x-svc-console-org': org_id,
});

const asked: [string, string, object | undefined][] = [
  ['POST', '/api/wallets/credit', { amount: 100 }],
  ['POST', '/api/tickets/t1/approve', {}],
  ['GET', '/api/wallets', undefined],
  ['GET', '/api/events/stream', undefined],
  ['POST', '/api/chat/messages', { model: 'm', messages: [{ role: 'user', content: 'Hello' }] }],
  ['GET', '/api/chat/models', undefined],
  ['DELETE', '/api/chat/key', undefined],
];

describe.each([
  ['the same person in another organization', 'user_1', 'org_2'],
  ['another person of the same organization', 'user_2', 'org_1'],
])('a tab that shows one, while another signed in as %s', (_, user_id, org_id) => {
  test.each(asked)('is refused %s %s, and nothing is asked', async (method, path, body) => {
    const cookie = await signedIn(user_id, org_id);
    const headers = shows('user_1', 'org_1');
    const answer = await web.ask(method, path, { cookie, headers, ...(body && { body }) });
    expect([answer.status, (await jsonOf(answer)).error.code]).toEqual([
      403,
      'browser_not_allowed',
    ]);
    expect(api.heard).toEqual([]);
  });

  test('learns who is signed in, and works once it shows that', async () => {
    const cookie = await signedIn(user_id, org_id);
    const before = { cookie, headers: shows('user_1', 'org_1') };
    expect((await web.ask('GET', '/api/me', before)).status).toBe(200);
    expect((await web.ask('GET', '/api/session', before)).status).toBe(200);
    const reloaded = { cookie, headers: shows(user_id, org_id), body: { amount: 100 } };
    expect((await web.ask('POST', '/api/wallets/credit', reloaded)).status).toBe(200);
    expect(api.heard.at(-1)?.url).toBe('/v1/wallets/credit');
  });
});
