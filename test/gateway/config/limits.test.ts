import { parseSettings } from '../../../gateway/config/settings';

beforeAll(() => {
  process.env.TEST_MODELS_KEY = 'upstream-secret';
  process.env.TEST_REDIS_URL = 'redis://127.0.0.1:1';
});

const shared = {
  distributed_rate_limit: {
    enabled: true,
    store_url_env: 'TEST_REDIS_URL',
    key_prefix: 't:',
  },
};

test.each([
  [{ rate_limits: { ip: { enabled: true } } }, 'rate_limits.ip.rpm: is needed'],
  [{ rate_limits: { ip: { whitelist: ['10.0.0.0/33'] } } }, 'rate_limits.ip.whitelist[0]:'],
  [{ rate_limits: { per_key: { rpm: 0 } } }, 'rate_limits.per_key.rpm:'],
  [{ rate_limits: { per_model: { rpm: 1 } } }, 'rate_limits.per_model: there is no such key'],
  [{ global_rate_limit: { queue_timeout_ms: 10 } }, 'global_rate_limit.queue_timeout_ms:'],
  [
    {
      policy: {
        'agent-firewall': { rate_limit: { burst_size: 1, global: { requests_per_hour: 9 } } },
      },
    },
    'policy.agent-firewall.rate_limit.burst_size:',
  ],
  [{ distributed_rate_limit: { enabled: true } }, 'distributed_rate_limit.store_url_env:'],
  [
    { distributed_rate_limit: { enabled: true, store_url_env: 'NOT_SET_ANYWHERE' } },
    'the environment variable NOT_SET_ANYWHERE is not set',
  ],
  [
    { distributed_rate_limit: { enabled: true, store_url_env: 'TEST_MODELS_KEY' } },
    'holds no URL of a Redis',
  ],
  [
    { ...shared, user_rate_limit: { window_seconds: 30 } },
    'distributed_rate_limit.window_ms: 60000 is not user_rate_limit.window_seconds',
  ],
  [{ consumer_groups: [{ name: 'a', inherits: 'none' }] }, 'consumer_groups[0].inherits:'],
  [
    {
      consumer_groups: [
        { name: 'a', keys: ['k1'] },
        { name: 'b', keys: ['k1'] },
      ],
    },
    'consumer_groups[1].keys: k1 is already in the group "a"',
  ],
  [{ rate_limit_profiles: [{ name: 'p', rpm: 1 }, { name: 'p' }] }, 'rate_limit_profiles[1].name:'],
])('a configuration that contradicts itself is refused with the path: %j', (settings, message) => {
  const target = {
    id: 'x',
    provider: 'openai',
    shape: 'openai',
    api_key_env: 'TEST_MODELS_KEY',
    base_url: 'http://127.0.0.1:1/v1',
    models: ['m'],
  };
  const text = JSON.stringify({ providers: { targets: [target] }, ...settings });
  expect(() => parseSettings(text)).toThrow(message);
});
