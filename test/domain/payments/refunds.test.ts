import * as refunds from '../../../domain/payments/refunds';
import * as payments from '../../../domain/payments/sessions';
import { many, one } from '../../../domain/sql';
import { balance, completed, db, entries, makeSession, paid, tell, tenant, UNIT } from './sessions';

test('refunds and disputes at the provider take the money, into debt if need be, and give it back when they are lost', async () => {
  const id = await completed();
  const spend = `select from credit(:org_id, :wallet_id, -45000000000, 'spent')`;
  await many(db, spend, { org_id: tenant.org_id, wallet_id: tenant.wallet_id });
  const dispute = { id: 'dp_1', amount_nanos: 30n * UNIT };
  const refund = { provider_refund_id: 're_1', payment_refund_id: null, status: 'succeeded' };
  const refunded = { refunds: [{ ...refund, amount_nanos: 20n * UNIT }] };
  await tell(id, paid(id, refunded));
  expect(await balance()).toBe(-15n);
  expect(
    await tell(id, paid(id, { ...refunded, disputes: [{ ...dispute, status: 'open' }] })),
  ).toMatchObject({ status: 'refunded' });
  expect(await balance()).toBe(-45n);
  expect(
    await tell(id, paid(id, { ...refunded, disputes: [{ ...dispute, status: 'won' }] })),
  ).toMatchObject({ status: 'completed' });
  expect(await balance()).toBe(-15n);
  expect(await entries(id)).toEqual([
    { type: 'payment_credit', amount: 50 },
    { type: 'payment_refund', amount: -20 },
    { type: 'payment_refund', amount: -30 },
    { type: 'payment_credit', amount: 30 },
  ]);
});

async function askRefund(id: string, more: { allow_negative?: boolean } = {}): Promise<string> {
  const wanted = { payment_session_id: id, reason: 'asked', by: 'admin', allow_negative: false };
  return refunds.request(db, { ...wanted, ...more });
}

test('a refund asked for many times at once is one refund, and its failure at the provider gives the money back', async () => {
  const id = await completed();
  const ids = await Promise.all(Array.from({ length: 10 }, () => askRefund(id)));
  expect(new Set(ids).size).toBe(1);
  const [refund_id = ''] = ids;
  await Promise.all([refunds.debit(db, refund_id), refunds.debit(db, refund_id)]);
  expect(await balance()).toBe(0n);
  expect(await payments.getAny(db, id)).toMatchObject({ status: 'completed' });
  const pending = { status: 'pending', provider_refund_id: 're_9', message: null } as const;
  await refunds.record(db, refund_id, pending);
  // What the provider has only taken on is not done; the wallet has given it all the same.
  expect(await payments.getAny(db, id)).toMatchObject({ status: 'completed' });
  const listed = { provider_refund_id: 're_9', payment_refund_id: refund_id };
  await tell(
    id,
    paid(id, { refunds: [{ ...listed, status: 'pending', amount_nanos: 50n * UNIT }] }),
  );
  expect(await balance()).toBe(0n);
  expect(await payments.getAny(db, id)).toMatchObject({ status: 'completed' });
  await tell(
    id,
    paid(id, { refunds: [{ ...listed, status: 'succeeded', amount_nanos: 50n * UNIT }] }),
  );
  expect(await payments.getAny(db, id)).toMatchObject({ status: 'refunded' });
  await tell(
    id,
    paid(id, { refunds: [{ ...listed, status: 'failed', amount_nanos: 50n * UNIT }] }),
  );
  expect(await balance()).toBe(50n);
  expect(await payments.getAny(db, id)).toMatchObject({ status: 'completed' });
  expect(await refunds.get(db, refund_id)).toMatchObject({ status: 'failed' });
  expect(await askRefund(id)).not.toBe(refund_id);
});

