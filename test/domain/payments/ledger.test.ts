import { audit } from '../../../domain/ledger/audit';
import * as operators from '../../../domain/payments/operators';
import * as refunds from '../../../domain/payments/refunds';
import * as payments from '../../../domain/payments/sessions';
import * as steps from '../../../domain/payments/steps';
import { type Db, many, one } from '../../../domain/sql';
import { makeTenant, type Tenant } from '../../support/api';
import { openTestDatabase } from '../../support/database';

// What the database alone promises of payments: its state table, one credit, and a wallet that follows refunds and disputes.

const UNIT = 1_000_000_000n;
let db: Db;
let close: () => Promise<void>;
let tenant: Tenant;

beforeAll(async () => {
  ({ db, close } = await openTestDatabase());
});
beforeEach(async () => {
  tenant = await makeTenant(db);
});
afterAll(async () => {
  const { broken } = await audit(db);
  await close();
  expect(broken).toEqual([]);
});

async function makeSession(amount_nanos = 50n * UNIT): Promise<string> {
  const { org_id, member_id } = tenant;
  const id = await payments.create(db, {
    buyer: { org_id, user_id: member_id, created_by: member_id },
    provider: 'payment_provider_b',
    surface: 'console',
    amount_nanos,
    currency: 'USD',
    owner: { owner_type: 'organization' },
    return_url: 'http://127.0.0.1:3000/return',
    cancel_url: 'http://127.0.0.1:3000/cancel',
  });
  await steps.opened(db, id, { order_id: `order-${id}`, approval_url: 'http://127.0.0.1/pay' });
  return id;
}

const nothing = { capture_id: null, amount_nanos: null, currency: null, refunds: [], disputes: [] };

/** What a provider says of a payment that was made. */
function paid(id: string, more: Partial<steps.Report> = {}): steps.Report {
  const said = { status: 'captured', capture_id: `capture-${id}` };
  return { ...nothing, ...said, amount_nanos: 50n * UNIT, currency: 'USD', ...more };
}

async function tell(id: string, report: steps.Report): Promise<payments.Session> {
  const { reading } = await steps.begin(db, id, { is_capture: false });
  await steps.record(db, id, report, { reading });
  return payments.getAny(db, id);
}

async function completed(): Promise<string> {
  const id = await makeSession();
  await tell(id, paid(id));
  await steps.credit(db, id);
  return id;
}

async function balance(): Promise<bigint> {
  const { balance_nanos } = await one<{ balance_nanos: bigint }>(
    db,
    'select balance_nanos from wallets where id = :wallet_id',
    { wallet_id: tenant.wallet_id },
  );
  return balance_nanos / UNIT;
}

function entries(id: string) {
  return many<{ type: string; amount: number }>(
    db,
    `select type, (amount_nanos / 1e9)::float as amount from wallet_transactions where payment_session_id = :id order by seq`,
    { id },
  );
}

test('the state table of the database is the one of the code, and every move outside it is refused', async () => {
  const id = await makeSession();
  for (const from of payments.statuses) {
    const { to } = await one<{ to: string[] }>(db, 'select payment_moves(:from) as to', { from });
    expect({ from, to: [...to].sort() }).toEqual({ from, to: [...payments.moves[from]].sort() });
    for (const target of payments.statuses) {
      await db('payment_sessions').where({ id }).update({ status: from });
      const moved = many(db, 'select status from move_payment(:id, :target)', { id, target });
      if (payments.moves[from].includes(target))
        await expect(moved).resolves.toEqual([{ status: target }]);
      else await expect(moved).rejects.toThrow(`may not become ${target}`);
    }
  }
  await db('payment_sessions').where({ id }).update({ status: 'created' });
});

test('a payment that is reported and credited any number of times at once is credited once', async () => {
  const id = await makeSession();
  await Promise.all(
    Array.from({ length: 20 }, async () => {
      await tell(id, paid(id));
      await steps.credit(db, id);
    }),
  );
  const session = await payments.getAny(db, id);
  expect(session).toMatchObject({ status: 'completed', late: false, error_code: null });
  expect(await entries(id)).toEqual([{ type: 'payment_credit', amount: 50 }]);
  expect(await balance()).toBe(50n);
});

test.each(['canceled', 'expired', 'failed'] as const)(
  'money that arrives after a session is %s is credited and marked late',
  async (to) => {
    const id = await makeSession();
    await steps.close(db, id, { to, error_code: 'provider_error', error_message: 'ended' });
    expect(await tell(id, paid(id))).toMatchObject({ status: 'captured', late: true });
    await steps.credit(db, id);
    expect(await payments.getAny(db, id)).toMatchObject({ status: 'completed', late: true });
  },
);

test('another amount or currency is never credited by itself; an operator credits it once, or closes it', async () => {
  const other = await makeSession();
  const failed = await tell(other, paid(other, { amount_nanos: 49n * UNIT }));
  expect(failed).toMatchObject({ status: 'failed', error_code: 'amount_mismatch' });
  await steps.credit(db, other);
  expect(await balance()).toBe(0n);
  const decision = { id: other, resolution: 'credited', by: 'admin', note: 'seen' } as const;
  await Promise.all([operators.resolve(db, decision), operators.resolve(db, decision)]);
  expect(await balance()).toBe(49n);

  const foreign = await makeSession();
  await tell(foreign, paid(foreign, { currency: 'EUR' }));
  const blind = operators.resolve(db, { ...decision, id: foreign });
  await expect(blind).rejects.toMatchObject({
    code: 'invalid_field',
    details: { param: 'amount' },
  });
  await operators.resolve(db, { ...decision, id: foreign, resolution: 'closed' });
  expect(await payments.getAny(db, foreign)).toMatchObject({ status: 'failed' });
  await expect(operators.resolve(db, { ...decision, id: foreign })).rejects.toMatchObject({
    code: 'payment_state',
  });
  expect(await balance()).toBe(49n);
});

test('a declined or unapproved payment goes back to its buyer, and each try is a new attempt', async () => {
  const id = await makeSession();
  for (const [status, error_code, attempt] of [
    ['declined', 'declined', 2],
    ['open', 'not_approved', 3],
  ] as const) {
    const { reading } = await steps.begin(db, id, { is_capture: true });
    await steps.record(db, id, { ...nothing, status }, { reading, is_asked: true });
    expect(await payments.getAny(db, id)).toMatchObject({ status: 'created', error_code });
    expect(await payments.approvalOf(db, id)).toMatchObject({ attempt });
  }
  await tell(id, { ...nothing, status: 'pending' });
  expect(await payments.getAny(db, id)).toMatchObject({ status: 'capturing' });
  await tell(id, paid(id));
  await steps.credit(db, id);
  expect(await balance()).toBe(50n);
});

test('an answer that is older than what is known changes nothing', async () => {
  const id = await completed();
  const old = await steps.begin(db, id, { is_capture: false });
  const refund = { provider_refund_id: 're_1', payment_refund_id: null, status: 'succeeded' };
  await tell(id, paid(id, { refunds: [{ ...refund, amount_nanos: 20n * UNIT }] }));
  expect(await balance()).toBe(30n);
  await steps.record(db, id, paid(id), old);
  expect(await balance()).toBe(30n);
});

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
  expect(await payments.getAny(db, id)).toMatchObject({ status: 'refunded' });
  const listed = { provider_refund_id: 're_9', payment_refund_id: refund_id };
  await tell(
    id,
    paid(id, { refunds: [{ ...listed, status: 'pending', amount_nanos: 50n * UNIT }] }),
  );
  expect(await balance()).toBe(0n);
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
