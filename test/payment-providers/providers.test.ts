import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { currenciesOf, type ProviderName, providerNames } from '../../domain/payments/currencies';
import { isProviderTrouble } from '../../payment-providers/provider';
import { createProviders } from '../../payment-providers/registry';
import {
  CALL_MS,
  closeServers,
  openSandboxes,
  over,
  serveHere,
  thrown,
  UNIT,
  wanted,
} from '../support/providers';

const [A, B] = providerNames as [ProviderName, ProviderName];

type Opened = Awaited<ReturnType<typeof openSandboxes>>;
let sandboxes: Opened['sandboxes'];
let ask: Opened['ask'];
let act: Opened['act'];
let fault: Opened['fault'];
let arrivals: Opened['arrivals'];
let paid: Opened['paid'];

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
  for (const report of [...all, await provider.read(order_id)])
    expect(report).toEqual({
      status: 'captured',
      capture_id: all[0].capture_id,
      amount_nanos: 50n * UNIT,
      currency: 'EUR',
      refunds: [],
      disputes: [],
    });
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

test('provider A says that the order is completed where the capture was declined: nothing was taken', async () => {
  const { provider } = sandboxes[A];
  const { order_id } = await provider.createCheckout(wanted());
  await act(A, order_id, 'pay');
  await fault(A, { on: 'capture', order: order_id, result: 'declined' });
  for (const report of [await provider.capture(order_id, 'one'), await provider.read(order_id)])
    expect(report).toMatchObject({ status: 'failed', capture_id: null, amount_nanos: null });
});

test.each(providerNames)('%s: money on its way is pending until it is there', async (name) => {
  const { provider } = sandboxes[name];
  const { order_id } = await provider.createCheckout(wanted());
  await fault(name, { on: 'capture', order: order_id, result: 'pending' });
  await act(name, order_id, 'pay');
  const pending = await provider.capture(order_id, 'one');
  expect(pending).toMatchObject({ status: 'pending', amount_nanos: 50n * UNIT, currency: 'EUR' });
  await act(name, order_id, 'complete-pending');
  expect(await provider.read(order_id)).toEqual({ ...pending, status: 'captured' });
});

