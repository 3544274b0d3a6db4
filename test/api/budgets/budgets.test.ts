import { randomUUID } from 'node:crypto';
import { many } from '../../../domain/sql';
import { makePerson, makeTenant, refusal, type Tenant } from '../../support/api';
import { platformKey } from '../../support/keys';
import { reserveBody } from '../../support/ledger';
import { bodyHash, openTicketWorld, type TicketWorld, topUp } from '../../support/tickets';

let world: TicketWorld;
let tenant: Tenant;
let foreign: Tenant;

beforeAll(async () => {
  world = await openTicketWorld();
  [tenant, foreign] = [await makeTenant(world.db), await makeTenant(world.db)];
  await topUp(world.call, tenant, 1_000_000);
});

afterAll(() => world.close());

const month = { owner_type: 'organization', limit: 5, window: 'month' };

function post(path: string, body: object, key = tenant.billing_key) {
  return world.call('post', path, { key, body });
}

test.each([
  ['an unknown window', { window: 'year' }, 'window'],
  ['a window in other letters', { window: 'Month' }, 'window'],
  ['a threshold of 0', { thresholds: [0] }, 'thresholds.0'],
  ['a threshold above 100', { thresholds: [50, 101] }, 'thresholds.1'],
  ['half a percent', { thresholds: [0.5] }, 'thresholds.0'],
  ['a negative limit', { limit: -1 }, 'limit'],
  ['a limit as text', { limit: '5' }, 'limit'],
  ['more than an amount may be', { limit: 9_000_000_001 }, 'limit'],
  ['a currency that the organization has not', { currency: 'EUR' }, 'currency'],
  ['what is no currency', { currency: 'ZZZ' }, 'currency'],
  ['an unknown owner_type', { owner_type: 'agent' }, 'owner_type'],
  ['an unknown on_exceed', { on_exceed: 'warn' }, 'on_exceed'],
  ['a person without an id', { owner_type: 'user' }, 'owner_id'],
  ['a team without an id', { owner_type: 'team' }, 'owner_id'],
  ['a key without an id', { owner_type: 'key' }, 'owner_id'],
  ['a name that no budget has', { budget: 1 }, 'budget'],
])('%s is 422 and names its field', async (_, more, param) => {
  expect(refusal(await post('/v1/budgets', { ...month, ...more }))).toMatchObject({
    status: 422,
    param,
  });
});

test('owners of another organization are 404, in each kind', async () => {
  const { member_id, team_id, org_id } = foreign;
  const key = await post(
    '/v1/tokens',
    { name: randomUUID(), token_type: 'gateway' },
    foreign.owner_key,
  );
  for (const [owner_type, owner_id] of Object.entries({
    user: member_id,
    team: team_id,
    organization: org_id,
    key: key.body.id,
  }))
    expect(refusal(await post('/v1/budgets', { ...month, owner_type, owner_id }))).toMatchObject({
      status: 404,
      param: 'owner_id',
    });
  const { body } = await post('/v1/budgets', month, foreign.billing_key);
  for (const method of ['get', 'put', 'delete'] as const) {
    const answer = await world.call(method, `/v1/budgets/${body.id}`, {
      key: tenant.billing_key,
      ...(method === 'put' ? { body: { limit: 9 } } : {}),
    });
    expect(answer.status).toBe(404);
  }
});

test('a budget is made, listed, changed and deleted; a second of its window is 409', async () => {
  const made = await post('/v1/budgets', { ...month, window: 'day' });
  expect(made.status).toBe(201);
  expect(made.body).toMatchObject({
    limit: 5,
    spent: 0,
    held: 0,
    remaining: 5,
    thresholds: [50, 80, 100],
  });
  expect(refusal(await post('/v1/budgets', { ...month, window: 'day' }))).toMatchObject({
    status: 409,
  });
  const { id } = made.body;
  const at = `/v1/budgets/${id}`;
  const key = tenant.billing_key;
  const changed = await world.call('put', at, {
    key,
    body: { limit: 7, thresholds: [90, 10, 90] },
  });
  expect(changed.body).toMatchObject({ id, limit: 7, thresholds: [10, 90], window: 'day' });
  const list = await world.call('get', '/v1/budgets?owner_type=organization', { key });
  expect(list.body.budgets.map((one: { id: string }) => one.id)).toContain(id);
  expect((await world.call('delete', at, { key })).status).toBe(200);
  expect((await world.call('get', at, { key })).status).toBe(404);
});

test('a member sees the budgets that count their calls, and raises none', async () => {
  const ann = await makePerson(world, tenant, 'member');
  const other = await makePerson(world, tenant, 'member');
  const mine = await post('/v1/budgets', { ...month, owner_type: 'user', owner_id: ann.user_id });
  const theirs = await post('/v1/budgets', {
    ...month,
    owner_type: 'user',
    owner_id: other.user_id,
  });
  const { body } = await world.call('get', '/v1/budgets', { key: ann.key });
  const ids = body.budgets.map((one: { id: string }) => one.id);
  expect(ids).toContain(mine.body.id);
  expect(ids).not.toContain(theirs.body.id);
  const at = `/v1/budgets/${mine.body.id}`;
  expect((await world.call('put', at, { key: ann.key, body: { limit: 90 } })).status).toBe(403);
  expect((await post('/v1/budgets', month, ann.key)).status).toBe(403);
});

