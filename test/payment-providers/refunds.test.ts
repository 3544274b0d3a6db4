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
