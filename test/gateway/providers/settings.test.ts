import { checkConfig, parseSettings } from '../../../gateway/config/settings';
import { urlOf } from '../../../gateway/config/targets';
import { decidingMembers } from '../../../gateway/families/billed';

// What a target may say of its provider, and what is refused.

beforeAll(() => {
  process.env.TEST_MODELS_KEY = 'upstream-secret';
});
function forget() {
  delete process.env.GATEWAY_AMBIENT_AUTH;
  delete process.env.GATEWAY_AMBIENT_ORIGINS;
}
beforeEach(forget);
afterEach(forget);

const key = { auth: { key_env: 'TEST_MODELS_KEY' } };
const parse = (...targets: object[]) =>
  parseSettings(JSON.stringify({ providers: { targets: targets.map(named) } }));
const named = (target: object, at: number) => ({ id: `t${at}`, models: ['m'], ...target });
const problemsOf = (...targets: object[]) =>
  checkConfig({ providers: { targets: targets.map(named) } }).problems;

test.each([
  [{ kind: 'openai' }, 'https://api.openai.com/v1'],
  [{ kind: 'azure', resource: 'acme-eu' }, 'https://acme-eu.openai.azure.com/openai/v1'],
  [
    { kind: 'azure', resource: 'acme', api_version: '2024-10-21' },
    'https://acme.openai.azure.com/openai?api-version=2024-10-21',
  ],
  [
    { kind: 'azure', shape: 'anthropic', resource: 'acme' },
    'https://acme.services.ai.azure.com/anthropic',
  ],
  [{ kind: 'anthropic' }, 'https://api.anthropic.com/'],
  [{ kind: 'mistral', query: { a: 'b c' } }, 'https://api.mistral.ai/v1?a=b+c'],
  [{ kind: 'groq' }, 'https://api.groq.com/openai/v1'],
  [{ kind: 'deepseek' }, 'https://api.deepseek.com/v1'],
  [{ kind: 'deepseek', shape: 'anthropic' }, 'https://api.deepseek.com/anthropic'],
  [{ kind: 'xai' }, 'https://api.x.ai/v1'],
  [{ kind: 'together' }, 'https://api.together.xyz/v1'],
  [{ kind: 'fireworks' }, 'https://api.fireworks.ai/inference/v1'],
  [{ kind: 'openrouter' }, 'https://openrouter.ai/api/v1'],
  [{ kind: 'cohere' }, 'https://api.cohere.ai/compatibility/v1'],
  [{ kind: 'gemini' }, 'https://generativelanguage.googleapis.com/v1beta/openai'],
  [{ kind: 'gemini', shape: 'gemini' }, 'https://generativelanguage.googleapis.com/v1beta'],
  [
    { kind: 'bedrock', shape: 'converse', region: 'us-gov-west-1' },
    'https://bedrock-runtime.us-gov-west-1.amazonaws.com/',
  ],
  [
    { kind: 'bedrock', region: 'cn-north-1' },
    'https://bedrock-runtime.cn-north-1.amazonaws.com.cn/',
  ],
  [
    { kind: 'bedrock', region: 'eusc-de-east-1' },
    'https://bedrock-runtime.eusc-de-east-1.amazonaws.eu/',
  ],
  [
    { kind: 'bedrock', shape: 'openai', region: 'cn-northwest-1' },
    'https://bedrock-runtime.cn-northwest-1.amazonaws.com.cn/openai/v1',
  ],
  [{ kind: 'ollama', auth: 'none' }, 'http://127.0.0.1:11434/v1'],
  [{ kind: 'lmstudio', auth: 'none' }, 'http://127.0.0.1:1234/v1'],
  [{ kind: 'vllm', auth: 'none', base_url: 'http://vllm:8000/v1' }, 'http://vllm:8000/v1'],
])('%j is found at %s', (target, url) => {
  const [row] = parse({ ...key, ...target }).providers.targets;
  expect(urlOf(row as never).href).toBe(url);
});

type Case = readonly [object, string, RegExp];

