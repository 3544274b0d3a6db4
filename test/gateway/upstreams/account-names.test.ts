import { withoutAccounts } from '../../../gateway/upstreams/account-names';

test.each<[string, string, string]>([
  [
    'openai',
    'Rate limit reached for gpt-5.4 in organization org-AbCdEfGhIjKlMnOpQrStUvWx on tokens per min (TPM): Limit 30000, Used 29000.',
    'org-AbCdEfGhIjKlMnOpQrStUvWx',
  ],
  [
    'openai, by name',
    'Rate limit reached for gpt-5.4 in organization acme on requests per min',
    'acme',
  ],
  [
    'openai project',
    'Project `proj_9aBcDeFgHiJkLmNoPqRsTuVw` does not have access to model m',
    'proj_9a',
  ],
  [
    'groq',
    'Rate limit reached for model `m` in organization `org_01hx0abc` service tier',
    'org_01hx0abc',
  ],
  [
    'anthropic',
    'This request would exceed the rate limit for your organization (96e1c8e8-1a2b-4c3d-9e8f-0a1b2c3d4e5f) of 8,000 output tokens per minute.',
    '96e1c8e8-1a2b-4c3d-9e8f-0a1b2c3d4e5f',
  ],
  ['xai', 'The rate limit of team 1b2c3d4e-0000-4000-8000-123456789abc is reached', '1b2c3d4e'],
  ['xai key', 'API key ID: 1b2c3d4e-0000-4000-8000-123456789abc', '1b2c3d4e'],
  [
    'azure',
    'The deployment under /subscriptions/1b2c3d4e-0000-4000-8000-123456789abc/resourceGroups/prod-rg/providers/x is busy',
    'prod-rg',
  ],
  ['azure subscription', 'Quota of subscription 1b2c3d4e-0000-4000-8000-123456789abc', '1b2c3d4e'],
  ['azure host', 'The resource https://acme-eu.openai.azure.com/openai is throttled', 'acme-eu'],
  [
    'bedrock',
    'Too many tokens for arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.m, please wait',
    '123456789012',
  ],
  ['bedrock, gov', 'no such arn:aws-us-gov:iam::123456789012:role/gateway', '123456789012'],
  ['aws account', 'Your account 123456789012 is over its limit', '123456789012'],
  ['google', "Quota exceeded for consumer 'project_number:987654321098'.", '987654321098'],
  [
    'google path',
    'Publisher Model projects/acme-prod/locations/eu/publishers/x was not found',
    'acme-prod',
  ],
  ['google project', 'The API has not been used in project 987654321098 before', '987654321098'],
  [
    'google console',
    'Visit https://console.x.com/apis?a=b&project=987654321098 then',
    '987654321098',
  ],
  ['google identity', 'gate@acme-prod.iam.gserviceaccount.com lacks access', 'acme-prod'],
  ['openrouter', '{"error":{},"user_id":"user_2aBcDeFgHiJkLmNoPqRsTuVwX"}', 'user_2a'],
  ['fireworks', 'Model accounts/acme-1/models/m is not there', 'acme-1'],
  ['escaped', '"\\/subscriptions\\/1b2c3d4e-0000-4000-8000-123456789abc\\/rg"', '1b2c3d4e'],
])('%s: a refusal names no account', (_, said, name) => {
  const told = withoutAccounts(said);
  expect(told).toContain('[account]');
  expect(told).not.toContain(name);
});

test.each([
  'Invalid value for "messages[1].content": expected a string.',
  "This model's maximum context length is 128000 tokens. However, your messages resulted in 130000 tokens.",
  'Your organization must be verified to use the model.',
  'This request would exceed your organization’s rate limit of 40,000 input tokens per minute.',
  'The project of the file is over. Account for 2 more tokens in team 7.',
  'Model accounts/fireworks/models/kimi-k3 was not found.',
  'Please include the request ID req_011CSHoEeqs5C35K2UUqR7Fy in your message.',
  'The org-chart and user-defined functions of proj_name are unknown.',
  'Function user_profile_2 is not defined.',
  'The server is overloaded, see https://platform.openai.com/docs/guides/rate-limits.',
])('%s stays as it is', (said) => {
  expect(withoutAccounts(said)).toBe(said);
});

test('a megabyte of whatever may look like an account costs no time', () => {
  for (const piece of [
    'org-',
    'arn:aws',
    'project ',
    'account (',
    'a-',
    'projects/',
    '/subscriptions/',
    '1@',
  ]) {
    const before = process.cpuUsage();
    withoutAccounts(piece.repeat(1_000_000 / piece.length));
    // Of its own, whatever else the machine does meanwhile.
    expect(process.cpuUsage(before).user / 1_000).toBeLessThan(2_000);
  }
});
