import { request } from 'undici';
import { providerNames } from '../../domain/payments/currencies';
import { many, one } from '../../domain/sql';
import type { Tenant } from '../support/api';
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
} from '../support/payments/world';
import { until } from '../support/until';
import { restOf } from '../support/worker';

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

type Id = Pick<Checkout, 'payment_session_id'>;

const handleOf = ({ payment_session_id }: Id) =>
  world.client.workflow.getHandle(payment_session_id);

const describe = (made: Id) => handleOf(made).describe();

async function isOver(made: Id): Promise<boolean> {
  return (await describe(made)).status.name === 'COMPLETED';
}

/** News of the provider, as a webhook or the reconciler brings it. */
function tell({ payment_session_id }: Id) {
  return world.client.workflow.signalWithStart('paymentSession', {
    workflowId: payment_session_id,
    taskQueue: 'payments',
    args: [{ payment_session_id }],
    signal: 'providerEvent',
  });
}

function change({ payment_session_id: id }: Id, columns: object) {
  return world.db('payment_sessions').where({ id }).update(columns);
}

/** The number of times that provider A was asked for an order. */
async function readsOf({ provider_session_token: order }: Checkout): Promise<number> {
  const { url } = world.sandboxes.payment_provider_a;
  const { requests } = (await (await request(`${url}/sandbox/requests`)).body.json()) as {
    requests: { method: string; path: string }[];
  };
  return requests.filter(
    ({ method, path }) => method === 'GET' && path === `/v2/checkout/orders/${order}`,
  ).length;
}

async function silence({ provider_session_token: order }: Checkout): Promise<void> {
  await world.sandboxes.payment_provider_a.fault({ on: 'webhook', order, times: 0, blocked: true });
}

test('operators read whose top-up it is and how it stands, and find it by organization, kind and status', async () => {
  const checkout = await createCheckout(world, tenant);
  const seen = await describe(checkout);
  expect(await seen.staticSummary()).toMatch(
    /^50\.00 USD top-up of Org \w+ by Member \w+, waiting for the buyer$/,
  );
  expect(seen.searchAttributes).toMatchObject({
    OrgId: [tenant.org_id],
    Kind: ['paymentSession'],
    Status: ['running'],
  });
  await pay(checkout);
  await confirm(world, tenant, checkout);
  await until(() => isOver(checkout));
  expect((await describe(checkout)).searchAttributes).toMatchObject({ Status: ['completed'] });
  expect(await handleOf(checkout).result()).toBe('completed');
});

test('a long name of an organization does not keep its checkout from being made', async () => {
  await world
    .db('organizations')
    .where({ id: tenant.org_id })
    .update({ name: '支付'.repeat(100) });
  const checkout = await createCheckout(world, tenant);
  expect(await (await describe(checkout)).staticSummary()).toContain('50.00 USD top-up of 支付');
});

test('at its deadline a session expires by itself, once, here and at the provider', async () => {
  await world.use('payment_provider_b');
  const checkout = await createCheckout(world, tenant);
  await change(checkout, { expires_at: new Date(Date.now() + 1_000) });
  await tell(checkout);
  await until(() => isOver(checkout));
  const expired = await sessionOf(world, tenant, checkout);
  expect(expired).toMatchObject({ status: 'expired', error_code: 'session_expired' });
  // The provider's own news of it may have opened another run, which ends likewise.
  const statusOf = async () => (await describe(checkout)).searchAttributes.Status?.[0];
  await until(async () => (await statusOf()) === 'expired');
  const order = await world.sandboxes.payment_provider_b.order(checkout.provider_session_token);
  expect(order.status).toBe('expired');

  expect(await (await tell(checkout)).result()).toBe('expired');
  expect(await sessionOf(world, tenant, checkout)).toEqual(expired);
});

test('a workflow for a session with an end is over at once, and asks nobody', async () => {
  const checkout = await createCheckout(world, tenant);
  await silence(checkout);
  await pay(checkout);
  await confirm(world, tenant, checkout);
  await until(() => isOver(checkout));
  const before = await readsOf(checkout);
  const { payment_session_id } = checkout;
  const again = await world.client.workflow.execute('paymentSession', {
    workflowId: payment_session_id,
    taskQueue: 'payments',
    args: [{ payment_session_id }],
  });
  expect([again, await readsOf(checkout)]).toEqual(['completed', before]);
});

test('news after the end opens the workflow again for one look, and changes nothing where nothing has changed', async () => {
  const checkout = await createCheckout(world, tenant);
  await silence(checkout);
  await pay(checkout);
  await confirm(world, tenant, checkout);
  await until(() => isOver(checkout));
  const before = await readsOf(checkout);
  expect(await (await tell(checkout)).result()).toBe('completed');
  expect(await readsOf(checkout)).toBe(before + 1);
  expect(await sessionOf(world, tenant, checkout)).toMatchObject({
    status: 'completed',
    credited_amount: 50,
    refunded_amount: 0,
  });
});

