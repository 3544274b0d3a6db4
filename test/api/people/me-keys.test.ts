import { randomUUID } from 'node:crypto';
import { type Db, many } from '../../../domain/sql';
import {
  type Answer,
  type CallApi,
  issueBy,
  makePerson,
  makeTenant,
  type Person,
  refusal,
  startApi,
  type Tenant,
} from '../../support/api';
import { gatewayToken } from '../../support/keys';
import { repeated } from '../../support/until';

let db: Db;
let call: CallApi;
let close: () => Promise<void>;
let tenant: Tenant;
let person: Person;
let machine: string;

beforeAll(async () => {
  ({ db, call, close } = await startApi());
  machine = await gatewayToken(db);
});

beforeEach(async () => {
  tenant = await makeTenant(db);
  person = await makePerson({ db, call }, tenant, 'member');
});

afterAll(() => close());

const DAY_MS = 86_400_000;
const settings = () => `/v1/organizations/${tenant.org_id}/member-keys`;
const allow = (body: object = {}) =>
  call('put', settings(), { key: tenant.owner_key, body: { enabled: true, ...body } });
const make = (body: object = {}, key = person.key): Promise<Answer> =>
  call('post', '/v1/me/keys', { key, body: { name: randomUUID(), ...body } });
const change = (name: string, body: object) =>
  call('patch', `/v1/me/keys/${name}`, { key: person.key, body });

test('members make no keys until their organization says so, and then their own only', async () => {
  const before = await call('get', settings(), { key: person.key });
  expect(before.body).toEqual({
    ...{ enabled: false, max_keys: 5, max_budget: null, budget_window: null },
    ...{ allowed_models: null, max_days: null },
  });
  expect(refusal(await make())).toMatchObject({ status: 403, code: 'permission_denied' });
  expect((await allow()).status).toBe(200);
  const made = await make();
  expect(made).toMatchObject({
    status: 201,
    body: {
      user_id: person.user_id,
      created_by: person.user_id,
      token_type: 'gateway',
      scopes: [],
    },
  });
  const body = { key: made.body.key };
  expect(
    (await call('post', '/v1/gateway/keys/verify', { key: machine, body })).body,
  ).toMatchObject({ user_id: person.user_id, org_id: tenant.org_id });
  const other = { name: randomUUID(), user_id: tenant.member_id };
  expect(refusal(await make(other))).toMatchObject({ status: 422, param: 'user_id' });
  expect((await issueBy(call, person.key)).status).toBe(403);
  await allow({ enabled: false });
  expect((await make()).status).toBe(403);
});

test('a member says whether calls with their key tell their cost, at first and later', async () => {
  await allow();
  const told = async (key: string) =>
    (await call('post', '/v1/gateway/keys/verify', { key: machine, body: { key } })).body
      .include_cost === true;
  const plain = (await make()).body;
  expect([plain.include_cost, await told(plain.key)]).toEqual([false, false]);
  const made = (await make({ include_cost: true })).body;
  expect([made.include_cost, await told(made.key)]).toEqual([true, true]);
  // What is not named stays.
  expect((await change(made.name, { max_budget: 1 })).body).toMatchObject({ include_cost: true });
  expect((await change(made.name, { include_cost: false })).body).toMatchObject({
    ...{ include_cost: false, max_budget: 1 },
  });
  expect(await told(made.key)).toBe(false);
  expect(refusal(await make({ include_cost: 'yes' }))).toMatchObject({
    ...{ status: 422, param: 'include_cost' },
  });
});

test('a key is for a team that its person is in', async () => {
  await allow();
  const refused = await make({ team_id: tenant.team_id });
  expect(refusal(refused)).toMatchObject({ status: 422, param: 'team_id' });
  // A member takes nobody into a team, and names no user_id.
  expect(refused.body.error.message).toMatch(
    /^You are not in this team[.] Leave out team_id, or ask/,
  );
  const team = `/v1/organizations/${tenant.org_id}/teams/${tenant.team_id}/members`;
  await call('post', team, { key: tenant.owner_key, body: { user_id: person.user_id } });
  expect((await make({ team_id: tenant.team_id })).body).toMatchObject({ team_id: tenant.team_id });
  const foreign = await makeTenant(db);
  expect(refusal(await make({ team_id: foreign.team_id }))).toMatchObject({
    ...{ status: 404, param: 'team_id' },
  });
});

