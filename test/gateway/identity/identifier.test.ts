import { randomUUID } from 'node:crypto';
import { createServer, type Server } from 'node:http';
import { type CryptoKey, exportJWK, generateKeyPair, SignJWT } from 'jose';
import * as members from '../../../domain/people/members';
import * as organizations from '../../../domain/people/organizations';
import * as teams from '../../../domain/people/teams';
import { many } from '../../../domain/sql';
import { adopt } from '../../../gateway/adopt';
import { openSnapshot } from '../../../gateway/call/snapshot';
import { listen } from '../../../runtime/listen';
import { chat, gatewayKey, lastCharge, openWorld, post, type World } from '../../support/gateway';
import { until } from '../../support/until';

const issuer = 'https://id.example';
const audience = 'svc-gateway';
const path = '/v1/chat/completions';

let world: World;
let jwks: Server;
let jwks_url: string;
let is_away = false;
let fetches = 0;
const published: { keys: object[] } = { keys: [] };
let first: CryptoKey;

beforeAll(async () => {
  world = await openWorld();
  first = await publish('first');
  jwks = createServer((_, answer) => {
    fetches += 1;
    if (is_away) answer.socket?.destroy();
    else answer.end(JSON.stringify(published));
  });
  jwks_url = `http://127.0.0.1:${await listen(jwks, 0)}/jwks.json`;
});
afterAll(async () => {
  jwks.closeAllConnections();
  jwks.close();
  await world.close();
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
  kid?: string;
  [claim: string]: unknown;
}

function sign(sub: string, claims: Claims = {}, key = first): Promise<string> {
  const { iss = issuer, aud = audience, exp = '5m', kid = 'first', ...more } = claims;
  return new SignJWT(more)
    .setProtectedHeader({ alg: 'ES256', kid })
    .setSubject(sub)
    .setIssuer(iss)
    .setAudience(aud)
    .setExpirationTime(exp)
    .sign(key);
}

async function asserting() {
  const identity = { mode: 'signed_assertion', org_id: world.org.org_id };
  const settings = { identity: { ...identity, issuer, audience, jwks_url } };
  return (await world.openGateway({ settings })).url;
}

async function makeMember(): Promise<string> {
  const person = { name: `Member ${randomUUID()}`, role: 'member' as const };
  return (await members.add(world.api.db, world.org.org_id, person, true)).user_id;
}

async function makeAgent(): Promise<string> {
  return (await organizations.createAgent(world.api.db, world.org.org_id, 'Agent')).id;
}

/** The members of the event of the request that its client labelled so. */
async function eventOf(label: string): Promise<Record<string, unknown>> {
  let rows: { payload: Record<string, unknown> }[] = [];
  await until(async () => {
    rows = await many(
      world.api.db,
      `select payload from events where type = 'request.completed' and trace_label = :label`,
      { label },
    );
    return rows.length > 0;
  });
  return rows[0]?.payload ?? {};
}

async function lastPayer(): Promise<Record<string, unknown>> {
  const rows = await many<Record<string, unknown>>(
    world.api.db,
    `select user_id, team_id, key_id from reservations where org_id = :org_id order by created_at desc, id desc limit 1`,
    { org_id: world.org.org_id },
  );
  return rows[0] ?? {};
}

test('a signed assertion pays as its user, and its event says so', async () => {
  const url = await asserting();
  const label = randomUUID();
  const user_id = await makeMember();
  const answer = await post(url + path, await sign(user_id), chat('Hello'), {
    'x-request-id': label,
  });
  expect(answer.status).toBe(200);
  expect((await lastCharge(world, world.org.org_id)).status).toBe('settled');
  expect(await lastPayer()).toMatchObject({ user_id, key_id: null });
  expect(await eventOf(label)).toMatchObject({
    identity_proof_method: 'signed_assertion',
    identity_context: { user_id, key_id: null, team_id: null },
    outcome: 'completed',
    model: 'gpt-4o-mini',
  });
});

test('the key that an assertion names brings its models, its agent and its end', async () => {
  const url = await asserting();
  const user_id = await makeMember();
  const agent_id = await makeAgent();
  const name = randomUUID();
  await gatewayKey(world.api, world.org.org_id, {
    name,
    user_id,
    agent_id,
    allowed_models: ['gpt-4o'],
  });
  const [{ id: kt_key_id }] = (await many<{ id: string }>(
    world.api.db,
    'select id from tokens where name = :name',
    { name },
  )) as [{ id: string }];
  const jwt = await sign(user_id, { kt_key_id });
  expect((await post(url + path, jwt, chat('Hello'))).text).toContain('model_not_allowed');
  expect((await post(url + path, jwt, chat('Hello', { model: 'gpt-4o' }))).status).toBe(200);
  expect(await lastPayer()).toMatchObject({ user_id, key_id: kt_key_id });
  const other = await makeMember();
  const borrowed = await post(url + path, await sign(other, { kt_key_id }), chat('Hello'));
  expect(borrowed.status).toBe(403);
  await many(world.api.db, 'update tokens set revoked_at = clock_timestamp() where id = :id', {
    id: kt_key_id,
  });
  const revoked = await post(url + path, jwt, chat('Hello', { model: 'gpt-4o' }));
  expect(revoked.status).toBe(403);
});

test('a key of another organization cannot be named', async () => {
  const url = await asserting();
  const stranger = await world.api.db('tokens').whereNot({ org_id: world.org.org_id }).first();
  const kt_key_id = stranger?.id ?? 'key_of_nobody';
  const jwt = await sign(await makeMember(), { kt_key_id });
  expect((await post(url + path, jwt, chat('Hello'))).status).toBe(403);
});

test.each([
  ['sub', 'stranger', {}],
  ['kt_team_id', undefined, { kt_team_id: 'team_of_nobody' }],
])(
  'an assertion whose %s is nobody of the organization is refused as one that may not call, by its claim',
  async (name, sub, claims) => {
    const jwt = await sign(sub ?? (await makeMember()), claims);
    const answer = await post((await asserting()) + path, jwt, chat('Hello'));
    expect(answer.status).toBe(403);
    const { error } = JSON.parse(answer.text);
    expect(error).toMatchObject({ code: 'permission_denied', param: null });
    expect(error.message).toContain(`"${name}"`);
  },
);

test("an assertion that names a team of others is 403 not_team_member by its claim, and the team's wallet pays nothing", async () => {
  const { db } = world.api;
  const { org_id } = world.org;
  const url = await asserting();
  const user_id = await makeMember();
  const { id: team_id } = await organizations.createTeam(db, org_id, randomUUID());
  const ask = async () =>
    post(url + path, await sign(user_id, { kt_team_id: team_id }), chat('Hello'));
  const refused = await ask();
  expect(refused.status).toBe(403);
  expect(refused.headers['x-should-retry']).toBe('false');
  expect(JSON.parse(refused.text).error).toMatchObject({
    code: 'not_team_member',
    param: 'kt_team_id',
  });
  await teams.add(db, { org_id, team_id, user_id });
  expect([(await ask()).status, await lastPayer()]).toMatchObject([200, { user_id, team_id }]);
});

test('what is no assertion of the issuer is refused before anything else', async () => {
  const url = await asserting();
  const { privateKey } = await generateKeyPair('ES256');
  const refused = [
    undefined,
    'not-a-jwt',
    world.key,
    await sign('user', { iss: 'https://evil.example' }),
    await sign('user', { aud: 'another service' }),
    await sign('user', { exp: 1_000 }),
    await sign('user', {}, privateKey),
    await sign('user', { kt_team_id: 7 }),
    await sign('user', { kt_team_id: 'team\u0000' }),
    `${Buffer.from('{"alg":"none"}').toString('base64url')}.${Buffer.from('{"sub":"user"}').toString('base64url')}.x`,
  ];
  for (const credential of refused) {
    const answer = await post(url + path, credential, '{broken');
    expect([credential, answer.status]).toEqual([credential, 401]);
    expect(answer.headers['www-authenticate']).toMatch(/^Bearer/);
  }
  expect((await post(url + path, await sign('user\u0000'), '{broken')).status).toBe(403);
});

test('a rotated signing key is found, and an issuer that is away stops nobody whose key is known', async () => {
  const url = await asserting();
  const user_id = await makeMember();
  expect((await post(url + path, await sign(user_id), chat('Hello'))).status).toBe(200);
  const second = await publish('second');
  // A gateway of its own, whose cool-down has not begun.
  const fresh = await asserting();
  const rotated = await sign(user_id, { kid: 'second' }, second);
  expect((await post(fresh + path, rotated, chat('Hello'))).status).toBe(200);
  is_away = true;
  try {
    const before = fetches;
    const another = await sign(user_id, { kid: 'second', jti: randomUUID() }, second);
    expect((await post(fresh + path, another, chat('Hello'))).status).toBe(200);
    expect(fetches).toBe(before);
    const cold = await asserting();
    const answer = await post(cold + path, another, chat('Hello'));
    expect([answer.status, answer.headers['retry-after']]).toEqual([503, '2']);
  } finally {
    is_away = false;
  }
});

test('after a reload to another issuer an assertion of the old one is refused at once', async () => {
  const identity = { mode: 'signed_assertion', org_id: world.org.org_id, audience, jwks_url };
  const gateway = await world.openGateway({ settings: { identity: { ...identity, issuer } } });
  const user_id = await makeMember();
  const jwt = await sign(user_id);
  expect((await post(gateway.url + path, jwt, chat('Hello'))).status).toBe(200);
  const { snapshot } = gateway.gateway;
  const other = {
    ...snapshot.settings,
    identity: { ...identity, issuer: 'https://other.example' },
  };
  await adopt(gateway.gateway, openSnapshot(other as typeof snapshot.settings, gateway.gateway));
  expect((await post(gateway.url + path, jwt, chat('Hello'))).status).toBe(401);
});

test('in header_soft the organization pays and nothing is proved', async () => {
  const settings = { identity: { mode: 'header_soft', org_id: world.org.org_id } };
  const { url } = await world.openGateway({ settings });
  const label = randomUUID();
  const user_id = await makeMember();
  const answer = await post(url + path, undefined, chat('Hello'), {
    'x-user-id': user_id,
    'x-request-id': label,
  });
  expect(answer.status).toBe(200);
  await lastCharge(world, world.org.org_id);
  expect(await lastPayer()).toEqual({ user_id: null, team_id: null, key_id: null });
  const told = await eventOf(label);
  expect(told).toMatchObject({ identity_proof_method: 'header_soft' });
  expect(told).not.toHaveProperty('identity_context');
});

test('with a gateway key no header changes who calls', async () => {
  const label = randomUUID();
  const headers = { 'x-user-id': 'user_forged', 'x-team-id': 'team_forged', 'x-request-id': label };
  expect((await post(world.url + path, world.key, chat('Hello'), headers)).status).toBe(200);
  await lastCharge(world, world.org.org_id);
  const told = await eventOf(label);
  expect(told).toMatchObject({ identity_proof_method: 'gateway_key' });
  expect(JSON.stringify(told)).not.toContain('forged');
});
