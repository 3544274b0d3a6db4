import { many } from '../../../domain/sql';
import {
  type Answer,
  makeTenant,
  refusal,
  startApi,
  type Tenant,
  type TestApi,
} from '../../support/api';
import { locksAwaited } from '../../support/database';
import { platformKey } from '../../support/keys';
import { until } from '../../support/until';

let api: TestApi;
let tenant: Tenant;
let platform: string;

beforeAll(async () => {
  api = await startApi();
  tenant = await makeTenant(api.db);
  platform = await platformKey(api.db);
});

afterAll(() => api.close());

const plain = (client_id: string, more: object = {}) => ({
  name: 'Acme',
  issuer: 'https://id.example',
  client_id,
  jwks_url: 'https://id.example/jwks',
  ...more,
});

const make = (body: object) => api.call('post', '/v1/admin/issuers', { key: platform, body });

test("a client's secret is sealed, never shown, and taken away by null", async () => {
  const { status, body } = await make(plain('a', { client_secret: 'the secret of Acme' }));
  expect(status).toBe(201);
  expect(body).toMatchObject({ subject: 'bound', has_client_secret: true, org_id: null });
  const kept = await many(api.db, 'select * from identity_issuers');
  const events = await many(
    api.db,
    "select * from audit_events where action like 'identity_issuer%'",
  );
  for (const text of [JSON.stringify(body), JSON.stringify(kept), JSON.stringify(events)])
    expect(text).not.toContain('the secret of Acme');
  const path = `/v1/admin/issuers/${body.id}`;
  const changed = await api.call('put', path, { key: platform, body: { client_secret: null } });
  expect(changed.body).toMatchObject({ has_client_secret: false, client_id: 'a', name: 'Acme' });
});

test.each(['issuer', 'jwks_url', 'token_url', 'authorization_url'])(
  '%s that is no address is refused by its name, and so is a change to it',
  async (field) => {
    const { body: made } = await make(plain(`odd ${field}`));
    const path = `/v1/admin/issuers/${made.id}`;
    for (const value of ['x', '', 'zz', '://', '2026-02-30', 'http://id.example', 'ftp://a.b']) {
      const body = { [field]: value };
      const refused = { status: 422, code: 'invalid_field', param: field };
      expect(refusal(await make(plain(`new ${field}`, body)))).toEqual(refused);
      expect(refusal(await api.call('put', path, { key: platform, body }))).toEqual(refused);
    }
  },
);

test('the page of sign-in finds the issuers without a credential, and nothing of their settings', async () => {
  await make(plain('b', { authorization_url: 'https://id.example/auth' }));
  const { status, body } = await api.call('get', '/v1/issuers');
  expect(status).toBe(200);
  const found = body.issuers.find((one: { client_id: string }) => one.client_id === 'b');
  expect(Object.keys(found).sort()).toEqual([
    'authorization_url',
    'client_id',
    'id',
    'issuer',
    'name',
  ]);
});

test('the page of sign-in finds the last of more than 200 issuers by words, by id and by pages', async () => {
  await many(
    api.db,
    `insert into identity_issuers (name, issuer, client_id, jwks_url)
     select 'Many ' || lpad(n::text, 3, '0'), 'https://many.example', 'many ' || n, 'https://many.example/jwks'
     from generate_series(1, 205) as n`,
  );
  const { body: last } = await make(plain('last', { name: 'Zebra Ltd' }));
  const list = async (query: string) => {
    const { status, body } = await api.call('get', `/v1/issuers${query}`);
    expect(status).toBe(200);
    return body;
  };
  const ids = ({ issuers }: { issuers: { id: string }[] }) => issuers.map(({ id }) => id);
  const first = await list('');
  expect([first.issuers.length, first.has_more, ids(first).includes(last.id)]).toEqual([
    200,
    true,
    false,
  ]);
  expect(ids(await list('?page=2'))).toContain(last.id);
  expect(ids(await list('?q=zeb'))).toEqual([last.id]);
  expect(ids(await list(`?id=${last.id}`))).toEqual([last.id]);
  expect(ids(await list('?id=iss_unknown'))).toEqual([]);
  expect((await list('?q=many&per_page=50')).total).toBe(205);
});

test('an issuer with the same client is 409, and is free again once it is taken out', async () => {
  const { body } = await make(plain('c'));
  expect((await make(plain('c'))).status).toBe(409);
  const path = `/v1/admin/issuers/${body.id}`;
  expect((await api.call('delete', path, { key: platform })).status).toBe(200);
  expect((await api.call('delete', path, { key: platform })).status).toBe(404);
  expect((await make(plain('c'))).status).toBe(201);
});

