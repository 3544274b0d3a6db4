import { randomUUID } from 'node:crypto';
import * as issuers from '../../../domain/people/issuers';
import { rolePermissions } from '../../../domain/people/roles';
import { type Db, many } from '../../../domain/sql';
import { type Answer, issueBy, makePerson, type Person, refusal } from '../../support/api';
import { locksAwaited } from '../../support/database';
import { until } from '../../support/until';
import { type IdentityWorld, openIdentityWorld } from './world';

let world: IdentityWorld;

beforeAll(async () => {
  world = await openIdentityWorld();
});

afterAll(() => world.close());

const me = (key: string) => world.api.call('get', '/v1/me', { key });

function invite(user_id: string, key: string) {
  const path = `/v1/organizations/${world.tenant.org_id}/members/${user_id}/invitations`;
  return world.api.call('post', path, { key });
}

/** Signs in by a new subject that one person binds to another. */
async function bind(user_id: string, key: string) {
  const sub = randomUUID();
  const { invitation } = (await invite(user_id, key)).body;
  const { status, body } = await world.signInAs({ sub }, { invitation });
  expect([status, body.user_id]).toEqual([201, user_id]);
  return { sub, key: body.key as string };
}

const change = (method: 'put' | 'delete', at: string, body: object, key: string) =>
  world.api.call(method, at, { key, body });

/** Two admins of the tenant, and what the first can do with the name of the second. */
async function twoAdmins(): Promise<[Person, Person]> {
  const { api, tenant } = world;
  return [await makePerson(api, tenant, 'admin'), await makePerson(api, tenant, 'admin')];
}

test.each([
  ['removed', 'delete', {}],
  ['demoted', 'put', { role: 'member' }],
  ['removed, with all of their keys kept', 'delete', { keep_keys: ['*'] }],
] as const)('an admin who is %s comes back by nothing that they bound', async (_, method, body) => {
  const [admin, other] = await twoAdmins();
  const evil = await bind(other.user_id, admin.key);
  const open = (await invite(other.user_id, admin.key)).body.invitation;
  const answer = await change(method, admin.at, body, world.tenant.owner_key);
  expect(answer).toMatchObject({
    status: 200,
    body: { unbound_identities: [{ user_id: other.user_id, subject: evil.sub }] },
  });
  expect((await me(evil.key)).status).toBe(401);
  expect((await world.signInAs({ sub: evil.sub })).status).toBe(403);
  const late = await world.signInAs({ sub: randomUUID() }, { invitation: open });
  expect(late.status).toBe(401);
  expect((await me(other.key)).status).toBe(200);
});

test('an admin who becomes a member still signs in by what they bound to themselves, until they are removed', async () => {
  const [admin] = await twoAdmins();
  const own = await bind(admin.user_id, admin.key);
  const { owner_key } = world.tenant;
  const fallen = await change('put', admin.at, { role: 'member' }, owner_key);
  expect(fallen).toMatchObject({ status: 200, body: { unbound_identities: [] } });
  expect(await world.signInAs({ sub: own.sub })).toMatchObject({
    status: 201,
    body: { user_id: admin.user_id, scopes: [] },
  });
  expect((await change('delete', admin.at, {}, owner_key)).status).toBe(200);
  expect((await world.signInAs({ sub: own.sub })).status).toBe(403);
});

test('what was made in a session by such a subject falls too, also once it is unbound', async () => {
  const [admin, other] = await twoAdmins();
  const evil = await bind(other.user_id, admin.key);
  const made = await issueBy(world.api.call, evil.key, {
    scopes: rolePermissions.admin,
    user_id: other.user_id,
  });
  expect(made.status).toBe(201);
  const second = await bind(other.user_id, made.body.key);
  const at = `${other.at}/identities`;
  const { identities } = (await world.api.call('get', at, { key: world.tenant.owner_key })).body;
  for (const { id, subject } of identities)
    if (subject === evil.sub) await change('delete', `${at}/${id}`, {}, admin.key);
  expect((await me(made.body.key)).status).toBe(200);
  await change('delete', admin.at, {}, world.tenant.owner_key);
  expect((await me(made.body.key)).status).toBe(401);
  expect((await me(second.key)).status).toBe(401);
  expect((await world.signInAs({ sub: second.sub })).status).toBe(403);
});

