import { emptyAt, perDay, spentOn, whoseSpending } from '../../console/web/wallets/pace';

const everybody = { user_id: 'user_1', sees_all: true };
const member = { user_id: 'user_1', sees_all: false };
const key = { user_id: null, sees_all: true };

test.each([
  ["the organization's balance with everybody's spending", 'organization', everybody, {}],
  ["the organization's balance with no member's own spending", 'organization', member, undefined],
  ["a person's balance with that person's spending", 'user', everybody, { user_id: 'user_1' }],
  ["a person's balance with that person's spending", 'user', member, { user_id: 'user_1' }],
  ["a team's balance with nothing", 'team', everybody, undefined],
  ['the balance of nobody with nothing', 'user', key, undefined],
] as const)('%s is compared', (_, payer, viewer, whose) => {
  expect(whoseSpending(payer, viewer)).toEqual(whose);
});

test('a day of the week has its own sum, and none without calls', () => {
  const buckets = [
    { local: '2026-11-29', cost: 0.25 },
    { local: '2026-11-30', cost: 0.5 },
  ];
  expect(spentOn('2026-11-30', buckets)).toBe(0.5);
  expect(spentOn('2026-12-01', buckets)).toBe(0);
});

test('a day costs a part of the sum, and says when the wallet is empty', () => {
  expect(perDay(0.7, 7)).toBe(0.1);
  const now_ms = Date.parse('2026-11-30T00:00:00Z');
  const at = (left: number, spent: number, since: string) =>
    emptyAt(left, spent, { since_ms: Date.parse(since), now_ms })?.toISOString();
  expect(at(1, 0.7, '2026-11-23T00:00:00Z')).toBe('2026-12-10T00:00:00.000Z');
  // Half of the money went in two hours: the other half goes in two.
  expect(at(50, 50, '2026-11-29T22:00:00Z')).toBe('2026-11-30T02:00:00.000Z');
  // Nothing is left, nothing is spent, or nobody alive sees it.
  const none = [at(0, 1, '2026-11-29T00:00:00Z'), at(-1, 1, '2026-11-29T00:00:00Z')];
  expect(none).toEqual([undefined, undefined]);
  expect(at(1, 0, '2026-11-29T00:00:00Z')).toBeUndefined();
  expect(at(1e6, 1e-9, '2026-11-29T00:00:00Z')).toBeUndefined();
});
