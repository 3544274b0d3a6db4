import { type LookupAddress, type LookupAllOptions, lookup } from 'node:dns';
import { BlockList, isIP, type LookupFunction } from 'node:net';
import { Agent, buildConnector, fetch as undiciFetch } from 'undici';

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
closed.addAddress('fd00:ec2::254', 'ipv6'); // AWS's metadata.
closed.addAddress('fd20:ce::254', 'ipv6'); // Google Cloud's metadata.
// The same IPv4 addresses within IPv6: NAT64, 6to4, and the form that is no longer used.
closed.addSubnet('64:ff9b::a9fe:0', 112, 'ipv6');
closed.addSubnet('2002:a9fe::', 32, 'ipv6');
closed.addSubnet('::a9fe:0', 112, 'ipv6');

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
  return family !== 0 && closed.check(plain, family === 6 ? 'ipv6' : 'ipv4');
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

const agent = new Agent({ connect: connector() });

/**
 * undici's fetch, over connections of this kind. Not Node's own, which fails with "invalid
 * content-length header" in a process that has loaded the package before its first call.
 */
export const fetch: typeof undiciFetch = (address, init) =>
  undiciFetch(address, { dispatcher: agent, ...init });
