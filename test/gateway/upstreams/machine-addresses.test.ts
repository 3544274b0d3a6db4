import { createHash } from 'node:crypto';
import { mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { AwsSigner } from '../../../gateway/upstreams/credentials/aws';
import { entraToken } from '../../../gateway/upstreams/credentials/entra';
import { googleToken } from '../../../gateway/upstreams/credentials/google';
import { listen } from '../../../runtime/listen';

// The identity of a machine is asked for at the vendor's addresses, and at those that the operator
// lists: whoever is asked gives the credential.

let server: Server;
let origin: string;
let home: string;
let before: NodeJS.ProcessEnv;
const asked: string[] = [];

beforeAll(async () => {
  server = createServer((incoming, outgoing) => {
    asked.push(incoming.url ?? '');
    outgoing.writeHead(400, { 'content-type': 'application/json' }).end('{}');
  });
  origin = `http://127.0.0.1:${await listen(server, 0)}`;
});
afterAll(() => {
  server.closeAllConnections();
  server.close();
});

beforeEach(() => {
  before = { ...process.env };
  asked.length = 0;
  home = mkdtempSync(path.join(tmpdir(), 'svc-machine-'));
  for (const name of Object.keys(process.env))
    if (/^(?:AWS|GCE|GOOGLE|GATEWAY|IDENTITY|AZURE)_/.test(name)) delete process.env[name];
  Object.assign(process.env, {
    HOME: home,
    AWS_CONFIG_FILE: path.join(home, 'config'),
    AWS_SHARED_CREDENTIALS_FILE: path.join(home, 'credentials'),
    AWS_EC2_METADATA_DISABLED: 'true',
    AWS_MAX_ATTEMPTS: '1',
    AWS_REGION: 'eu-west-1',
    CLOUDSDK_CONFIG: home,
    TEST_AWS_ID: 'AKIATEST',
    TEST_AWS_SECRET: 'aws-secret',
  });
});
afterEach(() => {
  for (const name of Object.keys(process.env)) if (!(name in before)) delete process.env[name];
  Object.assign(process.env, before);
});

/** Asks for a signature, for which keys are needed. */
function sign(auth: ConstructorParameters<typeof AwsSigner>[0]['auth'] = {}) {
  const signer = new AwsSigner({
    auth,
    region: 'eu-west-1',
    service: 'bedrock',
    host: 'a.example',
  });
  return signer.headersFor({ method: 'POST', path: '/', body: Buffer.alloc(0) });
}

const role = {
  access_key_id_env: 'TEST_AWS_ID',
  secret_access_key_env: 'TEST_AWS_SECRET',
  role_arn: 'arn:aws:iam::123456789012:role/svc',
};
const config = (text: string) => writeFileSync(path.join(home, 'config'), text);

test.each(['config', 'credentials'])('no program is run that the %s file names', async (file) => {
  writeFileSync(path.join(home, file), '[default]\n  credential_process = /bin/true\n');
  await expect(sign()).rejects.toThrow(/^No program is run for credentials: take credential_proc/);
});

test.each([
  ['AWS_CONTAINER_CREDENTIALS_FULL_URI', 'http://10.0.0.1/keys', 'http://10.0.0.1'],
  ['AWS_CONTAINER_CREDENTIALS_FULL_URI', 'https://evil.example/keys', 'https://evil.example'],
  ['AWS_EC2_METADATA_SERVICE_ENDPOINT', 'http://10.0.0.1:80', 'http://10.0.0.1'],
])('AWS: %s=%s is not asked', async (name, url, there) => {
  process.env[name] = url;
  await expect(sign()).rejects.toThrow(
    `${name} names ${there}, which gives no credentials: list it in the gateway's variable ` +
      'GATEWAY_AMBIENT_ORIGINS if it does.',
  );
  process.env[name] = 'nowhere';
  await expect(sign()).rejects.toThrow(`${name} names no address.`);
});

test('AWS: an instance that a profile names is not asked', async () => {
  config('[default]\nec2_metadata_service_endpoint = http://10.0.0.1\n');
  await expect(sign()).rejects.toThrow(/config names http:\/\/10\.0\.0\.1, which gives no cred/);
});

test.each([
  ['a variable of STS', () => void Object.assign(process.env, { AWS_ENDPOINT_URL_STS: origin })],
  ['a variable of all', () => void Object.assign(process.env, { AWS_ENDPOINT_URL: origin })],
  ['a profile', () => config(`[default]\nendpoint_url = ${origin}\n`)],
])('AWS: STS at an address of %s is asked only if it is listed', async (_, name) => {
  name();
  await expect(sign(role)).rejects.toThrow(/An endpoint of STS or SSO.*which gives no credentials/);
  expect(asked).toEqual([]);
  process.env.GATEWAY_AMBIENT_ORIGINS = origin;
  await expect(sign(role)).rejects.toThrow();
  expect(asked).toHaveLength(1);
});

test('AWS: SSO at another address is asked only if it is listed', async () => {
  const start = 'https://acme.awsapps.com/start';
  const cache = path.join(home, '.aws/sso/cache');
  mkdirSync(cache, { recursive: true });
  const token = { accessToken: 'sso-token', expiresAt: new Date(Date.now() + 3_600_000) };
  const name = createHash('sha1').update(start).digest('hex');
  writeFileSync(path.join(cache, `${name}.json`), JSON.stringify(token));
  const account = 'sso_account_id = 123456789012\nsso_role_name = svc';
  config(`[default]\nsso_start_url = ${start}\nsso_region = eu-west-1\n${account}\n`);
  process.env.AWS_ENDPOINT_URL_SSO = origin;
  await expect(sign()).rejects.toThrow();
  expect(asked).toEqual([]);
  process.env.GATEWAY_AMBIENT_ORIGINS = origin;
  await expect(sign()).rejects.toThrow();
  expect(asked).toEqual([expect.stringContaining('role_name=svc')]);
});

test.each(['GCE_METADATA_HOST', 'GCE_METADATA_IP'])('Google: %s is not asked', async (name) => {
  for (const host of ['10.0.0.1:8080', 'http://10.0.0.1:8080']) {
    process.env[name] = host;
    await expect(googleToken({}, 'https://a.example/scope')).rejects.toThrow(
      `${name} names http://10.0.0.1:8080, which gives no credentials`,
    );
  }
});

test.each([
  'IDENTITY_ENDPOINT',
  'IMDS_ENDPOINT',
  'MSI_ENDPOINT',
  'AZURE_POD_IDENTITY_AUTHORITY_HOST',
])('Azure: %s is not asked at a stranger', async (name) => {
  process.env[name] = 'http://10.0.0.1:2377/token';
  await expect(entraToken('managed_identity', 'https://a.example/.default')).rejects.toThrow(
    `${name} names http://10.0.0.1:2377, which gives no credentials`,
  );
});
