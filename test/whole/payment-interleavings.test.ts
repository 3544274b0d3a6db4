import { createPaymentSteps } from '../../activities/payments';
import { type ProviderName, providerNames } from '../../domain/payments/currencies';
import * as operators from '../../domain/payments/operators';
import * as payments from '../../domain/payments/sessions';
import { many } from '../../domain/sql';
import { createProviderOf } from '../../payment-providers/configured';
import { payment_hosts, secrets, type Tenant } from '../support/api';
import { diceOf, pick, play, storyOf } from '../support/payments/stories';
import { makeBuyer, openPaymentWorld, type PaymentWorld, pay } from '../support/payments/world';

// Whatever buyer, webhook, clock, operator, dispute and outage do, in any order and at once: in the
// end the provider's books and ours are equal. INTERLEAVINGS is how many stories are told (npm run
// interleavings: 500), INTERLEAVINGS_SEED the seed of the first one, which a failure names.

const COUNT = Number(process.env.INTERLEAVINGS ?? 50);
const SEED = Number(process.env.INTERLEAVINGS_SEED ?? 20_261_129);
const AT_ONCE = 6;

let world: PaymentWorld;
let tenant: Tenant;
let steps: ReturnType<typeof createPaymentSteps>;

beforeAll(async () => {
  world = await openPaymentWorld();
  tenant = await makeBuyer(world.db);
  steps = createPaymentSteps(world.db, createProviderOf(world.db, secrets, payment_hosts));
  for (const sandbox of Object.values(world.sandboxes))
    await sandbox.fault({ on: 'webhook', times: 0, blocked: true });
});
afterAll(() => world.close());

interface Books {
  taken: number;
  /** Refunds made or on their way, and what disputes withhold beyond those that they name. */
  back: number;
  /** The same without refunds that are on their way. */
  done: number;
}

interface Order {
  capture: { status: string; amount: number } | null;
  refunds: { id: string; status: string; amount: number }[];
  disputes: { status: string; amount: number; is_inquiry: boolean; refund_ids?: string[] }[];
}

/** The provider's own books of an order, in cents. */
function booksOf({ capture, refunds, disputes }: Order): Books {
  const taken = capture?.status === 'completed' ? capture.amount : 0;
  const gone = (statuses: readonly string[]) => {
    const made = refunds.filter(({ status }) => statuses.includes(status));
    const named = ({ refund_ids = [] }: Order['disputes'][number]) =>
      sum(made.filter(({ id }) => refund_ids.includes(id)));
    const withheld = disputes
      .filter(({ status, is_inquiry }) => status !== 'won' && !is_inquiry)
      .map((one) => ({ amount: Math.max(0, one.amount - named(one)) }));
    return Math.min(taken, sum(made) + sum(withheld));
  };
  return { taken, back: gone(['completed', 'pending']), done: gone(['completed']) };
}

function sum(all: readonly { amount: number }[]): number {
  return all.reduce((total, { amount }) => total + amount, 0);
}

/** What our ledger holds of a payment, in cents. */
async function heldOf(id: string): Promise<number> {
  const [row] = await many<{ cents: number }>(
    world.db,
    `select coalesce(sum(amount_nanos) / 10000000, 0)::float as cents from wallet_transactions where payment_session_id = :id`,
    { id },
  );
  return row?.cents ?? 0;
}

async function tellStory(seed: number): Promise<void> {
  const dice = diceOf(seed);
  const provider = pick(dice, providerNames);
  const story = storyOf(dice);
  const told = { seed, provider, story: story.map((moment) => moment.join(' + ')) };
  const { id, order } = await play(world, tenant, { provider, story, dice }).catch((error) => {
    throw new Error(`${JSON.stringify(told)}: ${error.stack}`);
  });
  const { taken, back, done } = booksOf(await world.sandboxes[provider].order(order));
  const session = await operators.getForAdmin(world.db, id);
  const isAsAsked = taken === 5_000;
  const isCredited = isAsAsked || (taken > 0 && session.resolution === 'credited');
  const ended = /^(canceled|expired|failed)$/;
  const status = isCredited
    ? done >= taken
      ? 'refunded'
      : 'completed'
    : expect.stringMatching(ended);
  const held = isCredited ? taken - back : 0;
  const ours = { held: await heldOf(id), status: session.status };
  expect({ ...told, ...ours }).toEqual({ ...told, held, status });
}

