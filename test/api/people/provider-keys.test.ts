import { randomBytes } from 'node:crypto';
import pino from 'pino';
import { createSecrets } from '../../../domain/secrets';
import type { Db } from '../../../domain/sql';
import { type CallApi, makeTenant, refusal, startApi, type Tenant } from '../../support/api';
import { gatewayToken, platformKey } from '../../support/keys';
import { eventsOf, makePrice } from '../../support/ledger';
import { everyRow } from '../../support/rows';

let db: Db;
let call: CallApi;
let close: () => Promise<void>;
let tenant: Tenant;
let other: Tenant;
let platform: string;
let machine: string;
const lines: string[] = [];

beforeAll(async () => {
  const log = pino({ level: 'trace' }, { write: (line: string) => void lines.push(line) });
  ({ db, call, close } = await startApi({ log }));
  tenant = await makeTenant(db);
  other = await makeTenant(db);
  platform = await platformKey(db);
  machine = await gatewayToken(db);
  for (const provider of ['openai', 'anthropic', 'groq']) await makePrice(db, { provider });
});

afterAll(() => close());

const path = '/v1/provider-keys';
const secret = (word: string) => `sk-${word}-0123456789abcdef-${word.toUpperCase()}`;
const make = (body: object, key = tenant.billing_key) => call('post', path, { key, body });
const opened = (body: object) => call('post', '/v1/gateway/provider-keys', { key: machine, body });
const keyOf = async (body: object) => (await opened(body)).body.provider_key?.key ?? null;

test('a key is sealed, shown by its end alone, and opened for gateways only', async () => {
  const key = secret('first');
  const made = await make({ provider: 'openai', key });
  expect(made).toMatchObject({
    status: 201,
    body: {
      org_id: tenant.org_id,
      provider: 'openai',
      name: null,
      hint: 'IRST',
      version: 1,
      price_factor: 1,
      own_keys: 'only',
      revoked_at: null,
      last_used_at: null,
    },
  });
  const at_openai = { org_id: tenant.org_id, provider: 'openai' };
  const answer = await opened(at_openai);
  expect(answer.headers['cache-control']).toBe('no-store');
  const { id } = made.body;
  expect(answer.body.provider_key).toEqual({
    provider_key_id: id,
    version: 1,
    key,
    own_keys: 'only',
  });
  expect(await keyOf({ org_id: tenant.org_id, provider: 'groq' })).toBeNull();
  expect(await keyOf({ org_id: other.org_id, provider: 'openai' })).toBeNull();
  await opened(at_openai);
  const told = await eventsOf(db, tenant.org_id, 'provider_key.used');
  expect(told).toMatchObject([{ provider_key_id: id, provider: 'openai', version: 1 }]);
  const { body } = await call('get', path, { key: tenant.billing_key });
  expect(body.provider_keys).toMatchObject([{ id, last_used_at: expect.any(String) }]);
});

test('an organization has one living key at a provider; another organization finds none of it', async () => {
  const made = await make({ provider: 'groq', key: secret('groq') });
  const twice = await make({ provider: 'groq', key: secret('more') });
  expect(refusal(twice)).toMatchObject({ status: 409, code: 'already_exists', param: 'provider' });
  const theirs = await make({ provider: 'groq', key: secret('groq') }, other.owner_key);
  expect(theirs.body).toMatchObject({ fingerprint: made.body.fingerprint });
  const at = `${path}/${made.body.id}`;
  for (const [method, to, body] of [
    ['put', at, { own_keys: 'first' }],
    ['post', `${at}/rotate`, { key: secret('stolen') }],
    ['delete', at, undefined],
  ] as const)
    expect((await call(method, to, { key: other.owner_key, body })).status).toBe(404);
  const list = await call('get', path, { key: other.billing_key });
  expect(list.body.provider_keys.map(({ id }: { id: string }) => id)).toEqual([theirs.body.id]);
});

