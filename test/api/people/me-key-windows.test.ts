import { randomUUID } from 'node:crypto';
import type { Db } from '../../../domain/sql';
import {
  type Answer,
  type CallApi,
  makePerson,
  makeTenant,
  type Person,
  refusal,
  startApi,
  type Tenant,
} from '../../support/api';
import { gatewayToken } from '../../support/keys';

// The windows of budgets of keys that members make for themselves, and other values of them.

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

async function allow(body: object = {}) {
  const path = `/v1/organizations/${tenant.org_id}/member-keys`;
  const given = { key: tenant.owner_key, body: { enabled: true, ...body } };
  const answer = await call('put', path, given);
  expect(answer.status).toBe(200);
  return answer.body;
}

const make = (body: object = {}): Promise<Answer> =>
  call('post', '/v1/me/keys', { key: person.key, body: { name: randomUUID(), ...body } });

const change = (name: string, body: object) =>
  call('patch', `/v1/me/keys/${name}`, { key: person.key, body });

test("a key gets the organization's budget and window, or less: the same window or its life", async () => {
  expect(await allow({ max_budget: 10, budget_window: 'week' })).toMatchObject({
    max_budget: 10,
    budget_window: 'week',
  });
  expect((await make()).body).toMatchObject({
    ...{ max_budget: 10, budget_window: 'week', budget_used: 0 },
    budget_resets_at: expect.any(String),
  });
  expect((await make({ max_budget: 4 })).body).toMatchObject({
    max_budget: 4,
    budget_window: 'week',
  });
  for (const budget_window of ['life', null])
    expect((await make({ budget_window })).body).toMatchObject({
      max_budget: 10,
      budget_window: null,
    });
  for (const budget_window of ['hour', 'day', 'month'])
    expect(refusal(await make({ budget_window }))).toEqual({
      ...{ status: 422, code: 'invalid_field', param: 'budget_window' },
    });
  expect(refusal(await make({ max_budget: 11 }))).toMatchObject({ param: 'max_budget' });
});

test('a limit for the life of a key lets no key have a window, in which it would have it again', async () => {
  expect(await allow({ max_budget: 10 })).toMatchObject({ budget_window: null });
  expect(refusal(await make({ max_budget: 1, budget_window: 'month' }))).toMatchObject({
    ...{ status: 422, param: 'budget_window' },
  });
  expect((await make()).body).toMatchObject({ max_budget: 10, budget_window: null });
});

test('without a limit of the organization a member chooses, and a window needs a budget', async () => {
  // A window without a budget is none.
  expect(await allow({ budget_window: 'day' })).toMatchObject({ budget_window: null });
  expect((await make()).body).toMatchObject({ max_budget: null, budget_window: null });
  expect(refusal(await make({ budget_window: 'day' }))).toMatchObject({
    ...{ status: 422, param: 'budget_window' },
  });
  const made = (await make({ max_budget: 2, budget_window: 'day' })).body;
  expect(made).toMatchObject({ max_budget: 2, budget_window: 'day', key: expect.any(String) });
});

test('a window of a budget that a key has only becomes its life; a key without one gets any that is allowed', async () => {
  await allow();
  const { name } = (await make({ max_budget: 2, budget_window: 'month' })).body;
  expect(refusal(await change(name, { budget_window: 'hour' }))).toEqual({
    ...{ status: 403, code: 'permission_denied', param: 'budget_window' },
  });
  expect((await change(name, { budget_window: 'month', max_budget: 1 })).body).toMatchObject({
    ...{ max_budget: 1, budget_window: 'month' },
  });
  expect((await change(name, { budget_window: 'life' })).body).toMatchObject({
    ...{ max_budget: 1, budget_window: null },
  });
  expect(refusal(await change(name, { budget_window: 'month' }))).toMatchObject({ status: 403 });
  const free = (await make()).body.name;
  expect(refusal(await change(free, { budget_window: 'day' }))).toMatchObject({ status: 422 });
  expect((await change(free, { max_budget: 3, budget_window: 'day' })).body).toMatchObject({
    ...{ max_budget: 3, budget_window: 'day' },
  });
});

test('a member draws a new value of a key that they made, while their organization lets them', async () => {
  await allow();
  const { body: made } = await make({ max_budget: 2 });
  const at = (name: string) => `/v1/me/keys/${encodeURIComponent(name)}/rotate`;
  const rotate = (name: string, body: object = {}, key = person.key) =>
    call('post', at(name), { key, body });
  const works = async (key: string) =>
    (await call('post', '/v1/gateway/keys/verify', { key: machine, body: { key } })).status;
  const kept = await rotate(made.name, { overlap_seconds: 3_600 });
  expect(kept).toMatchObject({ status: 201, body: { id: made.id, max_budget: 2 } });
  expect([await works(made.key), await works(kept.body.key)]).toEqual([200, 200]);
  const last = await rotate(made.name);
  const values = [made.key, kept.body.key, last.body.key];
  expect(await Promise.all(values.map(works))).toEqual([401, 401, 200]);
  // Nobody else's, and none that somebody made for them.
  const other = await makePerson({ db, call }, tenant, 'member');
  expect((await rotate(made.name, {}, other.key)).status).toBe(404);
  const given = { name: randomUUID(), token_type: 'gateway', user_id: person.user_id };
  await call('post', '/v1/tokens', { key: tenant.owner_key, body: given });
  expect(refusal(await rotate(given.name))).toMatchObject({ status: 403, param: 'name' });
  await allow({ enabled: false });
  expect((await rotate(made.name)).status).toBe(403);
  await allow();
  await call('delete', `/v1/me/keys/${made.name}`, { key: person.key });
  expect(refusal(await rotate(made.name))).toMatchObject({ status: 409, code: 'key_not_active' });
});
