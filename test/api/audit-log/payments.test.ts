import { randomUUID } from 'node:crypto';
import { actAs } from '../../../domain/audit-events';
import { noteAsked } from '../../../domain/payments/cancellation';
import {
  type Checkout,
  confirm,
  createCheckout,
  pay,
  return_url,
} from '../../support/payments/world';
import { until } from '../../support/until';
import { refund, tenant, world } from '../payments/refunding';
import { expectSides, type Logged, loggedSince, newestId, type walked } from './routes';

// Payments: the buyer's and the operator's rows name them, what a worker does is the worker's.

type Name = (typeof walked)['payments.test.ts'][number];

async function completed(): Promise<Checkout> {
  const checkout = await createCheckout(world, tenant);
  await pay(checkout);
  await until(async () => (await confirm(world, tenant, checkout)).body.status === 'completed');
  return checkout;
}

/** A payment of another amount, which an operator decides about. */
async function mismatched(): Promise<Checkout> {
  await world.use('payment_provider_b');
  const checkout = await createCheckout(world, tenant);
  const order = checkout.provider_session_token;
  await world.sandboxes.payment_provider_b.fault({ on: 'capture', order, amount: '49.00' });
  await pay(checkout);
  await confirm(world, tenant, checkout);
  return checkout;
}

const member = () => tenant.member_key;

const walks: Record<
  Name,
  () => Promise<{ newest: string; rows: [string, 'buyer' | 'admin' | 'system'][] }>
> = {
  'post /v1/payments/create-checkout': async () => {
    const newest = await newestId(world.db);
    await createCheckout(world, tenant);
    return { newest, rows: [['payment.created', 'buyer']] };
  },
  'post /v1/payments/confirm-checkout': async () => {
    const newest = await newestId(world.db);
    await completed();
    return {
      newest,
      rows: [
        ['payment.created', 'buyer'],
        ['payment.credited', 'system'],
      ],
    };
  },
  'post /v1/payments/sessions/{id}/cancel': async () => {
    const { payment_session_id } = await createCheckout(world, tenant);
    const newest = await newestId(world.db);
    const at = `/v1/payments/sessions/${payment_session_id}/cancel`;
    expect((await world.call('post', at, { key: member(), body: {} })).status).toBe(200);
    return {
      newest,
      rows: [
        ['payment.cancel_asked', 'buyer'],
        ['payment.canceled', 'system'],
      ],
    };
  },
  'post /v1/payments/create-order': async () => {
    const newest = await newestId(world.db);
    const body = {
      ...{ amount: 50, target_wallet_owner_type: 'organization' },
      ...{ return_url, cancel_url: return_url },
    };
    const headers = { 'idempotency-key': randomUUID() };
    const answer = await world.call('post', '/v1/payments/create-order', {
      ...{ key: member(), body, headers },
    });
    expect(answer.status).toBeLessThan(300);
    return { newest, rows: [['payment.created', 'buyer']] };
  },
  'post /v1/payments/capture-order': async () => {
    const newest = await newestId(world.db);
    const checkout = await createCheckout(world, tenant);
    await pay(checkout);
    const body = { order_id: checkout.provider_session_token };
    await until(async () => {
      const answer = await world.call('post', '/v1/payments/capture-order', {
        key: member(),
        body,
      });
      return answer.status === 200;
    });
    return {
      newest,
      rows: [
        ['payment.created', 'buyer'],
        ['payment.credited', 'system'],
      ],
    };
  },
  'post /v1/admin/payments/refund': async () => {
    const checkout = await completed();
    const newest = await newestId(world.db);
    expect((await refund(checkout)).status).toBe(200);
    const rows = await loggedSince(world.db, newest);
    const [asked, taken] = rows.map(({ key_id, request_id }) => ({ key_id, request_id }));
    expect(asked?.key_id).toMatch(/^key_/);
    expect(taken).toEqual(asked);
    return {
      newest,
      rows: [
        ['payment_refund.created', 'admin'],
        ['payment.debited', 'admin'],
        ['payment_refund.succeeded', 'system'],
      ],
    };
  },
  'post /v1/admin/payments/{id}/resolve': async () => {
    const { payment_session_id } = await mismatched();
    const newest = await newestId(world.db);
    const answer = await world.call('post', `/v1/admin/payments/${payment_session_id}/resolve`, {
      ...{ key: world.admin, body: { action: 'credit', reason: 'seen in the books' } },
    });
    expect(answer.status).toBe(200);
    return {
      newest,
      rows: [
        ['payment.resolved', 'admin'],
        ['payment.credited', 'admin'],
      ],
    };
  },
};

test.each(Object.entries(walks))('%s', async (_, walk) => {
  const { newest, rows: wanted } = await walk();
  const rows = await loggedSince(world.db, newest);
  const actions = (all: readonly [string, string][]) => [...all].sort();
  expect(actions(rows.map((row) => [row.action, whoOf(row)]))).toEqual(actions(wanted));
  expectSides(rows);
  for (const { org_id } of rows) expect(org_id).toBe(tenant.org_id);
});

function whoOf({ actor_type, actor }: Logged): string {
  if (actor_type === 'user') return actor === tenant.member_id ? 'buyer' : 'another';
  return actor_type === 'platform' ? 'admin' : actor_type;
}

test('a refund that is refused is no pending one for ever: its end is written too', async () => {
  const checkout = await completed();
  // Given away to a team, which the refund does not reach.
  const given = { org_id: tenant.org_id, team_id: tenant.team_id, amount: 12.5 };
  const moved = await world.call('post', '/v1/wallets/allocate', { key: world.admin, body: given });
  expect(moved.status).toBe(200);
  const newest = await newestId(world.db);
  expect((await refund(checkout)).body.error.code).toBe('credit_spent');
  const rows = await loggedSince(world.db, newest);
  expect(rows.map(({ action, after }) => [action, after?.status])).toEqual([
    ['payment_refund.created', 'pending'],
    ['payment_refund.failed', 'failed'],
  ]);
  expect(rows.map(whoOf)).toEqual(['admin', 'admin']);
  expect(rows[1]?.after).toMatchObject({ error_code: 'credit_spent' });
});

test('who asks again and again for what cannot be canceled is written once', async () => {
  const { payment_session_id: id } = await createCheckout(world, tenant);
  const { org_id } = tenant;
  const asked = { id, org_id, status: 'processing' };
  const newest = await newestId(world.db);
  for (const actor of ['user_a', 'user_a', 'user_b'])
    await world.db.transaction(async (trx) => {
      await actAs(trx, { actor });
      await noteAsked(trx, asked);
      await noteAsked(trx, asked);
    });
  await world.db.transaction(async (trx) => {
    await actAs(trx, { actor: 'user_a' });
    await noteAsked(trx, { ...asked, status: 'awaiting_payment' });
  });
  const rows = await loggedSince(world.db, newest);
  expect(rows.map(({ actor, after }) => [actor, after?.status])).toEqual([
    ['user_a', 'processing'],
    ['user_b', 'processing'],
    ['user_a', 'awaiting_payment'],
  ]);
});
