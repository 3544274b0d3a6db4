import { randomUUID } from 'node:crypto';
import * as codes from '../../../domain/people/one-time-codes';
import { rolePermissions } from '../../../domain/people/roles';
import { many } from '../../../domain/sql';
import { issueBy, makePerson, refusal } from '../../support/api';
import { issuerFor } from '../../support/identity/provider';
import { type IdentityWorld, openIdentityWorld } from './world';

// What becomes of sign-ins that somebody bound to a member, and of their invitations.

let world: IdentityWorld;

beforeAll(async () => {
  world = await openIdentityWorld();
});

afterAll(() => world.close());

const me = (key: string) => world.api.call('get', '/v1/me', { key });

async function invitationFor(user_id: string, key = world.tenant.owner_key): Promise<string> {
  const path = `/v1/organizations/${world.tenant.org_id}/members/${user_id}/invitations`;
  const { status, body } = await world.api.call('post', path, { key });
  expect(status).toBe(201);
  return body.invitation;
}

/** Signs in by a new subject that the bearer of a key binds to a person. */
async function bind(user_id: string, key: string) {
  const sub = randomUUID();
  const invitation = await invitationFor(user_id, key);
  const { status, body } = await world.signInAs({ sub }, { invitation });
  expect([status, body.user_id]).toEqual([201, user_id]);
  return { sub, key: body.key as string };
}

test('a person whose sign-in was unbound at their removal, or by hand, does not come back as a new one', async () => {
  const { api, tenant } = world;
  const claims = () => {
    const sub = randomUUID();
    return { sub, email: `${sub}@demo.example`, email_verified: true };
  };
  const admin = await makePerson(api, tenant, 'admin');
  const invited = async () => {
    const person = claims();
    const member = await makePerson(api, tenant, 'member');
    const invitation = await invitationFor(member.user_id, admin.key);
    const { body } = await world.signInAs(person, { invitation });
    expect(body.user_id).toBe(member.user_id);
    return { person, member };
  };
  const [removed, unbound, orphan] = [await invited(), await invited(), await invited()];
  const end = (at: string) => api.call('delete', at, { key: tenant.owner_key });
  // The removal of whoever invited deletes what they bound, of members and of former members.
  await end(removed.member.at);
  const of = `${unbound.member.at}/identities`;
  const { identities } = (await api.call('get', of, { key: tenant.owner_key })).body;
  await end(`${of}/${identities[0].id}`);
  await end(unbound.member.at);
  await end(admin.at);
  await end(orphan.member.at);
  for (const { person } of [removed, unbound, orphan])
    expect(refusal(await world.signInAs(person))).toMatchObject({
      status: 403,
      code: 'permission_denied',
    });
  const back = await makePerson(api, tenant, 'member');
  const again = await world.signInAs(removed.person, {
    invitation: await invitationFor(back.user_id),
  });
  expect([again.status, again.body.user_id]).toEqual([201, back.user_id]);
});

test('an issuer to which people are bound is not pointed at another provider', async () => {
  const { api, tenant, idp, platform } = world;
  const body = { ...issuerFor(idp, tenant), name: 'Third', client_id: 'third-client' };
  const made = await api.call('post', '/v1/admin/issuers', { key: platform, body });
  const put = (issuer: string) =>
    api.call('put', `/v1/admin/issuers/${made.body.id}`, { key: platform, body: { issuer } });
  // Nobody is yet.
  expect((await put('https://other.example')).status).toBe(200);
  expect((await put(idp.issuer)).status).toBe(200);
  const sub = randomUUID();
  const person = { sub, email: `${sub}@demo.example`, email_verified: true, aud: 'third-client' };
  expect((await world.signInAs(person)).status).toBe(201);
  expect(refusal(await put('https://other.example'))).toMatchObject({
    status: 422,
    param: 'issuer',
  });
  expect((await put(idp.issuer)).status).toBe(200);
  await api.call('delete', `/v1/admin/issuers/${made.body.id}`, { key: platform });
});

test('whoever was removed does not come back by another client of the same issuer', async () => {
  const { api, tenant, idp } = world;
  const sub = randomUUID();
  const person = { sub, email: `${sub}@demo.example`, email_verified: true };
  const joined = await world.signInAs(person);
  expect(joined.status).toBe(201);
  const at = `/v1/organizations/${tenant.org_id}/members/${joined.body.user_id}`;
  expect((await api.call('delete', at, { key: tenant.owner_key })).status).toBe(200);
  const body = { ...issuerFor(idp, tenant), name: 'Second', client_id: 'second-client' };
  const made = await api.call('post', '/v1/admin/issuers', { key: world.platform, body });
  expect(made.status).toBe(201);
  const again = await world.signInAs({ ...person, aud: 'second-client' });
  expect(refusal(again)).toMatchObject({ status: 403, code: 'permission_denied' });
  const other = randomUUID();
  const stranger = { sub: other, email: `${other}@demo.example`, email_verified: true };
  const first = await world.signInAs({ ...stranger, aud: 'second-client' });
  expect(first.status).toBe(201);
  await api.call('delete', `/v1/admin/issuers/${made.body.id}`, { key: world.platform });
});

