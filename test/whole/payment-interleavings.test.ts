import { createPaymentSteps } from '../../activities/payments';
import { type ProviderName, providerNames } from '../../domain/payments/currencies';
import * as operators from '../../domain/payments/operators';
import * as payments from '../../domain/payments/sessions';
import { many } from '../../domain/sql';
import { createProviderOf } from '../../payment-providers/configured';
import { secrets, type Tenant } from '../support/api';
import {
  makeBuyer,
  openPaymentWorld,
  type PaymentWorld,
  pay,
  type Sandbox,
} from '../support/payments/world';
import { type Behaviour, behaviours } from './payment-behaviours';

// Every order in which a webhook, the buyer's return, a poll, the deadline and a cancellation can
// come, against each way a provider can behave. The steps are the ones that workflows run; here
// they run without one, in every order, and at once. If a provider misbehaves, the even orders are
// played at one provider and the odd ones at the other: either half holds any three happenings at
// any three places.

type Happening = 'webhook' | 'confirm' | 'poll' | 'deadline' | 'cancel';

const happenings: readonly Happening[] = ['webhook', 'confirm', 'poll', 'deadline', 'cancel'];
const orders = permutations(happenings);

let world: PaymentWorld;
let tenant: Tenant;
let steps: ReturnType<typeof createPaymentSteps>;

beforeAll(async () => {
  world = await openPaymentWorld();
  tenant = await makeBuyer(world.db);
  steps = createPaymentSteps(world.db, createProviderOf(world.db, secrets));
  for (const sandbox of Object.values(world.sandboxes))
    await sandbox.fault({ on: 'webhook', times: 0, blocked: true });
});
afterAll(() => world.close());

function permutations(all: readonly Happening[]): Happening[][] {
  if (all.length === 0) return [[]];
  return all.flatMap((first) =>
    permutations(all.filter((one) => one !== first)).map((rest) => [first, ...rest]),
  );
}

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

async function happen(happening: Happening, payment_session_id: string): Promise<void> {
  const ref = { payment_session_id };
  const { status } = await step[happening](ref);
  if (status === 'captured') await steps.creditPayment(ref);
}

type Ref = { payment_session_id: string };

/** Runs each happening, and notes the status of the session after it. */
const step: Record<Happening, (ref: Ref) => Promise<{ status: string }>> = {
  webhook: (ref) => steps.collectPayment({ ...ref, reason: 'news' }),
  confirm: (ref) => steps.collectPayment({ ...ref, reason: 'confirm' }),
  cancel: (ref) => steps.cancelPayment(ref),
  poll: async (ref) => {
    await many(
      world.db,
      `update payment_sessions set next_check_at = to_timestamp(0)
       where id = :payment_session_id and next_check_at is not null`,
      ref,
    );
    return steps.collectPayment({ ...ref, reason: 'clock' });
  },
  deadline: async (ref) => {
    await many(
      world.db,
      'update payment_sessions set expires_at = to_timestamp(0) where id = :payment_session_id',
      ref,
    );
    return steps.collectPayment({ ...ref, reason: 'clock' });
  },
};

function isEven(story: readonly Happening[]): boolean {
  const places = story.map((one) => happenings.indexOf(one));
  const swaps = places.flatMap((one, at) => places.slice(at + 1).filter((later) => later < one));
  return swaps.length % 2 === 0;
}

/** The reconciler's last word: asked until it has no more to ask. */
async function settle(id: string): Promise<payments.Session> {
  for (let look = 0; look < 3; look += 1) {
    await happen('poll', id);
    const left = await many(
      world.db,
      'select 1 from payment_sessions where id = :id and next_check_at is not null',
      { id },
    );
    if (left.length === 0) break;
  }
  return payments.getAny(world.db, id);
}

/** The state that the session must have in the end, by the provider's own books. */
async function expectRight(
  sandbox: Sandbox,
  { id, order }: { id: string; order: string },
  story: unknown,
) {
  const session = await settle(id);
  const { capture: taken } = await sandbox.order(order);
  const credits = await many<{ amount: string }>(
    world.db,
    `select amount_nanos::text as amount from wallet_transactions where payment_session_id = :id`,
    { id },
  );
  const isTaken = taken?.status === 'completed';
  const isAsAsked = isTaken && taken.amount === 5_000 && taken.currency === 'USD';
  const expected = isAsAsked
    ? { status: 'completed', credits: [{ amount: '50000000000' }] }
    : { status: isTaken ? 'failed' : expect.stringMatching(/^(canceled|expired)$/), credits: [] };
  expect({ story, status: session.status, credits }).toEqual({ story, ...expected });
  if (isTaken && !isAsAsked) expect(session.error_code).toBe('amount_mismatch');
}

