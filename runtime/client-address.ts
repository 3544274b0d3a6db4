import type { IncomingHttpHeaders } from 'node:http';
import { isIP } from 'node:net';
import { holds, type Networks } from './networks';

/**
 * The address that a request comes from. Its header is believed only as far as trusted proxies
 * wrote it: the right-most address that is none of theirs counts, so a client that sends the header
 * itself changes nothing.
 */
export function addressOf(
  req: { headers: IncomingHttpHeaders; socket: { remoteAddress?: string | undefined } },
  { header, trusted }: { header: string; trusted: Networks },
): string {
  let address = plain(req.socket.remoteAddress ?? '') ?? '';
  const said = req.headers[header];
  if (said === undefined || address === '' || !holds(trusted, address)) return address;
  const hops = String(said).split(',');
  while (hops.length > 0) {
    const hop = plain((hops.pop() as string).trim());
    if (hop === undefined) break;
    address = hop;
    if (!holds(trusted, address)) break;
  }
  return address;
}

/** What an address is counted under: an IPv6 client has a whole network of 64 bits to itself. */
export function counted(address: string): string {
  return isIP(address) === 6 ? `${groups(address).slice(0, 4).join(':')}::/64` : address;
}

const with_port = /^(?:\[([^\]]+)\](?::\d+)?|(\d+(?:\.\d+){3}):\d+)$/;
const mapped = /^::ffff:(\d+(?:\.\d+){3})$/i;

/** An address without port, zone and the IPv6 form of IPv4; undefined if it is none. */
function plain(text: string): string | undefined {
  const bare = with_port.exec(text);
  const address = (bare?.[1] ?? bare?.[2] ?? text).split('%')[0] as string;
  const inner = mapped.exec(address)?.[1] ?? address;
  const version = isIP(inner);
  if (version === 6 && /ffff/i.test(inner)) return inHex(inner) ?? inner;
  return version === 0 ? undefined : inner;
}

/** The IPv4 address that an IPv6 one in any spelling stands for; undefined if for none. */
function inHex(address: string): string | undefined {
  const { hostname } = new URL(`http://[${address}]`);
  const halves = /^\[::ffff:([\da-f]{1,4}):([\da-f]{1,4})\]$/.exec(hostname)?.slice(1);
  return halves
    ?.map((half) => Number.parseInt(half, 16))
    .flatMap((half) => [half >> 8, half & 255])
    .join('.');
}

function groups(address: string): string[] {
  const [head = '', tail] = address.toLowerCase().split('::');
  const before = head === '' ? [] : head.split(':');
  const after = tail === undefined || tail === '' ? [] : tail.split(':');
  // An IPv4 tail stands for two groups; only the first four are asked for.
  const missing = Math.max(0, 8 - before.length - after.length);
  const zeros = tail === undefined ? [] : Array.from({ length: missing }, () => '0');
  return [...before, ...zeros, ...after].map((group) => group.replace(/^0+(?=.)/, ''));
}
