import { providerNames } from '../../../domain/payments/currencies';
import { refusal } from '../../support/api';
import { type Checkout, sessionOf } from '../../support/payments/world';
import { until } from '../../support/until';
import { balance, completed, refund, refundsAt, tenant, world } from './refunding';

describe.each(providerNames)('%s: a refund of which nothing more is heard', (provider) => {
  const resolve = ({ payment_session_id: id }: Checkout, action: string) =>
    world.call('post', `/v1/admin/payments/${id}/resolve`, {
      ...{ key: world.admin, body: { action, reason: 'seen at the provider' } },
    });
  const pending = async () => {
    const checkout = await completed(provider);
    const order = checkout.provider_session_token;
    expect(refusal(await resolve(checkout, 'refund_failed'))).toMatchObject({
      ...{ status: 409, code: 'payment_state' },
    });
    const sandbox = world.sandboxes[provider];
    await sandbox.fault({ on: 'webhook', order, times: 0, blocked: true });
    await sandbox.fault({ on: 'refund', order, result: 'pending' });
    expect((await refund(checkout)).body).toMatchObject({ refund_status: 'pending' });
    expect(await balance()).toBe(0);
    return checkout;
  };
  /** The refund is made at the provider after all, and the provider tells it. */
  const settle = async ({ provider_session_token: order }: Checkout) => {
    const sandbox = world.sandboxes[provider];
    await sandbox.forget(order);
    await sandbox.act(order, 'settle-refund');
  };

  test('has failed if an operator says so, and is followed if it is made after all', async () => {
    const checkout = await pending();
    const answer = await resolve(checkout, 'refund_failed');
    expect(answer).toMatchObject({ status: 200, body: { status: 'completed' } });
    expect(answer.body.refunds).toMatchObject([
      { status: 'failed', ended_by: expect.any(String), end_note: 'seen at the provider' },
    ]);
    expect(await balance()).toBe(50);
    expect((await resolve(checkout, 'refund_failed')).status).toBe(200);
    expect(await balance()).toBe(50);
    expect((await resolve(checkout, 'refund_succeeded')).status).toBe(409);
    await settle(checkout);
    await until(async () => (await sessionOf(world, tenant, checkout)).status === 'refunded');
    expect(await balance()).toBe(0);
    const { id } = answer.body.refunds[0];
    const log = await world.call('get', `/v1/audit-log?object_id=${id}`, { key: world.admin });
    expect(log.body.audit_log.map(({ action }: { action: string }) => action)).toContain(
      'payment_refund.ended',
    );
  });

  test('is done if an operator says so, once', async () => {
    const checkout = await pending();
    for (let n = 0; n < 2; n += 1)
      expect(await resolve(checkout, 'refund_succeeded')).toMatchObject({
        ...{ status: 200, body: { status: 'refunded' } },
      });
    expect(await balance()).toBe(0);
    await settle(checkout);
    expect(await refundsAt(checkout)).toHaveLength(1);
    expect(await balance()).toBe(0);
    expect((await resolve(checkout, 'refund_failed')).status).toBe(409);
  });
});
