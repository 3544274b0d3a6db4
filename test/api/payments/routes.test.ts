import { putConfig } from '../../../domain/payments/config';
import { providerNames } from '../../../domain/payments/currencies';
import { putOrgSettings } from '../../../domain/payments/settings';
import { many } from '../../../domain/sql';
import { makeKey, makeTenant, refusal, secrets, type Tenant } from '../../support/api';
import {
  type Checkout,
  confirm,
  createCheckout,
  makeBuyer,
  openPaymentWorld,
  type PaymentWorld,
  pay,
  return_url,
  sessionOf,
  wish,
} from '../../support/payments';
import { until } from '../../support/until';

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

async function entriesOf({ payment_session_id: id }: Pick<Checkout, 'payment_session_id'>) {
  return many<{ type: string; amount: number }>(
    world.db,
    `select type, (amount_nanos / 1e9)::float as amount from wallet_transactions where payment_session_id = :id order by seq`,
    { id },
  );
}

const credited = [{ type: 'payment_credit', amount: 50 }];

test.each(providerNames)(
  '%s: the buyer pays on the page and comes back; the wallet is credited once, however often it is confirmed',
  async (provider) => {
    await world.use(provider);
    const checkout = await createCheckout(world, tenant);
    expect(checkout).toMatchObject({ provider, approval_url: expect.stringContaining('http') });
    expect(await pay(checkout)).toContain(checkout.provider_session_token);
    const answers = await Promise.all(
      Array.from({ length: 8 }, () => confirm(world, tenant, checkout)),
    );
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]));
    const again = await confirm(world, tenant, checkout);
    expect(again.body).toEqual({
      payment_session_id: checkout.payment_session_id,
      provider,
      status: 'completed',
      wallet_id: tenant.wallet_id,
      currency: 'USD',
      credited_amount: 50,
      wallet_balance_after: 50,
      error_code: null,
      error_message: null,
    });
    expect(await entriesOf(checkout)).toEqual(credited);
  },
);

test.each(providerNames)(
  '%s: the buyer closes the page; the webhook alone completes',
  async (provider) => {
    await world.use(provider);
    const checkout = await createCheckout(world, tenant);
    await pay(checkout);
    await until(
      async () => (await sessionOf(world, tenant, checkout)).status === 'completed',
      15_000,
    );
    expect(await entriesOf(checkout)).toEqual(credited);
  },
);

test.each(providerNames)(
  '%s: 20 deliveries of the webhook at once with confirms: all answered 200, one capture, one credit',
  async (provider) => {
    await world.use(provider);
    const sandbox = world.sandboxes[provider];
    const checkout = await createCheckout(world, tenant);
    const order = checkout.provider_session_token;
    await sandbox.fault({ on: 'webhook', order, times: 4, duplicates: 19 });
    const [, ...answers] = await Promise.all([
      pay(checkout),
      ...Array.from({ length: 5 }, () => confirm(world, tenant, checkout)),
    ]);
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200, 200]);
    await until(
      async () => (await sessionOf(world, tenant, checkout)).status === 'completed',
      15_000,
    );
    expect(await entriesOf(checkout)).toEqual(credited);
  },
);

test('with the webhook lost and the page closed, the reconciler alone completes', async () => {
  const checkout = await createCheckout(world, tenant);
  const { payment_session_id: id, provider_session_token: order } = checkout;
  await world.sandboxes.payment_provider_a.fault({ on: 'webhook', order, times: 0, blocked: true });
  await pay(checkout);
  // A minute goes by.
  await many(
    world.db,
    `update payment_sessions set next_check_at = clock_timestamp() - interval '1 minute' where id = :id`,
    { id },
  );
  await world.client.workflow.execute('reconcile', {
    taskQueue: 'lifecycle',
    workflowId: `r-${id}`,
  });
  await until(
    async () => (await sessionOf(world, tenant, checkout)).status === 'completed',
    15_000,
  );
  expect(await entriesOf(checkout)).toEqual(credited);
});

test('a payment that was declined can be tried again, and one that was not made is not taken', async () => {
  const checkout = await createCheckout(world, tenant);
  const early = await confirm(world, tenant, checkout);
  expect(early.body).toMatchObject({
    status: 'created',
    error_code: 'not_approved',
    credited_amount: null,
  });
  const sandbox = world.sandboxes.payment_provider_a;
  await sandbox.act(checkout.provider_session_token, 'decline');
  expect((await confirm(world, tenant, checkout)).body).toMatchObject({
    status: 'created',
    error_code: 'declined',
  });
  await pay(checkout);
  expect((await confirm(world, tenant, checkout)).body).toMatchObject({
    status: 'completed',
    credited_amount: 50,
  });
});

