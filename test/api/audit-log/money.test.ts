import { randomUUID } from 'node:crypto';
import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { asked } from '../../../domain/notices/recipients';
import { type Db, one } from '../../../domain/sql';
import { markFolder } from '../../../exports/folder';
import {
  type Answer,
  type CallApi,
  makePerson,
  makeTenant,
  secrets,
  startApi,
  type Tenant,
} from '../../support/api';
import { gatewayToken, platformKey } from '../../support/keys';
import { credit, makePrice, reserveBody } from '../../support/ledger';
import { newDestination } from '../changes-of-notices';
import { expectSides, loggedSince, newestId, type walked } from './routes';

// Money by hand, and what is written after a look outside: who, in which session, before and after.

let db: Db;
let call: CallApi;
let close: () => Promise<void>;
let tenant: Tenant;
let platform: string;
let gateway: string;
/** A session of a person who may do what these routes ask for. */
let session: { id: string; key: string };
let user_id: string;

beforeAll(async () => {
  const notice_reach = { networks: undefined, chat_hosts: [], has_mail: true };
  const export_dir = await mkdtemp(path.join(tmpdir(), 'svc-audit-'));
  ({ db, call, close } = await startApi({ export_dir, notice_reach }));
  await markFolder({ db, dir: export_dir });
  await makePrice(db);
  platform = await platformKey(db);
  gateway = await gatewayToken(db);
  tenant = await makeTenant(db);
  const person = await makePerson({ db, call }, tenant, 'owner');
  user_id = person.user_id;
  const made = await call('post', '/v1/sessions', { body: { access_key: person.key } });
  session = made.body;
  await credit(db, tenant.org_id, tenant.wallet_id, 100_000_000_000n);
});

afterAll(() => close());

interface Walk {
  path: string;
  body?: object;
  as?: string;
  actions: string[];
  /** Members of the first row's `before` and `after`. */
  before?: object;
  after?: object;
}

const gift = { target_wallet_owner_type: 'organization', amount: 5 };
const base = () => `/v1/organizations/${tenant.org_id}/teams/${tenant.team_id}`;
const june = { kinds: ['ledger'], from: '2026-06-01', to: '2026-06-03' };

async function excess(): Promise<string> {
  const body = reserveBody(tenant.org_id, 5);
  const hold = await call('post', '/v1/gateway/wallets/reserve', { key: gateway, body });
  const usage = { prompt_tokens: 9007199254740991, completion_tokens: 9007199254740991 };
  await call('post', '/v1/gateway/wallets/settle', {
    key: gateway,
    body: {
      org_id: tenant.org_id,
      reservation_id: hold.body.reservation_id,
      outcome: 'completed',
      usage,
    },
  });
  const listed = await call('get', '/v1/admin/settlement-excess?status=open', { key: platform });
  return listed.body.settlement_excess[0].id;
}

async function recipient(): Promise<{ id: string; code: string }> {
  const destination_id = await newDestination(db, tenant);
  const { id } = await one<{ id: string }>(
    db,
    `insert into notice_recipients (destination_id, address) values (:destination_id, 'a@example.com') returning id`,
    { destination_id },
  );
  return { id, code: (await asked(db, secrets, id)).code };
}

