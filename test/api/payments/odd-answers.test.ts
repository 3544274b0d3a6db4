import { request } from 'undici';
import type { ProviderName } from '../../../domain/payments/currencies';
import type { Tenant } from '../../support/api';
import {
  type Checkout,
  confirm,
  confirmAnew,
  createCheckout,
  makeBuyer,
  openPaymentWorld,
  type PaymentWorld,
  pay,
  sessionOf,
  wish,
} from '../../support/payments/world';
import { repeated, until } from '../../support/until';

// Providers that answer in ways that are rare, and buyers who ask often.

let world: PaymentWorld;
let tenant: Tenant;

beforeAll(async () => {
  world = await openPaymentWorld();
});
beforeEach(async () => {
  tenant = await makeBuyer(world.db);
});
afterAll(() => world.close());

const sandboxOf = ({ provider }: Checkout) => world.sandboxes[provider];
const confirmed = async (checkout: Checkout) => (await confirmAnew(world, tenant, checkout)).body;

/** A checkout whose webhooks are lost, and the scripts of its provider. */
async function silent(provider: ProviderName, ...scripts: object[]): Promise<Checkout> {
  await world.use(provider);
  const checkout = await createCheckout(world, tenant);
  const order = checkout.provider_session_token;
  const all = [{ on: 'webhook', times: 0, blocked: true }, ...scripts];
  for (const script of all) await sandboxOf(checkout).fault({ order, ...script });
  return checkout;
}

function act(checkout: Checkout, action: string, body?: object) {
  return sandboxOf(checkout).act(checkout.provider_session_token, action, body);
}

interface Arrival {
  method: string;
  path: string;
  headers: Record<string, string>;
}

async function arrivals(checkout: Checkout, end: RegExp): Promise<Arrival[]> {
  const answer = await request(`${sandboxOf(checkout).url}/sandbox/requests`);
  const { requests } = (await answer.body.json()) as { requests: Arrival[] };
  return requests.filter(
    ({ path }) => path.includes(checkout.provider_session_token) && end.test(path),
  );
}

test.each(['payment_provider_a', 'payment_provider_b'] as const)(
  '%s: a payment that is pending for long is found by the confirm after it came, however many came before',
  async (provider) => {
    const checkout = await silent(provider, { on: 'capture', result: 'pending' });
    await pay(checkout);
    for (let time = 0; time < 12; time += 1)
      expect(await confirmed(checkout)).toMatchObject({ status: 'capturing' });
    await act(checkout, 'complete-pending');
    expect(await confirmed(checkout)).toMatchObject({ status: 'completed', credited_amount: 50 });
  },
);

test('a session is looked at for those who confirm it once in two seconds; sooner they are told what the row says', async () => {
  const checkout = await silent('payment_provider_a', { on: 'capture', result: 'pending' });
  await pay(checkout);
  const answers = [];
  const started = performance.now();
  for (let time = 0; time < 8; time += 1) answers.push(await confirm(world, tenant, checkout));
  expect(answers.map(({ body }) => body.status)).toEqual(Array(8).fill('capturing'));
  const looks_max = 1 + Math.ceil((performance.now() - started) / 2_000);
  expect((await arrivals(checkout, /[A-Z0-9]{17}$/)).length).toBeLessThanOrEqual(looks_max);
});

test('equal creates, however many at once, share one try at the provider and its checkout', async () => {
  await world.use('payment_provider_a');
  const script = { on: 'create', delay_ms: 2_500 };
  await world.sandboxes.payment_provider_a.fault(script);
  const headers = { 'idempotency-key': 'the-same' };
  const create = () =>
    repeated(() =>
      world.call('post', '/v1/payments/create-checkout', {
        key: tenant.member_key,
        headers,
        body: wish,
      }),
    );
  const answers = await Promise.all(Array.from({ length: 25 }, create));
  expect(answers.map(({ status }) => status)).toEqual(Array(25).fill(201));
  expect(new Set(answers.map(({ body }) => body.payment_session_id)).size).toBe(1);
});

