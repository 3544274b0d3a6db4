import { type Role, rolePermissions } from '../../../domain/people/roles';
import type { Db } from '../../../domain/sql';
import {
  type CallApi,
  issueBy,
  makePerson,
  makeTenant,
  refusal,
  startApi,
  type Tenant,
} from '../../support/api';
import { makeKey } from '../../support/keys';

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

const personOf = (role: Role) => makePerson({ db, call }, tenant, role);
const issue = (key: string, more?: object) => issueBy(call, key, more);

const works = async (key: string) => (await call('get', '/v1/wallets', { key })).status === 200;

/** Shared by both tests of a right that ends. */
async function makeKeys() {
  const { user_id, key } = await personOf('admin');
  const [service, gateway] = [
    await issue(key, { scopes: ['agents:read'] }),
    await issue(key, { token_type: 'gateway' }),
  ];
  return { user_id, key, made: [service, gateway].map(({ body }) => body) };
}

test('a key says which person made it and falls with them, also through a key that stands for nobody; the list filters by it', async () => {
  const owner = await personOf('owner');
  const first = await issue(owner.key, { scopes: ['tokens:write'] });
  expect(first.body.created_by).toBe(owner.user_id);
  const second = await issue(first.body.key);
  expect(second.body.created_by).toBe(owner.user_id);
  const listed = await call('get', `/v1/tokens?created_by=${owner.user_id}`, { key: owner.key });
  expect(listed.body.tokens.map(({ id }: { id: string }) => id)).toEqual([
    second.body.id,
    first.body.id,
  ]);
  const none = await call('get', '/v1/tokens?created_by=user_of_nobody', { key: owner.key });
  expect(none.body.total).toBe(0);
  await personOf('owner');
  await call('delete', `${base}/members/${owner.user_id}`, { key: tenant.owner_key });
  expect([await works(first.body.key), await works(second.body.key)]).toEqual([false, false]);
});

test.each(['delete', 'put'] as const)(
  'a person who is removed or lowered (%s) loses the keys that they made, which the answer lists',
  async (method) => {
    const { user_id, key, made } = await makeKeys();
    const body = method === 'put' ? { role: 'member' } : undefined;
    const ended = await call(method, `${base}/members/${user_id}`, { key: tenant.owner_key, body });
    expect(ended.status).toBe(200);
    const own = await db('tokens').where({ org_id: tenant.org_id, user_id }).select('id');
    const expected = [...made, ...(method === 'delete' ? own : [])].map(({ id }) => id);
    const revoked = ended.body.revoked_keys as { id: string; status: string }[];
    expect(revoked.map(({ id }) => id).sort()).toEqual(expected.sort());
    expect(new Set(revoked.map(({ status }) => status))).toEqual(new Set(['revoked']));
    expect(ended.body.kept_keys).toEqual([]);
    expect(await works(made[0].key)).toBe(false);
    // Lowered, they are a member still, with the rights of one.
    expect(await works(key)).toBe(method === 'put');
    const join = { key: made[0].key, body: { user_id, role: 'admin' } };
    expect((await call('post', `${base}/members`, join)).status).toBe(401);
  },
);

test('a key that has expired is neither revoked nor kept with the others of its maker', async () => {
  const { user_id, made } = await makeKeys();
  const [expired, living] = made;
  const before = { expires_at: new Date(Date.now() - 1_000) };
  await db('tokens').where({ id: expired.id }).update(before);
  const at = `${base}/members/${user_id}`;
  const end = (body: object) => call('delete', at, { key: tenant.owner_key, body });
  expect(refusal(await end({ keep_keys: [expired.id] }))).toMatchObject({ status: 404 });
  const { body } = await end({});
  const revoked = body.revoked_keys.map(({ id }: { id: string }) => id);
  expect([revoked.includes(living.id), revoked.includes(expired.id)]).toEqual([true, false]);
});

test('a role of more ends no key', async () => {
  const { user_id, made } = await makeKeys();
  const body = { role: 'owner' };
  const raised = await call('put', `${base}/members/${user_id}`, { key: tenant.owner_key, body });
  expect(raised.body).toMatchObject({ role: 'owner', revoked_keys: [], kept_keys: [] });
  expect(await works(made[0].key)).toBe(true);
});

test("kept keys become the caller's, without the scopes that the caller lacks", async () => {
  const { user_id, made } = await makeKeys();
  const admin = await personOf('admin');
  const keep_keys = [made[0].name, made[1].id];
  const narrow = await makeKey(db, tenant.org_id, {
    user_id: admin.user_id,
    scopes: rolePermissions.admin.filter((scope) => scope !== 'agents:read'),
  });
  const refused = await call('delete', `${base}/members/${user_id}`, { key: narrow });
  // An admin without one of an admin's scopes manages no admin.
  expect(refused.status).toBe(403);
  const removed = await call('delete', `${base}/members/${user_id}`, {
    key: admin.key,
    body: { keep_keys },
  });
  expect(removed.body.kept_keys.map(({ id }: { id: string }) => id).sort()).toEqual(
    made.map(({ id }) => id).sort(),
  );
  for (const { name } of made) {
    const { body } = await call('get', `/v1/tokens/${name}`, { key: tenant.owner_key });
    expect(body).toMatchObject({ created_by: admin.user_id, status: 'active' });
  }
  expect(await works(made[0].key)).toBe(true);
  const audit = await call('get', `/v1/audit-events?object_id=${made[0].id}&action=key.changed`, {
    key: tenant.owner_key,
  });
  expect(audit.body.audit_events).toMatchObject([
    { actor: admin.user_id, before: { created_by: user_id }, after: { created_by: admin.user_id } },
  ]);
});

