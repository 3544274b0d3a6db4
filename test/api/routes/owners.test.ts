import { randomUUID } from 'node:crypto';
import type { Role } from '../../../domain/people/roles';
import type { Db } from '../../../domain/sql';
import {
  type CallApi,
  makePerson,
  makeTenant,
  refusal,
  startApi,
  type Tenant,
} from '../../support/api';
import { platformKey } from '../../support/keys';

let db: Db;
let call: CallApi;
let close: () => Promise<void>;
let tenant: Tenant;
let base: string;

beforeAll(async () => {
  ({ db, call, close } = await startApi());
});
beforeEach(async () => {
  tenant = await makeTenant(db);
  base = `/v1/organizations/${tenant.org_id}`;
});
afterAll(() => close());

async function add(body: object, key = tenant.owner_key) {
  return call('post', `${base}/members`, { key, body: { name: 'Ann', ...body } });
}

const personOf = (role: Role) => makePerson({ db, call }, tenant, role);

async function owners(): Promise<number> {
  const rows = await db('memberships')
    .where({ org_id: tenant.org_id, role: 'owner' })
    .whereNull('archived_at');
  return rows.length;
}

test('the last owner neither goes nor becomes less, by anybody; the last but one may', async () => {
  const [first, second] = [await personOf('owner'), await personOf('owner')];
  expect((await call('delete', first.at, { key: second.key })).status).toBe(200);
  for (const key of [second.key, tenant.owner_key, await platformKey(db)]) {
    const refused = [
      await call('delete', second.at, { key }),
      await call('put', second.at, { key, body: { role: 'admin' } }),
    ];
    for (const answer of refused)
      expect(refusal(answer)).toEqual({ status: 409, code: 'last_owner', param: 'user_id' });
  }
  const same = await call('put', second.at, { key: second.key, body: { role: 'owner' } });
  expect(same.status).toBe(200);
  expect(await owners()).toBe(1);
});

test('two owners who remove or lower each other at once leave one', async () => {
  for (let round = 0; round < 20; round += 1) {
    tenant = await makeTenant(db);
    base = `/v1/organizations/${tenant.org_id}`;
    const [first, second] = [await personOf('owner'), await personOf('owner')];
    const end = (by: string, at: string) =>
      round % 2
        ? call('delete', at, { key: by })
        : call('put', at, { key: by, body: { role: 'member' } });
    const answers = await Promise.all([end(first.key, second.at), end(second.key, first.at)]);
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(1);
    expect(await owners()).toBe(1);
  }
});

test('an admin who lowers or removes a member at the moment of their rise touches no owner', async () => {
  await personOf('owner');
  const admin = await personOf('admin');
  for (let round = 0; round < 20; round += 1) {
    const person = await personOf('member');
    const rise = { key: tenant.owner_key, body: { role: 'owner' } };
    const [raised, ended] = await Promise.all([
      call('put', person.at, rise),
      round % 2
        ? call('delete', person.at, { key: admin.key })
        : call('put', person.at, { key: admin.key, body: { role: 'admin' } }),
    ]);
    // One before the other: an owner stays one, and who has gone does not rise.
    expect([200, 404]).toContain(raised.status);
    expect([200, 403]).toContain(ended.status);
    const row = await db('memberships').where({ user_id: person.user_id }).first();
    if (raised.status === 200) expect(row).toMatchObject({ role: 'owner', archived_at: null });
  }
});

test('a person who is removed while they act changes nothing after that', async () => {
  await personOf('owner');
  for (let round = 0; round < 20; round += 1) {
    const admin = await personOf('admin');
    const [added] = await Promise.all([
      add({ name: 'Accomplice', role: 'admin' }, admin.key),
      call('delete', admin.at, { key: tenant.owner_key }),
    ]);
    expect([201, 401]).toContain(added.status);
    if (added.status === 401) continue;
    const { created_at } = await db('memberships').where({ user_id: added.body.user_id }).first();
    const { archived_at } = await db('memberships').where({ user_id: admin.user_id }).first();
    expect(created_at.getTime()).toBeLessThanOrEqual(archived_at.getTime());
  }
});

test('a member who is removed while they join a team is in no team', async () => {
  for (let round = 0; round < 20; round += 1) {
    const person = await personOf('member');
    const at = `${base}/teams/${tenant.team_id}/members`;
    const body = { user_id: person.user_id };
    await Promise.all([
      call('post', at, { key: tenant.owner_key, body }),
      call('delete', person.at, { key: tenant.owner_key }),
    ]);
    const rows = await db('team_members').where(body);
    expect(rows).toEqual([]);
  }
});

test('two members have two e-mail addresses, whatever the case and however they come at once', async () => {
  const email = `ann-${randomUUID()}@example.com`;
  const answers = await Promise.all([1, 2, 3, 4].map(() => add({ email })));
  expect(answers.map(({ status }) => status).sort()).toEqual([201, 409, 409, 409]);
  expect(refusal(await add({ email: email.toUpperCase() }))).toEqual({
    status: 409,
    code: 'already_exists',
    param: 'email',
  });
  const { user_id } = answers.find(({ status }) => status === 201)?.body ?? {};
  await call('delete', `${base}/members/${user_id}`, { key: tenant.owner_key });
  expect((await add({ email })).status).toBe(201);
  const back = await call('post', `${base}/members`, { key: tenant.owner_key, body: { user_id } });
  expect(back.status).toBe(409);
  const elsewhere = await makeTenant(db);
  const other = await call('post', `/v1/organizations/${elsewhere.org_id}/members`, {
    key: elsewhere.owner_key,
    body: { name: 'Ann', email },
  });
  expect(other.status).toBe(201);
});

test('a subject alone is refused in words that say what names a person', async () => {
  const answer = await call('post', `${base}/members`, {
    key: tenant.owner_key,
    body: { subject: 'auth0|1' },
  });
  expect(refusal(answer)).toEqual({ status: 422, code: 'invalid_field', param: 'subject' });
  expect(answer.body.error.message).toBe(
    'subject alone names nobody: give issuer and name for a new person, or user_id for a known one.',
  );
});
