import { obstacle } from '../../../console/web/payments/obstacle';

const origin = 'https://console.example';
const settings = {
  currency: 'USD',
  payment_provider_configured: true,
  currency_supported_by_active_provider: true,
  allowed_topup_amounts: [10],
  min_topup_amount: 1,
  max_topup_amount: 100,
  topup_target_scopes: ['organization', 'user'] as ('organization' | 'team' | 'user')[],
  return_origins: [origin],
  may_top_up: true,
};

test('nothing is in the way of a checkout that the API takes', () => {
  expect(obstacle(settings, origin)).toBeUndefined();
  expect(obstacle(settings, origin, 'organization')).toBeUndefined();
});

const faults: [string, Partial<typeof settings>, RegExp][] = [
  ['no provider', { payment_provider_configured: false }, /^No payment provider is set up/],
  [
    'a currency that it does not take',
    { currency_supported_by_active_provider: false },
    /does not take USD/,
  ],
  ['who may not', { may_top_up: false }, /^Only billing admins/],
  ['another console', { return_origins: ['https://other.example'] }, /not be sent back to/],
  ['no wallet of that kind', { topup_target_scopes: ['team'] }, /of the organization may/],
];

test.each(faults)('a top-up in the chat is not offered with %s', (_, change, words) => {
  expect(obstacle({ ...settings, ...change }, origin, 'organization')).toMatch(words);
});
