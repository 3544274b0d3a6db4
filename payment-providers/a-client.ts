import { ApiError, Client, Environment } from '@paypal/paypal-server-sdk';
import { fetch } from '../runtime/outgoing';
import { lostWords } from './calls';
import { type ProviderAccess, type ProviderRefusal, ProviderTrouble } from './provider';
import { issues, meaningOf } from './words-a';

/** A token is replaced so long before its end. */
const TOKEN_MARGIN_MS = 60_000;

/** A client with its token. */
interface Login {
  client: Client;
  token: string;
}

export interface Connection {
  base_url: string;
  webhook_ids: readonly string[];
  /** With a token that is good. */
  session: () => Promise<Login>;
  /** The token is not taken any more. */
  forget: () => void;
}

/**
 * Provider A as it is reached: a client of the official package with a token, at the configured
 * address.
 */
export function createConnection(
  { base_url, credentials, webhook_secrets }: ProviderAccess,
  call_ms: number,
): Connection {
  const { client_id: oAuthClientId = '', client_secret: oAuthClientSecret = '' } = credentials;
  const options = {
    environment: Environment.Production,
    timeout: call_ms,
    unstable_httpClientOptions: { adapter: adapterTo(base_url, call_ms) },
  };
  let good_until_ms = 0;
  let opened: Promise<Login> | undefined;
  // A client whose token once failed to come fails for ever, so each token has a client of its own.
  const open = async (): Promise<Login> => {
    const asking = { oAuthClientId, oAuthClientSecret };
    const asker = new Client({ ...options, clientCredentialsAuthCredentials: asking });
    const oAuthToken = await asker.clientCredentialsAuthManager.fetchToken();
    good_until_ms = performance.now() + Number(oAuthToken.expiresIn ?? 0) * 1_000 - TOKEN_MARGIN_MS;
    const known = { ...asking, oAuthToken };
    const client = new Client({ ...options, clientCredentialsAuthCredentials: known });
    return { client, token: oAuthToken.accessToken };
  };
  const forget = () => {
    opened = undefined;
  };
  const session = () => {
    if (opened && performance.now() < good_until_ms) return opened;
    // One call requests a token; calls that come meanwhile wait for the same one.
    good_until_ms = Number.POSITIVE_INFINITY;
    opened = open().catch((error) => {
      forget();
      throw error;
    });
    return opened;
  };
  return { base_url, webhook_ids: webhook_secrets.filter(Boolean), session, forget };
}

interface AxiosRequest {
  url: string;
  method: string;
  headers: { toJSON(): Record<string, string> };
  data?: string;
}

/**
 * The package knows two addresses of its own; this sends its requests to the configured one. Never
 * past a redirect.
 */
function adapterTo(base_url: string, call_ms: number) {
  return async (config: AxiosRequest) => {
    const { pathname, search } = new URL(config.url);
    const response = await fetch(addressOf(base_url, `${pathname}${search}`), {
      method: config.method.toUpperCase(),
      headers: config.headers.toJSON(),
      body: config.data ?? null,
      redirect: 'error',
      signal: AbortSignal.timeout(call_ms),
    });
    const headers = Object.fromEntries(response.headers);
    const { status, statusText } = response;
    return { data: await response.text(), status, statusText, headers, config };
  };
}

function addressOf(base_url: string, path: string): string {
  return `${base_url.replace(/\/+$/, '')}${path}`;
}

/**
 * A call that the package does not have: its answer's JSON, undefined for one of the refusals that
 * the caller expects.
 */
export async function askJson(
  { base_url, session, forget }: Connection,
  path: string,
  { body, expected = [], signal }: { body?: Buffer; expected?: number[]; signal: AbortSignal },
): Promise<unknown> {
  const { token } = await session();
  const response = await fetch(addressOf(base_url, path), {
    method: body ? 'POST' : 'GET',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    body: body ? new Uint8Array(body) : null,
    redirect: 'error',
    signal,
  });
  const text = await response.text();
  if (response.ok) return JSON.parse(text);
  if (expected.includes(response.status)) return undefined;
  if (response.status === 401) forget();
  const why = response.status === 403 ? ': the app at the provider lacks this feature' : '';
  throw new ProviderTrouble(`answered ${response.status} to ${path.split('?')[0]}${why}`);
}

// Definite refusals: the request was understood and nothing was done.
const refusing = new Set([400, 404, 422]);

interface Problem {
  name?: string;
  debug_id?: string;
  details?: { issue?: string; description?: string }[];
}

function problemOf(error: ApiError): Problem {
  return (error.result ?? {}) as Problem;
}

/** The first thing that the provider found wrong: ORDER_ALREADY_CAPTURED. */
export function issueOf(error: unknown): string | undefined {
  return error instanceof ApiError ? problemOf(error).details?.[0]?.issue : undefined;
}

/**
 * The message of an error, and whether it is a definite no. Errors of the package carry the request
 * with its token.
 */
export function explain(
  { forget }: Connection,
  error: unknown,
): { message: string; refusal?: ProviderRefusal['code'] } {
  if (!(error instanceof ApiError)) return { message: lostWords(error) };
  const { statusCode: status } = error;
  if (status === 401) forget();
  const { name, debug_id, details: [detail] = [] } = problemOf(error);
  const words = [status, name, detail?.issue, detail?.description, debug_id && `(${debug_id})`];
  const message = `answered ${words.filter(Boolean).join(' ')}`;
  // Only the provider's own error counts: a 404 of a proxy between us does not.
  if (!name || !refusing.has(status)) return { message };
  return { message, refusal: meaningOf(issues, detail?.issue) };
}
