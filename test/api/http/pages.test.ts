import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Db } from '../../../domain/sql';
import { root as root_folder } from '../../../runtime/root';
import { type CallApi, makeTenant, startApi, type Tenant } from '../../support/api';
import { platformKey } from '../../support/keys';
import { until } from '../../support/until';
import { fillLists, listsOf } from './listed';

let db: Db;
let call: CallApi;
let close: () => Promise<void>;
let tenant: Tenant;
let platform: string;
let root: string;

beforeAll(async () => {
  ({ db, call, close } = await startApi());
  tenant = await makeTenant(db);
  platform = await platformKey(db);
  root = `/v1/organizations/${tenant.org_id}`;
});

afterAll(() => close());

let made = 0;

const post =
  (path: string, body: object = {}) =>
  async () => {
    made += 1;
    const key = path.startsWith('/v1/admin') ? platform : tenant.owner_key;
    const answer = await call('post', path, { key, body: { name: `row ${made}`, ...body } });
    expect(answer.status).toBe(201);
  };

/** A person with a wallet, made by its first credit. */
const addWallet = async () => {
  made += 1;
  const { body } = await call('post', `${root}/members`, {
    ...{ key: tenant.owner_key, body: { name: `owner ${made}` } },
  });
  const answer = await call('post', '/v1/wallets/credit', {
    key: tenant.billing_key,
    body: { target_wallet_owner_type: 'user', target_wallet_owner_id: body.user_id, amount: 1 },
  });
  expect(answer.status).toBe(201);
};

type Row = Record<string, string>;

test.each<[string, () => string, () => Promise<void>]>([
  ['organizations', () => '/v1/admin/organizations', () => post('/v1/admin/organizations')()],
  ['teams', () => `${root}/teams`, () => post(`${root}/teams`)()],
  ['members', () => `${root}/members`, () => post(`${root}/members`)()],
  ['agents', () => `${root}/agents`, () => post(`${root}/agents`)()],
  ['tokens', () => '/v1/tokens', () => post('/v1/tokens', { token_type: 'gateway' })()],
  ['wallets', () => '/v1/wallets', addWallet],
])(
  'the pages of %s at one instant are the whole list, though rows are added between them',
  async (name, path, add) => {
    for (let n = 0; n < 4; n += 1) await add();
    const key = name === 'organizations' ? platform : tenant.owner_key;
    const list = async (query: string) => {
      const { status, body } = await call('get', `${path()}?${query}`, { key });
      expect(status).toBe(200);
      return { ids: body[name].map((row: Row) => row.id ?? row.user_id ?? row.wallet_id), ...body };
    };
    const whole = await list('per_page=200');
    const as_of = new Date(Date.now() + 1).toISOString();
    await until(() => new Date().toISOString() > as_of);
    const seen: string[] = [];
    for (let page = 1, more = true; more; page += 1) {
      const { ids, total, has_more } = await list(`per_page=2&page=${page}&as_of=${as_of}`);
      expect(total).toBe(whole.total);
      seen.push(...ids);
      more = has_more;
      await add();
    }
    expect(seen).toEqual(whole.ids);
  },
);

test('every list with pages of one instant has its row here', () => {
  const { paths } = JSON.parse(readFileSync(join(root_folder, 'openapi.json'), 'utf8'));
  const named = Object.entries<{ get?: { parameters?: { name: string }[] } }>(paths)
    .filter(([, { get }]) => get?.parameters?.some(({ name }) => name === 'as_of'))
    .map(([path]) => path);
  expect(named.sort()).toEqual(Object.keys(listsOf({ db, call, tenant, platform })).sort());
});

test('pages of three as of the newest time that a list shows repeat no row and skip none', async () => {
  const world = { db, call, tenant, platform };
  await fillLists(world);
  const seen: Record<string, number> = {};
  for (const [name, { path, table, column = 'created_at', key }] of Object.entries(
    listsOf(world),
  )) {
    // What a client read as the newest `created_at`: milliseconds.
    const rows = await db(table).max(`${column} as newest`);
    const as_of = (rows[0]?.newest ?? new Date()).toISOString();
    const list = async (query: string) => {
      const { status, body } = await call('get', `${path}?${query}`, { key });
      expect([name, status]).toEqual([name, 200]);
      return body;
    };
    const rowsOf = (body: object) => Object.values(body).find(Array.isArray) as object[];
    const whole = rowsOf(await list('per_page=200'));
    const paged: object[] = [];
    for (let page = 1, more = true; more; page += 1) {
      const body = await list(`per_page=3&page=${page}&as_of=${as_of}`);
      paged.push(...rowsOf(body));
      more = body.has_more;
    }
    expect([name, paged]).toEqual([name, whole]);
    seen[name] = paged.length;
  }
  const empty = Object.keys(seen).filter((name) => (seen[name] ?? 0) < 4);
  expect(empty.sort()).toEqual([
    '/v1/admin/config-rollouts',
    '/v1/admin/gateway-config/versions',
    '/v1/admin/settlement-excess',
    '/v1/approval-rules',
    '/v1/budgets',
    '/v1/cost-tickets',
    '/v1/notice-destinations',
    '/v1/wallets/{id}/reservations',
  ]);
});