test(
  `in ${COUNT} interleavings from seed ${SEED} the provider's books and ours end equal`,
  async () => {
    const left = Array.from({ length: COUNT }, (_, index) => SEED + index);
    const teller = async () => {
      for (let seed = left.shift(); seed !== undefined; seed = left.shift()) await tellStory(seed);
    };
    await Promise.all(Array.from({ length: AT_ONCE }, teller));
  },
  600_000 + COUNT * 20_000,
);

async function open(provider: ProviderName): Promise<{ id: string; order: string }> {
  const { org_id, member_id } = tenant;
  const id = await payments.create(world.db, {
    buyer: { org_id, user_id: member_id, created_by: member_id },
    provider,
    surface: 'console',
    amount_nanos: 50_000_000_000n,
    currency: 'USD',
    owner: { owner_type: 'organization' },
    return_url: 'http://127.0.0.1:3000/return',
    cancel_url: 'http://127.0.0.1:3000/cancel',
  });
  // Nobody sends its workflow: the steps are run by hand here.
  await many(world.db, 'delete from outbox where workflow_id = :id', { id });
  await steps.openCheckout({ payment_session_id: id });
  const { provider_order_id } = await payments.approvalOf(world.db, id);
  return { id, order: provider_order_id as string };
}

async function look(reason: 'confirm' | 'news' | 'clock', payment_session_id: string) {
  const ref = { payment_session_id };
  const { status } = await steps.collectPayment({ ...ref, reason });
  if (status === 'captured') await steps.creditPayment(ref);
}

test('the page of a checkout is what a buyer clicks: its first form pays', async () => {
  const { id } = await open('payment_provider_a');
  const { approval_url } = await payments.approvalOf(world.db, id);
  expect(await pay({ approval_url: approval_url as string })).toContain(
    'http://127.0.0.1:3000/return',
  );
});

async function capturesAsked(order: string): Promise<number> {
  const { url } = world.sandboxes.payment_provider_a;
  const { requests } = (await (await fetch(`${url}/sandbox/requests`)).json()) as {
    requests: { path: string }[];
  };
  return requests.filter(({ path }) => path === `/v2/checkout/orders/${order}/capture`).length;
}

test('a declined payment is not taken by the clock: only with its buyer there', async () => {
  const sandbox = world.sandboxes.payment_provider_a;
  const { id, order } = await open('payment_provider_a');
  await sandbox.act(order, 'decline');
  await look('confirm', id);
  expect(await payments.getAny(world.db, id)).toMatchObject({
    status: 'created',
    error_code: 'declined',
  });
  const asked = await capturesAsked(order);
  await world
    .db('payment_sessions')
    .where({ id })
    .update({ next_check_at: new Date(0) });
  await look('clock', id);
  expect(await capturesAsked(order)).toBe(asked);
  await sandbox.act(order, 'pay');
  await look('news', id);
  expect((await payments.getAny(world.db, id)).status).toBe('completed');
});

test.each(providerNames)(
  '%s: a provider that does not know a checkout any more says nothing of it',
  async (provider) => {
    const { id, order } = await open(provider);
    await world.sandboxes[provider].act(order, 'pay');
    const hide = (provider_order_id: string) =>
      world.db('payment_sessions').where({ id }).update({ provider_order_id });
    await hide(provider === 'payment_provider_a' ? 'NEVERMADE' : 'cs_never_made');
    await look('news', id);
    const lost = await operators.getForAdmin(world.db, id);
    expect(lost).toMatchObject({ status: 'created', error_code: 'provider_unavailable' });
    expect(lost.provider_message).toContain('credentials');
    await hide(order);
    await look('news', id);
    expect((await payments.getAny(world.db, id)).status).toBe('completed');
  },
);
