import { BlockList, isIP } from 'node:net';

/** A set of networks; undefined is the empty one, which is what most are. */
export type Networks = BlockList | undefined;

/** True for a network as CIDR writes it, or a single address. */
export function isNetwork(text: string): boolean {
  const [address = '', bits, ...rest] = text.split('/');
  const version = isIP(address);
  if (version === 0 || rest.length > 0) return false;
  if (bits === undefined) return true;
  return /^\d{1,3}$/.test(bits) && Number(bits) <= (version === 4 ? 32 : 128);
}

export function createNetworks(texts: readonly string[]): Networks {
  if (texts.length === 0) return undefined;
  const networks = new BlockList();
  for (const text of texts) {
    const [address = '', bits] = text.split('/');
    const version = isIP(address);
    const length = bits === undefined ? (version === 4 ? 32 : 128) : Number(bits);
    networks.addSubnet(address, length, version === 4 ? 'ipv4' : 'ipv6');
  }
  return networks;
}

export function holds(networks: Networks, address: string): boolean {
  if (networks === undefined) return false;
  return networks.check(address, isIP(address) === 6 ? 'ipv6' : 'ipv4');
}