test.each([
  'Mars/Olympus',
  'utc',
  'EST5EDT4',
  '+02:00',
  'posix/UTC',
  'Europe/berlin',
  '',
  'UTC; drop',
])('the zone %j is 422', async (time_zone) => {
  const at = `/v1/admin/organizations/${tenant.org_id}/wallet-settings`;
  const { platform } = await keysOf();
  const answer = await world.call('put', at, { key: platform, body: { time_zone } });
  expect(refusal(answer)).toMatchObject({ status: 422, param: 'time_zone' });
});

async function keysOf() {
  return { platform: await platformKey(world.db) };
}

test('a change of the zone counts from the next window, which begins where the one before ended', async () => {
  const org = await makeTenant(world.db);
  await topUp(world.call, org, 1_000);
  const { platform } = await keysOf();
  const made = await post('/v1/budgets', { ...month, window: 'day' }, org.billing_key);
  const at = `/v1/budgets/${made.body.id}`;
  const settings = `/v1/admin/organizations/${org.org_id}/wallet-settings`;
  const put = await world.call('put', settings, {
    key: platform,
    body: { time_zone: 'Asia/Kolkata' },
  });
  expect(put.body.time_zone).toBe('Asia/Kolkata');
  const before = await world.call('get', at, { key: org.billing_key });
  expect(before.body).toMatchObject({
    starts_at: made.body.starts_at,
    resets_at: made.body.resets_at,
  });
  await many(
    world.db,
    `update budgets set starts_at = starts_at - interval '1 day', ends_at = ends_at - interval '1 day' where id = :id`,
    { id: made.body.id },
  );
  const body = { ...reserveBody(org.org_id, 1), request_body_hash: bodyHash() };
  expect((await post('/v1/gateway/wallets/reserve', body, world.machine)).status).toBe(200);
  const next = (await world.call('get', at, { key: org.billing_key })).body;
  expect(next.resets_at).toMatch(/T18:30:00\.000Z$/);
  expect(next.starts_at >= made.body.starts_at).toBe(true);
});

test('max_budget of a key with a window, of one without, and of none', async () => {
  const make = (more: object) =>
    post('/v1/tokens', { name: randomUUID(), token_type: 'gateway', ...more }, tenant.owner_key);
  const { body } = await make({ max_budget: 0.0001, budget_window: 'month' });
  expect(body).toMatchObject({ max_budget: 0.0001, budget_window: 'month', budget_used: 0 });
  const plain = (await make({ max_budget: 1 })).body;
  expect(plain).toMatchObject({ budget_window: null, budget_used: 0, budget_resets_at: null });
  const free = (await make({})).body;
  expect(free).toMatchObject({ max_budget: null, budget_used: null });
  const reserve = () =>
    post(
      '/v1/gateway/wallets/reserve',
      { ...reserveBody(tenant.org_id, 60), request_body_hash: bodyHash(), key_id: body.id },
      world.machine,
    );
  expect((await reserve()).status).toBe(200);
  const refused = await reserve();
  expect(refusal(refused)).toMatchObject({ status: 403, code: 'key_budget_exceeded' });
  expect(refused.body.error.budget).toMatchObject({
    owner_type: 'key',
    limit: 0.0001,
    used: 0.00006,
  });
  const shown = await world.call('get', `/v1/tokens/${body.name}`, { key: tenant.owner_key });
  expect(shown.body).toMatchObject({ budget_used: 0.00006, max_budget: 0.0001 });
  for (const [more, param] of [
    [{ budget_window: 'month' }, 'budget_window'],
    [{ max_budget: 1, budget_window: 'year' }, 'budget_window'],
  ] as const)
    expect(refusal(await make(more))).toMatchObject({ status: 422, param });
});

test('PATCH of a key changes budget and window, and what is counted stays counted', async () => {
  const name = randomUUID();
  const made = await post(
    '/v1/tokens',
    { name, token_type: 'gateway', max_budget: 0.0001 },
    tenant.owner_key,
  );
  const body = { ...reserveBody(tenant.org_id, 60), request_body_hash: bodyHash() };
  const held = await post(
    '/v1/gateway/wallets/reserve',
    { ...body, key_id: made.body.id },
    world.machine,
  );
  expect(held.status).toBe(200);
  const change = async (more: object) =>
    (await world.call('patch', `/v1/tokens/${name}`, { key: tenant.owner_key, body: more })).body;
  expect(await change({ budget_window: 'month' })).toMatchObject({
    max_budget: 0.0001,
    budget_window: 'month',
    budget_used: 0.00006,
  });
  expect(await change({ max_budget: 0.0002 })).toMatchObject({
    max_budget: 0.0002,
    budget_window: 'month',
    budget_used: 0.00006,
  });
  expect(await change({ budget_window: 'life' })).toMatchObject({
    max_budget: 0.0002,
    budget_window: null,
    // What is held counts in a life as in a window.
    budget_used: 0.00006,
  });
  const none = await change({ max_budget: null });
  expect([none.max_budget, none.budget_window]).toEqual([null, null]);
});

test('audit events show what people set of a budget, and not what it counts', async () => {
  const { org_id, billing_key, owner_key } = await makeTenant(world.db);
  const odd = { ...month, limit: 0.333333333, thresholds: [33], owner_id: org_id };
  const { id } = (await post('/v1/budgets', odd, billing_key)).body;
  const { status, body } = await world.call('get', `/v1/audit-events?object_id=${id}`, {
    key: owner_key,
  });
  expect([status, body.audit_events?.[0]?.action]).toEqual([200, 'budget.created']);
  expect(Object.keys(body.audit_events[0].after)).not.toContain('tells_at');
});