test('whoever removes the person who invited them stays signed in', async () => {
  const [admin, other] = await twoAdmins();
  const own = await bind(other.user_id, admin.key);
  const evil = await bind(other.user_id, admin.key);
  const answer = await change('delete', admin.at, {}, own.key);
  expect(answer.body.unbound_identities).toMatchObject([{ subject: evil.sub }]);
  expect((await me(own.key)).status).toBe(200);
  expect((await me(evil.key)).status).toBe(401);
  expect((await world.signInAs({ sub: own.sub })).status).toBe(201);
});

describe('an admin without org:billing', () => {
  const team = () => `/v1/organizations/${world.tenant.org_id}/teams/${world.tenant.team_id}`;

  test('invites no admin of a team', async () => {
    const { api, tenant } = world;
    const [admin, lead] = [
      await makePerson(api, tenant, 'admin'),
      await makePerson(api, tenant, 'member'),
    ];
    const body = { user_id: lead.user_id, role: 'admin' };
    await api.call('post', `${team()}/members`, { key: tenant.owner_key, body });
    expect(refusal(await invite(lead.user_id, admin.key))).toMatchObject({
      status: 403,
      param: 'user_id',
    });
  });

  test('has nothing left of a member whom they make the admin of a team', async () => {
    const { api, tenant } = world;
    const [admin, puppet] = [
      await makePerson(api, tenant, 'admin'),
      await makePerson(api, tenant, 'member'),
    ];
    const issued = await issueBy(api.call, admin.key, { user_id: puppet.user_id });
    const evil = await bind(puppet.user_id, admin.key);
    const open = (await invite(puppet.user_id, admin.key)).body.invitation;
    const body = { user_id: puppet.user_id, role: 'admin' };
    const raised = await api.call('post', `${team()}/members`, { key: admin.key, body });
    expect(raised.status).toBe(201);
    expect((await me(issued.body.key)).status).toBe(401);
    expect((await me(evil.key)).status).toBe(401);
    expect((await world.signInAs({ sub: evil.sub })).status).toBe(403);
    const late = await world.signInAs({ sub: randomUUID() }, { invitation: open });
    expect(late.status).toBe(401);
  });
});

test('a key that a former admin had made, or renewed, does not rise with its person', async () => {
  const { api, tenant } = world;
  const admin = await makePerson(api, tenant, 'admin');
  const member = await makePerson(api, tenant, 'member');
  const own = await issueBy(api.call, tenant.owner_key, { user_id: member.user_id });
  const path = `/v1/tokens/${own.body.name}/rotate`;
  const { body } = await api.call('post', path, { key: admin.key, body: {} });
  expect((await me(body.key)).status).toBe(200);
  await change('put', member.at, { role: 'owner' }, tenant.owner_key);
  expect((await me(body.key)).status).toBe(401);
});

test('an id token is good once, also if its signature is written in another way', async () => {
  const { idp, api } = world;
  const now = Math.floor(Date.now() / 1_000);
  const id_token = await idp.sign({
    ...{ iss: idp.issuer, aud: 'svc-console', nonce: 'nonce of mine', iat: now, exp: now + 300 },
    ...{ sub: randomUUID(), email: `${randomUUID()}@demo.example`, email_verified: true },
  });
  const send = (token: string) =>
    api.call('post', '/v1/sessions', { body: { id_token: token, nonce: 'nonce of mine' } });
  const answers = await Promise.all([send(id_token), send(id_token), send(id_token)]);
  expect(answers.map(({ status }) => status).sort()).toEqual([201, 401, 401]);
  const again = await send(id_token);
  expect(refusal(again)).toMatchObject({ status: 401, param: 'id_token' });
  expect(again.body.error.message).toContain('signed in by it already');
});

