import { createHmac } from 'node:crypto';
import Stripe from 'stripe';
import { request } from 'undici';
import { putConfig } from '../../../domain/payments/config';
import * as paymentEvents from '../../../domain/payments/events';
import { createSecrets } from '../../../domain/secrets';
import { many } from '../../../domain/sql';
import { sandboxAccessB } from '../../../sandbox/payments/b/provider';
import { refusal, secrets, serve, type Tenant } from '../../support/api';
import {
  createCheckout,
  makeBuyer,
  openPaymentWorld,
  type PaymentWorld,
  pay,
  sessionOf,
} from '../../support/payments/world';
import { until } from '../../support/until';
import { restOf } from '../../support/worker';

// Webhooks at the API's own door: whose are taken, what is stored, and what an event may cause.

const { webhook_secret } = sandboxAccessB;
let world: PaymentWorld;
let tenant: Tenant;

beforeAll(async () => {
  world = await openPaymentWorld();
});
beforeEach(async () => {
  tenant = await makeBuyer(world.db);
});
afterAll(() => world.close());

function sign(body: string, secret = webhook_secret, at = Math.floor(Date.now() / 1_000)): string {
  const v1 = createHmac('sha256', secret).update(`${at}.${body}`).digest('hex');
  return `t=${at},v1=${v1}`;
}

function eventB(id: string, more: object = {}): string {
  const object = { id: 'cs_x', object: 'checkout.session', client_reference_id: null, ...more };
  return JSON.stringify({
    id,
    object: 'event',
    type: 'checkout.session.completed',
    data: { object },
  });
}

function post(provider: string, body: string, headers: Record<string, string>) {
  return world.call('post', `/v1/payments/webhooks/${provider}`, { body, headers });
}

const postB = (body: string, signature: string) =>
  post('payment_provider_b', body, { 'stripe-signature': signature });

function stored(id: string) {
  return many<{ status: string; payment_session_id: string | null }>(
    world.db,
    'select status, payment_session_id from payment_events where id = :id',
    { id },
  );
}

test.each(['{}', '[]', '1', 'null', '{"id":"e","type":1}'])(
  'a body that is signed and no event is refused: %s',
  async (body) => {
    const answer = await postB(body, sign(body));
    expect([answer.status, answer.body.error.code]).toEqual([401, 'signature_invalid']);
  },
);

test('what the official client takes and refuses is what our door takes and refuses, to the byte and the second', async () => {
  const stripe = new Stripe('sk_test_x');
  const now = Math.floor(Date.now() / 1_000);
  const body = eventB('evt_oracle');
  const cases: [string, string, string][] = [
    ['good', body, sign(body)],
    ['299 s old', body, sign(body, webhook_secret, now - 298)],
    ['too old', body, sign(body, webhook_secret, now - 302)],
    ['another secret', body, sign(body, 'whsec_other')],
    ['empty secret', body, sign(body, '')],
    ['one byte more', `${body} `, sign(body)],
    ['serialised anew', JSON.stringify(JSON.parse(body), null, 1), sign(body)],
    ['two signatures, one good', body, `${sign(body)},v1=${'0'.repeat(64)}`],
    ['an old scheme only', body, sign(body).replace('v1=', 'v0=')],
    ['no time', body, sign(body).replace(/t=\d+,/, '')],
    ['nothing', body, ''],
  ];
  for (const [words, sent, signature] of cases) {
    let official = 200;
    try {
      stripe.webhooks.constructEvent(Buffer.from(sent), signature, webhook_secret, 300);
    } catch {
      official = 401;
    }
    const { status } = await postB(sent, signature);
    expect([words, status]).toEqual([words, official]);
  }
});

test('a signature of the time to come is refused like one of long ago', async () => {
  const body = eventB('evt_future');
  const now = Math.floor(Date.now() / 1_000);
  expect((await postB(body, sign(body, webhook_secret, now + 298))).status).toBe(200);
  expect(refusal(await postB(body, sign(body, webhook_secret, now + 302)))).toMatchObject({
    status: 401,
    code: 'signature_invalid',
  });
});