test('a canceled checkout is ended; what is being paid or is paid cannot be canceled', async () => {
  const checkout = await createCheckout(world, tenant);
  const path = `/v1/payments/sessions/${checkout.payment_session_id}/cancel`;
  for (let time = 0; time < 2; time += 1) {
    const answer = await world.call('post', path, { key: tenant.member_key, body: {} });
    expect([answer.status, answer.body.status, answer.body.error_code]).toEqual([
      200,
      'canceled',
      'canceled_by_buyer',
    ]);
  }
  const paid = await createCheckout(world, tenant);
  await pay(paid);
  await confirm(world, tenant, paid);
  const late = await world.call('post', `/v1/payments/sessions/${paid.payment_session_id}/cancel`, {
    key: tenant.member_key,
    body: {},
  });
  expect(refusal(late)).toMatchObject({ status: 409, code: 'payment_state' });
});

test('the same Idempotency-Key resumes the session; another body under it is refused', async () => {
  const headers = { 'idempotency-key': 'top-up 1' };
  const [first, second] = await Promise.all([
    create({}, tenant.member_key, headers),
    create({}, tenant.member_key, headers),
  ]);
  expect([first.status, second.status]).toEqual([201, 201]);
  expect(second.body).toEqual(first.body);
  const other = await create({ amount: 60 }, tenant.member_key, headers);
  expect(refusal(other)).toMatchObject({ status: 422, code: 'idempotency_key_reused' });
  const { member_key } = await makeBuyer(world.db);
  const foreign = await create({}, member_key, headers);
  expect(foreign.body.payment_session_id).not.toBe(first.body.payment_session_id);
});

test('a fresh key cannot see, confirm or cancel the session of another person or organization', async () => {
  const checkout = await createCheckout(world, tenant);
  const stranger = await makeBuyer(world.db);
  const keys = [stranger.member_key, tenant.billing_key, await makeKey(world.db, tenant.org_id)];
  const { payment_session_id: id } = checkout;
  for (const key of keys) {
    const seen = await world.call('get', `/v1/payments/sessions/${id}`, { key });
    const confirmed = await confirm(world, { member_key: key }, checkout);
    const canceled = await world.call('post', `/v1/payments/sessions/${id}/cancel`, {
      key,
      body: {},
    });
    expect([seen.status, confirmed.status, canceled.status]).toEqual([404, 404, 404]);
  }
  expect((await sessionOf(world, tenant, checkout)).status).toBe('created');
});

test('a wrong checkout_state, token or provider changes nothing', async () => {
  const checkout = await createCheckout(world, tenant);
  await pay(checkout);
  await world.sandboxes.payment_provider_a.fault({
    on: 'webhook',
    times: 0,
    blocked: true,
    order: checkout.provider_session_token,
  });
  const other = await createCheckout(world, tenant);
  const { status: before } = await sessionOf(world, tenant, other);
  const wrong: [object, number, string, string][] = [
    [{ checkout_state: checkout.checkout_state }, 403, 'checkout_state_invalid', 'checkout_state'],
    [{ checkout_state: 'x' }, 403, 'checkout_state_invalid', 'checkout_state'],
    [
      { checkout_state: `${other.checkout_state}x` },
      403,
      'checkout_state_invalid',
      'checkout_state',
    ],
    [
      { provider_session_token: checkout.provider_session_token },
      403,
      'checkout_state_invalid',
      'provider_session_token',
    ],
    [{ provider: 'payment_provider_b' }, 422, 'invalid_field', 'provider'],
    [{ provider: 'stripe' }, 422, 'invalid_field', 'provider'],
    [{ payment_session_id: '' }, 422, 'invalid_field', 'payment_session_id'],
    [{ payment_session_id: 'pay_x' }, 404, 'not_found', null as never],
    [{ extra: 1 }, 422, 'unknown_field', 'extra'],
  ];
  for (const [more, status, code, param] of wrong)
    expect([more, refusal(await confirm(world, tenant, other, more))]).toEqual([
      more,
      { status, code, param },
    ]);
  expect((await sessionOf(world, tenant, other)).status).toBe(before);
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

test('people with org:billing see what was paid, admins see all, members see neither', async () => {
  const checkout = await createCheckout(world, tenant);
  const { call, admin } = world;
  const mine = await call(
    'get',
    '/v1/payments/history?status=created&provider=payment_provider_a&from_date=2026-01-01',
    { key: tenant.billing_key },
  );
  expect(mine.body).toEqual({
    sessions: [
      {
        id: checkout.payment_session_id,
        user_id: tenant.member_id,
        provider: 'payment_provider_a',
        surface: 'console',
        amount: 50,
        currency: 'USD',
        status: 'created',
        provider_order_id: checkout.provider_session_token,
        provider_capture_id: null,
        created_at: expect.any(String),
      },
    ],
    total: 1,
    has_more: false,
  });
  const none = await call('get', '/v1/payments/history?to_date=2026-01-01', {
    key: tenant.billing_key,
  });
  expect(none.body.total).toBe(0);
  expect((await call('get', '/v1/payments/history', { key: tenant.member_key })).status).toBe(403);
  const all = await call('get', `/v1/admin/payments?org_id=${tenant.org_id}`, { key: admin });
  expect(all.body.sessions).toMatchObject([
    { id: checkout.payment_session_id, org_id: tenant.org_id },
  ]);
  expect((await call('get', '/v1/admin/payments', { key: tenant.billing_key })).status).toBe(403);
});

test.each(providerNames)(
  '%s: the old names of the routes work for old integrations, bound by person and organization',
  async (provider) => {
    const { call } = world;
    await world.use(provider);
    const made = await call('post', '/v1/payments/create-order', {
      key: tenant.member_key,
      body: { amount: 50, return_url, cancel_url: return_url },
    });
    expect([made.status, made.headers.deprecation, made.headers.link]).toEqual([
      201,
      '@1795737600',
      '</v1/payments/create-checkout>; rel="successor-version"',
    ]);
    await pay({ approval_url: made.body.approve_link });
    const body = { order_id: made.body.order_id };
    const stranger = await makeBuyer(world.db);
    expect(
      (await call('post', '/v1/payments/capture-order', { key: stranger.member_key, body })).status,
    ).toBe(404);
    const taken = await call('post', '/v1/payments/capture-order', {
      key: tenant.member_key,
      body,
    });
    expect(taken.body).toEqual({
      ...body,
      status: 'completed',
      capture_id: expect.any(String),
      amount: 50,
      currency: 'USD',
      credited_amount: 50,
    });
  },
);

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
  expect(first.text).not.toContain('422');
  expect((await create({}, tenant.member_key, headers)).status).toBe(201);
});

