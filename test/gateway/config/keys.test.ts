import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { parseSettings } from '../../../gateway/config/settings';

// The variables and files that a target names its key by: what is wrong with them is told as the
// configuration is read, and nothing of a key is.

const parse = (target: object) => {
  const targets = [{ id: 't', models: ['m'], ...target }];
  return parseSettings(JSON.stringify({ providers: { targets } }));
};

test('a file of a credential of Google must hold a whole one', () => {
  const file = path.join(mkdtempSync(path.join(tmpdir(), 'svc-google-')), 'account.json');
  process.env.TEST_FILE = file;
  const vertex = { kind: 'vertex', shape: 'gemini', project: 'acme-1', location: 'global' };
  const target = { ...vertex, auth: { google: { credentials_file_env: 'TEST_FILE' } } };
  const at = `providers.targets[0].auth.google.credentials_file_env: the file ${file}`;
  expect(() => parse(target)).toThrow(`${at} cannot be read.`);
  for (const text of [
    '',
    'AIzaSy-secret',
    '[]',
    '{"type": "AIzaSy-secret"}',
    '{"type": "toString"}',
  ]) {
    writeFileSync(file, text);
    expect(() => parse(target)).toThrow(`${at} holds no credential of Google`);
    expect(() => parse(target)).not.toThrow('AIzaSy');
  }
  // What the console of Google gives for an OAuth client, and a service account without its key.
  writeFileSync(file, JSON.stringify({ installed: { client_id: 'c', client_secret: 's' } }));
  expect(() => parse(target)).toThrow('"type" is one of service_account, authorized_user');
  const account = { type: 'service_account', client_email: 'a@b.example', private_key: '' };
  writeFileSync(file, JSON.stringify(account));
  expect(() => parse(target)).toThrow('of the type service_account has private_key too');
  writeFileSync(file, JSON.stringify({ ...account, private_key: 'k' }));
  expect(parse(target).providers.targets).toHaveLength(1);
});

test('a key that was written where its variable is named is not repeated', () => {
  for (const pasted of ['sk-proj-1', 'gsk_abc', 'AIzaSyB_1', 'not_set']) {
    const said = `auth.key_env: the environment variable (not shown, as it may be a key) is not set`;
    expect(() => parse({ kind: 'openai', auth: { key_env: pasted } })).toThrow(said);
  }
  const unset = { kind: 'openai', auth: { key_env: 'TEST_NOT_SET' } };
  expect(() => parse(unset)).toThrow('the environment variable TEST_NOT_SET is not set');
});

test('the value of a variable that holds a key must be one', () => {
  const target = { kind: 'openai', auth: { key_env: 'TEST_KEY_VALUE' } };
  for (const value of [' sk-1', 'sk-1 ', 'sk-1 sk-2', 'sk-\u00e9']) {
    process.env.TEST_KEY_VALUE = value;
    const said = 'the value of TEST_KEY_VALUE has a blank or another letter that no key has';
    expect(() => parse(target)).toThrow(said);
    expect(() => parse(target)).not.toThrow('sk-1');
  }
  process.env.TEST_KEY_VALUE = 'sk-1';
  expect(parse(target).providers.targets).toHaveLength(1);
  delete process.env.TEST_KEY_VALUE;
});

test('a key in a file must be one that can be read', () => {
  const file = path.join(mkdtempSync(path.join(tmpdir(), 'svc-key-')), 'key');
  const target = { kind: 'openai', auth: { key_file: file } };
  expect(() => parse(target)).toThrow(`providers.targets[0].auth.key_file: the file ${file}`);
  for (const text of ['', '\r\n', 'sk-1 sk-2', 'sk-1\nsk-2\n', 'sk-\u00e9']) {
    writeFileSync(file, text);
    expect(() => parse(target)).toThrow(`${file} holds no key: write the key alone, in one line.`);
  }
  const folder = { ...target, auth: { key_file: path.dirname(file) } };
  expect(() => parse(folder)).toThrow('is no file.');
  writeFileSync(file, 'sk-1\r\n');
  expect(parse(target).providers.targets).toHaveLength(1);
});
