import { randomUUID } from 'node:crypto';
import { many } from '../../../domain/sql';
import {
  makePerson,
  makeTenant,
  type Person,
  refusal,
  startApi,
  type Tenant,
  type TestApi,
} from '../../support/api';
import { gatewayToken, issueKey, makeKey, platformKey } from '../../support/keys';

let api: TestApi;
let tenant: Tenant;

beforeAll(async () => {
  api = await startApi({ trusted_proxies: ['127.0.0.0/8'] });
  tenant = await makeTenant(api.db);
});

afterAll(() => api.close());

let address = 0;
/** A sign-in from an address of its own. */
function signIn(body: object, headers: Record<string, string> = {}) {
  address += 1;
  const from = { 'x-forwarded-for': `10.1.${address >> 8}.${address & 255}`, ...headers };
  return api.call('post', '/v1/sessions', { body, headers: from });
}

async function sessionOf(person: Person): Promise<{ id: string; key: string }> {
  const { status, body } = await signIn({ access_key: person.key });
  expect(status).toBe(201);
  return body;
}

const me = (key: string) => api.call('get', '/v1/me', { key });

test('a session from a key has its scopes and organization, lives twelve hours, and stands in no list of keys', async () => {
  const admin = await makePerson(api, tenant, 'admin');
  const key = await makeKey(api.db, tenant.org_id, {
    user_id: admin.user_id,
    scopes: ['org:members', 'tokens:write'],
  });
  const { status, body } = await signIn({ access_key: key });
  expect(status).toBe(201);
  expect(body).toMatchObject({
    org_id: tenant.org_id,
    user_id: admin.user_id,
    method: 'access_key',
    issuer: null,
    scopes: ['org:members', 'tokens:write'],
    key: expect.stringMatching(/^svc_ak_/),
  });
  const life_ms = Date.parse(body.expires_at) - Date.parse(body.created_at);
  expect(Math.round(life_ms / 1_000)).toBe(12 * 3_600);
  expect((await me(body.key)).body.permissions).toEqual(['org:members', 'tokens:write']);
  const listed = await api.call('get', '/v1/tokens?per_page=200', { key: tenant.owner_key });
  expect(listed.text).not.toContain(body.id);
  const all = await api.call('get', '/v1/sessions', { key: body.key });
  expect(all.body.sessions.map((one: { id: string }) => one.id)).toEqual([body.id]);
  expect(all.body.sessions[0].is_current).toBe(true);
});

test('an access key may come as bearer', async () => {
  const person = await makePerson(api, tenant, 'member');
  const { status, body } = await signIn({}, { authorization: `Bearer ${person.key}` });
  expect([status, body.user_id]).toEqual([201, person.user_id]);
});

test('a session is cut to its person at each use: a role of less takes its scopes at once', async () => {
  const person = await makePerson(api, tenant, 'admin');
  const { key } = await sessionOf(person);
  const body = { role: 'member' };
  expect((await api.call('put', person.at, { key: tenant.owner_key, body })).status).toBe(200);
  expect((await me(key)).body.permissions).toEqual([]);
});

test.each([
  ['revoked', 'revoked_at = clock_timestamp()'],
  ['expired', "expires_at = clock_timestamp() - interval '1 second'"],
])('a session ends with its key once that is %s', async (_, change) => {
  const person = await makePerson(api, tenant, 'member');
  const { id, key: access } = await issueKey(api.db, tenant.org_id, { user_id: person.user_id });
  const { body } = await signIn({ access_key: access });
  expect((await me(body.key)).status).toBe(200);
  await many(api.db, `update tokens set ${change} where id = :id`, { id });
  expect(refusal(await me(body.key))).toMatchObject({ status: 401, code: 'invalid_credential' });
});

test('a session ends with the value of the key that it was made with', async () => {
  const person = await makePerson(api, tenant, 'member');
  const name = randomUUID();
  const access = await makeKey(api.db, tenant.org_id, { user_id: person.user_id, name });
  const { body } = await signIn({ access_key: access });
  const rotated = await api.call('post', `/v1/tokens/${name}/rotate`, {
    key: tenant.owner_key,
    body: {},
  });
  expect(rotated.status).toBe(201);
  expect((await me(body.key)).status).toBe(401);
});

