import { copyLine } from '../../domain/exports/copy-text';
import { addUp, sumsOf } from '../../domain/exports/sums';

// More than 64 bits.
const big = '-9007199254740993000000001';

test('the sums of a page are those of its rows, to the nano', () => {
  const rows = [
    ['a', 'USD', 'credit', '9000000000000000000', 'x'],
    ['b', 'USD', 'credit', '9000000000000000000', null],
    ['c', 'EUR', 'credit', '-1', 'tab\t'],
    ['d', null, 'reservation', null, ''],
    ['e', 'USD', 'reservation', '-999999999', 'line\n'],
    ['f', 'EUR', 'credit', '0', ''],
  ];
  const text = Buffer.from(rows.map(copyLine).join(''));
  expect(sumsOf(text, { currency: 1, type: 2, amount: 3 })).toEqual([
    { currency: 'USD', type: 'credit', rows: 2, amount_nanos: '18000000000000000000' },
    { currency: 'EUR', type: 'credit', rows: 2, amount_nanos: '-1' },
    { currency: null, type: 'reservation', rows: 1, amount_nanos: null },
    { currency: 'USD', type: 'reservation', rows: 1, amount_nanos: '-999999999' },
  ]);
  expect(sumsOf(text, { currency: -1, type: 2, amount: -1 })).toEqual([
    { currency: null, type: 'credit', rows: 4, amount_nanos: null },
    { currency: null, type: 'reservation', rows: 2, amount_nanos: null },
  ]);
});

test('sums of one currency and type are one, exactly, in one order', () => {
  const sum = (currency: string | null, type: string, amount_nanos: string | null) => ({
    currency,
    type,
    rows: 1,
    amount_nanos,
  });
  const sums = [
    sum('USD', 'b', big),
    sum('EUR', 'a', '1'),
    sum('USD', 'b', '-1'),
    sum(null, 'c', null),
  ];
  expect(addUp(sums)).toEqual([
    { ...sum(null, 'c', null) },
    { ...sum('EUR', 'a', '1') },
    { currency: 'USD', type: 'b', rows: 2, amount_nanos: '-9007199254740993000000002' },
  ]);
  expect(addUp([...sums].reverse())).toEqual(addUp(sums));
});
