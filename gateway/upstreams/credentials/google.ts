import { readFileSync } from 'node:fs';
import { homedir } from 'node:os';
import path from 'node:path';
import { Compute, GoogleAuth } from 'google-auth-library';
import { ambientAuth, namedVariable } from '../../../runtime/config';
import { fetchThrough } from '../../../runtime/outgoing';
import type { GoogleAuth as Settings } from '../../config/auth';
import { isObject } from '../../wire/values';
import { refuseStranger } from './machine';
import type { Lasting } from './renewal';

// Tokens of Google: of a service account, of workload identity, of the machine.

const token_hosts = /^https:\/\/(?:oauth2|sts|iamcredentials)\.googleapis\.com$/;

/** Asks for a token. Each time anew: what the package keeps itself may be what was refused. */
export async function googleToken(auth: Settings, scope: string): Promise<Lasting<string>> {
  const file = fileOf(auth);
  const credentials = file === undefined ? undefined : checked(read(file), file);
  const client =
    credentials === undefined
      ? machine(scope)
      : await new GoogleAuth({
          ...{ scopes: [scope], credentials, ...ownNetwork(credentials) },
        }).getClient();
  const { token } = await client.getAccessToken();
  if (!token) throw new Error('Google gave no token.');
  return { value: token, expires_at: client.credentials.expiry_date ?? undefined };
}

/**
 * The identity of the machine. The package would ask once whether there is one, and believe that
 * answer for as long as the process lives.
 */
function machine(scope: string): Compute {
  refuseMetadata();
  return new Compute({ scopes: [scope] });
}

/**
 * The package's requests over connections of this process: to Google's token servers alone, or to
 * the one that the operator lists in their place.
 */
function ownNetwork({ token_uri }: Record<string, unknown>) {
  const stand_in = typeof token_uri === 'string' && !isGoogles(token_uri) ? token_uri : undefined;
  const fetchImplementation = (async (input: string | URL | { url: string }, init?: object) => {
    const given = typeof input === 'string' ? input : 'url' in input ? input.url : input.href;
    if (!isGoogles(given)) throw new Error(`${new URL(given).origin} gives no tokens of Google.`);
    return fetchThrough(stand_in ?? given, { redirect: 'error', ...init });
  }) as unknown as typeof globalThis.fetch;
  return { clientOptions: { transporterOptions: { fetchImplementation } } };
}

const metadata_hosts = new Set([
  'metadata.google.internal',
  'metadata',
  '169.254.169.254',
  '[fd20:ce::254]',
]);

/** The server that tells a machine of Google who it is; variables name another one by its host. */
function refuseMetadata(): void {
  for (const named_by of ['GCE_METADATA_IP', 'GCE_METADATA_HOST']) {
    const host = namedVariable(named_by);
    if (!host) continue;
    const url = /^https?:\/\//.test(host) ? host : `http://${host}`;
    refuseStranger({ url, named_by }, ({ hostname }) => metadata_hosts.has(hostname));
  }
}

function isGoogles(url: string): boolean {
  return URL.canParse(url) && token_hosts.test(new URL(url).origin);
}

/** The file of the credential; undefined where only the machine says who asks. */
function fileOf({ credentials_file_env }: Settings): string | undefined {
  if (credentials_file_env !== undefined) return namedVariable(credentials_file_env);
  const named = namedVariable('GOOGLE_APPLICATION_CREDENTIALS');
  if (named) return named;
  const folder = namedVariable('CLOUDSDK_CONFIG') ?? path.join(homedir(), '.config/gcloud');
  const file = path.join(folder, 'application_default_credentials.json');
  return read(file) === undefined ? undefined : file;
}

function read(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return undefined;
  }
}

/** A credential that runs no program, asks no address of anybody's, and trusts Google alone. */
function checked(text: string | undefined, file: string): Record<string, unknown> {
  let given: unknown;
  if (text === undefined) throw new Error(`The file ${file} of a credential cannot be read.`);
  try {
    given = JSON.parse(text);
  } catch {
    // Its own words would repeat a part of the file.
  }
  if (!isObject(given)) throw new Error(`The file ${file} holds no credential of Google.`);
  checkSources(given, file);
  return given;
}

/** Checks a credential, and the one within it that it impersonates from. */
function checkSources(given: Record<string, unknown>, file: string): void {
  const { credential_source: source, source_credentials: inner } = given;
  if (isObject(source) && (source.executable !== undefined || source.url !== undefined))
    throw new Error(`No program is run and no address asked for credentials, as ${file} says.`);
  const { token_uri, token_url, service_account_impersonation_url } = given;
  for (const url of [token_uri, token_url, service_account_impersonation_url]) {
    if (url === undefined) continue;
    const origin = URL.canParse(String(url)) ? new URL(String(url)).origin : String(url);
    if (!isGoogles(String(url)) && !ambientAuth().origins.includes(origin))
      throw new Error(`${origin}, which ${file} names, is no server of Google's tokens.`);
  }
  if (isObject(inner)) checkSources(inner, file);
}
