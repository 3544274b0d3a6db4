import { HUGE, LARGE } from '../../../api/http/body';
import type { Route } from '../../../api/http/route';
import { routes } from '../../../api/table';
import * as keys from '../../../domain/people/keys';
import { rolePermissions } from '../../../domain/people/roles';
import * as tokens from '../../../domain/people/tokens';
import type { Db } from '../../../domain/sql';
import { type CallApi, makeTenant, refusal, startApi, type Tenant } from '../../support/api';
import { gatewayToken, makeKey, platformKey } from '../../support/keys';

let db: Db;
let call: CallApi;
let close: () => Promise<void>;
let tenant: Tenant;
let platform: string;
let gateway: string;
let bad_keys: Record<string, string | undefined>;

beforeAll(async () => {
  ({ db, call, close } = await startApi());
  tenant = await makeTenant(db);
  platform = await platformKey(db);
  gateway = await gatewayToken(db);
  const expired = await makeKey(db, tenant.org_id, {
    name: 'expired',
    scopes: rolePermissions.owner,
  });
  await db('tokens')
    .where({ name: 'expired' })
    .update({ expires_at: new Date(Date.now() - 1_000) });
  const revoked = await makeKey(db, tenant.org_id, {
    name: 'revoked',
    scopes: rolePermissions.owner,
  });
  await tokens.revoke(db, tenant.org_id, await tokens.find(db, tenant.org_id, 'revoked'));
  const last = platform.endsWith('A') ? 'B' : 'A';
  bad_keys = {
    missing: undefined,
    mistyped: `${platform.slice(0, -1)}${last}`,
    unknown: await keys.newKey('access'),
    expired,
    revoked,
    gateway: await makeKey(db, tenant.org_id, { token_type: 'gateway' }),
    jwt: 'eyJhbGciOiJub25lIn0.eyJzdWIiOiJ4In0.',
  };
});

afterAll(() => close());

const names = (row: Route) => `${row.method.toUpperCase()} ${row.path}`;
const path = (row: Route) => row.path.replace(/:\w+/g, 'x');
const guarded = routes.filter(({ access }) => access.label !== 'public');

/** A key that passes the access word of a route. */
function passing({ access }: Route): string {
  if (access.label === 'control_plane') return gateway;
  return access.label === 'platform:admin' ? platform : tenant.owner_key;
}

test.each(guarded.map((row) => [names(row), row] as const))(
  '%s answers 401 to a missing, mistyped, unknown, expired, revoked or gateway key',
  async (_, row) => {
    for (const [kind, key] of Object.entries(bad_keys)) {
      const answer = await call(row.method, path(row), { key });
      expect({ kind, ...refusal(answer) }).toMatchObject({
        kind,
        status: 401,
        code: 'invalid_credential',
      });
      expect(answer.headers['www-authenticate']).toBe('Bearer');
      if (key) expect(answer.text).not.toContain(key);
    }
  },
);

const restricted = guarded.filter(({ access }) => access.label !== 'member');

test.each(restricted.map((row) => [names(row), row.access.label, row] as const))(
  '%s answers 403 to every key without %s',
  async (_, label, row) => {
    const enough = label.split(' or ');
    const scopes = rolePermissions.owner.filter((scope) => !enough.includes(scope));
    const keys = [await makeKey(db, tenant.org_id, { scopes }), tenant.member_key];
    keys.push(label === 'control_plane' ? platform : gateway);
    for (const key of keys) {
      const answer = await call(row.method, path(row), { key });
      expect(refusal(answer)).toMatchObject({ status: 403, code: 'permission_denied' });
      expect(answer.headers['x-should-retry']).toBe('false');
    }
  },
);

test.each(guarded.map((row) => [names(row), row] as const))(
  '%s refuses an unknown field by its name',
  async (_, row) => {
    const key = passing(row);
    const query = await call(row.method, `${path(row)}?nonsense=1`, { key });
    expect(refusal(query)).toEqual({ status: 422, code: 'unknown_field', param: 'nonsense' });
    if (row.method === 'get') return;
    const body = await call(row.method, path(row), { key, body: { nonsense: 1 } });
    expect(refusal(body)).toEqual({ status: 422, code: 'unknown_field', param: 'nonsense' });
  },
);

const writing = guarded.filter(({ method }) => method !== 'get');

