import { parseSettings } from '../../../gateway/config/settings';

beforeAll(() => {
  process.env.TEST_MODELS_KEY = 'upstream-secret';
});

interface Given {
  fallback?: object;
  circuit_breaker?: object;
  model_groups?: object[];
}

test.each([
  [{ model_groups: [{ name: 'gpt-4o', models: ['gpt-4o'] }] }, 'model_groups[0].name'],
  [{ model_groups: [{ name: 'fast', models: ['nothing'] }] }, 'model_groups[0].models'],
  [{ fallback: { models: { 'gpt-4o': ['nothing'] } } }, 'providers.fallback.models.gpt-4o'],
  [{ fallback: { models: { nothing: ['gpt-4o'] } } }, 'providers.fallback.models'],
  [{ fallback: { retries: 6 } }, 'providers.fallback.retries'],
  [{ circuit_breaker: { failures: 0 } }, 'circuit_breaker.failures'],
])('%j is refused by name', ({ fallback = {}, ...sections }: Given, words) => {
  const target = {
    id: 'a',
    provider: 'openai',
    shape: 'openai',
    base_url: 'http://127.0.0.1/v1',
    api_key_env: 'TEST_MODELS_KEY',
    models: ['gpt-4o'],
  };
  const text = JSON.stringify({ ...sections, providers: { targets: [target], fallback } });
  expect(() => parseSettings(text)).toThrow(words);
});
