import { type CsvColumn, csvText } from '../../console/web/base/csv';
import { adminPaymentCsv, paymentCsv } from '../../console/web/payments/csv';
import type { AdminPayment } from '../../console/web/payments/words';
import { amountText } from '../../console/web/prices/words';

const cells: CsvColumn<string | null>[] = [{ title: 'cell', text: (cell) => cell }];

test.each([
  ['=1+1', "'=1+1"],
  ['+49 30', "'+49 30"],
  ['-cmd', "'-cmd"],
  ['@name', "'@name"],
  ['\tname', "'\tname"],
  ['\rname', '"\'\rname"'],
  ['\nname', '"\'\nname"'],
  ['＝1', "'＝1"],
  ['=a,"b"', '"\'=a,""b"""'],
  ['-0.000000001', '-0.000000001'],
  ['1,5', '"1,5"'],
  ['a "b"', '"a ""b"""'],
  ['Zoë', 'Zoë'],
  [null, ''],
])('the cell %j is written so that no spreadsheet runs it and none cuts it', (cell, written) => {
  expect(csvText(cells, [cell])).toBe(`\ufeffcell\r\n${written}\r\n`);
});

test('a file of no rows has its titles', () => {
  expect(csvText(cells, [])).toBe('\ufeffcell\r\n');
});

/** What a file says of a payment under a title. */
const said = (payment: Partial<AdminPayment>, title: string) => {
  const column = adminPaymentCsv.find((one) => one.title === title);
  return column && 'text' in column ? column.text(payment as AdminPayment) : undefined;
};

test.each([
  [99_999_999.1, '99999999.1'],
  [0.1, '0.1'],
  [1e-9, '0.000000001'],
  [20, '20'],
])('the amount %s is written as %s, not as the nearest binary fraction', (amount, text) => {
  expect(said({ amount }, 'amount')).toBe(text);
  expect(said({ captured_amount: amount }, 'captured_amount')).toBe(text);
  expect(amountText(amount)).toBe(text);
});

test('what is not known of a payment is an empty cell, and operators see all that others see', () => {
  expect(said({ captured_amount: null }, 'captured_amount')).toBeNull();
  const titles = adminPaymentCsv.map(({ title }) => title);
  expect(titles.slice(0, paymentCsv.length)).toEqual(paymentCsv.map(({ title }) => title));
  expect(new Set(titles).size).toBe(titles.length);
});
