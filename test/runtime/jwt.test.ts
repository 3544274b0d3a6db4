import { randomUUID } from 'node:crypto';
import { createServer, type Server } from 'node:http';
import { type CryptoKey, exportJWK, generateKeyPair, SignJWT } from 'jose';
import * as members from '../../domain/people/members';
import { type Role, rolePermissions } from '../../domain/people/roles';
import type { Db } from '../../domain/sql';
import { loadConfig } from '../../runtime/config';
import { createJwtVerifier } from '../../runtime/jwt';
import { listen } from '../../runtime/listen';
import { type CallApi, makeTenant, refusal, serve, startApi, type Tenant } from '../support/api';

const issuer = 'https://id.example';
const audience = 'svc';

let db: Db;
let call: CallApi;
let close: () => Promise<void>;
let jwks: Server;
let jwks_url: string;
let signing_key: CryptoKey;
let tenant: Tenant;
const published: { keys: object[] } = { keys: [] };

beforeAll(async () => {
  signing_key = await publish('first');
  jwks = createServer((_, answer) => answer.end(JSON.stringify(published)));
  jwks_url = `http://127.0.0.1:${await listen(jwks, 0)}/jwks.json`;
  const jwt = createJwtVerifier({ issuer, audience, jwks_url });
  ({ db, call, close } = await startApi({ jwt }));
  tenant = await makeTenant(db);
});

afterAll(async () => {
  jwks.closeAllConnections();
  jwks.close();
  await close();
});

async function publish(kid: string): Promise<CryptoKey> {
  const { publicKey, privateKey } = await generateKeyPair('ES256');
  published.keys.push({ ...(await exportJWK(publicKey)), kid, alg: 'ES256', use: 'sig' });
  return privateKey;
}

interface Claims {
  iss?: string;
  aud?: string;
  exp?: string | number;
}

function sign(
  sub: string,
  { iss = issuer, aud = audience, exp = '5m' }: Claims = {},
  key = signing_key,
  kid = 'first',
) {
  return new SignJWT({})
    .setProtectedHeader({ alg: 'ES256', kid })
    .setSubject(sub)
    .setIssuer(iss)
    .setAudience(aud)
    .setExpirationTime(exp)
    .sign(key);
}

/** A token of the issuer with these claims, whatever they are. */
async function signed(claims: object, typ?: unknown): Promise<string> {
  const part = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url');
  const text = `${part({ alg: 'ES256', kid: 'first', ...(typ === undefined ? {} : { typ }) })}.${part(claims)}`;
  const algorithm = { name: 'ECDSA', hash: 'SHA-256' };
  const signature = await crypto.subtle.sign(algorithm, signing_key, Buffer.from(text));
  return `${text}.${Buffer.from(signature).toString('base64url')}`;
}

/** A person of the issuer who is a member; `jwt` is their token. */
async function makePerson(role: Role, org_id = tenant.org_id) {
  const subject = randomUUID();
  const person = { name: 'Ann', issuer, subject, role };
  const { user_id } = await members.add(db, org_id, person, true);
  return { user_id, subject, jwt: await sign(subject) };
}

const credit = { target_wallet_owner_type: 'organization', amount: 1 };

test('a JWT of the configured issuer acts as its user: the role gives the scopes', async () => {
  const roles = ['owner', 'admin', 'billing_admin', 'member'] as const;
  const tried = [];
  for (const role of roles) {
    const { jwt: key } = await makePerson(role);
    const base = `/v1/organizations/${tenant.org_id}`;
    const statuses = [
      (await call('get', '/v1/wallets', { key })).status,
      (await call('post', '/v1/wallets/credit', { key, body: credit })).status,
      (await call('post', `${base}/teams`, { key, body: { name: randomUUID() } })).status,
      (await call('get', `${base}/agents`, { key })).status,
      (await call('get', '/v1/tokens', { key })).status,
      (await call('get', '/v1/admin/wallets', { key })).status,
    ];
    tried.push([role, ...statuses]);
  }
  expect(tried).toEqual([
    ['owner', 200, 201, 201, 200, 200, 403],
    ['admin', 200, 403, 201, 200, 200, 403],
    ['billing_admin', 200, 201, 403, 403, 403, 403],
    ['member', 200, 403, 403, 403, 403, 403],
  ]);
  expect(rolePermissions.admin).toEqual([
    'agents:read',
    'agents:write',
    'tokens:write',
    'org:members',
    'events:read',
  ]);
});

test('a person sees their own wallet by their JWT', async () => {
  const { user_id, jwt: key } = await makePerson('member');
  const body = { user_id, amount: 1 };
  await call('post', '/v1/wallets/credit', { key: tenant.billing_key, body: credit });
  await call('post', '/v1/wallets/allocate', { key: tenant.billing_key, body });
  const balance = await call('get', '/v1/wallets/balance', { key });
  expect(balance.body).toMatchObject({ user_balance: 1, effective_wallet_owner_type: 'user' });
});

