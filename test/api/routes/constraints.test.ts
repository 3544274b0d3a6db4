import { randomUUID } from 'node:crypto';
import type { ConstraintFields } from '../../../domain/ledger/constraints';
import { sweep } from '../../../domain/ledger/reservations';
import { type Db, many } from '../../../domain/sql';
import { type CallApi, makeTenant, refusal, startApi, type Tenant } from '../../support/api';
import { gatewayToken, makeKey, platformKey } from '../../support/keys';
import {
  chat,
  inFlight,
  makeOverdue,
  makePrice,
  reserveBody,
  settleBody,
} from '../../support/ledger';

let db: Db;
let call: CallApi;
let close: () => Promise<void>;
let machine: string;
let platform: string;

beforeAll(async () => {
  ({ db, call, close } = await startApi());
  machine = await gatewayToken(db);
  platform = await platformKey(db);
  await makePrice(db);
  await makePrice(db, { model: 'gpt-4o', input_per_1m: 10 });
});

afterAll(() => close());

const cap: ConstraintFields = {
  constraint_type: 'responses',
  provider: chat.provider,
  model_pattern: 'gpt-4o*',
  max_value: 10,
  interval: 'day',
  enforcement_mode: 'reject',
};

async function capped(...caps: Partial<ConstraintFields>[]): Promise<Tenant & { caps: string[] }> {
  const tenant = await makeTenant(db);
  const credit = { org_id: tenant.org_id, target_wallet_owner_type: 'organization', amount: 100 };
  await call('post', '/v1/admin/wallets/credit', { key: platform, body: credit });
  const ids: string[] = [];
  for (const one of caps) ids.push((await constrain(tenant, one)).body.id);
  return { ...tenant, caps: ids };
}

function constrain({ agent_id, owner_key }: Tenant, fields: Partial<ConstraintFields>) {
  return call('post', `/v1/agents/${agent_id}/usage-constraints`, {
    key: owner_key,
    body: { ...cap, ...fields },
  });
}

function reserve({ org_id, agent_id }: Tenant, tokens: number, more: object = {}) {
  return call('post', '/v1/gateway/wallets/reserve', {
    key: machine,
    body: { ...reserveBody(org_id, tokens), agent_id, ...more },
  });
}

function settle({ org_id }: Tenant, reservation_id: string, tokens: number, more: object = {}) {
  return call('post', '/v1/gateway/wallets/settle', {
    key: machine,
    body: { ...settleBody(org_id, reservation_id, tokens), ...more },
  });
}

async function standing({ agent_id }: Tenant, query = '') {
  const path = `/v1/gateway/agents/${agent_id}/usage-check?provider=openai&model=gpt-4o-mini${query}`;
  const { body } = await call('get', path, { key: machine });
  return body;
}

const valuesOf = async (tenant: Tenant) =>
  (await standing(tenant)).constraints.map((each: { current_value: number }) => each.current_value);

test('an agent has at most a hundred constraints, also of those that are made at once', async () => {
  const tenant = await makeTenant(db);
  const all = Array.from({ length: 102 }, () => () => constrain(tenant, {}));
  const made = await inFlight(5, all);
  expect(made.filter(({ status }) => status === 201)).toHaveLength(100);
  const refused = await constrain(tenant, {});
  expect(refusal(refused)).toMatchObject({ status: 409, code: 'already_exists' });
  const [first] = made.filter(({ status }) => status === 201);
  const path = `/v1/agents/${tenant.agent_id}/usage-constraints/${first?.body.id}`;
  expect((await call('delete', path, { key: tenant.owner_key })).status).toBe(200);
  expect((await constrain(tenant, {})).status).toBe(201);
});

test('a cap of 10 responses under 200 parallel calls lets exactly 10 through', async () => {
  const tenant = await capped({});
  const answers = await inFlight(
    200,
    Array.from({ length: 200 }, () => () => reserve(tenant, 1)),
  );
  expect(answers.filter(({ status }) => status === 200)).toHaveLength(10);
  const refused = answers.filter(({ status }) => status === 429);
  expect(refused).toHaveLength(190);
  const [first] = refused;
  expect(first?.body.error).toMatchObject({
    code: 'usage_constraint_exceeded',
    type: 'rate_limit_error',
    resets_at: expect.stringMatching(/T00:00:00.000Z$/),
  });
  expect(first?.headers).toMatchObject({ 'x-should-retry': 'false' });
  expect(Number(first?.headers['retry-after'])).toBeGreaterThan(0);
  expect(first?.body.cost_ticket).toBeUndefined();
});

