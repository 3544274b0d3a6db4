import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import * as paymentEvents from '../../../domain/payments/events';
import * as sessions from '../../../domain/payments/sessions';
import type { Db } from '../../../domain/sql';
import { root as root_folder } from '../../../runtime/root';
import { type CallApi, makeTenant, startApi, type Tenant } from '../../support/api';
import { makeKey, platformKey } from '../../support/keys';
import { makeOwnKey } from '../../support/ledger';
import { until } from '../../support/until';

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

// Each list with pages of one instant, and the table whose times they show.
interface Listed {
  path: () => string;
  table: string;
  /** What says when a row was made, if not `created_at`. */
  column?: string;
  key: () => string;
}

const listed: Record<string, Listed> = {
  '/v1/wallets': { path: () => '/v1/wallets', table: 'wallets', key: () => tenant.billing_key },
  '/v1/admin/wallets': adminList('/v1/admin/wallets', 'wallets'),
  '/v1/admin/settlement-excess': adminList('/v1/admin/settlement-excess', 'settlement_excess'),
  '/v1/admin/issuers': adminList('/v1/admin/issuers', 'identity_issuers'),
  '/v1/admin/organizations': adminList('/v1/admin/organizations', 'organizations'),
  '/v1/organizations/{id}/teams': ownList(() => `${root}/teams`, 'teams'),
  '/v1/organizations/{id}/members': ownList(() => `${root}/members`, 'memberships'),
  '/v1/organizations/{id}/members/{user_id}/identities': ownList(
    () => `${root}/members/${tenant.member_id}/identities`,
    'identities',
  ),
  '/v1/organizations/{id}/agents': ownList(() => `${root}/agents`, 'agents'),
  '/v1/tokens': ownList(() => '/v1/tokens', 'tokens'),
  '/v1/me/keys': { path: () => '/v1/me/keys', table: 'tokens', key: () => tenant.member_key },
  '/v1/organizations/{id}/teams/{team_id}/members': ownList(
    () => `${root}/teams/${tenant.team_id}/members`,
    'team_members',
  ),
  '/v1/budgets': ownList(() => '/v1/budgets', 'budgets'),
  '/v1/approval-rules': ownList(() => '/v1/approval-rules', 'approval_rules'),
  '/v1/cost-tickets': ownList(() => '/v1/cost-tickets', 'cost_tickets'),
  '/v1/payments/history': ownList(() => '/v1/payments/history', 'payment_sessions'),
  '/v1/payments/sessions': {
    ...ownList(() => '/v1/payments/sessions', 'payment_sessions'),
    key: () => tenant.member_key,
  },
  '/v1/wallets/{id}/reservations': ownList(
    () => `/v1/wallets/${tenant.wallet_id}/reservations`,
    'reservations',
  ),
  '/v1/admin/payments/webhooks': {
    ...adminList('/v1/admin/payments/webhooks', 'payment_events'),
    column: 'received_at',
  },
  '/v1/admin/payments': adminList('/v1/admin/payments', 'payment_sessions'),
  '/v1/admin/gateway-config/versions': adminList(
    '/v1/admin/gateway-config/versions',
    'gateway_configs',
  ),
  '/v1/admin/config-rollouts': adminList('/v1/admin/config-rollouts', 'config_rollouts'),
  '/v1/admin/outbox': adminList('/v1/admin/outbox', 'outbox'),
  '/v1/exports': ownList(() => '/v1/exports', 'exports'),
  '/v1/admin/exports': adminList('/v1/admin/exports', 'exports'),
  '/v1/export-schedules': ownList(() => '/v1/export-schedules', 'export_schedules'),
  '/v1/export-destinations': ownList(() => '/v1/export-destinations', 'export_destinations'),
  '/v1/notice-destinations': ownList(() => '/v1/notice-destinations', 'notice_destinations'),
  '/v1/provider-keys': ownList(() => '/v1/provider-keys', 'provider_keys'),
  '/v1/notice-messages': ownList(() => '/v1/notice-messages', 'notice_messages'),
  '/v1/notices': ownList(() => '/v1/notices', 'notices'),
  '/v1/audit-events': ownList(() => '/v1/audit-events', 'audit_events'),
  '/v1/audit-log': ownList(() => '/v1/audit-log', 'audit_events'),
};

function adminList(path: string, table: string) {
  return { path: () => path, table, key: () => platform };
}

