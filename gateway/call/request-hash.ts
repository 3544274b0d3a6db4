import { hash } from 'node:crypto';
import type { ClientRequest } from '../families/request';

// Above this a digest takes milliseconds and goes to the thread pool.
const DIGEST_INLINE_BYTES = 262_144;

/**
 * The hash by which the same request finds its ticket again: of its bytes, or of the parts of a
 * form, whose clients make another boundary each time that they send it. `sha256:` and 64 hex
 * digits.
 */
export async function requestHash({
  raw,
  parts,
}: Pick<ClientRequest, 'raw' | 'parts'>): Promise<string> {
  if (parts === undefined) return `sha256:${await digest(raw)}`;
  const whole: [string, string][] = [];
  for (const { head, bytes } of parts) whole.push([head, await digest(bytes)]);
  return `sha256:${hash('sha256', JSON.stringify(whole), 'hex')}`;
}

async function digest(bytes: Buffer): Promise<string> {
  if (bytes.length <= DIGEST_INLINE_BYTES) return hash('sha256', bytes, 'hex');
  return Buffer.from(await crypto.subtle.digest('SHA-256', new Uint8Array(bytes))).toString('hex');
}
