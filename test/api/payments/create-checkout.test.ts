import { putConfig } from '../../../domain/payments/config';
import { putOrgSettings } from '../../../domain/payments/settings';
import { many } from '../../../domain/sql';
import { makeTenant, refusal, secrets, type Tenant } from '../../support/api';
import {
  confirm,
  createCheckout,
  makeBuyer,
  openPaymentWorld,
  type PaymentWorld,
  pay,
  sessionOf,
  wish,
} from '../../support/payments/world';

// Top-ups over the real wires: an API, a worker on a real Temporal, and both providers' sandboxes.

let world: PaymentWorld;
let tenant: Tenant;

beforeAll(async () => {
  world = await openPaymentWorld();
});
beforeEach(async () => {
  tenant = await makeBuyer(world.db);
  await world.use('payment_provider_a');
});
afterAll(() => world.close());

function create(body: object, key = tenant.member_key, headers: Record<string, string> = {}) {
  return world.call('post', '/v1/payments/create-checkout', {
    key,
    body: { ...wish, ...body },
    headers,
  });
}

test('the same Idempotency-Key resumes the session; another body under it is refused', async () => {
  const headers = { 'idempotency-key': 'top-up 1' };
  const [first, second] = await Promise.all([
    create({}, tenant.member_key, headers),
    create({}, tenant.member_key, headers),
  ]);
  expect([first.status, second.status]).toEqual([201, 201]);
  expect(second.body).toEqual(first.body);
  const third = await create({}, tenant.member_key, headers);
  expect(third).toMatchObject({ status: 201, body: first.body });
  expect(third.headers['idempotent-replayed']).toBe('true');
  const other = await create({ amount: 60 }, tenant.member_key, headers);
  expect(refusal(other)).toMatchObject({ status: 422, code: 'idempotency_key_reused' });
  const { member_key } = await makeBuyer(world.db);
  const foreign = await create({}, member_key, headers);
  expect(foreign.body.payment_session_id).not.toBe(first.body.payment_session_id);
});

test('a checkout that is made while its session is asked for is answered from the row, and nothing is sent', async () => {
  await many(
    world.db,
    `alter function ask_payment rename to ask_payment_really;
     create function ask_payment(text, interval) returns integer language sql as $$
       update payment_sessions set provider_order_id = id, approval_url = 'http://127.0.0.1/pay' where id = $1;
       select null::integer $$`,
  );
  const { status, body } = await create({});
  await many(
    world.db,
    `drop function ask_payment; alter function ask_payment_really rename to ask_payment`,
  );
  expect(status).toBe(201);
  expect(body.approval_url).toBe('http://127.0.0.1/pay');
  const sent = world.client.workflow
    .getHandle(body.payment_session_id)
    .getUpdateHandle('approval-undefined');
  await expect(sent.result()).rejects.toThrow();
});

test('each field of create-checkout that is wrong is named, and makes nothing', async () => {
  const wrong: [object, number, string, string | null][] = [
    [{ amount: -1 }, 422, 'invalid_field', 'amount'],
    [{ amount: 0 }, 422, 'invalid_field', 'amount'],
    [{ amount: '50' }, 422, 'invalid_field', 'amount'],
    [{ amount: 1e-12 }, 422, 'invalid_field', 'amount'],
    [{ amount: 9_007_199_254_740_992 }, 422, 'amount_too_large', 'amount'],
    [{ amount: 50.001 }, 422, 'invalid_field', 'amount'],
    [{ amount: 4.99 }, 422, 'invalid_field', 'amount'],
    [{ amount: 1000.01 }, 422, 'invalid_field', 'amount'],
    [{ amount: undefined }, 422, 'invalid_field', 'amount'],
    [{ target_wallet_owner_type: 'group' }, 422, 'invalid_field', 'target_wallet_owner_type'],
    [{ target_wallet_owner_type: 'team' }, 422, 'invalid_field', 'target_wallet_owner_id'],
    [{ target_wallet_owner_id: 'org_x' }, 404, 'not_found', 'target_wallet_owner_id'],
    [{ surface: 'web' }, 422, 'invalid_field', 'surface'],
    [{ return_url: 'no address' }, 422, 'invalid_field', 'return_url'],
    [{ cancel_url: 'https://elsewhere.example' }, 422, 'invalid_field', 'cancel_url'],
    [{ provider: 'payment_provider_a' }, 422, 'unknown_field', 'provider'],
  ];
  for (const [more, status, code, param] of wrong)
    expect([more, refusal(await create(more))]).toEqual([more, { status, code, param }]);
  const infinite = await world.call('post', '/v1/payments/create-checkout', {
    key: tenant.member_key,
    body: JSON.stringify(wish).replace('50', '1e400'),
  });
  expect(refusal(infinite)).toMatchObject({ status: 422, param: 'amount' });
  const outside = await create({ amount: 4.99 });
  expect(outside.body.error.message).toContain('5 USD to 1000 USD');
  expect(await world.db('payment_sessions').where({ org_id: tenant.org_id })).toEqual([]);
});

