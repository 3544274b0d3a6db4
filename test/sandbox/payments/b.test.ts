import type { Server } from 'node:http';
import type Stripe from 'stripe';
import { listen } from '../../../runtime/listen';
import { createPaymentServerB, sandboxAccessB } from '../../../sandbox/payments/b/provider';
import {
  close,
  type Inbox,
  openInbox,
  operator,
  pressFirst,
  stripeClient,
} from '../../support/payments/sandbox';

let server: Server;
let url: string;
let inbox: Inbox;
let stripe: Stripe;

beforeAll(async () => {
  inbox = await openInbox();
  server = createPaymentServerB({ webhook_url: inbox.url, retry_ms: [20] });
  url = `http://127.0.0.1:${await listen(server, 0)}`;
  stripe = stripeClient(url);
});

afterAll(async () => {
  await close(server);
  await inbox.close();
});

beforeEach(async () => {
  await inbox.clear(url);
  await fetch(`${url}/sandbox/faults`, { method: 'DELETE' });
});

let last = 0;
function ask(more: { currency?: string; unit_amount?: number; expires_at?: number } = {}) {
  const { currency = 'eur', unit_amount = 5_000, ...rest } = more;
  last += 1;
  return {
    mode: 'payment' as const,
    line_items: [
      { quantity: 1, price_data: { currency, unit_amount, product_data: { name: 'Top-up' } } },
    ],
    client_reference_id: `session_${last}`,
    metadata: { payment_session_id: `session_${last}` },
    payment_intent_data: { metadata: { payment_session_id: `session_${last}` } },
    success_url: 'http://127.0.0.1:3000/done?session={CHECKOUT_SESSION_ID}',
    cancel_url: 'http://127.0.0.1:3000/canceled',
    ...rest,
  };
}

const create = (more = {}, options: Stripe.RequestOptions = {}) =>
  stripe.checkout.sessions.create(ask(more), options);

async function paid(more = {}) {
  const { id, url: page } = await create(more);
  await pressFirst(page as string);
  return read(id);
}

const read = (id: string) =>
  stripe.checkout.sessions.retrieve(id, { expand: ['payment_intent.latest_charge'] });

const intentOf = ({ payment_intent }: Stripe.Checkout.Session) =>
  payment_intent as Stripe.PaymentIntent;

const failure = (doing: Promise<unknown>) =>
  doing.then(
    () => undefined,
    (error: Stripe.errors.StripeError) => error,
  );

test('the official client makes a checkout that a person pays on its page', async () => {
  const made = await create();
  expect(made).toMatchObject({ status: 'open', payment_status: 'unpaid', payment_intent: null });
  const pressed = await pressFirst(made.url as string);
  expect(pressed.status).toBe(303);
  expect(pressed.headers.get('location')).toBe(`http://127.0.0.1:3000/done?session=${made.id}`);
  const session = await read(made.id);
  expect(session).toMatchObject({
    status: 'complete',
    payment_status: 'paid',
    amount_total: 5_000,
    currency: 'eur',
    url: null,
    payment_intent: { status: 'succeeded', amount_received: 5_000, latest_charge: { paid: true } },
  });
});

test('what is paid is refunded in parts, once for each key, and never above what was paid', async () => {
  const { id: payment_intent, latest_charge } = intentOf(await paid());
  const refund = (amount: number, idempotencyKey: string) =>
    stripe.refunds.create(
      { payment_intent, amount, metadata: { payment_refund_id: idempotencyKey } },
      { idempotencyKey },
    );
  const first = await refund(2_000, 'refund_1');
  expect(await refund(2_000, 'refund_1')).toEqual(first);
  expect(await failure(refund(4_000, 'refund_2'))).toMatchObject({
    statusCode: 400,
    param: 'amount',
  });
  expect(await failure(refund(1_000, 'refund_1'))).toMatchObject({
    type: 'StripeIdempotencyError',
  });
  await refund(3_000, 'refund_3');
  expect(await failure(refund(1, 'refund_4'))).toMatchObject({ code: 'charge_already_refunded' });
  const listed = await stripe.refunds.list({ payment_intent });
  expect(listed.data.map(({ metadata, status }) => [metadata?.payment_refund_id, status])).toEqual([
    ['refund_3', 'succeeded'],
    ['refund_1', 'succeeded'],
  ]);
  expect(await stripe.refunds.retrieve(first.id)).toMatchObject({ amount: 2_000 });
  const charge = await stripe.charges.retrieve((latest_charge as Stripe.Charge).id);
  expect(charge).toMatchObject({ refunded: true, amount_refunded: 5_000 });
});

