import {
  firstAmount,
  leftWords,
  missingInBank,
  wentOnWords,
} from '../../../console/web/payments/top-up';
import { statuses } from '../../../console/web/payments/words';

const offer = { min: 5, max: 1_000, offered: [10, 25], digits: 2 };

test.each([
  ['0.0199', 5],
  ['12.301', 12.31],
  ['1000', 1_000],
  // More than may be bought, or no number at all: the page shows what is offered.
  ['1000.01', 10],
  ['1e30', 10],
  ['Infinity', 10],
  ['NaN', 10],
  ['-7', 10],
  ['', 10],
  [undefined, 10],
])('a page that is asked for %s begins with %d', (asked, amount) => {
  expect(firstAmount(asked, offer)).toBe(amount);
});

test('a page without offers begins with the least', () => {
  expect(firstAmount('1e30', { ...offer, offered: [] })).toBe(5);
});

const leftAs = (status: (typeof statuses)[number], more: object = {}) =>
  leftWords({ status, error_code: null, refund_status: null, ...more });

test('a buyer of whom another amount was taken is not told to pay again', () => {
  const amiss = { error_code: 'amount_mismatch' };
  expect(leftAs('failed', amiss).title).toBe('Your payment was taken, but not credited');
  const back = { ...amiss, refund_status: 'succeeded' };
  expect(leftAs('failed', back).title).toBe('The payment did not go through');
  expect(leftAs('failed').title).toBe('The payment did not go through');
});

test('only of a checkout that was canceled a buyer reads that nothing was paid', () => {
  const paid = statuses.filter((status) => leftAs(status).title === 'This checkout was paid');
  expect(paid).toEqual([
    'capturing',
    'captured',
    'confirming',
    'confirmed',
    'completed',
    'refunded',
  ]);
  const unpaid = statuses.filter((status) => leftAs(status).title.includes('nothing was paid'));
  expect(unpaid).toEqual(['canceled']);
  expect(leftAs('created').title).toBe('The checkout is still open');
});

test('a buyer reads how many calls went on since the payment was begun', () => {
  const since = '2026-11-30T10:00:00.000Z';
  const tickets = ['2026-11-30T10:00:01.000Z', '2026-11-30T09:59:59.000Z', null].map(
    (resolved_at) => ({ resolved_at }),
  );
  const told = { since, is_own: false, has_more: false };
  expect(wentOnWords(tickets, told)).toBe('1 call that waited went on.');
  expect(wentOnWords(tickets, { ...told, is_own: true })).toBe(
    '1 of your calls that waited went on.',
  );
  const [first] = tickets as [{ resolved_at: string }];
  expect(wentOnWords([first, first], { ...told, has_more: true })).toBe(
    'At least 2 calls that waited went on.',
  );
  expect(wentOnWords(tickets.slice(1), told)).toBe('');
});

test('a top-up of the organization brings what its own wallet lacks', () => {
  const wallets = [
    { owner_type: 'team', shortfall: 2 },
    { owner_type: 'organization', shortfall: 10 },
  ];
  expect(missingInBank({ shortfall: 2, wallets })).toBe(10);
  expect(missingInBank({ shortfall: 2 })).toBe(2);
});
