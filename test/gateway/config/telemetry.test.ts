import { parseSettings } from '../../../gateway/config/settings';

beforeAll(() => {
  process.env.TEST_MODELS_KEY = 'upstream-secret';
});

test('an address that is missing, unset or none is refused by the path of its key, which does not repeat it', () => {
  const refused = (given: object): string => {
    const target = {
      id: 'a',
      provider: 'openai',
      shape: 'openai',
      base_url: 'http://127.0.0.1/v1',
      api_key_env: 'TEST_MODELS_KEY',
      models: ['m'],
    };
    try {
      parseSettings(
        JSON.stringify({ providers: { targets: [target] }, observability: { otlp: given } }),
      );
    } catch (error) {
      return (error as Error).message;
    }
    return 'accepted';
  };
  const key = 'observability.otlp.endpoint_env';
  process.env.TEST_OTLP_WRONG = 'grpc://user:hunter2@collector';
  expect(refused({ enabled: true })).toContain(`${key}: is needed`);
  expect(refused({ enabled: true, endpoint_env: 'TEST_OTLP_UNSET' })).toContain(
    `${key}: the environment variable TEST_OTLP_UNSET is not set`,
  );
  const wrong = refused({ enabled: true, endpoint_env: 'TEST_OTLP_WRONG' });
  expect(wrong).toContain(`${key}: the environment variable TEST_OTLP_WRONG holds no http address`);
  expect(wrong).not.toContain('hunter2');
  expect(refused({ enabled: false, endpoint_env: 'TEST_OTLP_UNSET' })).toBe('accepted');
});
