import type { ProviderName } from '../../domain/payments/currencies';
import { type Claim, claimOf, isOfProvider, isTimely } from '../../payment-providers/a-signature';
import { isProviderTrouble } from '../../payment-providers/provider';
import {
  closeServers,
  type OpenedSandboxes,
  openSandboxes,
  over,
  type Posted,
  thrown,
} from '../support/payments/providers';
import { until } from '../support/until';

// Webhooks of provider A before the provider is asked: what is judged here, and what it may cost.

const A: ProviderName = 'payment_provider_a';

let sandboxes: OpenedSandboxes['sandboxes'];
let ask: OpenedSandboxes['ask'];
let fault: OpenedSandboxes['fault'];
let arrivals: OpenedSandboxes['arrivals'];
let headers: Posted['headers'];
let body: Buffer;

beforeAll(async () => {
  const opened = await openSandboxes();
  ({ sandboxes, ask, fault, arrivals } = opened);
  await opened.paid(A);
  const isIt = (one: Posted) => one.body.includes('"CHECKOUT.ORDER.APPROVED"');
  await until(() => opened.posted.some(isIt));
  ({ headers, body } = opened.posted.find(isIt) as Posted);
});
beforeEach(() => ask(A, 'DELETE', 'requests'));
afterAll(closeServers);

async function verifyCalls(): Promise<number> {
  return (await arrivals(A)).filter(({ path }) => path.includes('verify-webhook')).length;
}

test('a certificate of elsewhere is refused without a request of any kind', async () => {
  const { access } = sandboxes[A];
  const { provider } = over(A, access);
  const own = new URL(headers['paypal-cert-url'] ?? '');
  for (const cert_url of [
    'https://evil.example/cert.pem',
    'http://127.0.0.1:1/cert.pem',
    `https://${own.host}${own.pathname}`,
    `http://evil@${own.host}${own.pathname}`,
    `http://${own.host}.evil.example${own.pathname}`,
    `${own.href}?x=1`,
    `${own.href}#x`,
    `${own.origin}/v1/notifications/certs/../certs/CERT-1`,
    `${own.origin}/v1/notifications/certs/`,
    `${own.origin}/v1/oauth2/token`,
    '//evil.example/cert',
    'file:///etc/passwd',
    'cert',
  ])
    expect(
      await provider.verifyWebhook({ ...headers, 'paypal-cert-url': cert_url }, body),
    ).toBeUndefined();
  expect(await arrivals(A)).toEqual([]);
  expect(await provider.verifyWebhook(headers, body)).toBeDefined();
});

test('a certificate is fetched once, and an invented webhook costs the account no call', async () => {
  const { provider } = over(A, sandboxes[A].access);
  const sig = headers['paypal-transmission-sig'] ?? '';
  const forged = [
    { 'paypal-transmission-id': 'e2f1a9d0-0000-11ee-9999-000000000000' },
    { 'paypal-transmission-sig': `${sig[0] === 'A' ? 'B' : 'A'}${sig.slice(1)}` },
    { 'paypal-transmission-sig': 'x' },
    { 'paypal-transmission-id': 'a|b' },
    { 'paypal-transmission-id': 'a'.repeat(51) },
    { 'paypal-auth-algo': 'SHA1withRSA' },
    { 'paypal-transmission-time': 'yesterday' },
  ];
  for (const lie of forged)
    expect(await provider.verifyWebhook({ ...headers, ...lie }, body)).toBeUndefined();
  await Promise.all(
    Array.from({ length: 20 }, () => provider.verifyWebhook({ ...headers, ...forged[0] }, body)),
  );
  expect(await verifyCalls()).toBe(0);
  for (const _ of [1, 2, 3]) expect(await provider.verifyWebhook(headers, body)).toBeDefined();
  const paths = (await arrivals(A)).map(({ path }) => path);
  expect(paths.filter((path) => path.includes('/certs/'))).toHaveLength(1);
  expect(await verifyCalls()).toBe(3);
});

