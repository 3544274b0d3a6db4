import { createHash, createHmac, type Hash, type Hmac } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { homedir } from 'node:os';
import path from 'node:path';
import { SignatureV4 } from '@smithy/signature-v4';
import { namedVariable } from '../../../runtime/config';
import { fetchThrough } from '../../../runtime/outgoing';
import type { AwsAuth } from '../../config/auth';
import { silenceOf } from './hints';
import { refuseStranger } from './machine';
import type { Outbound } from './outbound';
import { type Lasting, Renewal } from './renewal';

// Signatures of AWS (Signature Version 4), and the keys that make them.

interface Keys {
  accessKeyId: string;
  secretAccessKey: string;
  sessionToken?: string;
}

interface Given {
  auth: AwsAuth;
  region: string;
  service: string;
  /** Where the requests go: a name, with its port if it has one. */
  host: string;
  now?: () => Date;
}

/** Node's own hashes, as the signer takes them. */
class Sha256 {
  private readonly hash: Hash | Hmac;
  constructor(secret?: string | ArrayBuffer | ArrayBufferView) {
    this.hash =
      secret === undefined
        ? createHash('sha256')
        : createHmac('sha256', typeof secret === 'string' ? secret : bytesOf(secret));
  }
  update(data: string | ArrayBuffer | ArrayBufferView): void {
    this.hash.update(typeof data === 'string' ? data : bytesOf(data));
  }
  digest(): Promise<Uint8Array> {
    return Promise.resolve(this.hash.digest());
  }
  reset(): void {
    throw new Error('A hash is used once.');
  }
}

function bytesOf(data: ArrayBuffer | ArrayBufferView): Uint8Array {
  return ArrayBuffer.isView(data)
    ? new Uint8Array(data.buffer, data.byteOffset, data.byteLength)
    : new Uint8Array(data);
}

/** Signs the requests to one host with keys that are renewed ahead. */
export class AwsSigner {
  private readonly host: string;
  private readonly now: () => Date;
  private readonly keys: Renewal<Keys>;
  private readonly signer: SignatureV4;
  /** The keys by which each present signature was made. */
  private readonly made = new WeakMap<object, Keys>();

  constructor({ auth, region, service, host, now = () => new Date() }: Given) {
    this.host = host;
    this.now = now;
    this.keys = new Renewal(keysOf(auth, region), {
      silence: silenceOf({ form: 'aws', aws: auth }),
    });
    this.signer = new SignatureV4({
      service,
      region,
      sha256: Sha256,
      credentials: async () => this.keys.current(),
    });
  }

  /** The headers of one attempt: each has a signature of its own time. */
  async headersFor({ method, path: raw, body }: Outbound): Promise<Record<string, string>> {
    const keys = await this.keys.current();
    const at = raw.indexOf('?');
    const pathname = at < 0 ? raw : raw.slice(0, at);
    const search = new URLSearchParams(at < 0 ? '' : raw.slice(at));
    const signed = await this.signer.sign(
      {
        method,
        protocol: 'https:',
        hostname: this.host,
        path: pathname,
        query: Object.fromEntries([...search.keys()].map((name) => [name, search.getAll(name)])),
        headers: { host: this.host },
        body,
      },
      { signingDate: this.now() },
    );
    const { host: _, ...headers } = signed.headers;
    this.made.set(headers, keys);
    return headers;
  }

  refuse(sent: object): boolean {
    const keys = this.made.get(sent);
    return keys !== undefined && this.keys.refuse(keys);
  }
}

/** What gives keys: those of variables, or of the chain; of a role if one is named. */
function keysOf(auth: AwsAuth, region: string): () => Promise<Lasting<Keys>> {
  const { access_key_id_env, secret_access_key_env, session_token_env, role_arn } = auth;
  const is_named = access_key_id_env !== undefined && secret_access_key_env !== undefined;
  const own = async (): Promise<Keys> => {
    const token = session_token_env && namedVariable(session_token_env);
    return {
      accessKeyId: variableOf(access_key_id_env),
      secretAccessKey: variableOf(secret_access_key_env),
      ...(token ? { sessionToken: token } : {}),
    };
  };
  if (is_named && role_arn === undefined) return async () => ({ value: await own() });
  return async () => {
    // Sixteen megabytes that nobody else pays for.
    const providers = await import('@aws-sdk/credential-providers');
    const source = is_named ? own : await chainOf(providers);
    const external = auth.external_id_env && variableOf(auth.external_id_env);
    const give =
      role_arn === undefined
        ? source
        : providers.fromTemporaryCredentials({
            masterCredentials: source,
            params: {
              RoleArn: role_arn,
              RoleSessionName: 'svc-gateway',
              ...(external ? { ExternalId: external } : {}),
            },
            clientConfig: { region, requestHandler: throughProxy },
          });
    const { expiration, ...keys } = (await give()) as Keys & { expiration?: Date };
    return { value: keys, expires_at: expiration?.getTime() };
  };
}