test('an event of no session of ours is stored and flagged, a repeated one changes nothing', async () => {
  const body = eventB('evt_unknown');
  for (let time = 0; time < 3; time += 1) {
    const answer = await postB(body, sign(body));
    expect([answer.status, answer.body]).toEqual([200, { received: true }]);
  }
  expect(await stored('evt_unknown')).toEqual([{ status: 'unknown', payment_session_id: null }]);
});

test('an event that comes before its session knows its order is matched later, by the reconciler', async () => {
  await world.use('payment_provider_b');
  const checkout = await createCheckout(world, tenant);
  const { payment_session_id: id, provider_session_token: order } = checkout;
  const sandbox = world.sandboxes.payment_provider_b;
  await sandbox.fault({ on: 'webhook', order, times: 0, blocked: true });
  await pay(checkout);
  const hide = (order_id: string | null) =>
    world.db('payment_sessions').where({ id }).update({ provider_order_id: order_id });
  await hide(null);
  const body = eventB('evt_early', { id: order });
  await postB(body, sign(body));
  await hide(order);
  expect((await stored('evt_early'))[0]?.status).toBe('unknown');
  const options = { taskQueue: 'lifecycle', workflowId: `r-${id}` };
  await world.client.workflow.execute('reconcile', options);
  expect(await stored('evt_early')).toEqual([{ status: 'sent', payment_session_id: id }]);
  await until(async () => (await sessionOf(world, tenant, checkout)).status === 'completed');
});

test('an event says nothing by itself: a signed "paid" for what is not paid credits nothing', async () => {
  await world.use('payment_provider_b');
  const checkout = await createCheckout(world, tenant);
  const { payment_session_id: id, provider_session_token: order } = checkout;
  const paid = { id: order, client_reference_id: id, payment_status: 'paid', amount_total: 5_000 };
  const body = eventB('evt_lie', paid);
  expect((await postB(body, sign(body))).status).toBe(200);
  await until(async () => {
    const rows = await many(
      world.db,
      `select 1 from outbox where workflow_id = :id and signal is not null`,
      { id },
    );
    return rows.length === 0;
  });
  await restOf(world.client, id);
  expect(await sessionOf(world, tenant, checkout)).toMatchObject({
    status: 'created',
    credited_amount: 0,
  });
});

test('provider A: a tampered body, missing headers and a foreign certificate are refused; a verifier that is away is 503', async () => {
  await world.use('payment_provider_a');
  const sandbox = world.sandboxes.payment_provider_a;
  const checkout = await createCheckout(world, tenant);
  const order = checkout.provider_session_token;
  // A real delivery, caught on its way.
  const caught: { body: string; headers: Record<string, string> }[] = [];
  const { createServer } = await import('node:http');
  const trap = createServer(async (req, res) => {
    let body = '';
    for await (const chunk of req) body += chunk;
    const headers = Object.fromEntries(
      Object.entries(req.headers).filter(([name]) => name.startsWith('paypal-')),
    ) as Record<string, string>;
    caught.push({ body, headers });
    res.end();
  });
  await new Promise<void>((resolve) => trap.listen(0, '127.0.0.1', resolve));
  const { port } = trap.address() as { port: number };
  const aim = (url: string) =>
    request(`${sandbox.url}/sandbox/webhooks`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ url }),
    }).then(({ body }) => body.dump());
  await aim(`http://127.0.0.1:${port}/`);
  await pay(checkout);
  await until(() => caught.length > 0);
  trap.close();
  await aim(`${world.api_url}/v1/payments/webhooks/payment_provider_a`);
  const [{ body, headers }] = caught as [(typeof caught)[0]];

  const send = (text: string, more: Record<string, string> = headers) =>
    post('payment_provider_a', text, { ...more, 'content-type': 'application/json' });
  const other = order.replace(/.$/, (last) => (last === '0' ? '1' : '0'));
  expect((await send(body.replace(order, other))).status).toBe(401);
  expect((await send(`${body} `)).status).toBe(401);
  for (const name of Object.keys(headers).filter((one) => one !== 'paypal-auth-version')) {
    const { [name]: _, ...rest } = headers;
    expect([name, (await send(body, rest)).status]).toEqual([name, 401]);
  }
  const foreign = await send(body, { ...headers, 'paypal-cert-url': 'https://evil.example/cert' });
  expect(foreign.status).toBe(401);
  await sandbox.fault({ on: 'verify', answer: 'error', status: 500, work: false });
  const away = await send(body);
  expect([away.status, away.headers['retry-after']]).toEqual([503, '5']);
  expect((await sessionOf(world, tenant, checkout)).status).toBe('created');
  // The old address takes it too, and says that it is deprecated.
  const old = await world.call('post', '/v1/payments/webhook', {
    body,
    headers: { ...headers, 'content-type': 'application/json' },
  });
  expect([old.status, old.headers.deprecation]).toEqual([200, '@1795737600']);
  await until(async () => (await sessionOf(world, tenant, checkout)).status === 'completed');
});

