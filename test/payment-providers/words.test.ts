import { readFileSync } from 'node:fs';
import path from 'node:path';
import { CaptureStatus, OrderStatus, RefundStatus } from '@paypal/paypal-server-sdk';
import type { ProviderName } from '../../domain/payments/currencies';
import { isProviderRefusal } from '../../payment-providers/provider';
import * as a from '../../payment-providers/words-a';
import { meaningOf, type Words } from '../../payment-providers/words-a';
import * as b from '../../payment-providers/words-b';
import { lists, withWordsTable, wordsTable } from '../../payment-providers/words-table';
import { root } from '../../runtime/root';
import {
  closeServers,
  type OpenedSandboxes,
  openSandboxes,
  UNIT,
  wanted,
} from '../support/payments/providers';

// Each word that the providers document is decided, and walks through the sandbox and the adapter
// to what was decided; so does a word that nobody knows.

const A = 'payment_provider_a';
const B = 'payment_provider_b';
const NEW_WORD = 'A_WORD_OF_TOMORROW';
let opened: OpenedSandboxes;

beforeAll(async () => {
  opened = await openSandboxes();
});
beforeEach(async () => {
  for (const name of [A, B] as const) await opened.ask(name, 'DELETE', 'faults');
});
afterAll(closeServers);

const stripe = (file: string) =>
  readFileSync(path.join(root, `node_modules/stripe/cjs/resources/${file}.d.ts`), 'utf8');

/** The members of a union in the declarations of the official client. */
function unionOf(file: string, name: string): string[] {
  const found = new RegExp(`^    type ${name} = (.*);$`, 'm').exec(stripe(file))?.[1] ?? '';
  return [...found.matchAll(/'(\w+)'/g)].map(([, word = '']) => word);
}

/** The statuses of a refund, which the official client names in a comment only. */
function refundWords(): string[] {
  const said =
    /Status of the refund\. This can be (.*?)\. Learn/.exec(stripe('Refunds'))?.[1] ?? '';
  return [...said.matchAll(/`(\w+)`/g)].map(([, word = '']) => word);
}

test.each<[string, Words<string>, string[]]>([
  ['orders of A', a.orders, Object.values(OrderStatus)],
  ['captures of A', a.captures, Object.values(CaptureStatus)],
  ['refunds of A', a.refunds, Object.values(RefundStatus)],
  ['payments of B', b.payments, unionOf('Checkout/Sessions', 'PaymentStatus')],
  ['sessions of B', b.sessions, unionOf('Checkout/Sessions', 'Status')],
  ['intents of B', b.intents, unionOf('PaymentIntents', 'Status')],
  ['charges of B', b.charges, unionOf('Charges', 'Status')],
  ['refunds of B', b.refunds, refundWords()],
  ['disputes of B', b.disputes, unionOf('Disputes', 'Status')],
])(
  '%s: each word that the official client knows is decided, and no other',
  (_, { known }, documented) => {
    expect(documented.length).toBeGreaterThan(2);
    expect(Object.keys(known).sort()).toEqual([...documented].sort());
  },
);

test('the table of the document is that of the adapters; npm run words writes it', () => {
  const document = readFileSync(path.join(root, 'docs/payments.md'), 'utf8');
  expect(withWordsTable(document)).toBe(document);
  expect(document).toContain(wordsTable());
  for (const { words, does } of lists)
    for (const meaning of [...Object.values(words.known), words.unknown])
      expect([meaning, does[meaning]]).toEqual([meaning, expect.any(String)]);
});

test('a word that nobody knows ends no payment, gives no money back and takes none for good', () => {
  const kept = ['pending', 'open', 'by session', 'claim', 'provider_error', 'not read'];
  for (const { object, words } of lists)
    expect([object, kept.includes(words.unknown)]).toEqual([object, true]);
  expect(meaningOf(a.orders, 'constructor')).toBe('pending');
});

const cases = <Meaning>({ known, unknown }: Words<Meaning>): [string, Meaning][] => [
  ...Object.entries(known),
  [NEW_WORD, unknown],
];