test.each(['x', 'a@b@demo.example', '@demo.example', 'a b@demo.example', 'a\n@demo.example'])(
  'nobody becomes a member with the address %j',
  async (email) => {
    const answer = await world.signInAs({ sub: randomUUID(), email, email_verified: true });
    expect(refusal(answer)).toMatchObject({ status: 403, code: 'permission_denied' });
  },
);

test('a sign-in that waits while its issuer is taken out, or trusts others, is refused and gives nothing back', async () => {
  const { api, platform, tenant, issuer_id } = world;
  const sub = randomUUID();
  const claims = {
    ...{ sub, email: `${sub}@demo.example`, email_verified: true },
    groups: ['research', 'finance'],
  };
  const { user_id } = (await world.signInAs(claims)).body;
  const under = async (change: (trx: Db) => Promise<unknown>) => {
    let signing: Promise<Answer> | undefined;
    await api.db.transaction(async (trx) => {
      await many(trx, 'select from lock_organization(:org_id)', { org_id: tenant.org_id });
      signing = world.signInAs(claims);
      await until(async () => (await locksAwaited(api.db)) > 0);
      await change(trx);
    });
    return refusal((await signing) as Answer);
  };
  const refused = { status: 401, code: 'invalid_credential' };
  const set = (client_id: string) => (trx: Db) =>
    many(trx, 'update identity_issuers set client_id = :client_id where id = :issuer_id', {
      client_id,
      issuer_id,
    });
  expect(await under(set('another-client'))).toMatchObject(refused);
  await set('svc-console')(api.db);
  const list = await api.call('get', '/v1/admin/issuers', { key: platform });
  const {
    id,
    has_client_secret: _,
    created_at: __,
    ...body
  } = list.body.issuers.find((one: { id: string }) => one.id === issuer_id);
  expect(await under((trx) => issuers.archive(trx, issuer_id))).toMatchObject(refused);
  const path = `/v1/admin/issuers/${issuer_id}`;
  expect((await api.call('delete', path, { key: platform })).status).toBe(200);
  const at = `/v1/organizations/${tenant.org_id}/members/${user_id}`;
  const left = await api.call('get', at, { key: tenant.owner_key });
  expect(left.body).toMatchObject({ role: 'member', teams: [] });
  const living = await many(
    api.db,
    `select id from tokens where issuer_id = :issuer_id and purpose = 'session' and revoked_at is null`,
    { issuer_id },
  );
  expect(living).toEqual([]);
  const again = await api.call('post', '/v1/admin/issuers', { key: platform, body });
  expect(again).toMatchObject({ status: 201, body: { id } });
});

test('an issuer that is taken out takes what its groups gave, and knows its people when it is back', async () => {
  const { api, platform, tenant } = world;
  const sub = randomUUID();
  const claims = {
    ...{ sub, email: `${sub}@demo.example`, email_verified: true },
    groups: ['research', 'finance'],
  };
  const { user_id, scopes } = (await world.signInAs(claims)).body;
  expect(scopes).toEqual(['org:billing']);
  const path = `/v1/admin/issuers/${world.issuer_id}`;
  const list = await api.call('get', '/v1/admin/issuers', { key: platform });
  const {
    id,
    has_client_secret: _,
    created_at: __,
    ...body
  } = list.body.issuers.find((one: { id: string }) => one.id === world.issuer_id);
  expect((await api.call('delete', path, { key: platform })).status).toBe(200);
  const at = `/v1/organizations/${tenant.org_id}/members/${user_id}`;
  const left = await api.call('get', at, { key: tenant.owner_key });
  expect(left.body).toMatchObject({ role: 'member', teams: [] });
  const again = await api.call('post', '/v1/admin/issuers', { key: platform, body });
  expect(again).toMatchObject({ status: 201, body: { id } });
  expect((await world.signInAs(claims)).body).toMatchObject({ user_id, scopes });
});