test('a cost cap counts open holds, is corrected by the settlement, and is exact to the nano', async () => {
  const tenant = await capped({ constraint_type: 'cost', max_value: 0.000_01 });
  const { body: held } = await reserve(tenant, 6);
  expect(await valuesOf(tenant)).toEqual([0.000_006]);
  const path = `/v1/agents/${tenant.agent_id}/usage-constraints`;
  const { body: list } = await call('get', path, { key: tenant.owner_key });
  const shown = { current_value: 0.000_006, resets_at: expect.stringMatching(/T00:00:00.000Z$/) };
  expect(list.usage_constraints).toMatchObject([shown]);
  expect((await reserve(tenant, 5)).status).toBe(429);
  expect((await reserve(tenant, 4)).status).toBe(200);
  await settle(tenant, held.reservation_id, 1);
  expect(await valuesOf(tenant)).toEqual([0.000_005]);
  expect((await reserve(tenant, 6)).status).toBe(429);
  expect((await reserve(tenant, 5)).status).toBe(200);
});

test('a call that failed before any use, was canceled or lapsed gives its count back', async () => {
  const tenant = await capped({ max_value: 3 }, { constraint_type: 'cost', max_value: 1 });
  const ids = [];
  for (let n = 0; n < 3; n += 1) ids.push((await reserve(tenant, 10)).body.reservation_id);
  expect(await valuesOf(tenant)).toEqual([3, 0.000_03]);
  await settle(tenant, ids[0], 0, { outcome: 'failed' });
  await settle(tenant, ids[1], 0, { outcome: 'canceled' });
  await makeOverdue(db, ids[2]);
  await sweep(db, tenant.org_id);
  expect(await valuesOf(tenant)).toEqual([0, 0]);
  // Charged late, it counts again.
  await settle(tenant, ids[2], 4);
  expect(await valuesOf(tenant)).toEqual([1, 0.000_004]);
});

test('a settlement counts in the window of its reserve, whenever it comes', async () => {
  const tenant = await capped({ interval: 'hour', constraint_type: 'cost', max_value: 1 });
  const { body } = await reserve(tenant, 10);
  const earlier = new Date(Date.now() - 3_600_000);
  // The clock, moved for one reservation: it was made an hour ago.
  await many(
    db,
    "update usage_constraints set counted_from = counted_from - interval '1 hour' where id = :id",
    {
      id: tenant.caps[0],
    },
  );
  await many(
    db,
    "update constraint_usage set window_start = window_start - interval '1 hour' where constraint_id = :id",
    {
      id: tenant.caps[0],
    },
  );
  await many(db, 'update reservations set created_at = :earlier where id = :id', {
    id: body.reservation_id,
    earlier,
  });
  await settle(tenant, body.reservation_id, 7);
  expect(await valuesOf(tenant)).toEqual([0]);
  const counted = await many<{ cost_nanos: string }>(
    db,
    'select cost_nanos::bigint as cost_nanos from constraint_usage where constraint_id = :id and cost_nanos > 0',
    { id: tenant.caps[0] },
  );
  expect(counted).toEqual([{ cost_nanos: 7_000n }]);
});

test('warn lets the call pass and says so', async () => {
  const tenant = await capped({ max_value: 1, enforcement_mode: 'warn', interval: 'month' });
  expect((await reserve(tenant, 1)).body.warnings).toEqual([]);
  expect((await reserve(tenant, 1)).body.warnings).toEqual([
    {
      id: tenant.caps[0],
      constraint_type: 'responses',
      interval: 'month',
      max_value: 1,
      resets_at: expect.stringMatching(/-01T00:00:00.000Z$/),
    },
  ]);
});

test('a fallback is capped like the model itself, and counts on the one that ran', async () => {
  const tenant = await capped({ model_pattern: 'gpt-4o', max_value: 1 });
  const fallbacks = [{ provider: 'openai', model: 'gpt-4o' }];
  const { body } = await reserve(tenant, 1, { fallbacks });
  expect((await reserve(tenant, 1, { fallbacks })).status).toBe(429);
  expect((await reserve(tenant, 1, { model: 'gpt-4o' })).status).toBe(429);
  await settle(tenant, body.reservation_id, 1);
  expect((await reserve(tenant, 1, { fallbacks })).status).toBe(200);
});

