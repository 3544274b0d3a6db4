import fc from 'fast-check';
import * as operators from '../../../domain/payments/operators';
import * as refunds from '../../../domain/payments/refunds';
import * as payments from '../../../domain/payments/sessions';
import { many } from '../../../domain/sql';
import {
  balance,
  completed,
  db,
  entries,
  makeSession,
  nothing,
  paid,
  tell,
  tenant,
  UNIT,
} from './sessions';

// One loss is one loss, in whatever lists and order the provider tells it.

interface Told {
  refunds?: [id: string, amount: bigint, status?: string][];
  disputes?: [id: string, amount: bigint, status: string, refund_ids?: string[]][];
}

function report(id: string, { refunds: given = [], disputes = [] }: Told) {
  return paid(id, {
    refunds: given.map(([provider_refund_id, amount, status = 'succeeded']) => ({
      provider_refund_id,
      payment_refund_id: null,
      status,
      amount_nanos: amount * UNIT,
      currency: 'USD',
    })),
    disputes: disputes.map(([name, amount, status, refund_ids = []]) => ({
      id: name,
      status,
      amount_nanos: amount * UNIT,
      currency: 'USD',
      refund_ids,
    })),
  });
}

test('a disputed sale that is refunded because of it is taken once, and stays so when the dispute is lost', async () => {
  const id = await completed();
  await tell(id, report(id, { disputes: [['d', 10n, 'open']] }));
  expect(await balance()).toBe(40n);
  const back: Told['refunds'] = [['r', 10n]];
  await tell(id, report(id, { refunds: back, disputes: [['d', 10n, 'open', ['r']]] }));
  expect(await balance()).toBe(40n);
  await tell(id, report(id, { refunds: back, disputes: [['d', 10n, 'lost', ['r']]] }));
  expect(await balance()).toBe(40n);
  expect(await entries(id)).toHaveLength(2);
});

test.each(['pending', 'failed'])(
  'a payment that is %s because of a dispute keeps its debit until the dispute is won',
  async (status) => {
    const id = await completed();
    await tell(id, report(id, { disputes: [['d', 25n, 'open']] }));
    expect(await balance()).toBe(25n);
    const open = report(id, { disputes: [['d', 25n, 'open']] });
    await tell(id, { ...open, status });
    await tell(id, { ...open, status, disputes: null });
    expect(await balance()).toBe(25n);
    expect(await payments.getAny(db, id)).toMatchObject({ status: 'completed' });
    await tell(id, report(id, { disputes: [['d', 25n, 'won']] }));
    expect(await balance()).toBe(50n);
    // Nothing was known of it before.
    await tell(id, { ...report(id, { disputes: [['e', 10n, 'open']] }), status });
    expect(await balance()).toBe(40n);
  },
);

test('what is decided of a part is an event, once, with what has gone back in all', async () => {
  const id = await completed();
  const dispute = (status: string) => report(id, { disputes: [['d', 10n, status]] });
  for (const status of ['open', 'open', 'won', 'won', 'open', 'lost', 'lost'])
    await tell(id, dispute(status));
  const refund = (status: string) =>
    report(id, { refunds: [['r', 5n, status]], disputes: [['d', 10n, 'lost']] });
  for (const status of ['pending', 'failed', 'failed']) await tell(id, refund(status));
  const events = await many<{ payload: Record<string, unknown> }>(
    db,
    `select payload from events where org_id = :org_id and type = 'payment.refunded' order by id`,
    { org_id: tenant.org_id },
  );
  const told = (cause_id: string, units: bigint, more: object = {}) => ({
    cause: cause_id === 'd' ? 'dispute' : 'refund',
    cause_id,
    refunded_amount_nanos: (units * UNIT).toString(),
    ...more,
  });
  expect(events.map(({ payload }) => payload)).toMatchObject([
    told('d', 10n),
    told('d', 0n, { reversed: true, dispute_status: 'won' }),
    told('d', 10n),
    told('d', 10n, { dispute_status: 'lost' }),
    told('r', 15n),
    told('r', 10n, { reversed: true }),
  ]);
});

test('a payment that is refunded by a dispute, and no longer so, is told once by its own event', async () => {
  const id = await completed();
  for (const status of ['open', 'won'])
    await tell(id, report(id, { disputes: [['d', 50n, status]] }));
  const events = await many<{ payload: Record<string, unknown> }>(
    db,
    `select payload from events where org_id = :org_id and type = 'payment.refunded' order by id`,
    { org_id: tenant.org_id },
  );
  expect(events.map(({ payload }) => [payload.status, payload.reversed])).toEqual([
    ['refunded', undefined],
    ['completed', true],
  ]);
});