async function play(
  provider: ProviderName,
  behaviour: Behaviour,
  story: readonly Happening[],
  isAtOnce: boolean,
) {
  const sandbox = world.sandboxes[provider];
  const made = await open(provider);
  await behaviour.prepare?.(sandbox, made.order);
  await (behaviour.buyer ?? ((_, order) => sandbox.act(order, 'pay')))(sandbox, made.order);
  if (isAtOnce) {
    await Promise.all([
      ...story.map((one) => happen(one, made.id)),
      behaviour.midway?.(sandbox, made.order),
    ]);
  } else {
    for (const [index, one] of story.entries()) {
      if (index === 2) await behaviour.midway?.(sandbox, made.order);
      await happen(one, made.id);
    }
  }
  await behaviour.ending?.(sandbox, made.order);
  await expectRight(sandbox, made, [provider, behaviour.words, isAtOnce, story]);
}

/** A few at a time: the order within one session is tested, not the machine's patience. */
async function each<T>(all: readonly T[], run: (one: T) => Promise<void>): Promise<void> {
  const left = [...all];
  const worker = async () => {
    for (let one = left.shift(); one !== undefined; one = left.shift()) await run(one);
  };
  await Promise.all(Array.from({ length: 6 }, worker));
}

const cases = providerNames.flatMap((provider) =>
  behaviours.map((one) => [provider, one.words, one] as const),
);

function ordersOf(provider: ProviderName, { words }: Behaviour): Happening[][] {
  if (words === 'ok') return orders;
  return orders.filter((story) => isEven(story) === (provider === 'payment_provider_a'));
}

test.each(cases)(
  '%s, %s: in every order at most one capture and one credit, and the right end',
  async (provider, _, behaviour) => {
    await each(ordersOf(provider, behaviour), (story) => play(provider, behaviour, story, false));
  },
  120_000,
);

test.each(cases)('%s, %s: the same with all of it at once', async (provider, _, behaviour) => {
  await each(
    Array.from({ length: 8 }, () => happenings),
    (story) => play(provider, behaviour, story, true),
  );
});

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
  await happen('confirm', id);
  expect(await payments.getAny(world.db, id)).toMatchObject({
    status: 'created',
    error_code: 'declined',
  });
  const asked = await capturesAsked(order);
  await world
    .db('payment_sessions')
    .where({ id })
    .update({ next_check_at: new Date(0) });
  await happen('poll', id);
  expect(await capturesAsked(order)).toBe(asked);
  await sandbox.act(order, 'pay');
  await happen('webhook', id);
  expect((await payments.getAny(world.db, id)).status).toBe('completed');
});

test('a capture that the provider refuses for good fails the session, which is found if it is paid after all', async () => {
  const sandbox = world.sandboxes.payment_provider_a;
  const { id, order } = await open('payment_provider_a');
  await sandbox.act(order, 'pay');
  await sandbox.fault({ order, on: 'capture', answer: 'error', status: 422, work: false });
  await happen('webhook', id);
  const failed = await operators.getForAdmin(world.db, id);
  expect(failed).toMatchObject({
    status: 'failed',
    error_code: 'provider_error',
    provider_message: expect.stringContaining('422'),
  });
  expect(failed.error_message).not.toContain('422');
});

test.each(providerNames)(
  '%s: a provider that does not know a checkout any more says nothing of it',
  async (provider) => {
    const { id, order } = await open(provider);
    await world.sandboxes[provider].act(order, 'pay');
    const hide = (provider_order_id: string) =>
      world.db('payment_sessions').where({ id }).update({ provider_order_id });
    await hide(provider === 'payment_provider_a' ? 'NEVERMADE' : 'cs_never_made');
    await happen('webhook', id);
    const lost = await operators.getForAdmin(world.db, id);
    expect(lost).toMatchObject({ status: 'created', error_code: 'provider_unavailable' });
    expect(lost.provider_message).toContain('credentials');
    await hide(order);
    await happen('webhook', id);
    expect((await payments.getAny(world.db, id)).status).toBe('completed');
  },
);
