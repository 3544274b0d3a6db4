import { providerNames } from '../../../domain/payments/currencies';
import { many, one } from '../../../domain/sql';
import { refusal, type Tenant } from '../../support/api';
import {
  type Checkout,
  confirm,
  createCheckout,
  makeBuyer,
  openPaymentWorld,
  type PaymentWorld,
  pay,
  sessionOf,
} from '../../support/payments';
import { until } from '../../support/until';

// Money that goes back, over the real wires: our refunds, and what happens at the provider's own site.

let world: PaymentWorld;
let tenant: Tenant;

beforeAll(async () => {
  world = await openPaymentWorld();
});
beforeEach(async () => {
  tenant = await makeBuyer(world.db);
});
afterAll(() => world.close());

async function completed(provider: (typeof providerNames)[number]): Promise<Checkout> {
  await world.use(provider);
  const checkout = await createCheckout(world, tenant);
  await pay(checkout);
  expect((await confirm(world, tenant, checkout)).body).toMatchObject({ status: 'completed' });
  return checkout;
}

function refund({ payment_session_id }: Checkout, more: object = {}) {
  const body = { payment_session_id, reason: 'asked by the buyer', ...more };
  return world.call('post', '/v1/admin/payments/refund', { key: world.admin, body });
}

async function balance(): Promise<number> {
  const sql = 'select (balance_nanos / 1e9)::float as balance from wallets where id = :wallet_id';
  return (await one<{ balance: number }>(world.db, sql, { wallet_id: tenant.wallet_id })).balance;
}

/** How often the provider gave money back, and what it holds now. */
async function refundsAt({ provider, provider_session_token }: Checkout): Promise<unknown[]> {
  return (await world.sandboxes[provider].order(provider_session_token)).refunds;
}

async function spend(nanos: bigint): Promise<void> {
  const { org_id, wallet_id } = tenant;
  const sql = `select from credit(:org_id, :wallet_id, :nanos, 'spent')`;
  await many(world.db, sql, { org_id, wallet_id, nanos: -nanos });
}

test.each(providerNames)(
  '%s: a refund asked for twice at once is one refund, which the wallet and the session show',
  async (provider) => {
    const checkout = await completed(provider);
    const answers = await Promise.all([refund(checkout), refund(checkout), refund(checkout)]);
    const expected = {
      payment_session_id: checkout.payment_session_id,
      status: 'refunded',
      provider_refund_id: expect.any(String),
      refund_status: 'succeeded',
      refunded_amount: 50,
      currency: 'USD',
    };
    expect((await refund(checkout)).body).toEqual(expected);
    for (const { status, body } of answers) expect([status, body]).toEqual([200, expected]);
    expect(await refundsAt(checkout)).toHaveLength(1);
    expect(await balance()).toBe(0);
    const session = await sessionOf(world, tenant, checkout);
    expect(session).toMatchObject({ status: 'refunded', credited_amount: 50, refunded_amount: 50 });
    const events = await many<{ type: string }>(
      world.db,
      `select type from events where payload ->> 'payment_session_id' = :id order by id`,
      { id: checkout.payment_session_id },
    );
    expect(events.map(({ type }) => type)).toEqual(['payment.completed', 'payment.refunded']);
  },
);

test.each(providerNames)(
  '%s: a refund whose answer is lost is found by asking, and made once',
  async (provider) => {
    const checkout = await completed(provider);
    const order = checkout.provider_session_token;
    await world.sandboxes[provider].fault({ on: 'refund', order, answer: 'reset' });
    expect((await refund(checkout)).body).toMatchObject({
      ...{ status: 'refunded', refund_status: 'succeeded', refunded_amount: 50 },
    });
    expect(await refundsAt(checkout)).toHaveLength(1);
    expect(await balance()).toBe(0);
  },
);

test.each(providerNames)(
  '%s: a refund that the provider fails later gives the wallet its money back',
  async (provider) => {
    const checkout = await completed(provider);
    const sandbox = world.sandboxes[provider];
    const order = checkout.provider_session_token;
    await sandbox.fault({ on: 'refund', order, result: 'pending' });
    expect((await refund(checkout)).body).toMatchObject({
      status: 'refunded',
      refund_status: 'pending',
    });
    expect(await balance()).toBe(0);
    await sandbox.act(order, 'fail-refund');
    await until(
      async () => (await sessionOf(world, tenant, checkout)).status === 'completed',
      15_000,
    );
    expect(await balance()).toBe(50);
    expect((await sessionOf(world, tenant, checkout)).refunded_amount).toBe(0);
    expect((await refund(checkout)).body).toMatchObject({
      status: 'refunded',
      refund_status: 'succeeded',
    });
    expect(await balance()).toBe(0);
  },
);