test('a refund whose no comes from the refund call itself gives the money back, whatever an older list says', async () => {
  const id = await completed();
  const refund_id = await askRefund(id);
  await refunds.debit(db, refund_id);
  const listed = { provider_refund_id: 're_9', payment_refund_id: refund_id, status: 'pending' };
  await tell(id, paid(id, { refunds: [{ ...listed, amount_nanos: 50n * UNIT }] }));
  await refunds.record(db, refund_id, {
    status: 'failed',
    provider_refund_id: null,
    message: 'no',
  });
  expect(await balance()).toBe(50n);
});

test('our refund and a dispute of the same money take it once', async () => {
  const id = await completed();
  const refund_id = await askRefund(id);
  await refunds.debit(db, refund_id);
  await tell(
    id,
    paid(id, { disputes: [{ id: 'dp_2', status: 'open', amount_nanos: 50n * UNIT }] }),
  );
  expect(await balance()).toBe(0n);
  await refunds.record(db, refund_id, {
    status: 'failed',
    provider_refund_id: null,
    message: 'disputed',
  });
  expect(await balance()).toBe(0n);
  expect(await payments.getAny(db, id)).toMatchObject({ status: 'refunded' });
  await expect(askRefund(id)).rejects.toMatchObject({ code: 'payment_state', status: 409 });
});

test('a spent top-up is refused with the spent amount, unless the wallet may go below zero', async () => {
  const id = await completed();
  await many(db, `select from credit(:org_id, :wallet_id, -12500000000, 'spent')`, {
    org_id: tenant.org_id,
    wallet_id: tenant.wallet_id,
  });
  await expect(refunds.debit(db, await askRefund(id))).rejects.toMatchObject({
    code: 'credit_spent',
    status: 409,
    details: { extra: { spent_amount: 12.5 } },
  });
  expect((await entries(id)).length).toBe(1);
  const refund_id = await askRefund(id, { allow_negative: true });
  await refunds.debit(db, refund_id);
  const { balance_nanos } = await one<{ balance_nanos: bigint }>(
    db,
    'select balance_nanos from wallets where id = :wallet_id',
    { wallet_id: tenant.wallet_id },
  );
  expect(balance_nanos).toBe(-12_500_000_000n);
});

test('a completed top-up of nothing but a session that was never paid cannot be refunded', async () => {
  const id = await makeSession();
  await expect(askRefund(id)).rejects.toMatchObject({ code: 'payment_state', status: 409 });
});

test('a provider that may not be asked for disputes leaves what is known of them', async () => {
  const id = await completed();
  const disputes = [{ id: 'dp_3', status: 'open', amount_nanos: 10n * UNIT }];
  await tell(id, paid(id, { disputes }));
  expect(await balance()).toBe(40n);
  await tell(id, paid(id, { disputes: null }));
  expect(await balance()).toBe(40n);
});

test('a dispute in another currency takes all of the payment: nobody can say how much it is', async () => {
  const id = await completed();
  const dispute = { id: 'dp_9', status: 'open', amount_nanos: 500n * UNIT, currency: 'JPY' };
  await tell(id, paid(id, { disputes: [dispute] }));
  expect(await balance()).toBe(0n);
  await tell(id, paid(id, { disputes: [{ ...dispute, status: 'won' }] }));
  expect(await balance()).toBe(50n);
});

test('a payment that was refunded in part only says so when it is refunded again', async () => {
  const id = await completed();
  const dispute = { id: 'dp_8', status: 'open', amount_nanos: 20n * UNIT, currency: 'USD' };
  await tell(id, paid(id, { disputes: [dispute] }));
  const refund_id = await askRefund(id);
  await refunds.debit(db, refund_id);
  await refunds.record(db, refund_id, {
    status: 'succeeded',
    provider_refund_id: 're_8',
    message: null,
  });
  expect(await askRefund(id)).toBe(refund_id);
  await tell(id, paid(id, { disputes: [{ ...dispute, status: 'won' }] }));
  expect(await balance()).toBe(20n);
  await expect(askRefund(id)).rejects.toMatchObject({ code: 'payment_state', status: 409 });
});