test('what a member asks for stays within the limits, and what they leave out becomes these', async () => {
  await allow({ max_keys: 3, max_budget: 10, allowed_models: ['gpt-4o*', 'o3'], max_days: 30 });
  const plain = (await make()).body;
  expect(plain).toMatchObject({ max_budget: 10, allowed_models: ['gpt-4o*', 'o3'] });
  const left = new Date(plain.expires_at).getTime() - Date.now();
  expect(left).toBeGreaterThan(29 * DAY_MS);
  expect(left).toBeLessThanOrEqual(30 * DAY_MS);
  const narrow = { max_budget: 2, allowed_models: ['gpt-4o-mini', 'gpt-4o-2*', 'o3'] };
  expect((await make(narrow)).body).toMatchObject(narrow);
  const end = (days: number) => new Date(Date.now() + days * DAY_MS).toISOString();
  for (const [body, param] of [
    [{ max_budget: 10.01 }, 'max_budget'],
    [{ max_budget: 0 }, 'max_budget'],
    [{ allowed_models: ['gpt-4*'] }, 'allowed_models'],
    [{ allowed_models: ['*'] }, 'allowed_models'],
    [{ allowed_models: ['o3*'] }, 'allowed_models'],
    [{ expires_at: end(31) }, 'expires_at'],
    [{ expires_at: end(-1) }, 'expires_at'],
    [{ rpm: 5 }, 'rpm'],
    [{ scopes: [] }, 'scopes'],
  ] as const)
    expect([param, refusal(await make(body))]).toMatchObject([param, { status: 422, param }]);
  expect((await make()).status).toBe(201);
  expect(refusal(await make())).toMatchObject({ status: 409, code: 'living_keys_exceeded' });
});

test('twenty keys that are asked for at once are as many as a person may have', async () => {
  await allow({ max_keys: 4 });
  const answers = await Promise.all(Array.from({ length: 20 }, () => repeated(() => make())));
  const made = answers.filter(({ status }) => status === 201);
  expect(made).toHaveLength(4);
  expect(answers.filter(({ status }) => status === 409)).toHaveLength(16);
});

test('a member sees, changes and revokes their own keys, and never raises a budget', async () => {
  await allow({ max_budget: 10 });
  const { name, key: _, ...made } = (await make({ max_budget: 5 })).body;
  expect(await change(name, { max_budget: 4, name: `new ${name}` })).toMatchObject({
    status: 200,
    body: { ...made, name: `new ${name}`, max_budget: 4 },
  });
  const path = `/v1/me/keys/new%20${name}`;
  const patch = (body: object) => call('patch', path, { key: person.key, body });
  for (const max_budget of [4.01, 6, null])
    expect([max_budget, refusal(await patch({ max_budget }))]).toMatchObject([
      max_budget,
      { status: 403, param: 'max_budget' },
    ]);
  const mine = await call('get', '/v1/me/keys?q=new&cursor=first', { key: person.key });
  expect(mine.body.tokens).toMatchObject([{ name: `new ${name}`, max_budget: 4 }]);
  expect((await call('get', path, { key: person.key })).status).toBe(200);
  expect((await call('get', path, { key: tenant.member_key })).status).toBe(404);
  expect((await call('delete', path, { key: tenant.member_key })).status).toBe(404);
  expect((await call('delete', path, { key: person.key })).body.status).toBe('revoked');
  expect(refusal(await patch({ name: 'x' }))).toMatchObject({ status: 409 });
});

test('a member widens nothing that an admin has narrowed', async () => {
  await allow();
  const { name } = (await make({ allowed_models: ['gpt-4o*', 'o3'] })).body;
  const expires_at = new Date(Date.now() + DAY_MS).toISOString();
  const narrowed = { allowed_models: ['gpt-4o-*'], max_budget: 5, expires_at };
  const by = { key: tenant.owner_key, body: narrowed };
  expect((await call('patch', `/v1/tokens/${name}`, by)).status).toBe(200);
  const later = new Date(Date.now() + 2 * DAY_MS).toISOString();
  for (const [body, param] of [
    [{ allowed_models: ['gpt-4o*'] }, 'allowed_models'],
    [{ allowed_models: ['gpt-4o-mini', 'o3'] }, 'allowed_models'],
    [{ allowed_models: null }, 'allowed_models'],
    [{ expires_at: later }, 'expires_at'],
    [{ expires_at: null }, 'expires_at'],
    [{ max_budget: 6 }, 'max_budget'],
    [{ max_budget: null }, 'max_budget'],
  ] as const)
    expect([body, refusal(await change(name, body))]).toMatchObject([body, { status: 403, param }]);
  const less = { allowed_models: ['gpt-4o-mini'], max_budget: 4 };
  expect(await change(name, less)).toMatchObject({ status: 200, body: less });
});

