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

test('a link to a file needs no script, is asked for as CSV, and is of the console only', async () => {
  const link = (site: string, path: string) =>
    web.ask('GET', path, {
      cookie,
      headers: { 'x-svc-console': '', 'sec-fetch-site': site, accept: 'text/html' },
    });
  const file_of_spend = await link('same-origin', '/api/spend/csv?from=2026-11-01');
  expect(file_of_spend.status).toBe(200);
  // Spreadsheets read it as UTF-8 by this mark alone.
  const [...marks] = new Uint8Array(await file_of_spend.arrayBuffer());
  expect(marks.slice(0, 3)).toEqual([0xef, 0xbb, 0xbf]);
  const [{ url, headers }] = heard() as [(typeof api.heard)[number]];
  expect([url, headers.accept]).toEqual(['/v1/spend?from=2026-11-01', 'text/csv']);
  for (const site of ['cross-site', 'same-site', 'none'])
    expect((await link(site, '/api/spend/csv')).status).toBe(403);
  expect((await link('same-origin', '/api/spend')).status).toBe(403);
  expect(heard()).toHaveLength(1);
  // The browser is sent to a bucket for a file, and by nothing else.
  const file = await link('same-origin', '/api/exports/exp_1/files/302');
  expect(file.status).toBe(302);
  expect(file.headers.get('location')).toBe('https://bucket.example/file');
  const other = await web.ask('GET', '/api/requests/%2Ffiles%2F302', { cookie });
  expect(other.headers.get('location')).toBeNull();
});

test('a refused file is a page for whoever opened its link in a tab, and JSON for everybody else', async () => {
  const file = '/api/exports/exp_1/files/410';
  const page = 'text/html,application/xhtml+xml,*/*;q=0.8';
  const opened = (headers: Record<string, string>, path = file) =>
    web.ask('GET', path, { headers: { 'x-svc-console': '', cookie, ...headers } });
  const gone = await opened({ accept: page });
  expect(gone.status).toBe(410);
  expect(gone.headers.get('content-type')).toBe('text/html; charset=utf-8');
  expect(gone.headers.get('cache-control')).toBe('no-store');
  const policy = gone.headers.get('content-security-policy') ?? '';
  expect(policy).toMatch(/^default-src 'none'; style-src 'nonce-/);
  expect(policy).not.toMatch(/unsafe|script|\*/);
  const text = await gone.text();
  for (const part of [
    '<h1>This file is not kept any more</h1>',
    'The files of &lt;this&gt; export are deleted.',
    'href="/exports/exp_1"',
    'req_of_the_api',
  ])
    expect(text).toContain(part);
  // The session has ended; the link was opened from elsewhere.
  const out = await opened({ accept: page, cookie: '' }, '/api/spend/csv');
  expect([out.status, out.headers.get('www-authenticate')]).toEqual([401, 'Bearer']);
  const words = await out.text();
  expect(words).toContain('<h1>You are signed out</h1>');
  expect(words).toContain('href="/spend"');
  const foreign = await opened({ accept: page, 'sec-fetch-site': 'cross-site' });
  expect([foreign.status, await foreign.text()]).toEqual([
    403,
    expect.stringContaining('This request comes from another site.'),
  ]);
  for (const accept of ['application/json', '*/*']) {
    const said = await opened({ accept });
    expect(said.status).toBe(410);
    expect((await jsonOf(said)).error.code).toBe('export_expired');
  }
  // No other route has such pages.
  const other = await web.ask('GET', '/api/tickets', { headers: { accept: page } });
  expect([other.status, other.headers.get('content-type')]).toEqual([
    401,
    'application/json; charset=utf-8',
  ]);
});
