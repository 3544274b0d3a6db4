import { request } from 'undici';
import { many, one } from '../../domain/sql';
import { refusal, type Tenant } from '../support/api';
import {
  type Checkout,
  confirm,
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
});
afterAll(() => world.close());

/** A completed top-up of 50, of which the provider sends no more webhooks. */
async function paid(): Promise<Checkout> {
  const checkout = await createCheckout(world, tenant);
  await silence(checkout);
  await pay(checkout);
  expect((await confirm(world, tenant, checkout)).body.status).toBe('completed');
  return checkout;
}

const sandbox = () => world.sandboxes.payment_provider_a;

function silence({ provider_session_token: order }: Checkout) {
  return sandbox().fault({ on: 'webhook', order, times: 0, blocked: true });
}

function refund({ payment_session_id }: Checkout) {
  const body = { payment_session_id, reason: 'The buyer asked for it' };
  return world.call('post', '/v1/admin/payments/refund', { key: world.admin, body });
}

async function refundOf({ payment_session_id }: Checkout) {
  return one<{ id: string; status: string; checks: number; next_check_at: Date | null }>(
    world.db,
    `select id, status, checks, next_check_at from payment_refunds where payment_session_id = :payment_session_id
     order by created_at desc limit 1`,
    { payment_session_id },
  );
}

/** News of the provider, as a webhook brings it. */
function tell({ payment_session_id }: Checkout) {
  return world.client.workflow.signalWithStart('paymentSession', {
    workflowId: payment_session_id,
    taskQueue: 'payments',
    args: [{ payment_session_id }],
    signal: 'providerEvent',
  });
}

const describe = (id: string) => world.client.workflow.getHandle(id).describe();

async function isOver(id: string): Promise<boolean> {
  return (await describe(id)).status.name === 'COMPLETED';
}

/** Lets the workflow find that the time until its next check has gone by. */
async function hurry(id: string): Promise<void> {
  await world
    .db('payment_refunds')
    .where({ id })
    .update({ next_check_at: new Date(Date.now() - 60_000) });
  // The message that would start it, had its caller died, is of no use here.
  await world.db('outbox').where({ workflow_id: id }).delete();
  await world.client.workflow.getHandle(id).terminate('started anew by the reconciler');
  await world.client.workflow.execute('reconcile', {
    workflowId: `reconcile-${id}`,
    taskQueue: 'lifecycle',
  });
}

async function readsOf({ provider_session_token: order }: Checkout): Promise<number> {
  const { requests } = (await (await request(`${sandbox().url}/sandbox/requests`)).body.json()) as {
    requests: { method: string; path: string }[];
  };
  return requests.filter(
    ({ method, path }) => method === 'GET' && path === `/v2/checkout/orders/${order}`,
  ).length;
}

test('operators read what is refunded and why, and find it by organization, kind and status', async () => {
  const checkout = await paid();
  const answer = await refund(checkout);
  expect(answer.body).toMatchObject({ status: 'refunded', refund_status: 'succeeded' });
  const { id } = await refundOf(checkout);
  await until(() => isOver(id));
  const seen = await describe(id);
  expect(await seen.staticSummary()).toMatch(
    new RegExp(
      `^50\\.00 USD refund of ${checkout.payment_session_id} for Org \\w+, pending: The buyer asked for it$`,
    ),
  );
  expect(seen.searchAttributes).toMatchObject({
    OrgId: [tenant.org_id],
    Kind: ['paymentRefund'],
    Status: ['succeeded'],
  });
});