const walks: Record<(typeof walked)['money.test.ts'][number], () => Promise<Walk>> = {
  'post /v1/wallets/credit': async () => ({
    path: '/v1/wallets/credit',
    body: gift,
    actions: ['wallet.credited'],
    before: { balance_nanos: '100000000000' },
    after: {
      balance_nanos: '105000000000',
      amount_nanos: '5000000000',
      wallet_id: tenant.wallet_id,
    },
  }),
  'post /v1/wallets/allocate': async () => ({
    path: '/v1/wallets/allocate',
    body: { team_id: tenant.team_id, amount: 2, note: 'June' },
    actions: ['wallet.allocated'],
    before: { to_balance_nanos: '0' },
    after: { to_balance_nanos: '2000000000', amount_nanos: '2000000000', description: 'June' },
  }),
  'post /v1/wallets/reclaim': async () => ({
    path: '/v1/wallets/reclaim',
    body: { team_id: tenant.team_id, amount: 1 },
    actions: ['wallet.reclaimed'],
    before: { from_balance_nanos: '2000000000' },
    after: { from_balance_nanos: '1000000000' },
  }),
  'post /v1/organizations/{id}/teams/{team_id}/allocate': async () => ({
    path: `${base()}/allocate`,
    body: { user_id: tenant.member_id, amount: 0.5 },
    actions: ['wallet.allocated'],
    after: { amount_nanos: '500000000' },
  }),
  'post /v1/organizations/{id}/teams/{team_id}/reclaim': async () => ({
    path: `${base()}/reclaim`,
    body: { user_id: tenant.member_id, amount: 0.25 },
    actions: ['wallet.reclaimed'],
    after: { amount_nanos: '250000000' },
  }),
  'post /v1/admin/wallets/credit': async () => ({
    path: '/v1/admin/wallets/credit',
    body: { ...gift, org_id: tenant.org_id },
    as: platform,
    actions: ['wallet.credited'],
  }),
  'post /v1/admin/settlement-excess/{id}': async () => ({
    path: `/v1/admin/settlement-excess/${await excess()}`,
    body: { action: 'drop', note: 'seen' },
    as: platform,
    actions: ['settlement_excess.dropped'],
    before: { status: 'open' },
    after: { status: 'dropped', note: 'seen' },
  }),
  'post /v1/exports': async () => ({
    path: '/v1/exports',
    body: june,
    actions: ['export.created'],
    after: { kinds: ['ledger'], format: 'jsonl' },
  }),
  'post /v1/admin/exports': async () => ({
    path: '/v1/admin/exports',
    body: june,
    as: platform,
    actions: ['export.created'],
  }),
  'post /v1/notice-destinations': async () => ({
    path: '/v1/notice-destinations',
    body: { name: 'Mail', channel: 'email' },
    actions: ['notice_destination.created'],
  }),
  'put /v1/notice-destinations/{id}': async () => ({
    path: `/v1/notice-destinations/${await newDestination(db, tenant)}`,
    body: { kinds: ['balance_low'] },
    actions: ['notice_destination.changed'],
    before: { kinds: ['ticket_created'] },
    after: { kinds: ['balance_low'] },
  }),
  'post /v1/notice-recipients/{id}/confirm': async () => {
    const { id, code } = await recipient();
    return {
      path: `/v1/notice-recipients/${id}/confirm`,
      body: { code },
      actions: ['notice_recipient.confirmed'],
    };
  },
  'post /v1/sessions': async () => ({
    path: '/v1/sessions',
    body: { access_key: (await makePerson({ db, call }, tenant, 'member')).key },
    actions: ['session.created'],
  }),
};

test.each(Object.entries(walks))('%s', async (name, walk) => {
  const { path: at, body, as = session.key, actions, before, after } = await walk();
  const newest = await newestId(db);
  const answer: Answer = await call(name.split(' ')[0] ?? '', at, {
    ...{ key: as, body, headers: { 'x-request-id': 'label-9' } },
  });
  expect([answer.status < 300, answer.text]).toEqual([true, answer.text]);
  const rows = await loggedSince(db, newest);
  expect(rows.map(({ action }) => action)).toEqual(actions);
  expectSides(rows);
  const [row] = rows;
  expect(row).toMatchObject({
    request_id: 'label-9',
    ...(after && { after }),
    ...(before && { before }),
  });
  if (name === 'post /v1/sessions') expect(row).toMatchObject({ actor_type: 'user' });
  else if (as === platform) expect(row).toMatchObject({ actor_type: 'platform', session_id: null });
  else
    expect(row).toMatchObject({
      ...{ actor_type: 'user', actor: user_id, session_id: session.id, key_id: session.id },
    });
});

test('a transfer that is not covered, and a repeat under its key, leave no row', async () => {
  const newest = await newestId(db);
  const body = { team_id: tenant.team_id, amount: 1_000_000 };
  expect((await call('post', '/v1/wallets/allocate', { key: session.key, body })).status).toBe(409);
  expect(await loggedSince(db, newest)).toEqual([]);
  const once = { key: session.key, body: gift, headers: { 'idempotency-key': randomUUID() } };
  await call('post', '/v1/wallets/credit', once);
  await call('post', '/v1/wallets/credit', once);
  expect(await loggedSince(db, newest)).toHaveLength(1);
});

test('a priced call writes no row, and takes no lock of a chain', async () => {
  const { org_id } = tenant;
  const newest = await newestId(db);
  // Whoever holds the chains would be waited for.
  await db.transaction(async (trx) => {
    await trx.raw('lock table audit_heads, audit_links, audit_events in access exclusive mode');
    const body = reserveBody(org_id, 5);
    const hold = await call('post', '/v1/gateway/wallets/reserve', { key: gateway, body });
    const { reservation_id } = hold.body;
    const usage = { prompt_tokens: 5, completion_tokens: 0 };
    const settle = { org_id, reservation_id, outcome: 'completed', usage };
    const settled = await call('post', '/v1/gateway/wallets/settle', {
      key: gateway,
      body: settle,
    });
    expect([hold.status, settled.status]).toEqual([200, 200]);
  });
  expect(await loggedSince(db, newest)).toEqual([]);
});