test('cancels, however many at once, are never a bug of ours', async () => {
  const checkout = await silent('payment_provider_b', { on: 'expire', delay_ms: 1_000 });
  const path = `/v1/payments/sessions/${checkout.payment_session_id}/cancel`;
  const cancel = () => world.call('post', path, { key: tenant.member_key, body: {} });
  const answers = await Promise.all(Array.from({ length: 25 }, cancel));
  for (const { status, headers } of answers)
    expect(status === 200 || (status === 503 && headers['retry-after'] !== undefined)).toBe(true);
  await until(async () => (await sessionOf(world, tenant, checkout)).status === 'canceled');
});

// Vouchers and bank transfers: the checkout is complete, the money comes days later.
test.each(['requires_action', 'requires_confirmation', 'requires_capture', 'a_new_word'])(
  'a checkout that is complete and whose intent is %s is under way: not canceled, and not late when it is paid',
  async (status) => {
    const checkout = await silent(
      'payment_provider_b',
      { on: 'capture', result: 'pending' },
      { on: 'read', times: 3, set: { '/payment_intent/status': status } },
    );
    await act(checkout, 'pay');
    expect(await confirmed(checkout)).toMatchObject({ status: 'capturing', error_code: null });
    const path = `/v1/payments/sessions/${checkout.payment_session_id}/cancel`;
    const canceled = await world.call('post', path, { key: tenant.member_key, body: {} });
    expect(canceled.status).toBe(409);
    await act(checkout, 'complete-pending');
    await sandboxOf(checkout).act(checkout.provider_session_token, 'resend');
    await until(async () => (await confirmed(checkout)).status === 'completed');
    expect(await sessionOf(world, tenant, checkout)).toMatchObject({
      status: 'completed',
      late: false,
    });
  },
);

test.each([undefined, 'pending'])(
  'a checkout that is paid, of which nobody has told us, cannot be canceled (%s)',
  async (result) => {
    const checkout = await silent('payment_provider_b', { on: 'capture', result });
    await act(checkout, 'pay');
    const path = `/v1/payments/sessions/${checkout.payment_session_id}/cancel`;
    const canceled = await world.call('post', path, { key: tenant.member_key, body: {} });
    expect(canceled.status).toBe(409);
    const status = result === undefined ? 'completed' : 'capturing';
    expect(await sessionOf(world, tenant, checkout)).toMatchObject({ status, late: false });
  },
);

const refusedOnce = (issue: string, status = 422) => ({
  on: 'capture',
  answer: 'error',
  status,
  issue,
  work: false,
});

test.each([
  'PAYMENT_DENIED',
  'REDIRECT_PAYER_FOR_ALTERNATE_FUNDING',
  'CARD_EXPIRED',
  'TRANSACTION_LIMIT_EXCEEDED',
  'MAX_NUMBER_OF_PAYMENT_ATTEMPTS_EXCEEDED',
])('a capture refused with %s sends the buyer back, who pays at the second try', async (issue) => {
  const checkout = await silent('payment_provider_a', refusedOnce(issue));
  await pay(checkout);
  expect(await confirmed(checkout)).toMatchObject({ status: 'created', error_code: 'declined' });
  await pay(checkout);
  expect(await confirmed(checkout)).toMatchObject({ status: 'completed', credited_amount: 50 });
});

test.each([
  ['PAYEE_ACCOUNT_RESTRICTED', 422],
  ['A_NEW_ISSUE', 422],
  ['INVALID_RESOURCE_ID', 404],
  ['PERMISSION_DENIED', 403],
] as const)(
  'a capture refused with %s (%i), whose order stays approved, is asked for again',
  async (issue, status) => {
    const checkout = await silent('payment_provider_a', refusedOnce(issue, status));
    await pay(checkout);
    expect(await confirmed(checkout)).toMatchObject({ status: 'capturing' });
    expect(await confirmed(checkout)).toMatchObject({ status: 'completed', credited_amount: 50 });
  },
);

test.each([400, 422])(
  'a key that stands for another request (%i) is followed by the next key at once',
  async (status) => {
    const script = refusedOnce('DUPLICATE_REQUEST_ID', status);
    const checkout = await silent('payment_provider_a', script);
    await pay(checkout);
    expect(await confirmed(checkout)).toMatchObject({ status: 'completed', credited_amount: 50 });
    const keys = (await arrivals(checkout, /capture$/)).map(
      ({ headers }) => headers['paypal-request-id'],
    );
    expect([keys.length, new Set(keys).size]).toEqual([2, 2]);
  },
);

