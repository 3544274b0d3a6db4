import * as questions from '../../../domain/payments/questions';
import * as payments from '../../../domain/payments/sessions';
import * as steps from '../../../domain/payments/steps';
import { many, one } from '../../../domain/sql';
import { locksAwaited } from '../../support/database';
import { until } from '../../support/until';
import { balance, completed, db, makeSession, nothing, paid, tell, tenant } from './sessions';

const HOUR_S = 3_600;
const DAY_S = 24 * HOUR_S;

interface Clock {
  checks: number;
  next_s: number | null;
  again_s: number | null;
}

/** The clock's next look, and the one that is owed, in seconds from now. */
function clockOf(id: string): Promise<Clock> {
  return one<Clock>(
    db,
    `select checks, round(extract(epoch from next_check_at - clock_timestamp()))::int as next_s,
       round(extract(epoch from ask_again_at - clock_timestamp()))::int as again_s
     from payment_sessions where id = :id`,
    { id },
  );
}

async function pass(id: string, seconds: number): Promise<void> {
  await many(
    db,
    `update payment_sessions set next_check_at = next_check_at - make_interval(secs => :seconds),
       ask_again_at = ask_again_at - make_interval(secs => :seconds), asked_at = asked_at - make_interval(secs => :seconds),
       gone_since = gone_since - make_interval(secs => :seconds)
     where id = :id`,
    { id, seconds },
  );
}

const about = (seconds: number) => {
  const near = { asymmetricMatch: (at: number) => Math.abs(at - seconds) < 20 };
  return near as unknown as number;
};

test('looks of people and webhooks do not use up the looks of the clock', async () => {
  const id = await makeSession();
  await tell(id, { ...nothing, status: 'pending' });
  for (let look = 0; look < 15; look += 1) await tell(id, { ...nothing, status: 'pending' });
  expect(await clockOf(id)).toMatchObject({ checks: 0, next_s: about(60) });
  const pauses = [60, 300, HOUR_S, ...Array(7).fill(DAY_S), 7 * DAY_S, 7 * DAY_S];
  for (const [checks, pause] of pauses.entries()) {
    expect(await clockOf(id)).toMatchObject({ checks, next_s: about(pause) });
    await pass(id, pause + 1);
    await tell(id, { ...nothing, status: 'pending' });
  }
  await tell(id, paid(id));
  await steps.credit(db, id);
  expect(await balance()).toBe(50n);
});

test('the looks after a day, a week and a month stay, whatever webhooks come and whatever goes back', async () => {
  const id = await completed();
  const refund = (amount_nanos: bigint, status: string, name: string) => ({
    ...{ provider_refund_id: name, payment_refund_id: null, currency: 'USD' },
    ...{ amount_nanos, status },
  });
  const lists = [
    [refund(1n, 'succeeded', 'a')],
    [refund(1n, 'succeeded', 'a'), refund(1n, 'succeeded', 'b')],
    [refund(50_000_000_000n, 'succeeded', 'c')],
    [refund(50_000_000_000n, 'failed', 'c')],
  ];
  for (const refunds of lists) await tell(id, paid(id, { refunds }));
  for (const [checks, days] of [1, 7, 30].entries()) {
    expect(await clockOf(id)).toMatchObject({ checks, next_s: about(days * DAY_S) });
    await questions.unanswered(db, id, { message: 'a webhook met an outage' });
    await pass(id, days * DAY_S + 1);
    await tell(id, paid(id));
  }
  expect(await clockOf(id)).toMatchObject({ next_s: null, again_s: null });
});

test('an open dispute is looked at daily, also where webhooks come more often', async () => {
  const id = await completed();
  const disputes = [{ id: 'd', status: 'open', amount_nanos: 1n, currency: 'USD' }];
  for (let hours = 0; hours < 24; hours += 6) {
    await tell(id, paid(id, { disputes }));
    expect(await clockOf(id)).toMatchObject({ next_s: about(DAY_S - hours * HOUR_S) });
    await pass(id, 6 * HOUR_S);
  }
});

