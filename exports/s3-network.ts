import { type LookupAddress, type LookupAllOptions, lookup } from 'node:dns';
import { Agent as HttpAgent } from 'node:http';
import { Agent as HttpsAgent } from 'node:https';
import { isIP, type LookupFunction } from 'node:net';
import { isInner } from '../runtime/inner';
import { ClosedAddress, isClosed } from '../runtime/outgoing';

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
