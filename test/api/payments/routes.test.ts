import { providerNames } from '../../../domain/payments/currencies';
import { refusal, type Tenant } from '../../support/api';
import { makeKey } from '../../support/keys';
import {
  confirm,
  createCheckout,
  makeBuyer,
  openPaymentWorld,
  type PaymentWorld,
  pay,
  return_url,
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

test('a fresh key cannot see, confirm or cancel the session of another person or organization; who may bill sees it', async () => {
  const checkout = await createCheckout(world, tenant);
  const stranger = await makeBuyer(world.db);
  const keys = [stranger.member_key, stranger.billing_key, tenant.billing_key];
  keys.push(await makeKey(world.db, tenant.org_id));
  const { payment_session_id: id } = checkout;
  for (const key of keys) {
    const seen = await world.call('get', `/v1/payments/sessions/${id}`, { key });
    const confirmed = await confirm(world, { member_key: key }, checkout);
    const canceled = await world.call('post', `/v1/payments/sessions/${id}/cancel`, {
      key,
      body: {},
    });
    const status = key === tenant.billing_key ? 200 : 404;
    expect([seen.status, confirmed.status, canceled.status]).toEqual([status, 404, 404]);
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
        target_wallet_owner_type: 'organization',
        target_wallet_owner_id: null,
        wallet_id: tenant.wallet_id,
        credited_amount: 0,
        refunded_amount: 0,
        refund_status: null,
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

test('an id of a provider may have 255 characters', async () => {
  const checkout = await createCheckout(world, tenant);
  const { payment_session_id: id } = checkout;
  const order_id = `cs_live_${'a'.repeat(247)}`;
  await world.db('payment_sessions').where({ id }).update({ provider_order_id: order_id });
  const longer = await confirm(world, tenant, checkout, { provider_session_token: `${order_id}a` });
  expect(refusal(longer)).toMatchObject({ status: 422, param: 'provider_session_token' });
  const asked = await confirm(world, tenant, checkout, { provider_session_token: order_id });
  expect(asked.status).toBe(200);
  const taken = await world.call('post', '/v1/payments/capture-order', {
    key: tenant.member_key,
    body: { order_id },
  });
  expect(taken.status).toBe(200);
});

test('credentials that cannot be read are told at once, to operators in words', async () => {
  const { db, call, admin } = world;
  const timed = async () => {
    const started_at = performance.now();
    const { status } = await create({});
    return { status, took_ms: performance.now() - started_at };
  };
  const usual = await timed();
  const before = await db('payment_providers').where({ name: 'payment_provider_a' }).first();
  const sealed_elsewhere = JSON.stringify({
    client_id: 'v1.AAAAAAAA.AAAA.AAAA',
    client_secret: 'v1.AAAAAAAA.AAAA.AAAA',
  });
  await db('payment_providers')
    .where({ name: 'payment_provider_a' })
    .update({ credentials: sealed_elsewhere });
  const refused = await timed();
  expect(refused.status).toBe(503);
  expect(refused.took_ms).toBeLessThan(Math.max(9_000, 5 * usual.took_ms));
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