test('a look without an answer is owed until there is one, and again and again in an outage', async () => {
  const id = await makeSession();
  await tell(id, { ...nothing, status: 'pending' });
  const pauses = [60, 300, HOUR_S, ...Array(7).fill(DAY_S), 7 * DAY_S];
  for (const pause of pauses) {
    for (let time = 0; time < 3; time += 1)
      await questions.unanswered(db, id, { message: 'no answer' });
    expect(await clockOf(id)).toMatchObject({ again_s: about(pause) });
    await pass(id, pause + 1);
    expect(await payments.getAny(db, id)).toMatchObject({ error_code: 'provider_unavailable' });
  }
  await tell(id, { ...nothing, status: 'pending' });
  expect(await clockOf(id)).toMatchObject({ again_s: null });
});

test('an answer to an older question does not pay for a later one that had none', async () => {
  const id = await completed();
  const older = await steps.begin(db, id, { is_capture: false });
  await steps.begin(db, id, { is_capture: false });
  await questions.unanswered(db, id, { message: 'no answer' });
  await steps.record(db, id, paid(id), older);
  expect(await clockOf(id)).toMatchObject({ again_s: about(60) });
});

test('an order that the provider does not know for a day has failed; money that comes after it is credited', async () => {
  const id = await makeSession();
  await tell(id, { ...nothing, status: 'pending' });
  const gone = () => questions.unanswered(db, id, { message: 'not known', is_gone: true });
  await gone();
  await pass(id, 23 * HOUR_S);
  await gone();
  expect(await payments.getAny(db, id)).toMatchObject({ status: 'capturing' });
  await tell(id, { ...nothing, status: 'pending' });
  await pass(id, 2 * HOUR_S);
  await gone();
  expect(await payments.getAny(db, id)).toMatchObject({ status: 'capturing' });
  await pass(id, 25 * HOUR_S);
  await questions.unanswered(db, id, { message: 'an outage says nothing of it' });
  expect(await payments.getAny(db, id)).toMatchObject({ status: 'capturing' });
  await gone();
  expect(await payments.getAny(db, id)).toMatchObject({
    status: 'failed',
    error_code: 'provider_error',
  });
  await tell(id, paid(id));
  await steps.credit(db, id);
  expect(await payments.getAny(db, id)).toMatchObject({ status: 'completed', late: true });
});

/** Longer than a busy machine takes for a question, and less than until its asker is given up. */
const PAUSE_S = 25;

test('people who ask at one time share a question; after its answer the next one waits for a pause', async () => {
  const id = await makeSession();
  const ask = () => questions.ask(db, id, { pause_s: PAUSE_S });
  const [first, ...others] = await Promise.all(Array.from({ length: 10 }, ask));
  expect(first).toEqual(expect.any(Number));
  expect(new Set(others)).toEqual(new Set([first]));
  await tell(id, { ...nothing, status: 'open' });
  expect(await ask()).toBe(first);
  const { reading } = await steps.begin(db, id, { is_capture: false });
  const answer = { ...nothing, status: 'open' };
  await steps.record(db, id, answer, { reading, asked: first });
  expect(await ask()).toBeUndefined();
  await pass(id, PAUSE_S);
  const second = await ask();
  expect(second).toBe((first as number) + 1);
  await questions.unanswered(db, id, { message: 'no answer', asked: second });
  expect(await ask()).toBeUndefined();
  await pass(id, PAUSE_S);
  const third = await ask();
  expect(await ask()).toBe(third);
  // Whoever was to answer it is dead.
  await pass(id, 31);
  expect(await ask()).toBe((third as number) + 1);
});

test('a payment that its provider does not know for a day fails beside one who holds its organization, without a deadlock', async () => {
  const id = await makeSession();
  await steps.begin(db, id, { is_capture: true });
  await questions.unanswered(db, id, { message: 'not found', is_gone: true });
  await pass(id, DAY_S + 1);
  let unanswered: Promise<void> | undefined;
  await db.transaction(async (trx) => {
    await many(trx, 'select from lock_organization(:org_id)', { org_id: tenant.org_id });
    unanswered = questions.unanswered(db, id, { message: 'not found', is_gone: true });
    await until(async () => (await locksAwaited(db)) === 1);
    // As one who records the payment does.
    await trx('payment_sessions').where({ id }).update({ provider_message: 'recorded' });
  });
  await unanswered;
  expect(await payments.getAny(db, id)).toMatchObject({
    status: 'failed',
    error_code: 'provider_error',
  });
});
