import { randomUUID, X509Certificate } from 'node:crypto';
import { createServer, type Server } from 'node:http';
import { request } from 'undici';
import type { ProviderName } from '../../../domain/payments/currencies';
import {
  type CheckoutRequest,
  isProviderRefusal,
  isProviderTrouble,
  type PaymentProvider,
  type ProviderAccess,
  type RefundRequest,
} from '../../../payment-providers/provider';
import { createProviders } from '../../../payment-providers/registry';
import { listen } from '../../../runtime/listen';
import { processAuthority } from '../../../sandbox/payments/a/authority';
import { createPaymentServerA, sandboxAccessA } from '../../../sandbox/payments/a/provider';
import { createPaymentServerB, sandboxAccessB } from '../../../sandbox/payments/b/provider';
import { until } from '../until';

export const UNIT = 1_000_000_000n;
/** The time of a call, which only one that the provider never answers takes. */
const CALL_MS = 60_000;

interface AdaptedSandbox {
  url: string;
  access: ProviderAccess;
  provider: PaymentProvider;
}

export interface Posted {
  headers: Record<string, string | undefined>;
  body: Buffer;
}

const servers: Server[] = [];
const authorities: X509Certificate[] = [];

/** Listens until the tests of the file are over. */
export async function serveHere(server: Server): Promise<string> {
  servers.push(server);
  return `http://127.0.0.1:${await listen(server, 0)}`;
}

/** Ends every server of the file. */
export async function closeServers(): Promise<void> {
  for (const server of servers) {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  }
}

export type OpenedSandboxes = Awaited<ReturnType<typeof openSandboxes>>;

/** Both sandboxes with an adapter each, and every webhook that they have posted, as it came. */
export async function openSandboxes() {
  const posted: Posted[] = [];
  authorities.push(new X509Certificate((await processAuthority()).cert));
  const inbox = createServer(async (req, res) => {
    const chunks: Buffer[] = [];
    for await (const chunk of req) chunks.push(chunk as Buffer);
    posted.push({ headers: req.headers as Posted['headers'], body: Buffer.concat(chunks) });
    res.end();
  });
  const webhook_url = await serveHere(inbox);
  const { client_id, client_secret, webhook_id } = sandboxAccessA;
  const { secret_key, webhook_secret } = sandboxAccessB;
  const sandboxes: Record<ProviderName, AdaptedSandbox> = {
    payment_provider_a: over('payment_provider_a', {
      base_url: await serveHere(createPaymentServerA({ webhook_url })),
      credentials: { client_id, client_secret },
      webhook_secrets: [webhook_id],
    }),
    payment_provider_b: over('payment_provider_b', {
      base_url: await serveHere(createPaymentServerB({ webhook_url })),
      credentials: { secret_key },
      webhook_secrets: [webhook_secret],
    }),
  };
  return { sandboxes, posted, ...operator(sandboxes) };
}

/** An adapter of its own. */
export function over(
  name: ProviderName,
  access: ProviderAccess,
  call_ms = CALL_MS,
): AdaptedSandbox {
  const providerFor = createProviders({ call_ms, authorities });
  return { url: access.base_url, access, provider: providerFor(name, access) };
}

function operator(sandboxes: Record<ProviderName, AdaptedSandbox>) {
  async function ask(
    name: ProviderName,
    method: 'GET' | 'POST' | 'DELETE',
    path: string,
    body = {},
  ) {
    const answer = await request(`${sandboxes[name].url}/sandbox/${path}`, {
      method,
      body: method === 'POST' ? JSON.stringify(body) : null,
    });
    const text = await answer.body.text();
    if (answer.statusCode >= 300) throw new Error(`${path}: ${text}`);
    return JSON.parse(text);
  }
  const act = (name: ProviderName, order_id: string, action: string, body: object = {}) =>
    ask(name, 'POST', `orders/${order_id}/${action}`, body);
  const fault = (name: ProviderName, script: object) => ask(name, 'POST', 'faults', script);
  const arrivals = async (name: ProviderName): Promise<{ path: string; body: string }[]> =>
    (await ask(name, 'GET', 'requests')).requests;

  /**
   * The error of a call whose answer a script loses. If the answer never comes, the call's time is
   * over as soon as the provider has done its work: a short time might be over before.
   */
  async function lost(
    name: ProviderName,
    script: { on: string; answer: string; order?: string; status?: number },
    call: () => Promise<unknown>,
  ) {
    await fault(name, script);
    if (script.answer !== 'timeout') return thrown(call());
    const time = new AbortController();
    const clock = jest.spyOn(AbortSignal, 'timeout').mockReturnValue(time.signal);
    try {
      const failing = thrown(call());
      const isDone = async () => (await ask(name, 'GET', 'faults')).faults.length === 0;
      await Promise.race([until(isDone), failing]);
      time.abort(new DOMException('The time is over.', 'TimeoutError'));
      return await failing;
    } finally {
      clock.mockRestore();
    }
  }

  /** A paid checkout, and the refund of all of it. */
  async function paid(name: ProviderName, more: Partial<CheckoutRequest> = {}) {
    const { provider } = sandboxes[name];
    const asked = wanted(more);
    const { order_id } = await provider.createCheckout(asked);
    await act(name, order_id, 'pay');
    const report = await provider.capture(order_id, 'key-1');
    const refund: RefundRequest = {
      payment_refund_id: `ref_${randomUUID()}`,
      order_id,
      capture_id: report.capture_id as string,
      amount_nanos: asked.amount_nanos,
      currency: asked.currency,
    };
    return { provider, asked, order_id, report, refund };
  }
  return { ask, act, fault, arrivals, lost, paid };
}

export function wanted(more: Partial<CheckoutRequest> = {}): CheckoutRequest {
  const id = `pay_${randomUUID()}`;
  return {
    payment_session_id: id,
    key: `${id}-1`,
    amount_nanos: 50n * UNIT,
    currency: 'EUR',
    description: 'Top-up of team Research',
    return_url: 'http://127.0.0.1:3000/back?x=1',
    cancel_url: 'http://127.0.0.1:3000/cancel',
    expires_at: new Date(Date.now() + 55 * 60_000),
    ...more,
  };
}

const secretWords = [
  ...Object.values(sandboxAccessA),
  ...Object.values(sandboxAccessB),
  'A21AA',
  'Basic ',
  'Bearer ',
];

/** The error that is thrown, of one of the two kinds and without any secret or cause. */
export async function thrown(call: Promise<unknown>) {
  const error = await call.then(
    (value) => {
      throw new Error(`it answered ${JSON.stringify(value)}`);
    },
    (reason: Error) => reason,
  );
  expect(isProviderRefusal(error) || isProviderTrouble(error)).toBe(true);
  const all = `${error.message} ${error.stack} ${JSON.stringify(error)} ${String(error.cause)}`;
  for (const word of secretWords) expect(all).not.toContain(word);
  return error as Error & { code?: string };
}
