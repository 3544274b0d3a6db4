import pino from 'pino';
import { serve } from '../../support/api';
import { openPaymentWorld, type PaymentWorld } from '../../support/payments/world';

// Webhooks that somebody invents, as many as they like.

const PATH = '/v1/payments/webhooks/payment_provider_a';
let world: PaymentWorld;

beforeAll(async () => {
  world = await openPaymentWorld();
});
afterAll(() => world.close());

function invented(cert_url: string) {
  return {
    'paypal-transmission-id': '69cd13f0-d67a-11e5-baa3-778b53f4ae55',
    'paypal-transmission-time': new Date().toISOString(),
    'paypal-transmission-sig': 'A'.repeat(344),
    'paypal-auth-algo': 'SHA256withRSA',
    'paypal-cert-url': cert_url,
  };
}

/** An API of its own with what it logs, and the paths that the provider is asked for meanwhile. */
async function flooded(certificate: (n: number) => string, body: string) {
  const { url } = world.sandboxes.payment_provider_a;
  await fetch(`${url}/sandbox/requests`, { method: 'DELETE' });
  const lines: Record<string, unknown>[] = [];
  const log = pino({ level: 'warn' }, { write: (line) => lines.push(JSON.parse(line)) });
  const api = await serve({ db: world.db, log });
  const answers = await Promise.all(
    Array.from({ length: 60 }, (_, n) =>
      api.call('post', PATH, { body, headers: invented(`${url}${certificate(n)}`) }),
    ),
  );
  await api.close();
  const asked = (await (await fetch(`${url}/sandbox/requests`)).json()) as {
    requests: { path: string }[];
  };
  return { answers, lines, paths: asked.requests.map(({ path }) => path) };
}

const event = JSON.stringify({ id: 'WH-1', event_type: 'CHECKOUT.ORDER.APPROVED' });

test('sixty invented webhooks with one certificate cost one request for it, and no line', async () => {
  const certificate = () => '/v1/notifications/certs/CERT-1';
  const { answers, lines, paths } = await flooded(certificate, event);
  expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([401]));
  expect(paths).toEqual(['/v1/notifications/certs/CERT-1']);
  expect(lines).toEqual([]);
});

test('sixty with certificates of their own cost no call of the account, and a line without a stack each', async () => {
  const certificate = (n: number) => `/v1/notifications/certs/CERT-${n}`;
  const { answers, lines, paths } = await flooded(certificate, event);
  for (const { status, headers } of answers)
    expect([status, headers['retry-after']]).toEqual(
      status === 401 ? [401, undefined] : [503, '5'],
    );
  expect(paths.filter((path) => !path.includes('/certs/'))).toEqual([]);
  expect(paths.length).toBeLessThanOrEqual(20);
  expect(lines.length).toBe(answers.filter(({ status }) => status === 503).length);
  for (const line of lines) {
    expect(line.reason).toMatch(/too many certificates/);
    expect(JSON.stringify(line)).not.toMatch(/stack|\\n/);
  }
});

test('a body of more than 256 kB is 413, before anything is asked', async () => {
  const large = JSON.stringify({ ...JSON.parse(event), filling: 'x'.repeat(262_144) });
  const { answers, paths } = await flooded(() => '/v1/notifications/certs/CERT-1', large);
  expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([413]));
  expect(paths).toEqual([]);
});
