import { providerNames } from '../../../domain/payments/currencies';
import { many } from '../../../domain/sql';
import { refusal } from '../../support/api';
import { sessionOf } from '../../support/payments/world';
import { until } from '../../support/until';
import { balance, completed, refund, refundsAt, tenant, world } from './refunding';

async function spend(nanos: bigint): Promise<void> {
  const { org_id, wallet_id } = tenant;
  const sql = `select from credit(:org_id, :wallet_id, :nanos, 'spent')`;
  await many(world.db, sql, { org_id, wallet_id, nanos: -nanos });
}

test.each(providerNames)(
  '%s: a refund asked for twice at once is one refund, which the wallet and the session show',
  async (provider) => {
    const checkout = await completed(provider);
    const answers = await Promise.all([refund(checkout), refund(checkout), refund(checkout)]);
    const expected = {
      payment_session_id: checkout.payment_session_id,
      status: 'refunded',
      provider_refund_id: expect.any(String),
      refund_status: 'succeeded',
      refunded_amount: 50,
      currency: 'USD',
    };
    expect((await refund(checkout)).body).toEqual(expected);
    for (const { status, body } of answers) expect([status, body]).toEqual([200, expected]);
    expect(await refundsAt(checkout)).toHaveLength(1);
    expect(await balance()).toBe(0);
    const session = await sessionOf(world, tenant, checkout);
    expect(session).toMatchObject({ status: 'refunded', credited_amount: 50, refunded_amount: 50 });
    const entries = await world
      .db('wallet_transactions')
      .where({ payment_session_id: checkout.payment_session_id })
      .orderBy('seq');
    const [{ requested_by }] = await world.db('payment_refunds').where({
      payment_session_id: checkout.payment_session_id,
    });
    // The provider's money is nobody's hand, the refund is its asker's.
    expect(entries.map(({ type, actor }) => [type, actor])).toEqual([
      ['payment_credit', null],
      ['payment_refund', requested_by],
    ]);
    const { body: ledger } = await world.call(
      'get',
      `/v1/wallets/${tenant.wallet_id}/transactions`,
      { key: tenant.billing_key },
    );
    const made_by = ledger.transactions.map(
      (entry: { made_by: { id: string } }) => entry.made_by.id,
    );
    expect(made_by).toEqual([requested_by, session.user_id ?? expect.stringMatching(/^key_/)]);
    const events = await many<{ type: string }>(
      world.db,
      `select type from events where payload ->> 'payment_session_id' = :id order by id`,
      { id: checkout.payment_session_id },
    );
    expect(events.map(({ type }) => type)).toEqual(['payment.completed', 'payment.refunded']);
  },
);

test.each(providerNames)(
  '%s: a refund whose answer is lost is found by asking, and made once',
  async (provider) => {
    const checkout = await completed(provider);
    const order = checkout.provider_session_token;
    await world.sandboxes[provider].fault({ on: 'refund', order, answer: 'reset' });
    expect((await refund(checkout)).body).toMatchObject({
      ...{ status: 'refunded', refund_status: 'succeeded', refunded_amount: 50 },
    });
    expect(await refundsAt(checkout)).toHaveLength(1);
    expect(await balance()).toBe(0);
  },
);

test.each(providerNames)(
  '%s: a refund that the provider fails later gives the wallet its money back',
  async (provider) => {
    const checkout = await completed(provider);
    const sandbox = world.sandboxes[provider];
    const order = checkout.provider_session_token;
    await sandbox.fault({ on: 'refund', order, result: 'pending' });
    expect((await refund(checkout)).body).toMatchObject({
      status: 'completed',
      refund_status: 'pending',
    });
    expect(await balance()).toBe(0);
    const shown = { status: 'completed', refund_status: 'pending', refunded_amount: 50 };
    expect(await sessionOf(world, tenant, checkout)).toMatchObject(shown);
    await sandbox.act(order, 'fail-refund');
    await until(async () => (await balance()) === 50);
    expect((await sessionOf(world, tenant, checkout)).refunded_amount).toBe(0);
    expect((await refund(checkout)).body).toMatchObject({
      status: 'refunded',
      refund_status: 'succeeded',
    });
    expect(await balance()).toBe(0);
    const events = await many<{ payload: Record<string, unknown> }>(
      world.db,
      `select payload from events where payload ->> 'payment_session_id' = :id and type = 'payment.refunded' order by id`,
      { id: checkout.payment_session_id },
    );
    expect(events.map(({ payload: { status, reversed } }) => [status, reversed])).toEqual([
      ['completed', undefined],
      ['completed', true],
      ['refunded', undefined],
    ]);
  },
);

test.each(providerNames)(
  '%s: a refund that the provider refuses at once is told, and nothing has moved',
  async (provider) => {
    const checkout = await completed(provider);
    const order = checkout.provider_session_token;
    const refused = { answer: 'error', status: 422, work: false };
    const failed = { result: 'failed' };
    const fault = {
      on: 'refund',
      order,
      ...(provider === 'payment_provider_a' ? refused : failed),
    };
    await world.sandboxes[provider].fault(fault);
    expect(refusal(await refund(checkout))).toMatchObject({ status: 409, code: 'refund_refused' });
    expect(await balance()).toBe(50);
    expect((await sessionOf(world, tenant, checkout)).status).toBe('completed');
  },
);

