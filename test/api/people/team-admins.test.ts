import { lockForTeam, teamsLedBy } from '../../../domain/people/team-rights';
import type { Db } from '../../../domain/sql';
import { many } from '../../../domain/sql';
import {
  type CallApi,
  issueBy,
  makePerson,
  makeTenant,
  type Person,
  refusal,
  startApi,
  type Tenant,
} from '../../support/api';
import { platformKey } from '../../support/keys';
import { until } from '../../support/until';

let db: Db;
let call: CallApi;
let close: () => Promise<void>;
let platform: string;
let tenant: Tenant;
let base: string;
let admin: Person;
let team: string;

beforeAll(async () => {
  ({ db, call, close } = await startApi());
  platform = await platformKey(db);
});

beforeEach(async () => {
  tenant = await makeTenant(db);
  base = `/v1/organizations/${tenant.org_id}`;
  team = `${base}/teams/${tenant.team_id}`;
  admin = await makePerson({ db, call }, tenant, 'member');
});

afterAll(() => close());

const owner = (body?: object) => ({ key: tenant.owner_key, body });

/** The person leads the tenant's team, whose wallet holds 10. */
async function makeLeader(): Promise<void> {
  const body = { user_id: admin.user_id, role: 'admin' };
  const made = await call('post', `${team}/members`, owner(body));
  expect(made).toMatchObject({ status: 201, body: { ...body, team_id: tenant.team_id } });
  await call('post', '/v1/admin/wallets/credit', {
    key: platform,
    body: {
      ...{ org_id: tenant.org_id, amount: 10 },
      ...{ target_wallet_owner_type: 'team', target_wallet_owner_id: tenant.team_id },
    },
  });
}

const move = (verb: string, body: object, key = admin.key) =>
  call('post', `${team}/${verb}`, { key, body });

test('an admin of a team allocates its money to its members, and takes back what they were given', async () => {
  await makeLeader();
  const given = await move('allocate', { user_id: tenant.member_id, amount: 4, note: 'June' });
  expect(given).toMatchObject({
    status: 200,
    body: { from: { owner_type: 'team', balance: 6 }, to: { owner_type: 'user', balance: 4 } },
  });
  // What others gave to this person is not the team's.
  await call('post', '/v1/wallets/credit', {
    key: tenant.owner_key,
    body: {
      ...{ target_wallet_owner_type: 'user', target_wallet_owner_id: tenant.member_id },
      amount: 5,
    },
  });
  const tooMuch = await move('reclaim', { user_id: tenant.member_id, amount: 4.5 });
  expect(refusal(tooMuch)).toMatchObject({ status: 409, code: 'insufficient_balance' });
  const taken = await move('reclaim', { user_id: tenant.member_id, amount: 3 });
  expect(taken.body).toMatchObject({ from: { balance: 6 }, to: { balance: 9 } });
  const again = await move('reclaim', { user_id: tenant.member_id, amount: 1.5 });
  expect(refusal(again)).toMatchObject({ status: 409, param: 'amount' });
  const short = await move('allocate', { user_id: tenant.member_id, amount: 9.01 });
  expect(refusal(short)).toMatchObject({ status: 409, code: 'insufficient_balance' });
});

test('an admin of a team gives its money to nobody else, and has no other right', async () => {
  await makeLeader();
  const outsider = await makePerson({ db, call }, tenant, 'member');
  const refused = await move('allocate', { user_id: outsider.user_id, amount: 1 });
  expect(refusal(refused)).toMatchObject({ status: 422, param: 'user_id' });
  const second = await call('post', `${base}/teams`, owner({ name: 'Second' }));
  const elsewhere = `${base}/teams/${second.body.id}/allocate`;
  const body = { user_id: tenant.member_id, amount: 1 };
  expect((await call('post', elsewhere, { key: admin.key, body })).status).toBe(403);
  expect((await move('allocate', body, tenant.member_key)).status).toBe(403);
  const whole = await call('post', '/v1/wallets/allocate', {
    key: admin.key,
    body: { team_id: tenant.team_id, amount: 1 },
  });
  expect(whole.status).toBe(403);
  const role = { role: 'admin' };
  const path = `${team}/members/${tenant.member_id}`;
  expect((await call('put', path, { key: admin.key, body: role })).status).toBe(403);
});

