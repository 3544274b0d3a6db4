import { refusal } from '../../support/api';
import { type Checkout, confirm, createCheckout, pay } from '../../support/payments/world';
import { until } from '../../support/until';
import { balance, refund, refundsAt, tenant, world } from './refunding';

test('what is wrong with a refund or a decision is named, and moves nothing', async () => {
  const checkout = await createCheckout(world, tenant);
  const { payment_session_id } = checkout;
  const wrong: [object, number, string, string | null][] = [
    [{ payment_session_id: 'pay_x' }, 404, 'not_found', null],
    [{ reason: '' }, 422, 'invalid_field', 'reason'],
    [{ reason: 'x'.repeat(256) }, 422, 'invalid_field', 'reason'],
    [{ amount: 60 }, 422, 'unknown_field', 'amount'],
    [{}, 409, 'payment_state', null],
  ];
  for (const [more, status, code, param] of wrong)
    expect([more, refusal(await refund(checkout, more))]).toEqual([more, { status, code, param }]);
  const body = { payment_session_id, reason: 'mine' };
  const denied = await world.call('post', '/v1/admin/payments/refund', {
    key: tenant.billing_key,
    body,
  });
  expect(denied.status).toBe(403);
  const resolve = (action: string) =>
    world.call('post', `/v1/admin/payments/${payment_session_id}/resolve`, {
      key: world.admin,
      body: { action, reason: 'seen' },
    });
  expect(refusal(await resolve('credit'))).toMatchObject({ status: 409, code: 'payment_state' });
  expect(refusal(await resolve('keep'))).toMatchObject({ status: 422, param: 'action' });
});

test.each(['credit', 'refund', 'close'])(
  'money of another amount waits for an operator, who can %s it',
  async (action) => {
    await world.use('payment_provider_b');
    const checkout = await createCheckout(world, tenant);
    const order = checkout.provider_session_token;
    await world.sandboxes.payment_provider_b.fault({ on: 'capture', order, amount: '49.00' });
    await pay(checkout);
    const told = await confirm(world, tenant, checkout);
    expect(told.body).toMatchObject({
      status: 'failed',
      error_code: 'amount_mismatch',
      credited_amount: null,
    });
    const answer = await world.call(
      'post',
      `/v1/admin/payments/${checkout.payment_session_id}/resolve`,
      {
        key: world.admin,
        body: { action, reason: 'seen in the books' },
      },
    );
    expect(answer.status).toBe(200);
    const end = { credit: ['completed', 49, 0], refund: ['failed', 0, 1], close: ['failed', 0, 0] }[
      action
    ];
    expect([answer.body.status, await balance(), (await refundsAt(checkout)).length]).toEqual(end);
    const own = await world.call('get', `/v1/payments/sessions/${checkout.payment_session_id}`, {
      key: tenant.billing_key,
    });
    const said = { credit: 'credited', refund: 'refunded', close: 'closed' }[action];
    expect([own.status, own.body.resolution]).toEqual([200, said]);
    const entries = await world.db('wallet_transactions').where({ wallet_id: tenant.wallet_id });
    const { resolved_by } = answer.body;
    expect(entries.map(({ actor }) => actor)).toEqual(action === 'credit' ? [resolved_by] : []);
  },
);

async function mismatched(): Promise<Checkout> {
  await world.use('payment_provider_b');
  const checkout = await createCheckout(world, tenant);
  const order = checkout.provider_session_token;
  await world.sandboxes.payment_provider_b.fault({ on: 'capture', order, amount: '49.00' });
  await pay(checkout);
  expect((await confirm(world, tenant, checkout)).body.status).toBe('failed');
  return checkout;
}

function resolve({ payment_session_id }: Checkout, body: object) {
  return world.call('post', `/v1/admin/payments/${payment_session_id}/resolve`, {
    key: world.admin,
    body: { reason: 'seen in the books', ...body },
  });
}

async function resolutionOf({ payment_session_id }: Checkout): Promise<string | null> {
  const { body } = await world.call('get', `/v1/admin/payments?org_id=${tenant.org_id}`, {
    key: world.admin,
  });
  return body.sessions.find(({ id }: { id: string }) => id === payment_session_id).resolution;
}

test('a refund of a mismatch that the provider fails later waits for an operator again', async () => {
  const checkout = await mismatched();
  const sandbox = world.sandboxes.payment_provider_b;
  const order = checkout.provider_session_token;
  await sandbox.fault({ on: 'refund', order, result: 'pending' });
  expect((await resolve(checkout, { action: 'refund' })).body).toMatchObject({
    status: 'failed',
    resolution: null,
  });
  expect(refusal(await resolve(checkout, { action: 'credit' }))).toMatchObject({ status: 409 });
  await sandbox.act(order, 'settle-refund');
  await until(async () => (await resolutionOf(checkout)) === 'refunded');
  await sandbox.act(order, 'fail-refund');
  await until(async () => (await resolutionOf(checkout)) === null);
  expect((await resolve(checkout, { action: 'credit' })).body).toMatchObject({
    status: 'completed',
    resolution: 'credited',
  });
  expect(await balance()).toBe(49);
});

test('a refund of a mismatch whose answer is lost is decided once it is found', async () => {
  const checkout = await mismatched();
  const order = checkout.provider_session_token;
  await world.sandboxes.payment_provider_b.fault({ on: 'refund', order, answer: 'reset' });
  expect((await resolve(checkout, { action: 'refund' })).body).toMatchObject({
    resolution: 'refunded',
    captured_amount: 49,
  });
  expect(await refundsAt(checkout)).toHaveLength(1);
});

test('a decision names no amount that was not taken, and none where none is credited', async () => {
  const checkout = await mismatched();
  for (const body of [
    { action: 'credit', amount: 50 },
    { action: 'close', amount: 49 },
  ])
    expect(refusal(await resolve(checkout, body))).toMatchObject({ status: 422, param: 'amount' });
  expect((await resolve(checkout, { action: 'credit', amount: 40 })).body.credited_amount).toBe(40);
});

test('a decision that is refused with 422 leaves its Idempotency-Key free', async () => {
  await world.use('payment_provider_b');
  const checkout = await createCheckout(world, tenant);
  const order = checkout.provider_session_token;
  await world.sandboxes.payment_provider_b.fault({ on: 'capture', order, currency: 'EUR' });
  await pay(checkout);
  await confirm(world, tenant, checkout);
  const decide = (more: object) =>
    world.call('post', `/v1/admin/payments/${checkout.payment_session_id}/resolve`, {
      key: world.admin,
      body: { action: 'credit', reason: 'seen', ...more },
      headers: { 'idempotency-key': `decide ${order}` },
    });
  expect(refusal(await decide({}))).toMatchObject({ status: 422, param: 'amount' });
  expect((await decide({ amount: 33.33 })).body).toMatchObject({
    status: 'completed',
    credited_amount: 33.33,
  });
});