test('a pending refund is asked for at its next check, no sooner, and the provider can still fail it', async () => {
  const checkout = await paid();
  const { provider_session_token: order } = checkout;
  await sandbox().fault({ on: 'refund', order, result: 'pending' });
  expect((await refund(checkout)).body).toMatchObject({
    status: 'completed',
    refund_status: 'pending',
  });
  const { id } = await refundOf(checkout);
  await hurry(id);
  await until(async () => (await refundOf(checkout)).checks === 2);
  expect((await refundOf(checkout)).next_check_at?.getTime()).toBeGreaterThan(Date.now() + 60_000);
  const before = await readsOf(checkout);
  expect(await restOf(world.client, id)).toBeGreaterThan(60);
  expect(await readsOf(checkout)).toBe(before);

  await sandbox().act(order, 'fail-refund');
  await hurry(id);
  await until(() => isOver(id));
  expect((await describe(id)).searchAttributes).toMatchObject({ Status: ['failed'] });
  expect(await sessionOf(world, tenant, checkout)).toMatchObject({
    status: 'completed',
    refunded_amount: 0,
  });
});

test('a refund that stays pending for longer than a week is asked for weekly, and sooner if news come', async () => {
  const checkout = await paid();
  const { provider_session_token: order } = checkout;
  await sandbox().fault({ on: 'refund', order, result: 'pending' });
  await refund(checkout);
  const { id } = await refundOf(checkout);
  await world.db('payment_refunds').where({ id }).update({ checks: 10 });
  await hurry(id);
  const week = 6 * 24 * 3_600_000;
  await until(async () => Number((await refundOf(checkout)).next_check_at) > Date.now() + week);
  const before = await readsOf(checkout);
  expect(await restOf(world.client, id)).toBeGreaterThan(60);
  expect(await readsOf(checkout)).toBe(before);

  await sandbox().act(order, 'settle-refund');
  await tell(checkout);
  await until(async () => (await sessionOf(world, tenant, checkout)).status === 'refunded');
});

test('a refund of spent credit is refused by its workflow, which ends', async () => {
  const checkout = await paid();
  const { team_id } = tenant;
  const moved = await world.call('post', '/v1/wallets/allocate', {
    key: tenant.billing_key,
    body: { team_id, amount: 20 },
  });
  expect(moved.status).toBe(200);
  const answer = await refund(checkout);
  expect(refusal(answer)).toMatchObject({ status: 409, code: 'credit_spent' });
  expect(answer.body.error.spent_amount ?? answer.body.spent_amount).toBe(20);
  const { id, status } = await refundOf(checkout);
  expect(status).toBe('failed');
  await until(() => isOver(id));
  expect((await describe(id)).searchAttributes).toMatchObject({ Status: ['failed'] });
});

test('a provider that cannot be asked how a refund stands has not refused it: nothing is given back', async () => {
  const checkout = await paid();
  const { provider_session_token: order } = checkout;
  // The look before it, at the order and its disputes, is answered. The refund is made; nothing is
  // heard of it, nor of the look that follows.
  await sandbox().fault({ on: 'read', order, times: 2 });
  await sandbox().fault({ on: 'refund', order, answer: 'reset' });
  await sandbox().fault({ on: 'read', order, answer: 'reset' });
  expect((await refund(checkout)).body).toMatchObject({ refund_status: 'pending' });
  expect((await sandbox().order(order)).refunds).toHaveLength(1);
  const { id } = await refundOf(checkout);
  const unreadable = { answer: 'error', status: 422, work: false, times: 1 };
  await sandbox().fault({ on: 'read', order, ...unreadable });
  await hurry(id);
  await until(async () => (await refundOf(checkout)).checks === 2);
  expect(await refundOf(checkout)).toMatchObject({ status: 'pending' });
  expect(await sessionOf(world, tenant, checkout)).toMatchObject({ refunded_amount: 50 });
  await hurry(id);
  await until(() => isOver(id));
  expect(await sessionOf(world, tenant, checkout)).toMatchObject({
    status: 'refunded',
    refunded_amount: 50,
  });
  expect((await sandbox().order(order)).refunds).toHaveLength(1);
});