const inProgress = refusedOnce('PREVIOUS_REQUEST_IN_PROGRESS');

test.each([
  ['twice', [{ ...inProgress, times: 2 }]],
  ['and then does not answer', [inProgress, { on: 'capture', answer: 'error', work: false }]],
  [
    'twice, while its order cannot be read',
    [{ ...inProgress, times: 2 }, { on: 'read' }, { on: 'read', answer: 'error' }],
  ],
])(
  'a capture that the provider says is under way, %s, is asked for again under the same key',
  async (_, scripts) => {
    const checkout = await silent('payment_provider_a', ...scripts);
    await pay(checkout);
    for (let time = 0; time < 2; time += 1)
      expect(await confirmed(checkout)).toMatchObject({ status: 'capturing' });
    expect(await confirmed(checkout)).toMatchObject({ status: 'completed', credited_amount: 50 });
    const keys = (await arrivals(checkout, /capture$/)).map(
      ({ headers }) => headers['paypal-request-id'],
    );
    expect([keys.length, new Set(keys).size]).toEqual([3, 1]);
  },
);

test('a refused capture whose order is captured after all is recorded', async () => {
  const script = { ...refusedOnce('PAYMENT_DENIED'), work: true };
  const checkout = await silent('payment_provider_a', script);
  await pay(checkout);
  expect(await confirmed(checkout)).toMatchObject({ status: 'completed', credited_amount: 50 });
});

test('an order that is gone while it is taken stays under way for a day, then it has failed; its money is still credited', async () => {
  const checkout = await silent('payment_provider_a', { on: 'capture', result: 'pending' });
  const { payment_session_id: id, provider_session_token: order } = checkout;
  await pay(checkout);
  expect(await confirmed(checkout)).toMatchObject({ status: 'capturing' });
  const row = () => world.db('payment_sessions').where({ id });
  await row().update({ provider_order_id: 'NEVERMADE' });
  const ask = async () => {
    // Before the news: the workflow may have asked by the time that the signal is answered.
    const { reading } = await row().first('provider_calls as reading');
    await world.client.workflow.getHandle(id).signal('providerEvent');
    await until(async () => {
      const now = await row().first('provider_calls as reading', 'provider_called_at as at');
      return now.reading > reading && now.at === null;
    });
  };
  await ask();
  expect(await row().first()).toMatchObject({ status: 'capturing' });
  await row().update({ gone_since: world.db.raw("gone_since - interval '24 hours'") });
  await ask();
  const failed = { status: 'failed', error_code: 'provider_error' };
  expect(await row().first()).toMatchObject(failed);
  await row().update({ provider_order_id: order });
  await act(checkout, 'complete-pending');
  await world.client.workflow.signalWithStart('paymentSession', {
    workflowId: id,
    taskQueue: 'payments',
    args: [{ payment_session_id: id }],
    signal: 'providerEvent',
  });
  await until(async () => (await row().first()).status === 'completed');
  expect(await sessionOf(world, tenant, checkout)).toMatchObject({
    credited_amount: 50,
    late: true,
  });
});

test('a disputed sale that is refunded in the Resolution Center is taken from the balance once', async () => {
  await world.use('payment_provider_a');
  const checkout = await createCheckout(world, tenant);
  await pay(checkout);
  await confirm(world, tenant, checkout);
  const lost = async () => (await sessionOf(world, tenant, checkout)).refunded_amount;
  await act(checkout, 'open-dispute', { amount: '10.00' });
  await until(async () => (await lost()) === 10);
  const before = (await arrivals(checkout, /[A-Z0-9]{17}$/)).length;
  await act(checkout, 'refund', { amount: '10.00' });
  await until(async () => (await arrivals(checkout, /[A-Z0-9]{17}$/)).length > before);
  await act(checkout, 'lose-dispute');
  const rows = () =>
    world.db('payment_sessions').where({ id: checkout.payment_session_id }).first('disputes');
  await until(async () => (await rows()).disputes[0].status === 'lost');
  expect(await lost()).toBe(10);
});
