import { mkdtempSync, rmSync } from 'node:fs';
import type { Server } from 'node:http';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { CheckoutPaymentIntent, OrdersController } from '@paypal/paypal-server-sdk';
import type Stripe from 'stripe';
import { listen } from '../../../runtime/listen';
import { createPaymentServerA } from '../../../sandbox/payments/a/provider';
import { createPaymentServerB } from '../../../sandbox/payments/b/provider';
import type { Order, StoredEvent } from '../../../sandbox/payments/store';
import {
  close,
  type Inbox,
  openInbox,
  operator,
  paypalClient,
  pressFirst,
  stripeClient,
} from '../../support/payments/sandbox';
import { until } from '../../support/until';

let folder: string;
let servers: Server[];
let url_a: string;
let url_b: string;
let inbox: Inbox;
let orders: OrdersController;
/** The same, for a call whose answer never comes. */
let impatient: OrdersController;
let stripe: Stripe;

async function open(): Promise<void> {
  const more = { webhook_url: inbox.url, retry_ms: [20] };
  const a = createPaymentServerA({ ...more, file: path.join(folder, 'a.jsonl') });
  const b = createPaymentServerB({ ...more, file: path.join(folder, 'b.jsonl') });
  servers = [a, b];
  url_a = `http://127.0.0.1:${await listen(a, 0)}`;
  url_b = `http://127.0.0.1:${await listen(b, 0)}`;
  orders = new OrdersController(paypalClient(url_a));
  impatient = new OrdersController(paypalClient(url_a, 1_000));
  stripe = stripeClient(url_b);
}

beforeAll(async () => {
  folder = mkdtempSync(path.join(tmpdir(), 'payments-'));
  inbox = await openInbox();
  await open();
});

afterAll(async () => {
  await Promise.all(servers.map(close));
  await inbox.close();
  rmSync(folder, { recursive: true });
});

beforeEach(async () => {
  inbox.answer = () => 200;
  await inbox.clear(url_a, url_b);
  for (const url of [url_a, url_b]) await fetch(`${url}/sandbox/faults`, { method: 'DELETE' });
});

let last = 0;
async function approved(): Promise<string> {
  last += 1;
  const { result } = await orders.createOrder({
    paypalRequestId: `create_${last}`,
    body: {
      intent: CheckoutPaymentIntent.Capture,
      purchaseUnits: [{ amount: { currencyCode: 'EUR', value: '50.00' }, customId: `s_${last}` }],
      paymentSource: {
        paypal: {
          experienceContext: {
            returnUrl: 'http://127.0.0.1:3000',
            cancelUrl: 'http://127.0.0.1:3000',
          },
        },
      },
    },
  });
  const id = result.id as string;
  await pressFirst(`${url_a}/checkoutnow?token=${id}`);
  return id;
}

const capture = (id: string, by = orders) =>
  by.captureOrder({ id, paypalRequestId: `capture_${id}` });

const stateA = async (id: string) =>
  (await operator<{ order: Order }>(url_a, `orders/${id}`)).order;

const events = async () => (await operator<{ events: StoredEvent[] }>(url_a, 'events')).events;

test('a capture whose answer never comes is done once', async () => {
  const id = await approved();
  await operator(url_a, 'faults', { on: 'capture', order: id, answer: 'timeout' });
  // A token first, for which there is as little time.
  await until(() =>
    impatient.getOrder({ id }).then(
      () => true,
      () => false,
    ),
  );
  await expect(capture(id, impatient)).rejects.toThrow();
  await until(async () => (await stateA(id)).capture !== null);
  const { capture: taken } = await stateA(id);
  expect(taken).toMatchObject({ status: 'completed', amount: 5_000 });
  const again = await capture(id);
  expect(again.statusCode).toBe(200);
  expect(again.result.purchaseUnits?.[0]?.payments?.captures?.[0]?.id).toBe(taken?.id);
});

test.each([
  [true, 'paid'],
  [false, 'approved'],
])('an error with the work done = %s leaves the order %s', async (work, status) => {
  const id = await approved();
  await operator(url_a, 'faults', { on: 'capture', order: id, answer: 'error', work });
  await expect(capture(id)).rejects.toMatchObject({ statusCode: 500 });
  expect((await stateA(id)).status).toBe(status);
  expect((await capture(id)).result.status).toBe('COMPLETED');
});

test('provider B repeats a 500 under its key, and says the truth when asked', async () => {
  const payment_intent = await paidIntent();
  const options = { idempotencyKey: `refund_${last}` };
  await operator(url_b, 'faults', { on: 'refund', answer: 'error' });
  for (let tries = 0; tries < 2; tries += 1)
    await expect(stripe.refunds.create({ payment_intent }, options)).rejects.toMatchObject({
      statusCode: 500,
    });
  expect((await stripe.refunds.list({ payment_intent })).data).toHaveLength(1);
});