test('a rotation leaves nothing of the old value, and a revoked key is gone at once', async () => {
  const { body: made } = await make({ provider: 'anthropic', key: secret('old') });
  const of_whom = { org_id: tenant.org_id, provider: 'anthropic' };
  const rotate = (key: string) =>
    call('post', `${path}/${made.id}/rotate`, { key: tenant.billing_key, body: { key } });
  const same = refusal(await rotate(secret('old')));
  expect(same).toMatchObject({ status: 422, param: 'key' });
  expect((await rotate(secret('new'))).body).toMatchObject({ version: 2, hint: '-NEW' });
  expect(await keyOf(of_whom)).toBe(secret('new'));
  const gone = await call('delete', `${path}/${made.id}`, { key: tenant.billing_key });
  expect(gone.body).toMatchObject({ revoked_at: expect.any(String) });
  expect(await keyOf(of_whom)).toBeNull();
  expect((await rotate(secret('late'))).status).toBe(404);
  const row = await db('provider_keys').where({ id: made.id }).first();
  expect(row.credentials).toEqual({});
  expect((await make({ provider: 'anthropic', key: secret('again') })).status).toBe(201);
});

test('the platform says what a factor may be at least', async () => {
  const { owner_key: key, org_id } = await makeTenant(db);
  const put = (own_key_factor_min: number) =>
    call('put', `/v1/admin/organizations/${org_id}/wallet-settings`, {
      key: platform,
      body: { own_key_factor_min },
    });
  const given = { provider: 'openai', key: secret('cheap') };
  const low = await make({ ...given, price_factor: 0.5 }, key);
  expect(refusal(low)).toMatchObject({ status: 422, param: 'price_factor' });
  expect((await put(0.25)).body).toMatchObject({ own_key_factor_min: 0.25 });
  const made = await make({ ...given, own_keys: 'first' }, key);
  expect(made.body).toMatchObject({ price_factor: 0.25, own_keys: 'first' });
  const change = (price_factor: number, by = key) =>
    call('put', `${path}/${made.body.id}`, { key: by, body: { price_factor } });
  expect((await change(1.25)).body).toMatchObject({ price_factor: 1.25, own_keys: 'first' });
  expect((await change(0.2)).status).toBe(422);
  expect((await change(0, platform)).body).toMatchObject({ price_factor: 0 });
  // What the platform agreed to stays, as the rest is changed.
  const rest = { price_factor: 0, own_keys: 'only' };
  const kept = await call('put', `${path}/${made.body.id}`, { key, body: rest });
  expect(kept.body).toMatchObject(rest);
  for (const wrong of [-1, 101, 0.123_456_7, '1']) {
    const refused = await change(wrong as number, platform);
    expect(refusal(refused)).toMatchObject({ status: 422, param: 'price_factor' });
  }
});

test('the platform keeps keys of its own by the names that its targets have for them', async () => {
  const given = { name: 'openai-main', key: secret('platform') };
  const made = await make(given, platform);
  expect(made.body).toMatchObject({ org_id: null, provider: null, name: 'openai-main' });
  expect((await make(given, platform)).status).toBe(409);
  expect(await keyOf({ name: 'openai-main' })).toBe(given.key);
  expect(await keyOf({ name: 'unknown' })).toBeNull();
  for (const body of [
    { key: given.key },
    { ...given, provider: 'openai' },
    { ...given, price_factor: 1 },
    { ...given, org_id: tenant.org_id, provider: 'openai' },
    { org_id: tenant.org_id, key: given.key },
  ])
    expect((await make(body, platform)).status).toBe(422);
  const at = `${path}/${made.body.id}`;
  const own = { key: platform, body: { own_keys: 'first' } };
  expect((await call('put', at, own)).status).toBe(404);
  expect((await call('delete', at, { key: tenant.owner_key })).status).toBe(404);
  expect((await call('get', path, { key: platform })).body).toMatchObject({ total: 1 });
});

