import { randomUUID } from 'node:crypto';
import { generateKeyPair, SignJWT } from 'jose';
import * as members from '../../../domain/people/members';
import { many } from '../../../domain/sql';
import { makePerson, makeTenant, refusal } from '../../support/api';
import { issuerFor } from '../../support/identity/provider';
import { type IdentityWorld, NONCE, openIdentityWorld } from './world';

let world: IdentityWorld;

beforeAll(async () => {
  world = await openIdentityWorld();
});

afterAll(() => world.close());

const now = () => Math.floor(Date.now() / 1_000);
const me = (key: string) => world.api.call('get', '/v1/me', { key });

async function invitationFor(user_id: string, key = world.tenant.owner_key): Promise<string> {
  const path = `/v1/organizations/${world.tenant.org_id}/members/${user_id}/invitations`;
  const { status, body } = await world.api.call('post', path, { key });
  expect(status).toBe(201);
  return body.invitation;
}

test('a person who was never entered signs in by code, is a member, and lands in the team of their group', async () => {
  const { api, idp, issuer_id, tenant } = world;
  const { nonce, ...grant } = await idp.authorize('nina');
  const { status, body } = await api.call('post', '/v1/sessions', {
    body: { issuer_id, nonce, ...grant },
  });
  expect(status).toBe(201);
  expect(body).toMatchObject({
    org_id: tenant.org_id,
    method: 'oidc',
    issuer: 'Sandbox',
    scopes: [],
  });
  const answer = await me(body.key);
  expect(answer.body).toMatchObject({
    user: { user_id: body.user_id, name: 'Nina New', email: 'nina@demo.example' },
    org_id: tenant.org_id,
    permissions: [],
    session: { id: body.id },
    memberships: [
      { role: 'member', time_zone: 'UTC', teams: [{ team_id: tenant.team_id, role: 'member' }] },
    ],
    wallets: [
      { team_id: null, effective_wallet_owner_type: 'organization' },
      { team_id: tenant.team_id, effective_wallet_owner_type: 'organization' },
    ],
  });
  const again = await api.call('post', '/v1/sessions', { body: { issuer_id, nonce, ...grant } });
  expect(refusal(again)).toEqual({ status: 401, code: 'invalid_credential', param: 'code' });
});

test('the second sign-in finds the same person, by id token too, and two first ones at once make one', async () => {
  const first = await world.signIn('nina');
  const second = await world.signIn('nina');
  expect(second.body.user_id).toBe(first.body.user_id);
  const sub = randomUUID();
  const person = { sub, email: `${sub}@demo.example`, email_verified: true, name: 'Twice' };
  const both = await Promise.all([world.signInAs(person), world.signInAs(person)]);
  expect(both.map(({ status }) => status)).toEqual([201, 201]);
  expect(both[0]?.body.user_id).toBe(both[1]?.body.user_id);
});

test('a code with another verifier or redirect_uri is refused, and an unknown issuer is 404', async () => {
  const { api, idp, issuer_id } = world;
  for (const wrong of [
    { code_verifier: 'x'.repeat(43) },
    { redirect_uri: 'http://127.0.0.1:1/callback' },
  ]) {
    const grant = await idp.authorize('nina');
    const body = { issuer_id, ...grant, ...wrong };
    const answer = await api.call('post', '/v1/sessions', { body });
    expect(refusal(answer)).toEqual({ status: 401, code: 'invalid_credential', param: 'code' });
  }
  const body = { issuer_id: 'iss_unknown', ...(await idp.authorize('nina')) };
  expect((await api.call('post', '/v1/sessions', { body })).status).toBe(404);
});

test.each([
  ['its iss', { iss: 'https://evil.example' }],
  ['its aud', { aud: 'another-product' }],
  ['its azp', { azp: 'another-product' }],
  ['its azp', { aud: ['svc-console', 'another-product'] }],
  ['its nonce', { nonce: 'another nonce' }],
  ['nonce', { nonce: undefined }],
  ['it has expired', { exp: now() - 60 }],
  ['exp', { exp: undefined }],
  ['it was not issued a moment ago', { iat: now() - 3_600 }],
  ['sub', { sub: undefined }],
  ['sub', { sub: '' }],
])('an id token is refused by name: %s %j', async (words, claims) => {
  const answer = await world.signInAs({ sub: 'nina', ...claims });
  expect(refusal(answer)).toEqual({ status: 401, code: 'invalid_credential', param: 'id_token' });
  expect(answer.body.error.message).toContain(words);
});