async function paidIntent(): Promise<string> {
  last += 1;
  const session = await stripe.checkout.sessions.create({
    mode: 'payment',
    line_items: [
      {
        quantity: 1,
        price_data: { currency: 'eur', unit_amount: 5_000, product_data: { name: 'Top-up' } },
      },
    ],
    client_reference_id: `s_${last}`,
    success_url: 'http://127.0.0.1:3000',
  });
  await pressFirst(session.url as string);
  return (await stripe.checkout.sessions.retrieve(session.id)).payment_intent as string;
}

test('another amount, another currency and a declined capture are taken as the script says', async () => {
  const id = await approved();
  await operator(url_a, 'faults', { on: 'capture', amount: '5.00', currency: 'USD' });
  const { result } = await capture(id);
  expect(result.purchaseUnits?.[0]?.payments?.captures?.[0]?.amount).toEqual({
    currencyCode: 'USD',
    value: '5.00',
  });
  const other = await approved();
  await operator(url_a, 'faults', { on: 'capture', result: 'declined' });
  const declined = (await capture(other)).result;
  expect(declined.status).toBe('COMPLETED');
  expect(declined.purchaseUnits?.[0]?.payments?.captures?.[0]?.status).toBe('DECLINED');
});

test('a slow answer comes late, a script for another order does not apply', async () => {
  const id = await approved();
  await operator(url_a, 'faults', { on: 'read', order: 'another', answer: 'error' });
  await operator(url_a, 'faults', { on: 'read', order: `s_${last}`, delay_ms: 150 });
  const since = performance.now();
  await orders.getOrder({ id });
  expect(performance.now() - since).toBeGreaterThanOrEqual(149);
});

test('an event is repeated until it is taken, each time with a new signature', async () => {
  inbox.answer = () => (inbox.deliveries.length < 3 ? 503 : 200);
  await approved();
  await until(() => inbox.deliveries.length === 3);
  const sent = inbox.deliveries.map(({ headers }) => headers['paypal-transmission-id']);
  expect(new Set(sent).size).toBe(3);
  await until(async () => (await events()).at(-1)?.state === 'ended');
  expect((await events()).at(-1)).toMatchObject({ tries: 3, delivered: 1, last_answer: '200' });
});

test('events are blocked, sent again on demand, doubled, delayed and reordered', async () => {
  await operator(url_a, 'faults', { on: 'webhook', blocked: true });
  const id = await approved();
  expect(inbox.deliveries).toHaveLength(0);
  await operator(url_a, `orders/${id}/resend`, {});
  await inbox.first('CHECKOUT.ORDER.APPROVED');
  inbox.deliveries.length = 0;
  await operator(url_a, 'faults', { on: 'webhook', duplicates: 19 });
  await approved();
  await until(() => inbox.deliveries.length === 20);
  expect(new Set(inbox.deliveries.map(({ body }) => body.toString())).size).toBe(1);
  inbox.deliveries.length = 0;
  await operator(url_a, 'faults', { on: 'webhook', reordered: true });
  await capture(await approved());
  await until(() => inbox.deliveries.length === 2);
  expect(inbox.deliveries.map(({ type }) => type)).toEqual([
    'PAYMENT.CAPTURE.COMPLETED',
    'CHECKOUT.ORDER.APPROVED',
  ]);
});

test('after a restart a paid order is still paid, and an event on its way is delivered', async () => {
  const id = await approved();
  await capture(id);
  inbox.answer = () => 500;
  const waiting = await approved();
  await until(async () => ((await events()).at(-1)?.tries ?? 0) > 0);
  await Promise.all(servers.map(close));
  inbox.answer = () => 200;
  inbox.deliveries.length = 0;
  await open();
  expect((await orders.getOrder({ id })).result.status).toBe('COMPLETED');
  expect((await capture(id)).statusCode).toBe(200);
  const { body } = await inbox.first('CHECKOUT.ORDER.APPROVED');
  expect(JSON.parse(body.toString()).resource.id).toBe(waiting);
});

test('a wrong script is refused, and arrivals are shown', async () => {
  await expect(operator(url_a, 'faults', { on: 'nowhere' })).rejects.toThrow('on');
  await expect(operator(url_a, 'orders/none/pay', {})).rejects.toThrow('There is no');
  await approved();
  const { requests } = await operator<{ requests: { path: string; status: number }[] }>(
    url_a,
    'requests',
  );
  expect(requests).toContainEqual(
    expect.objectContaining({ path: '/v2/checkout/orders', status: 201 }),
  );
});
