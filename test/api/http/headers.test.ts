import { request } from 'undici';
import { startApi, type TestApi } from '../../support/api';
import { platformKey } from '../../support/keys';

let api: TestApi;

beforeAll(async () => {
  api = await startApi();
});
afterAll(() => api.close());

test('no answer is kept by a cache or guessed at: a new key, an error, an unknown path', async () => {
  const key = await platformKey(api.db);
  const made = await api.call('post', '/v1/tokens', {
    key,
    body: { name: 'service', token_type: 'access', scopes: ['control_plane'] },
  });
  expect(made.status).toBe(201);
  const answers = [
    made,
    await api.call('get', '/v1/wallets', {}),
    await api.call('get', '/nowhere', {}),
    await api.call('get', '/health', {}),
  ];
  for (const { headers } of answers)
    expect(headers).toMatchObject({
      'cache-control': 'no-store',
      'x-content-type-options': 'nosniff',
    });
});

test.each([
  ['https', 'max-age=31536000'],
  ['https, http', 'max-age=31536000'],
  ['http', undefined],
  [undefined, undefined],
])('an answer that came over %s says %s of what browsers ask from then on', async (proto, said) => {
  const headers: Record<string, string> = proto === undefined ? {} : { 'x-forwarded-proto': proto };
  for (const path of ['/health', '/v1/wallets', '/nowhere']) {
    const answer = await api.call('get', path, { headers });
    expect([path, answer.headers['strict-transport-security']]).toEqual([path, said]);
  }
});

test('what has an ETag may be kept and is asked for again', async () => {
  for (const path of [
    '/v1/model-pricing',
    '/openapi.json',
    '/docs',
    '/docs/swagger-ui-bundle.js',
  ]) {
    const first = await request(api.url + path);
    await first.body.dump();
    expect([path, first.headers['cache-control'], first.statusCode]).toEqual([
      path,
      'no-cache',
      200,
    ]);
    const headers = { 'if-none-match': first.headers.etag as string };
    const again = await request(api.url + path, { headers });
    expect([path, again.statusCode, await again.body.text()]).toEqual([path, 304, '']);
  }
});

test('the page of the documents runs its own scripts alone, is framed by nobody, and keeps no key', async () => {
  const page = await fetch(`${api.url}/docs`);
  const policy = page.headers.get('content-security-policy') ?? '';
  for (const rule of ["default-src 'none'", "script-src 'self';", "frame-ancestors 'none'"])
    expect(policy).toContain(rule);
  expect(await (await fetch(`${api.url}/docs/start.js`)).text()).not.toContain('persist');
});
