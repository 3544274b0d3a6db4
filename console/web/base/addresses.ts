interface Addresses {
  /** Where programs of people reach the API and the gateway: fixed by the build. */
  api_url: string;
  gateway_url: string;
}

/** The addresses that the console was built for. */
export const addresses: Addresses = (globalThis as unknown as { svc_addresses: Addresses })
  .svc_addresses;

/** The version of this console: `1.5.0`. */
export const version =
  document.querySelector('meta[name="svc-version"]')?.getAttribute('content') ?? '';

/** The value that styles written by components carry, as the policy of the page demands. */
export const nonce = document.querySelector<HTMLMetaElement>('meta[property="csp-nonce"]')?.nonce;
