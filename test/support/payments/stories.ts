import { createPaymentSteps } from '../../../activities/payments';
import type { ProviderName } from '../../../domain/payments/currencies';
import * as operators from '../../../domain/payments/operators';
import * as refunds from '../../../domain/payments/refunds';
import * as payments from '../../../domain/payments/sessions';
import { many } from '../../../domain/sql';
import { createProviderOf } from '../../../payment-providers/configured';
import { payment_hosts, secrets, type Tenant } from '../api';
import type { PaymentWorld, Sandbox } from './world';

// Stories of one payment: buyer, webhook, clock, operator, dispute and outage in a random order
// that a seed names. The steps are those that workflows run; here they run without one, in any
// order, and at once.

/** Numbers from 0 up to 1 that follow from a seed. */
export type Dice = () => number;

export function diceOf(seed: number): Dice {
  let state = seed;
  return () => {
    // mulberry32
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

export function pick<T>(dice: Dice, all: readonly T[]): T {
  return all[Math.floor(dice() * all.length)] as T;
}

interface Teller {
  world: PaymentWorld;
  sandbox: Sandbox;
  steps: ReturnType<typeof createPaymentSteps>;
  id: string;
  order: string;
  dice: Dice;
}

type Happening = (teller: Teller) => Promise<unknown>;

const AMOUNT = 5_000;

/** An act of somebody at the provider; one that its rules forbid does not happen. */
const act =
  (action: string, body: (dice: Dice) => object = () => ({})): Happening =>
  ({ sandbox, order, dice }) =>
    sandbox.act(order, action, body(dice));

const part = (dice: Dice) => ({ amount: (Math.ceil((dice() * AMOUNT) / 5) / 20).toFixed(2) });

const look =
  (reason: 'confirm' | 'news' | 'clock'): Happening =>
  async ({ world, steps, id }) => {
    const ref = { payment_session_id: id };
    if (reason === 'clock') await makeDue(world, id);
    const { status } = await steps.collectPayment({ ...ref, reason });
    if (status === 'captured') await steps.creditPayment(ref);
  };

const fault =
  (script: object): Happening =>
  ({ sandbox, order }) =>
    sandbox.fault({ order, ...script });

const refused = { on: 'capture', answer: 'error', status: 422, work: false };
const happenings: Readonly<Record<string, readonly [weight: number, Happening]>> = {
  'the buyer pays': [5, act('pay')],
  'the buyer pays by means that are refused': [1, act('decline')],
  'the buyer is back': [4, look('confirm')],
  'the buyer gives up': [1, ({ steps, id }) => steps.cancelPayment({ payment_session_id: id })],
  'a webhook comes': [5, look('news')],
  'the clock looks': [4, look('clock')],
  'the time is over': [
    1,
    async (teller) => {
      const { world, id } = teller;
      await world
        .db('payment_sessions')
        .where({ id })
        .update({ expires_at: new Date(0) });
      await look('clock')(teller);
    },
  ],
  'pending money comes': [2, act('complete-pending')],
  'pending money never comes': [1, act('fail-pending')],
  'a refund at the site': [2, act('refund', part)],
  'a bank takes money back': [1, act('reverse', part)],
  'a dispute is opened': [2, act('open-dispute', part)],
  'an inquiry is opened': [1, act('open-dispute', () => ({ is_inquiry: true }))],
  'a dispute is won': [1, act('win-dispute')],
  'a dispute is lost': [2, act('lose-dispute')],
  'a refund settles': [2, act('settle-refund')],
  'a refund fails': [1, act('fail-refund')],
  'the operator refunds': [2, (teller) => refund(teller)],
  'the operator credits another amount': [1, (teller) => resolve(teller, 'credited')],
  'the operator closes': [1, (teller) => resolve(teller, 'closed')],
  'a look is lost': [2, fault({ on: 'read', answer: 'reset' })],
  'a look fails': [1, fault({ on: 'read', answer: 'error' })],
  'a look finds a word that nobody knows': [1, fault({ on: 'read', set: { '/status': 'NEW' } })],
  'lists are told in another order': [1, fault({ on: 'read', reversed: true })],
  'a capture is lost': [1, fault({ on: 'capture', answer: 'reset' })],
  'a capture fails after it is made': [1, fault({ on: 'capture', answer: 'error' })],
  'a capture will be pending': [2, fault({ on: 'capture', result: 'pending' })],
  'a capture will be of another amount': [1, fault({ on: 'capture', amount: '49.00' })],
  'a capture is denied': [1, fault({ ...refused, issue: 'PAYMENT_DENIED' })],
  'a key is used': [1, fault({ ...refused, issue: 'DUPLICATE_REQUEST_ID' })],
  'a capture is said to be under way': [
    1,
    fault({ ...refused, issue: 'PREVIOUS_REQUEST_IN_PROGRESS' }),
  ],
  'a refund is lost': [1, fault({ on: 'refund', answer: 'reset' })],
  'a refund will be pending': [2, fault({ on: 'refund', result: 'pending' })],
};

const names = Object.entries(happenings).flatMap(([name, [weight]]) => Array(weight).fill(name));

/** What happens in a story: moments one after the other, in each of which things happen at once. */
export function storyOf(dice: Dice): string[][] {
  const moments = 6 + Math.floor(dice() * 12);
  const first = dice() < 0.8 ? [['the buyer pays']] : [];
  return first.concat(
    Array.from({ length: moments }, () =>
      Array.from({ length: dice() < 0.3 ? 2 + Math.floor(dice() * 2) : 1 }, () =>
        pick(dice, names),
      ),
    ),
  );
}

async function makeDue({ db }: PaymentWorld, id: string): Promise<void> {
  const due = { next_check_at: new Date(0) };
  await db('payment_sessions').where({ id }).whereNotNull('next_check_at').update(due);
}

async function refund({ world, steps, id }: Teller): Promise<void> {
  const wanted = { payment_session_id: id, reason: 'a story', by: 'admin', allow_negative: true };
  const asked = await refunds.request(world.db, wanted).catch(forbidden);
  if (asked === undefined) return;
  await steps.debitRefund({ payment_refund_id: asked });
  await steps.sendRefund({ payment_refund_id: asked });
}

async function resolve({ world, id }: Teller, resolution: 'credited' | 'closed'): Promise<void> {
  const given = { id, resolution, by: 'admin', note: 'a story' };
  await operators.resolve(world.db, given).catch(forbidden);
}

/** What the rules of the product forbid does not happen. */
function forbidden(error: { code?: string }): undefined {
  if (error.code !== 'payment_state') throw error;
}

/** Plays a story to its end: until nobody is at work and nothing is owed. */
export async function play(
  world: PaymentWorld,
  { org_id, member_id }: Tenant,
  { provider, story, dice }: { provider: ProviderName; story: string[][]; dice: Dice },
): Promise<{ id: string; order: string }> {
  const steps = createPaymentSteps(world.db, createProviderOf(world.db, secrets, payment_hosts));
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
  await steps.openCheckout({ payment_session_id: id });
  const { provider_order_id } = await payments.approvalOf(world.db, id);
  const order = provider_order_id as string;
  const sandbox = world.sandboxes[provider];
  const teller: Teller = { world, sandbox, steps, id, order, dice };
  for (const moment of story)
    await Promise.all(moment.map((name) => happenings[name]?.[1](teller)));
  await settle(teller);
  return { id, order };
}

/** The outages end, pending money ends one way or the other, and all that is owed is looked at. */
async function settle(teller: Teller): Promise<void> {
  const { world, sandbox, steps, id, dice } = teller;
  await sandbox.forget(teller.order);
  await act(dice() < 0.5 ? 'complete-pending' : 'fail-pending')(teller);
  await world
    .db('payment_sessions')
    .where({ id })
    .update({ expires_at: new Date(0) });
  for (let round = 0; round < 3; round += 1) {
    await look('news')(teller);
    await look('clock')(teller);
    const owed = { payment_session_id: id, status: 'pending' };
    for (const one of await world.db('payment_refunds').where(owed)) {
      const ref = { payment_refund_id: one.id };
      await world
        .db('payment_refunds')
        .where({ id: one.id })
        .update({ next_check_at: new Date(0) });
      await steps.debitRefund(ref).catch(forbidden);
      await steps.sendRefund(ref);
    }
  }
  await many(world.db, 'delete from outbox where workflow_id = :id', { id });
}
