import { ambientAuth } from '../../../runtime/config';

// Where the identity of a machine is asked for. Variables and files of the vendors' SDKs name other
// addresses, and whoever is asked there gives the credential and may hear one.

const of_machine = /^(?:localhost|127(?:\.\d{1,3}){3}|\[::1\]|169\.254(?:\.\d{1,3}){2})$/;

/** True for this machine, and for addresses that are of its own network link alone. */
export function isOfMachine({ hostname }: URL): boolean {
  return of_machine.test(hostname);
}

/**
 * Throws unless an address is the vendor's own or one that the operator lists in
 * `GATEWAY_AMBIENT_ORIGINS`. `named_by` is what names it.
 */
export function refuseStranger(
  { url, named_by }: { url: string; named_by: string },
  isVendors: (url: URL) => boolean,
): void {
  const address = URL.canParse(url) ? new URL(url) : undefined;
  if (address === undefined) throw new Error(`${named_by} names no address.`);
  if (isVendors(address) || ambientAuth().origins.includes(address.origin)) return;
  throw new Error(
    `${named_by} names ${address.origin}, which gives no credentials: list it in the gateway's ` +
      'variable GATEWAY_AMBIENT_ORIGINS if it does.',
  );
}