test('an id token of another algorithm, signature, type or form is refused', async () => {
  const { api, idp } = world;
  const claims = { iss: idp.issuer, aud: 'svc-console', sub: 'nina', nonce: NONCE };
  const timed = (jwt: SignJWT) => jwt.setIssuedAt().setExpirationTime('5m');
  const { privateKey } = await generateKeyPair('RS256');
  const part = (json: object) => Buffer.from(JSON.stringify(json)).toString('base64url');
  const forged = {
    'its alg': await timed(new SignJWT(claims).setProtectedHeader({ alg: 'HS256' })).sign(
      Buffer.from('x'.repeat(32)),
    ),
    'none of': `${part({ alg: 'none' })}.${part({ ...claims, iat: now(), exp: now() + 60 })}.`,
    'no key of the issuer': await timed(
      new SignJWT(claims).setProtectedHeader({ alg: 'RS256', kid: 'unknown' }),
    ).sign(privateKey),
  };
  for (const [words, id_token] of Object.entries(forged)) {
    await many(api.db, 'delete from sign_in_tries');
    const answer = await api.call('post', '/v1/sessions', { body: { id_token, nonce: NONCE } });
    expect({ words, ...refusal(answer) }).toMatchObject({ words, status: 401, param: 'id_token' });
    expect(answer.body.error.message).toContain(words);
  }
  const typed = await world.signInAs({ sub: 'nina' }, {}, { typ: 'logout+jwt' });
  expect(typed.body.error.message).toContain('its typ');
  const { access_token } = await idp.tokens('nina');
  const body = { id_token: access_token, nonce: NONCE };
  expect((await api.call('post', '/v1/sessions', { body })).status).toBe(401);
  const broken = await api.call('post', '/v1/sessions', {
    body: { id_token: 'abc', nonce: NONCE },
  });
  expect(refusal(broken)).toMatchObject({ status: 422, param: 'id_token' });
});

test('the token of another product at the same provider signs nobody in', async () => {
  const { id_token, nonce } = await world.idp.tokens('nina', 'another-product');
  const answer = await world.api.call('post', '/v1/sessions', { body: { id_token, nonce } });
  expect(answer.body.error.message).toContain('its aud');
});

test('nobody is made a member by another domain, by an unverified address, or by the address of a member', async () => {
  expect(refusal(await world.signIn('olaf'))).toMatchObject({ status: 403 });
  const unverified = await world.signIn('uma');
  expect(unverified.status).toBe(403);
  expect(refusal(unverified)).toMatchObject({ param: 'email_verified' });
  expect(unverified.body.error.message).toContain('email_verified');
  const { db } = world.api;
  const sub = randomUUID();
  const email = `${sub}@demo.example`;
  await members.add(db, world.tenant.org_id, { name: 'Old hand', email, role: 'owner' });
  const taken = await world.signInAs({ sub, email, email_verified: true });
  expect(refusal(taken)).toMatchObject({ status: 403, param: 'email' });
  expect(taken.body.error.message).toContain('invitation');
  for (const odd of [
    { email: 7 },
    { email: `a@${'demo.example'}.evil.example` },
    {},
    { email: 'a\u0000@demo.example' },
  ])
    expect((await world.signInAs({ sub: randomUUID(), email_verified: true, ...odd })).status).toBe(
      403,
    );
  expect((await world.signInAs({ sub: 'a\u0000', email, email_verified: true })).status).toBe(403);
});

test('a sub that is our id of a member stands for nobody', async () => {
  expect((await world.signInAs({ sub: world.tenant.member_id })).status).toBe(403);
});

test('an invitation binds an existing member, once, and later sign-ins need none', async () => {
  const person = await makePerson(world.api, world.tenant, 'billing_admin');
  const invitation = await invitationFor(person.user_id);
  const sub = randomUUID();
  const bound = await world.signInAs({ sub }, { invitation });
  expect(bound.status).toBe(201);
  expect(bound.body).toMatchObject({ user_id: person.user_id, scopes: ['org:billing'] });
  expect((await world.signInAs({ sub })).body.user_id).toBe(person.user_id);
  const reused = await world.signInAs({ sub: randomUUID() }, { invitation });
  expect(refusal(reused)).toMatchObject({ status: 401, param: 'invitation' });
  const at = `${person.at}/identities`;
  const { body } = await world.api.call('get', at, { key: world.tenant.owner_key });
  expect(body.identities).toMatchObject([{ subject: sub, issuer: 'Sandbox' }]);
  const gone = await world.api.call('delete', `${at}/${body.identities[0].id}`, {
    key: world.tenant.owner_key,
  });
  expect(gone.status).toBe(200);
  expect((await me(bound.body.key)).status).toBe(401);
  expect((await world.signInAs({ sub })).status).toBe(403);
});