test('all who confirm at one moment wait for one look at the provider', async () => {
  const checkout = await createCheckout(world, tenant);
  await silence(checkout);
  await world.sandboxes.payment_provider_a.fault({
    on: 'read',
    order: checkout.provider_session_token,
    delay_ms: 800,
  });
  const before = await readsOf(checkout);
  const answering = Promise.all(Array.from({ length: 6 }, () => confirm(world, tenant, checkout)));
  // By the row they come at one moment, also if the machine brings the last one two seconds later.
  const asked_at = world.db.raw("clock_timestamp() + interval '10 minutes'");
  const row = world.db('payment_sessions').where({ id: checkout.payment_session_id });
  await until(async () => (await row.clone().whereNotNull('asked_at').update({ asked_at })) > 0);
  const answers = await answering;
  expect(answers.map(({ status, body }) => [status, body.status])).toEqual(
    Array(6).fill([200, 'created']),
  );
  expect(await readsOf(checkout)).toBe(before + 1);
});

test.each(providerNames)(
  '%s: a refused means of payment is told to who confirms, and another one pays',
  async (provider) => {
    await world.use(provider);
    const checkout = await createCheckout(world, tenant);
    await world.sandboxes[provider].act(checkout.provider_session_token, 'decline');
    for (let time = 0; time < 2; time += 1)
      expect((await confirmAnew(world, tenant, checkout)).body).toMatchObject({
        status: 'created',
        error_code: 'declined',
        credited_amount: null,
      });
    await pay(checkout);
    expect((await confirmAnew(world, tenant, checkout)).body).toMatchObject({
      status: 'completed',
      error_code: null,
      credited_amount: 50,
    });
  },
);

test('a payment that stays pending for longer than a week is asked for weekly, and sooner if news come', async () => {
  const sandbox = world.sandboxes.payment_provider_a;
  const checkout = await createCheckout(world, tenant);
  const { provider_session_token: order } = checkout;
  await silence(checkout);
  await sandbox.fault({ on: 'capture', order, result: 'pending' });
  await pay(checkout);
  expect((await confirm(world, tenant, checkout)).body.status).toBe('capturing');
  await change(checkout, { checks: 10, next_check_at: new Date() });
  await tell(checkout);
  await until(async () => {
    const { payment_session_id: id } = checkout;
    const [row] = await world.db('payment_sessions').where({ id });
    return row.next_check_at > Date.now() + 6 * 24 * 3_600_000;
  });
  const before = await readsOf(checkout);
  expect(await restOf(world.client, checkout.payment_session_id)).toBeGreaterThan(60);
  expect(await readsOf(checkout)).toBe(before);

  await sandbox.act(order, 'complete-pending');
  await tell(checkout);
  await until(() => isOver(checkout));
  expect((await sessionOf(world, tenant, checkout)).status).toBe('completed');
});

test('a session that ended without an order is not taken up again and again', async () => {
  const sandbox = world.sandboxes.payment_provider_a;
  await sandbox.fault({ on: 'create', answer: 'error', status: 422, work: false });
  const body = {
    amount: 50,
    target_wallet_owner_type: 'organization',
    surface: 'console',
    return_url: 'http://127.0.0.1:3000/return',
    cancel_url: 'http://127.0.0.1:3000/cancel',
  };
  const { member_key: key, org_id } = tenant;
  expect((await world.call('post', '/v1/payments/create-checkout', { key, body })).status).toBe(
    502,
  );
  const [row] = await world.db('payment_sessions').where({ org_id });
  await many(
    world.db,
    `update payment_sessions set next_check_at = clock_timestamp() - interval '1 minute'
     where id = :id and next_check_at is not null`,
    { id: row.id },
  );
  await world.client.workflow.execute('reconcile', {
    workflowId: `reconcile-${row.id}`,
    taskQueue: 'lifecycle',
  });
  await until(async () => (await isOver({ payment_session_id: row.id })) === true);
  await until(async () => {
    const [after] = await world.db('payment_sessions').where({ id: row.id });
    return after.next_check_at === null;
  });
});

test('a session whose start was lost before its order was made is taken up by the reconciler', async () => {
  const sandbox = world.sandboxes.payment_provider_a;
  const checkout = await createCheckout(world, tenant);
  const { payment_session_id: id } = checkout;
  await handleOf(checkout).terminate('as an operator may');
  // As it was before its provider had answered.
  await many(
    world.db,
    `update payment_sessions set provider_order_id = null, approval_url = null, provider_calls = 0,
       next_check_at = case when next_check_at is null then null else clock_timestamp() - interval '1 minute' end
     where id = :id`,
    { id },
  );
  await world.client.workflow.execute('reconcile', {
    workflowId: `reconcile-${id}`,
    taskQueue: 'lifecycle',
  });
  await until(async () => {
    const { provider_order_id } = await sessionOf(world, tenant, checkout);
    return provider_order_id !== null;
  });
  expect((await sandbox.order(id)).status).toBe('open');
});

test('a new session is asked for by the reconciler, should its workflow never come to life', async () => {
  const checkout = await createCheckout(world, tenant);
  const made = await one<{ is_watched: boolean }>(
    world.db,
    `insert into payment_sessions (org_id, created_by, provider, surface, amount_nanos, currency, target_wallet_owner_type,
       wallet_id, return_url, cancel_url)
     select org_id, created_by, provider, surface, amount_nanos, currency, target_wallet_owner_type, wallet_id, return_url,
       cancel_url from payment_sessions where id = :id
     returning next_check_at is not null as is_watched`,
    { id: checkout.payment_session_id },
  );
  expect(made).toEqual({ is_watched: true });
});