test('a key that is kept holds what it had and its new holder has, whoever keeps it', async () => {
  const owner = await personOf('owner');
  await personOf('owner');
  const made = await issue(owner.key, { scopes: ['agents:read', 'org:billing'] });
  const admin = await personOf('admin');
  await call('put', `${base}/members/${owner.user_id}`, {
    key: tenant.owner_key,
    body: { role: 'admin', keep_keys: [made.body.name] },
  });
  const { body } = await call('delete', `${base}/members/${owner.user_id}`, { key: admin.key });
  // The first change made it the owner key's own, so the second does not end it.
  expect(body.revoked_keys.map(({ id }: { id: string }) => id)).not.toContain(made.body.id);
  const member = await personOf('admin');
  const theirs = await issue(member.key, { scopes: ['agents:read', 'events:read'] });
  await db('tokens')
    .where({ id: theirs.body.id })
    .update({ scopes: ['agents:read', 'org:billing'] });
  const kept = await call('delete', `${base}/members/${member.user_id}`, {
    key: admin.key,
    body: { keep_keys: [theirs.body.id] },
  });
  expect(kept.body.kept_keys).toMatchObject([{ id: theirs.body.id, scopes: ['agents:read'] }]);
});

test('a removal without a body names the keys to keep in its query', async () => {
  const { made } = await makeKeys();
  const query = made.map(({ id }) => `keep_keys=${id}`).join('&');
  for (const kept of [query, `keep_keys=${made[0].id}`]) {
    const other = await personOf('admin');
    await db('tokens')
      .whereIn(
        'id',
        made.map(({ id }) => id),
      )
      .update({ created_by: other.user_id });
    const at = `${base}/members/${other.user_id}?${kept}`;
    const removed = await call('delete', at, { key: tenant.owner_key });
    expect(removed.body.kept_keys).toHaveLength(kept.split('&').length);
  }
});

test.each([
  ['of nobody', async () => ['nonsense'], 404],
  ['of the person', async (own: string) => [own], 422],
] as const)(
  'keep_keys with a key %s is refused, and nothing is revoked',
  async (_, name, status) => {
    const { user_id, key, made } = await makeKeys();
    const [own] = await db('tokens').where({ user_id }).select('id');
    const answer = await call('delete', `${base}/members/${user_id}`, {
      key: tenant.owner_key,
      body: { keep_keys: await name(own.id) },
    });
    expect(refusal(answer)).toMatchObject({ status, param: 'keep_keys.0' });
    expect([await works(key), await works(made[0].key)]).toEqual([true, true]);
  },
);

test.each(['org:members', 'tokens:write'] as const)(
  'only an owner makes a key with %s that stands for nobody, or keeps one',
  async (scope) => {
    const [owner, admin] = [await personOf('owner'), await personOf('admin')];
    expect(refusal(await issue(admin.key, { scopes: [scope] }))).toEqual({
      status: 403,
      code: 'permission_denied',
      param: 'user_id',
    });
    const own = { scopes: [scope], user_id: admin.user_id };
    expect((await issue(admin.key, own)).status).toBe(201);
    expect((await issue(owner.key, { scopes: [scope] })).status).toBe(201);
    const old = await makeKey(db, tenant.org_id, { scopes: [scope], created_by: admin.user_id });
    const second = await personOf('admin');
    const [{ id }] = await db('tokens').where({ created_by: admin.user_id, user_id: null });
    const kept = await call('delete', `${base}/members/${admin.user_id}`, {
      key: second.key,
      body: { keep_keys: [id] },
    });
    expect(kept.status).toBe(403);
    expect(await works(old)).toBe(true);
  },
);

test('a key made while its maker is removed or lowered does not outlive it', async () => {
  for (let round = 0; round < 20; round += 1) {
    const { user_id, key } = await personOf('admin');
    const at = `${base}/members/${user_id}`;
    const owner = { key: tenant.owner_key };
    const more = round % 4 < 2 ? { scopes: ['agents:read'] } : { token_type: 'gateway' };
    const [made] = await Promise.all([
      issue(key, more),
      round % 2
        ? call('delete', at, owner)
        : call('put', at, { ...owner, body: { role: 'member' } }),
    ]);
    if (made.status === 201)
      expect(await db('tokens').where({ id: made.body.id }).first()).toMatchObject({
        revoked_at: expect.any(Date),
      });
    else expect([401, 403]).toContain(made.status);
  }
});
