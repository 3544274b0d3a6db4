import { cut, withArticle } from '../../domain/texts';

const family = '👨‍👩‍👧‍👦';
const flag = '🇩🇪';

test.each([
  ['abc', 3, 'abc'],
  ['abcd', 3, 'abc'],
  ['ab😀', 3, 'ab'],
  ['ab😀', 4, 'ab😀'],
  [`ab${family}`, family.length + 1, 'ab'],
  [`ab${family}`, family.length + 2, `ab${family}`],
  [`${flag}${flag}x`, 6, flag],
  [`${flag}${flag}x`, 7, flag],
  [`${flag}${flag}x`, 8, `${flag}${flag}`],
  ['ae\u0301e\u0301', 4, 'ae\u0301'],
  // One character that is longer than all: its beginning, but no half of a pair.
  [family, 3, '👨\u200d'],
  [family, 1, ''],
])('%s cut to %d units ends with a whole character', (text, units, expected) => {
  expect(cut(text, units)).toBe(expected);
});

test('a long text costs no more than what is kept of it', () => {
  expect(cut('x'.repeat(10_000_000), 127)).toHaveLength(127);
});

test('a span of time has the article that is said with it', () => {
  expect(['hour', 'minute', 'day', 'month'].map(withArticle)).toEqual([
    'an hour',
    'a minute',
    'a day',
    'a month',
  ]);
});
