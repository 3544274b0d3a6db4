import { randomUUID } from 'node:crypto';
import { type ProviderName, providerNames } from '../../domain/payments/currencies';
import { isProviderTrouble } from '../../payment-providers/provider';
import {
  closeServers,
  type OpenedSandboxes,
  openSandboxes,
  thrown,
  UNIT,
} from '../support/payments/providers';

const [, B] = providerNames as [ProviderName, ProviderName];

let sandboxes: OpenedSandboxes['sandboxes'];
let ask: OpenedSandboxes['ask'];
let act: OpenedSandboxes['act'];
let fault: OpenedSandboxes['fault'];
let lost: OpenedSandboxes['lost'];
let paid: OpenedSandboxes['paid'];

beforeAll(async () => {
  ({ sandboxes, ask, act, fault, lost, paid } = await openSandboxes());
});

afterAll(closeServers);

beforeEach(async () => {
  for (const name of providerNames) {
    await ask(name, 'DELETE', 'faults');
    await ask(name, 'DELETE', 'requests');
  }
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

const eur = (value: string) => ({ currency_code: 'EUR', value });

test.each<[string, object, [bigint, bigint], string]>([
  ['as they are', {}, [15n, 15n], '30.00'],
  ['as they are, to the last of it', {}, [50n, 50n], '100.00'],
  [
    'by what is disputed of each',
    {
      '/disputed_transactions/0/items': [
        { dispute_amount: eur('8') },
        { dispute_amount: eur('2') },
      ],
      '/disputed_transactions/1/items': [{ dispute_amount: eur('20') }],
    },
    [10n, 20n],
    '30.00',
  ],
  [
    'by their amounts, where something is not told of one',
    { '/disputed_transactions/0/items': [{ dispute_amount: eur('8') }] },
    [15n, 15n],
    '30.00',
  ],
  [
    'by their amounts, where these differ',
    { '/disputed_transactions/0/gross_amount': eur('100.00') },
    [20n, 10n],
    '30.00',
  ],
  [
    'in equal parts, where their currencies differ',
    { '/disputed_transactions/0/gross_amount': { currency_code: 'JPY', value: '9000' } },
    [15n, 15n],
    '30.00',
  ],
])('a dispute of two payments of A is shared %s', async (_, set, shares, amount) => {
  const name = 'payment_provider_a';
  const [one, other] = [await paid(name), await paid(name)];
  await act(name, one.order_id, 'open-dispute', { amount, beside: [other.order_id] });
  for (const { order_id } of [one, other])
    await fault(name, { on: 'read', order: order_id, set, times: 9 });
  const told = [one, other].map(({ provider, order_id }) => provider.read(order_id));
  const disputes = (await Promise.all(told)).map((report) => report.disputes);
  expect(disputes).toMatchObject(
    shares.map((share) => [{ status: 'open', amount_nanos: share * UNIT }]),
  );
  await act(name, one.order_id, 'lose-dispute');
  const lost_now = await Promise.all(
    [one, other].map(({ provider, order_id }) => provider.read(order_id)),
  );
  expect(lost_now.map((report) => report.disputes)).toMatchObject(
    shares.map((share) => [{ status: 'lost', amount_nanos: share * UNIT }]),
  );
});

test('a dispute of three payments of A takes not a billionth more than its amount', async () => {
  const name = 'payment_provider_a';
  const all = [await paid(name), await paid(name), await paid(name)];
  const [first, ...others] = all.map(({ order_id }) => order_id);
  await act(name, String(first), 'open-dispute', { amount: '10.00', beside: others });
  const reports = await Promise.all(all.map(({ provider, order_id }) => provider.read(order_id)));
  const shares = reports.map(({ disputes }) => disputes?.[0]?.amount_nanos ?? 0n);
  expect(shares.reduce((sum, share) => sum + share, 0n)).toBe(10n * UNIT);
  for (const share of shares) expect(share / 1_000_000_000n).toBe(3n);
});

test.each(providerNames)('%s: an inquiry, which moved no money, is not reported', async (name) => {
  const { provider, order_id } = await paid(name);
  await act(name, order_id, 'open-dispute', { is_inquiry: true });
  expect((await provider.read(order_id)).disputes).toEqual([]);
});

test.each(['timeout', 'reset', 'error'])(
  'a refund whose answer is lost (%s) rejects, is found by read, and is made once',
  async (answer) => {
    for (const name of providerNames) {
      const { provider, refund, order_id } = await paid(name);
      const script = { on: 'refund', order: order_id, answer };
      const error = await lost(name, script, () => provider.refund(refund));
      expect(isProviderTrouble(error)).toBe(true);
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