test('a JWT that is expired, without an end, forged, unsigned or for others is 401', async () => {
  const { subject } = await makePerson('owner');
  const { privateKey: stranger } = await generateKeyPair('ES256');
  const part = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url');
  const claims = part({ iss: issuer, aud: audience, sub: subject, exp: Date.now() });
  const wrong = {
    expired: await sign(subject, { exp: Math.floor(Date.now() / 1_000) - 10 }),
    other_issuer: await sign(subject, { iss: 'https://evil.example' }),
    other_audience: await sign(subject, { aud: 'someone else' }),
    forged: await sign(subject, {}, stranger),
    unknown_key: await sign(subject, {}, stranger, 'nobody'),
    unsigned: `${part({ alg: 'none' })}.${claims}.`,
    shared_secret: `${part({ alg: 'HS256', kid: 'first' })}.${claims}.${'a'.repeat(43)}`,
    for_ever: await new SignJWT({})
      .setProtectedHeader({ alg: 'ES256', kid: 'first' })
      .setSubject(subject)
      .setIssuer(issuer)
      .setAudience(audience)
      .sign(signing_key),
    no_token: 'abc',
  };
  // What the token itself says is named, the more so to whoever sent the wrong one of theirs.
  const words: Partial<Record<keyof typeof wrong, string>> = {
    expired: 'it has expired',
    other_issuer: 'its iss is not the configured issuer',
    other_audience: 'its aud is not the audience that is configured',
    forged: 'no key of the issuer has signed it',
    for_ever: 'it has no exp',
  };
  for (const [kind, key] of Object.entries(wrong)) {
    const answer = await call('get', '/v1/wallets', { key });
    expect(answer.body.error.message).toContain(words[kind as keyof typeof wrong] ?? 'token');
    expect(answer.text).not.toContain(audience);
    expect({ kind, ...refusal(answer) }).toMatchObject({
      kind,
      status: 401,
      code: 'invalid_credential',
    });
    expect(answer.text).not.toContain(key);
  }
});

test('a token counts some seconds beyond its times, as clocks differ, and no more', async () => {
  const { subject } = await makePerson('member');
  const now = Math.floor(Date.now() / 1_000);
  const statusOf = async (claims: object) =>
    (await call('get', '/v1/wallets', { key: await signed(claims) })).status;
  const person = { sub: subject, iss: issuer, aud: audience };
  expect(await statusOf({ ...person, exp: now - 1 })).toBe(200);
  expect(await statusOf({ ...person, exp: now + 60, nbf: now + 2 })).toBe(200);
  expect(await statusOf({ ...person, exp: now + 60, iat: now + 2 })).toBe(200);
  expect(await statusOf({ ...person, exp: now - 30 })).toBe(401);
  expect(await statusOf({ ...person, exp: now + 60, nbf: now + 60 })).toBe(401);
  expect(await statusOf({ ...person, exp: now + 60, iat: now + 60 })).toBe(401);
});

test('what is well signed and yet no access token of a person opens nothing', async () => {
  const { subject } = await makePerson('member');
  const exp = Math.floor(Date.now() / 1_000) + 60;
  const good = { sub: subject, iss: issuer, aud: audience, exp };
  const get = (key: string) => call('get', '/v1/wallets', { key });
  for (const typ of [undefined, 'JWT', 'at+jwt', 'application/at+jwt'])
    expect([typ, (await get(await signed(good, typ))).status]).toEqual([typ, 200]);
  for (const typ of ['logout+jwt', 'secevent+jwt', 'dpop+jwt', '', 5, null, ['JWT'], {}])
    expect([typ, (await get(await signed(good, typ))).body.error]).toMatchObject([
      typ,
      { code: 'invalid_credential', message: expect.stringContaining('its typ') },
    ]);
  for (const sub of [7, { id: subject }, [subject], null, true, ''])
    expect([sub, (await get(await signed({ ...good, sub }))).status]).toEqual([sub, 401]);
  for (const end of [1e308, 253_402_300_799, Number.MAX_SAFE_INTEGER])
    expect([end, (await get(await signed({ ...good, exp: end }))).status]).toEqual([end, 401]);
});

test('a subject that no database keeps is an unknown person', async () => {
  const exp = Math.floor(Date.now() / 1_000) + 60;
  for (const sub of ['a\u0000b', '\u0000', 'a\ud800']) {
    const key = await signed({ sub, iss: issuer, aud: audience, exp });
    expect([sub, (await call('get', '/v1/wallets', { key })).status]).toEqual([sub, 403]);
  }
});

