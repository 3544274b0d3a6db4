import { randomBytes } from 'node:crypto';
import { createSecrets, isSecretsKey, type SignatureUse } from '../../domain/secrets';
import { loadConfig } from '../../runtime/config';

const key = randomBytes(32).toString('base64');
const secrets = createSecrets(key);

test('a sealed text opens for its owner, and two seals of it differ', async () => {
  const text = 'sk_test_ä€😀'.repeat(40);
  const sealed = await Promise.all([secrets.seal(text, 'a/key'), secrets.seal(text, 'a/key')]);
  expect(sealed[0]).not.toBe(sealed[1]);
  expect(sealed.join()).not.toContain('sk_test');
  for (const one of sealed) expect(await secrets.open(one, 'a/key')).toBe(text);
  expect(await secrets.open(await secrets.seal('', 'a/key'), 'a/key')).toBe('');
});

test('a sealed text opens for no other owner, under no other key, and in no changed form', async () => {
  const sealed = await secrets.seal('sk_test_1', 'a/key');
  const [version, name, nonce, text = ''] = sealed.split('.');
  const flipped = (text[0] === 'A' ? 'B' : 'A') + text.slice(1);
  await expect(secrets.open(sealed, 'b/key')).rejects.toThrow('belongs to something else');
  const other = createSecrets(randomBytes(32).toString('base64'));
  await expect(other.open(sealed, 'a/key')).rejects.toThrow('another SVC_SECRETS_KEY');
  for (const changed of [
    [version, name, nonce, flipped].join('.'),
    [version, name, nonce].join('.'),
    [version, name, '', text].join('.'),
    ['v2', name, nonce, text].join('.'),
    'sk_test_1',
    '',
  ])
    await expect(secrets.open(changed, 'a/key')).rejects.toThrow(/stored secret/);
});

test('what opens under a key opens in another process under the same key', async () => {
  const sealed = await secrets.seal('sk_test_1', 'a/key');
  expect(await createSecrets(key).open(sealed, 'a/key')).toBe('sk_test_1');
});

test('a signature holds for its use and parts alone, and under its key alone', async () => {
  const signature = await secrets.sign('checkout_state', 'pay_1', 'user_1');
  expect(await createSecrets(key).isSigned(signature, 'checkout_state', 'pay_1', 'user_1')).toBe(
    true,
  );
  const wrong: [string, SignatureUse, ...string[]][] = [
    [signature, 'verdict', 'pay_1', 'user_1'],
    [signature, 'checkout_state', 'pay_1', 'user_2'],
    [signature, 'checkout_state', 'pay_1user_1'],
    [signature, 'checkout_state', 'pay_1', 'user_1', ''],
    [signature.slice(0, -2), 'checkout_state', 'pay_1', 'user_1'],
    [`${signature}\n`, 'checkout_state', 'pay_1', 'user_1'],
    [`${signature}=`, 'checkout_state', 'pay_1', 'user_1'],
    ['', 'checkout_state', 'pay_1', 'user_1'],
    ['ä', 'checkout_state', 'pay_1', 'user_1'],
  ];
  for (const given of wrong) expect(await secrets.isSigned(...given)).toBe(false);
  const other = createSecrets(randomBytes(32).toString('base64'));
  expect(await other.isSigned(signature, 'checkout_state', 'pay_1', 'user_1')).toBe(false);
});

test('of several keys the first seals and signs, and all open and verify', async () => {
  const other = createSecrets(randomBytes(32).toString('base64'));
  const next = randomBytes(32).toString('base64');
  const both = createSecrets(`${next},${key}`);
  const [old_seal, new_seal] = [await secrets.seal('x', 'a'), await both.seal('y', 'a')];
  expect([await both.open(old_seal, 'a'), await both.open(new_seal, 'a')]).toEqual(['x', 'y']);
  await expect(secrets.open(new_seal, 'a')).rejects.toThrow('another SVC_SECRETS_KEY');
  expect(await both.reseal(new_seal, 'a')).toBe(new_seal);
  expect(await createSecrets(next).open(await both.reseal(old_seal, 'a'), 'a')).toBe('x');
  await expect(both.reseal(await other.seal('z', 'a'), 'a')).rejects.toThrow('SVC_SECRETS_KEY');
  const [of_old, of_new] = [await secrets.sign('verdict', 'v'), await both.sign('verdict', 'v')];
  expect(await both.signAll('verdict', 'v')).toEqual([of_new, of_old]);
  for (const signature of [of_old, of_new])
    expect(await both.isSigned(signature, 'verdict', 'v')).toBe(true);
  expect(await both.isSigned(await other.sign('verdict', 'v'), 'verdict', 'v')).toBe(false);
});

test('a secrets key is 32 bytes of base64 and nothing else', () => {
  expect(isSecretsKey(key)).toBe(true);
  for (const text of ['', 'secret', randomBytes(31).toString('base64'), key.slice(1), `${key},`]) {
    expect(isSecretsKey(text)).toBe(false);
    expect(() => createSecrets(text)).toThrow('32 bytes');
  }
  expect(isSecretsKey(`${key} `)).toBe(false);
});

test('an API or worker without a good secrets key says how to make one, and does not repeat it', () => {
  const env = { DATABASE_URL: 'postgres://x', TEMPORAL_ADDRESS: '127.0.0.1:7233' };
  for (const name of ['api', 'worker'] as const) {
    for (const SVC_SECRETS_KEY of [undefined, '', 'too-short', `${key},too-short`]) {
      const load = () => loadConfig(name, { ...env, SVC_SECRETS_KEY });
      expect(load).toThrow(/SVC_SECRETS_KEY .*openssl rand -base64 32/);
      expect(load).not.toThrow('too-short');
    }
    expect(loadConfig(name, { ...env, SVC_SECRETS_KEY: key }).SVC_SECRETS_KEY).toBe(key);
  }
  expect(() => loadConfig('admin', env)).not.toThrow();
});