test.each<Case>([
  [{ kind: 'openia' }, 'kind', /is no kind of provider\. There are openai, /],
  [
    { kind: 'openai', auth: 'none' },
    'auth',
    /does not fit the kind openai: write auth: \{ key_env/,
  ],
  [{ kind: 'openai', auth: { aws: {} } }, 'auth', /does not fit the kind openai/],
  [{ kind: 'openai', auth: { key_env: 'A', key_file: '/b' } }, 'auth', /names 2 ways/],
  [{ kind: 'openai', ...key, api_key_env: 'TEST_MODELS_KEY' }, 'auth', /names 2 ways/],
  [{ kind: 'openai', auth: {} }, 'auth', /is missing: write auth/],
  [{ kind: 'openai', auth: 'sk-1' }, 'auth', /^names where the key is, such as \{ key_env/],
  [{ kind: 'openai', auth: ['sk-1'] }, 'auth', /^names where the key is/],
  [{ kind: 'openai', ...key, id: ' t' }, 'id', /has blanks around it/],
  [{ kind: 'openai', ...key, provider: 'openai ' }, 'provider', /has blanks around it/],
  [{ kind: 'openai', ...key, models: ['m', ' n'] }, 'models[1]', /has blanks around it/],
  [
    { kind: 'openai', ...key, models: [{ name: 'm', price_as: 'm\n' }] },
    'models[0].price_as',
    /has blanks around it/,
  ],
  [
    { kind: 'azure', ...key, shape: 'anthropic', resource: 'acme', api_version: '2024-10-21' },
    'api_version',
    /speaks no such shape: leave it out/,
  ],
  [{ kind: 'openai', auth: { key: 'sk-1' } }, 'auth.key', /there is no such key/],
  [{ kind: 'openai', auth: { key_file: 'here' } }, 'auth.key_file', /whole path/],
  [{ kind: 'openai', ...key, shape: 'anthropic' }, 'shape', /speaks openai only/],
  [{ kind: 'openai', ...key, shape: 'converse' }, 'shape', /speaks openai only/],
  [
    { kind: 'bedrock', ...key, shape: 'converse', region: 'eu-west-1', endpoint: 'mantle' },
    'endpoint',
    /speaks no such shape/,
  ],
  [
    { kind: 'bedrock', ...key, shape: 'converse', region: 'eu-west-1', discover: true },
    'discover',
    /finds no list on this wire of the kind bedrock: name the "models"/,
  ],
  [
    {
      kind: 'vertex',
      auth: { google: {} },
      project: 'acme-1',
      location: 'global',
      shape: 'gemini',
      discover: true,
    },
    'discover',
    /finds no list on this wire of the kind vertex/,
  ],
  [{ kind: 'azure', ...key }, 'resource', /is missing: the kind azure is found by it/],
  ...['acme.eu', 'acme/x', 'acme eu', '-acme', 'acme@evil', '', 'a'.repeat(64)].map(
    (resource) =>
      [{ kind: 'azure', ...key, resource }, 'resource', /must be the name alone/] as const,
  ),
  [{ kind: 'azure', ...key, resource: 'a', api_version: '2024/10' }, 'api_version', /date such as/],
  [{ kind: 'openai', ...key, resource: 'acme' }, 'resource', /says nothing to the kind openai/],
  [{ kind: 'vllm', auth: 'none' }, 'base_url', /no server is known/],
  [{ shape: 'openai', base_url: 'http://a/v1' }, 'provider', /is missing/],
  [{ provider: 'a', base_url: 'http://a/v1' }, 'shape', /is missing/],
  [
    { kind: 'openai', ...key, models: [{ name: 'm', upstream: 'a b' }] },
    'models[0].upstream',
    /has a space/,
  ],
  [{ kind: 'openai', ...key, models: ['m', { name: 'm' }] }, 'models[1]', /stands here twice/],
  [{ kind: 'openai', ...key, models: [{ upstream: 'm' }] }, 'models[0].name', /is missing/],
  [{ kind: 'openai', ...key, drop: ['max_tokens'] }, 'drop[0]', /cannot be left out/],
  [{ kind: 'openai', ...key, rename: { model: 'm' } }, 'rename.model', /cannot be left out/],
  [
    { kind: 'gemini', shape: 'gemini', ...key, drop: ['generationConfig'] },
    'drop',
    /says nothing to the shape gemini/,
  ],
  [
    { kind: 'gemini', shape: 'gemini', ...key, rename: { seed: 'maxOutputTokens' } },
    'rename',
    /says nothing to the shape gemini/,
  ],
  [
    { kind: 'bedrock', region: 'eu-west-1', shape: 'converse', ...key, drop: ['inferenceConfig'] },
    'drop',
    /says nothing to the shape converse/,
  ],
  [
    { kind: 'openai', ...key, headers: { Authorization: 'x' } },
    'headers.Authorization',
    /named in auth/,
  ],
  [{ kind: 'openai', ...key, headers: { host: 'x' } }, 'headers.host', /gateway itself/],
  [{ kind: 'openai', ...key, headers: { 'x-a': 'b\r\nc' } }, 'headers.x-a', /line of ASCII/],
  ...['x_api_key', 'Content_Length', 'Transfer_Encoding', 'set-cookie', 'X-Method-Override'].map(
    (name) =>
      [{ kind: 'openai', ...key, headers: { [name]: '5' } }, `headers.${name}`, /itself/] as const,
  ),
  ...['MODEL', 'Stream', 'service_tier', 'serviceTier', 'stream_options', 'plugins'].map(
    (name) => [{ kind: 'openai', ...key, rename: { user: name } }, 'rename.user', /./] as const,
  ),
  [{ kind: 'openai', ...key, drop: ['Model'] }, 'drop[0]', /cannot be left out/],
  [{ kind: 'openai', ...key, drop: ['user', 'tools'] }, 'drop[1]', /take it out of this list/],
  [{ kind: 'openai', ...key, drop: ['max_tool_calls'] }, 'drop[0]', /cannot be left out/],
  [
    { kind: 'openai', ...key, models: [{ name: 'm', upstream: '..' }] },
    'models[0].upstream',
    /step in a path/,
  ],
  ...[-1, 1e-320, 1e-7, 1 / 3].map(
    (price_factor) => [{ kind: 'openai', ...key, price_factor }, 'price_factor', /./] as const,
  ),
  ...[
    '169.254.169.254',
    '2852039166',
    '0xA9FEA9FE',
    '0251.0376.0251.0376',
    '[::ffff:169.254.169.254]',
    '[fd00:ec2::254]',
    '[64:ff9b::a9fe:a9fe]',
    '[fe80::1]',
    '100.100.100.200',
    '0',
  ].map(
    (host) =>
      [
        { kind: 'openai', ...key, base_url: `https://${host}/v1` },
        'base_url',
        /metadata address/,
      ] as const,
  ),
  [{ kind: 'openai', ...key, base_url: 'https://a:b@c.example' }, 'base_url', /user or a password/],
])('%j is refused by its path and with its mend', (target, at, words) => {
  const problems = problemsOf(target);
  expect(problems).toContainEqual({
    path: `providers.targets[0].${at}`,
    message: expect.stringMatching(words),
  });
});

test.each([...new Set(decidingMembers)])(
  '"%s" is left out only if its provider is charged as it heard',
  (name) => {
    const problems = problemsOf({ kind: 'openai', ...key, drop: [name] });
    const is_handled = ['service_tier', 'speed'].includes(name);
    const path = 'providers.targets[0].drop[0]';
    const message = expect.stringMatching(/cannot be left out/);
    expect(problems).toEqual(is_handled ? [] : [{ path, message }]);
  },
);

test('a member that costs something may have another name, by which its provider hears of it', () => {
  const rename = { web_search_options: 'search', service_tier: 'tier' };
  expect(problemsOf({ kind: 'openai', ...key, rename })).toEqual([]);
});

test('two targets of one provider have one price list, so one factor', () => {
  const azure = { kind: 'azure', resource: 'acme', ...key };
  expect(problemsOf({ ...azure, price_factor: 1.1 }, azure)).toEqual([
    {
      path: 'providers.targets[1].price_factor',
      message: expect.stringMatching(
        /has the factor 1\.1 at another target.*"provider" of its own/,
      ),
    },
  ]);
  expect(problemsOf({ ...azure, price_factor: 1.1, provider: 'azure-eu' }, azure)).toEqual([]);
});

test('the identity of the machine is used only where the process says so', () => {
  const azure = { kind: 'azure', resource: 'acme', auth: { entra: 'managed_identity' } };
  expect(() => parse(azure)).toThrow(/GATEWAY_AMBIENT_AUTH names azure/);
  process.env.GATEWAY_AMBIENT_AUTH = 'azure';
  expect(parse(azure).providers.targets).toHaveLength(1);
  const { resource: _, ...rest } = azure;
  const elsewhere = { ...rest, base_url: 'https://evil.example/openai' };
  expect(() => parse(elsewhere)).toThrow(/base_url: a token goes to the host of its kind alone/);
  expect(() => parse({ ...azure, headers: { 'x-a': 'b' } })).toThrow(/headers: /);
  process.env.GATEWAY_AMBIENT_ORIGINS = 'https://evil.example';
  expect(parse(elsewhere).providers.targets).toHaveLength(1);
});
