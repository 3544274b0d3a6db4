import { type KeyObject, verify } from 'node:crypto';
import { crc32 } from 'node:zlib';
import type { WebhookHeaders } from './provider';

// PayPal's signature of a webhook, as far as it can be judged without PayPal.

/** The provider tries for three days to deliver one. */
const AGE_MAX_MS = 4 * 24 * 3_600_000;
const AHEAD_MAX_MS = 5 * 60_000;

/** What a webhook says about its signature, under the names of the provider's verify call. */
export interface Claim {
  transmission_id: string;
  transmission_time: string;
  transmission_sig: string;
  cert_url: string;
  auth_algo: string;
}

// Each header, and the form that the provider gives it. None of them holds a vertical bar, which
// parts them in what is signed.
const forms: Record<keyof Claim, { header: string; form: RegExp }> = {
  transmission_id: { header: 'paypal-transmission-id', form: /^[A-Za-z0-9][A-Za-z0-9_-]{0,49}$/ },
  transmission_time: {
    header: 'paypal-transmission-time',
    form: /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)$/,
  },
  transmission_sig: {
    header: 'paypal-transmission-sig',
    form: /^[A-Za-z0-9+/]{300,1000}={0,2}$/,
  },
  cert_url: { header: 'paypal-cert-url', form: /^https?:\/\/[\x21-\x7e]{1,490}$/ },
  auth_algo: { header: 'paypal-auth-algo', form: /^SHA256withRSA$/ },
};

/** The five headers of a signature; undefined if one is missing or has another form. */
export function claimOf(headers: WebhookHeaders): Claim | undefined {
  const claim: Record<string, string> = {};
  for (const [name, { header, form }] of Object.entries(forms)) {
    const value = headers[header];
    if (value === undefined || !form.test(value)) return undefined;
    claim[name] = value;
  }
  return claim as unknown as Claim;
}

/** True if it was sent in the last four days, by a clock that is at most five minutes fast. */
export function isTimely({ transmission_time }: Claim, now_ms: number): boolean {
  const sent_ms = Date.parse(transmission_time);
  return sent_ms >= now_ms - AGE_MAX_MS && sent_ms <= now_ms + AHEAD_MAX_MS;
}

/** Hosts of the provider, by the address that it is reached at, and who signs there. */
const environments: Record<string, { hosts: readonly string[]; signer: string }> = {
  'api-m.paypal.com': {
    hosts: ['api.paypal.com', 'api-m.paypal.com'],
    signer: 'messageverificationcerts.paypal.com',
  },
  'api-m.sandbox.paypal.com': {
    hosts: ['api.sandbox.paypal.com', 'api-m.sandbox.paypal.com'],
    signer: 'messageverificationcerts.sandbox.paypal.com',
  },
};

/** The names of which the signer's certificate must have one. */
export function signersAt(base_url: string): string[] {
  const known = environments[new URL(base_url).host];
  return known ? [known.signer] : Object.values(environments).map(({ signer }) => signer);
}

/** True if a certificate is one of the provider's, by its address: another proves nothing. */
export function isOfProvider(cert_url: string, base_url: string): boolean {
  if (!URL.canParse(cert_url)) return false;
  const cert = new URL(cert_url);
  const base = new URL(base_url);
  // As it is written: nothing hides in another spelling.
  if (cert.href !== cert_url || cert.protocol !== base.protocol) return false;
  if (!/^\/v1\/notifications\/certs\/[A-Za-z0-9_-]{1,100}$/.test(cert.pathname)) return false;
  if (cert.username || cert.password || cert.search || cert.hash) return false;
  return environments[base.host]?.hosts.includes(cert.host) ?? cert.host === base.host;
}

/** True if the key signed these very bytes, for the webhook of this id. */
export function isSigned(
  { transmission_id, transmission_time, transmission_sig }: Claim,
  webhook_id: string,
  body: Buffer,
  key: KeyObject,
): boolean {
  const text = `${transmission_id}|${transmission_time}|${webhook_id}|${crc32(body)}`;
  return verify('RSA-SHA256', Buffer.from(text), key, Buffer.from(transmission_sig, 'base64'));
}
