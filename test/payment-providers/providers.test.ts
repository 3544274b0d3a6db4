import { createServer } from 'node:http';
import { currenciesOf, type ProviderName, providerNames } from '../../domain/payments/currencies';
import { createProviders } from '../../payment-providers/registry';
import {
  closeServers,
  type OpenedSandboxes,
  openSandboxes,
  over,
  serveHere,
  thrown,
  UNIT,
  wanted,
} from '../support/payments/providers';

const [A, B] = providerNames as [ProviderName, ProviderName];

let sandboxes: OpenedSandboxes['sandboxes'];
let ask: OpenedSandboxes['ask'];
let act: OpenedSandboxes['act'];
let fault: OpenedSandboxes['fault'];
let arrivals: OpenedSandboxes['arrivals'];
let paid: OpenedSandboxes['paid'];

beforeAll(async () => {
  ({ sandboxes, ask, act, fault, arrivals, paid } = await openSandboxes());
});

afterAll(closeServers);

beforeEach(async () => {
  for (const name of providerNames) {
    await ask(name, 'DELETE', 'faults');
    await ask(name, 'DELETE', 'requests');
  }
});

test.each(providerNames)('%s: a checkout is made once per key, and is open', async (name) => {
  const { provider } = sandboxes[name];
  const asked = wanted();
  const made = await provider.createCheckout(asked);
  expect(made.approval_url).toMatch(/^http:\/\/127\.0\.0\.1:/);
  expect(await provider.createCheckout(asked)).toEqual(made);
  expect((await provider.createCheckout(wanted())).order_id).not.toBe(made.order_id);
  const report = await provider.read(made.order_id);
  const nothing = { capture_id: null, amount_nanos: null, currency: null };
  expect(report).toEqual({ status: 'open', ...nothing, refunds: [], disputes: [] });
});

test.each(providerNames)(
  '%s: the buyer comes back with the order as token, whatever else the address carries',
  async (name) => {
    const { provider } = sandboxes[name];
    const { order_id } = await provider.createCheckout(wanted());
    const back = new URL((await act(name, order_id, 'pay')).redirect_url);
    expect(back.origin + back.pathname).toBe('http://127.0.0.1:3000/back');
    expect(back.searchParams.get('x')).toBe('1');
    expect(back.searchParams.get('token')).toBe(order_id);
  },
);

test.each(providerNames)('%s: an approved payment is captured once, twice asked', async (name) => {
  const { provider } = sandboxes[name];
  const { order_id } = await provider.createCheckout(wanted());
  await act(name, order_id, 'pay');
  const waiting = name === A ? 'approved' : 'captured';
  expect((await provider.read(order_id)).status).toBe(waiting);
  const all = await Promise.all([
    provider.capture(order_id, 'one'),
    provider.capture(order_id, 'one'),
    provider.capture(order_id, 'two'),
  ]);
  const whole = {
    status: 'captured',
    capture_id: all[0].capture_id,
    amount_nanos: 50n * UNIT,
    currency: 'EUR',
    refunds: [],
    disputes: [],
  };
  // The answer to a capture says nothing of disputes at A: null leaves what is known of them.
  for (const report of all) expect({ ...report, disputes: report.disputes ?? [] }).toEqual(whole);
  expect(await provider.read(order_id)).toEqual(whole);
});

test('provider A refuses the capture of what nobody approved, and of what was declined', async () => {
  const { provider } = sandboxes[A];
  const { order_id } = await provider.createCheckout(wanted());
  expect((await thrown(provider.capture(order_id, 'one'))).code).toBe('not_approved');
  await act(A, order_id, 'decline');
  expect((await thrown(provider.capture(order_id, 'two'))).code).toBe('declined');
  await act(A, order_id, 'pay');
  expect((await provider.capture(order_id, 'three')).status).toBe('captured');
});

test('provider A says that the order is completed where the capture was declined: it failed', async () => {
  const { provider } = sandboxes[A];
  const { order_id } = await provider.createCheckout(wanted());
  await act(A, order_id, 'pay');
  await fault(A, { on: 'capture', order: order_id, result: 'declined' });
  for (const report of [await provider.capture(order_id, 'one'), await provider.read(order_id)])
    expect(report).toMatchObject({ status: 'failed', amount_nanos: 50n * UNIT, refunds: [] });
});

test.each(providerNames)('%s: money on its way is pending until it is there', async (name) => {
  const { provider } = sandboxes[name];
  const { order_id } = await provider.createCheckout(wanted());
  await fault(name, { on: 'capture', order: order_id, result: 'pending' });
  await act(name, order_id, 'pay');
  const pending = await provider.capture(order_id, 'one');
  expect(pending).toMatchObject({ status: 'pending', amount_nanos: 50n * UNIT, currency: 'EUR' });
  await act(name, order_id, 'complete-pending');
  expect(await provider.read(order_id)).toEqual({ ...pending, status: 'captured', disputes: [] });
});

