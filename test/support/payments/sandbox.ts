import { createServer, type IncomingHttpHeaders, type Server } from 'node:http';
import { Client, Environment } from '@paypal/paypal-server-sdk';
import Stripe from 'stripe';
import { listen } from '../../../runtime/listen';
import { sandboxAccessA } from '../../../sandbox/payments/a/provider';
import { sandboxAccessB } from '../../../sandbox/payments/b/provider';
import { until } from '../until';

/**
 * The official client of provider A's wire, turned to another address: it has no setting for that.
 */
export function paypalClient(url: string, timeout = 60_000): Client {
  return new Client({
    environment: Environment.Sandbox,
    timeout,
    clientCredentialsAuthCredentials: {
      oAuthClientId: sandboxAccessA.client_id,
      oAuthClientSecret: sandboxAccessA.client_secret,
    },
    unstable_httpClientOptions: { adapter: (config: AxiosRequest) => askElsewhere(config, url) },
  });
}

interface AxiosRequest {
  url: string;
  method: string;
  headers: { toJSON(): Record<string, string> };
  data?: string;
  timeout: number;
}

async function askElsewhere(config: AxiosRequest, base_url: string) {
  const { pathname, search } = new URL(config.url);
  const response = await fetch(`${base_url}${pathname}${search}`, {
    method: config.method.toUpperCase(),
    headers: config.headers.toJSON(),
    body: config.data ?? null,
    signal: AbortSignal.timeout(config.timeout),
  });
  return {
    data: await response.text(),
    status: response.status,
    statusText: response.statusText,
    headers: Object.fromEntries(response.headers),
    config,
  };
}

/** The official client of provider B's wire. */
export function stripeClient(url: string, secret_key = sandboxAccessB.secret_key): Stripe {
  const { hostname, port } = new URL(url);
  return new Stripe(secret_key, {
    host: hostname,
    port,
    protocol: 'http',
    maxNetworkRetries: 0,
    timeout: 60_000,
    telemetry: false,
  });
}

export interface Delivery {
  headers: IncomingHttpHeaders;
  body: Buffer;
  type: string;
}

/** A merchant's address for webhooks: keeps the deliveries, and answers as the test says. */
export interface Inbox {
  url: string;
  deliveries: Delivery[];
  answer: (delivery: Delivery) => number;
  /** The first delivery of a type, waited for. */
  first(type: string): Promise<Delivery>;
  /** Empties it once these providers have delivered all events of the test before. */
  clear(...providers: string[]): Promise<void>;
  close(): Promise<void>;
}

export async function openInbox(): Promise<Inbox> {
  const server = createServer(async (req, res) => {
    const chunks: Buffer[] = [];
    for await (const chunk of req) chunks.push(chunk as Buffer);
    const body = Buffer.concat(chunks);
    const { type, event_type } = JSON.parse(body.toString());
    const delivery = { headers: req.headers, body, type: type ?? event_type };
    inbox.deliveries.push(delivery);
    res.writeHead(inbox.answer(delivery)).end();
  });
  const inbox: Inbox = {
    url: `http://127.0.0.1:${await listen(server, 0)}/webhook`,
    deliveries: [],
    answer: () => 200,
    async first(wanted) {
      const found = () => inbox.deliveries.find(({ type }) => type === wanted);
      await until(() => found() !== undefined);
      return found() as Delivery;
    },
    async clear(...providers) {
      for (const url of providers) {
        await until(async () => {
          const { events } = await operator<{ events: { state: string }[] }>(url, 'events');
          return events.every(({ state }) => state === 'ended');
        });
      }
      inbox.deliveries.length = 0;
    },
    close: () => close(server),
  };
  return inbox;
}

export async function close(server: Server): Promise<void> {
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
}

/** A person on a hosted page: opens it and presses its first button, without script or field. */
export async function pressFirst(page_url: string): Promise<Response> {
  const page = await (await fetch(page_url)).text();
  const action = /<form method="post" action="([^"]+)"/.exec(page)?.[1];
  if (action === undefined) throw new Error(`There is no button on ${page_url}.`);
  return fetch(new URL(action, page_url), { method: 'POST', redirect: 'manual' });
}

/** A call of the sandbox's own routes. */
export async function operator<Answer = Record<string, unknown>>(
  url: string,
  path: string,
  body?: object,
): Promise<Answer> {
  const init = body && { method: 'POST', body: JSON.stringify(body) };
  const response = await fetch(`${url}/sandbox/${path}`, init);
  const answer = await response.json();
  if (response.status !== 200) throw new Error(`${path}: ${JSON.stringify(answer)}`);
  return answer as Answer;
}
