import type { ProviderName } from '../../domain/payments/currencies';
import { many, maybe, one } from '../../domain/sql';
import type { Answer, Tenant } from '../support/api';
import {
  capturesOf,
  type Moment,
  openPaymentProcesses,
  type PaymentProcesses,
  stalledCount,
  unanswered,
} from '../support/payments/processes';
import {
  type Checkout,
  confirmedAs,
  confirmOnce,
  createCheckout,
  makeBuyer,
  pay,
  type Sandbox,
  wish,
} from '../support/payments/world';
import { repeated, until } from '../support/until';

// The worker, or the API, is killed with SIGKILL between each two steps of a top-up and of a
// refund. Each payment is brought to its place by a provider that answers late, or by a write that
// is never committed; then one kill meets them all.

const RECOVERY_MS = 180_000;

let world: PaymentProcesses;

beforeAll(async () => {
  world = await openPaymentProcesses();
});
afterAll(() => world.close());

/** A payment of one tenant, on its way to the step where a kill meets it. */
interface Payment {
  words: string;
  provider: ProviderName;
  tenant: Tenant;
  /** Absent if the checkout itself is under way. */
  checkout?: Checkout;
  kind: 'top-up' | 'refund';
}

interface Place {
  words: string;
  provider: ProviderName;
  /** The request that is under way as the kill comes. */
  call: 'create' | 'confirm' | 'refund';
  /** The provider works on this call, and answers later than the kill. */
  late?: 'create' | 'read' | 'capture' | 'refund';
  late_ms?: number;
  /** This write is under way, and lost. */
  stalled?: Moment;
}

const a = 'payment_provider_a';
const b = 'payment_provider_b';

// Each kill meets no more lost writes than a worker has database connections to spare.
const first: Place[] = [
  { words: 'the checkout is being made', provider: a, call: 'create', late: 'create' },
  { words: 'the checkout is being made', provider: b, call: 'create', late: 'create' },
  { words: 'the provider is being asked', provider: a, call: 'confirm', late: 'read' },
  { words: 'the provider is being asked', provider: b, call: 'confirm', late: 'read' },
  { words: 'the money is being taken', provider: a, call: 'confirm', late: 'capture' },
  { words: 'the money is being sent back', provider: a, call: 'refund', late: 'refund' },
  { words: 'the money is being sent back', provider: b, call: 'refund', late: 'refund' },
  { words: 'the checkout is made', provider: b, call: 'create', stalled: 'opened' },
  { words: 'the money is taken', provider: b, call: 'confirm', stalled: 'captured' },
  { words: 'the wallet is debited', provider: a, call: 'refund', stalled: 'debited' },
  { words: 'the refund is accepted', provider: b, call: 'refund', stalled: 'answered' },
];
const second: Place[] = [
  { words: 'the checkout is made', provider: a, call: 'create', stalled: 'opened' },
  { words: 'the payment is to be taken', provider: a, call: 'confirm', stalled: 'capturing' },
  { words: 'the money is taken', provider: a, call: 'confirm', stalled: 'captured' },
  { words: 'the credit is posted', provider: b, call: 'confirm', stalled: 'completed' },
];

function create(member_key: string): Promise<Answer> {
  const headers = { 'idempotency-key': 'once' };
  return world.call('post', '/v1/payments/create-checkout', {
    key: member_key,
    body: wish,
    headers,
  });
}

function refund({ payment_session_id }: Checkout): Promise<Answer> {
  const body = { payment_session_id, reason: 'The buyer asked for it' };
  return world.call('post', '/v1/admin/payments/refund', { key: world.admin, body });
}

/** A checkout that is paid at its provider, which sends no webhook. */
async function paidInSilence(tenant: Tenant, provider: ProviderName): Promise<Checkout> {
  const checkout = await createCheckout(world, tenant);
  const order = checkout.provider_session_token;
  await world.sandboxes[provider].fault({ on: 'webhook', order, times: 0, blocked: true });
  await pay(checkout);
  return checkout;
}

/** Brings a payment to its place, and leaves it there. */
async function reach({
  words,
  provider,
  call,
  late,
  late_ms = 20_000,
  stalled,
}: Place): Promise<Payment> {
  const { db, sandboxes } = world;
  const sandbox = sandboxes[provider];
  const tenant = await makeBuyer(db);
  await world.use(provider);
  const payment: Payment = {
    words: `${provider}: ${words}`,
    provider,
    tenant,
    kind: call === 'refund' ? 'refund' : 'top-up',
  };
  if (call !== 'create') payment.checkout = await paidInSilence(tenant, provider);
  if (call === 'refund') {
    await confirmedAs('completed', world, tenant, payment.checkout as Checkout);
  }
  const stalls_before = await stalledCount(db);
  if (stalled) await world.stall(tenant.org_id, stalled);
  const order = payment.checkout?.provider_session_token;
  if (late) await sandbox.fault({ on: late, delay_ms: late_ms, ...(order && { order }) });
  const asked =
    call === 'create'
      ? create(tenant.member_key)
      : call === 'confirm'
        ? confirmOnce(world, tenant, payment.checkout as Checkout)
        : refund(payment.checkout as Checkout);
  // The client may get no answer: the kill comes first.
  asked.catch(() => undefined);
  if (late) await until(() => isAsked(sandbox, payment));
  else await until(async () => (await stalledCount(db)) > stalls_before);
  return payment;
}