test('a person whom no organization knows, or has removed, is denied', async () => {
  expect((await call('get', '/v1/wallets', { key: await sign(randomUUID()) })).status).toBe(403);
  const { user_id, jwt: key } = await makePerson('admin');
  expect((await call('get', '/v1/wallets', { key })).status).toBe(200);
  const at = `/v1/organizations/${tenant.org_id}/members/${user_id}`;
  expect((await call('delete', at, { key: tenant.owner_key })).status).toBe(200);
  expect((await call('get', '/v1/wallets', { key })).status).toBe(403);
});

test('a member of several organizations names one by X-Org-Id, and has there the role of there', async () => {
  const other = await makeTenant(db);
  const { user_id, jwt: key } = await makePerson('member');
  await members.add(db, other.org_id, { user_id, role: 'owner' }, true);
  expect(refusal(await call('get', '/v1/wallets', { key }))).toEqual({
    status: 422,
    code: 'org_required',
    param: 'X-Org-Id',
  });
  const post = (org_id: string) =>
    call('post', '/v1/wallets/credit', { key, body: credit, headers: { 'x-org-id': org_id } });
  expect((await post(other.org_id)).status).toBe(201);
  expect((await post(tenant.org_id)).status).toBe(403);
  expect((await post((await makeTenant(db)).org_id)).status).toBe(404);
});

test("a person's keys carry no more than the person", async () => {
  const { jwt: key, user_id } = await makePerson('admin');
  const issue = (scopes: string[]) =>
    call('post', '/v1/tokens', {
      key,
      body: { name: randomUUID(), token_type: 'access', user_id, scopes },
    });
  expect((await issue(['agents:read'])).status).toBe(201);
  expect((await issue(['org:billing'])).status).toBe(403);
});

test('an Idempotency-Key belongs to the person, not to one token', async () => {
  const { jwt, subject } = await makePerson('billing_admin');
  const headers = { 'idempotency-key': randomUUID() };
  const first = await call('post', '/v1/wallets/credit', { key: jwt, body: credit, headers });
  const renewed = await sign(subject, { exp: '9m' });
  const again = await call('post', '/v1/wallets/credit', { key: renewed, body: credit, headers });
  expect(again.body).toEqual(first.body);
});

test('a key set that is away is 503 with Retry-After, not a wrong credential; keys go on working', async () => {
  const jwt = createJwtVerifier({ issuer, audience, jwks_url: 'http://127.0.0.1:1/jwks.json' });
  const served = await serve({ db, jwt });
  const answer = await served.call('get', '/v1/wallets', { key: await sign('x') });
  expect(refusal(answer)).toMatchObject({ status: 503, code: 'unavailable' });
  expect(Number(answer.headers['retry-after'])).toBeGreaterThan(0);
  expect((await served.call('get', '/v1/wallets', { key: tenant.member_key })).status).toBe(200);
  await served.close();
});

test('a rotated signing key is found without a restart', async () => {
  const { subject } = await makePerson('member');
  const served = await serve({
    db,
    jwt: createJwtVerifier({ issuer, audience, jwks_url, cooldown_ms: 0 }),
  });
  const get = (key: string) => served.call('get', '/v1/wallets', { key });
  expect((await get(await sign(subject))).status).toBe(200);
  const second = await publish('second');
  expect((await get(await sign(subject, {}, second, 'second'))).status).toBe(200);
  await served.close();
});

test('without a configured issuer a JWT is no credential', async () => {
  const served = await serve({ db });
  const { jwt: key } = await makePerson('owner');
  expect((await served.call('get', '/v1/wallets', { key })).status).toBe(401);
  await served.close();
});

test('the variables of the issuer stand together or not at all', () => {
  const SVC_SECRETS_KEY = Buffer.alloc(32).toString('base64');
  const env = { DATABASE_URL: 'postgres://x', TEMPORAL_ADDRESS: '127.0.0.1:7233', SVC_SECRETS_KEY };
  expect(loadConfig('api', env)).not.toHaveProperty('JWT_ISSUER');
  const all = {
    JWT_ISSUER: issuer,
    JWT_AUDIENCE: audience,
    JWT_JWKS_URL: 'https://id.example/jwks',
  };
  expect(loadConfig('api', { ...env, ...all })).toMatchObject(all);
  for (const name of Object.keys(all))
    expect(() => loadConfig('api', { ...env, ...all, [name]: undefined })).toThrow(name);
  // Whoever is on the way of plain http could publish keys of their own.
  const plain = { ...env, ...all, JWT_JWKS_URL: 'http://id.example/jwks' };
  expect(() => loadConfig('api', plain)).toThrow('JWT_JWKS_URL must begin with https://');
  const here = { ...env, ...all, JWT_JWKS_URL: 'http://127.0.0.1:9000/jwks' };
  expect(loadConfig('api', here).JWT_JWKS_URL).toBe('http://127.0.0.1:9000/jwks');
});
