import dns from 'node:dns';
import { isIP, type LookupFunction } from 'node:net';
import { Client } from 'undici';
import type { Outcome } from '../domain/notices/messages';
import { isInner } from '../runtime/inner';
import { holds, type Networks } from '../runtime/networks';
import { isClosed } from '../runtime/outgoing';

/** Where notices may go, beside the servers of the world: the operator says so. */
export interface Reach {
  /** Inner networks that webhooks may go to, also by plain http: NOTICE_NETWORKS. */
  networks: Networks;
  /** The hosts of Slack and Teams: NOTICE_CHAT_HOSTS. */
  chat_hosts: readonly string[];
}

const TIME_MS = 10_000;
const ANSWER_BYTES_MAX = 65_536;

type Address = { address: string; family: number };

/** The addresses of a URL's host, or why nothing may be sent there. */
export type Resolved = { addresses: Address[] } | { problem: string };

/**
 * Resolves the host of an address once and judges all that it means: inner addresses are for those
 * that the operator allows, link-local and metadata ones for nobody.
 */
export async function resolve(url: URL, { networks }: Pick<Reach, 'networks'>): Promise<Resolved> {
  const host = url.hostname.replace(/^\[|\]$/g, '');
  const family = isIP(host);
  const addresses = family === 0 ? await addressesOf(host, networks) : [{ address: host, family }];
  // One text for both, or whoever makes destinations could ask for the names of this network.
  const problem = `${host} was not found, or is an address inside a network, to which the operator lets nothing be sent.`;
  if (addresses.length === 0) return { problem };
  for (const { address } of addresses) {
    const is_allowed = !isClosed(address) && holds(networks, address);
    if (isInner(address) && !is_allowed) return { problem };
    if (url.protocol !== 'https:' && !is_allowed) return { problem: 'Notices go by https: only.' };
  }
  return { addresses };
}

// The system's own way to look names up has four threads, which providers and ciphers need too; a
// name whose server never answers would hold each for long.
const resolver = new dns.promises.Resolver({ timeout: 2_000, tries: 2 });

/** All that a name means. What hosts files and search lists say counts where inner networks do. */
async function addressesOf(host: string, networks: Networks): Promise<Address[]> {
  const [four, six] = await Promise.all([
    resolver.resolve4(host).catch(() => []),
    resolver.resolve6(host).catch(() => []),
  ]);
  const found = [
    ...four.map((address) => ({ address, family: 4 })),
    ...six.map((address) => ({ address, family: 6 })),
  ];
  if (found.length > 0 || networks === undefined) return found;
  return dns.promises.lookup(host, { all: true }).catch(() => []);
}

/** What is posted: a text of JSON, with headers of its own. */
export interface Post {
  url: string;
  body: string;
  headers?: Record<string, string>;
  /** The status of a failure that the text of a 2xx answer tells of; undefined: of none. */
  failureIn?: (text: string) => number | undefined;
}

/**
 * Posts once. The connection goes to an address that was judged, however the name resolves anew; no
 * redirect is followed; the answer is read up to 64 kB; all of it has 10 s. What counts is its
 * status, also if the rest never comes, and what a service is known to write into a 2xx. Never
 * throws.
 */
export async function post(
  { url, body, headers, failureIn }: Post,
  reach: Reach,
): Promise<Outcome> {
  const signal = AbortSignal.timeout(TIME_MS);
  try {
    const resolved = await inTime(resolve(new URL(url), reach), signal);
    if ('problem' in resolved) return failed(resolved.problem);
    const sent = { url, body, headers: headers ?? {} };
    const { status, text } = await answerOf(sent, resolved.addresses, signal);
    const outcome = outcomeOf(status);
    const failure = outcome.outcome === 'delivered' ? failureIn?.(text) : undefined;
    if (failure === undefined) return outcome;
    const error = `It answered ${status}, and that the delivery failed with ${failure}.`;
    return { outcome: isOfMessage(failure) ? 'refused' : 'failed', status, error };
  } catch (error) {
    return failed(signal.aborted ? 'It did not answer within 10 seconds.' : wordsOf(error));
  }
}

async function answerOf(
  { url, body, headers }: Required<Omit<Post, 'failureIn'>>,
  addresses: Address[],
  signal: AbortSignal,
): Promise<{ status: number; text: string }> {
  const { origin, pathname, search } = new URL(url);
  const client = new Client(origin, {
    connect: { timeout: TIME_MS, lookup: knownAs(addresses) },
    headersTimeout: TIME_MS,
    bodyTimeout: TIME_MS,
  });
  try {
    const answer = await client.request({
      method: 'POST',
      path: `${pathname}${search}`,
      headers: { 'content-type': 'application/json', 'user-agent': 'svc-notices', ...headers },
      body,
      signal,
    });
    return { status: answer.statusCode, text: await readSome(answer.body) };
  } finally {
    void client.destroy();
  }
}

/**
 * Reads what few services use, so that a receiver that is slow to answer can do so. The status has
 * said already whether it took the message: if the rest breaks off, or never ends, that stays.
 */
async function readSome(body: AsyncIterable<Buffer>): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  try {
    for await (const chunk of body) {
      chunks.push(chunk);
      bytes += chunk.length;
      if (bytes >= ANSWER_BYTES_MAX) break;
    }
  } catch {
    // Its time is over, or the connection.
  }
  return Buffer.concat(chunks).toString();
}

/** A lookup that knows its answer. */
function knownAs(addresses: Address[]): LookupFunction {
  const [{ address, family }] = addresses as [Address];
  return (_, { all }, done) => {
    if (all) (done as (error: null, all: Address[]) => void)(null, addresses);
    else done(null, address, family);
  };
}

async function inTime<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  const late = new Promise<never>((_, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason), { once: true });
  });
  return Promise.race([work, late]);
}

function outcomeOf(status: number): Outcome {
  if (status >= 200 && status < 300) return { outcome: 'delivered', status, error: null };
  if (status === 410) return { outcome: 'gone', status, error: 'It answered 410: it is gone.' };
  if (status >= 300 && status < 400)
    return failed(`It answered ${status}, a redirect, which is not followed.`, status);
  const error = `It answered ${status}.`;
  return { outcome: isOfMessage(status) ? 'refused' : 'failed', status, error };
}

/** True of a status that is about this message, and not about its destination. */
function isOfMessage(status: number): boolean {
  return status === 400 || status === 413 || status === 422;
}

export function failed(error: string, status: number | null = null): Outcome {
  return { outcome: 'failed', status, error };
}

/** What went wrong with a connection, in words without the address, which may be a secret. */
export function wordsOf(error: unknown): string {
  const { code, name } = error as { code?: string; name?: string };
  return `It could not be reached: ${code ?? name ?? 'unknown error'}.`;
}
