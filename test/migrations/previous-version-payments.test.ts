import type { Db } from '../../domain/sql';
import { openTestDatabase } from '../support/database';
import { makeOrg, type TestOrg } from '../support/ledger';
import { paymentCalls, type Row, sender } from './previous-version';

// The payments of an API of the previous version on this version's database, as
// previous-version.test.ts is of the ledger.

const UNIT = 1_000_000_000n;
const payments = sender(paymentCalls);
let db: Db;
let close: () => Promise<void>;
let org: TestOrg;

beforeAll(async () => {
  ({ db, close } = await openTestDatabase());
  org = await makeOrg(db);
});
afterAll(() => close());

type Call = keyof typeof paymentCalls;
const send = (name: Call, bindings: Row = {}) => payments.send(db, name, bindings);
const row = (name: Call, bindings: Row = {}) => payments.row(db, name, bindings);

/** A payment session of 50 USD into the organization's wallet, whose checkout is open. */
async function openSession(): Promise<string> {
  const known = await row('lock_organization', { org_id: org.org_id });
  expect(known).toEqual({ currency: 'USD' });
  const [made] = await db('payment_sessions')
    .insert({
      org_id: org.org_id,
      created_by: 'key_buyer',
      provider: 'payment_provider_b',
      surface: 'console',
      amount_nanos: 50n * UNIT,
      currency: 'USD',
      target_wallet_owner_type: 'organization',
      wallet_id: org.org_wallet,
      return_url: 'http://127.0.0.1/return',
      cancel_url: 'http://127.0.0.1/cancel',
    })
    .returning('id');
  const { id } = made;
  const place = { order_id: `order-${id}`, approval_url: 'http://127.0.0.1/pay' };
  expect(await row('open_payment', { id, ...place })).toEqual({ status: 'created' });
  return id;
}

/** The provider says that it has so much of the money. */
async function capture(id: string, amount_nanos: bigint): Promise<Row> {
  const begun = await row('begin_payment_call', { id, is_capture: true });
  expect(begun).toMatchObject({ status: 'capturing', reading: 1 });
  const report = { status: 'captured', capture_id: `capture-${id}`, currency: 'USD' };
  const claims = { refunds: [], disputes: [] };
  const plain = JSON.stringify({ ...report, amount_nanos: String(amount_nanos), ...claims });
  return row('record_payment', { id, plain, reading: 1, is_asked: true });
}

test('a payment is captured, credited once and refunded', async () => {
  const id = await openSession();
  expect(await row('payment_step', { id })).toMatchObject({ status: 'created', next: 'wait' });
  expect(await send('payment_pause', { id })).toHaveLength(1);
  expect(await capture(id, 50n * UNIT)).toEqual({ status: 'captured' });
  await send('credit_payment', { id });
  await send('credit_payment', { id });
  const paid = await db('payment_sessions').where({ id }).first();
  expect(paid).toMatchObject({ status: 'completed', credited_nanos: 50n * UNIT });

  const wish = { payment_session_id: id, reason: 'test', by: 'key_buyer', allow_negative: false };
  const { refund_id } = await row('request_refund', wish);
  expect(await row('request_refund', wish)).toEqual({ code: null, refund_id });
  await send('debit_refund', { id: refund_id });
  const told = { status: 'succeeded', provider_refund_id: 're_1', message: null };
  await send('record_refund', { id: refund_id, ...told });
  const refunded = await db('payment_sessions').where({ id }).first();
  expect(refunded).toMatchObject({ status: 'refunded', debited_nanos: 50n * UNIT });
});

test('a payment of another amount is decided by an operator; one that nobody pays is closed', async () => {
  const id = await openSession();
  expect(await capture(id, 49n * UNIT)).toEqual({ status: 'failed' });
  const decision = { id, resolution: 'credited', amount_nanos: 49n * UNIT, by: 'op', note: 'ok' };
  expect(await row('resolve_payment', decision)).toEqual({ code: null });
  expect(await row('resolve_payment', decision)).toEqual({ code: 'repeated' });
  const end = { to: 'canceled', error_code: 'canceled_by_buyer', error_message: 'Canceled.' };
  expect(await row('close_payment', { id: await openSession(), ...end })).toEqual({
    status: 'canceled',
  });
});

test('payments and the ledger tell one story after all of these calls, and none of them was left out', async () => {
  expect(await send('audit_3')).toEqual([]);
  payments.expectAllSent();
});
