import { costOf } from '../../../gateway/stages/cost';

const line = (amount: string) => ({ what: 'input', quantity: '1', unit_price: amount, amount });

test.each([
  ['what a double holds', 0.000000001, ['0.000000001'], '0.000000001'],
  [
    'where doubles are two nanos apart',
    8388608.000000002,
    ['8388608.000000001'],
    '8388608.000000001',
  ],
  ['more than a double holds', 9007199.254740993, ['9007199.254740993'], '9007199.254740993'],
  [
    'lines with more decimals than an amount, and one that takes away',
    98765432.12345679,
    ['98765432.1234567895', '0.0000000004', '-0.0000000009'],
    '98765432.123456789',
  ],
  ['the most that a wallet holds', 9e9, ['8999999999.999999999', '0.000000001'], '9000000000'],
])('%s is told to the nano', (_, actual_cost, amounts, amount) => {
  const price_lines = amounts.map(line);
  const cost = costOf({ actual_cost, price_lines }, 'VND');
  expect(cost).toEqual({ amount, currency: 'VND', lines: price_lines });
});

test('without lines it is what the settlement said', () => {
  expect(costOf({ actual_cost: 98765432.5 }, 'VND').amount).toBe('98765432.5');
});
