import { type LookupAddress, type LookupAllOptions, lookup } from 'node:dns';
import { BlockList, isIP, type LookupFunction } from 'node:net';
import {
  Agent,
  buildConnector,
  type Dispatcher,
  EnvHttpProxyAgent,
  Pool,
  fetch as undiciFetch,
} from 'undici';
import { namedVariable } from './config';

// No provider, tool or issuer is reached at these: they name this network alone, or the service
// that tells a machine of a cloud its own credentials.
const closed = new BlockList();
closed.addSubnet('0.0.0.0', 8);
closed.addSubnet('169.254.0.0', 16); // Link-local, with the metadata of most clouds.
closed.addAddress('100.100.100.200'); // Alibaba Cloud's metadata.
closed.addAddress('168.63.129.16'); // Azure's host.
closed.addAddress('192.0.0.192'); // Oracle Cloud's metadata.
closed.addAddress('::', 'ipv6');
closed.addSubnet('fe80::', 10, 'ipv6');
closed.addSubnet('fd00:ec2::', 32, 'ipv6'); // AWS's metadata, credentials, time and names.
closed.addAddress('fd20:ce::254', 'ipv6'); // Google Cloud's metadata.

/** A connection that is not made, because of where it would go. */
export class ClosedAddress extends Error {
  readonly code = 'ERR_CLOSED_ADDRESS';
  override readonly name = 'ClosedAddress';
  constructor(host: string) {
    super(`${host} is a link-local or metadata address, to which nothing is sent.`);
  }
}

/** True for link-local and metadata addresses, in any spelling that a URL or a resolver gives. */
export function isClosed(address: string): boolean {
  const plain = address.replace(/^\[|\]$/g, '');
  const family = isIP(plain);
  if (family === 4) return closed.check(plain, 'ipv4');
  if (family !== 6) return false;
  const inner = innerAddresses(plain);
  return closed.check(plain, 'ipv6') || inner.some((one) => closed.check(one, 'ipv4'));
}

// IPv6 addresses that a network translates to an IPv4 address: NAT64, SIIT, the form that is no
// longer used (each ends with it), and 6to4, where it follows the prefix.
const translated = /^(64:ff9b:(0:0:0:0|1:.*)|0:0:0:0:ffff:0|0:0:0:0:0:0(?!:0:)):(\w+):(\w+)$/;
const six_to_four = /^2002:(\w+):(\w+):/;

/**
 * The IPv4 addresses that an IPv6 address may stand for; none if it stands for none. In the network
 * for local use (RFC 8215) each prefix has its own place for them: 96 and 48 bits are looked at.
 */
export function innerAddresses(address: string): string[] {
  const [head = '', tail] = new URL(`http://[${address}]`).hostname.slice(1, -1).split('::');
  const [before, after] = [head, tail ?? ''].map((part) => part.split(':').filter(Boolean));
  const zeros =
    tail === undefined ? [] : Array(8 - (before?.length ?? 0) - (after?.length ?? 0)).fill('0');
  const all = [...(before ?? []), ...zeros, ...(after ?? [])];
  const groups = all.join(':');
  const [high, low] = (translated.exec(groups) ?? six_to_four.exec(groups) ?? []).slice(-2);
  if (high === undefined || low === undefined) return [];
  const found = [dotted(Number.parseInt(high, 16), Number.parseInt(low, 16))];
  if (!groups.startsWith('64:ff9b:1:')) return found;
  const [first, second, third] = all.slice(3, 6).map((group) => Number.parseInt(group, 16));
  // Eight bits between the halves are not the address's.
  const behind = (((second ?? 0) & 255) << 8) | ((third ?? 0) >>> 8);
  return first === 0 && behind === 0 ? found : [...found, dotted(first ?? 0, behind)];
}

function dotted(high: number, low: number): string {
  return [high >>> 8, high & 255, low >>> 8, low & 255].join('.');
}

/**
 * Resolves a name as Node does, and fails if one of its addresses is closed: what is connected to
 * is judged, not what the name meant a moment ago.
 */
export const openLookup: LookupFunction = (hostname, options, done) => {
  lookup(hostname, { ...options, all: true } as LookupAllOptions, (error, addresses) => {
    if (error) return done(error, '');
    const [first] = addresses;
    if (first === undefined || addresses.some(({ address }) => isClosed(address)))
      return done(new ClosedAddress(hostname), '');
    if (options.all) return (done as (error: null, all: LookupAddress[]) => void)(null, addresses);
    return done(null, first.address, first.family);
  });
};

/** How a pool of undici connects: like its own, but never to a closed address. */
export function connector(options: { timeout?: number } = {}): buildConnector.connector {
  const connect = buildConnector({ ...options, lookup: openLookup });
  return (target, done) => {
    // An address is not looked up.
    if (isClosed(target.hostname)) return done(new ClosedAddress(target.hostname), null);
    return connect(target, done);
  };
}

/**
 * Connections to one server: through the proxy that HTTPS_PROXY names, if its address is https and
 * NO_PROXY does not leave it out; else its own. A proxy resolves names itself, so that it is the
 * operator's to close addresses there; those that are written out are closed here.
 */
export function connectionsTo(
  origin: string,
  { connect_ms, idle_ms }: { connect_ms: number; idle_ms: number },
): Dispatcher {
  const bodyTimeout = idle_ms;
  const connect = connector({ timeout: connect_ms });
  const httpsProxy = proxyFor(origin);
  if (httpsProxy === undefined) return new Pool(origin, { connect, bodyTimeout });
  const tls = { timeout: connect_ms };
  return new EnvHttpProxyAgent({
    httpsProxy,
    // The proxy itself: it answers once it is connected, or not at all.
    clientFactory: (address, options) =>
      new Pool(address, { ...options, headersTimeout: connect_ms }),
    connect,
    bodyTimeout,
    requestTls: tls,
    proxyTls: tls,
  });
}

/** The proxy for an address; undefined if there is none. Throws if one is to reach a closed one. */
function proxyFor(address: string): string | undefined {
  const { protocol, hostname } = new URL(address);
  const named = namedVariable('HTTPS_PROXY') || namedVariable('https_proxy');
  if (protocol !== 'https:' || !named) return undefined;
  if (isClosed(hostname)) throw new ClosedAddress(hostname);
  return named;
}

const agent = new Agent({ connect: connector() });

/**
 * undici's fetch, over connections of this kind. Not Node's own, which fails with "invalid
 * content-length header" in a process that has loaded the package before its first call.
 */
export const fetch: typeof undiciFetch = (address, init) =>
  undiciFetch(address, { dispatcher: agent, ...init });

/** The same through the proxy that HTTPS_PROXY names, if there is one. */
export const fetchThrough: typeof undiciFetch = async (address, init) => {
  const httpsProxy = proxyFor(String(address));
  if (httpsProxy === undefined) return fetch(address, init);
  const through = new EnvHttpProxyAgent({ httpsProxy, connect: connector() });
  const answer = await undiciFetch(address, { dispatcher: through, ...init });
  // It keeps its connection no longer than the answer needs it.
  void through.close();
  return answer;
};
