import { stringify } from 'yaml';
import { parseSettings } from '../../../gateway/config/settings';
import { ConfigError } from '../../../runtime/config';

beforeAll(() => {
  process.env.TEST_POLICY_SETTINGS_KEY = 'a-secret-value';
});

function settingsOf(more: object) {
  const target = {
    id: 'first',
    provider: 'openai',
    shape: 'openai',
    base_url: 'https://models.example/v1',
    api_key_env: 'TEST_POLICY_SETTINGS_KEY',
    models: ['gpt-4o-mini'],
  };
  return parseSettings(stringify({ providers: { targets: [target] }, ...more }));
}

function chained(kind: string, section: object) {
  return { policies: { chain: [kind] }, policy: { [kind]: section } };
}

const header = { name: 'x-role' };

test('every key of a pack is read; what is left out has a stated default', () => {
  const pack = {
    pack: 'baseline',
    policies: { chain: ['rbac', 'agent-firewall', 'dlp-filter'] },
    policy: {
      cache_control: 'strip',
      rbac: {
        required_headers: [
          { ...header, values: ['a'] },
          { ...header, pattern: 'a.*' },
        ],
      },
      'agent-firewall': {
        tools: { allow: ['get_*'], deny: ['get_secret'] },
        rate_limit: {
          per_user: { requests_per_minute: 60, requests_per_hour: 600, requests_per_day: 6_000 },
          per_team: { requests_per_minute: 60 },
          global: { requests_per_day: 1 },
          on_exceed: 'queue',
          retry_after_seconds: 5,
          burst_size: 20,
        },
        max_actions_per_session: 10,
        max_cost_per_session_usd: 0.5,
      },
      'dlp-filter': {
        action: 'redact',
        stages: ['input'],
        blocked_terms: ['x'],
        detect_patterns: ['email', { name: 'ticket', pattern: 'OPS-\\d+', max_length: 12 }],
      },
    },
  };
  expect(settingsOf(pack)).toMatchObject(pack);
  expect(settingsOf({})).toMatchObject({
    policies: { chain: [] },
    policy: { cache_control: 'allow' },
  });
  expect(settingsOf(chained('dlp-filter', {})).policy['dlp-filter']).toEqual({
    action: 'block',
    stages: ['input', 'output'],
    blocked_terms: [],
    detect_patterns: [],
  });
});

test.each([
  [{ policies: { chain: ['rbac'] } }, 'policies.chain[0]: there is no section policy.rbac'],
  [{ policy: { 'dlp-filter': {} } }, 'policy.dlp-filter: policies.chain does not name it'],
  [{ policies: { chain: ['smoke'] } }, 'policies.chain[0]:'],
  [
    { policies: { chain: ['rbac', 'rbac'] }, policy: { rbac: { required_headers: [header] } } },
    'policies.chain: names a kind twice',
  ],
  [{ policies: { order: [] } }, 'policies.order: there is no such key'],
  [{ policy: { firewall: {} } }, 'policy.firewall: there is no such key'],
  [{ policy: { cache_control: 'no' } }, 'policy.cache_control:'],
  [{ pack: '' }, 'pack:'],
  [chained('dlp-filter', { terms: [] }), 'policy.dlp-filter.terms: there is no such key'],
  [chained('dlp-filter', { blocked_terms: [' '] }), 'policy.dlp-filter.blocked_terms[0]:'],
  [chained('dlp-filter', { blocked_terms: ['\u200b'] }), 'policy.dlp-filter.blocked_terms[0]:'],
  [chained('dlp-filter', { action: 'mask' }), 'policy.dlp-filter.action:'],
  [chained('dlp-filter', { stages: [] }), 'policy.dlp-filter.stages:'],
  [
    chained('dlp-filter', { detect_patterns: ['email', 'emails'] }),
    'policy.dlp-filter.detect_patterns[1]: "emails" is none of the built-in patterns email, credit_card, us_ssn, iban, api_key, jwt, private_key; one of your own is an object with name and pattern',
  ],
  [
    chained('dlp-filter', { detect_patterns: [7] }),
    'policy.dlp-filter.detect_patterns[0]: number is given; name one of the built-in patterns email,',
  ],
  [
    chained('dlp-filter', { detect_patterns: [{ name: 'a b', pattern: 'x', max: 3 }] }),
    'policy.dlp-filter.detect_patterns[0].name: takes letters',
  ],
  [
    chained('dlp-filter', { detect_patterns: [{ name: 'a', pattern: 'x', max: 3 }] }),
    'policy.dlp-filter.detect_patterns[0].max: there is no such key',
  ],
  [
    chained('dlp-filter', { detect_patterns: [{ pattern: 'x' }] }),
    'policy.dlp-filter.detect_patterns[0].name:',
  ],
  [
    chained('dlp-filter', { detect_patterns: [{ name: 'x', pattern: '(' }] }),
    'policy.dlp-filter.detect_patterns[0].pattern: is no regular expression of RE2',
  ],
  [
    chained('dlp-filter', { detect_patterns: [{ name: 'x', pattern: '(a)\\1' }] }),
    'policy.dlp-filter.detect_patterns[0].pattern: is no regular expression of RE2',
  ],
  [chained('rbac', {}), 'policy.rbac.required_headers:'],
  [
    chained('rbac', { required_headers: [{ name: 'a b' }] }),
    'policy.rbac.required_headers[0].name:',
  ],
  [
    chained('rbac', { required_headers: [{ ...header, values: ['a'], pattern: 'a' }] }),
    'policy.rbac.required_headers[0]: takes either values or a pattern',
  ],
  [chained('agent-firewall', { max_actions_per_session: 0 }), 'max_actions_per_session:'],
  [chained('agent-firewall', { max_cost_per_session_usd: -1 }), 'max_cost_per_session_usd:'],
  [chained('agent-firewall', { rate_limit: { on_exceed: 'wait' } }), 'rate_limit.on_exceed:'],
  [
    chained('agent-firewall', { rate_limit: { per_user: { rpm: 1 } } }),
    'policy.agent-firewall.rate_limit.per_user.rpm: there is no such key',
  ],
])('a pack that cannot run is refused by the path of what is wrong: %j', (more, words) => {
  expect(() => settingsOf(more)).toThrow(ConfigError);
  expect(() => settingsOf(more)).toThrow(words);
});
