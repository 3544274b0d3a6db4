import { randomUUID } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { Client, Connection } from '@temporalio/client';
import { NativeConnection } from '@temporalio/worker';
import { temporalAddress } from '../../temporal/connection';
import { missingParts, waitForNamespace } from '../../temporal/prepare';
import { makeCertificates, openDoor } from './door';

const server = process.env.TEST_TEMPORAL_ADDRESS as string;
const folder = mkdtempSync(path.join(tmpdir(), 'svc-tls-'));
const namespace = `test-${randomUUID()}`;
let certificates: Awaited<ReturnType<typeof makeCertificates>>;
const closing: (() => Promise<void>)[] = [];

beforeAll(async () => {
  certificates = await makeCertificates();
  await waitForNamespace({ address: server }, { namespace, own: true });
});

afterAll(async () => {
  for (const close of closing) await close();
  rmSync(folder, { recursive: true, force: true });
});

/** A file with a text, as the SDK's variables name one. */
function file(name: string, text: string): string {
  const place = path.join(folder, name);
  writeFileSync(place, text);
  return place;
}

async function door(more: { client_authority?: string; api_key?: string } = {}): Promise<string> {
  const { private: key, cert } = certificates.server;
  const opened = await openDoor(server, { key, cert, ...more });
  closing.push(opened.close);
  return opened.address;
}

type Within = '60s' | '500ms';

/** Asks for the namespace as an API does, and connects as a worker does. */
async function reach(env: Record<string, string>, within = '60s' as Within): Promise<string[]> {
  const to = temporalAddress(env);
  const connection = await Connection.connect({ ...to, connectTimeout: within });
  try {
    const missing = await missingParts(new Client({ connection, namespace }));
    const native = await NativeConnection.connect(to);
    await native.close();
    return missing;
  } finally {
    await connection.close();
  }
}

/** Who the server must be: of this authority, under this name. */
const known = () => ({
  TEMPORAL_TLS_SERVER_CA_CERT_PATH: file('ca.pem', certificates.authority),
  TEMPORAL_TLS_SERVER_NAME: 'localhost',
});

test('API and worker reach a server that speaks TLS, by the variables of the SDK', async () => {
  const TEMPORAL_ADDRESS = await door();
  expect(await reach({ TEMPORAL_ADDRESS, ...known() })).toEqual([]);
  // Not in the clear, not with an authority that nobody named, not under another name.
  for (const wrong of [{}, { TEMPORAL_TLS: 'true' }, { ...known(), TEMPORAL_TLS_SERVER_NAME: 'x' }])
    await expect(reach({ TEMPORAL_ADDRESS, ...wrong }, '500ms')).rejects.toThrow();
});

test('a server that asks for a client certificate lets in who has one of its authority', async () => {
  const TEMPORAL_ADDRESS = await door({ client_authority: certificates.authority });
  const env = { TEMPORAL_ADDRESS, ...known() };
  const mine = {
    TEMPORAL_TLS_CLIENT_CERT_PATH: file('client.pem', certificates.client.cert),
    TEMPORAL_TLS_CLIENT_KEY_PATH: file('client.key', certificates.client.private),
  };
  expect(await reach({ ...env, ...mine })).toEqual([]);
  await expect(reach(env, '500ms')).rejects.toThrow();
  const others = await makeCertificates();
  const foreign = {
    TEMPORAL_TLS_CLIENT_CERT_DATA: others.client.cert,
    TEMPORAL_TLS_CLIENT_KEY_DATA: others.client.private,
  };
  await expect(reach({ ...env, ...foreign }, '500ms')).rejects.toThrow();
});

test('a server that asks for an API key gets it with each call', async () => {
  const TEMPORAL_ADDRESS = await door({ api_key: 'key-1' });
  const env = { TEMPORAL_ADDRESS, ...known() };
  expect(await reach({ ...env, TEMPORAL_API_KEY: 'key-1' })).toEqual([]);
  await expect(reach({ ...env, TEMPORAL_API_KEY: 'key-2' }, '500ms')).rejects.toThrow();
  await expect(reach(env, '500ms')).rejects.toThrow();
});

test("a file of the SDK counts if a variable names it, and never if it only lies in a person's home", () => {
  const toml = file('temporal.toml', '[profile.default]\nnamespace = "theirs"\napi_key = "k"\n');
  const home = mkdtempSync(path.join(folder, 'home-'));
  const env = { TEMPORAL_ADDRESS: 'temporal:7233', HOME: home, XDG_CONFIG_HOME: home };
  expect(temporalAddress(env)).toEqual({ address: 'temporal:7233' });
  expect(temporalAddress({ ...env, TEMPORAL_CONFIG_FILE: toml })).toMatchObject({
    address: 'temporal:7233',
    apiKey: 'k',
  });
});
