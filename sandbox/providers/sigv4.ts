import { createHash, createHmac } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';

// Recomputes AWS's Signature Version 4 as the service does, from what came over the wire.

/** What a server knows of the keys that it takes. */
export interface Signing {
  keys: ReadonlyMap<string, { secret: string; session_token?: string }>;
  service: string;
  region: string;
  now: Date;
}

/** A request as it arrived. */
export interface Arrived {
  method: string;
  /** The path and query as the client wrote them. */
  url: string;
  headers: IncomingHttpHeaders;
  body: Buffer;
}

/** What the service says of a signature that it does not take. */
export interface SignatureError {
  type: string;
  message: string;
}

const SKEW_MS = 300_000;
const authorization =
  /^AWS4-HMAC-SHA256 Credential=([^/]+)\/(\d{8})\/([^/]+)\/([^/]+)\/aws4_request, ?SignedHeaders=([^,]+), ?Signature=([0-9a-f]{64})$/;

/** Undefined if the signature is right. */
export function signatureError(arrived: Arrived, signing: Signing): SignatureError | undefined {
  const found = authorization.exec(String(arrived.headers.authorization ?? ''));
  if (found === null) return { type: 'IncompleteSignatureException', message: 'Not signed.' };
  const [, id = '', day = '', region = '', service = '', names = '', signature] = found;
  const key = signing.keys.get(id);
  const token = arrived.headers['x-amz-security-token'];
  if (key === undefined)
    return { type: 'UnrecognizedClientException', message: 'The security token is invalid.' };
  if (key.session_token !== token)
    return { type: 'ExpiredTokenException', message: 'The security token included is expired.' };
  if (region !== signing.region || service !== signing.service)
    return wrong(`Credential should be scoped to ${signing.region}/${signing.service}.`);
  const stamp = String(arrived.headers['x-amz-date'] ?? '');
  const made = Date.parse(
    stamp.replace(/^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/, '$1-$2-$3T$4:$5:$6Z'),
  );
  const is_late = made < signing.now.getTime() - SKEW_MS;
  if (!(made >= signing.now.getTime() - SKEW_MS && made <= signing.now.getTime() + SKEW_MS))
    return wrong(`Signature ${is_late ? 'expired' : 'not yet current'}: ${stamp} is not now.`);
  const scope = `${day}/${region}/${service}/aws4_request`;
  const text = ['AWS4-HMAC-SHA256', stamp, scope, sha256(canonical(arrived, names))].join('\n');
  const parts = [day, region, service, 'aws4_request'];
  const signer = parts.reduce<Buffer | string>((at, part) => hmac(at, part), `AWS4${key.secret}`);
  if (hmac(signer, text).toString('hex') === signature) return undefined;
  return wrong('The request signature we calculated does not match the signature you provided.');
}

function wrong(message: string): SignatureError {
  return { type: 'InvalidSignatureException', message };
}

function canonical({ method, url, headers, body }: Arrived, names: string): string {
  const [path = '/', query = ''] = url.split('?');
  // Each segment as it came, encoded once more.
  const encoded = path.split('/').map(encoded3986).join('/');
  const pairs = [...new URLSearchParams(query)].map(
    ([name, value]) => `${encoded3986(name)}=${encoded3986(value)}`,
  );
  const lines = names.split(';').map((name) => `${name}:${String(headers[name]).trim()}\n`);
  return [method, encoded, pairs.sort().join('&'), lines.join(''), names, sha256(body)].join('\n');
}

function encoded3986(text: string): string {
  return encodeURIComponent(text).replaceAll(
    /[!'()*]/g,
    (sign) => `%${sign.charCodeAt(0).toString(16).toUpperCase()}`,
  );
}

function sha256(data: string | Buffer): string {
  return createHash('sha256').update(data).digest('hex');
}

function hmac(key: Buffer | string, text: string): Buffer {
  return createHmac('sha256', key).update(text).digest();
}
