import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import selfsigned from 'selfsigned';
import { replaceFile } from '../../processes/data-directory';

/** Who signs the certificate of the sandbox's webhooks: what a public authority is to PayPal. */
export interface Authority {
  key: string;
  cert: string;
}

const YEARS_MS = 10 * 365 * 24 * 3_600_000;
/** A clock that runs a little behind believes it too. */
const EARLIER_MS = 3_600_000;

/** A new authority, which nobody trusts by itself. */
export async function makeAuthority(): Promise<Authority> {
  const { private: key, cert } = await selfsigned.generate(
    [{ name: 'commonName', value: 'Sandbox payment authority' }],
    {
      algorithm: 'sha256',
      notBeforeDate: new Date(Date.now() - EARLIER_MS),
      notAfterDate: new Date(Date.now() + YEARS_MS),
      extensions: [
        { name: 'basicConstraints', cA: true, critical: true },
        { name: 'keyUsage', keyCertSign: true, cRLSign: true, critical: true },
      ],
    },
  );
  return { key, cert };
}

let of_process: Promise<Authority> | undefined;

/** The authority of sandboxes in this process that are given no other. */
export function processAuthority(): Promise<Authority> {
  of_process ??= makeAuthority();
  return of_process;
}

interface LeafOptions {
  name: string;
  pair: { privateKey: string; publicKey: string };
  from?: Date;
  until?: Date;
}

/** A certificate for a key pair, signed by an authority. */
export async function certify(ca: Authority, { name, pair, ...time }: LeafOptions) {
  const { cert } = await selfsigned.generate([{ name: 'commonName', value: name }], {
    keyPair: pair,
    algorithm: 'sha256',
    ca,
    notBeforeDate: time.from ?? new Date(Date.now() - EARLIER_MS),
    ...(time.until && { notAfterDate: time.until }),
    extensions: [
      { name: 'basicConstraints', cA: false, critical: true },
      { name: 'keyUsage', digitalSignature: true, critical: true },
      { name: 'subjectAltName', altNames: [{ type: 2, value: name }] },
    ],
  });
  return cert;
}

/** The authority that is kept in a folder, with the file of its certificate alone. */
export function authorityFiles(folder: string): { key_file: string; cert_file: string } {
  const at = (name: string) => path.join(folder, name);
  return { key_file: at('authority.key'), cert_file: at('authority.pem') };
}

const ensured = new Map<string, Promise<void>>();

/** Makes the authority of a folder unless it is there; once, for all that ask. */
export function ensureAuthority(folder: string): Promise<void> {
  const making = ensured.get(folder) ?? makeFiles(authorityFiles(folder));
  ensured.set(folder, making);
  return making;
}

async function makeFiles({ key_file, cert_file }: ReturnType<typeof authorityFiles>) {
  if (existsSync(key_file) && existsSync(cert_file)) return;
  const { key, cert } = await makeAuthority();
  replaceFile(key_file, key);
  replaceFile(cert_file, cert);
}

export function readAuthority(folder: string): Authority {
  const { key_file, cert_file } = authorityFiles(folder);
  return { key: readFileSync(key_file, 'utf8'), cert: readFileSync(cert_file, 'utf8') };
}