test.each(providerNames)('%s: pending money that never comes was never taken', async (name) => {
  const { provider } = sandboxes[name];
  const { order_id } = await provider.createCheckout(wanted());
  await fault(name, { on: 'capture', order: order_id, result: 'pending' });
  await act(name, order_id, 'pay');
  await provider.capture(order_id, 'one');
  await act(name, order_id, 'fail-pending');
  const { status, amount_nanos } = await provider.read(order_id);
  expect(status).toBe('failed');
  expect(amount_nanos).toBeNull();
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

test.each(providerNames)('%s: a refund is made once, and read finds whose it is', async (name) => {
  const { provider, refund, order_id } = await paid(name);
  const part = { ...refund, amount_nanos: 20n * UNIT };
  const [first, second] = await Promise.all([provider.refund(part), provider.refund(part)]);
  expect(second).toEqual(first);
  expect(first).toMatchObject({
    payment_refund_id: part.payment_refund_id,
    status: 'succeeded',
    amount_nanos: 20n * UNIT,
  });
  expect(await provider.read(order_id)).toMatchObject({
    status: 'captured',
    amount_nanos: 50n * UNIT,
    refunds: [first],
  });
  const rest = { ...refund, payment_refund_id: `ref_${randomUUID()}`, amount_nanos: 31n * UNIT };
  expect((await thrown(provider.refund(rest))).code).toBe('provider_error');
  await provider.refund({ ...rest, amount_nanos: 30n * UNIT });
  expect((await provider.read(order_id)).refunds).toHaveLength(2);
});

test.each(providerNames)('%s: a refund may be pending, and then fail', async (name) => {
  const { provider, refund, order_id } = await paid(name);
  await fault(name, { on: 'refund', order: order_id, result: 'pending' });
  expect((await provider.refund(refund)).status).toBe('pending');
  await act(name, order_id, 'fail-refund');
  const [found] = (await provider.read(order_id)).refunds;
  expect(found).toMatchObject({
    status: 'failed',
    payment_refund_id: refund.payment_refund_id,
    amount_nanos: 50n * UNIT,
  });
});

test.each(providerNames)("%s: refunds made at the provider's site are nobody's", async (name) => {
  const { provider, order_id } = await paid(name);
  await act(name, order_id, 'refund', { amount: '12.50' });
  await act(name, order_id, 'reverse', { amount: '1.00' });
  const { refunds } = await provider.read(order_id);
  const seen = refunds.map((one) => [one.payment_refund_id, one.amount_nanos, one.status]);
  expect(seen).toHaveLength(2);
  expect(seen).toEqual(
    expect.arrayContaining([
      [null, (125n * UNIT) / 10n, 'succeeded'],
      [null, UNIT, 'succeeded'],
    ]),
  );
});

test.each(providerNames)('%s: a dispute is open, then lost or won', async (name) => {
  for (const end of ['lost', 'won'] as const) {
    const { provider, order_id } = await paid(name);
    await act(name, order_id, 'open-dispute', { amount: '30.00' });
    const [open] = (await provider.read(order_id)).disputes ?? [];
    expect(open).toMatchObject({ status: 'open', amount_nanos: 30n * UNIT });
    await act(name, order_id, end === 'lost' ? 'lose-dispute' : 'win-dispute');
    expect((await provider.read(order_id)).disputes).toEqual([{ ...open, status: end }]);
  }
});

test.each(providerNames)('%s: an inquiry, which moved no money, is not reported', async (name) => {
  const { provider, order_id } = await paid(name);
  await act(name, order_id, 'open-dispute', { is_inquiry: true });
  expect((await provider.read(order_id)).disputes).toEqual([]);
});

test.each(['timeout', 'reset', 'error'])(
  'a create whose answer is lost (%s) rejects, and the same key finds what was made',
  async (answer) => {
    for (const name of providerNames) {
      const { provider } = sandboxes[name];
      const asked = wanted();
      // B would repeat its 500 under the key; a 503 it does not keep.
      await fault(name, { on: 'create', answer, status: 503 });
      await thrown(provider.createCheckout(asked));
      await ask(name, 'DELETE', 'faults');
      const found = await provider.createCheckout(asked);
      const { orders } = await ask(name, 'GET', 'orders');
      const ours = (orders as { reference: string; id: string }[]).filter(
        ({ reference }) => reference === asked.payment_session_id,
      );
      expect(ours.map(({ id }) => id)).toEqual([found.order_id]);
    }
  },
);

test.each(['timeout', 'reset', 'error'])(
  'a capture at provider A whose answer is lost (%s) rejects, and read finds it',
  async (answer) => {
    const { provider } = sandboxes[A];
    const { order_id } = await provider.createCheckout(wanted());
    await act(A, order_id, 'pay');
    await fault(A, { on: 'capture', answer });
    const error = await thrown(provider.capture(order_id, 'one'));
    expect(isProviderTrouble(error)).toBe(true);
    const found = await provider.read(order_id);
    expect(found).toMatchObject({ status: 'captured', amount_nanos: 50n * UNIT });
    expect(await provider.capture(order_id, 'two')).toEqual(found);
  },
);

test.each(['timeout', 'reset', 'error'])(
  'a refund whose answer is lost (%s) rejects, is found by read, and is made once',
  async (answer) => {
    for (const name of providerNames) {
      const { provider, refund, order_id } = await paid(name);
      await fault(name, { on: 'refund', order: order_id, answer });
      expect(isProviderTrouble(await thrown(provider.refund(refund)))).toBe(true);
      const [found, ...more] = (await provider.read(order_id)).refunds;
      expect(more).toEqual([]);
      expect(found).toMatchObject({ payment_refund_id: refund.payment_refund_id });
    }
  },
);

test('a refund that was made under a key long forgotten is found, and not made again', async () => {
  for (const name of providerNames) {
    const { provider, refund, order_id } = await paid(name);
    await refundByHand(name, refund.capture_id, refund.payment_refund_id);
    expect(await provider.refund(refund)).toMatchObject({
      payment_refund_id: refund.payment_refund_id,
      status: 'succeeded',
      amount_nanos: 50n * UNIT,
    });
    expect((await provider.read(order_id)).refunds).toHaveLength(1);
  }
});

/** The same refund as an adapter's, without its key. */
async function refundByHand(name: ProviderName, capture_id: string, refund_id: string) {
  const { url, access } = sandboxes[name];
  const { client_id, client_secret, secret_key } = access.credentials;
  const post = async (path: string, authorization: string, body: URLSearchParams | string) => {
    const type =
      typeof body === 'string' ? 'application/json' : 'application/x-www-form-urlencoded';
    const headers = { authorization, 'content-type': type };
    const answer = await fetch(`${url}${path}`, { method: 'POST', headers, body });
    expect(answer.ok).toBe(true);
    return answer.json();
  };
  if (name === B) {
    const form = { payment_intent: capture_id, 'metadata[payment_refund_id]': refund_id };
    return post('/v1/refunds', `Bearer ${secret_key}`, new URLSearchParams(form));
  }
  const basic = `Basic ${Buffer.from(`${client_id}:${client_secret}`).toString('base64')}`;
  const grant = new URLSearchParams({ grant_type: 'client_credentials' });
  const { access_token } = (await post('/v1/oauth2/token', basic, grant)) as {
    access_token: string;
  };
  const path = `/v2/payments/captures/${capture_id}/refund`;
  return post(path, `Bearer ${access_token}`, JSON.stringify({ custom_id: refund_id }));
}

test.each(providerNames)('%s: a slow provider is given up in time', async (name) => {
  const { provider, order_id } = await paid(name);
  await fault(name, { on: 'read', answer: 'timeout', times: 0 });
  const began = performance.now();
  expect((await thrown(provider.read(order_id))).message).toContain('no answer within');
  expect(performance.now() - began).toBeLessThan(CALL_MS + 500);
});

test.each([400, 404, 409, 422, 429, 500, 502, 503])(
  "a %i that is not in the provider's own words is no definite no",
  async (status) => {
    const between = createServer((req, res) => {
      req.resume();
      // Whoever stands between echoes what it was sent.
      res.writeHead(status, { 'content-type': 'text/html' });
      res.end(`<h1>${req.headers.authorization}</h1>`);
    });
    const base_url = await serveHere(between);
    for (const name of providerNames) {
      const { provider } = over(name, { ...sandboxes[name].access, base_url });
      for (const call of [() => provider.createCheckout(wanted()), () => provider.read('X1')])
        expect(isProviderTrouble(await thrown(call()))).toBe(true);
    }
  },
);

test.each(providerNames)(
  '%s: nobody there is trouble, and so are wrong credentials',
  async (name) => {
    const { access } = sandboxes[name];
    const away = over(name, { ...access, base_url: 'http://127.0.0.1:1' }).provider;
    expect(isProviderTrouble(await thrown(away.createCheckout(wanted())))).toBe(true);
    const credentials = Object.fromEntries(
      Object.keys(access.credentials).map((field) => [field, `wrong ${field}`]),
    );
    const stranger = over(name, { ...access, credentials }).provider;
    const error = await thrown(stranger.createCheckout(wanted()));
    expect(isProviderTrouble(error)).toBe(true);
    expect(error.message).toContain('401');
    const nobody = over(name, { ...access, credentials: {} }).provider;
    expect(isProviderTrouble(await thrown(nobody.createCheckout(wanted())))).toBe(true);
  },
);

test('provider A is asked for one token at a time, and again after a failure', async () => {
  const { provider } = over(A, sandboxes[A].access);
  await fault(A, { on: 'token', answer: 'error', status: 500 });
  await thrown(provider.createCheckout(wanted()));
  await Promise.all([1, 2, 3].map(() => provider.createCheckout(wanted())));
  const asked = (await arrivals(A)).filter(({ path }) => path === '/v1/oauth2/token');
  expect(asked).toHaveLength(2);
});

test('a token that provider A does not take any more is replaced for the next call', async () => {
  let tokens = 0;
  const server = createServer((req, res) => {
    req.resume();
    const isOld = req.headers.authorization === 'Bearer token-1';
    res.writeHead(isOld ? 401 : 200, { 'content-type': 'application/json' });
    if (isOld) return res.end('{"error":"invalid_token"}');
    if (req.url !== '/v1/oauth2/token') return res.end('{"id":"O1","status":"CREATED"}');
    tokens += 1;
    return res.end(`{"access_token":"token-${tokens}","token_type":"Bearer","expires_in":32400}`);
  });
  const base_url = await serveHere(server);
  const { provider } = over(A, { ...sandboxes[A].access, base_url });
  expect((await thrown(provider.read('O1'))).message).toContain('401');
  expect((await provider.read('O1')).status).toBe('open');
  await provider.read('O1');
  expect(tokens).toBe(2);
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
    ...{ id: 'cs_1', object: 'checkout.session', status: 'open', payment_status: 'unpaid' },
    payment_intent: {
      ...{ id: 'pi_1', object: 'payment_intent', status: 'requires_payment_method' },
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