test.each(providerNames)(
  '%s: a refund that the provider refuses at once is told, and nothing has moved',
  async (provider) => {
    const checkout = await completed(provider);
    const order = checkout.provider_session_token;
    const refused = { answer: 'error', status: 422, work: false };
    const failed = { result: 'failed' };
    const fault = {
      on: 'refund',
      order,
      ...(provider === 'payment_provider_a' ? refused : failed),
    };
    await world.sandboxes[provider].fault(fault);
    expect(refusal(await refund(checkout))).toMatchObject({ status: 409, code: 'refund_refused' });
    expect(await balance()).toBe(50);
    expect((await sessionOf(world, tenant, checkout)).status).toBe('completed');
  },
);

test('a spent top-up is refused with the spent amount, and refunded into debt where that is allowed', async () => {
  const checkout = await completed('payment_provider_b');
  await spend(12_500_000_000n);
  const refused = await refund(checkout);
  expect(refusal(refused)).toMatchObject({ status: 409, code: 'credit_spent' });
  expect(refused.body.error.spent_amount).toBe(12.5);
  expect(refused.body.error.message).toContain('12.5 USD');
  expect(await balance()).toBe(37.5);
  expect((await refund(checkout, { allow_negative: true })).body.status).toBe('refunded');
  expect(await balance()).toBe(-12.5);
});

test.each(providerNames)(
  "%s: refunds and disputes at the provider's own site take the money, into debt if need be, and a won dispute gives it back",
  async (provider) => {
    const checkout = await completed(provider);
    const sandbox = world.sandboxes[provider];
    const order = checkout.provider_session_token;
    await spend(45_000_000_000n);
    await sandbox.act(order, 'refund', { amount: '20.00' });
    await until(async () => (await balance()) === -15, 15_000);
    expect((await sessionOf(world, tenant, checkout)).status).toBe('completed');
    await sandbox.act(order, 'open-dispute', { amount: '30.00' });
    await until(async () => (await balance()) === -45, 15_000);
    expect(refusal(await refund(checkout))).toMatchObject({ status: 409, code: 'payment_state' });
    await sandbox.act(order, 'win-dispute');
    await until(async () => (await balance()) === -15, 15_000);
    expect(await sessionOf(world, tenant, checkout)).toMatchObject({
      status: 'completed',
      refunded_amount: 20,
    });
    expect((await refund(checkout, { allow_negative: true })).body).toMatchObject({
      status: 'refunded',
      refunded_amount: 30,
    });
    expect(await balance()).toBe(-45);
  },
);

test.each(providerNames)(
  "%s: our refund racing one at the provider's own site takes the money once",
  async (provider) => {
    const checkout = await completed(provider);
    const sandbox = world.sandboxes[provider];
    const order = checkout.provider_session_token;
    await Promise.all([refund(checkout), sandbox.act(order, 'refund'), refund(checkout)]);
    await until(
      async () => (await sessionOf(world, tenant, checkout)).status === 'refunded',
      15_000,
    );
    expect(await balance()).toBe(0);
    expect(await refundsAt(checkout)).toHaveLength(1);
  },
);

test('what is wrong with a refund or a decision is named, and moves nothing', async () => {
  const checkout = await createCheckout(world, tenant);
  const { payment_session_id } = checkout;
  const wrong: [object, number, string, string | null][] = [
    [{ payment_session_id: 'pay_x' }, 404, 'not_found', null],
    [{ reason: '' }, 422, 'invalid_field', 'reason'],
    [{ reason: 'x'.repeat(256) }, 422, 'invalid_field', 'reason'],
    [{ amount: 60 }, 422, 'unknown_field', 'amount'],
    [{}, 409, 'payment_state', null],
  ];
  for (const [more, status, code, param] of wrong)
    expect([more, refusal(await refund(checkout, more))]).toEqual([more, { status, code, param }]);
  const body = { payment_session_id, reason: 'mine' };
  const denied = await world.call('post', '/v1/admin/payments/refund', {
    key: tenant.billing_key,
    body,
  });
  expect(denied.status).toBe(403);
  const resolve = (action: string) =>
    world.call('post', `/v1/admin/payments/${payment_session_id}/resolve`, {
      key: world.admin,
      body: { action, reason: 'seen' },
    });
  expect(refusal(await resolve('credit'))).toMatchObject({ status: 409, code: 'payment_state' });
  expect(refusal(await resolve('keep'))).toMatchObject({ status: 422, param: 'action' });
});