function ownList(path: () => string, table: string) {
  return { path, table, key: () => tenant.owner_key };
}

test('every list with pages of one instant has its row here', () => {
  const { paths } = JSON.parse(readFileSync(join(root_folder, 'openapi.json'), 'utf8'));
  const named = Object.entries<{ get?: { parameters?: { name: string }[] } }>(paths)
    .filter(([, { get }]) => get?.parameters?.some(({ name }) => name === 'as_of'))
    .map(([path]) => path);
  expect(named.sort()).toEqual(Object.keys(listed).sort());
});

async function addSessions(): Promise<void> {
  const { org_id, member_id: user_id } = tenant;
  for (let n = 0; n < 14; n += 1)
    await sessions.create(db, {
      buyer: { org_id, user_id: n % 2 ? user_id : null, created_by: n % 2 ? user_id : 'key_x' },
      provider: 'payment_provider_a',
      surface: 'console',
      amount_nanos: 10n ** 10n,
      currency: 'USD',
      owner: { owner_type: 'organization' },
      return_url: 'https://shop.example/',
      cancel_url: 'https://shop.example/',
    });
}

async function addWebhooks(): Promise<void> {
  for (let n = 0; n < 7; n += 1)
    await paymentEvents.record(db, {
      ...{ provider: 'payment_provider_b', id: `event ${n}`, type: 'captured', topic: 'payment' },
      ...{ payment_session_id: null, order_id: `order ${n}`, capture_id: null, body: '{}' },
    });
}

async function addExports(): Promise<void> {
  for (let n = 0; n < 7; n += 1)
    await db('exports').insert({
      org_id: tenant.org_id,
      kinds: ['ledger'],
      format: 'csv',
      from_time: '2026-06-01',
      to_time: '2026-06-02',
      status: 'canceled',
      snapshot: '1:1:',
      created_by: tenant.member_id,
    });
}

async function addDestinations(): Promise<void> {
  for (let n = 0; n < 7; n += 1) {
    await db('export_schedules').insert({
      org_id: tenant.org_id,
      kinds: ['ledger'],
      format: 'csv',
      every: 'day',
      lag_minutes: 60,
      window_from: new Date(),
      created_by: tenant.member_id,
    });
    await db('export_destinations').insert({
      id: `dest_${n}`,
      org_id: tenant.org_id,
      endpoint: 'https://s3.example.com',
      region: 'eu-central-1',
      bucket: `acme-${n}`,
      credentials: {},
      created_by: tenant.member_id,
    });
    const [issuer] = await db('identity_issuers')
      .insert({
        name: 'Acme',
        issuer: 'https://id.example',
        client_id: `client ${n}`,
        jwks_url: 'https://id.example/jwks',
      })
      .returning('id');
    await db('identities').insert({
      ...{ issuer_id: issuer.id, subject: `subject ${n}` },
      ...{ org_id: tenant.org_id, user_id: tenant.member_id },
    });
  }
}

/** Keys that stand for the member, and people in their team. */
async function addOwn(): Promise<void> {
  const { org_id, member_id: user_id, team_id } = tenant;
  for (let n = 0; n < 7; n += 1) {
    await makeKey(db, org_id, { token_type: 'gateway', user_id });
    await makeOwnKey(db, org_id, { provider: `provider ${n}` });
    const person = await call('post', `${root}/members`, {
      ...{ key: tenant.owner_key, body: { name: `mate ${n}` } },
    });
    const body = { user_id: person.body.user_id };
    await call('post', `${root}/teams/${team_id}/members`, { key: tenant.owner_key, body });
  }
}

test('pages of three as of the newest time that a list shows repeat no row and skip none', async () => {
  await addSessions();
  await addWebhooks();
  await addExports();
  await addDestinations();
  await addOwn();
  const seen: Record<string, number> = {};
  for (const [name, { path, table, column = 'created_at', key }] of Object.entries(listed)) {
    // What a client read as the newest `created_at`: milliseconds.
    const rows = await db(table).max(`${column} as newest`);
    const as_of = (rows[0]?.newest ?? new Date()).toISOString();
    const list = async (query: string) => {
      const { status, body } = await call('get', `${path()}?${query}`, { key: key() });
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
    '/v1/notice-messages',
    '/v1/notices',
    '/v1/wallets/{id}/reservations',
  ]);
});
