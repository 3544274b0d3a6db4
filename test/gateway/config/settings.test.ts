import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { loadSettings, parseSettings } from '../../../gateway/config/settings';
import { ConfigError } from '../../../runtime/config';

const good = `
providers:
  targets:
    - id: first
      provider: openai
      shape: openai
      base_url: https://models.example/v1
      api_key_env: TEST_SETTINGS_KEY
      models: [gpt-4o-mini]
`;

beforeAll(() => {
  process.env.TEST_SETTINGS_KEY = 'a-secret-value';
  delete process.env.TEST_SETTINGS_ABSENT;
});

function messageOf(text: string): string {
  try {
    parseSettings(text);
  } catch (error) {
    expect(error).toBeInstanceOf(ConfigError);
    return (error as Error).message;
  }
  throw new Error('The settings were accepted.');
}

test('a small file is enough; what it leaves out has a stated default', () => {
  expect(parseSettings(good)).toMatchObject({
    providers: { targets: [{ id: 'first', weight: 1 }] },
    timeouts: { connect_ms: 5_000, idle_ms: 120_000, drain_ms: 30_000 },
    body_limit_bytes: 20 * 1_048_576 + 16_384,
  });
});

test.each([
  [`${good}\nrate_limit: {}`, 'rate_limit: there is no such key'],
  [`${good}      regions: eu`, 'providers.targets[0].regions: there is no such key'],
  [`${good}\ntimeouts: { idle_seconds: 5 }`, 'timeouts.idle_seconds: there is no such key'],
  [`${good}\ntimeouts: { idle_ms: 0 }`, 'timeouts.idle_ms:'],
  [good.replace('shape: openai', 'shape: smoke'), 'providers.targets[0].shape:'],
  [good.replace('https://models.example/v1', 'file:///etc'), 'providers.targets[0].base_url:'],
  [good.replace('[gpt-4o-mini]', '[]'), 'providers.targets[0].models:'],
  ['', 'providers:'],
  ['providers: [', 'gateway.yaml is not YAML:'],
  ['providers: *nothing', 'gateway.yaml is not YAML:'],
  ['providers: !mine {}', 'gateway.yaml is not YAML:'],
  [
    `a: &a [${'x,'.repeat(9)}x]\n${'bcdefghi'.replace(/./g, (name, at) => `${name}: &${name} [${`*${'abcdefgh'[at]},`.repeat(9)}*${'abcdefgh'[at]}]\n`)}`,
    'gateway.yaml is not YAML:',
  ],
  [`${good}\nproviders: {}`, 'gateway.yaml is not YAML:'],
])('what is wrong is refused with its path (%#)', (text, named) => {
  expect(messageOf(text)).toContain(named);
});

test('a provider key whose variable is not set is refused with the name of the variable, and no value is shown', () => {
  const message = messageOf(good.replace('TEST_SETTINGS_KEY', 'TEST_SETTINGS_ABSENT'));
  expect(message).toContain('providers.targets[0].api_key_env');
  expect(message).toContain('TEST_SETTINGS_ABSENT');
});

test('two targets of one id are refused', () => {
  const second = good.split('targets:')[1];
  expect(messageOf(`${good}${second}`)).toContain('providers.targets[1].id: "first" is used twice');
});

test('a file is read from disk; one that is not there is named', () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'svc-settings-'));
  const file = path.join(folder, 'gateway.yaml');
  writeFileSync(file, good);
  expect(loadSettings(file)).toEqual(parseSettings(good));
  rmSync(folder, { recursive: true });
  expect(() => loadSettings(file)).toThrow(file);
});