test('a new constraint starts from what its window has seen; a changed one is counted anew', async () => {
  const tenant = await capped();
  const { body } = await reserve(tenant, 10);
  await settle(tenant, body.reservation_id, 8);
  await reserve(tenant, 2);
  const { body: made } = await constrain(tenant, { constraint_type: 'cost', max_value: 5 });
  expect(await valuesOf(tenant)).toEqual([0.000_01]);
  const path = `/v1/agents/${tenant.agent_id}/usage-constraints/${made.id}`;
  const changed = await call('put', path, {
    key: tenant.owner_key,
    body: { constraint_type: 'responses', max_value: 2 },
  });
  expect(changed.body).toEqual({
    ...made,
    constraint_type: 'responses',
    max_value: 2,
    updated_at: expect.any(String),
  });
  expect(await valuesOf(tenant)).toEqual([2]);
  expect((await reserve(tenant, 1)).status).toBe(429);
  await call('delete', path, { key: tenant.owner_key });
  expect((await reserve(tenant, 1)).status).toBe(200);
});

test('the repeat of a reserve counts once', async () => {
  const tenant = await capped({ max_value: 1 });
  const request_id = randomUUID();
  const first = await reserve(tenant, 1, { request_id });
  expect((await reserve(tenant, 1, { request_id })).body).toEqual(first.body);
  expect(await valuesOf(tenant)).toEqual([1]);
});

test('usage-check says what one more request would meet; usage-increment counts once per request', async () => {
  const tenant = await capped({ constraint_type: 'cost', max_value: 1 }, { max_value: 2 });
  expect(await standing(tenant, '&estimated_cost=1.000000001')).toMatchObject({ allowed: false });
  expect(await standing(tenant, '&estimated_cost=1')).toMatchObject({ allowed: true });
  const path = `/v1/gateway/agents/${tenant.agent_id}/usage-increment`;
  const body = { ...chat, cost: 0.25, request_id: randomUUID() };
  const counted = await call('post', path, { key: machine, body });
  expect(counted.body.constraints).toEqual([
    {
      id: tenant.caps[0],
      constraint_type: 'cost',
      interval: 'day',
      max_value: 1,
      current_value: 0.25,
      remaining: 0.75,
      enforcement_mode: 'reject',
      exceeded: false,
      resets_at: expect.any(String),
    },
    expect.objectContaining({ current_value: 1, remaining: 1 }),
  ]);
  expect((await call('post', path, { key: machine, body })).body).toEqual(counted.body);

  const request_id = randomUUID();
  await reserve(tenant, 1, { request_id });
  const known = await call('post', path, { key: machine, body: { ...body, request_id } });
  expect(known.body.constraints[1]).toMatchObject({ current_value: 2, exceeded: true });
});

test.each([
  ['constraint_type', { constraint_type: 'tokens' }],
  ['provider', { provider: '' }],
  ['model_pattern', { model_pattern: 'gpt-*-mini' }],
  ['max_value', { max_value: -1 }],
  ['max_value', { max_value: 1.5 }],
  ['max_value', { constraint_type: 'cost', max_value: 1e-12 }],
  ['max_value', { max_value: '10' }],
  ['interval', { interval: 'year' }],
  ['enforcement_mode', { enforcement_mode: 'block' }],
])('a constraint whose %s is wrong is refused by name', async (param, fields) => {
  const tenant = await capped();
  const answer = await constrain(tenant, fields as object);
  expect(refusal(answer)).toEqual({ status: 422, code: expect.any(String), param });
});

test('caps are read with agents:read, written with agents:write, and never across tenants', async () => {
  const tenant = await capped({});
  const stranger = await makeTenant(db);
  const path = `/v1/agents/${tenant.agent_id}/usage-constraints`;
  const reader = await makeKey(db, tenant.org_id, { scopes: ['agents:read'] });
  const list = await call('get', path, { key: reader });
  expect(list.body.usage_constraints).toHaveLength(1);
  const [cid] = tenant.caps;
  expect((await call('post', path, { key: reader, body: cap })).status).toBe(403);
  expect((await call('delete', `${path}/${cid}`, { key: reader })).status).toBe(403);
  expect((await call('get', path, { key: tenant.member_key })).status).toBe(403);
  expect((await call('get', path, { key: stranger.owner_key })).status).toBe(404);
  expect((await call('put', `${path}/${cid}`, { key: stranger.owner_key, body: {} })).status).toBe(
    404,
  );
  const own = `/v1/agents/${stranger.agent_id}/usage-constraints/${cid}`;
  expect(refusal(await call('delete', own, { key: stranger.owner_key }))).toEqual({
    status: 404,
    code: 'not_found',
    param: 'cid',
  });
  expect((await call('get', path, { key: platform })).body.usage_constraints).toHaveLength(1);
});