test('invented certificates cost twenty requests a minute at most, and none twice', async () => {
  const { provider } = over(A, sandboxes[A].access);
  const own = new URL(headers['paypal-cert-url'] ?? '');
  const at = (name: string) =>
    provider.verifyWebhook(
      { ...headers, 'paypal-cert-url': `${own.origin}/v1/notifications/certs/${name}` },
      body,
    );
  // All of it within one minute, however long it takes.
  jest.spyOn(performance, 'now').mockReturnValue(performance.now());
  for (const name of ['CERT-a', 'CERT-a', 'CERT-a']) expect(await at(name)).toBeUndefined();
  expect(await arrivals(A)).toHaveLength(1);
  for (let count = 1; count < 20; count += 1) expect(await at(`CERT-${count}`)).toBeUndefined();
  expect(isProviderTrouble(await thrown(at('CERT-more')))).toBe(true);
  expect(await arrivals(A)).toHaveLength(20);
});

test('a webhook of provider A is taken for four days, and five minutes ahead', async () => {
  const { provider } = sandboxes[A];
  const sent_ms = Date.parse(headers['paypal-transmission-time'] ?? '');
  expect(await provider.verifyWebhook(headers, body)).toBeDefined();
  const clock = jest.spyOn(Date, 'now');
  try {
    for (const [passed_s, isTaken] of [
      [4 * 86_400 - 1, true],
      [4 * 86_400 + 1, false],
      [-299, true],
      [-301, false],
    ] as const) {
      clock.mockReturnValue(sent_ms + passed_s * 1_000);
      const claim = claimOf(headers) as Claim;
      expect([passed_s, isTimely(claim, Date.now())]).toEqual([passed_s, isTaken]);
      if (isTaken) continue;
      expect(await provider.verifyWebhook(headers, body)).toBeUndefined();
    }
  } finally {
    clock.mockRestore();
  }
});

test('at most four webhooks are asked about at a time; the next one may come again', async () => {
  const { provider } = over(A, sandboxes[A].access);
  expect(await provider.verifyWebhook(headers, body)).toBeDefined();
  await fault(A, { on: 'verify', delay_ms: 300, times: 4 });
  await ask(A, 'DELETE', 'requests');
  const asked = await Promise.allSettled(
    Array.from({ length: 9 }, () => provider.verifyWebhook(headers, body)),
  );
  const refused = asked.filter(({ status }) => status === 'rejected') as PromiseRejectedResult[];
  expect([asked.length - refused.length, refused.length]).toEqual([4, 5]);
  for (const { reason } of refused) expect(isProviderTrouble(reason)).toBe(true);
  expect(await verifyCalls()).toBe(4);
  expect(await provider.verifyWebhook(headers, body)).toBeDefined();
});

test('what the provider refuses is refused, although its signature is good here', async () => {
  const { provider } = sandboxes[A];
  await fault(A, { on: 'verify', answer: 'error', status: 422 });
  expect(await provider.verifyWebhook(headers, body)).toBeUndefined();
  expect(await provider.verifyWebhook(headers, body)).toBeDefined();
});

test('each provider may sign with certificates of its own hosts, over https alone', () => {
  const path = '/v1/notifications/certs/CERT-360caa42-fca2a594-1d93a270';
  const live = 'https://api-m.paypal.com';
  const trial = 'https://api-m.sandbox.paypal.com';
  for (const host of ['api.paypal.com', 'api-m.paypal.com'])
    expect(isOfProvider(`https://${host}${path}`, live)).toBe(true);
  for (const host of ['api.sandbox.paypal.com', 'api-m.sandbox.paypal.com'])
    expect(isOfProvider(`https://${host}${path}`, trial)).toBe(true);
  for (const origin of [
    'http://api.paypal.com',
    'https://api.sandbox.paypal.com',
    'https://www.paypal.com',
    'https://evilpaypal.com',
    'https://paypal.com.evil.example',
    'https://api.paypal.com:8443',
    'https://me@api.paypal.com',
    'https://API.paypal.com',
  ])
    expect([origin, isOfProvider(`${origin}${path}`, live)]).toEqual([origin, false]);
});
