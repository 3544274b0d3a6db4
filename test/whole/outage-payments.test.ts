import { randomUUID } from 'node:crypto';
import { many, one } from '../../domain/sql';
import { type Answer, refusal, type Tenant } from '../support/api';
import { besideReference } from '../support/cpu';
import {
  capturesOf,
  openPaymentProcesses,
  type PaymentProcesses,
  stalledCount,
} from '../support/payments/processes';
import {
  type Checkout,
  confirmedAs,
  confirmOnce,
  createCheckout,
  makeBuyer,
  pay,
  sessionOf,
  wish,
} from '../support/payments/world';
import { repeated, until } from '../support/until';

// Temporal is away, or comes back with an empty store, at each step of a top-up and of a refund.

const a = 'payment_provider_a';
// A call is given up after 2 s, and takes some reads' time besides.
const REFUSED_MS = 2_500;
const RECOVERY_MS = 180_000;

let world: PaymentProcesses;

beforeAll(async () => {
  world = await openPaymentProcesses();
});
afterAll(() => world.close());

function create({ member_key: key }: Tenant, idempotency_key: string): Promise<Answer> {
  const headers = { 'idempotency-key': idempotency_key };
  return world.call('post', '/v1/payments/create-checkout', { key, body: wish, headers });
}

function refund({ payment_session_id }: Checkout): Promise<Answer> {
  const body = { payment_session_id, reason: 'The buyer asked for it' };
  return world.call('post', '/v1/admin/payments/refund', { key: world.admin, body });
}

async function silence({ provider_session_token: order }: Checkout): Promise<void> {
  await world.sandboxes[a].fault({ on: 'webhook', order, times: 0, blocked: true });
}

async function completed(tenant: Tenant): Promise<Checkout> {
  const checkout = await createCheckout(world, tenant);
  await silence(checkout);
  await pay(checkout);
  await confirmedAs('completed', world, tenant, checkout);
  return checkout;
}

async function expectAway(ask: () => Promise<Answer>): Promise<void> {
  const read = () => world.call('get', '/v1/admin/payments/config', { key: world.admin });
  const { result: answer, took_ms, reference_ms } = await besideReference(read, ask);
  expect(refusal(answer)).toMatchObject({ status: 503, code: 'unavailable' });
  expect(Number(answer.headers['retry-after'])).toBeGreaterThanOrEqual(1);
  expect(took_ms).toBeLessThan(REFUSED_MS + 10 * reference_ms);
}

async function entriesOf({ org_id }: Tenant) {
  return many<{ type: string; amount: number }>(
    world.db,
    `select type, (amount_nanos / 1e9)::float as amount from wallet_transactions where org_id = :org_id order by seq`,
    { org_id },
  );
}

const credit = { type: 'payment_credit', amount: 50 };
const debit = { type: 'payment_refund', amount: -50 };

async function reaches(tenant: Tenant, checkout: Checkout, status: string): Promise<void> {
  await until(
    async () => (await sessionOf(world, tenant, checkout)).status === status,
    RECOVERY_MS,
  );
}

test.each([
  ['refuses connections', () => world.temporal.kill(), () => world.temporal.start()],
  ['does not answer', async () => world.temporal.pause(), async () => world.temporal.resume()],
])(
  'while Temporal %s new steps are 503 in time; webhooks, reads and credits go on; afterwards all of it is done once',
  async (_, leave, comeBack) => {
    const { db, sandboxes } = world;
    const [starter, payer, confirmer, refunder] = (await Promise.all(
      Array.from({ length: 4 }, () => makeBuyer(db)),
    )) as [Tenant, Tenant, Tenant, Tenant];
    const told = await createCheckout(world, payer);
    const untold = await createCheckout(world, confirmer);
    await silence(untold);
    await pay(untold);
    const spent = await completed(refunder);

    await leave();
    const key = randomUUID();
    await Promise.all([
      expectAway(() => create(starter, key)),
      expectAway(() => confirmOnce(world, confirmer, untold)),
      expectAway(() => refund(spent)),
    ]);
    await pay(told);
    const isStored = async () =>
      (await db('payment_events').where({ payment_session_id: told.payment_session_id })).length >
      0;
    await until(isStored);
    expect((await sessionOf(world, payer, told)).status).toBe('created');
    const posted = await world.call('post', '/v1/wallets/credit', {
      key: payer.billing_key,
      body: { target_wallet_owner_type: 'organization', amount: 1 },
    });
    expect(posted.status).toBe(201);

    await comeBack();
    await reaches(payer, told, 'completed');
    await reaches(refunder, spent, 'refunded');
    await until(
      async () => (await confirmOnce(world, confirmer, untold)).status === 200,
      RECOVERY_MS,
    );
    await reaches(confirmer, untold, 'completed');
    expect(await entriesOf(payer)).toEqual([{ type: 'credit', amount: 1 }, credit]);
    expect(await entriesOf(confirmer)).toEqual([credit]);
    expect(await entriesOf(refunder)).toEqual([credit, debit]);
    const { refunds } = await sandboxes[a].order(spent.provider_session_token);
    expect(refunds).toHaveLength(1);

    const resumed = await repeated(() => create(starter, key));
    expect(resumed.status).toBe(201);
    const made = await db('payment_sessions').where({ org_id: starter.org_id });
    expect(made.map(({ id }) => id)).toEqual([resumed.body.payment_session_id]);
  },
);