test('a key that was sealed under another SVC_SECRETS_KEY is told of, and mended by a rotation', async () => {
  const { owner_key, org_id } = await makeTenant(db);
  const { body: made } = await make({ provider: 'openai', key: secret('sealed') }, owner_key);
  const sealed = await createSecrets(randomBytes(32).toString('base64')).seal('x', 'y');
  await db('provider_keys')
    .where({ id: made.id })
    .update({ credentials: { key: sealed } });
  const of_whom = { org_id, provider: 'openai' };
  expect(refusal(await opened(of_whom))).toMatchObject({ status: 503, code: 'unavailable' });
  expect(lines.join('')).toContain('a provider key cannot be opened: rotate it');
  const at = `${path}/${made.id}/rotate`;
  await call('post', at, { key: owner_key, body: { key: secret('resealed') } });
  expect(await keyOf(of_whom)).toBe(secret('resealed'));
});

test('bad keys and unknown providers are refused in words that tell nothing of the key', async () => {
  const wrong = [`two ${secret('words')}`, 'short', `${secret('x')}é`, 'k'.repeat(501)];
  for (const key of wrong) {
    const answer = await make({ provider: 'openai', key });
    expect(refusal(answer)).toMatchObject({ status: 422, param: 'key' });
    expect(answer.text).not.toContain(key);
  }
  const unknown = await make({ provider: 'opneai', key: secret('typo') });
  expect(refusal(unknown)).toMatchObject({ status: 422, param: 'provider' });
  expect(unknown.body.error.message).toContain('anthropic, groq, openai');
  for (const body of [{}, { org_id: 'x' }, { name: 'x', provider: 'openai' }])
    expect((await opened(body)).status).toBe(422);
});

test('a provider that no other account’s key opens is refused, with what to do', async () => {
  for (const provider of ['azure', 'azure-eu', 'azure-own', 'vertex', 'bedrock'])
    await makePrice(db, { provider });
  const auth = { key_env: 'AZURE_KEY' };
  const models = ['gpt-4o-mini'];
  const targets = [
    { id: 'az', kind: 'azure', provider: 'azure-eu', resource: 'acme-eu', auth, models },
    {
      ...{ id: 'own', provider: 'azure-own', shape: 'openai', api_key_env: 'AZURE_KEY', models },
      base_url: 'https://theirs.openai.azure.com/openai/v1',
    },
  ];
  const config = { providers: { targets } };
  await call('put', '/v1/admin/gateway-config', { key: platform, body: { config } });
  for (const [provider, words] of [
    ['azure', 'resource of the platform'],
    ['azure-eu', 'resource of the platform'],
    ['vertex', 'is not asked with a key'],
  ] as const) {
    const refused = await make({ provider, key: secret('azure') });
    const told = { status: 422, code: 'invalid_field', param: 'provider' };
    expect(refusal(refused)).toMatchObject(told);
    expect(refused.body.error.message).toContain(words);
    expect(refused.body.error.message).toContain('kind: compatible');
  }
  for (const provider of ['azure-own', 'bedrock'])
    expect(await make({ provider, key: secret(provider) })).toMatchObject({ status: 201 });
});

test('no key stands in a row, an event or a line of the log, and the audit log says what was done', async () => {
  const rows = await everyRow(db);
  const words = 'first groq old new again cheap platform stolen late typo'.split(' ');
  expect(lines.join('')).toContain('a provider key is used');
  for (const word of words) {
    expect([word, rows.includes(secret(word))]).toEqual([word, false]);
    expect([word, lines.some((line) => line.includes(secret(word)))]).toEqual([word, false]);
  }
  const { body } = await call('get', '/v1/audit-log?object_type=provider_key&per_page=200', {
    key: tenant.billing_key,
  });
  const entries = body.audit_log as { action: string; before: object; after: object }[];
  expect(
    entries.find(({ action, after }) => action === 'provider_key.changed' && 'version' in after),
  ).toMatchObject({
    before: { version: 1, hint: '-OLD' },
    after: { version: 2, hint: '-NEW', credentials: { changed: true } },
  });
  expect(entries.map(({ action }) => action)).toContain('provider_key.ended');
});
