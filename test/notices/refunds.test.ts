import { randomUUID } from 'node:crypto';
import { putConfig } from '../../domain/payments/config';
import { providerNames } from '../../domain/payments/currencies';
import { secrets } from '../support/api';
import { platformKey } from '../support/keys';
import { confirm, createCheckout, makeBuyer, openSandboxes, pay } from '../support/payments/world';
import { until } from '../support/until';
import { makeDestination, type NoticeWorld, openNoticeWorld } from './world';

// What providers do with a payment that was paid in: it arrives at webhooks with its amounts.

let world: NoticeWorld;
let platform: string;
let sandboxes: Awaited<ReturnType<typeof openSandboxes>>;

beforeAll(async () => {
  world = await openNoticeWorld();
  sandboxes = await openSandboxes(world.db, world.api_url);
  platform = await platformKey(world.db);
});
afterAll(async () => {
  for (const { server } of Object.values(sandboxes)) {
    server.closeAllConnections();
    server.close();
  }
  await world.close();
});

/** A payment of 50 that is completed, and what arrives at a webhook of its organization. */
async function paid(provider: (typeof providerNames)[number]) {
  await putConfig(world.db, secrets, { active_provider: provider });
  const tenant = await makeBuyer(world.db);
  const path = `/hooks/${randomUUID()}`;
  await makeDestination(world, tenant.owner_key, {
    channel: 'webhook',
    path,
    kinds: ['payment', 'refund', 'dispute'],
  });
  const checkout = await createCheckout(world, tenant);
  await pay(checkout);
  await until(async () => (await confirm(world, tenant, checkout)).body.status === 'completed');
  const told = () =>
    world.receiver.arrivals
      .filter((one) => one.path === path)
      .flatMap(({ body }) => body.data.notices.map((one: object) => ({ ...one, kind: body.type })));
  await until(() => told().length === 1);
  return { tenant, checkout, told, sandbox: sandboxes[provider] };
}

const moved = (kind: string, refunded_amount: number, more: object = {}) => ({
  kind,
  details: expect.objectContaining({ amount: 50, currency: 'USD', refunded_amount, ...more }),
});

test.each(providerNames)(
  "%s: a refund at the provider's site, and a dispute there, are told of with what went back in all",
  async (provider) => {
    const { checkout, told, sandbox, tenant } = await paid(provider);
    const { payment_session_id, provider_session_token: order } = checkout;
    expect(told()).toMatchObject([
      {
        kind: 'payment',
        org_id: tenant.org_id,
        details: { payment_session_id, provider, amount: 50, credited_amount: 50, currency: 'USD' },
      },
    ]);
    await sandbox.act(order, 'refund', { amount: '20.01' });
    await until(() => told().length === 2);
    await sandbox.act(order, 'open-dispute', { amount: '29.99' });
    await until(() => told().length === 3);
    expect(told().slice(1)).toMatchObject([
      moved('refund', 20.01, { payment_session_id, provider, status: 'completed' }),
      moved('dispute', 50, { payment_session_id, provider, status: 'refunded' }),
    ]);
    // The buyer has lost it: what was withheld comes back.
    await sandbox.act(order, 'win-dispute');
    await until(() => told().length === 4);
    expect(told()[3]).toMatchObject(
      moved('dispute', 20.01, { status: 'completed', reversed: true }),
    );
    const events = await world
      .db('events')
      .where({ org_id: tenant.org_id })
      .where('type', 'like', 'payment.%')
      .orderBy('id');
    // Each is told of once, as its own event.
    expect(told().map(({ event_id }) => event_id)).toEqual(events.map(({ id }) => id));
  },
);

test.each(providerNames)(
  '%s: people read that a dispute of a part is opened and won, and another one lost, with the money of each',
  async (provider) => {
    const { checkout, told, sandbox, tenant } = await paid(provider);
    const order = checkout.provider_session_token;
    const path = `/slack/${randomUUID()}`;
    await makeDestination(world, tenant.owner_key, { channel: 'slack', path, kinds: ['dispute'] });
    const read = () =>
      world.receiver.arrivals
        .filter((one) => one.path === path)
        .map(({ body }) => [body.text, body.blocks[1].fields[0].text]);
    // Messages go by themselves: one that is put off arrives after a later one.
    const both = (count: number) =>
      until(() => read().length === count && told().length === 1 + count);
    await sandbox.act(order, 'open-dispute', { amount: '10.01' });
    await both(1);
    await sandbox.act(order, 'win-dispute');
    await both(2);
    await sandbox.act(order, 'open-dispute', { amount: '20.02' });
    await both(3);
    await sandbox.act(order, 'lose-dispute');
    await both(4);
    expect(read()).toEqual([
      ['A payment is disputed: its money has left the wallet', 'Taken from the wallet: 10.01 USD'],
      ['A dispute is won: its money is back in the wallet', 'Back in the wallet: 10.01 USD'],
      ['A payment is disputed: its money has left the wallet', 'Taken from the wallet: 20.02 USD'],
      ['A dispute is lost: its money stays away', 'Lost for good: 20.02 USD'],
    ]);
    expect(told().slice(1)).toMatchObject([
      moved('dispute', 10.01, { status: 'completed' }),
      moved('dispute', 0, { reversed: true, dispute_status: 'won' }),
      moved('dispute', 20.02, { status: 'completed' }),
      moved('dispute', 20.02, { dispute_status: 'lost' }),
    ]);
  },
);

test.each(providerNames)(
  '%s: a refund that a person asks for here is told of with all that was paid',
  async (provider) => {
    const { checkout, told } = await paid(provider);
    const { payment_session_id } = checkout;
    const answer = await world.call('post', '/v1/admin/payments/refund', {
      key: platform,
      body: { payment_session_id, reason: 'by mistake' },
    });
    expect(answer).toMatchObject({ status: 200, body: { status: 'refunded' } });
    await until(() => told().length === 2);
    expect(told()[1]).toMatchObject(
      moved('refund', 50, { payment_session_id, status: 'refunded' }),
    );
  },
);