test('the right of a team admin ends with the role, the team, and the membership', async () => {
  const allocate = async () => {
    const body = { user_id: tenant.member_id, amount: 0.001 };
    return (await move('allocate', body)).status;
  };
  await makeLeader();
  expect(await allocate()).toBe(200);
  await call('put', `${team}/members/${admin.user_id}`, owner({ role: 'member' }));
  expect(await allocate()).toBe(403);
  await call('put', `${team}/members/${admin.user_id}`, owner({ role: 'admin' }));
  expect(await allocate()).toBe(200);
  const at = { org_id: tenant.org_id, user_id: admin.user_id };
  expect(await teamsLedBy(db, at)).toEqual([tenant.team_id]);
  await call('delete', team, owner());
  expect(await allocate()).toBe(403);
  expect(await teamsLedBy(db, at)).toEqual([]);
});

test('the right is read under the lock: lost meanwhile, nothing is moved', async () => {
  await makeLeader();
  const { org_id, team_id } = tenant;
  const principal = { id: admin.user_id, user_id: admin.user_id, scopes: [] };
  const { right } = await db.transaction((trx) =>
    lockForTeam(trx, { org_id, team_id }, principal, 'org:billing'),
  );
  expect(right).toBe('team_admin');
  let moving: Promise<{ status: number }> | undefined;
  await db.transaction(async (trx) => {
    await many(trx, 'select from lock_organization(:org_id)', { org_id });
    moving = move('allocate', { user_id: tenant.member_id, amount: 1 });
    await until(async () => (await waiting()) > 0);
    const { user_id } = admin;
    await many(trx, 'delete from team_members where user_id = :user_id', { user_id });
  });
  expect((await moving)?.status).toBe(403);
});

