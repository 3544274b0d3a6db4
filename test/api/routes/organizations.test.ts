import { randomUUID } from 'node:crypto';
import { createKeyring } from '../../../api/ledger/keyring';
import { rolePermissions } from '../../../domain/people/roles';
import type { Db } from '../../../domain/sql';
import { type CallApi, makeTenant, refusal, startApi, type Tenant } from '../../support/api';
import { makeKey, platformKey } from '../../support/keys';

let db: Db;
let call: CallApi;
let close: () => Promise<void>;
let platform: string;
let tenant: Tenant;
let base: string;

beforeAll(async () => {
  ({ db, call, close } = await startApi());
  platform = await platformKey(db);
  tenant = await makeTenant(db);
  base = `/v1/organizations/${tenant.org_id}`;
});

afterAll(() => close());

const owner = (body?: object) => ({ key: tenant.owner_key, body });

async function isAlive(key: string): Promise<boolean> {
  return createKeyring(db)
    .check(key)
    .then(
      () => true,
      () => false,
    );
}

async function addMember(role = 'member') {
  const { body } = await call('post', `${base}/members`, owner({ name: 'Ann', role }));
  return body as { user_id: string };
}

test('a new organization has its wallet at 0 in its currency', async () => {
  const made = await call('post', '/v1/admin/organizations', {
    key: platform,
    body: { name: 'Acme', currency: 'EUR' },
  });
  expect(made.status).toBe(201);
  expect(made.body).toEqual({
    id: expect.stringMatching(/^org_/),
    name: 'Acme',
    currency: 'EUR',
    created_at: expect.any(String),
    suspended_at: null,
    suspended_for: null,
    archived_at: null,
  });
  const { body } = await call('get', `/v1/wallets?org_id=${made.body.id}`, { key: platform });
  expect(body.wallets).toMatchObject([
    { owner_type: 'organization', balance: 0, currency: 'EUR', owner_name: 'Acme' },
  ]);
  const found = await call('get', `/v1/organizations/${made.body.id}`, { key: platform });
  expect(found.body).toEqual(made.body);
});

test('an organization is in US dollars unless told otherwise', async () => {
  const { body } = await call('post', '/v1/admin/organizations', {
    key: platform,
    body: { name: 'Plain' },
  });
  expect(body.currency).toBe('USD');
});

test.each([
  [{}, 'name'],
  [{ name: ' ' }, 'name'],
  [{ name: 'x'.repeat(201) }, 'name'],
  [{ name: 7 }, 'name'],
  [{ name: 'a', currency: 'EURO' }, 'currency'],
])('an organization with %j is refused by name', async (body, param) => {
  const answer = await call('post', '/v1/admin/organizations', { key: platform, body });
  expect(refusal(answer)).toMatchObject({ status: 422, param });
});

test('the list of organizations is newest first, in pages that know their total', async () => {
  await makeTenant(db);
  const first = await call('get', '/v1/admin/organizations?per_page=1', { key: platform });
  expect(first.body).toMatchObject({ organizations: [expect.anything()], has_more: true });
  const beyond = await call('get', '/v1/admin/organizations?page=1000', { key: platform });
  expect(beyond.body).toEqual({ organizations: [], has_more: false, total: first.body.total });
});

test('teams are made, listed and archived; a name is free again afterwards', async () => {
  const name = `Team ${randomUUID()}`;
  const made = await call('post', `${base}/teams`, owner({ name }));
  expect(made).toMatchObject({ status: 201, body: { id: expect.stringMatching(/^team_/), name } });
  expect((await call('post', `${base}/teams`, owner({ name }))).status).toBe(409);
  const listed = await call('get', `${base}/teams`, { key: tenant.member_key });
  expect(listed.body.teams).toContainEqual(made.body);
  expect((await call('delete', `${base}/teams/${made.body.id}`, owner())).status).toBe(200);
  expect((await call('delete', `${base}/teams/${made.body.id}`, owner())).status).toBe(404);
  expect((await call('post', `${base}/teams`, owner({ name }))).status).toBe(201);
});

test('archiving a team or an agent revokes its keys in the same step, and moves no money', async () => {
  const { org_id, team_id, agent_id } = tenant;
  const keys = [
    await makeKey(db, org_id, { token_type: 'gateway', team_id }),
    await makeKey(db, org_id, { token_type: 'gateway', agent_id }),
  ];
  const before = await db('wallet_transactions').count();
  expect((await call('delete', `${base}/teams/${team_id}`, owner())).status).toBe(200);
  expect((await call('delete', `${base}/agents/${agent_id}`, owner())).status).toBe(200);
  expect(await Promise.all(keys.map(isAlive))).toEqual([false, false]);
  expect(await db('wallet_transactions').count()).toEqual(before);
});

