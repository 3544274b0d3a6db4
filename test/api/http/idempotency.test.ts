import { randomUUID } from 'node:crypto';
import type { Db } from '../../../domain/sql';
import * as storedAnswers from '../../../domain/stored-answers';
import {
  type Answer,
  type CallApi,
  makeTenant,
  refusal,
  startApi,
  type Tenant,
} from '../../support/api';
import { makeKey, platformKey } from '../../support/keys';
import { repeated } from '../../support/until';

let db: Db;
let call: CallApi;
let close: () => Promise<void>;
let tenant: Tenant;

beforeAll(async () => {
  const notice_reach = { networks: undefined, chat_hosts: [], has_mail: true };
  ({ db, call, close } = await startApi({ notice_reach }));
  tenant = await makeTenant(db);
});

afterAll(() => close());

interface Given {
  id?: string;
  path?: string;
  key?: string;
  body?: object;
}

const credit = { target_wallet_owner_type: 'organization', amount: 1 };

function post({
  id,
  path = '/v1/wallets/credit',
  key = tenant.billing_key,
  body = credit,
}: Given): Promise<Answer> {
  return call('post', path, { key, body, ...(id ? { headers: { 'idempotency-key': id } } : {}) });
}

async function entries(wallet_id = tenant.wallet_id): Promise<number> {
  const [row] = await db('wallets').where({ id: wallet_id }).select('seq');
  return Number(row.seq);
}

const money: [string, () => object][] = [
  ['/v1/wallets/credit', () => credit],
  ['/v1/wallets/allocate', () => ({ team_id: tenant.team_id, amount: 0.5 })],
  ['/v1/wallets/reclaim', () => ({ team_id: tenant.team_id, amount: 0.25 })],
];

test.each(money)(
  '%s repeated under its Idempotency-Key has one effect and one answer',
  async (path, body) => {
    await post({});
    await post({ path: '/v1/wallets/allocate', body: { team_id: tenant.team_id, amount: 0.5 } });
    const before = await entries();
    const id = randomUUID();
    const first = await post({ id, path, body: body() });
    expect(first.status).toBeLessThan(300);
    const repeated = await post({ id, path, body: body() });
    expect([repeated.status, repeated.text]).toEqual([first.status, first.text]);
    expect(repeated.headers['content-type']).toBe(first.headers['content-type']);
    expect(await entries()).toBe(before + 1);
  },
);

const ofOrganization = (path: string) => `/v1/organizations/${tenant.org_id}/${path}`;
const schedule = { kinds: ['ledger'], every: 'month' };
const cap = {
  constraint_type: 'cost',
  provider: 'openai',
  model_pattern: '*',
  max_value: 1,
  interval: 'day',
  enforcement_mode: 'reject',
};
const things: [table: string, path: () => string, body: object][] = [
  [
    'approval_rules',
    () => '/v1/approval-rules',
    { name: 'Small calls', max_per_call: 1, max_per_day: 20 },
  ],
  ['memberships', () => ofOrganization('members'), { name: 'Ann', role: 'member' }],
  ['export_schedules', () => '/v1/export-schedules', schedule],
  ['notice_destinations', () => '/v1/notice-destinations', { name: 'Mail', channel: 'email' }],
  ['usage_constraints', () => `/v1/agents/${tenant.agent_id}/usage-constraints`, cap],
  ['organizations', () => '/v1/admin/organizations', { name: 'Acme' }],
];

test.each(things)(
  'a row of %s whose answer was lost is made once under its Idempotency-Key',
  async (table, path, body) => {
    const platform = await platformKey(db);
    const key = table === 'organizations' ? platform : tenant.owner_key;
    const count = async () => Number((await db(table).count())[0]?.count);
    const before = await count();
    const given = { id: randomUUID(), path: path(), key, body };
    const first = await post(given);
    expect(first.status).toBe(201);
    const again = await post(given);
    expect([again.status, again.text]).toEqual([201, first.text]);
    expect(again.headers['idempotent-replayed']).toBe('true');
    expect(await count()).toBe(before + 1);
    expect((await post({ ...given, id: randomUUID() })).status).toBe(201);
    expect(await count()).toBe(before + 2);
  },
);

test('the admin route for credits replays too', async () => {
  const key = await platformKey(db);
  const body = { ...credit, org_id: tenant.org_id };
  const id = randomUUID();
  const given = { id, key, path: '/v1/admin/wallets/credit', body };
  const before = await entries();
  expect((await post(given)).body).toEqual((await post(given)).body);
  expect(await entries()).toBe(before + 1);
});

test.each(['/v1/wallets/credit/', '/V1/Wallets/Credit'])(
  'another spelling of the path, %s, is no route: a key cannot credit again through it',
  async (path) => {
    const before = await entries();
    expect((await post({ id: randomUUID(), path })).status).toBe(404);
    expect(await entries()).toBe(before);
  },
);

test('without a key, equal calls are different calls', async () => {
  const before = await entries();
  await post({});
  await post({});
  expect(await entries()).toBe(before + 2);
});