test('a spent top-up is refused with the spent amount, and refunded into debt where that is allowed', async () => {
  const checkout = await completed('payment_provider_b');
  await spend(12_500_000_000n);
  const refused = await refund(checkout);
  expect(refusal(refused)).toMatchObject({ status: 409, code: 'credit_spent' });
  expect(refused.body.error.spent_amount).toBe(12.5);
  expect(refused.body.error.message).toContain('12.5 USD');
  expect(await balance()).toBe(37.5);
  expect((await refund(checkout, { allow_negative: true })).body.status).toBe('refunded');
  expect(await balance()).toBe(-12.5);
});

test('a refund that waits for its workflow goes into debt once that is asked for', async () => {
  const checkout = await completed('payment_provider_b');
  await spend(12_500_000_000n);
  await many(
    world.db,
    "select request_refund(:payment_session_id, 'bought twice', 'somebody', false)",
    {
      payment_session_id: checkout.payment_session_id,
    },
  );
  expect((await refund(checkout, { allow_negative: true })).body.status).toBe('refunded');
  expect(await balance()).toBe(-12.5);
  const [told] = await world
    .db('audit_events')
    .where({ action: 'payment_refund.changed', org_id: tenant.org_id });
  expect(told.after).toMatchObject({ allow_negative: true });
});

test.each(providerNames)(
  "%s: refunds and disputes at the provider's own site take the money, into debt if need be, and a won dispute gives it back",
  async (provider) => {
    const checkout = await completed(provider);
    const sandbox = world.sandboxes[provider];
    const order = checkout.provider_session_token;
    await spend(45_000_000_000n);
    await sandbox.act(order, 'refund', { amount: '20.00' });
    await until(async () => (await balance()) === -15);
    expect((await sessionOf(world, tenant, checkout)).status).toBe('completed');
    await sandbox.act(order, 'open-dispute', { amount: '30.00' });
    await until(async () => (await balance()) === -45);
    expect(refusal(await refund(checkout))).toMatchObject({ status: 409, code: 'payment_state' });
    await sandbox.act(order, 'win-dispute');
    await until(async () => (await balance()) === -15);
    expect(await sessionOf(world, tenant, checkout)).toMatchObject({
      status: 'completed',
      refunded_amount: 20,
    });
    expect((await refund(checkout, { allow_negative: true })).body).toMatchObject({
      status: 'refunded',
      refunded_amount: 30,
    });
    expect(await balance()).toBe(-45);
  },
);

test.each(['pending', 'declined'])(
  'a disputed payment of A whose capture becomes %s is debited at the first look, and stays so until the dispute is won',
  async (capture) => {
    const checkout = await completed('payment_provider_a');
    const sandbox = world.sandboxes.payment_provider_a;
    const order = checkout.provider_session_token;
    await sandbox.act(order, 'open-dispute', { amount: '20.00' });
    await until(async () => (await balance()) === 30);
    await sandbox.act(order, 'open-dispute', { amount: '5.00', capture });
    await until(async () => (await balance()) === 25);
    await sandbox.act(order, 'win-dispute');
    await until(async () => (await balance()) === 30);
    expect(await sessionOf(world, tenant, checkout)).toMatchObject({
      status: 'completed',
      refunded_amount: 20,
    });
  },
);

test.each(providerNames)(
  "%s: our refund racing one at the provider's own site takes the money once",
  async (provider) => {
    const checkout = await completed(provider);
    const sandbox = world.sandboxes[provider];
    const order = checkout.provider_session_token;
    await Promise.all([refund(checkout), sandbox.act(order, 'refund'), refund(checkout)]);
    await until(async () => (await sessionOf(world, tenant, checkout)).status === 'refunded');
    expect(await balance()).toBe(0);
    expect(await refundsAt(checkout)).toHaveLength(1);
  },
);

test('a dispute of two payments of A wakes both, and takes its amount once', async () => {
  const [one, other] = [
    await completed('payment_provider_a'),
    await completed('payment_provider_a'),
  ];
  const sandbox = world.sandboxes.payment_provider_a;
  const order = one.provider_session_token;
  const beside = [other.provider_session_token];
  expect(await balance()).toBe(100);
  await sandbox.act(order, 'open-dispute', { amount: '30.00', beside });
  await until(async () => (await balance()) === 70);
  for (const checkout of [one, other])
    expect((await sessionOf(world, tenant, checkout)).refunded_amount).toBe(15);
  await sandbox.act(order, 'win-dispute');
  await until(async () => (await balance()) === 100);
  const { body } = await world.call('get', '/v1/admin/payments/webhooks?per_page=100', {
    key: world.admin,
  });
  const of_disputes = body.webhooks.filter((each: { type: string }) =>
    each.type.startsWith('CUSTOMER.DISPUTE.'),
  );
  const told = of_disputes
    .map((each: { payment_session_id: string }) => each.payment_session_id)
    .filter((id: string) => [one, other].some((each) => each.payment_session_id === id));
  expect(told.sort()).toEqual(
    [one, one, other, other].map(({ payment_session_id }) => payment_session_id).sort(),
  );
});
