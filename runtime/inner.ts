import { BlockList, isIP } from 'node:net';
import { innerAddresses, isClosed } from './outgoing';

// Addresses of a network's inside: a name that means one of them is
// no server of the world.
const inner = new BlockList();
for (const [network, bits] of [
  ['10.0.0.0', 8],
  ['100.64.0.0', 10],
  ['127.0.0.0', 8],
  ['172.16.0.0', 12],
  ['192.0.0.0', 24],
  ['192.168.0.0', 16],
  // Of tests, of many at once, and of nobody.
  ['198.18.0.0', 15],
  ['224.0.0.0', 4],
  ['240.0.0.0', 4],
] as const)
  inner.addSubnet(network, bits);
inner.addAddress('::1', 'ipv6');
inner.addSubnet('fc00::', 7, 'ipv6');
inner.addSubnet('fec0::', 10, 'ipv6');
inner.addSubnet('ff00::', 8, 'ipv6');

/** True for private and loopback addresses, and for those that nothing is ever sent to. */
export function isInner(address: string): boolean {
  if (isClosed(address)) return true;
  if (isIP(address) !== 6) return inner.check(address, 'ipv4');
  const is_inner = innerAddresses(address).some((one) => inner.check(one, 'ipv4'));
  return is_inner || inner.check(address, 'ipv6');
}