test("a removed member's keys die in the same step; keys of others live", async () => {
  const { user_id } = await addMember();
  const access = await makeKey(db, tenant.org_id, { user_id });
  const gateway = await makeKey(db, tenant.org_id, { token_type: 'gateway', user_id });
  expect((await call('get', '/v1/wallets', { key: access })).status).toBe(200);
  expect((await call('delete', `${base}/members/${user_id}`, owner())).status).toBe(200);
  expect((await call('get', '/v1/wallets', { key: access })).status).toBe(401);
  expect([await isAlive(gateway), await isAlive(tenant.member_key)]).toEqual([false, true]);
  expect((await call('delete', `${base}/members/${user_id}`, owner())).status).toBe(404);
  const back = await call('post', `${base}/members`, owner({ user_id }));
  expect(back).toMatchObject({ status: 201, body: { user_id, role: 'member' } });
  expect(await isAlive(access)).toBe(false);
});

test('a key made while its person is removed does not survive the removal', async () => {
  for (let round = 0; round < 20; round += 1) {
    const { user_id } = await addMember();
    const [issued] = await Promise.all([
      call('post', '/v1/tokens', owner({ name: randomUUID(), token_type: 'access', user_id })),
      call('delete', `${base}/members/${user_id}`, owner()),
    ]);
    if (issued.status === 201) expect(await isAlive(issued.body.key)).toBe(false);
    else expect(issued.status).toBe(404);
  }
});

test('a member with a lower role loses what their keys could do', async () => {
  const { user_id } = await addMember('billing_admin');
  const key = await makeKey(db, tenant.org_id, { user_id, scopes: ['org:billing'] });
  const credit = () =>
    call('post', '/v1/wallets/credit', {
      key,
      body: { target_wallet_owner_type: 'organization', amount: 1 },
    });
  expect((await credit()).status).toBe(201);
  const changed = await call('put', `${base}/members/${user_id}`, owner({ role: 'member' }));
  expect(changed).toMatchObject({ status: 200, body: { user_id, role: 'member' } });
  expect((await credit()).status).toBe(403);
  expect((await call('get', '/v1/wallets', { key })).status).toBe(200);
});

test('nobody gives a role that may do more than they may: an admin makes no owner, of themselves least', async () => {
  const { user_id } = await addMember('admin');
  const key = await makeKey(db, tenant.org_id, { user_id, scopes: rolePermissions.admin });
  const attempts = [
    await call('put', `${base}/members/${user_id}`, { key, body: { role: 'owner' } }),
    await call('put', `${base}/members/${user_id}`, { key, body: { role: 'billing_admin' } }),
    await call('post', `${base}/members`, {
      key,
      body: { name: 'Accomplice', role: 'billing_admin' },
    }),
  ];
  expect(attempts.map(({ status }) => status)).toEqual([403, 403, 403]);
  expect(
    (await call('post', `${base}/members`, { key, body: { name: 'Admin', role: 'admin' } })).status,
  ).toBe(201);
});

test('an admin neither lowers nor removes an owner', async () => {
  const { user_id } = await addMember('owner');
  await addMember('owner');
  const key = await makeKey(db, tenant.org_id, { scopes: ['org:members'] });
  expect(
    (await call('put', `${base}/members/${user_id}`, { key, body: { role: 'member' } })).status,
  ).toBe(403);
  expect((await call('delete', `${base}/members/${user_id}`, { key })).status).toBe(403);
  expect((await call('delete', `${base}/members/${user_id}`, owner())).status).toBe(200);
});

test('people are taken in once, listed with their role, and taken out of a team', async () => {
  const { user_id } = await addMember();
  expect(refusal(await call('post', `${base}/members`, owner({ user_id }))).status).toBe(409);
  expect(refusal(await call('post', `${base}/members`, owner({}))).status).toBe(422);
  const team = await call('post', `${base}/teams`, owner({ name: randomUUID() }));
  const path = `${base}/teams/${team.body.id}/members`;
  for (let n = 0; n < 2; n += 1)
    expect((await call('post', path, owner({ user_id }))).status).toBe(201);
  expect((await call('delete', `${path}/${user_id}`, owner())).status).toBe(200);
  expect((await call('delete', `${path}/${user_id}`, owner())).status).toBe(404);
  const { body } = await call('get', `${base}/members`, { key: tenant.member_key });
  expect(body.members).toContainEqual(expect.objectContaining({ user_id, role: 'member' }));
});

test('an issuer and subject stand for one person only, whom a platform admin binds to them', async () => {
  const person = { name: 'Ann', issuer: 'https://id.example', subject: randomUUID() };
  const bind = (key: string) => call('post', `${base}/members`, { key, body: person });
  expect((await bind(tenant.owner_key)).status).toBe(403);
  expect((await bind(platform)).status).toBe(201);
  expect((await bind(platform)).status).toBe(409);
});