test.each([
  '//evil.example/',
  '/\\evil.example',
  'https://127.0.0.1:3000@evil.example/',
  'http://127.0.0.1:3000@evil.example/',
  'http://user:pass@127.0.0.1:3000/return',
  'http://127.0.0.1:3000\\@evil.example/',
  'http://127.0.0.1:3000.evil.example/',
  'http://127.0.0.1:30000/',
  'http://127.0.0.1/',
  'https://127.0.0.1:3000/',
  'javascript:alert(1)',
  'data:text/html,x',
  ' http://127.0.0.1:3000/',
  'http://127.0.0.1:3000/\u0009x',
  'http://2130706433:3001/',
  'http://127.0.0.1:3000/return?token=mine',
])('a buyer is never sent to %j', async (url) => {
  expect(refusal(await create({ return_url: url }))).toMatchObject({
    status: 422,
    param: 'return_url',
  });
});

test.each(['return_url', 'cancel_url'])(
  'a %s is measured as it is sent, and too long a one is refused before anything is made',
  async (param) => {
    const at = (query: string) => ({ [param]: `http://127.0.0.1:3000/return?x=${query}` });
    for (const query of ['日'.repeat(700), 'é日'.repeat(350), '😀'.repeat(420)]) {
      const answer = await create(at(query));
      expect(refusal(answer)).toEqual({ status: 422, code: 'invalid_field', param });
      expect(answer.body.error.message).toContain('percent-encoded');
    }
    expect(await world.db('payment_sessions').where({ org_id: tenant.org_id })).toEqual([]);
    for (const query of ['日'.repeat(500), 'x'.repeat(1_900)])
      expect((await create(at(query))).status).toBe(201);
  },
);

test('targets: own wallet, own team and the organization, within what the settings allow', async () => {
  const { db } = world;
  const { org_id, member_id, team_id, billing_key } = tenant;
  const user = await createCheckout(world, tenant, { target_wallet_owner_type: 'user' });
  expect(await sessionOf(world, tenant, user)).toMatchObject({
    target_wallet_owner_type: 'user',
    target_wallet_owner_id: member_id,
  });
  const team = { target_wallet_owner_type: 'team', target_wallet_owner_id: team_id };
  const made = await createCheckout(world, tenant, team);
  expect(await sessionOf(world, tenant, made)).toMatchObject(team);
  const stranger = await makeTenant(db);
  const foreignTeam = { ...team, target_wallet_owner_id: stranger.team_id };
  expect(refusal(await create(foreignTeam))).toMatchObject({
    status: 403,
    code: 'target_not_allowed',
  });
  expect(refusal(await create(foreignTeam, billing_key))).toMatchObject({ status: 404 });
  expect(
    refusal(
      await create({
        target_wallet_owner_type: 'user',
        target_wallet_owner_id: stranger.member_id,
      }),
    ),
  ).toMatchObject({ status: 403, code: 'target_not_allowed' });
  expect(refusal(await create({ target_wallet_owner_type: 'user' }, billing_key))).toMatchObject({
    status: 403,
  });
  const chat = await createCheckout(world, tenant, { ...team, surface: 'chat' });
  expect(await sessionOf(world, tenant, chat)).toMatchObject({
    target_wallet_owner_type: 'organization',
    surface: 'chat',
  });

  await putOrgSettings(db, org_id, { topup_target_scopes: ['organization'] });
  expect(refusal(await create(team))).toMatchObject({ status: 403, code: 'target_not_allowed' });
  await db('organizations').where({ id: org_id }).update({ wallet_user_topup_enabled: false });
  expect(refusal(await create({}))).toMatchObject({ status: 403, code: 'permission_denied' });
  expect((await create({}, billing_key)).status).toBe(201);
});

test('without an active provider, or with one that does not take the currency, an admin learns what to do', async () => {
  const yen = await makeBuyer(world.db, 'KWD');
  const unsupported = await create({ amount: 10 }, yen.member_key);
  expect(refusal(unsupported)).toMatchObject({ status: 409, code: 'currency_not_supported' });
  expect(unsupported.body.error.message).toContain('/v1/admin/payments/config');
  await putConfig(world.db, secrets, { active_provider: null });
  const none = await create({});
  expect(refusal(none)).toMatchObject({ status: 409, code: 'payment_not_configured' });
  expect(none.body.error.message).toContain('PUT /v1/admin/payments/config');
});

