import { randomUUID } from 'node:crypto';
import { type Db, many } from '../../../domain/sql';
import {
  type Answer,
  type CallApi,
  makePerson,
  makeTenant,
  refusal,
  startApi,
  type Tenant,
} from '../../support/api';
import { gatewayToken, issueKey, platformKey } from '../../support/keys';

let db: Db;
let call: CallApi;
let close: () => Promise<void>;
let tenant: Tenant;
let machine: string;
let platform: string;

beforeAll(async () => {
  ({ db, call, close } = await startApi());
  machine = await gatewayToken(db);
  platform = await platformKey(db);
});

beforeEach(async () => {
  tenant = await makeTenant(db);
});

afterAll(() => close());

const owner = (body?: object) => ({ key: tenant.owner_key, body });
const at = (name: string) => `/v1/tokens/${encodeURIComponent(name)}`;

async function issue(body: object = {}) {
  const given = { name: randomUUID(), token_type: 'gateway', ...body };
  const answer = await call('post', '/v1/tokens', owner(given));
  expect([answer.status, answer.text]).toEqual([201, expect.anything()]);
  return answer.body;
}

const change = (name: string, body: object, key = tenant.owner_key): Promise<Answer> =>
  call('patch', at(name), { key, body });

const verify = async (key: string) =>
  (await call('post', '/v1/gateway/keys/verify', { key: machine, body: { key } })).body;

test('a key gets another name, budget, models, end and limits, and keeps all else', async () => {
  const { key, ...made } = await issue({ user_id: tenant.member_id, max_budget: 5 });
  const changes = {
    name: `renamed ${randomUUID()}`,
    max_budget: 7.5,
    allowed_models: ['gpt-4o*', 'o3'],
    expires_at: '2200-01-01T00:00:00.000Z',
    rpm: 10,
    tpm: 20_000,
    max_parallel_requests: 3,
    include_cost: true,
  };
  const changed = await change(made.name, changes);
  expect(changed).toMatchObject({ status: 200, body: { ...made, ...changes } });
  expect((await call('get', at(made.name), owner())).status).toBe(404);
  expect((await call('get', at(changes.name), owner())).body).toEqual(changed.body);
  const { rpm, tpm, max_parallel_requests } = changes;
  expect(await verify(key)).toMatchObject({
    allowed_models: changes.allowed_models,
    rate_limits: { rpm, tpm, max_parallel_requests },
    include_cost: true,
  });
  expect((await change(changes.name, { include_cost: false })).body.include_cost).toBe(false);
  expect(await verify(key)).not.toHaveProperty('include_cost');
});

test('what is absent stays, and null takes a bound away', async () => {
  const made = await issue({
    max_budget: 5,
    rpm: 3,
    allowed_models: ['o3'],
    expires_at: '2200-01-01',
  });
  const { key: _, ...rest } = made;
  expect((await change(made.name, {})).body).toEqual(rest);
  const freed = { max_budget: null, rpm: null, allowed_models: null, expires_at: null };
  expect((await change(made.name, freed)).body).toMatchObject(freed);
  expect(await verify(made.key)).not.toHaveProperty('rate_limits');
});

test.each([
  [{ name: 'x'.repeat(300) }, 'name'],
  [{ name: '..' }, 'name'],
  [{ name: 'a\u0000' }, 'name'],
  [{ max_budget: -1 }, 'max_budget'],
  [{ max_budget: '5' }, 'max_budget'],
  [{ max_budget: 9e15 }, 'max_budget'],
  [{ allowed_models: ['*gpt'] }, 'allowed_models.0'],
  [{ allowed_models: 'o3' }, 'allowed_models'],
  [{ expires_at: '2001-01-01' }, 'expires_at'],
  [{ expires_at: 'soon' }, 'expires_at'],
  [{ expires_at: '9999-12-31T23:59:59-14:00' }, 'expires_at'],
  [{ rpm: 0 }, 'rpm'],
  [{ tpm: 1.5 }, 'tpm'],
  [{ max_parallel_requests: -1 }, 'max_parallel_requests'],
  [{ rpm: 2e9 }, 'rpm'],
  [{ include_cost: 'yes' }, 'include_cost'],
  [{ scopes: ['org:billing'] }, 'scopes'],
  [{ user_id: 'user_x' }, 'user_id'],
  [{ named: 'x' }, 'named'],
])('a change of %j is refused by name, and nothing is written', async (body, param) => {
  const { key: _, ...made } = await issue();
  expect(refusal(await change(made.name, body))).toMatchObject({ status: 422, param });
  expect((await call('get', at(made.name), owner())).body).toEqual(made);
});