test.each(writing.map((row) => [names(row), row] as const))(
  '%s refuses broken JSON with 400, another content type with 415, above its bound with 413',
  async (_, row) => {
    const key = passing(row);
    const send = (body: string, type = 'application/json') =>
      call(row.method, path(row), { key, body, headers: { 'content-type': type } });
    for (const broken of ['{"amount": 1', '{"amount": NaN}', '[]', '"text"', 'null', '1'])
      expect(refusal(await send(broken))).toMatchObject({ status: 400, code: 'invalid_json' });
    // Gateways write no body by hand, and theirs are read in less time.
    if (row.access.label !== 'control_plane')
      expect(refusal(await send('{"name": "a", "name": "b"}'))).toEqual({
        ...{ status: 400, code: 'invalid_request', param: 'name' },
      });
    for (const type of ['text/plain', 'application/x-www-form-urlencoded', 'application/xml'])
      expect(refusal(await send('{}', type))).toMatchObject({
        status: 415,
        code: 'unsupported_media_type',
      });
    const bound = row.is_huge ? HUGE.bytes : LARGE.bytes;
    const large = await send(JSON.stringify({ note: 'x'.repeat(bound + 1) }));
    expect(refusal(large)).toMatchObject({ status: 413, code: 'payload_too_large' });
  },
);

const machine = guarded.filter(({ access }) => access.label === 'control_plane');

test.each(machine.map((row) => [names(row), row] as const))(
  '%s turns browsers away with 403',
  async (_, row) => {
    const answer = await call(row.method, path(row), {
      key: gateway,
      body: {},
      headers: { origin: 'https://console.example' },
    });
    expect(refusal(answer)).toMatchObject({ status: 403, code: 'browser_not_allowed' });
    expect(Object.keys(answer.headers).filter((name) => name.startsWith('access-control'))).toEqual(
      [],
    );
  },
);

test('a gateway service token acts for no organization on the routes of people', async () => {
  for (const row of guarded.filter(
    ({ access, method }) => access.label === 'member' && method === 'get',
  )) {
    const answer = await call('get', row.path.replace(':id', tenant.org_id), { key: gateway });
    expect({ path: row.path, status: answer.status }).toEqual({ path: row.path, status: 403 });
  }
});

test('no CORS, and an unknown path or method is 404 in the one error shape', async () => {
  for (const [method, at] of [
    ['options', '/v1/wallets'],
    ['get', '/v1/nothing'],
    ['patch', '/v1/wallets/credit'],
    ['get', '/'],
  ] as const) {
    const answer = await call(method, at, { headers: { origin: 'https://console.example' } });
    expect(answer.status).toBe(404);
    expect(answer.body).toEqual({
      type: 'error',
      error: {
        code: 'not_found',
        message: expect.any(String),
        type: 'not_found_error',
        param: null,
      },
      request_id: answer.headers['x-request-id'],
    });
    expect(answer.headers['access-control-allow-origin']).toBeUndefined();
  }
});

test('every answer carries the version of the API and the id of the request, the given one where it is a label', async () => {
  for (const at of ['/health', '/v1/wallets', '/v1/nothing', '/openapi.json', '/docs']) {
    const given = await call('get', at, { headers: { 'x-request-id': 'trace-7' } });
    expect(given.headers).toMatchObject({
      'x-svc-api-version': '1.5.0',
      'x-request-id': 'trace-7',
    });
    const made = await call('get', at, { headers: { 'x-request-id': 'x'.repeat(201) } });
    expect(made.headers['x-request-id']).toMatch(/^req_[0-9a-f]{32}$/);
  }
});

test('text that PostgreSQL cannot hold is refused as a field, in path, query and body', async () => {
  const key = tenant.owner_key;
  const answers = [
    await call('get', '/v1/tokens/a%00b', { key }),
    await call('get', '/v1/tokens?org_id=a%00b', { key }),
    await call('post', '/v1/tokens', {
      key,
      body: '{"name": "a\\u0000b", "token_type": "access"}',
    }),
    await call('post', '/v1/tokens', { key, body: '{"name": "a\\ud800", "token_type": "access"}' }),
    await call('get', '/v1/tokens/%ff', { key }),
  ];
  for (const { status } of answers) expect([400, 404, 422]).toContain(status);
});

test('a member cannot change any money field through any route', async () => {
  const before = [
    await db('wallets').orderBy('id'),
    await db('organizations').orderBy('id'),
    await db('tokens').count(),
  ];
  for (const row of routes.filter(
    ({ method, access }) => method !== 'get' && access.label !== 'public',
  )) {
    const at = row.path.replace(':id', tenant.org_id).replace(/:\w+/g, tenant.team_id);
    for (const key of [
      tenant.member_key,
      await makeKey(db, tenant.org_id, { user_id: tenant.member_id, token_type: 'gateway' }),
    ]) {
      const body = { amount: 1, team_id: tenant.team_id };
      const { status } = await call(row.method, at, { key, body });
      // Members pay in, make keys and have sessions by themselves, and whose verdict a ticket
      // is the ticket says: those routes are theirs, and this is no way to.
      const theirs = /^\/v1\/(payments\/|me\/|sessions|cost-tickets\/|ticket-links\/)/;
      const isTheirs = row.access.label === 'member' && theirs.test(row.path);
      expect(isTheirs ? [401, 403, 404, 422] : [401, 403]).toContain(status);
    }
  }
  expect(await db('wallets').orderBy('id')).toEqual(before[0]);
  expect(await db('organizations').orderBy('id')).toEqual(before[1]);
});