test.each(providerNames)('%s: pending money that never comes was never taken', async (name) => {
  const { provider } = sandboxes[name];
  const { order_id } = await provider.createCheckout(wanted());
  await fault(name, { on: 'capture', order: order_id, result: 'pending' });
  await act(name, order_id, 'pay');
  await provider.capture(order_id, 'one');
  await act(name, order_id, 'fail-pending');
  expect((await provider.read(order_id)).status).toBe('failed');
});

test.each(providerNames)(
  '%s: another amount and currency are reported as they are',
  async (name) => {
    const { provider } = sandboxes[name];
    const { order_id } = await provider.createCheckout(wanted());
    const script = { on: 'capture', order: order_id, amount: '7', currency: 'JPY' };
    await fault(name, script);
    await act(name, order_id, 'pay');
    const report = await provider.capture(order_id, 'one');
    expect(report).toMatchObject({ status: 'captured', amount_nanos: 7n * UNIT, currency: 'JPY' });
  },
);

test.each(providerNames)(
  '%s: an ended checkout can be told from one that the provider does not know, as far as it tells them apart',
  async (name) => {
    const { provider } = sandboxes[name];
    const { order_id } = await provider.createCheckout(wanted());
    await act(name, order_id, 'expire');
    const isTold = name === 'payment_provider_b';
    expect((await provider.read(order_id)).status).toBe(isTold ? 'closed' : 'gone');
    expect((await provider.read('NEVER-MADE')).status).toBe('gone');
    await provider.expire(order_id);
    await provider.expire('NEVER-MADE');
  },
);

test('provider B ends an open checkout when asked, and leaves a paid one alone', async () => {
  const { provider } = sandboxes[B];
  const { order_id } = await provider.createCheckout(wanted());
  await provider.expire(order_id);
  expect((await provider.read(order_id)).status).toBe('closed');
  const done = await paid(B);
  await provider.expire(done.order_id);
  expect((await provider.read(done.order_id)).status).toBe('captured');
});

test.each([
  [A, 'JPY', '500', '500'],
  [A, 'HUF', '500', '500'],
  [A, 'USD', '10.5', '10.50'],
  [B, 'JPY', '500', '500'],
  [B, 'HUF', '500.5', '50050'],
  [B, 'KWD', '5.12', '5120'],
  [B, 'ISK', '500', '50000'],
  [B, 'UGX', '5000', '500000'],
  [B, 'USD', '10.5', '1050'],
] as const)(
  '%s: %s %s goes out as %s, and comes back the same',
  async (name, currency, units, wire) => {
    const [whole = '0', fraction = ''] = units.split('.');
    const amount_nanos = BigInt(whole + fraction.padEnd(9, '0'));
    const { report, refund, provider, order_id } = await paid(name, { amount_nanos, currency });
    expect(report).toMatchObject({ status: 'captured', amount_nanos, currency });
    const made = (await arrivals(name)).find(({ path }) => /orders$|sessions$/.test(path));
    const body = made?.body ?? '';
    const sent =
      name === A
        ? JSON.parse(body).purchase_units[0].amount.value
        : new URLSearchParams(body).get('line_items[0][price_data][unit_amount]');
    expect(sent).toBe(wire);
    expect(await provider.refund(refund)).toMatchObject({ status: 'succeeded', amount_nanos });
    expect((await provider.read(order_id)).refunds).toMatchObject([{ amount_nanos }]);
  },
);

test.each(providerNames)('%s: every currency it is said to take is taken', async (name) => {
  const { provider } = sandboxes[name];
  for (const currency of currenciesOf(name))
    await provider.createCheckout(wanted({ currency, amount_nanos: 1_000n * UNIT }));
});

test('a refused card at provider B leaves the checkout open for another one', async () => {
  const session = {
    id: 'cs_1',
    object: 'checkout.session',
    status: 'open',
    payment_status: 'unpaid',
    payment_intent: {
      id: 'pi_1',
      object: 'payment_intent',
      status: 'requires_payment_method',
      last_payment_error: { code: 'card_declined' },
    },
  };
  const server = createServer((req, res) => {
    req.resume();
    res.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(session));
  });
  const { provider } = over(B, { ...sandboxes[B].access, base_url: await serveHere(server) });
  expect(await provider.read('cs_1')).toMatchObject({ status: 'declined', capture_id: null });
});

test('one adapter serves a provider until its access changes', () => {
  const providerFor = createProviders();
  const { access } = sandboxes[B];
  const first = providerFor(B, access);
  expect(providerFor(B, structuredClone(access))).toBe(first);
  expect(providerFor(A, sandboxes[A].access)).not.toBe(first);
  expect(providerFor(B, access)).toBe(first);
  expect(providerFor(B, { ...access, webhook_secrets: ['whsec_new'] })).not.toBe(first);
});
