import { X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { rootCertificates } from 'node:tls';
import { fetch } from '../runtime/outgoing';
import { ProviderTrouble } from './provider';

// The certificates that a provider signs its webhooks with: fetched once, from addresses that the
// caller has judged, and believed if their chain ends at an authority that is trusted here.

const BYTES_MAX = 65_536;
const FETCH_MS = 5_000;
const CHAIN_MAX = 4;
const KEY_BITS_MIN = 2_048;
/** A provider signs with one or two at a time. */
const KEPT_MAX = 8;
const REFUSED_KEPT_MAX = 500;
const REFUSED_MS = 10 * 60_000;
const FETCHES_MAX = 2;
const FETCHES_A_MINUTE = 20;

export interface CertificateRules {
  /** Authorities that are trusted beside those that Node.js knows. */
  authorities: readonly X509Certificate[];
  /** The names of which the certificate must have one. */
  names: readonly string[];
}

/** Undefined: the provider has no such certificate. */
type CertificateAt = (url: string, signal: AbortSignal) => Promise<X509Certificate | undefined>;

/**
 * The certificate at an address, from memory if it was there before. Addresses that somebody
 * invents cost a bounded number of requests, and those that lead nowhere none again for ten
 * minutes. Throws `ProviderTrouble` if it cannot be had now, or is not to be trusted.
 */
export function createCertificates(rules: CertificateRules): CertificateAt {
  const kept = new Map<string, X509Certificate>();
  const refused = new Map<string, { until_ms: number; trouble?: ProviderTrouble }>();
  const under_way = new Map<string, Promise<X509Certificate | undefined>>();
  let minute = { ends_ms: 0, fetches: 0 };

  function requireRoom(now_ms: number): void {
    if (now_ms >= minute.ends_ms) minute = { ends_ms: now_ms + 60_000, fetches: 0 };
    if (under_way.size >= FETCHES_MAX || minute.fetches >= FETCHES_A_MINUTE)
      throw new ProviderTrouble('too many certificates are asked for now');
    minute.fetches += 1;
  }

  async function take(url: string, signal: AbortSignal): Promise<X509Certificate | undefined> {
    const until_ms = performance.now() + REFUSED_MS;
    const pem = await download(url, signal);
    if (pem === undefined) {
      put(refused, REFUSED_KEPT_MAX, url, { until_ms });
      return undefined;
    }
    try {
      const certificate = trusted(pem, rules);
      put(kept, KEPT_MAX, url, certificate);
      return certificate;
    } catch (error) {
      const trouble = new ProviderTrouble(`the certificate at ${url} ${(error as Error).message}`);
      put(refused, REFUSED_KEPT_MAX, url, { until_ms, trouble });
      throw trouble;
    }
  }

  return async (url, signal) => {
    const now_ms = performance.now();
    const known = kept.get(url);
    if (known && isCurrent(known, Date.now())) return known;
    const no = refused.get(url);
    if (no && no.until_ms > now_ms) {
      if (no.trouble) throw no.trouble;
      return undefined;
    }
    const joined = under_way.get(url);
    if (joined !== undefined) return joined;
    requireRoom(now_ms);
    const taking = take(url, AbortSignal.any([signal, AbortSignal.timeout(FETCH_MS)])).finally(() =>
      under_way.delete(url),
    );
    under_way.set(url, taking);
    return taking;
  };
}

/** The certificates of a text in PEM; throws if one of them cannot be read. */
function certificatesIn(pem: string): X509Certificate[] {
  const found = pem.match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g) ?? [];
  return found.map((text) => new X509Certificate(text));
}

/** The authorities of these files. A file without a certificate is a mistake: it throws. */
export function authoritiesOf(files: readonly string[]): X509Certificate[] {
  return files.flatMap((file) => {
    const found = certificatesIn(readFileSync(file, 'latin1'));
    if (found.length === 0) throw new Error(`PAYMENT_CA_FILES: ${file} has no certificate in PEM.`);
    return found;
  });
}

/** The text at an address; undefined if there is none, as a 4xx says. */
async function download(url: string, signal: AbortSignal): Promise<string | undefined> {
  const response = await fetch(url, { redirect: 'error', signal });
  const { status, body } = response;
  if (status === 400 || status === 404 || status === 410) {
    await body?.cancel();
    return undefined;
  }
  if (status !== 200 || body === null) {
    await body?.cancel();
    throw new ProviderTrouble(`answered ${status} to a request for its certificate`);
  }
  const pieces: Uint8Array[] = [];
  let bytes = 0;
  for await (const piece of body) {
    bytes += piece.length;
    if (bytes > BYTES_MAX)
      throw new ProviderTrouble(`has no certificate at ${url}: it is too long`);
    pieces.push(piece);
  }
  return Buffer.concat(pieces).toString('latin1');
}

let known_roots: X509Certificate[] | undefined;

/** The first certificate of a file, of which the others are its chain. Throws what is wrong. */
function trusted(pem: string, { authorities, names }: CertificateRules): X509Certificate {
  const now_ms = Date.now();
  const [leaf, ...others] = certificatesIn(pem);
  if (leaf === undefined || others.length > CHAIN_MAX) throw new Error('is none');
  if (!isCurrent(leaf, now_ms))
    throw new Error(`is good from ${leaf.validFrom} to ${leaf.validTo}`);
  const { asymmetricKeyType: kind, asymmetricKeyDetails: key } = leaf.publicKey;
  if (kind !== 'rsa' || (key?.modulusLength ?? 0) < KEY_BITS_MIN)
    throw new Error('has another key than RSA of 2,048 bits or more');
  if (!names.some((name) => leaf.checkHost(name, { subject: 'always', wildcards: false })))
    throw new Error(`is not of ${names.join(' or ')}`);
  known_roots ??= rootCertificates.map((root) => new X509Certificate(root));
  const anchors = [...authorities, ...known_roots];
  if (!reaches(leaf, others, anchors, now_ms))
    throw new Error(
      `is signed by nobody who is trusted (its issuer: ${leaf.issuer.replaceAll('\n', ', ')}). ` +
        'Put the certificate of a genuine issuer into PAYMENT_CA_FILES of every API.',
    );
  return leaf;
}

/** True if signatures lead from a certificate over others to an authority, all of them in time. */
function reaches(
  certificate: X509Certificate,
  others: readonly X509Certificate[],
  anchors: readonly X509Certificate[],
  now_ms: number,
): boolean {
  const isIssuer = (issuer: X509Certificate) =>
    issuer.ca &&
    isCurrent(issuer, now_ms) &&
    certificate.checkIssued(issuer) &&
    certificate.verify(issuer.publicKey);
  if (anchors.some(isIssuer)) return true;
  return others.some(
    (issuer) =>
      isIssuer(issuer) &&
      reaches(
        issuer,
        others.filter((other) => other !== issuer),
        anchors,
        now_ms,
      ),
  );
}

function isCurrent({ validFrom, validTo }: X509Certificate, now_ms: number): boolean {
  return Date.parse(validFrom) <= now_ms && now_ms <= Date.parse(validTo);
}

/** The oldest goes where there is no room. */
function put<Value>(map: Map<string, Value>, max: number, key: string, value: Value): void {
  map.delete(key);
  map.set(key, value);
  const [oldest] = map.keys();
  if (map.size > max && oldest !== undefined) map.delete(oldest);
}