test.each([
  [{ jwks_url: 'http://id.example/jwks' }, 'jwks_url'],
  [{ token_url: 'file:///etc/passwd' }, 'token_url'],
  [{ jwks_url: 'https://169.254.169.254/latest' }, 'jwks_url'],
  [{ authorization_url: 'https://[fe80::1]/auth' }, 'authorization_url'],
  [{ group_grants: [{ group: 'a\u0000', role: 'admin' }] }, 'group_grants.0.group'],
  [{ email_domains: ['example'] }, 'email_domains.0'],
  [{ email_domains: ['example.com'] }, 'email_domains'],
  [{ group_grants: [{ group: 'g', role: 'admin' }] }, 'group_grants'],
  [{ group_grants: [{ group: 'g', team_role: 'admin' }] }, 'group_grants.0.team_id'],
  [{ groups_claim: 'a\u0000' }, 'groups_claim'],
  [{ subject: 'email' }, 'subject'],
  [{ name: '' }, 'name'],
])('%j is 422 for %s', async (more, param) => {
  expect(refusal(await make(plain('d', more)))).toMatchObject({ status: 422, param });
});

test.each(['token_url', 'jwks_url', 'issuer'])(
  'a secret does not go with a new %s alone',
  async (param) => {
    const secret = {
      client_secret: 'a secret of the client',
      token_url: 'https://id.example/token',
    };
    const { body } = await make(plain(`s ${param}`, secret));
    const put = (more: object) =>
      api.call('put', `/v1/admin/issuers/${body.id}`, { key: platform, body: more });
    const elsewhere = { [param]: 'https://other.example/x' };
    expect(refusal(await put(elsewhere))).toMatchObject({ status: 422, param });
    const to = new URL(body[param]);
    to.pathname = '/another/path';
    expect((await put({ [param]: to.toString() })).status).toBe(200);
    expect((await put({ ...elsewhere, client_secret: null })).body).toMatchObject({
      ...elsewhere,
      has_client_secret: false,
    });
  },
);

test('only platform admins see and change issuers; an unknown organization is 404', async () => {
  const body = plain('e');
  const answer = await api.call('post', '/v1/admin/issuers', { key: tenant.owner_key, body });
  expect(answer.status).toBe(403);
  expect((await make(plain('e', { org_id: 'org_of_nobody' }))).status).toBe(404);
});

describe('a change', () => {
  const put = (id: string, body: object) =>
    api.call('put', `/v1/admin/issuers/${id}`, { key: platform, body });

  test('looks at what is given alone: a team of the grants may have been archived', async () => {
    const { org_id, owner_key: key } = await makeTenant(api.db);
    const teams = `/v1/organizations/${org_id}/teams`;
    const team_id = (await api.call('post', teams, { key, body: { name: 'Old' } })).body.id;
    const group_grants = [{ group: 'old', team_id }];
    const { body } = await make(plain('f', { org_id, group_grants }));
    expect((await api.call('delete', `${teams}/${team_id}`, { key })).status).toBe(200);
    expect(await put(body.id, { name: 'New', email_domains: ['acme.example'] })).toMatchObject({
      status: 200,
      body: { name: 'New', email_domains: ['acme.example'], group_grants: [{ team_id }] },
    });
    expect(refusal(await put(body.id, { group_grants }))).toMatchObject({
      ...{ status: 404, param: 'group_grants.0.team_id' },
    });
    expect(await put(body.id, { group_grants: [] })).toMatchObject({ status: 200 });
  });

  test('goes on from the one before it, also if both were asked for at one time', async () => {
    const { body } = await make(plain('g'));
    let asked: Promise<Answer>[] = [];
    await api.db.transaction(async (trx) => {
      await many(trx, 'select from identity_issuers where id = :id for update', { id: body.id });
      asked = [put(body.id, { name: 'Both' }), put(body.id, { groups_claim: 'groups' })];
      await until(async () => (await locksAwaited(api.db)) === 2);
    });
    for (const answer of await Promise.all(asked)) expect(answer.status).toBe(200);
    const { issuers } = (await api.call('get', '/v1/admin/issuers?per_page=200', { key: platform }))
      .body;
    expect(issuers.find(({ id }: { id: string }) => id === body.id)).toMatchObject({
      name: 'Both',
      groups_claim: 'groups',
    });
  });
});
