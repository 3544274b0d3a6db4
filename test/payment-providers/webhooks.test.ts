import Stripe from 'stripe';
import { type ProviderName, providerNames } from '../../domain/payments/currencies';
import { isProviderTrouble, type PaymentProvider } from '../../payment-providers/provider';
import { sandboxAccessA } from '../../sandbox/payments/a/provider';
import { sandboxAccessB } from '../../sandbox/payments/b/provider';
import {
  closeServers,
  type OpenedSandboxes,
  openSandboxes,
  over,
  type Posted,
  wanted,
} from '../support/payments/providers';
import { until } from '../support/until';

const [A, B] = providerNames as [ProviderName, ProviderName];

let sandboxes: OpenedSandboxes['sandboxes'];
let posted: OpenedSandboxes['posted'];
let ask: OpenedSandboxes['ask'];
let act: OpenedSandboxes['act'];
let arrivals: OpenedSandboxes['arrivals'];
let lost: OpenedSandboxes['lost'];
let paid: OpenedSandboxes['paid'];

beforeAll(async () => {
  ({ sandboxes, posted, ask, act, arrivals, lost, paid } = await openSandboxes());
});

afterAll(closeServers);

/** The webhook of a type, once it has come. */
async function news(type: string, about: string): Promise<Posted> {
  const isIt = ({ body }: Posted) => body.includes(`"${type}"`) && body.includes(about);
  await until(() => posted.some(isIt));
  return posted.find(isIt) as Posted;
}

/** A webhook of provider A, and of B, about an order that was just paid. */
async function paidNews(name: ProviderName): Promise<Posted & { order_id: string }> {
  const { order_id } = await paid(name);
  const type = name === A ? 'CHECKOUT.ORDER.APPROVED' : 'checkout.session.completed';
  return { ...(await news(type, order_id)), order_id };
}

/** An adapter that has these webhook secrets. */
function trusting(name: ProviderName, webhook_secrets: readonly string[]): PaymentProvider {
  return over(name, { ...sandboxes[name].access, webhook_secrets }).provider;
}

async function verifyCalls(): Promise<number> {
  return (await arrivals(A)).filter(({ path }) => path.includes('verify-webhook')).length;
}

test.each(providerNames)('%s: a webhook that the provider has signed is read', async (name) => {
  const { headers, body, order_id } = await paidNews(name);
  const event = await sandboxes[name].provider.verifyWebhook(headers, body);
  expect(event).toMatchObject({ topic: 'payment', order_id, id: JSON.parse(body.toString()).id });
  expect(event?.payment_session_id).toMatch(/^pay_/);
  // Delivered again it is the same.
  expect(await sandboxes[name].provider.verifyWebhook(headers, body)).toEqual(event);
});

test.each(providerNames)('%s: other bytes than those signed are not taken', async (name) => {
  const { headers, body, order_id } = await paidNews(name);
  const { provider } = sandboxes[name];
  const text = body.toString();
  const others = [
    text.replace(order_id, 'ANOTHER'),
    // The same JSON in another spelling.
    JSON.stringify(JSON.parse(text)),
    `${text}\n`,
    ` ${text}`,
    `{"id":"1","event_type":"x"}`,
    '[]',
    'null',
    '{',
    '',
    // A text that would break out of the JSON that it is put into.
    `{},"webhook_id":"${sandboxAccessA.webhook_id}","x":{}`,
  ];
  for (const other of others)
    expect(await provider.verifyWebhook(headers, Buffer.from(other))).toBeUndefined();
});

test.each(providerNames)(
  '%s: a webhook without a part of its signature is not taken',
  async (name) => {
    const { headers, body } = await paidNews(name);
    const { provider } = sandboxes[name];
    const parts = Object.keys(headers).filter(
      (header) => /^(paypal|stripe)-/.test(header) && header !== 'paypal-auth-version',
    );
    await ask(A, 'DELETE', 'requests');
    expect(parts.length).toBe(name === A ? 5 : 1);
    for (const part of parts)
      for (const value of [undefined, ''])
        expect(await provider.verifyWebhook({ ...headers, [part]: value }, body)).toBeUndefined();
    expect(await provider.verifyWebhook({}, body)).toBeUndefined();
    expect(await verifyCalls()).toBe(0);
  },
);

test.each(providerNames)('%s: without a webhook secret nobody can post', async (name) => {
  const { headers, body } = await paidNews(name);
  await ask(A, 'DELETE', 'requests');
  for (const secrets of [[], ['']])
    expect(await trusting(name, secrets).verifyWebhook(headers, body)).toBeUndefined();
  const signed = Stripe.webhooks.generateTestHeaderString({
    payload: body.toString(),
    secret: ' ',
  });
  const forged = { ...headers, 'stripe-signature': signed };
  expect(await trusting(name, ['']).verifyWebhook(forged, body)).toBeUndefined();
  expect(await verifyCalls()).toBe(0);
});

