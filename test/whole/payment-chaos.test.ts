import { setTimeout as sleep } from 'node:timers/promises';
import { WorkflowNotFoundError } from '@temporalio/client';
import { request } from 'undici';
import { type ProviderName, providerNames } from '../../domain/payments/currencies';
import { many } from '../../domain/sql';
import type { Tenant } from '../support/api';
import {
  type Checkout,
  confirmOnce,
  createCheckout,
  makeBuyer,
  openPaymentWorld,
  type PaymentWorld,
  sessionOf,
} from '../support/payments/world';
import { seed as file_seed, pick, type Random, randomOf } from '../support/random';
import { until } from '../support/until';
import { isAtRest } from '../support/worker';

// Random stories of many payments at once: buyers, operators and providers act in any order, and
// calls are lost on their way there or back. When all is quiet, wallets hold what the providers'
// own books say, and no session is stuck.

const SESSIONS = 24;
const seed = Number(process.env.CHAOS_SEED ?? file_seed);

let world: PaymentWorld;

beforeAll(async () => {
  world = await openPaymentWorld();
});
afterAll(() => world.close());

interface Story {
  provider: ProviderName;
  tenant: Tenant;
  checkout: Checkout;
  done: string[];
}

const calls = ['read', 'capture', 'refund', 'expire', 'read-refund'];
const losses = [
  { answer: 'reset' },
  { answer: 'reset', work: false },
  { answer: 'error', status: 500 },
  { answer: 'error', status: 503, work: false },
  { delay_ms: 300 },
];
const results = [
  { on: 'capture', result: 'pending' },
  { on: 'capture', result: 'declined' },
  { on: 'refund', result: 'pending' },
  { on: 'refund', result: 'failed' },
];
const news = [{ duplicates: 3 }, { reordered: true }, { delay_ms: 400 }];
// Acts of buyers and of people at the provider.
const acts = [
  'pay',
  'pay',
  'pay',
  'decline',
  'complete-pending',
  'fail-pending',
  'settle-refund',
  'fail-refund',
];
const late_acts = ['open-dispute', 'win-dispute', 'lose-dispute', 'refund'];

/** One act on a payment; a refused one changes nothing. */
async function happen(random: Random, story: Story): Promise<void> {
  const { provider, tenant, checkout, done } = story;
  const { provider_session_token: order, payment_session_id } = checkout;
  const sandbox = world.sandboxes[provider];
  const [key, id] = [tenant.member_key, payment_session_id];
  const chance = random();
  if (chance < 0.25) {
    const script = { ...pick(random, losses), on: pick(random, calls) };
    done.push(JSON.stringify(script));
    await sandbox.fault({ order, ...script });
  } else if (chance < 0.35) {
    const script =
      random() < 0.5 ? pick(random, results) : { on: 'webhook', ...pick(random, news) };
    done.push(JSON.stringify(script));
    await sandbox.fault({ order, ...script });
  } else if (chance < 0.6) {
    const action = pick(random, random() < 0.7 ? acts : late_acts);
    const amount = action === 'refund' ? { amount: '20.00' } : {};
    const { status } = await sandbox.act(order, action, amount);
    done.push(`${action} ${status}`);
  } else if (chance < 0.8) {
    const { status, body } = await confirmOnce(world, tenant, checkout);
    done.push(`confirm ${status} ${body.status}`);
  } else if (chance < 0.9) {
    const body = { payment_session_id: id, reason: 'chaos', allow_negative: true };
    const answer = await world.call('post', '/v1/admin/payments/refund', {
      key: world.admin,
      body,
    });
    done.push(`refund ${answer.status} ${answer.body.refund_status}`);
  } else if (chance < 0.94) {
    const path = `/v1/payments/sessions/${id}/cancel`;
    done.push(`cancel ${(await world.call('post', path, { key, body: {} })).status}`);
  } else {
    done.push('time goes by');
    await sleep(random() * 500);
  }
}

/**
 * A week goes by: pending sessions are asked for again at a provider that answers; unpaid ones
 * expire.
 */