test.each<[string, Told, bigint]>([
  ['apart', { refunds: [['r', 20n]], disputes: [['d', 10n, 'lost']] }, 30n],
  ['in part', { refunds: [['r', 4n]], disputes: [['d', 10n, 'lost', ['r']]] }, 10n],
  ['beyond the dispute', { refunds: [['r', 20n]], disputes: [['d', 10n, 'open', ['r']]] }, 20n],
  ['a failed one', { refunds: [['r', 10n, 'failed']], disputes: [['d', 10n, 'open', ['r']]] }, 10n],
  ['named, not listed', { disputes: [['d', 10n, 'open', ['r']]] }, 10n],
  ['won', { refunds: [['r', 10n]], disputes: [['d', 10n, 'won', ['r']]] }, 10n],
  [
    'listed twice',
    {
      refunds: [
        ['r', 10n],
        ['r', 10n],
      ],
    },
    10n,
  ],
  [
    'named by two disputes',
    {
      refunds: [['r', 10n]],
      disputes: [
        ['d', 10n, 'lost', ['r']],
        ['e', 10n, 'lost', ['r']],
      ],
    },
    20n,
  ],
])('a refund and a dispute, %s, cost the wallet what they cost us', async (_, told, lost) => {
  const id = await completed();
  await tell(id, report(id, told));
  expect(await balance()).toBe(50n - lost);
});

test('the lists may come in any order, and each of them any number of times', async () => {
  const told: Told = {
    refunds: [
      ['r1', 5n],
      ['r2', 3n],
      ['r3', 2n, 'pending'],
    ],
    disputes: [
      ['d1', 7n, 'open', ['r1']],
      ['d2', 4n, 'lost', ['r2', 'r3']],
      ['d3', 9n, 'won'],
    ],
  };
  const orders = fc.sample(
    fc.record({
      refunds: fc.shuffledSubarray(told.refunds ?? [], { minLength: 3 }),
      disputes: fc.shuffledSubarray(told.disputes ?? [], { minLength: 3 }),
    }),
    { numRuns: 6, seed: 15 },
  );
  for (const order of orders) {
    const before = await balance();
    const id = await completed();
    await tell(id, report(id, order));
    await tell(id, report(id, order));
    expect(await balance()).toBe(before + 50n - 12n);
  }
});

test('our own refund is known by the id of the provider too, where its list leaves ours out', async () => {
  const id = await completed();
  await tell(id, report(id, { refunds: [['r', 20n]] }));
  const wanted = { payment_session_id: id, reason: 'asked', by: 'admin', allow_negative: false };
  const own = await refunds.request(db, wanted);
  await refunds.debit(db, own);
  // Beside the other one from its debit on, although no list shows it yet.
  expect(await balance()).toBe(0n);
  await refunds.record(db, own, { status: 'pending', provider_refund_id: 'own', message: null });
  await tell(
    id,
    report(id, {
      refunds: [
        ['r', 20n, 'failed'],
        ['own', 30n, 'succeeded'],
      ],
    }),
  );
  expect(await balance()).toBe(20n);
  expect(await refunds.get(db, own)).toMatchObject({ status: 'succeeded' });
});

test('a session is refunded when the provider has done it, not when it has taken it on', async () => {
  const id = await completed();
  await tell(id, report(id, { refunds: [['r', 50n, 'pending']] }));
  expect(await payments.getAny(db, id)).toMatchObject({ status: 'completed' });
  expect(await balance()).toBe(0n);
  await tell(id, report(id, { refunds: [['r', 50n]] }));
  expect(await payments.getAny(db, id)).toMatchObject({ status: 'refunded' });
  await tell(id, report(id, { refunds: [['r', 50n, 'failed']] }));
  expect(await payments.getAny(db, id)).toMatchObject({ status: 'completed' });
  expect(await balance()).toBe(50n);
});

test('a payment that hangs while it is taken can be closed by a person, and is credited if it comes', async () => {
  const id = await makeSession();
  await tell(id, { ...nothing, status: 'pending' });
  const decision = { id, resolution: 'closed', by: 'admin', note: 'never came' } as const;
  await operators.resolve(db, decision);
  await operators.resolve(db, decision);
  expect(await payments.getAny(db, id)).toMatchObject({
    status: 'failed',
    error_code: 'provider_error',
  });
  expect(await tell(id, paid(id, { amount_nanos: 49n * UNIT }))).toMatchObject({
    status: 'failed',
    error_code: 'amount_mismatch',
  });
  await operators.resolve(db, { ...decision, resolution: 'credited' });
  expect(await balance()).toBe(49n);
});

test('a decision that the wallet cannot hold now is refused, and credits what was decided once it can', async () => {
  const id = await makeSession();
  await tell(id, paid(id, { amount_nanos: 100n * UNIT, currency: 'EUR' }));
  const { org_id, wallet_id } = tenant;
  const credit = (units: bigint) =>
    many(db, `select from credit(:org_id, :wallet_id, :nanos, 'test')`, {
      ...{ org_id, wallet_id },
      nanos: units * UNIT,
    });
  await credit(8_999_999_990n);
  const decision = { id, resolution: 'credited', by: 'admin', note: 'seen' } as const;
  const decide = () => operators.resolve(db, { ...decision, amount_nanos: 25n * UNIT });
  await expect(decide()).rejects.toMatchObject({ code: 'payment_state' });
  expect(await payments.getAny(db, id)).toMatchObject({ status: 'failed' });
  await credit(-8_999_999_990n);
  await decide();
  expect(await payments.getAny(db, id)).toMatchObject({ status: 'completed' });
  expect(await balance()).toBe(25n);
});