test('the same key with another body is 422 and has no effect', async () => {
  const id = randomUUID();
  await post({ id });
  const before = await entries();
  expect(refusal(await post({ id, body: { ...credit, amount: 2 } }))).toMatchObject({
    status: 422,
    code: 'idempotency_key_reused',
  });
  expect(await entries()).toBe(before);
});

test('thirty concurrent copies of a call have one effect, and all get its answer', async () => {
  const id = randomUUID();
  const before = await entries();
  const answers = await Promise.all(Array.from({ length: 30 }, () => repeated(() => post({ id }))));
  expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([201]));
  expect(new Set(answers.map(({ body }) => body.transaction.id)).size).toBe(1);
  expect(await entries()).toBe(before + 1);
});

test('a key belongs to its caller, its organization and its route', async () => {
  const id = randomUUID();
  const other = await makeTenant(db);
  const colleague = await makeKey(db, tenant.org_id, { scopes: ['org:billing'] });
  const ids = [
    (await post({ id })).body.transaction.id,
    (await post({ id, key: colleague })).body.transaction.id,
    (await post({ id, key: other.billing_key })).body.transaction.id,
  ];
  expect(new Set(ids).size).toBe(3);
  const moved = await post({
    id,
    path: '/v1/wallets/allocate',
    body: { team_id: tenant.team_id, amount: 1 },
  });
  expect(moved.status).toBe(200);
});

test('a platform admin may use one key in two organizations', async () => {
  const key = await platformKey(db);
  const other = await makeTenant(db);
  const id = randomUUID();
  for (const { org_id } of [tenant, other]) {
    const { status, body } = await post({
      id,
      key,
      path: '/v1/admin/wallets/credit',
      body: { ...credit, org_id },
    });
    expect([status, body.wallet.owner_org_id]).toEqual([201, org_id]);
  }
});

test('a 409 is kept: the same call is refused again, though there is money by now', async () => {
  const poor = await makeTenant(db);
  const id = randomUUID();
  const given = {
    id,
    key: poor.billing_key,
    path: '/v1/wallets/allocate',
    body: { team_id: poor.team_id, amount: 1 },
  };
  const first = await post(given);
  expect(refusal(first)).toMatchObject({ status: 409, code: 'insufficient_balance' });
  await post({ key: poor.billing_key });
  const again = await post(given);
  expect([again.status, again.text]).toEqual([409, first.text]);
  for (const answer of [first, again]) expect(answer.headers['x-should-retry']).toBe('false');
  expect((await post({ ...given, id: randomUUID() })).status).toBe(200);
});

test('a 422 is not kept: the call works once what it needs is there', async () => {
  const id = randomUUID();
  await post({ body: { ...credit, amount: 10 } });
  const given = {
    id,
    path: '/v1/wallets/allocate',
    body: { team_id: tenant.team_id, amount: 1, currency: 'SEK' },
  };
  expect(refusal(await post(given))).toMatchObject({ status: 422, code: 'exchange_rate_missing' });
  const rates = { rates: { SEK: 10 } };
  await call('put', '/v1/admin/exchange-rates', { key: await platformKey(db), body: rates });
  expect((await post(given)).status).toBe(200);
});

test('a refusal before the action, as of a wrong amount, leaves the key free', async () => {
  const id = randomUUID();
  expect((await post({ id, body: { ...credit, amount: -1 } })).status).toBe(422);
  expect((await post({ id })).status).toBe(201);
});

test('an Idempotency-Key of more than 200 characters is refused', async () => {
  expect(refusal(await post({ id: 'x'.repeat(201) }))).toMatchObject({
    status: 422,
    param: 'Idempotency-Key',
  });
  expect((await post({ id: 'x'.repeat(200) })).status).toBe(201);
});

test('answers are forgotten after seven days, not before', async () => {
  const id = randomUUID();
  const first = await post({ id });
  const age = (interval: string) =>
    db('idempotency_keys')
      .where({ key: id })
      .update({ created_at: db.raw(`clock_timestamp() - interval '${interval}'`) });
  await age('6 days 23 hours');
  expect((await post({ id })).body).toEqual(first.body);
  await age('7 days 1 minute');
  expect((await post({ id })).body.transaction.id).not.toBe(first.body.transaction.id);
});

test('of two that run under one key, the answer of one is stored though the other has given the key back', async () => {
  const claim = {
    org_id: tenant.org_id,
    principal: 'somebody',
    route: 'post /',
    key: randomUUID(),
  };
  const wanted = { ...claim, body_sha256: 'of a body' };
  expect(await storedAnswers.claim(db, wanted)).toBeUndefined();
  await storedAnswers.release(db, wanted);
  await storedAnswers.keep(db, wanted, { status: 200, answer: 'done' });
  expect(await storedAnswers.find(db, wanted)).toEqual({ status: 200, answer: 'done' });
  // Another body has the key by then: that is its own.
  const other = { ...wanted, key: randomUUID() };
  await storedAnswers.claim(db, { ...other, body_sha256: 'of another body' });
  await storedAnswers.keep(db, other, { status: 200, answer: 'done' });
  await expect(storedAnswers.find(db, other)).rejects.toMatchObject({
    code: 'idempotency_key_reused',
  });
});