test('a key never changes itself, nor one that may do more', async () => {
  const manager = await makePerson({ db, call }, tenant, 'admin');
  const own = await call('post', '/v1/tokens', {
    key: manager.key,
    body: {
      name: randomUUID(),
      token_type: 'access',
      scopes: ['tokens:write'],
      user_id: manager.user_id,
    },
  });
  const renamed = { name: randomUUID() };
  expect(refusal(await change(own.body.name, renamed, own.body.key))).toMatchObject({
    ...{ status: 403, code: 'permission_denied', param: 'name' },
  });
  const session = await call('post', '/v1/sessions', { body: { access_key: own.body.key } });
  expect(session.status).toBe(201);
  expect((await change(own.body.name, renamed, session.body.key)).status).toBe(403);
  const strong = await issue({ token_type: 'access', scopes: ['org:billing'] });
  expect((await change(strong.name, renamed, manager.key)).status).toBe(403);
  const chief = await makePerson({ db, call }, tenant, 'owner');
  const theirs = await issue({ user_id: chief.user_id });
  expect((await change(theirs.name, { max_budget: 1 }, manager.key)).status).toBe(403);
  expect((await change(own.body.name, renamed, manager.key)).status).toBe(200);
});

test('only gateway keys have budgets, models and limits', async () => {
  const made = await issue({ token_type: 'access' });
  for (const param of ['max_budget', 'rpm', 'tpm', 'max_parallel_requests'])
    expect(refusal(await change(made.name, { [param]: 1 }))).toMatchObject({ status: 422, param });
  expect(refusal(await change(made.name, { include_cost: true }))).toMatchObject({
    ...{ status: 422, param: 'include_cost' },
  });
  const asked = { name: randomUUID(), token_type: 'access', rpm: 1 };
  expect(refusal(await call('post', '/v1/tokens', owner(asked)))).toMatchObject({
    ...{ status: 422, param: 'rpm' },
  });
});

test('a name is of one living key; one that has ended gives its own away', async () => {
  const [first, second] = [await issue(), await issue()];
  expect(refusal(await change(second.name, { name: first.name }))).toMatchObject({
    ...{ status: 409, code: 'already_exists', param: 'name' },
  });
  expect((await change(first.name, { name: first.name })).status).toBe(200);
  await many(db, 'update tokens set expires_at = clock_timestamp() where id = :id', first);
  expect((await change(second.name, { name: first.name })).status).toBe(200);
  const { name } = await issue();
  await call('delete', at(name), owner());
  expect(refusal(await change(name, { rpm: 1 }))).toMatchObject({
    ...{ status: 409, code: 'key_not_active' },
  });
});

test('of platform keys that take one name at one moment one has it, and the others are 409', async () => {
  const made = await Promise.all(Array.from({ length: 8 }, () => issueKey(db, null)));
  const rows = await many<{ name: string }>(db, 'select name from tokens where id = any(:ids)', {
    ids: made.map(({ id }) => id),
  });
  const name = `wanted ${randomUUID()}`;
  const answers = await Promise.all(rows.map((row) => change(row.name, { name }, platform)));
  const refused = answers.filter(({ status }) => status !== 200);
  expect(refused).toHaveLength(7);
  for (const one of refused)
    expect(refusal(one)).toEqual({ status: 409, code: 'already_exists', param: 'name' });
});