test('with its store deleted, sessions and refunds at every step get their workflow again and come to their end', async () => {
  const { client, db, sandboxes, temporal } = world;
  const sandbox = sandboxes[a];
  const tenants = await Promise.all(Array.from({ length: 5 }, () => makeBuyer(db)));
  const [unmade, waiting, pending, captured, refunded] = tenants as [
    Tenant,
    Tenant,
    Tenant,
    Tenant,
    Tenant,
  ];
  // capturing: the provider has taken the money, and it is on its way.
  const slow = await createCheckout(world, pending);
  await silence(slow);
  await sandbox.fault({ on: 'capture', order: slow.provider_session_token, result: 'pending' });
  await pay(slow);
  await confirmedAs('capturing', world, pending, slow);
  // created: nobody has paid.
  const open = await createCheckout(world, waiting);
  // A refund that the provider has not carried out yet.
  const back = await completed(refunded);
  await sandbox.fault({ on: 'refund', order: back.provider_session_token, result: 'pending' });
  const asked = await repeated(() => refund(back));
  expect(asked.body).toMatchObject({ refund_status: 'pending' });
  const { id: refund_id } = await one<{ id: string }>(
    db,
    'select id from payment_refunds where payment_session_id = :id',
    { id: back.payment_session_id },
  );
  // captured: the credit is never committed.
  const taken = await createCheckout(world, captured);
  await silence(taken);
  await pay(taken);
  await world.stall(captured.org_id, 'completed');
  confirmOnce(world, captured, taken).catch(() => undefined);
  await until(async () => (await stalledCount(db)) === 1);
  // created, without an order: the provider makes none.
  await sandbox.fault({ on: 'create', answer: 'error', times: 4, work: false });
  const key = randomUUID();
  expect((await create(unmade, key)).status).toBe(503);

  await temporal.kill();
  world.forgetStore();
  await world.undoStalls();
  await temporal.start();
  const ids = [slow, open].map(({ payment_session_id }) => payment_session_id);
  await until(async () => {
    const seen = await Promise.all(
      [...ids, refund_id].map((id) =>
        client.workflow
          .getHandle(id)
          .describe()
          .catch(() => undefined),
      ),
    );
    return seen.every((one) => one?.status.name === 'RUNNING');
  }, RECOVERY_MS);
  await reaches(captured, taken, 'completed');
  expect(await entriesOf(captured)).toEqual([credit]);

  await sandbox.act(slow.provider_session_token, 'complete-pending');
  // Temporal has only just come back: the first question may still be told to repeat itself.
  await until(
    async () => (await confirmOnce(world, pending, slow)).body.status === 'completed',
    RECOVERY_MS,
  );
  await pay(open);
  await reaches(waiting, open, 'completed');
  await sandbox.act(back.provider_session_token, 'settle-refund');
  expect(await entriesOf(refunded)).toEqual([credit, debit]);
  // Its provider may refuse it once more; the key resumes it.
  await until(async () => (await create(unmade, key)).status === 201, RECOVERY_MS);
  for (const checkout of [slow, open, taken])
    expect(await capturesOf(sandbox, checkout.provider_session_token)).toBe(1);
});