/** What the adapter reads of a payment that its provider tells otherwise. */
async function readTold(name: ProviderName, order_id: string, set: object, more: object = {}) {
  await opened.fault(name, { on: 'read', order: order_id, set, times: 9, ...more });
  return opened.sandboxes[name].provider.read(order_id);
}

async function checkout(name: ProviderName): Promise<string> {
  return (await opened.sandboxes[name].provider.createCheckout(wanted())).order_id;
}

test.each(cases(a.orders))('an order of A that is %s is %s', async (word, meaning) => {
  const report = await readTold(A, await checkout(A), { '/status': word });
  expect(report).toMatchObject({ status: meaning, capture_id: null, amount_nanos: null });
});

const CAPTURES = '/purchase_units/0/payments/captures';

test.each(cases(a.captures))('a capture of A that is %s is %s', async (word, meaning) => {
  const { order_id } = await opened.paid(A);
  const report = await readTold(A, order_id, { [`${CAPTURES}/0/status`]: word });
  expect(report).toMatchObject({ status: meaning, amount_nanos: 50n * UNIT });
});

test.each(cases(a.captures))(
  'a dispute is told while its capture is %s, and nothing is said of it by a fresh look',
  async (word) => {
    const { order_id } = await opened.paid(A);
    await opened.act(A, order_id, 'open-dispute', { amount: '10.00' });
    const set = { [`${CAPTURES}/0/status`]: word };
    const open = { status: 'open', amount_nanos: 10n * UNIT };
    expect((await readTold(A, order_id, set)).disputes).toMatchObject([open]);
    const { provider } = opened.sandboxes[A];
    expect((await provider.read(order_id, { isFresh: true })).disputes).toBeNull();
  },
);

test.each([0, 1])(
  'a declined capture beside the one that was made says nothing, wherever it stands (%i)',
  async (at) => {
    const { order_id, report } = await opened.paid(A);
    const amount = { currency_code: 'EUR', value: '50.00' };
    const made = { id: report.capture_id, status: 'COMPLETED', amount };
    const captures = [made, { id: 'OTHER', status: 'DECLINED', amount }];
    if (at === 0) captures.reverse();
    const told = await readTold(A, order_id, { [CAPTURES]: captures });
    expect(told).toMatchObject({ status: 'captured', capture_id: report.capture_id });
  },
);

test('a capture of A that is refunded is refunded as a whole, whatever the list of refunds leaves out', async () => {
  const { order_id } = await opened.paid(A);
  const set = { [`${CAPTURES}/0/status`]: 'REFUNDED' };
  const whole = { status: 'succeeded', amount_nanos: 50n * UNIT };
  expect((await readTold(A, order_id, set)).refunds).toMatchObject([whole]);
  await opened.act(A, order_id, 'refund', { amount: '20.00' });
  const { refunds } = await readTold(A, order_id, set);
  expect(refunds.map(({ amount_nanos }) => amount_nanos)).toEqual([20n * UNIT, 30n * UNIT]);
  // One that failed took nothing back.
  await opened.ask(A, 'DELETE', 'faults');
  const failed = { '/purchase_units/0/payments/refunds/0/status': 'FAILED' };
  expect((await readTold(A, order_id, { ...set, ...failed })).refunds).toMatchObject([
    { status: 'failed', amount_nanos: 20n * UNIT },
    whole,
  ]);
});

test.each(cases(a.issues))('a capture of A refused with %s is %s', async (issue, meaning) => {
  const { provider } = opened.sandboxes[A];
  const order_id = await checkout(A);
  await opened.act(A, order_id, 'pay');
  const script = { on: 'capture', order: order_id, answer: 'error', work: false };
  await opened.fault(A, { ...script, status: 422, issue });
  const capturing = provider.capture(order_id, 'key').catch((error) => error);
  // Captured already: then the order is what counts.
  if (issue === 'ORDER_ALREADY_CAPTURED')
    return expect(await capturing).toMatchObject({ status: 'approved' });
  const refusal = await capturing;
  expect([isProviderRefusal(refusal), refusal.code]).toEqual([true, meaning]);
});

test.each(cases(a.refunds))('a refund of A that is %s is %s', async (word, meaning) => {
  const { order_id, refund, provider } = await opened.paid(A);
  await provider.refund(refund);
  const set = {
    '/purchase_units/0/payments/refunds/0/status': word,
    [`${CAPTURES}/0/status`]: 'COMPLETED',
  };
  expect((await readTold(A, order_id, set)).refunds).toMatchObject([{ status: meaning }]);
});