test("another tenant's key is unknown, and the platform changes any", async () => {
  const { name } = await issue();
  const other = await makeTenant(db);
  expect((await change(name, { rpm: 1 }, other.owner_key)).status).toBe(404);
  const body = { org_id: tenant.org_id, rpm: 1 };
  expect((await change(name, body, other.owner_key)).status).toBe(404);
  expect((await change(name, body, platform)).body).toMatchObject({ rpm: 1 });
});

test('every change of a key is an audit event with what it was', async () => {
  const { id, name } = await issue({ rpm: 5 });
  await change(name, { rpm: 7 });
  await change(name, { max_budget: 2 });
  const events = await many(
    db,
    `select before, after from audit_events where object_id = :id and action = 'key.changed' order by id`,
    { id },
  );
  expect(events).toEqual([
    { before: { rpm: 5 }, after: { rpm: 7 } },
    { before: { max_budget_nanos: null }, after: { max_budget_nanos: '2000000000' } },
  ]);
});

const listed = async (query: string) => {
  const { status, body } = await call('get', `/v1/tokens?${query}`, owner());
  expect([query, status]).toEqual([query, 200]);
  return body.tokens.map(({ name }: { name: string }) => name) as string[];
};

test('keys are found by whom they stand for, kind, state, end, model and words', async () => {
  const { member_id: user_id, team_id, agent_id } = tenant;
  const tag = randomUUID().slice(0, 8);
  const add = (name: string, body: object) => issue({ name: `${tag} ${name}`, ...body });
  await add('of a person', { user_id });
  await add('of a team', { team_id });
  await add('of an agent', { agent_id });
  await add('small models', { allowed_models: ['gpt-4o-mini', 'o3*'] });
  await add('no model', { allowed_models: [] });
  await add('ends soon', { expires_at: new Date(Date.now() + 3_600_000) });
  await add('ends late', { expires_at: '2200-01-01' });
  await add('for people', { token_type: 'access' });
  const gone = await add('gone', {});
  await call('delete', at(gone.name), owner());
  const over = await add('over', { expires_at: '2200-01-01' });
  await many(db, 'update tokens set expires_at = clock_timestamp() where id = :id', over);
  const found = async (query: string) =>
    (await listed(`q=${tag}&${query}&sort=name`)).map((name) => name.slice(9));
  const all = await found('per_page=200');
  expect(all).toHaveLength(10);
  expect(await found(`user_id=${user_id}`)).toEqual(['of a person']);
  expect(await found(`team_id=${team_id}`)).toEqual(['of a team']);
  expect(await found(`agent_id=${agent_id}`)).toEqual(['of an agent']);
  expect(await found('type=access')).toEqual(['for people']);
  expect(await found('status=revoked')).toEqual(['gone']);
  expect(await found('status=expired')).toEqual(['over']);
  expect(await found('status=active')).toHaveLength(8);
  expect(await found(`status=active&expires_before=2100-01-01`)).toEqual(['ends soon']);
  const any = ['ends late', 'ends soon', 'gone', 'of a person', 'of a team', 'of an agent', 'over'];
  expect(await found('model=gpt-4o-mini')).toEqual([...any, 'small models'].sort());
  expect(await found('model=o3-pro')).toEqual([...any, 'small models'].sort());
  expect(await found('model=gpt-4o')).toEqual(any);
  expect(await found("model=it's \\ 'odd'")).toEqual(any);
  expect(await listed(`q=${tag}&type=gateway&sort=expires_at`)).toEqual(
    expect.arrayContaining([`${tag} ends soon`, `${tag} ends late`]),
  );
  const other = await makeTenant(db);
  const { member_id, team_id: their_team, agent_id: their_agent } = other;
  const theirs = { user_id: member_id, team_id: their_team, agent_id: their_agent };
  for (const [param, id] of Object.entries(theirs))
    expect(refusal(await call('get', `/v1/tokens?${param}=${id}`, owner()))).toMatchObject({
      ...{ status: 404, param },
    });
  expect(refusal(await call('get', '/v1/tokens?status=lost', owner()))).toMatchObject({
    ...{ status: 422, param: 'status' },
  });
});
