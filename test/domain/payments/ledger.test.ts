import * as operators from '../../../domain/payments/operators';
import * as payments from '../../../domain/payments/sessions';
import * as steps from '../../../domain/payments/steps';
import { many, one } from '../../../domain/sql';
import {
  balance,
  completed,
  db,
  entries,
  makeSession,
  nothing,
  paid,
  tell,
  UNIT,
} from './sessions';

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