/** True while the provider works on a call of this payment. */
async function isAsked(sandbox: Sandbox, { checkout, tenant, kind }: Payment): Promise<boolean> {
  const { org_id } = tenant;
  const table = kind === 'refund' ? 'payment_refunds' : 'payment_sessions';
  const row = await world.db(table).where({ org_id }).first();
  const names = [row?.id, kind === 'top-up' && checkout?.provider_session_token].filter(Boolean);
  return (await unanswered(sandbox)).some((line) => names.some((name) => line.includes(name)));
}

async function killed(places: readonly Place[]): Promise<Payment[]> {
  const payments: Payment[] = [];
  for (const place of places) payments.push(await reach(place));
  await world.worker.kill();
  await world.undoStalls();
  await world.worker.start();
  return payments;
}

/** The buyer repeats the requests that had no answer, and pays. */
async function resume({ provider, tenant }: Payment): Promise<Checkout> {
  let answer = await create(tenant.member_key);
  await until(async () => {
    if (answer.status !== 201) answer = await create(tenant.member_key);
    return answer.status === 201;
  }, RECOVERY_MS);
  const { id, provider_order_id } = await one<{ id: string; provider_order_id: string }>(
    world.db,
    'select id, provider_order_id from payment_sessions where org_id = :org_id',
    { org_id: tenant.org_id },
  );
  expect(answer.body.payment_session_id).toBe(id);
  const checkout = { ...answer.body, provider_session_token: provider_order_id };
  expect(checkout.provider).toBe(provider);
  await pay(checkout);
  return checkout;
}

async function expectWhole(payment: Payment): Promise<void> {
  const { db, sandboxes } = world;
  const { words, provider, tenant, kind } = payment;
  const checkout = payment.checkout ?? (await resume(payment));
  const { payment_session_id: id, provider_session_token: order } = checkout;
  const status = kind === 'refund' ? 'refunded' : 'completed';
  await until(async () => {
    const row = await maybe(
      db,
      'select 1 from payment_sessions where id = :id and status = :status',
      {
        id,
        status,
      },
    );
    return row !== undefined;
  }, RECOVERY_MS).catch(async () => {
    expect({ words, row: await db('payment_sessions').where({ id }).first() }).toEqual(status);
  });
  const entries = await many<{ type: string; amount: number }>(
    db,
    `select type, (amount_nanos / 1e9)::float as amount from wallet_transactions where org_id = :org_id order by seq`,
    { org_id: tenant.org_id },
  );
  const credit = { type: 'payment_credit', amount: 50 };
  const debit = { type: 'payment_refund', amount: -50 };
  expect([words, entries]).toEqual([words, kind === 'refund' ? [credit, debit] : [credit]]);
  expect([words, await capturesOf(sandboxes[provider], order)]).toEqual([words, 1]);
  if (kind !== 'refund') return;
  const { refunds } = await sandboxes[provider].order(order);
  expect([words, refunds]).toEqual([words, [expect.objectContaining({ status: 'completed' })]]);
  const again = await repeated(() => refund(checkout));
  expect(again.body).toMatchObject({ refund_status: 'succeeded' });
}

test.each([
  ['while a provider works on its call, or its answer is not recorded', first],
  ['before what was done at the other provider, or the credit, is recorded', second],
])(
  'the worker killed %s: each payment is taken, credited and refunded at most once, and ends right',
  async (_, places) => {
    const payments = await killed(places);
    await Promise.all(payments.map(expectWhole));
  },
);

test('the API killed with checkouts, confirms, webhooks and refunds under way: what was asked for is done, once, and can be asked for again', async () => {
  const { api, db, sandboxes, temporal } = world;
  const webhook = await tellingNobodyYet();
  const places = first.filter(({ late }) => late);
  const payments: Payment[] = [];
  for (const place of places) payments.push(await reach({ ...place, late_ms: 4_000 }));
  await sandboxes[a].fault({ on: 'verify', delay_ms: 20_000 });
  await pay(webhook.checkout as Checkout);
  await until(async () => (await unanswered(sandboxes[a])).some((line) => /verify/.test(line)));
  // Rows are made, and Temporal does not know of them.
  const [unsent_checkout, unsent_refund] = await unsent();
  await api.kill();
  temporal.resume();
  await api.start();
  await Promise.all([...payments, webhook, unsent_checkout, unsent_refund].map(expectWhole));
  expect(await db('outbox').whereNotNull('parked_at')).toEqual([]);
});

/** A checkout whose provider sends a webhook of its payment. */
async function tellingNobodyYet(): Promise<Payment> {
  const tenant = await makeBuyer(world.db);
  await world.use(a);
  const checkout = await createCheckout(world, tenant);
  return { words: 'a webhook is being verified', provider: a, tenant, checkout, kind: 'top-up' };
}

/** A session and a refund of which Temporal, which does not answer, knows nothing. */
async function unsent(): Promise<[Payment, Payment]> {
  const { db, temporal } = world;
  const [buyer, payer] = [await makeBuyer(db), await makeBuyer(db)];
  await world.use(a);
  const checkout = await paidInSilence(payer, a);
  await confirmedAs('completed', world, payer, checkout);
  temporal.pause();
  create(buyer.member_key).catch(() => undefined);
  refund(checkout).catch(() => undefined);
  const isMade = async (table: string, { org_id }: Tenant) =>
    (await db(table).where({ org_id }).first()) !== undefined;
  await until(() => isMade('payment_sessions', buyer));
  await until(() => isMade('payment_refunds', payer));
  return [
    { words: 'a session is unsent', provider: a, tenant: buyer, kind: 'top-up' },
    { words: 'a refund is unsent', provider: a, tenant: payer, checkout, kind: 'refund' },
  ];
}