test('a session ends after an hour without use, and after twelve in any case', async () => {
  const person = await makePerson(api, tenant, 'member');
  const set = (id: string, columns: string) =>
    many(api.db, `update tokens set ${columns} where id = :id`, { id });
  const idle = await sessionOf(person);
  await set(idle.id, "last_used_at = clock_timestamp() - interval '59 minutes'");
  expect((await me(idle.key)).status).toBe(200);
  await set(idle.id, "last_used_at = clock_timestamp() - interval '61 minutes'");
  expect((await me(idle.key)).status).toBe(401);
  const old = await sessionOf(person);
  await set(old.id, "expires_at = clock_timestamp() - interval '1 second'");
  expect((await me(old.key)).status).toBe(401);
});

test('a key without a person, a gateway key, a control_plane key and another session open no session', async () => {
  const person = await makePerson(api, tenant, 'owner');
  const { key: session } = await sessionOf(person);
  const refused = {
    nobody: tenant.owner_key,
    gateway: await makeKey(api.db, tenant.org_id, {
      token_type: 'gateway',
      user_id: person.user_id,
    }),
    control_plane: await gatewayToken(api.db),
    session,
  };
  for (const [kind, access_key] of Object.entries(refused)) {
    const answer = await signIn({ access_key });
    expect({ kind, ...refusal(answer) }).toMatchObject({
      kind,
      status: 403,
      code: 'permission_denied',
    });
  }
  expect(refusal(await signIn({ access_key: 'svc_ak_nonsense' }))).toMatchObject({ status: 401 });
});

test("an operator's session is of no organization: it ends after an hour without use, with its key, and by itself", async () => {
  const platform = await platformKey(api.db);
  const begin = async () => {
    const answer = await signIn({ access_key: platform });
    expect(answer.status).toBe(201);
    return answer.body as { id: string; key: string; expires_at: string };
  };
  const answer = await signIn({ access_key: platform });
  expect(answer.body).toMatchObject({
    org_id: null,
    user_id: null,
    method: 'access_key',
    scopes: ['platform:admin'],
    is_current: true,
  });
  expect((await me(answer.body.key)).body).toMatchObject({
    user: null,
    permissions: ['platform:admin'],
    session: { id: answer.body.id },
  });
  const organizations = (key: string) => api.call('get', '/v1/admin/organizations', { key });
  expect((await organizations(answer.body.key)).status).toBe(200);
  // It opens no other session, and stands in no list of keys.
  expect(refusal(await signIn({ access_key: answer.body.key }))).toMatchObject({ status: 403 });
  const { tokens } = (await api.call('get', '/v1/tokens', { key: platform })).body;
  expect(tokens.map(({ id }: { id: string }) => id)).not.toContain(answer.body.id);
  const idle = await begin();
  await many(
    api.db,
    "update tokens set last_used_at = clock_timestamp() - interval '61 minutes' where id = :id",
    { id: idle.id },
  );
  expect((await organizations(idle.key)).status).toBe(401);
  const ended = await begin();
  expect((await api.call('delete', '/v1/sessions/current', { key: ended.key })).body).toEqual({
    ended: 1,
  });
  expect((await organizations(ended.key)).status).toBe(401);
  // An organization that it names is not the platform's.
  expect(refusal(await signIn({ access_key: platform, org_id: tenant.org_id }))).toMatchObject({
    status: 403,
  });
  const last = await begin();
  await many(
    api.db,
    `update tokens set revoked_at = clock_timestamp() where id = (select made_with from tokens where id = :id)`,
    { id: last.id },
  );
  expect((await organizations(last.key)).status).toBe(401);
});

test.each([
  [{}, 'access_key'],
  [{ access_key: 'a', one_time_code: 'b' }, 'one_time_code'],
  [{ id_token: 'a.b.c' }, 'nonce'],
  [{ code: 'a', nonce: 'b'.repeat(8) }, 'issuer_id'],
  [{ access_key: 'a', nonce: 'b'.repeat(8) }, 'nonce'],
  [{ access_key: 'a\u0000' }, 'access_key'],
  [{ access_key: 7 }, 'access_key'],
])('%j is 422 for %s', async (body, param) => {
  expect(refusal(await signIn(body))).toMatchObject({ status: 422, param });
});