/** The events of refunds, by what each says. */
async function told(): Promise<unknown[]> {
  const events = await many<{ payload: Record<string, unknown> }>(
    db,
    `select payload from events where org_id = :org_id and type = 'payment.refunded' order by id`,
    { org_id: tenant.org_id },
  );
  return events.map(({ payload: { status, cause_id, refunded_amount_nanos, reversed } }) => [
    status,
    cause_id,
    Number(refunded_amount_nanos) / 1e9,
    reversed,
  ]);
}

/** A refund of ours that has left the wallet, and what the provider answered to it, in turn. */
async function answered(id: string, ...statuses: refunds.RefundStatus[]): Promise<string> {
  const own = await askRefund(id);
  await refunds.debit(db, own);
  for (const status of statuses)
    await refunds.record(db, own, { status, provider_refund_id: 're_o', message: null });
  return own;
}

test.each<[refunds.RefundStatus[], unknown[][]]>([
  [['succeeded'], [['refunded', 50]]],
  [['failed'], []],
  [
    ['pending', 'pending', 'succeeded'],
    [
      ['completed', 50],
      ['refunded', 50],
    ],
  ],
  [
    ['pending', 'failed'],
    [
      ['completed', 50],
      ['completed', 0, true],
    ],
  ],
])('a refund of ours whose provider answers %j is told by each step', async (statuses, steps) => {
  const id = await completed();
  const own = await answered(id, ...statuses);
  expect(await told()).toEqual(
    steps.map(([status, amount, reversed]) => [status, own, amount, reversed]),
  );
});

test.each([
  ['ours', true],
  ["the provider's", false],
])('a refund of ours that fails in a list under %s id is told once', async (_, is_named) => {
  const id = await completed();
  const own = await answered(id, 'pending');
  const listed = (status: string) =>
    paid(id, {
      refunds: [
        {
          provider_refund_id: 're_o',
          payment_refund_id: is_named ? own : null,
          ...{ status, amount_nanos: 50n * UNIT, currency: 'USD' },
        },
      ],
    });
  for (const status of ['pending', 'failed', 'failed']) await tell(id, listed(status));
  expect(await told()).toEqual([
    ['completed', own, 50, undefined],
    ['completed', own, 0, true],
  ]);
});

test('a refund of ours beside one at the provider is told once, when its provider was asked', async () => {
  const id = await completed();
  const foreign = {
    ...{ provider_refund_id: 're_f', payment_refund_id: null, status: 'pending' },
    ...{ amount_nanos: 10n * UNIT, currency: 'USD' },
  };
  await tell(id, paid(id, { refunds: [foreign] }));
  const own = await answered(id, 'succeeded');
  await tell(id, paid(id, { refunds: [{ ...foreign, status: 'succeeded' }] }));
  expect(await told()).toEqual([
    ['completed', 're_f', 10, undefined],
    ['completed', own, 50, undefined],
    ['refunded', 're_f', 50, undefined],
  ]);
});

test('money that comes back because a refund or a dispute is listed no more is told', async () => {
  const id = await completed();
  const money = { amount_nanos: 10n * UNIT, currency: 'USD' };
  const dispute = { id: 'dp_1', status: 'open', ...money };
  const refund = {
    ...{ provider_refund_id: 're_1', payment_refund_id: null, status: 'succeeded' },
    ...money,
  };
  await tell(id, paid(id, { disputes: [dispute] }));
  await tell(id, paid(id));
  await tell(id, paid(id, { refunds: [refund], disputes: [dispute] }));
  await tell(id, paid(id, { disputes: [dispute] }));
  await tell(id, paid(id));
  expect(await balance()).toBe(50n);
  const moved = (await told()).map((one) => (one as unknown[]).slice(1));
  expect(moved).toEqual([
    ['dp_1', 10, undefined],
    ['dp_1', 0, true],
    // What comes at once is one event, with what went back in all.
    ['dp_1', 20, undefined],
    ['re_1', 10, true],
    ['dp_1', 0, true],
  ]);
});