test('the same idempotency key gives the same checkout, another body is refused', async () => {
  const asked = ask();
  const options = { idempotencyKey: 'create-1' };
  const one = await stripe.checkout.sessions.create(asked, options);
  const two = await stripe.checkout.sessions.create(asked, options);
  expect(two.id).toBe(one.id);
  expect(two.lastResponse.headers['idempotent-replayed']).toBe('true');
  expect(await failure(create({ unit_amount: 1 }, options))).toMatchObject({
    type: 'StripeIdempotencyError',
  });
});

test('a webhook has a signature that the official client accepts, and only for these bytes', async () => {
  const { id } = await paid();
  const { body, headers } = await inbox.first('checkout.session.completed');
  const signature = headers['stripe-signature'] as string;
  const { webhook_secret } = sandboxAccessB;
  const event = stripe.webhooks.constructEvent(body, signature, webhook_secret);
  expect(event.data.object).toMatchObject({ id, payment_status: 'paid' });
  const tampered = body.toString().replace('5000', '9000');
  const again = JSON.stringify(JSON.parse(body.toString()));
  for (const other of [tampered, again])
    expect(() => stripe.webhooks.constructEvent(other, signature, webhook_secret)).toThrow();
  expect(() => stripe.webhooks.constructEvent(body, signature, 'whsec_other')).toThrow();
});

test.each([
  ['isk', 50_000, 50_050],
  ['kwd', 1_230, 1_234],
  ['ugx', 100, 150],
])('%s has the digits of Stripe', async (currency, good, bad) => {
  expect(await create({ currency, unit_amount: good })).toMatchObject({ amount_total: good });
  expect(await failure(create({ currency, unit_amount: bad }))).toMatchObject({
    statusCode: 400,
    param: 'line_items[0][price_data][unit_amount]',
  });
});

test('wrong requests are refused in the words of Stripe', async () => {
  const soon = Math.floor(Date.now() / 1_000) + 60;
  expect(await failure(create({ expires_at: soon }))).toMatchObject({ param: 'expires_at' });
  expect(await failure(create({ currency: 'xyz' }))).toMatchObject({ statusCode: 400 });
  expect(await failure(read('cs_test_none'))).toMatchObject({ code: 'resource_missing' });
  expect(await failure(create({ surprise: 1 }))).toMatchObject({ code: 'parameter_unknown' });
  const stranger = stripeClient(url, 'sk_test_other');
  expect(await failure(stranger.checkout.sessions.create(ask()))).toMatchObject({
    statusCode: 401,
  });
});

test('an ended checkout cannot be paid, a paid one cannot be ended', async () => {
  const { id, url: page } = await create();
  expect(await stripe.checkout.sessions.expire(id)).toMatchObject({ status: 'expired', url: null });
  await inbox.first('checkout.session.expired');
  await expect(pressFirst(page as string)).rejects.toThrow('no button');
  expect(await failure(stripe.checkout.sessions.expire((await paid()).id))).toMatchObject({
    statusCode: 400,
  });
});

test('a declined card leaves the checkout open', async () => {
  const { id, url: page } = await create();
  const answer = await fetch(`${url}/checkout/${id}/decline`, { method: 'POST' });
  expect(await answer.text()).toContain('declined');
  expect(await read(id)).toMatchObject({
    status: 'open',
    payment_status: 'unpaid',
    payment_intent: { status: 'requires_payment_method', last_payment_error: {} },
  });
  expect((await pressFirst(page as string)).status).toBe(303);
  expect(await read(id)).toMatchObject({ payment_status: 'paid' });
});

test('a payment on its way, a refund that fails and a lost dispute look as at Stripe', async () => {
  await operator(url, 'faults', { on: 'capture', result: 'pending' });
  const session = await paid();
  expect(session).toMatchObject({ status: 'complete', payment_status: 'unpaid' });
  await operator(url, `orders/${session.id}/complete-pending`, {});
  await inbox.first('checkout.session.async_payment_succeeded');
  expect(await read(session.id)).toMatchObject({ payment_status: 'paid' });
  await operator(url, 'faults', { on: 'refund', result: 'pending' });
  const payment_intent = intentOf(session).id;
  const made = await stripe.refunds.create({ payment_intent });
  expect(made.status).toBe('pending');
  await operator(url, `orders/${session.id}/fail-refund`, {});
  await inbox.first('refund.failed');
  expect(await stripe.refunds.retrieve(made.id)).toMatchObject({ status: 'failed' });
  await operator(url, `orders/${session.id}/open-dispute`, { amount: '20.00' });
  expect(await failure(stripe.refunds.create({ payment_intent }))).toMatchObject({
    code: 'charge_disputed',
  });
  await operator(url, `orders/${session.id}/lose-dispute`, {});
  const { data } = await stripe.disputes.list({ payment_intent });
  expect(data).toMatchObject([{ amount: 2_000, status: 'lost' }]);
});
