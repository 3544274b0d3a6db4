import { loadConfig } from '../../runtime/config';
import { makeTenant, refusal, startApi, type TestApi } from '../support/api';
import { platformKey } from '../support/keys';

let api: TestApi;
let platform: string;
let billing: string;

beforeAll(async () => {
  api = await startApi();
  platform = await platformKey(api.db);
  billing = (await makeTenant(api.db)).billing_key;
});

afterAll(() => api.close());

const target_wallet_owner_type = 'organization';
const price = { provider: 'openai', model: 'some-model' };

test.each<[string, object, string]>([
  ['/v1/wallets/credit', { target_wallet_owner_type }, 'amount is missing.'],
  [
    '/v1/wallets/credit',
    { target_wallet_owner_type, amount: '5' },
    'amount must be a number, not text.',
  ],
  [
    '/v1/wallets/credit',
    { target_wallet_owner_type, amount: null },
    'amount must be a number, not null.',
  ],
  ['/v1/wallets/credit', { target_wallet_owner_type, amount: 0 }, 'amount must be above 0.'],
  [
    '/v1/wallets/credit',
    { amount: 1 },
    'target_wallet_owner_type is missing; it must be one of organization, team, user.',
  ],
  [
    '/v1/wallets/credit',
    { target_wallet_owner_type: 'bank', amount: 1 },
    'target_wallet_owner_type must be one of organization, team, user.',
  ],
  [
    '/v1/wallets/credit',
    { target_wallet_owner_type, amount: 1, description: 7 },
    'description must be text, not a number.',
  ],
  [
    '/v1/wallets/credit',
    { target_wallet_owner_type, amount: 1, description: 'x'.repeat(1_001) },
    'description may have at most 1000 characters.',
  ],
  ['/v1/wallets/allocate', { team_id: '', amount: 1 }, 'team_id must not be empty.'],
  ['/v1/admin/model-pricing', { ...price, free: 'yes' }, 'free must be true or false, not text.'],
  [
    '/v1/admin/model-pricing',
    { ...price, max_output_tokens: 1.5 },
    'max_output_tokens must be a whole number, not 1.5.',
  ],
  ['/v1/admin/model-pricing', { ...price, tiers: {} }, 'tiers must be a list, not an object.'],
  ['/v1/admin/model-pricing', { ...price, tiers: [] }, 'tiers must not be empty.'],
  [
    '/v1/admin/model-pricing',
    { ...price, tiers: [{ input_per_1m: 1 }] },
    'tiers.0.above_prompt_tokens is missing.',
  ],
  [
    '/v1/admin/model-pricing',
    { ...price, per_request: 2e9 },
    'per_request may be at most 1000000000.',
  ],
  [
    '/v1/admin/model-pricing',
    { ...price, effective_from: 'soon' },
    'effective_from must be an ISO 8601 time such as 2027-01-31T00:00:00Z.',
  ],
])('%s says what is wrong with %j', async (path, body, message) => {
  const key = path.startsWith('/v1/admin') ? platform : billing;
  const answer = await api.call('post', path, { key, body });
  expect(answer).toMatchObject({ status: 422, body: { error: { message } } });
  expect(refusal(answer).param).toBe(message.split(' ')[0]);
});

test('a name that is the wrong key of an object is named, and so is a wrong part of the query', async () => {
  const rates = (given: object) =>
    api.call('put', '/v1/admin/exchange-rates', { key: platform, body: { rates: given } });
  const currency = 'must be an ISO 4217 currency code such as USD.';
  expect((await rates({ eur: 1 })).body.error.message).toBe(`rates.eur ${currency}`);
  expect((await rates({ USD: 1 })).body.error.message).toContain('rates.USD is the base');
  const listed = (query: string) => api.call('get', `/v1/wallets?${query}`, { key: billing });
  expect((await listed('page=first')).body.error.message).toBe('page must be a number.');
  expect((await listed('page=0')).body.error.message).toBe('page must be at least 1.');
});

test('a start that cannot go on says the same of its variables', () => {
  const given = { CONTROL_PLANE_URL: 'nowhere', GATEWAY_PORT: 'x', GATEWAY_CONFIG: '' };
  expect(() => loadConfig('gateway', { ...given, LOG_LEVEL: 'loud' })).toThrow(
    [
      'The gateway cannot start; set these environment variables:',
      '  CONTROL_PLANE_URL must be an address such as https://example.com',
      '  CONTROL_PLANE_TOKEN is missing',
      '  GATEWAY_CONFIG is missing',
      '  GATEWAY_PORT must be a number',
      '  LOG_LEVEL must be one of fatal, error, warn, info, debug, trace',
    ].join('\n'),
  );
});
