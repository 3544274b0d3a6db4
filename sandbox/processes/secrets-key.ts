import { randomBytes } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import type { StartOptions } from './addresses';
import { replaceFile } from './data-directory';

/**
 * The key that seals secrets in the demo's database: the one that is named, else one made once for
 * the data directory.
 */
export function secretsKey({ SVC_SECRETS_KEY, DATA_DIR }: StartOptions): string {
  return SVC_SECRETS_KEY ?? keptKey(path.resolve(DATA_DIR, 'secrets.key'));
}

/** The key that seals the console's cookies, made once for the data directory. */
export function cookieKey({ DATA_DIR }: StartOptions): string {
  return keptKey(path.resolve(DATA_DIR, 'cookies.key'));
}

function keptKey(file: string): string {
  if (!existsSync(file)) replaceFile(file, randomBytes(32).toString('base64'));
  return readFileSync(file, 'utf8').trim();
}
