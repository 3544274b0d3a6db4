import { isTooFine, numberIn, numberText } from '../../console/web/base/number-text';

test.each([
  ['1000', 1_000, 1_000],
  ['1,000', 1_000, 1],
  ['1.000', 1, 1_000],
  ['1,500.25', 1_500.25, 1_500.25],
  ['1.500,25', 1_500.25, 1_500.25],
  ['10,50', 10.5, 10.5],
  ['10.50', 10.5, 10.5],
  ['0,5', 0.5, 0.5],
  ['0,125', 0.125, 0.125],
  ['0.125', 0.125, 0.125],
  ['1,000,000', 1_000_000, 1_000_000],
  ['1.000.000,5', 1_000_000.5, 1_000_000.5],
  ['1,00,000', 100_000, 100_000],
  ["1'000.5", 1_000.5, 1_000.5],
  ['1\u202f000,5', 1_000.5, 1_000.5],
  ['10.', 10, 10],
  ['.5', 0.5, 0.5],
  ['', undefined, undefined],
  ['.', undefined, undefined],
  ['1,2,3', undefined, undefined],
  ['1.2.3', undefined, undefined],
  ['25,400', 25_400, 25.4],
  ['25.400', 25.4, 25_400],
  ['0.125000000000', 0.125, 0.125],
  ['1,23.4,5', undefined, undefined],
  ['-5', undefined, undefined],
  ['1e3', undefined, undefined],
  ['ten', undefined, undefined],
  ['9'.repeat(22), undefined, undefined],
])('"%s" is read as people write it, by the point and by the comma', (typed, point, comma) => {
  expect([numberIn(typed, '.'), numberIn(typed, ',')]).toEqual([point, comma]);
});

test('a number that a field was given is what it holds, but for what no amount is', () => {
  expect([
    numberIn(0.1, '.'),
    numberIn(1e30, '.'),
    numberIn(Number.NaN, '.'),
    numberIn(-1, '.'),
  ]).toEqual([0.1, undefined, undefined, undefined]);
});

test.each([
  0, 1, 0.5, 0.125, 1.125, 2.125, 10.5, 12.345, 999.999, 1_000, 1_234.5, 25_400, 1e-9, 0.000_000_25,
  99_999_999.1, 1e12,
])('%d is read from a field as it was put there, by the point and by the comma', (number) => {
  for (const mark of ['.', ',']) expect(numberIn(numberText(number, mark), mark)).toBe(number);
});

test('a digit that is changed in a field changes that digit alone', () => {
  const changed = (mark: string) => numberText(1.125, mark).replace(/5$/, '6');
  expect([changed('.'), changed(',')]).toEqual(['1.126', '1,126']);
  expect([numberIn(changed('.'), '.'), numberIn(changed(','), ',')]).toEqual([1.126, 1.126]);
});

test.each([
  // More decimals than an amount has, and more digits than a number holds.
  ['0.0000000001', true],
  ['99999999999.123456789', true],
  ['99999999.123456789', true],
  ['0.123456789', false],
  ['9999999.1234567', false],
  ['ten', false],
  ['', false],
])('whether digits of "%s" would be lost: %s', (typed, is_too_fine) => {
  expect(isTooFine(typed, '.')).toBe(is_too_fine);
  if (is_too_fine) expect(numberIn(typed, '.')).toBeUndefined();
});
