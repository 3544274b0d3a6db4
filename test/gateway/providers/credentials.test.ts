import { mkdirSync, mkdtempSync, renameSync, rmdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { INetworkModule } from '@azure/msal-node';
import { entraToken } from '../../../gateway/upstreams/credentials/entra';
import { googleToken } from '../../../gateway/upstreams/credentials/google';
import { KeyFile } from '../../../gateway/upstreams/credentials/key-file';
import { withoutTokens } from '../../../gateway/upstreams/credentials/outbound';
import { type Lasting, Renewal } from '../../../gateway/upstreams/credentials/renewal';
import { ask, openSold, options, origin, targets, visits } from './sold';

// Credentials that live for a while, and those that are replaced while the gateway runs.

const folder = () => mkdtempSync(path.join(tmpdir(), 'svc-credentials-'));

/** A source of numbered values that each live 1,000 ms, by a clock that a test moves. */
function numbered() {
  const clock = { now: 0 };
  const waiting: ((value: Lasting<string> | Error) => void)[] = [];
  const fetch = () =>
    new Promise<Lasting<string>>((resolve, reject) => {
      waiting.push((given) => (given instanceof Error ? reject(given) : resolve(given)));
    });
  const held = new Renewal(fetch, { ahead_ms: 300, now: () => clock.now, limit_ms: 50_000 });
  const give = async (value: string | Error) => {
    const [next] = waiting.splice(0, 1);
    next?.(typeof value === 'string' ? { value, expires_at: clock.now + 10_000 } : value);
    await new Promise((resolve) => setImmediate(resolve));
  };
  return { clock, waiting, held, give };
}

test('many who ask at once wait for one value, and then none waits', async () => {
  const { held, waiting, give } = numbered();
  const asked = Promise.all([held.current(), held.current(), held.current()]);
  expect(waiting).toHaveLength(1);
  await give('one');
  expect(await asked).toEqual(['one', 'one', 'one']);
  expect(held.current()).toBe('one');
});

test('it is renewed ahead of its end, beside those who ask, and by one renewal', async () => {
  const { held, clock, waiting, give } = numbered();
  const first = held.current();
  await give('one');
  await first;
  clock.now = 9_800;
  expect(held.current()).toBe('one');
  expect(held.current()).toBe('one');
  expect(waiting).toHaveLength(1);
  // A renewal that fails leaves the old value to its end.
  await give(new Error('down'));
  expect(held.current()).toBe('one');
  clock.now = 10_001;
  const next = held.current();
  await give('two');
  expect(await next).toBe('two');
});

test('a value that was refused is forgotten once; another one that came since stays', async () => {
  const { held, clock, give } = numbered();
  const first = held.current();
  await give('one');
  await first;
  expect(held.refuse('one')).toBe(true);
  const second = held.current();
  await give('two');
  await second;
  // Who was sent with the old one may try again with the new one.
  expect(held.refuse('one')).toBe(true);
  expect(held.current()).toBe('two');
  // The new one is refused too: nothing new is asked for at each request.
  expect(held.refuse('two')).toBe(false);
  clock.now = 20_000;
  expect(held.refuse('two')).toBe(true);
});

test('who never answers is not waited for', async () => {
  const held = new Renewal(() => new Promise<never>(() => undefined), { limit_ms: 5 });
  await expect(held.current()).rejects.toThrow('No credential came within 5 ms.');
});

test.each([
  ['connect ECONNREFUSED 169.254.169.254:80', 'connect ECONNREFUSED 169.254.169.254:80. Do this.'],
  ['The request is refused: no such role', 'The request is refused: no such role'],
])('what to do stands behind words for nobody to ask, and no others: %s', async (said, words) => {
  const fail = async () => {
    throw new Error(said);
  };
  await expect(new Renewal(fail, { silence: 'Do this.' }).current()).rejects.toThrow(
    expect.objectContaining({ message: words }),
  );
});

test('a key in a file is read again once it has changed', () => {
  const file = path.join(folder(), 'key');
  writeFileSync(file, 'sk-one\n');
  let now = 0;
  const held = new KeyFile(file, () => now);
  expect(held.current()).toBe('sk-one');
  writeFileSync(`${file}.new`, 'sk-two!\n');
  renameSync(`${file}.new`, file);
  expect(held.current()).toBe('sk-one');
  now = 1_000;
  expect(held.current()).toBe('sk-two!');
  // A refusal looks at once.
  writeFileSync(file, 'sk-three\n');
  expect(held.refuse('sk-two!')).toBe(true);
  expect(held.current()).toBe('sk-three');
  expect(held.refuse('sk-three')).toBe(false);
});

test('a key that is away, empty or half of nothing for a moment is the one before it', () => {
  const file = path.join(folder(), 'key');
  writeFileSync(file, 'sk-one\r\n');
  let now = 0;
  const held = new KeyFile(file, () => now);
  expect(held.current()).toBe('sk-one');
  for (const spoil of [
    () => writeFileSync(file, ''),
    () => writeFileSync(file, 'sk-two sk-three'),
    () => rmSync(file),
    () => mkdirSync(file),
  ]) {
    spoil();
    now += 1_000;
    expect(held.current()).toBe('sk-one');
    expect(held.refuse('sk-one')).toBe(false);
  }
  rmdirSync(file);
  writeFileSync(file, '\ufeffsk-two\r\n');
  now += 1_000;
  expect(held.current()).toBe('sk-two');
  expect(() => new KeyFile(`${file}.none`).current()).toThrow(/no such file/);
});

test('a key that was replaced while the gateway runs serves the request that the old one failed', async () => {
  const file = path.join(folder(), 'key');
  writeFileSync(file, 'old-key');
  options.azure = { ...options.azure, keys: new Set(['old-key']) };
  const [target] = targets().filter(({ id }) => id === 'az');
  const at = await openSold({}, [{ ...target, auth: { key_file: file } }]);
  expect((await ask('az', 'Hello', { at })).status).toBe(200);
  options.azure = { ...options.azure, keys: new Set(['new-key']) };
  writeFileSync(file, 'new-key');
  expect((await ask('az', 'Hello', { at })).status).toBe(200);
  expect(visits.map(({ headers }) => headers['api-key'])).toEqual(['old-key', 'new-key']);
});

test('a role of AWS is taken with its external id, and its keys sign until they are refused', async () => {
  const aws = {
    access_key_id_env: 'TEST_AWS_ID',
    secret_access_key_env: 'TEST_AWS_SECRET',
    role_arn: 'arn:aws:iam::123456789012:role/svc',
    external_id_env: 'TEST_EXTERNAL_ID',
  };
  const [target] = targets();
  const at = await openSold({}, [{ ...target, auth: { aws } }]);
  expect((await ask('aws-claude', 'Hello', { at })).status).toBe(200);
  expect(visits.map(({ url }) => url.split('/')[1])).toEqual(['sts', 'bedrock']);
  expect((await ask('aws-claude', 'Hello', { at })).status).toBe(200);
  expect(visits.map(({ url }) => url.split('/')[1])).toEqual(['bedrock']);
  for (const [id, key] of options.sts.keys)
    if (id.startsWith('ASIA')) options.sts.keys.set(id, { ...key, session_token: 'another' });
  expect((await ask('aws-claude', 'Hello', { at })).status).toBe(200);
  expect(visits.map(({ url }) => url.split('/')[1])).toEqual(['bedrock', 'sts', 'bedrock']);
});

test('tokens that end after seconds fail no request, and are renewed beside them', async () => {
  const { vertex } = options;
  const lifetime_s = vertex.lifetime_s;
  const [target] = targets().filter(({ id }) => id === 'gcp-claude');
  // A machine on which a request is under way for longer has tokens that end later.
  for (const seconds of [5, 20]) {
    vertex.lifetime_s = seconds;
    const at = await openSold({}, [target as object]);
    const before = vertex.tokens.size;
    const sent = new Set<unknown>();
    const failed: number[] = [];
    while (vertex.tokens.size < before + 4 && failed.length === 0) {
      const wave = Array.from({ length: 4 }, () => ask('gcp-claude', 'Hello', { at }));
      const statuses = (await Promise.all(wave)).map(({ status }) => status);
      failed.push(...statuses.filter((status) => status !== 200));
      for (const { url, headers } of visits)
        if (url.startsWith('/vertex')) sent.add(headers.authorization);
    }
    vertex.lifetime_s = lifetime_s;
    if (failed.length > 0 && seconds < 20) continue;
    expect(failed).toEqual([]);
    // None was given that nobody used, but for the one that has just come.
    expect(sent.size).toBeGreaterThanOrEqual(vertex.tokens.size - before - 1);
    return;
  }
});

/** Asks the sandbox in the place of Entra. */
const network = (): INetworkModule => {
  const ask_there = async (
    method: string,
    url: string,
    given: { headers?: object; body?: string } = {},
  ) => {
    const there = url.replace('https://login.microsoftonline.com', `${origin}/entra`);
    const { headers = {}, body = null } = given;
    const answer = await fetch(there, { method, headers: headers as Record<string, string>, body });
    return { headers: {}, body: (await answer.json()) as never, status: answer.status };
  };
  return {
    sendGetRequestAsync: (url, given) => ask_there('GET', url, given),
    sendPostRequestAsync: (url, given) => ask_there('POST', url, given),
  };
};

test('Entra gives a token to an application with its secret, and to a workload', async () => {
  const { scope } = options.entra;
  const secret = {
    tenant_id: 'tenant-1',
    client_id: 'app-1',
    client_secret_env: 'TEST_ENTRA_SECRET',
  };
  const first = await entraToken(secret, scope, network());
  expect(options.entra.bearers.has(first.value)).toBe(true);
  expect((first.expires_at ?? 0) - Date.now()).toBeGreaterThan(3_000_000);
  const file = path.join(folder(), 'token');
  writeFileSync(file, 'eyJ.of.cluster\n');
  Object.assign(process.env, {
    AZURE_TENANT_ID: 'tenant-1',
    AZURE_CLIENT_ID: 'app-1',
    AZURE_FEDERATED_TOKEN_FILE: file,
  });
  const second = await entraToken('workload_identity', scope, network());
  expect(second.value).not.toBe(first.value);
  process.env.AZURE_AUTHORITY_HOST = 'https://login.evil.example/';
  await expect(entraToken('workload_identity', scope, network())).rejects.toThrow(
    "https://login.evil.example is no server of Entra's tokens.",
  );
  delete process.env.AZURE_AUTHORITY_HOST;
});

test.each([
  [
    { type: 'external_account', credential_source: { executable: { command: 'id' } } },
    /No program/,
  ],
  [
    { type: 'external_account', credential_source: { url: 'http://a.example' } },
    /no address asked/,
  ],
  [{ type: 'service_account', token_uri: 'https://evil.example/token' }, /no server of Google's/],
  [{ type: 'external_account', token_url: 'https://sts.evil.example' }, /no server of Google's/],
  [
    {
      type: 'impersonated_service_account',
      source_credentials: { credential_source: { executable: { command: 'id' } } },
    },
    /No program/,
  ],
  [
    {
      type: 'impersonated_service_account',
      source_credentials: { token_uri: 'https://evil.example/token' },
    },
    /no server of Google's/,
  ],
  ['no JSON', /holds no credential/],
  ['null', /holds no credential/],
  ['[1]', /holds no credential/],
  ['', /holds no credential/],
])('the credential %j is not used', async (content, words) => {
  const file = path.join(folder(), 'credential.json');
  writeFileSync(file, typeof content === 'string' ? content : JSON.stringify(content));
  process.env.TEST_OTHER_FILE = file;
  await expect(
    googleToken({ credentials_file_env: 'TEST_OTHER_FILE' }, 'https://a.example/scope'),
  ).rejects.toThrow(words);
});

test('no token and no key stands in what the log is told', () => {
  const said = withoutTokens(
    'Refused: eyJhbGciOi.eyJzdWIi.sig-1 ya29.a0Af_x AKIAIOSFODNN7 ASIAX sk-live-12 and more',
  );
  expect(said).toBe(
    'Refused: [credential] [credential] [credential] [credential] [credential] and more',
  );
});
