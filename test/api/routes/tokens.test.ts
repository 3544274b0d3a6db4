import { randomUUID } from 'node:crypto';
import type { Db } from '../../../domain/sql';
import {
  type Answer,
  type CallApi,
  makeTenant,
  refusal,
  startApi,
  type Tenant,
} from '../../support/api';
import { gatewayToken, makeKey, platformKey } from '../../support/keys';
import { makePrice, reserveBody, settleBody } from '../../support/ledger';
import { until } from '../../support/until';

let db: Db;
let call: CallApi;
let close: () => Promise<void>;
let tenant: Tenant;
let platform: string;
let gateway: string;

beforeAll(async () => {
  ({ db, call, close } = await startApi());
  tenant = await makeTenant(db);
  platform = await platformKey(db);
  gateway = await gatewayToken(db);
  await makePrice(db);
});

afterAll(() => close());

function issue(body: object, key = tenant.owner_key): Promise<Answer> {
  return call('post', '/v1/tokens', {
    key,
    body: { name: randomUUID(), token_type: 'access', ...body },
  });
}

function at(name: string, more = ''): string {
  return `/v1/tokens/${encodeURIComponent(name)}${more}`;
}

const owner = () => ({ key: tenant.owner_key });

/** One settled request of so many tokens, each of which costs a millionth. */
async function spend(key_id: string, tokens: number): Promise<void> {
  const credit = { org_id: tenant.org_id, target_wallet_owner_type: 'organization', amount: 10 };
  await call('post', '/v1/admin/wallets/credit', { key: platform, body: credit });
  const body = { ...reserveBody(tenant.org_id, tokens), key_id };
  const held = await call('post', '/v1/gateway/wallets/reserve', { key: gateway, body });
  const settle = settleBody(tenant.org_id, held.body.reservation_id, tokens);
  const settled = await call('post', '/v1/gateway/wallets/settle', { key: gateway, body: settle });
  expect(settled.body.status).toBe('settled');
}

async function works(key: string): Promise<boolean> {
  if (key.startsWith('svc_ak_')) return (await call('get', '/v1/wallets', { key })).status === 200;
  return (
    (await call('post', '/v1/gateway/keys/verify', { key: gateway, body: { key } })).status === 200
  );
}

test('a key is shown once, with everything about it but its hash', async () => {
  const name = `ci ${randomUUID()}`;
  const made = await issue({
    name,
    token_type: 'gateway',
    allowed_models: ['gpt-4o'],
    max_budget: 2.5,
    rpm: 60,
    team_id: tenant.team_id,
  });
  expect(made.status).toBe(201);
  const { key, ...shown } = made.body;
  expect(shown).toEqual({
    id: expect.stringMatching(/^key_/),
    name,
    token_type: 'gateway',
    prefix: key.slice(0, 12),
    scopes: [],
    allowed_models: ['gpt-4o'],
    ...{ user_id: null, team_id: tenant.team_id, agent_id: null },
    max_budget: 2.5,
    spent: 0,
    ...{ rpm: 60, tpm: null, max_parallel_requests: null, include_cost: false },
    ...{ budget_window: null, budget_used: 0, budget_resets_at: null },
    created_by: expect.stringMatching(/^key_/),
    created_at: expect.any(String),
    ...{ expires_at: null, last_used_at: null, status: 'active' },
  });
  const found = await call('get', at(name), owner());
  expect(found.body).toEqual(shown);
  const listed = await call('get', '/v1/tokens?type=gateway', owner());
  expect(listed.body.tokens).toContainEqual(shown);
  expect(`${found.text}${listed.text}`).not.toContain(key);
});

test('keys have their prefix, 32 random bytes and a checksum; only a hash is stored', async () => {
  const { body } = await issue({});
  expect(body.key).toMatch(/^svc_ak_[0-9A-Za-z]{49}$/);
  expect((await issue({ token_type: 'gateway' })).body.key).toMatch(/^svc_gk_[0-9A-Za-z]{49}$/);
  const rows = JSON.stringify(await db('token_secrets').select('*'));
  expect(rows).not.toContain(body.key);
  expect(rows).toContain(body.prefix);
});

