import { routes } from '../../../api/table';
import type { Db } from '../../../domain/sql';
import { type CallApi, makeTenant, refusal, startApi, type Tenant } from '../../support/api';
import { makeKey, platformKey } from '../../support/keys';
import { fillLists, type Listed, listsOf } from './listed';

let db: Db;
let call: CallApi;
let close: () => Promise<void>;
let tenant: Tenant;
let lists: Record<string, Listed>;

beforeAll(async () => {
  ({ db, call, close } = await startApi());
  tenant = await makeTenant(db);
  const world = { db, call, tenant, platform: await platformKey(db) };
  lists = listsOf(world);
  await fillLists(world);
});

afterAll(() => close());

/** Whether a list takes a field, by its path in the document. */
function takes(path: string, field: string): boolean {
  const row = routes.find(
    (one) => one.method === 'get' && one.path.replace(/:(\w+)/g, '{$1}') === path,
  );
  return row !== undefined && field in row.input.shape;
}

const ask = ({ path, key }: Listed, query: string) => call('get', `${path}?${query}`, { key });
const rowsOf = (body: object) => Object.values(body).find(Array.isArray) as object[];
const inParts = () => Object.entries(lists).filter(([path]) => takes(path, 'cursor'));

// Of these there are few: the API bounds them, only operators make them, or they go when their work
// is done (the outbox).
const short = [
  '/v1/admin/config-rollouts',
  '/v1/admin/gateway-config/versions',
  '/v1/admin/outbox',
  '/v1/approval-rules',
  '/v1/notice-destinations',
  '/v1/organizations/{id}/members/{user_id}/identities',
];
const of_organizations = [
  '/v1/payments/history',
  '/v1/exports',
  '/v1/export-schedules',
  '/v1/export-destinations',
  '/v1/provider-keys',
  '/v1/notice-messages',
  '/v1/notices',
];
// Its entries are those of /v1/audit-log, which has parts.
const older = '/v1/audit-events';

test('every list that can grow has parts beside its pages', () => {
  const pages_only = Object.keys(lists).filter((path) => !takes(path, 'cursor'));
  expect(pages_only.sort()).toEqual([...short, older].sort());
  for (const [path] of inParts()) expect([path, takes(path, 'sort')]).toEqual([path, true]);
});

test('the parts of each list, in both orders, are its rows without a count', async () => {
  const seen: Record<string, number> = {};
  for (const [name, list] of inParts())
    for (const sort of ['created_at', '-created_at']) {
      const whole = await ask(list, `per_page=200&sort=${sort}`);
      expect([name, whole.status]).toEqual([name, 200]);
      expect([name, whole.body.total]).toEqual([name, rowsOf(whole.body).length]);
      const parts: object[] = [];
      for (let cursor: string | null = 'first'; cursor !== null; ) {
        const { status, body } = await ask(list, `per_page=3&sort=${sort}&cursor=${cursor}`);
        expect([name, status]).toEqual([name, 200]);
        expect([name, Object.keys(body).length, 'total' in body]).toEqual([name, 3, false]);
        expect([name, body.has_more]).toEqual([name, body.next !== null]);
        parts.push(...rowsOf(body));
        cursor = body.next;
      }
      expect([name, sort, parts]).toEqual([name, sort, rowsOf(whole.body)]);
      seen[name] = parts.length;
    }
  const few = ['/v1/admin/issuers', ...of_organizations].filter((name) => (seen[name] ?? 0) < 4);
  expect(few).toEqual([]);
});

test('a cursor is of one list and one order, and goes without pages', async () => {
  for (const [name, list] of inParts()) {
    const { next } = (await ask(list, 'per_page=1&cursor=first')).body;
    const of_another = name === '/v1/tokens' ? '/v1/exports' : '/v1/tokens';
    const other = (await ask(lists[of_another] as Listed, 'per_page=1&cursor=first')).body.next;
    const wrong: [string, string][] = [
      [`cursor=${other}`, 'cursor'],
      ['page=2&cursor=first', 'page'],
      ['sort=salary', 'sort'],
      ['cursor=first&per_page=201', 'per_page'],
    ];
    if (next !== null) wrong.push([`sort=created_at&cursor=${next}`, 'cursor']);
    for (const [query, param] of wrong)
      expect([name, query, refusal(await ask(list, query))]).toEqual([
        name,
        query,
        { status: 422, code: 'invalid_field', param },
      ]);
  }
});

test.each([
  ['/v1/payments/history', 'status=created', 'status=canceled'],
  ['/v1/payments/sessions', 'provider=payment_provider_a', 'provider=payment_provider_b'],
  ['/v1/admin/payments', 'from_date=2020-01-01', 'to_date=2020-01-01'],
  ['/v1/exports', 'status=canceled', 'status=failed'],
  ['/v1/admin/exports', 'status=canceled', 'status=running'],
  ['/v1/admin/issuers', 'q=acm', 'q=globex'],
  ['/v1/wallets', 'status=depleted', 'status=in_debt'],
  ['/v1/admin/wallets', 'status=depleted', 'status=in_debt'],
  ['/v1/notice-messages', 'status=delivered', 'status=failed'],
])('the parts of %s with %s are of those rows alone', async (path, some, none) => {
  const list = lists[path] as Listed;
  const { next, ...first } = (await ask(list, `${some}&per_page=3&cursor=first`)).body;
  expect(rowsOf(first)).toHaveLength(3);
  expect(rowsOf((await ask(list, `${some}&per_page=3&cursor=${next}`)).body)).toHaveLength(3);
  expect((await ask(list, `${none}&cursor=first`)).body).toMatchObject({
    ...{ has_more: false, next: null },
  });
  expect(rowsOf((await ask(list, `${none}&cursor=first`)).body)).toEqual([]);
  expect(refusal(await ask(list, `${none}&cursor=${next}`))).toMatchObject({ param: 'cursor' });
});

test("a cursor of one organization's list is of no other's, and shows nothing of it", async () => {
  const stranger = await makeTenant(db);
  for (const path of of_organizations) {
    const list = lists[path] as Listed;
    const { next } = (await ask(list, 'per_page=1&cursor=first')).body;
    const theirs = { ...list, key: stranger.owner_key };
    expect([path, refusal(await ask(theirs, `cursor=${next}`))]).toMatchObject([
      path,
      { status: 422, param: 'cursor' },
    ]);
    expect([path, rowsOf((await ask(theirs, 'cursor=first')).body)]).toEqual([path, []]);
  }
});

test('issuers are sorted by name, whatever its case', async () => {
  await db('identity_issuers').insert({
    name: 'aaa',
    issuer: 'https://aaa.example',
    client_id: 'client of aaa',
    jwks_url: 'https://aaa.example/jwks',
  });
  const list = lists['/v1/admin/issuers'] as Listed;
  const { issuers } = (await ask(list, 'sort=name&cursor=first&per_page=2')).body;
  expect(issuers.map(({ name }: { name: string }) => name)).toEqual(['aaa', 'Acme']);
});

test("the parts of a person's payments go on with another key of theirs, as after a sign-in", async () => {
  const list = lists['/v1/payments/sessions'] as Listed;
  const whole = rowsOf((await ask(list, 'per_page=200')).body);
  const { next, ...first } = (await ask(list, 'per_page=1&cursor=first')).body;
  const key = await makeKey(db, tenant.org_id, { user_id: tenant.member_id });
  const rest = (await ask({ ...list, key }, `per_page=200&cursor=${next}`)).body;
  expect([...rowsOf(first), ...rowsOf(rest)]).toEqual(whole);
});
