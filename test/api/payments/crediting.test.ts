import { providerNames } from '../../../domain/payments/currencies';
import { many } from '../../../domain/sql';
import { refusal, type Tenant } from '../../support/api';
import {
  type Checkout,
  confirm,
  confirmAnew,
  createCheckout,
  makeBuyer,
  openPaymentWorld,
  type PaymentWorld,
  pay,
  sessionOf,
} from '../../support/payments/world';
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
    await until(async () => (await sessionOf(world, tenant, checkout)).status === 'completed');
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
    await until(async () => (await sessionOf(world, tenant, checkout)).status === 'completed');
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
  await until(async () => (await sessionOf(world, tenant, checkout)).status === 'completed');
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
  expect((await confirmAnew(world, tenant, checkout)).body).toMatchObject({
    status: 'created',
    error_code: 'declined',
  });
  await pay(checkout);
  expect((await confirmAnew(world, tenant, checkout)).body).toMatchObject({
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
