import type { Server } from 'node:http';
import {
  ApiError,
  CheckoutPaymentIntent,
  OrdersController,
  PaymentsController,
  PaypalWalletContextShippingPreference,
} from '@paypal/paypal-server-sdk';
import { listen } from '../../../runtime/listen';
import { createPaymentServerA, sandboxAccessA } from '../../../sandbox/payments/a/provider';
import {
  close,
  type Delivery,
  type Inbox,
  openInbox,
  operator,
  paypalClient,
  pressFirst,
} from '../../support/payments/sandbox';

let server: Server;
let url: string;
let inbox: Inbox;
let orders: OrdersController;
let payments: PaymentsController;

beforeAll(async () => {
  inbox = await openInbox();
  server = createPaymentServerA({ webhook_url: inbox.url, retry_ms: [20] });
  url = `http://127.0.0.1:${await listen(server, 0)}`;
  const client = paypalClient(url);
  orders = new OrdersController(client);
  payments = new PaymentsController(client);
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
function ask(value = '50.00', currencyCode = 'EUR') {
  last += 1;
  return {
    intent: CheckoutPaymentIntent.Capture,
    purchaseUnits: [{ amount: { currencyCode, value }, customId: `session_${last}` }],
    paymentSource: {
      paypal: {
        experienceContext: {
          returnUrl: 'http://127.0.0.1:3000/done?from=a',
          cancelUrl: 'http://127.0.0.1:3000/canceled',
          shippingPreference: PaypalWalletContextShippingPreference.NoShipping,
        },
      },
    },
  };
}

async function create(body = ask(), key = `create_${last}`) {
  const { result, statusCode } = await orders.createOrder({ body, paypalRequestId: key });
  const link = result.links?.find(({ rel }) => rel === 'payer-action')?.href;
  return { id: result.id as string, status: result.status, page: link as string, statusCode };
}

const read = async (id: string) => (await orders.getOrder({ id })).result;

const capture = async (id: string, key = `capture_${id}`) =>
  (await orders.captureOrder({ id, paypalRequestId: key })).result.purchaseUnits?.[0]?.payments
    ?.captures?.[0];

async function captured() {
  const { id, page } = await create();
  await pressFirst(page);
  return { id, capture_id: (await capture(id))?.id as string };
}

interface Problem {
  name: string;
  debug_id: string;
  details?: { issue: string; field?: string }[];
}

/** The status of a refusal and its first issue. */
async function refusal(doing: Promise<unknown>): Promise<[number, string | undefined]> {
  const error = await doing.then(
    () => undefined,
    (thrown) => thrown,
  );
  if (!(error instanceof ApiError)) throw error ?? new Error('It was not refused.');
  const problem = JSON.parse(error.body as string) as Problem;
  return [error.statusCode, problem.details?.[0]?.issue];
}

test('the official client makes an order that a person approves on its page, and captures it once', async () => {
  const { id, status, page } = await create();
  expect(status).toBe('PAYER_ACTION_REQUIRED');
  expect(await refusal(capture(id))).toEqual([422, 'ORDER_NOT_APPROVED']);
  const pressed = await pressFirst(page);
  expect(pressed.status).toBe(303);
  const back = new URL(pressed.headers.get('location') as string);
  expect(back.searchParams.get('token')).toBe(id);
  expect(back.searchParams.get('PayerID')).toMatch(/^[A-Z0-9]{13}$/);
  expect(await read(id)).toMatchObject({ status: 'APPROVED' });
  const first = await capture(id);
  expect(first).toMatchObject({
    status: 'COMPLETED',
    amount: { currencyCode: 'EUR', value: '50.00' },
    customId: `session_${last}`,
  });
  expect(await capture(id)).toEqual(first);
  expect(await refusal(capture(id, 'another key'))).toEqual([422, 'ORDER_ALREADY_CAPTURED']);
  const whole = await read(id);
  expect(whole.status).toBe('COMPLETED');
  expect(whole.purchaseUnits?.[0]?.payments?.captures?.[0]?.id).toBe(first?.id);
});

test('the same request id gives the same order with 200', async () => {
  const one = await create();
  const two = await create(ask(), `create_${last - 1}`);
  expect([one.statusCode, two.statusCode]).toEqual([201, 200]);
  expect(two.id).toBe(one.id);
});

test('what is captured is refunded in parts, once for each request id, and never above it', async () => {
  const { id, capture_id } = await captured();
  const refund = async (value: string, key: string) =>
    (
      await payments.refundCapturedPayment({
        captureId: capture_id,
        paypalRequestId: key,
        body: { amount: { currencyCode: 'EUR', value }, customId: key },
      })
    ).result;
  const first = await refund('20.00', 'refund_1');
  expect(await refund('20.00', 'refund_1')).toEqual(first);
  expect(await refusal(refund('40.00', 'refund_2'))).toEqual([422, 'REFUND_AMOUNT_EXCEEDED']);
  await refund('30.00', 'refund_3');
  expect(await refusal(refund('1.00', 'refund_4'))).toEqual([422, 'CAPTURE_FULLY_REFUNDED']);
  const { result } = await payments.getRefund({ refundId: first.id as string });
  expect(result).toMatchObject({
    status: 'COMPLETED',
    customId: 'refund_1',
    amount: { value: '20.00' },
  });
  const made = (await read(id)).purchaseUnits?.[0]?.payments?.refunds;
  expect(made?.map(({ customId }) => customId)).toEqual(['refund_1', 'refund_3']);
  const kept = await payments.getCapturedPayment({ captureId: capture_id });
  expect(kept.result.status).toBe('REFUNDED');
});

test.each(['HUF', 'JPY', 'TWD'])('%s takes no decimals', async (currency) => {
  expect(await create(ask('500', currency))).toMatchObject({ statusCode: 201 });
  expect(await refusal(create(ask('500.00', currency)))).toEqual([422, 'DECIMALS_NOT_SUPPORTED']);
});

test('wrong requests are refused in the words of PayPal', async () => {
  expect(await refusal(create(ask('5.001')))).toEqual([422, 'DECIMAL_PRECISION']);
  expect(await refusal(create(ask('0.00')))).toEqual([422, 'CANNOT_BE_ZERO_OR_NEGATIVE']);
  expect(await refusal(create(ask('5.00', 'ISK')))).toEqual([422, 'CURRENCY_NOT_SUPPORTED']);
  expect(await refusal(read('NOSUCHORDER'))).toEqual([404, 'INVALID_RESOURCE_ID']);
  const answer = await fetch(`${url}/v2/checkout/orders/X`, {
    headers: { authorization: 'Bearer other' },
  });
  expect(answer.status).toBe(401);
});

test('a declined instrument is refused until the buyer approves again', async () => {
  const { id, page } = await create();
  const pressed = await fetch(`${url}/checkout/${id}/decline`, {
    method: 'POST',
    redirect: 'manual',
  });
  expect(pressed.status).toBe(303);
  expect(await refusal(capture(id))).toEqual([422, 'INSTRUMENT_DECLINED']);
  await pressFirst(page);
  expect(await capture(id)).toMatchObject({ status: 'COMPLETED' });
});

test('an order whose time is over is gone, and cannot be captured', async () => {
  const { id, page } = await create();
  await pressFirst(page);
  await operator(url, `orders/${id}/expire`, {});
  expect(await refusal(capture(id))).toEqual([422, 'ORDER_EXPIRED']);
  expect(await refusal(read(id))).toEqual([404, 'INVALID_RESOURCE_ID']);
});

async function askToken(): Promise<string> {
  const { client_id, client_secret } = sandboxAccessA;
  const pair = Buffer.from(`${client_id}:${client_secret}`).toString('base64');
  const answer = await fetch(`${url}/v1/oauth2/token`, {
    method: 'POST',
    headers: { authorization: `Basic ${pair}` },
    body: new URLSearchParams({ grant_type: 'client_credentials' }),
  });
  return ((await answer.json()) as { access_token: string }).access_token;
}

async function verify({ headers }: Delivery, event: string, more: object = {}): Promise<string> {
  const named = {
    auth_algo: headers['paypal-auth-algo'],
    cert_url: headers['paypal-cert-url'],
    transmission_id: headers['paypal-transmission-id'],
    transmission_sig: headers['paypal-transmission-sig'],
    transmission_time: headers['paypal-transmission-time'],
    webhook_id: sandboxAccessA.webhook_id,
    ...more,
  };
  const answer = await fetch(`${url}/v1/notifications/verify-webhook-signature`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${await askToken()}`,
      'content-type': 'application/json',
    },
    body: `${JSON.stringify(named).slice(0, -1)},"webhook_event":${event}}`,
  });
  return ((await answer.json()) as { verification_status: string }).verification_status;
}

test('a webhook is verified by the bytes that came, and by nothing else', async () => {
  const { id, capture_id } = await captured();
  const approved = JSON.parse((await inbox.first('CHECKOUT.ORDER.APPROVED')).body.toString());
  expect(approved.resource.id).toBe(id);
  const delivery = await inbox.first('PAYMENT.CAPTURE.COMPLETED');
  const event = delivery.body.toString();
  expect(JSON.parse(event).resource).toMatchObject({
    id: capture_id,
    supplementary_data: { related_ids: { order_id: id } },
  });
  expect(await verify(delivery, event)).toBe('SUCCESS');
  expect(await verify(delivery, event.replace('50.00', '90.00'))).toBe('FAILURE');
  expect(await verify(delivery, JSON.stringify(JSON.parse(event)))).toBe('FAILURE');
  expect(await verify(delivery, event, { webhook_id: 'WH-OTHER' })).toBe('FAILURE');
  expect(await verify(delivery, event, { cert_url: 'http://127.0.0.1:9/certs/x' })).toBe('FAILURE');
  expect(await verify(delivery, event, { transmission_id: 'other' })).toBe('FAILURE');
});

test.each([
  ['pending', 'PENDING', 'BUYER_COMPLAINT'],
  ['declined', 'DECLINED', 'CHARGEBACK'],
])('a dispute may make its capture %s until it is decided', async (capture, status, reason) => {
  const { id } = await captured();
  const shown = async () => {
    const headers = { authorization: `Bearer ${await askToken()}` };
    const answer = await fetch(`${url}/v2/checkout/orders/${id}`, { headers });
    const { purchase_units } = (await answer.json()) as {
      purchase_units: { payments: { captures: object[] } }[];
    };
    return purchase_units[0]?.payments.captures;
  };
  await operator(url, `orders/${id}/open-dispute`, { amount: '20.00', capture });
  expect(await shown()).toMatchObject([{ status, status_details: { reason } }]);
  await operator(url, `orders/${id}/win-dispute`, {});
  expect(await shown()).toMatchObject([{ status: 'COMPLETED' }]);
});

test('a dispute is listed by its capture, and its own page tells how it ended', async () => {
  const { id, capture_id } = await captured();
  await operator(url, `orders/${id}/open-dispute`, { amount: '20.00' });
  await operator(url, `orders/${id}/lose-dispute`, {});
  await inbox.first('CUSTOMER.DISPUTE.RESOLVED');
  const headers = { authorization: `Bearer ${await askToken()}` };
  const path = `${url}/v1/customer/disputes`;
  const list = await fetch(`${path}?disputed_transaction_id=${capture_id}`, { headers });
  const listed = (await list.json()) as { items: { dispute_id: string }[] };
  expect(listed.items).toMatchObject([{ status: 'RESOLVED', dispute_amount: { value: '20.00' } }]);
  const page = await fetch(`${path}/${listed.items[0]?.dispute_id}`, { headers });
  expect(await page.json()).toMatchObject({
    dispute_outcome: { outcome_code: 'RESOLVED_BUYER_FAVOUR' },
    disputed_transactions: [{ seller_transaction_id: capture_id }],
  });
});