async function settle(): Promise<void> {
  for (const { url } of Object.values(world.sandboxes))
    await (await request(`${url}/sandbox/faults`, { method: 'DELETE' })).body.dump();
  for (let round = 1; round <= 5; round += 1) {
    if (round === 2)
      await many(
        world.db,
        `update payment_sessions set expires_at = clock_timestamp() where status in ('created', 'capturing')`,
      );
    for (const table of ['payment_sessions', 'payment_refunds'])
      await many(
        world.db,
        `update ${table} set next_check_at = clock_timestamp() - interval '1 minute' where next_check_at is not null`,
      );
    await forgetRefunds();
    await world.client.workflow.execute('reconcile', {
      workflowId: `reconcile-${round}`,
      taskQueue: 'lifecycle',
    });
    await until(isQuiet);
  }
}

/** True if all messages are sent, and no workflow does anything. */
async function isQuiet(): Promise<boolean> {
  if ((await world.db('outbox').where({ parked_at: null })).length > 0) return false;
  const ids = [...(await world.db('payment_sessions')), ...(await world.db('payment_refunds'))];
  // One that was never started, or is over and gone, does nothing either.
  const isResting = ({ id }: { id: string }) => isAtRest(world.client, id).catch(isNotFound);
  return (await Promise.all(ids.map(isResting))).every(Boolean);
}

function isNotFound(error: unknown): boolean {
  if (error instanceof WorkflowNotFoundError) return true;
  throw error;
}

/** A refund's workflow sleeps by its own clock; the reconciler starts one that is gone. */
async function forgetRefunds(): Promise<void> {
  for (const { id } of await world.db('payment_refunds').where({ status: 'pending' })) {
    await world.db('outbox').where({ workflow_id: id }).delete();
    await world.client.workflow
      .getHandle(id)
      .terminate('its time has come')
      .catch(() => undefined);
  }
}

/** The state that a payment must have, by the provider's own books. */
async function expectWhole({ provider, tenant, checkout, done }: Story): Promise<void> {
  const { payment_session_id: id, provider_session_token: token } = checkout;
  const order = await world.sandboxes[provider].order(token);
  const sum = (all: { amount: number }[]) => all.reduce((total, { amount }) => total + amount, 0);
  const captured = order.capture?.status === 'completed' ? order.capture.amount : 0;
  const refunds = order.refunds.filter(({ status }: { status: string }) => status !== 'failed');
  const disputes = order.disputes.filter(
    ({ status }: { status: string }) => status === 'open' || status === 'lost',
  );
  const back = Math.min(captured, sum(refunds) + sum(disputes));
  // What the provider has yet to pay back is debited, and the session stays completed until then.
  const pending = refunds.filter(({ status }: { status: string }) => status === 'pending');
  const is_back = captured <= sum(refunds) - sum(pending) + sum(disputes);
  const [{ net }] = (await many<{ net: number }>(
    world.db,
    `select coalesce(sum(amount_nanos), 0)::float / 1e7 as net from wallet_transactions where payment_session_id = :id`,
    { id },
  )) as [{ net: number }];
  const { status } = await sessionOf(world, tenant, checkout);
  const unpaid: Record<string, RegExp> = {
    pending: /^(capturing|canceled|expired)$/,
    // A capture that the provider refused ends its order: a definite no, if the session had not
    // ended before.
    failed: /^(failed|canceled|expired)$/,
  };
  const ended =
    captured === 0
      ? (unpaid[order.capture?.status] ?? /^(canceled|expired)$/)
      : is_back
        ? /^refunded$/
        : /^completed$/;
  const story = [provider, id, ...done];
  expect({ story, net, status }).toEqual({
    story,
    net: captured - back,
    status: expect.stringMatching(ended),
  });
}

test(`whatever happens in whatever order (CHAOS_SEED=${seed}), wallets hold what the providers say`, async () => {
  const random = randomOf(seed);
  const stories: Story[] = [];
  for (let n = 0; n < SESSIONS; n += 1) {
    const provider = pick(random, providerNames);
    await world.use(provider);
    const tenant = await makeBuyer(world.db);
    stories.push({ provider, tenant, checkout: await createCheckout(world, tenant), done: [] });
  }
  await Promise.all(
    stories.map(async (story, index) => {
      const own = randomOf(seed + index);
      for (let step = 0; step < 14; step += 1) await happen(own, story);
    }),
  );
  await settle();
  for (const story of stories) await expectWhole(story);
});