test.each(providerNames)('%s: a rotated secret is good besides the new one', async (name) => {
  const { headers, body } = await paidNews(name);
  const [old = ''] = sandboxes[name].access.webhook_secrets;
  const verified = async (secrets: string[]) =>
    (await trusting(name, secrets).verifyWebhook(headers, body)) !== undefined;
  expect(await verified(['new-secret', old])).toBe(true);
  expect(await verified([old, 'new-secret'])).toBe(true);
  expect(await verified(['new-secret'])).toBe(false);
});

test('where provider A cannot be asked, a webhook is neither taken nor refused', async () => {
  const { headers, body } = await paidNews(A);
  const { provider } = sandboxes[A];
  for (const answer of ['error', 'timeout', 'reset']) {
    const error = await lost(A, { on: 'verify', answer }, () =>
      provider.verifyWebhook(headers, body),
    );
    expect(isProviderTrouble(error)).toBe(true);
  }
  expect(await provider.verifyWebhook(headers, body)).toBeDefined();
});

test('provider B: what the official package takes and refuses, the adapter takes and refuses', async () => {
  const { headers, body } = await paidNews(B);
  const secret = sandboxAccessB.webhook_secret;
  const { provider } = sandboxes[B];
  const now = Math.floor(Date.now() / 1_000);
  const payload = body.toString();
  const at = (timestamp: number, key = secret) =>
    Stripe.webhooks.generateTestHeaderString({ payload, secret: key, timestamp });
  const [, good] = at(now).split('v1=');
  const expected: [string, boolean][] = [
    [headers['stripe-signature'] ?? '', true],
    [at(now), true],
    [at(now - 240), true],
    [at(now - 310), false],
    [at(now + 290), true],
    [at(now, 'whsec_other'), false],
    [`t=${now},v1=00,v1=${good}`, true],
    [`t=${now},v0=${good}`, false],
    [`t=${now - 1},v1=${good}`, false],
    [`v1=${good}`, false],
    [`t=${now}`, false],
    [`t=${now},v1=${good?.slice(1)}`, false],
    [`t=${now},v1=${good?.toUpperCase()}`, false],
    ['nonsense', false],
  ];
  for (const [signature, isGood] of expected) {
    const official = () => Stripe.webhooks.constructEvent(body, signature, secret, 300);
    const event = await provider.verifyWebhook({ 'stripe-signature': signature }, body);
    expect({ signature, ours: event !== undefined }).toEqual({ signature, ours: isGood });
    if (isGood) expect(official()).toBeDefined();
    else expect(official).toThrow();
  }
});

test('each event says what it is about', async () => {
  const told = async (name: ProviderName, type: string, about: string) => {
    const { headers, body } = await news(type, about);
    return sandboxes[name].provider.verifyWebhook(headers, body);
  };
  for (const name of providerNames) {
    const { order_id, report, asked, provider, refund } = await paid(name);
    const { capture_id } = report;
    const { payment_session_id } = asked;
    const [taken, back, opened, closed] =
      name === A
        ? ([
            'PAYMENT.CAPTURE.COMPLETED',
            'PAYMENT.CAPTURE.REFUNDED',
            'CUSTOMER.DISPUTE.CREATED',
            'CUSTOMER.DISPUTE.RESOLVED',
          ] as const)
        : ([
            'checkout.session.completed',
            'charge.refunded',
            'charge.dispute.created',
            'charge.dispute.closed',
          ] as const);
    const payment = { topic: 'payment', payment_session_id, order_id, capture_id };
    expect(await told(name, taken, order_id)).toMatchObject(payment);
    await provider.refund({ ...refund, amount_nanos: 1_000_000_000n });
    const about = String(capture_id);
    expect(await told(name, back, about)).toMatchObject({ topic: 'refund', capture_id });
    await act(name, order_id, 'open-dispute', { amount: '3.00' });
    expect(await told(name, opened, about)).toMatchObject({ topic: 'refund', capture_id });
    await act(name, order_id, 'lose-dispute');
    expect(await told(name, closed, about)).toMatchObject({ topic: 'refund', capture_id });
  }
  const { order_id } = await sandboxes[B].provider.createCheckout(wanted());
  await act(B, order_id, 'expire');
  const over_now = await told(B, 'checkout.session.expired', order_id);
  expect(over_now).toMatchObject({ topic: 'payment', order_id });
});