test.each(cases(a.stages))('a dispute of A in the stage %s is a %s', async (word, meaning) => {
  const { order_id } = await opened.paid(A);
  await opened.act(A, order_id, 'open-dispute');
  const report = await readTold(A, order_id, { '/items/0/dispute_life_cycle_stage': word });
  expect(report.disputes).toHaveLength(meaning === 'claim' ? 1 : 0);
});

test.each(cases(a.disputes))('a dispute of A that is %s is %s', async (word, meaning) => {
  const { order_id } = await opened.paid(A);
  await opened.act(A, order_id, 'open-dispute');
  await opened.act(A, order_id, 'lose-dispute');
  const { disputes } = await readTold(A, order_id, { '/status': word });
  expect(disputes).toMatchObject([{ status: meaning === 'by outcome' ? 'lost' : 'open' }]);
});

test.each(cases(a.outcomes))('a dispute of A that ended as %s is %s', async (word, meaning) => {
  const { order_id } = await opened.paid(A);
  await opened.act(A, order_id, 'open-dispute', { amount: '10.00' });
  await opened.act(A, order_id, 'refund', { amount: '10.00' });
  await opened.act(A, order_id, 'win-dispute');
  const report = await readTold(A, order_id, { '/dispute_outcome/outcome_code': word });
  const [refund] = report.refunds;
  expect(report.disputes).toMatchObject([
    { status: meaning, amount_nanos: 10n * UNIT, refund_ids: [refund?.provider_refund_id] },
  ]);
});

test.each(cases(b.payments))(
  'a session of B that is open and %s is read',
  async (word, meaning) => {
    const order_id = await checkout(B);
    const report = await readTold(B, order_id, { '/payment_status': word });
    // Paid without an intent is paid by nobody knows how much.
    expect(report.status).toBe(meaning === 'captured' ? 'pending' : 'open');
  },
);

test.each(cases(b.sessions))('a session of B that is %s is %s', async (word, meaning) => {
  const report = await readTold(B, await checkout(B), { '/status': word });
  expect(report.status).toBe(meaning === 'by intent' ? b.intents.unknown : meaning);
});

test.each(cases(b.intents))('an intent of B that is %s is %s', async (word, meaning) => {
  const order_id = await checkout(B);
  await opened.fault(B, { on: 'capture', order: order_id, result: 'pending' });
  await opened.act(B, order_id, 'pay');
  const set = { '/payment_intent/status': word, '/payment_intent/amount_received': 5_000 };
  expect((await readTold(B, order_id, set)).status).toBe(meaning);
});

test.each(cases(b.refunds))('a refund of B that is %s is %s', async (word, meaning) => {
  const { order_id, refund, provider } = await opened.paid(B);
  await provider.refund(refund);
  const told = { on: 'read-refund', order: order_id, set: { '/data/0/status': word } };
  await opened.fault(B, told);
  expect((await provider.read(order_id)).refunds).toMatchObject([{ status: meaning }]);
});

test.each(cases(b.disputes))('a dispute of B that is %s is %s', async (word, meaning) => {
  const { order_id } = await opened.paid(B);
  await opened.act(B, order_id, 'open-dispute');
  const { disputes } = await readTold(B, order_id, { '/data/0/status': word });
  expect(disputes).toMatchObject(meaning === 'no loss' ? [] : [{ status: meaning }]);
});

test.each([A, B] as const)('%s: lists in the other order tell the same', async (name) => {
  const { order_id, provider } = await opened.paid(name);
  for (const amount of ['5.00', '7.00', '2.00'])
    await opened.act(name, order_id, 'refund', { amount });
  const plain = await provider.read(order_id);
  const more = { reversed: true };
  await opened.fault(name, { on: 'read-refund', order: order_id, ...more });
  const { refunds, ...rest } = await readTold(name, order_id, {}, more);
  expect(refunds).toEqual([...plain.refunds].reverse());
  expect({ ...rest, refunds: [...refunds].reverse() }).toEqual(plain);
});