test('a bug is 500; a secret or a provider that cannot be reached is 503, to be delivered again', async () => {
  const { db } = world;
  const path = '/v1/payments/webhooks/payment_provider_a';
  const statusWith = async (other: Partial<typeof secrets>) => {
    const api = await serve({ db, secrets: { ...secrets, ...other } });
    const headers = {
      'paypal-transmission-id': 'x',
      'paypal-transmission-time': new Date().toISOString(),
      'paypal-transmission-sig': 'A'.repeat(344),
      'paypal-auth-algo': 'SHA256withRSA',
      'paypal-cert-url': 'http://127.0.0.1:9/v1/notifications/certs/CERT-1',
    };
    const body = JSON.stringify({ id: 'evt_x', event_type: 'x' });
    const { status, headers: answered } = await api.call('post', path, { body, headers });
    await api.close();
    return [status, answered['retry-after']];
  };
  const bug = () => Promise.reject(new TypeError('a bug'));
  expect(await statusWith({ open: bug })).toEqual([500, undefined]);
  const { open } = createSecrets(Buffer.alloc(32, 7).toString('base64'));
  expect(await statusWith({ open })).toEqual([503, '5']);
  const row = db('payment_providers').where({ name: 'payment_provider_a' });
  const [{ base_url }] = await row.clone();
  await row.clone().update({ base_url: 'http://127.0.0.1:9' });
  expect(await statusWith({})).toEqual([503, '5']);
  await row.clone().update({ base_url });
});

test('the body of a webhook that names no session is kept for three days, and itself for ninety', async () => {
  const { db } = world;
  const body = eventB('evt_stranger');
  await postB(body, sign(body));
  const row = db('payment_events').where({ id: 'evt_stranger' });
  const aged = async (days: number) => {
    const received_at = new Date(Date.now() - days * 86_400_000 + 60_000);
    await row.clone().update({ received_at });
    await paymentEvents.forget(db);
    return (await row.clone()).map((kept) => kept.body);
  };
  expect(await aged(3)).toEqual([body]);
  expect(await aged(3.1)).toEqual([null]);
  expect(await aged(90)).toEqual([null]);
  expect(await aged(90.1)).toEqual([]);
});

test('a body that is no JSON, too large, or for a provider that is not ours, is refused', async () => {
  expect((await postB('no json', sign('no json'))).status).toBe(401);
  expect((await post('payment_provider_c', '{}', {})).status).toBe(422);
  const large = 'x'.repeat(1_100_000);
  expect((await postB(large, sign(large))).status).toBe(413);
});

test('a replaced webhook secret stays good for 72 h, an empty one never is', async () => {
  const body = eventB('evt_rotated');
  await putConfig(world.db, secrets, { payment_provider_b: { webhook_secret: 'whsec_new' } });
  expect((await postB(body, sign(body, 'whsec_new'))).status).toBe(200);
  expect((await postB(body, sign(body))).status).toBe(200);
  await world
    .db('payment_providers')
    .where({ name: 'payment_provider_b' })
    .update({ previous_webhook_secret_until: new Date() });
  expect((await postB(body, sign(body))).status).toBe(401);
  await world
    .db('payment_providers')
    .where({ name: 'payment_provider_b' })
    .update({ webhook_secret: null });
  for (const secret of ['', 'whsec_new', 'undefined', 'null'])
    expect((await postB(body, sign(body, secret))).status).toBe(401);
  await putConfig(world.db, secrets, { payment_provider_b: { webhook_secret } });
});
