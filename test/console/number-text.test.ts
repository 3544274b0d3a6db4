import { numberIn } from '../../console/web/base/number-text';

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