test('a member takes no name of an expired key of somebody else', async () => {
  await allow();
  const body = { name: randomUUID(), token_type: 'gateway', max_budget: 1 };
  await call('post', '/v1/tokens', { key: tenant.owner_key, body });
  const mine = (await make()).body.name;
  await many(
    db,
    `update tokens set expires_at = clock_timestamp() - interval '1 hour' where name = :name`,
    {
      name: body.name,
    },
  );
  expect(refusal(await make({ name: body.name }))).toMatchObject({ status: 409, param: 'name' });
  expect(refusal(await change(mine, { name: body.name }))).toMatchObject({ status: 409 });
  const { tokens } = (await call('get', '/v1/tokens?status=expired', { key: tenant.owner_key }))
    .body;
  expect(tokens).toMatchObject([{ name: body.name }]);
  expect((await call('post', '/v1/tokens', { key: tenant.owner_key, body })).status).toBe(201);
});

test('a key that a member revokes is the one of the answer, whoever bore its name before', async () => {
  await allow();
  const mine = (await make({ name: 'y', max_budget: 3 })).body;
  // Somebody else's, which was made later, and has ended.
  await issueBy(call, tenant.owner_key, { name: 'x', scopes: ['org:billing'] });
  const theirs = await call('delete', '/v1/tokens/x', { key: tenant.owner_key });
  expect(theirs.body).toMatchObject({ status: 'revoked', scopes: ['org:billing'] });
  expect((await change('y', { name: 'x' })).status).toBe(200);
  const ended = { id: mine.id, name: 'x', prefix: mine.prefix, max_budget: 3, status: 'revoked' };
  const answer = await call('delete', '/v1/me/keys/x', { key: person.key });
  expect(answer).toMatchObject({ status: 200, body: ended });
  expect((await call('get', '/v1/me/keys/x', { key: person.key })).body).toMatchObject(ended);
  const strange = await call('get', '/v1/me/keys/x', { key: tenant.member_key });
  expect(strange.status).toBe(404);
});

test('so is the one that an admin revokes', async () => {
  const key = tenant.owner_key;
  const first = (await issueBy(call, key, { name: 'a', scopes: ['org:billing'] })).body;
  await issueBy(call, key, { name: 'b' });
  await call('delete', '/v1/tokens/b', { key });
  await call('patch', '/v1/tokens/a', { key, body: { name: 'b' } });
  const { body } = await call('delete', '/v1/tokens/b', { key });
  expect(body).toMatchObject({ id: first.id, prefix: first.prefix, status: 'revoked' });
});

test('a key that an admin made for a person is theirs to see and revoke, not to change', async () => {
  await allow();
  const body = {
    name: randomUUID(),
    token_type: 'gateway',
    user_id: person.user_id,
    max_budget: 1,
  };
  await call('post', '/v1/tokens', { key: tenant.owner_key, body });
  expect(refusal(await change(body.name, { max_budget: 0.5 }))).toMatchObject({ status: 403 });
  const listed = await call('get', '/v1/me/keys', { key: person.key });
  expect(listed.body.tokens).toMatchObject([{ name: body.name }]);
  const gone = await call('delete', `/v1/me/keys/${body.name}`, { key: person.key });
  expect(gone.body.status).toBe('revoked');
});

test('a credential that stands for nobody has no keys of its own', async () => {
  await allow();
  expect(refusal(await make({}, tenant.owner_key))).toMatchObject({ status: 403 });
  expect((await call('get', '/v1/me/keys', { key: tenant.owner_key })).status).toBe(403);
});

test('the keys that a person made fall with them', async () => {
  await allow();
  const { id } = (await make()).body;
  const removed = await call('delete', person.at, { key: tenant.owner_key });
  expect(removed.body.revoked_keys.map((one: { id: string }) => one.id)).toContain(id);
});

test.each([
  [{ enabled: 'yes' }, 'enabled'],
  [{}, 'enabled'],
  [{ enabled: true, max_keys: 0 }, 'max_keys'],
  [{ enabled: true, max_keys: 1_001 }, 'max_keys'],
  [{ enabled: true, max_budget: 0 }, 'max_budget'],
  [{ enabled: true, allowed_models: ['a*b'] }, 'allowed_models.0'],
  [{ enabled: true, max_days: 0 }, 'max_days'],
])('the settings %j are refused by name', async (body, param) => {
  const answer = await call('put', settings(), { key: tenant.owner_key, body });
  expect(refusal(answer)).toMatchObject({ status: 422, param });
});

test('what an organization allows is an audit event, and is not for members to say', async () => {
  expect((await call('put', settings(), { key: person.key, body: { enabled: true } })).status).toBe(
    403,
  );
  await allow({ max_budget: 3 });
  const [event] = await many(
    db,
    `select action, after from audit_events where org_id = :org_id and action like 'member_key_settings.%'`,
    { org_id: tenant.org_id },
  );
  expect(event).toMatchObject({
    action: 'member_key_settings.created',
    after: { enabled: true, max_budget_nanos: '3000000000' },
  });
});