test('a provider that refuses for good fails the session; one that is slow is resumed by the same key', async () => {
  const sandbox = world.sandboxes.payment_provider_a;
  await sandbox.fault({ on: 'create', answer: 'error', status: 422, work: false });
  const refused = await create({});
  expect(refusal(refused)).toMatchObject({ status: 502, code: 'provider_error' });
  await sandbox.fault({ on: 'create', answer: 'error', status: 500, times: 1 });
  const lost = await create({});
  expect(lost.status).toBe(201);
});

test.each([
  ['payment_provider_a', 'JPY', 1_000],
  ['payment_provider_a', 'HUF', 999],
  ['payment_provider_b', 'JPY', 1_000],
  ['payment_provider_b', 'KWD', 12.34],
  ['payment_provider_b', 'HUF', 999],
  ['payment_provider_b', 'ISK', 700],
] as const)('%s takes and credits %s to the last digit: %d', async (provider, currency, amount) => {
  await world.use(provider);
  const { call, sandboxes } = world;
  const buyer = await makeBuyer(world.db, currency);
  const half = await create({ amount: amount + 0.001 }, buyer.member_key);
  expect(refusal(half)).toMatchObject({ status: 422, param: 'amount' });
  const checkout = await createCheckout(world, buyer, { amount });
  await pay(checkout);
  expect((await confirm(world, buyer, checkout)).body).toMatchObject({
    ...{ status: 'completed', credited_amount: amount, wallet_balance_after: amount },
  });
  const { currency: taken } = await sandboxes[provider].order(checkout.provider_session_token);
  expect(taken).toBe(currency);
  const { payment_session_id } = checkout;
  const body = { payment_session_id, reason: 'asked' };
  const refund = await call('post', '/v1/admin/payments/refund', { key: world.admin, body });
  expect(refund.body).toMatchObject({ status: 'refunded', refunded_amount: amount, currency });
});

test('a session that the provider refused is not resumed: its key makes a new one', async () => {
  const headers = { 'idempotency-key': 'refused once' };
  const refusedOnce = { on: 'create', answer: 'error', status: 422, work: false };
  await world.sandboxes.payment_provider_a.fault(refusedOnce);
  const first = await create({}, tenant.member_key, headers);
  expect(refusal(first)).toMatchObject({ status: 502, code: 'provider_error' });
  // What the provider said is for operators.
  const { body } = await world.call('get', `/v1/admin/payments?org_id=${tenant.org_id}`, {
    key: world.admin,
  });
  expect(body.sessions[0].provider_message).toContain('422');
  expect(first.body.error.message).not.toContain('422');
  expect((await create({}, tenant.member_key, headers)).status).toBe(201);
});

test('an Idempotency-Key is of one organization and one request, its query included', async () => {
  const { call, admin, db } = world;
  const headers = { 'idempotency-key': 'of one' };
  const other = await makeBuyer(db);
  const ask = (query: string) =>
    call('post', `/v1/payments/create-checkout?${query}`, { key: admin, body: wish, headers });
  const [mine, theirs] = [
    await ask(`org_id=${tenant.org_id}`),
    await ask(`org_id=${other.org_id}`),
  ];
  expect([mine.status, theirs.status]).toEqual([201, 201]);
  expect(theirs.body.payment_session_id).not.toBe(mine.body.payment_session_id);
  const team = { ...wish, target_wallet_owner_type: 'team' };
  const again = { key: tenant.member_key, body: team, headers };
  expect(
    (
      await call(
        'post',
        `/v1/payments/create-checkout?target_wallet_owner_id=${tenant.team_id}`,
        again,
      )
    ).status,
  ).toBe(201);
  expect(
    refusal(
      await call('post', '/v1/payments/create-checkout?target_wallet_owner_id=team_x', again),
    ),
  ).toMatchObject({ status: 422, code: 'idempotency_key_reused' });
});

test('the key of a canceled checkout does not bring it back', async () => {
  const headers = { 'idempotency-key': 'canceled' };
  const { body } = await create({}, tenant.member_key, headers);
  await world.call('post', `/v1/payments/sessions/${body.payment_session_id}/cancel`, {
    key: tenant.member_key,
    body: {},
  });
  expect(refusal(await create({}, tenant.member_key, headers))).toMatchObject({
    status: 409,
    code: 'payment_state',
  });
});