interface AwsRequest {
  method: string;
  protocol: string;
  hostname: string;
  port?: number;
  path: string;
  query?: Record<string, string | string[] | null>;
  headers: Record<string, string>;
  body?: string | Uint8Array;
}

// STS, and the two servers of SSO, in each partition; an API of anybody's has such a name too, with
// another beginning.
const partitions = [
  'amazonaws.com',
  'amazonaws.com.cn',
  'amazonaws.eu',
  'api.aws',
  'api.amazonwebservices.com.cn',
  'c2s.ic.gov',
  'sc2s.sgov.gov',
  'csp.hci.ic.gov',
  'cloud.adc-e.uk',
].map((domain) => domain.replaceAll('.', '\\.'));
const token_host = new RegExp(
  `^(?:sts|sts-fips|portal\\.sso|oidc)(?:\\.[a-z0-9-]+)?\\.(?:${partitions.join('|')})$`,
);
const sign_in_host = /^(?:[a-z0-9-]+\.)?signin\.aws\.amazon\.com$/;

function givesTokens({ protocol, hostname }: URL): boolean {
  return protocol === 'https:' && (token_host.test(hostname) || sign_in_host.test(hostname));
}

/**
 * The requests of AWS's clients to STS and SSO over connections of this process: to AWS alone, or
 * to those that the operator lists.
 */
const throughProxy = {
  async handle({ method, protocol, hostname, port, path: at, query = {}, ...rest }: AwsRequest) {
    const url = new URL(`${protocol}//${hostname}${port === undefined ? '' : `:${port}`}${at}`);
    for (const [name, value] of Object.entries(query))
      for (const one of [value].flat()) url.searchParams.append(name, one ?? '');
    const named_by = 'An endpoint of STS or SSO, as a variable or a file of AWS has it,';
    refuseStranger({ url: url.href, named_by }, givesTokens);
    const { host: _, 'content-length': __, ...headers } = rest.headers;
    const answer = await fetchThrough(url, {
      method,
      headers,
      ...(method === 'GET' || rest.body === undefined ? {} : { body: rest.body }),
      redirect: 'error',
    });
    const body = new Uint8Array(await answer.arrayBuffer());
    const heard = Object.fromEntries(answer.headers);
    return { response: { statusCode: answer.status, headers: heard, body } };
  },
};

function variableOf(variable: string | undefined): string {
  const value = variable === undefined ? undefined : namedVariable(variable);
  if (!value) throw new Error(`The environment variable ${variable} is not set.`);
  return value;
}

/** AWS's own chain, without the sources that run a program or ask an address of anybody's. */
async function chainOf(providers: typeof import('@aws-sdk/credential-providers')) {
  refusePrograms();
  refuseAddresses();
  const clientConfig = { requestHandler: throughProxy };
  return providers.createCredentialChain(
    providers.fromEnv(),
    providers.fromIni({ clientConfig }),
    providers.fromTokenFile({ clientConfig }),
    providers.fromHttp(),
    providers.fromInstanceMetadata(),
  );
}

/** The files in which AWS's clients look for profiles. */
function profileFiles(): string[] {
  const folder = path.join(homedir(), '.aws');
  return [
    namedVariable('AWS_CONFIG_FILE') ?? path.join(folder, 'config'),
    namedVariable('AWS_SHARED_CREDENTIALS_FILE') ?? path.join(folder, 'credentials'),
  ];
}

function refusePrograms(): void {
  for (const file of profileFiles()) {
    if (/^\s*credential_process\s*=/m.test(textOf(file)))
      throw new Error(`No program is run for credentials: take credential_process out of ${file}.`);
  }
}

function textOf(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return '';
  }
}

// Where AWS's containers are told who they are.
const container_hosts = new Set([
  '169.254.170.2',
  '169.254.170.23',
  '[fd00:ec2::23]',
  'localhost',
  '127.0.0.1',
]);

// Where an instance is.
const instance_hosts = new Set(['169.254.169.254', '[fd00:ec2::254]']);

function refuseAddresses(): void {
  const container = 'AWS_CONTAINER_CREDENTIALS_FULL_URI';
  const instance = 'AWS_EC2_METADATA_SERVICE_ENDPOINT';
  const of_container = namedVariable(container);
  if (of_container)
    refuseStranger({ url: of_container, named_by: container }, ({ hostname }) =>
      container_hosts.has(hostname),
    );
  const in_files = profileFiles().flatMap((file) => {
    const found = textOf(file).matchAll(/^\s*ec2_metadata_service_endpoint\s*=\s*(\S+)/gm);
    return [...found].map(([, url = '']) => ({ url, named_by: file }));
  });
  const of_instance = namedVariable(instance);
  const named = of_instance ? [{ url: of_instance, named_by: instance }, ...in_files] : in_files;
  for (const one of named) refuseStranger(one, ({ hostname }) => instance_hosts.has(hostname));
}