test('an admin invites nobody above them, and an invitation falls with the rights of its maker', async () => {
  const { api, tenant } = world;
  const admin = await makePerson(api, tenant, 'admin');
  const owner = await makePerson(api, tenant, 'owner');
  const member = await makePerson(api, tenant, 'member');
  const to = (user_id: string) =>
    `/v1/organizations/${tenant.org_id}/members/${user_id}/invitations`;
  const refused = await api.call('post', to(owner.user_id), { key: admin.key });
  expect(refused.status).toBe(403);
  const risen = await invitationFor(member.user_id, admin.key);
  await api.call('put', member.at, { key: tenant.owner_key, body: { role: 'owner' } });
  const sub = randomUUID();
  expect(refusal(await world.signInAs({ sub }, { invitation: risen }))).toMatchObject({
    status: 401,
    param: 'invitation',
  });
  const other = await makePerson(api, tenant, 'member');
  const fallen = await invitationFor(other.user_id, admin.key);
  await api.call('put', admin.at, { key: tenant.owner_key, body: { role: 'member' } });
  expect((await world.signInAs({ sub }, { invitation: fallen })).status).toBe(401);
});

test('whoever rises to owner loses the sign-ins that an admin had bound to them', async () => {
  const { api, tenant } = world;
  const admin = await makePerson(api, tenant, 'admin');
  const member = await makePerson(api, tenant, 'member');
  const sub = randomUUID();
  const invitation = await invitationFor(member.user_id, admin.key);
  const session = await world.signInAs({ sub }, { invitation });
  expect(session.status).toBe(201);
  await api.call('put', member.at, { key: tenant.owner_key, body: { role: 'owner' } });
  // It would rise with the person, for as long as it lives.
  expect((await me(session.body.key)).status).toBe(401);
  expect((await world.signInAs({ sub })).status).toBe(403);
});

test('a sign-in that is bound to one member is bound to no second one', async () => {
  const [one, two] = [
    await makePerson(world.api, world.tenant, 'member'),
    await makePerson(world.api, world.tenant, 'member'),
  ];
  const sub = randomUUID();
  await world.signInAs({ sub }, { invitation: await invitationFor(one.user_id) });
  const again = await world.signInAs({ sub }, { invitation: await invitationFor(two.user_id) });
  expect(refusal(again)).toMatchObject({ status: 409, code: 'already_exists' });
});

test('a member who was removed does not come back by signing in', async () => {
  const sub = randomUUID();
  const person = { sub, email: `${sub}@demo.example`, email_verified: true };
  const { body } = await world.signInAs(person);
  const at = `/v1/organizations/${world.tenant.org_id}/members/${body.user_id}`;
  expect((await world.api.call('delete', at, { key: world.tenant.owner_key })).status).toBe(200);
  expect((await world.signInAs(person)).status).toBe(403);
});

test('a person in two organizations names one, and an issuer of one organization opens no other', async () => {
  const { api, idp, platform, tenant } = world;
  const other = await makeTenant(api.db);
  const sub = randomUUID();
  const issuer = { issuer: idp.issuer, subject: sub };
  const made = await api.call('post', `/v1/organizations/${tenant.org_id}/members`, {
    key: platform,
    body: { name: 'Both', ...issuer },
  });
  const { user_id } = made.body;
  await api.call('post', `/v1/organizations/${other.org_id}/members`, {
    key: platform,
    body: { user_id },
  });
  expect((await world.signInAs({ sub })).body.org_id).toBe(tenant.org_id);
  expect((await world.signInAs({ sub }, { org_id: other.org_id })).status).toBe(404);
  const body = {
    ...issuerFor(idp, tenant),
    org_id: null,
    client_id: 'everywhere',
    email_domains: [],
    group_grants: [],
  };
  expect((await api.call('post', '/v1/admin/issuers', { key: platform, body })).status).toBe(201);
  const unnamed = await world.signInAs({ sub, aud: 'everywhere' });
  expect(refusal(unnamed)).toEqual({ status: 422, code: 'org_required', param: 'org_id' });
  expect(unnamed.body.error.organizations).toHaveLength(2);
  const named = await world.signInAs({ sub, aud: 'everywhere' }, { org_id: other.org_id });
  expect(named.body.org_id).toBe(other.org_id);
  const { memberships } = (await me(named.body.key)).body;
  expect(memberships.map((one: { org_id: string }) => one.org_id).sort()).toEqual(
    [tenant.org_id, other.org_id].sort(),
  );
});

test('an issuer whose subjects are our ids takes them as such, in its organization alone', async () => {
  await world.setIssuer({ subject: 'user_id' });
  try {
    expect((await world.signInAs({ sub: world.tenant.member_id })).body.user_id).toBe(
      world.tenant.member_id,
    );
    const other = await makeTenant(world.api.db);
    expect((await world.signInAs({ sub: other.member_id })).status).toBe(403);
  } finally {
    await world.setIssuer({ subject: 'bound' });
  }
});