test('a wallet that cannot hold the payment keeps it for a person, and holds up nobody', async () => {
  const { db, call, admin } = world;
  const checkout = await createCheckout(world, tenant);
  const { org_id, wallet_id } = tenant;
  const fill = `select from credit(:org_id, :wallet_id, :nanos, 'full')`;
  await many(db, fill, { org_id, wallet_id, nanos: 8_999_999_990_000_000_000n });
  await pay(checkout);
  expect((await confirm(world, tenant, checkout)).body).toMatchObject({
    status: 'captured',
    credited_amount: null,
  });
  const { body } = await call('get', `/v1/admin/payments?org_id=${org_id}`, { key: admin });
  expect(body.sessions[0].provider_message).toContain('Make room');
  const reason = 'no room';
  const refund = { payment_session_id: checkout.payment_session_id, reason };
  const back = await call('post', '/v1/admin/payments/refund', { key: admin, body: refund });
  expect(back.body).toMatchObject({ refund_status: 'succeeded', refunded_amount: 50 });
  expect(await entriesOf(checkout)).toEqual([]);
});

test('a capture of more than any wallet can hold is another amount', async () => {
  await world.use('payment_provider_b');
  const checkout = await createCheckout(world, tenant);
  const order = checkout.provider_session_token;
  await world.sandboxes.payment_provider_b.fault({ on: 'capture', order, amount: '9999999999.00' });
  await pay(checkout);
  expect((await confirm(world, tenant, checkout)).body).toMatchObject({
    status: 'failed',
    error_code: 'amount_mismatch',
  });
});

test('credentials that cannot be read are told at once, to operators in words', async () => {
  const { db, call, admin } = world;
  const before = await db('payment_providers').where({ name: 'payment_provider_a' }).first();
  const sealed_elsewhere = JSON.stringify({
    client_id: 'v1.AAAAAAAA.AAAA.AAAA',
    client_secret: 'v1.AAAAAAAA.AAAA.AAAA',
  });
  await db('payment_providers')
    .where({ name: 'payment_provider_a' })
    .update({ credentials: sealed_elsewhere });
  const started_at = Date.now();
  const refused = await create({});
  expect([refused.status, Date.now() - started_at < 5_000]).toEqual([503, true]);
  const hook = await call('post', '/v1/payments/webhooks/payment_provider_a', {
    body: '{}',
    headers: { 'paypal-transmission-id': 'x' },
  });
  expect(hook.status).toBe(503);
  const { body } = await call('get', `/v1/admin/payments?org_id=${tenant.org_id}`, { key: admin });
  expect(body.sessions[0].provider_message).toContain('SVC_SECRETS_KEY');
  await db('payment_providers')
    .where({ name: 'payment_provider_a' })
    .update({ credentials: JSON.stringify(before.credentials) });
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
