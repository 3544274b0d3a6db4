import { parseSettings } from '../../../gateway/config/settings';

beforeAll(() => {
  process.env.TEST_MODELS_KEY = 'upstream-secret';
});

const target = {
  id: 'a',
  provider: 'openai',
  shape: 'openai',
  base_url: 'http://127.0.0.1/v1',
  api_key_env: 'TEST_MODELS_KEY',
  models: ['gpt-4o'],
};

const parse = (targets: object[], more = {}) =>
  parseSettings(JSON.stringify({ providers: { targets }, ...more }));

test.each([
  'http://user:password@127.0.0.1/v1',
  'http://user@127.0.0.1/v1',
  'http://:password@127.0.0.1/v1',
  'http://127.0.0.1/v1#part',
  'http://127.0.0.1/v1?a=b#',
  'ftp://127.0.0.1/v1',
  '127.0.0.1/v1',
])('the base URL %j is refused when it is loaded', (base_url) => {
  expect(() => parse([{ ...target, base_url }])).toThrow('providers.targets[0].base_url: ');
});

test('a group may have the name of a model, and a server may take no key', () => {
  const { api_key_env: _, ...keyless } = target;
  const settings = parse([keyless], { model_groups: [{ name: 'gpt-4o', models: ['gpt-4o'] }] });
  expect(settings.providers.targets[0]?.api_key_env).toBeUndefined();
});

test('all variables of keys that are missing are told at once', () => {
  const targets = ['A', 'B'].map((id) => ({ ...target, id, api_key_env: `TEST_ABSENT_${id}` }));
  const server = { name: 'c', url: 'http://127.0.0.1/mcp', api_key_env: 'TEST_ABSENT_C' };
  const told = () => parse(targets, { mcp: { servers: [server] } });
  for (const name of ['TEST_ABSENT_A', 'TEST_ABSENT_B', 'TEST_ABSENT_C'])
    expect(told).toThrow(name);
});

test('a key in more than one line is told with its variable', () => {
  process.env.TEST_BROKEN = 'sk-1\n';
  expect(() => parse([{ ...target, api_key_env: 'TEST_BROKEN' }])).toThrow(
    'providers.targets[0].api_key_env: the value of TEST_BROKEN has a line break',
  );
  const server = { name: 'c', url: 'http://127.0.0.1/mcp', api_key_env: 'TEST_BROKEN' };
  expect(() => parse([target], { mcp: { servers: [server] } })).toThrow(
    'mcp.servers[0].api_key_env: ',
  );
});

interface Given {
  fallback?: object;
  circuit_breaker?: object;
  model_groups?: object[];
}

test.each([
  [
    {
      model_groups: [
        { name: 'fast', models: ['gpt-4o'] },
        { name: 'fast', models: ['gpt-4o'] },
      ],
    },
    'model_groups[1].name',
  ],
  [{ model_groups: [{ name: 'fast', models: ['nothing'] }] }, 'model_groups[0].models'],
  [{ fallback: { models: { 'gpt-4o': ['nothing'] } } }, 'providers.fallback.models.gpt-4o'],
  [{ fallback: { models: { nothing: ['gpt-4o'] } } }, 'providers.fallback.models'],
  [{ fallback: { retries: 6 } }, 'providers.fallback.retries'],
  [{ circuit_breaker: { failures: 0 } }, 'circuit_breaker.failures'],
])('%j is refused by name', ({ fallback = {}, ...sections }: Given, words) => {
  const text = JSON.stringify({ ...sections, providers: { targets: [target], fallback } });
  expect(() => parseSettings(text)).toThrow(words);
});