test('a provider that does not know an order any more takes back no refund that it told of', async () => {
  const checkout = await paid();
  const { provider_session_token: order, payment_session_id } = checkout;
  await sandbox().act(order, 'refund', { amount: '20.00' });
  await (await tell(checkout)).result();
  expect(await sessionOf(world, tenant, checkout)).toMatchObject({ refunded_amount: 20 });
  // Another account's credentials, say: there is no such order.
  await world
    .db('payment_sessions')
    .where({ id: payment_session_id })
    .update({ provider_order_id: `${order}X` });
  await (await tell(checkout)).result();
  expect(await sessionOf(world, tenant, checkout)).toMatchObject({
    status: 'completed',
    refunded_amount: 20,
  });
  await world
    .db('payment_sessions')
    .where({ id: payment_session_id })
    .update({ provider_order_id: order });
});

test('news of a refund at the provider, which then does not answer, is looked into again', async () => {
  const checkout = await paid();
  const { provider_session_token: order, payment_session_id: id } = checkout;
  await sandbox().act(order, 'refund', { amount: '20.00' });
  await sandbox().fault({ on: 'read', order, answer: 'reset' });
  await (await tell(checkout)).result();
  const unseen = await sessionOf(world, tenant, checkout);
  expect(unseen).toMatchObject({ status: 'completed', refunded_amount: 0, error_code: null });
  const soon = `ask_again_at = ask_again_at - interval '2 minutes'`;
  await many(world.db, `update payment_sessions set ${soon} where id = :id`, { id });
  await world.client.workflow.execute('reconcile', {
    workflowId: `reconcile-${id}`,
    taskQueue: 'lifecycle',
  });
  await until(async () => (await sessionOf(world, tenant, checkout)).refunded_amount === 20);
  const [row] = await world.db('payment_sessions').where({ id });
  // Known again: asked on the long way, not soon.
  expect(row.next_check_at.getTime()).toBeGreaterThan(Date.now() + 23 * 3_600_000);
});

/** As another account of ours would answer: it knows nothing of the order, or of the capture. */
function forget({ payment_session_id: id }: Checkout, ...names: string[]): Promise<unknown> {
  const unknown = Object.fromEntries(names.map((name) => [name, `NEVER${id}`]));
  return world.db('payment_sessions').where({ id }).update(unknown);
}

test.each(['payment_provider_a', 'payment_provider_b'] as const)(
  'a payment whose order %s does not know any more is refunded by its capture',
  async (provider) => {
    await world.use(provider);
    const checkout = await paid();
    const { provider_session_token: order } = checkout;
    await forget(checkout, 'provider_order_id');
    expect((await refund(checkout)).body).toMatchObject({ refund_status: 'succeeded' });
    expect((await world.sandboxes[provider].order(order)).refunds).toHaveLength(1);
    expect(await sessionOf(world, tenant, checkout)).toMatchObject({ refunded_amount: 50 });
    await until(async () => isOver((await refundOf(checkout)).id));
    await world.use('payment_provider_a');
  },
);

test('a refund that no account of ours was asked for, and that this one cannot make, gives the wallet its money back', async () => {
  const checkout = await paid();
  await forget(checkout, 'provider_order_id', 'provider_capture_id');
  expect(refusal(await refund(checkout))).toMatchObject({ status: 409, code: 'refund_refused' });
  expect(await sessionOf(world, tenant, checkout)).toMatchObject({
    status: 'completed',
    refunded_amount: 0,
  });
});

test('a refund that another account may have made stays pending while this one knows nothing of it', async () => {
  const checkout = await paid();
  const { provider_session_token: order } = checkout;
  await sandbox().fault({ on: 'refund', order, answer: 'reset' });
  await sandbox().fault({ on: 'read', order, times: 2 });
  await sandbox().fault({ on: 'read', order, answer: 'reset' });
  await refund(checkout);
  await forget(checkout, 'provider_order_id', 'provider_capture_id');
  const { id } = await refundOf(checkout);
  await hurry(id);
  await until(async () => (await refundOf(checkout)).checks === 2);
  expect(await refundOf(checkout)).toMatchObject({ status: 'pending' });
  expect(await sessionOf(world, tenant, checkout)).toMatchObject({ refunded_amount: 50 });
});