test('allowed_models [] allows no model, null and absence allow every model', async () => {
  const allowed = async (body: object) => {
    const { key } = (await issue({ token_type: 'gateway', ...body })).body;
    return (await call('post', '/v1/gateway/keys/verify', { key: gateway, body: { key } })).body
      .allowed_models;
  };
  expect(await allowed({ allowed_models: [] })).toEqual([]);
  expect(await allowed({ allowed_models: null })).toBeNull();
  expect(await allowed({})).toBeNull();
  expect(await allowed({ allowed_models: ['*', 'tools/get_*'] })).toEqual(['*', 'tools/get_*']);
});

test('a name is unique among living keys, and free again once its key is revoked or expired', async () => {
  const name = randomUUID();
  expect((await issue({ name })).status).toBe(201);
  expect(refusal(await issue({ name }))).toEqual({
    status: 409,
    code: 'already_exists',
    param: 'name',
  });
  await call('delete', at(name), owner());
  expect(
    (await issue({ name, expires_at: new Date(Date.now() + 3_600_000).toISOString() })).status,
  ).toBe(201);
  await db('tokens')
    .where({ name })
    .update({ expires_at: new Date(Date.now() - 1_000) });
  expect((await call('get', at(name), owner())).body.status).toBe('expired');
  expect((await issue({ name })).status).toBe(201);
  const other = await makeTenant(db);
  expect((await issue({ name }, other.owner_key)).status).toBe(201);
});

test('twenty keys of one name made at once: one is made', async () => {
  const name = randomUUID();
  const answers = await Promise.all(Array.from({ length: 20 }, () => issue({ name })));
  expect(answers.filter(({ status }) => status === 201)).toHaveLength(1);
  expect(answers.filter(({ status }) => status === 409)).toHaveLength(19);
});

test.each(['access', 'gateway'])(
  'a revoked %s key is refused on its next request, and stays listed',
  async (token_type) => {
    const name = randomUUID();
    const { key } = (await issue({ name, token_type })).body;
    expect(await works(key)).toBe(true);
    const revoked = await call('delete', at(name), owner());
    expect(revoked).toMatchObject({ status: 200, body: { name, status: 'revoked' } });
    expect(await works(key)).toBe(false);
    expect((await call('get', at(name), owner())).body.status).toBe('revoked');
    expect((await call('delete', at(name), owner())).body.status).toBe('revoked');
  },
);

test('a rotated key keeps its id, budget and spending; without overlap the old value ends at once', async () => {
  const name = randomUUID();
  const { key, id } = (await issue({ name, token_type: 'gateway', max_budget: 5 })).body;
  await spend(id, 1_500_000);
  const rotated = await call('post', at(name, '/rotate'), owner());
  expect(rotated).toMatchObject({
    status: 201,
    body: { id, name, max_budget: 5, spent: 1.5, status: 'active' },
  });
  expect(rotated.body.prefix).toBe(rotated.body.key.slice(0, 12));
  expect(await works(key)).toBe(false);
  expect(await works(rotated.body.key)).toBe(true);
});

test('with an overlap the old value works until it ends, the new one beyond', async () => {
  const name = randomUUID();
  const { key } = (await issue({ name })).body;
  const { body } = await call('post', at(name, '/rotate'), {
    ...owner(),
    body: { overlap_seconds: 1 },
  });
  expect([await works(key), await works(body.key)]).toEqual([true, true]);
  await until(async () => !(await works(key)));
  expect(await works(body.key)).toBe(true);
});

test('ten rotations at once leave one living value', async () => {
  const name = randomUUID();
  const first = (await issue({ name })).body.key;
  const answers = await Promise.all(
    Array.from({ length: 10 }, () => call('post', at(name, '/rotate'), owner())),
  );
  const living = [];
  for (const key of [first, ...answers.map(({ body }) => body.key)])
    if (await works(key)) living.push(key);
  expect(living).toHaveLength(1);
});

test('a revoked key cannot be rotated back to life', async () => {
  const name = randomUUID();
  await issue({ name });
  await call('delete', at(name), owner());
  expect(refusal(await call('post', at(name, '/rotate'), owner()))).toEqual({
    status: 409,
    code: 'key_not_active',
    param: 'name',
  });
  expect((await call('post', at(randomUUID(), '/rotate'), owner())).status).toBe(404);
});

test("a key's scopes never exceed its maker's", async () => {
  const maker = await makeKey(db, tenant.org_id, { scopes: ['tokens:write', 'agents:read'] });
  expect((await issue({ scopes: ['agents:read'] }, maker)).status).toBe(201);
  expect(refusal(await issue({ scopes: ['agents:read', 'org:billing'] }, maker))).toEqual({
    status: 403,
    code: 'permission_denied',
    param: 'scopes',
  });
  for (const scope of ['platform:admin', 'control_plane'])
    expect((await issue({ scopes: [scope] })).status).toBe(403);
});

