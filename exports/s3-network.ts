import { type LookupAddress, type LookupAllOptions, lookup } from 'node:dns';
import { Agent as HttpAgent } from 'node:http';
import { Agent as HttpsAgent } from 'node:https';
import { BlockList, isIP, type LookupFunction } from 'node:net';
import { ClosedAddress, innerAddress, isClosed } from '../runtime/outgoing';

// Addresses of a network's inside: a name that means one of them is no object store of the world.
const inner = new BlockList();
for (const [network, bits] of [
  ['10.0.0.0', 8],
  ['100.64.0.0', 10],
  ['127.0.0.0', 8],
  ['172.16.0.0', 12],
  ['192.168.0.0', 16],
] as const)
  inner.addSubnet(network, bits);
inner.addAddress('::1', 'ipv6');
inner.addSubnet('fc00::', 7, 'ipv6');

/** True for private and loopback addresses, and for those that nothing is ever sent to. */
export function isInner(address: string): boolean {
  if (isClosed(address)) return true;
  if (isIP(address) !== 6) return inner.check(address, 'ipv4');
  const translated = innerAddress(address);
  const is_inner = translated !== undefined && inner.check(translated, 'ipv4');
  return is_inner || inner.check(address, 'ipv6');
}

/** What is connected to is judged, not what the name meant a moment ago. */
const outerLookup: LookupFunction = (hostname, options, done) => {
  lookup(hostname, { ...options, all: true } as LookupAllOptions, (error, addresses) => {
    if (error) return done(error, '');
    const [first] = addresses;
    if (first === undefined || addresses.some(({ address }) => isInner(address)))
      return done(new ClosedAddress(hostname), '');
    if (options.all) return (done as (error: null, all: LookupAddress[]) => void)(null, addresses);
    return done(null, first.address, first.family);
  });
};

/**
 * The agents by which an endpoint is reached. An address that the operator has listed as such may
 * be an inner one, but never a link-local or metadata one; a name may mean none of them.
 */
export function agentsFor(endpoint: string): { httpAgent: HttpAgent; httpsAgent: HttpsAgent } {
  const host = new URL(endpoint).hostname.replace(/^\[|\]$/g, '');
  if (isIP(host) !== 0 && isClosed(host)) throw new ClosedAddress(host);
  const options = { keepAlive: true, maxSockets: 8, lookup: outerLookup };
  return { httpAgent: new HttpAgent(options), httpsAgent: new HttpsAgent(options) };
}