test.each(['credit', 'refund', 'close'])(
  'money of another amount waits for an operator, who can %s it',
  async (action) => {
    await world.use('payment_provider_b');
    const checkout = await createCheckout(world, tenant);
    const order = checkout.provider_session_token;
    await world.sandboxes.payment_provider_b.fault({ on: 'capture', order, amount: '49.00' });
    await pay(checkout);
    const told = await confirm(world, tenant, checkout);
    expect(told.body).toMatchObject({
      status: 'failed',
      error_code: 'amount_mismatch',
      credited_amount: null,
    });
    const answer = await world.call(
      'post',
      `/v1/admin/payments/${checkout.payment_session_id}/resolve`,
      {
        key: world.admin,
        body: { action, reason: 'seen in the books' },
      },
    );
    expect(answer.status).toBe(200);
    const end = { credit: ['completed', 49, 0], refund: ['failed', 0, 1], close: ['failed', 0, 0] }[
      action
    ];
    expect([answer.body.status, await balance(), (await refundsAt(checkout)).length]).toEqual(end);
  },
);

async function mismatched(): Promise<Checkout> {
  await world.use('payment_provider_b');
  const checkout = await createCheckout(world, tenant);
  const order = checkout.provider_session_token;
  await world.sandboxes.payment_provider_b.fault({ on: 'capture', order, amount: '49.00' });
  await pay(checkout);
  expect((await confirm(world, tenant, checkout)).body.status).toBe('failed');
  return checkout;
}

function resolve({ payment_session_id }: Checkout, body: object) {
  return world.call('post', `/v1/admin/payments/${payment_session_id}/resolve`, {
    key: world.admin,
    body: { reason: 'seen in the books', ...body },
  });
}

async function resolutionOf({ payment_session_id }: Checkout): Promise<string | null> {
  const { body } = await world.call('get', `/v1/admin/payments?org_id=${tenant.org_id}`, {
    key: world.admin,
  });
  return body.sessions.find(({ id }: { id: string }) => id === payment_session_id).resolution;
}

test('a refund of a mismatch that the provider fails later waits for an operator again', async () => {
  const checkout = await mismatched();
  const sandbox = world.sandboxes.payment_provider_b;
  const order = checkout.provider_session_token;
  await sandbox.fault({ on: 'refund', order, result: 'pending' });
  expect((await resolve(checkout, { action: 'refund' })).body).toMatchObject({
    status: 'failed',
    resolution: null,
  });
  expect(refusal(await resolve(checkout, { action: 'credit' }))).toMatchObject({ status: 409 });
  await sandbox.act(order, 'settle-refund');
  await until(async () => (await resolutionOf(checkout)) === 'refunded', 15_000);
  await sandbox.act(order, 'fail-refund');
  await until(async () => (await resolutionOf(checkout)) === null, 15_000);
  expect((await resolve(checkout, { action: 'credit' })).body).toMatchObject({
    status: 'completed',
    resolution: 'credited',
  });
  expect(await balance()).toBe(49);
});

test('a refund of a mismatch whose answer is lost is decided once it is found', async () => {
  const checkout = await mismatched();
  const order = checkout.provider_session_token;
  await world.sandboxes.payment_provider_b.fault({ on: 'refund', order, answer: 'reset' });
  expect((await resolve(checkout, { action: 'refund' })).body).toMatchObject({
    resolution: 'refunded',
    captured_amount: 49,
  });
  expect(await refundsAt(checkout)).toHaveLength(1);
});

test('a decision names no amount that was not taken, and none where none is credited', async () => {
  const checkout = await mismatched();
  for (const body of [
    { action: 'credit', amount: 50 },
    { action: 'close', amount: 49 },
  ])
    expect(refusal(await resolve(checkout, body))).toMatchObject({ status: 422, param: 'amount' });
  expect((await resolve(checkout, { action: 'credit', amount: 40 })).body.credited_amount).toBe(40);
});

test('a decision that is refused with 422 leaves its Idempotency-Key free', async () => {
  await world.use('payment_provider_b');
  const checkout = await createCheckout(world, tenant);
  const order = checkout.provider_session_token;
  await world.sandboxes.payment_provider_b.fault({ on: 'capture', order, currency: 'EUR' });
  await pay(checkout);
  await confirm(world, tenant, checkout);
  const decide = (more: object) =>
    world.call('post', `/v1/admin/payments/${checkout.payment_session_id}/resolve`, {
      key: world.admin,
      body: { action: 'credit', reason: 'seen', ...more },
      headers: { 'idempotency-key': `decide ${order}` },
    });
  expect(refusal(await decide({}))).toMatchObject({ status: 422, param: 'amount' });
  expect((await decide({ amount: 33.33 })).body).toMatchObject({
    status: 'completed',
    credited_amount: 33.33,
  });
});