test.each(['revoked', 'living'] as const)(
  'an invitation of a session falls with the key that opened it (%s), and not with the session',
  async (how) => {
    const { api, tenant } = world;
    const admin = await makePerson(api, tenant, 'admin');
    const other = await makePerson(api, tenant, 'admin');
    const issued = await issueBy(api.call, admin.key, {
      scopes: rolePermissions.admin,
      user_id: admin.user_id,
    });
    const session = await api.call('post', '/v1/sessions', {
      body: { access_key: issued.body.key },
    });
    expect(session.status).toBe(201);
    const open = await invitationFor(other.user_id, session.body.key);
    const path = how === 'revoked' ? `/v1/tokens/${issued.body.name}` : '/v1/sessions/current';
    const key = how === 'revoked' ? tenant.owner_key : session.body.key;
    expect((await api.call('delete', path, { key })).status).toBe(200);
    const answer = await world.signInAs({ sub: randomUUID() }, { invitation: open });
    expect(answer.status).toBe(how === 'revoked' ? 403 : 201);
  },
);

/** Binds so many subjects to a member, by nobody, as the first sign-ins of long ago were. */
function bindMany(user_id: string, count: number) {
  return many(
    world.api.db,
    `insert into identities (issuer_id, org_id, subject, user_id)
     select :issuer_id, :org_id, :user_id::text || ' ' || n, :user_id from generate_series(1, :count::int) as n`,
    { issuer_id: world.issuer_id, org_id: world.tenant.org_id, user_id, count },
  );
}

test('whoever rises loses the sign-in of an admin also behind 200 newer ones', async () => {
  const { api, tenant } = world;
  const [admin, member] = [
    await makePerson(api, tenant, 'admin'),
    await makePerson(api, tenant, 'member'),
  ];
  const evil = await bind(member.user_id, admin.key);
  await bindMany(member.user_id, 201);
  const list = await api.call('get', `${member.at}/identities?per_page=200`, {
    key: tenant.owner_key,
  });
  expect(list.body).toMatchObject({ has_more: true, total: 202 });
  const risen = await api.call('put', member.at, {
    key: tenant.owner_key,
    body: { role: 'owner' },
  });
  expect(risen).toMatchObject({
    status: 200,
    body: { unbound_identities: [{ user_id: member.user_id, subject: evil.sub }] },
  });
  expect((await me(evil.key)).status).toBe(401);
  expect((await world.signInAs({ sub: evil.sub })).status).toBe(403);
});

test('a member has 20 sign-ins at most, and one of them may be brought again', async () => {
  const { api, tenant } = world;
  const member = await makePerson(api, tenant, 'member');
  await bindMany(member.user_id, 19);
  const { sub } = await bind(member.user_id, tenant.owner_key);
  const invitation = () => invitationFor(member.user_id);
  const one_more = await world.signInAs({ sub: randomUUID() }, { invitation: await invitation() });
  expect(refusal(one_more)).toEqual({
    status: 409,
    code: 'already_exists',
    param: 'invitation',
  });
  const again = await world.signInAs({ sub }, { invitation: await invitation() });
  expect([again.status, again.body.user_id]).toEqual([201, member.user_id]);
});

test('a code that is sent as what it is not is told what it is, and is not used up', async () => {
  const { api, tenant } = world;
  const person = await makePerson(api, tenant, 'member');
  const invitation = await invitationFor(person.user_id);
  await many(api.db, 'delete from sign_in_tries');
  const pasted = await api.call('post', '/v1/sessions', { body: { one_time_code: invitation } });
  const unknown = { status: 401, code: 'invalid_credential' };
  expect(refusal(pasted)).toEqual({ ...unknown, param: 'invitation' });
  expect(pasted.body.error.message).toContain('is an invitation');
  const sub = randomUUID();
  expect((await world.signInAs({ sub }, { invitation })).body.user_id).toBe(person.user_id);
  // Used up, it is a code like any other that is good no more.
  const used = await api.call('post', '/v1/sessions', { body: { one_time_code: invitation } });
  expect(refusal(used)).toEqual({ ...unknown, param: 'one_time_code' });
  const by = { id: 'terminal', user_id: null, scopes: [] };
  const { code } = await api.db.transaction((trx) =>
    codes.create(trx, {
      purpose: 'session',
      org_id: tenant.org_id,
      user_id: person.user_id,
      by,
    }),
  );
  const brought = await world.signInAs({ sub }, { invitation: code });
  expect(refusal(brought)).toEqual({ ...unknown, param: 'one_time_code' });
  await many(api.db, 'delete from sign_in_tries');
  const kept = await api.call('post', '/v1/sessions', { body: { one_time_code: code } });
  expect(kept.status).toBe(201);
});
