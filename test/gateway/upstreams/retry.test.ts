import { limitHeaders, limitTold, retryAfter } from '../../../gateway/upstreams/retry';

// What a provider says of its limits, in words that each client understands.

const now = Date.parse('2026-11-06T08:49:37.500Z');

test.each<[string, number | undefined]>([
  ['7', 7],
  ['0', 1],
  ['0.5', 1],
  ['2.2', 3],
  ['61', 61],
  // No longer than a day.
  ['999999999999', 86_400],
  // Dates of HTTP, in all its three forms; one that has passed is now.
  ['Fri, 06 Nov 2026 08:50:37 GMT', 60],
  ['Friday, 06-Nov-26 08:50:37 GMT', 60],
  ['Fri Nov  6 08:50:37 2026', 60],
  ['Fri, 06 Nov 2026 08:00:00 GMT', 1],
  // What says nothing.
  ['', undefined],
  ['soon', undefined],
  ['-5', undefined],
  ['1e3', undefined],
  ['Infinity', undefined],
  ['GMT', undefined],
  ['2026-11-06', undefined],
])('retry-after "%s" is %s whole seconds', (text, seconds) => {
  expect(retryAfter({ 'retry-after': text }, undefined, now)).toBe(seconds);
});

test('milliseconds count where no seconds are told, and a header before a body', () => {
  const said = { error: { details: [{ retryDelay: '23s' }] } };
  expect(retryAfter({ 'retry-after-ms': '1500' }, said, now)).toBe(2);
  expect(retryAfter({ 'retry-after-ms': '1500', 'retry-after': '9' }, said, now)).toBe(9);
  expect(retryAfter({ 'retry-after': 'soon' }, said, now)).toBe(23);
});

test('a limit is as its provider tells it, else one second and nothing', () => {
  expect(limitTold({}, undefined, now)).toEqual({
    retry_after: 1,
    rate_limit: { limit: 0, resets_at: new Date(now + 1_000) },
  });
  const headers = {
    'x-ratelimit-limit-requests': '500',
    'x-ratelimit-remaining-requests': '9',
    'x-ratelimit-limit-tokens': '30000',
    'x-ratelimit-remaining-tokens': '0',
    'x-ratelimit-reset-tokens': '1m2.5s',
  };
  expect(limitTold(headers, undefined, now)).toEqual({
    retry_after: 63,
    rate_limit: { limit: 30_000, resets_at: new Date(now + 63_000) },
  });
});

test.each([
  ['60', undefined],
  ['61', 'false'],
])('a 429 that says to wait %s s carries all four headers', (wait, should_retry) => {
  const headers = limitHeaders({ 'retry-after': wait });
  expect(headers).toMatchObject({
    'retry-after': wait,
    'x-ratelimit-limit': '0',
    'x-ratelimit-remaining': '0',
    'x-ratelimit-reset': expect.stringMatching(/^\d{10,}$/),
  });
  expect(headers['x-should-retry']).toBe(should_retry);
});
