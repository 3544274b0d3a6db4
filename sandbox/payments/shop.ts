import {
  createServer,
  type IncomingMessage,
  type OutgoingHttpHeaders,
  type Server,
  type ServerResponse,
} from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { listen } from '../../runtime/listen';
import { escaped, htmlPage } from './pages';

const BODY_MAX_BYTES = 10_000;
const RETRY_MS = 2_000;
const look = { name: 'Demo: top up a wallet', colour: '#0f5c4c' };

interface Api {
  api_url: string;
  /** An access key with org:billing. */
  key: string;
}

/** A checkout that was begun here; the buyer comes back with its order id only. */
interface Begun {
  payment_session_id: string;
  provider: string;
  checkout_state: string;
  approval_url: string;
}

/**
 * The page where a buyer begins a top-up, and comes back to: a console, as small as it can be. It
 * tops up the organization's wallet over the public API, as any client does. Checkouts that were
 * begun elsewhere may return here too.
 */
export function createShop(api: Api): Server {
  const begun = new Map<string, Begun>();
  return createServer((req, res) => {
    void serve(api, begun, req, res).catch((error: Error) => {
      if (!res.headersSent)
        show(res, 502, `<h1>That did not work</h1><p>${escaped(error.message)}</p>`);
    });
  });
}

async function serve(
  api: Api,
  begun: Map<string, Begun>,
  req: IncomingMessage,
  res: ServerResponse,
) {
  const { origin, pathname, searchParams } = new URL(req.url ?? '/', `http://${req.headers.host}`);
  if (req.method === 'POST' && pathname === '/top-up') {
    const fields = new URLSearchParams(await read(req));
    return redirect(res, await begin(api, begun, origin, Number(fields.get('amount'))));
  }
  if (pathname === '/return')
    return show(res, 200, await end(api, begun.get(searchParams.get('token') ?? '')));
  if (pathname === '/canceled')
    return show(res, 200, `<h1>Canceled: nothing was paid.</h1>${again}`);
  if (pathname === '/') return show(res, 200, await offer(api));
  show(res, 404, `<h1>There is no such page.</h1>${again}`);
}

const again = '<p><a class="button" href="/">Top up again</a></p>';

async function offer(api: Api): Promise<string> {
  const settings = await ask<{ allowed_topup_amounts: number[]; active_provider: string | null }>(
    api,
    '/v1/payments/settings',
  );
  const { org_balance, currency } = await ask<{ org_balance: number; currency: string }>(
    api,
    '/v1/wallets/balance',
  );
  const forms = settings.allowed_topup_amounts.map(
    (amount) =>
      `<form method="post" action="/top-up"><button class="button pay" name="amount" value="${amount}">Top up ${amount} ${escaped(currency)}</button></form>`,
  );
  return `<h1>The organization's wallet holds</h1><p class="money">${org_balance} ${escaped(currency)}</p>
<div class="others">${forms.join('')}</div><p>Paid at ${escaped(settings.active_provider ?? 'no provider: none is active')}.</p>`;
}

/** Makes the checkout, and answers where the buyer pays. */
async function begin(
  api: Api,
  begun: Map<string, Begun>,
  origin: string,
  amount: number,
): Promise<string> {
  const made = await ask<Begun>(api, '/v1/payments/create-checkout', {
    amount,
    target_wallet_owner_type: 'organization',
    surface: 'console',
    return_url: `${origin}/return`,
    cancel_url: `${origin}/canceled`,
  });
  begun.set(tokenOf(made.approval_url), made);
  return made.approval_url;
}

/** Both providers name the order last in the page's address. */
function tokenOf(approval_url: string): string {
  return approval_url.split(/[/=]/).at(-1) ?? '';
}

interface Confirmed {
  status: string;
  currency: string;
  credited_amount: number | null;
  wallet_balance_after: number | null;
  error_message: string | null;
}

/** Confirms the checkout that was begun here. */
async function end(api: Api, made: Begun | undefined): Promise<string> {
  if (made === undefined)
    return '<h1>Thank you</h1><p>You can close this page. The provider tells the API by itself, or confirm with the command that <code>npm start</code> has printed.</p>';
  const { payment_session_id, provider, checkout_state, approval_url } = made;
  const confirm = () =>
    ask<Confirmed>(api, '/v1/payments/confirm-checkout', {
      payment_session_id,
      provider,
      checkout_state,
      provider_session_token: tokenOf(approval_url),
    });
  // It may be repeated: what is credited already is only told again.
  const confirmed = await confirm().catch(async (error) => {
    if (!(error instanceof Unavailable)) throw error;
    await sleep(RETRY_MS);
    return confirm();
  });
  const { status, currency, credited_amount, wallet_balance_after, error_message } = confirmed;
  const session = `<p>Payment session ${escaped(payment_session_id)} is ${escaped(status)}.</p>`;
  if (credited_amount === null)
    return `<h1>${escaped(error_message ?? 'The payment is not complete yet.')}</h1>${session}
<p><a class="button pay" href="${escaped(approval_url)}">Back to the provider's page</a></p>${again}`;
  return `<h1>Credited</h1><p class="money">${credited_amount} ${escaped(currency)}</p>
<p class="good">The wallet holds ${wallet_balance_after} ${escaped(currency)} now. Calls that waited for money go on.</p>${session}${again}`;
}

/** What the API could not do at the moment. */
class Unavailable extends Error {}

async function ask<Body>({ api_url, key }: Api, path: string, body?: object): Promise<Body> {
  const response = await fetch(`${api_url}${path}`, {
    method: body ? 'POST' : 'GET',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: body ? JSON.stringify(body) : null,
    signal: AbortSignal.timeout(40_000),
  });
  const answer = (await response.json()) as Body & { error?: { message: string } };
  if (response.ok) return answer;
  const message = answer.error?.message ?? `The API answered ${response.status}.`;
  throw response.status === 503 ? new Unavailable(message) : new Error(message);
}

function show(res: ServerResponse, status: number, content: string): void {
  send(res, status, { 'content-type': 'text/html; charset=utf-8' }, htmlPage(look, content));
}

function redirect(res: ServerResponse, location: string): void {
  send(res, 303, { location }, '');
}

function send(
  res: ServerResponse,
  status: number,
  headers: OutgoingHttpHeaders,
  body: string,
): void {
  res.writeHead(status, { ...headers, 'cache-control': 'no-store' }).end(body);
}

async function read(req: IncomingMessage): Promise<string> {
  let body = '';
  for await (const chunk of req) {
    body += chunk;
    if (body.length > BODY_MAX_BYTES) throw new Error('That is too much.');
  }
  return body;
}

/** Starts it as its environment says. */
export async function startShop(env: NodeJS.ProcessEnv): Promise<void> {
  const server = createShop({
    api_url: env.SANDBOX_SHOP_API_URL ?? 'http://127.0.0.1:8080',
    key: env.SANDBOX_SHOP_KEY ?? '',
  });
  // It spends in the name of the person who opens it, so that only this machine may.
  const given = Number(env.SANDBOX_SHOP_PORT ?? 8093);
  const port = await listen(server, given, { host: '127.0.0.1', name: 'SANDBOX_SHOP' });
  process.stdout.write(`demo top-up page on http://127.0.0.1:${port}\n`);
}