test('a rotation shows no key that carries more than who asks for it', async () => {
  const name = randomUUID();
  const { key } = (await issue({ name, scopes: ['org:billing'] })).body;
  const maker = await makeKey(db, tenant.org_id, { scopes: ['tokens:write'] });
  const refused = await call('post', at(name, '/rotate'), { key: maker });
  expect(refusal(refused)).toMatchObject({ status: 403, code: 'permission_denied' });
  expect(await works(key)).toBe(true);
});

test("a key made for a person carries no more than the person's role allows", async () => {
  const body = { user_id: tenant.member_id, scopes: ['org:billing'] };
  expect(refusal(await issue(body))).toMatchObject({ status: 422, param: 'scopes' });
  expect((await issue({ user_id: tenant.member_id })).status).toBe(201);
});

test('platform keys name no organization, and organization keys carry no platform scope', async () => {
  const made = await issue({ scopes: ['control_plane'] }, platform);
  expect(made.status).toBe(201);
  expect(
    refusal(await issue({ scopes: ['control_plane'], org_id: tenant.org_id }, platform)).status,
  ).toBe(403);
  expect(refusal(await issue({}, platform))).toMatchObject({ status: 422, code: 'org_required' });
  expect((await issue({ org_id: tenant.org_id, scopes: ['org:billing'] }, platform)).status).toBe(
    201,
  );
  const listed = await call('get', '/v1/tokens', { key: platform });
  expect(listed.body.tokens.map(({ name }: { name: string }) => name)).toContain(made.body.name);
  const own = await call('get', '/v1/tokens', owner());
  expect(own.body.tokens.map(({ name }: { name: string }) => name)).not.toContain(made.body.name);
});

test.each([
  [{ token_type: 'service' }, 'token_type'],
  [{ scopes: ['everything'] }, 'scopes.0'],
  [{ token_type: 'gateway', scopes: ['org:billing'] }, 'scopes'],
  [{ max_budget: 1 }, 'max_budget'],
  [{ allowed_models: [] }, 'allowed_models'],
  [{ token_type: 'gateway', max_budget: -1 }, 'max_budget'],
  [{ token_type: 'gateway', max_budget: '1' }, 'max_budget'],
  [{ token_type: 'gateway', max_budget: 1e-12 }, 'max_budget'],
  [{ token_type: 'gateway', allowed_models: ['a', 7] }, 'allowed_models.1'],
  [{ token_type: 'gateway', allowed_models: ['gpt-4o*', 'gpt-*-mini'] }, 'allowed_models.1'],
  [{ expires_at: '2020-01-01' }, 'expires_at'],
  [{ expires_at: 'tomorrow' }, 'expires_at'],
  [{ name: '  ' }, 'name'],
  [{ name: 'nul \u0000' }, 'name'],
])('a new key with %j is refused by name', async (body, param) => {
  expect(refusal(await issue(body))).toMatchObject({ status: 422, param });
});

test('the use of a key is noted at most once a minute', async () => {
  const name = randomUUID();
  const { key } = (await issue({ name })).body;
  const used = async () => {
    expect(await works(key)).toBe(true);
    return (await call('get', at(name), owner())).body.last_used_at;
  };
  const first = await used();
  expect(first).not.toBeNull();
  expect(await used()).toBe(first);
  await db('tokens')
    .where({ name })
    .update({ last_used_at: new Date(Date.now() - 61_000) });
  expect(Date.parse(await used())).toBeGreaterThan(Date.now() - 30_000);
});

test('keys are listed newest first in pages, and a page behind the end knows the total', async () => {
  const { owner_key: key } = await makeTenant(db);
  for (const name of ['a', 'b', 'c']) await issue({ name, token_type: 'gateway' }, key);
  const names = async (query: string) => {
    const { body } = await call('get', `/v1/tokens?type=gateway&${query}`, { key });
    return [body.tokens.map((token: { name: string }) => token.name), body.has_more, body.total];
  };
  expect(await names('per_page=2')).toEqual([['c', 'b'], true, 3]);
  expect(await names('per_page=2&page=2')).toEqual([['a'], false, 3]);
  expect(await names('per_page=2&page=3')).toEqual([[], false, 3]);
});