test('a person ends one session, this one, or all; and nobody ends those of others below org:members', async () => {
  const person = await makePerson(api, tenant, 'member');
  const [first, second, third] = [
    await sessionOf(person),
    await sessionOf(person),
    await sessionOf(person),
  ];
  const end = (path: string, key: string) => api.call('delete', path, { key });
  expect((await end(`/v1/sessions/${first.id}`, second.key)).body).toEqual({ ended: 1 });
  expect((await me(first.key)).status).toBe(401);
  expect((await end('/v1/sessions/current', second.key)).body).toEqual({ ended: 1 });
  expect((await me(second.key)).status).toBe(401);
  const fourth = await sessionOf(person);
  const other = await makePerson(api, tenant, 'billing_admin');
  expect((await end(`/v1/sessions/${fourth.id}`, other.key)).status).toBe(404);
  const stranger = await makeTenant(api.db);
  expect((await end(`/v1/sessions/${fourth.id}`, stranger.owner_key)).status).toBe(404);
  expect((await end('/v1/sessions', third.key)).body).toEqual({ ended: 2 });
  expect((await me(fourth.key)).status).toBe(401);
  expect((await end('/v1/sessions/current', person.key)).status).toBe(404);
});

test('org:members ends the sessions of members who may do no more than they', async () => {
  const admin = await makePerson(api, tenant, 'admin');
  const owner = await makePerson(api, tenant, 'owner');
  const member = await makePerson(api, tenant, 'member');
  const of_owner = await sessionOf(owner);
  const of_member = await sessionOf(member);
  const end = (id: string) => api.call('delete', `/v1/sessions/${id}`, { key: admin.key });
  expect((await end(of_owner.id)).status).toBe(403);
  expect((await end(of_member.id)).body).toEqual({ ended: 1 });
  const [event] = await many<{ actor: string; action: string }>(
    api.db,
    `select actor, action from audit_events where object_id = :id order by id desc limit 1`,
    { id: of_member.id },
  );
  expect(event).toEqual({ actor: admin.user_id, action: 'session.ended' });
});

test('removing a member ends their sessions, and lists no session among the keys', async () => {
  const person = await makePerson(api, tenant, 'member');
  const session = await sessionOf(person);
  const removed = await api.call('delete', person.at, { key: tenant.owner_key });
  expect(removed.status).toBe(200);
  expect(removed.text).not.toContain(session.id);
  expect((await me(session.key)).status).toBe(401);
});

test('of one person fifty sessions live at one time', async () => {
  const person = await makePerson(api, tenant, 'member');
  const first = await sessionOf(person);
  for (let n = 0; n < 50; n += 1) await sessionOf(person);
  expect((await me(first.key)).status).toBe(401);
  const { body } = await api.call('get', '/v1/sessions', { key: person.key });
  expect(body.sessions).toHaveLength(50);
});

test('from one address ten tries a minute are taken, good or not, also in parallel; others go on', async () => {
  const person = await makePerson(api, tenant, 'member');
  const from = { 'x-forwarded-for': '10.9.9.9' };
  const began = performance.now();
  const answers = await Promise.all(
    Array.from({ length: 15 }, (_, n) =>
      signIn({ access_key: n % 2 === 0 ? person.key : 'svc_ak_wrong' }, from),
    ),
  );
  const statuses = answers.map(({ status }) => status);
  expect(statuses.filter((status) => status === 429)).toHaveLength(5);
  const took_s = (performance.now() - began) / 1_000;
  const full = answers.find(({ status }) => status === 429);
  expect(Number(full?.headers['retry-after'])).toBeGreaterThan(50 - took_s);
  expect((await signIn({ access_key: person.key })).status).toBe(201);
  await many(
    api.db,
    `update sign_in_tries set tries = array(select t - interval '61 seconds' from unnest(tries) as t) where address = '10.9.9.9'`,
  );
  expect((await signIn({ access_key: person.key }, from)).status).toBe(201);
});

test('an address that a client invents is not believed', async () => {
  const other = await startApi();
  try {
    const statuses: number[] = [];
    for (let n = 0; n < 12; n += 1) {
      const headers = { 'x-forwarded-for': `10.2.0.${n}` };
      const body = { access_key: 'svc_ak_wrong' };
      statuses.push((await other.call('post', '/v1/sessions', { body, headers })).status);
    }
    expect(statuses).toEqual([...Array(10).fill(401), 429, 429]);
  } finally {
    await other.close();
  }
});