/** How many sessions wait for a lock. */
async function waiting(): Promise<number> {
  const rows = await many(
    db,
    `select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
  );
  return rows.length;
}

test('nobody makes themselves the admin of a team, but an owner', async () => {
  const people = await makePerson({ db, call }, tenant, 'admin');
  const role = { role: 'admin' };
  const own = await call('post', `${team}/members`, {
    key: people.key,
    body: { user_id: people.user_id, ...role },
  });
  expect(refusal(own)).toMatchObject({ status: 403, code: 'permission_denied', param: 'role' });
  await call('post', `${team}/members`, { key: people.key, body: { user_id: people.user_id } });
  const path = `${team}/members/${people.user_id}`;
  expect((await call('put', path, { key: people.key, body: role })).status).toBe(403);
  expect((await call('put', path, owner(role))).status).toBe(200);
  // Who leads may give the role up.
  const back = await call('put', path, { key: people.key, body: { role: 'member' } });
  expect(back).toMatchObject({ status: 200, body: { role: 'member' } });
  const chief = await makePerson({ db, call }, tenant, 'owner');
  const body = { user_id: chief.user_id, ...role };
  expect((await call('post', `${team}/members`, { key: chief.key, body })).status).toBe(201);
});

describe('nor by a puppet:', () => {
  let one: Person;
  const lead = (key: string, method: 'post' | 'put' = 'post', user_id = one.user_id) =>
    method === 'post'
      ? call('post', `${team}/members`, { key, body: { user_id, role: 'admin' } })
      : call('put', `${team}/members/${user_id}`, { key, body: { role: 'admin' } });

  /** A key of another admin, whom the person made for it. */
  async function puppetKey(): Promise<{ user_id: string; key: string }> {
    const made = await call('post', `${base}/members`, {
      key: one.key,
      body: { name: 'Puppet', role: 'admin' },
    });
    const { user_id } = made.body;
    const scopes = ['org:members', 'tokens:write'];
    return { user_id, key: (await issueBy(call, one.key, { user_id, scopes })).body.key };
  }

  beforeEach(async () => {
    one = await makePerson({ db, call }, tenant, 'admin');
    await call('post', `${team}/members`, { key: one.key, body: { user_id: tenant.member_id } });
  });

  test('a key that they made for another admin', async () => {
    const { key } = await puppetKey();
    const refused = { status: 403, code: 'permission_denied', param: 'role' };
    expect(refusal(await lead(key))).toEqual(refused);
    await call('post', `${team}/members`, owner({ user_id: one.user_id }));
    expect(refusal(await lead(key, 'put'))).toEqual(refused);
    // Others are made admins by it, whose keys of lower hands end with that.
    expect((await lead(key, 'put', tenant.member_id)).status).toBe(200);
  });

  test('a session of that key, or a second key made with it', async () => {
    const { user_id, key: access_key } = await puppetKey();
    const session = await call('post', '/v1/sessions', { body: { access_key } });
    expect(session.status).toBe(201);
    expect((await lead(session.body.key)).status).toBe(403);
    const scopes = ['org:members'];
    const second = await issueBy(call, access_key, { user_id, scopes });
    expect(second.status).toBe(201);
    expect((await lead(second.body.key)).status).toBe(403);
  });

  test('but a real other admin makes them one, and an owner needs nobody', async () => {
    const other = await makePerson({ db, call }, tenant, 'admin');
    expect((await lead(other.key)).status).toBe(201);
    const chief = await makePerson({ db, call }, tenant, 'owner');
    const key = await issueBy(call, chief.key, {
      user_id: other.user_id,
      scopes: ['org:members'],
    });
    expect((await lead(key.body.key, 'post', chief.user_id)).status).toBe(201);
  });
});

test('an access key for an admin of a team is for those who may move money', async () => {
  await makeLeader();
  const people = await makePerson({ db, call }, tenant, 'admin');
  const refused = await issueBy(call, people.key, { user_id: admin.user_id });
  expect(refusal(refused)).toMatchObject({ status: 403, param: 'user_id' });
  expect((await issueBy(call, people.key, { user_id: tenant.member_id })).status).toBe(201);
  const own = await issueBy(call, tenant.owner_key, { user_id: admin.user_id });
  expect(own.status).toBe(201);
  const renewed = await call('post', `/v1/tokens/${own.body.name}/rotate`, { key: people.key });
  expect(refusal(renewed)).toMatchObject({ status: 403 });
});

test('who rises to the admin of a team keeps no access key that somebody below made', async () => {
  const people = await makePerson({ db, call }, tenant, 'admin');
  const held = await issueBy(call, people.key, { user_id: admin.user_id });
  expect(held.status).toBe(201);
  await makeLeader();
  expect((await call('get', '/v1/wallets', { key: held.body.key })).status).toBe(401);
  expect((await call('get', '/v1/wallets', { key: admin.key })).status).toBe(200);
});

test('a repeat leaves the role as it is, and another role is a change of its own', async () => {
  await makeLeader();
  const again = await call('post', `${team}/members`, owner({ user_id: admin.user_id }));
  expect(again).toMatchObject({ status: 201, body: { role: 'admin' } });
  const other = { user_id: admin.user_id, role: 'member' };
  expect(refusal(await call('post', `${team}/members`, owner(other)))).toMatchObject({
    ...{ status: 409, code: 'already_exists', param: 'role' },
  });
  const events = await call(
    'get',
    `/v1/audit-events?action=team_member.changed&object_id=${admin.user_id}`,
    owner(),
  );
  expect(events.body.audit_events).toEqual([]);
  await call('put', `${team}/members/${admin.user_id}`, owner({ role: 'member' }));
  const [event] = await many(
    db,
    `select before, after from audit_events where action = 'team_member.changed' and object_id = :user_id`,
    { user_id: admin.user_id },
  );
  expect(event).toEqual({
    before: { role: 'admin' },
    after: { role: 'member', team_id: tenant.team_id },
  });
});

test('foreign ids, wrong roles and strangers of the team are refused by name', async () => {
  const other = await makeTenant(db);
  const put = (path: string, body: object) => call('put', path, owner(body));
  expect((await put(`${team}/members/${other.member_id}`, { role: 'admin' })).status).toBe(404);
  expect(
    (await put(`${base}/teams/${other.team_id}/members/${tenant.member_id}`, { role: 'admin' }))
      .status,
  ).toBe(404);
  const wrong = await put(`${team}/members/${tenant.member_id}`, { role: 'owner' });
  expect(refusal(wrong)).toMatchObject({ status: 422, param: 'role' });
  const foreign = { user_id: other.member_id, amount: 1 };
  expect((await move('allocate', foreign, tenant.owner_key)).status).toBe(422);
});
