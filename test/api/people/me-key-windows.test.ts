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

// The windows of budgets of keys that members make for themselves.

let db: Db;
let call: CallApi;
let close: () => Promise<void>;
let tenant: Tenant;
let person: Person;

beforeAll(async () => {
  ({ db, call, close } = await startApi());
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
