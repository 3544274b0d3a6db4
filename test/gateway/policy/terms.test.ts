import { createTerms } from '../../../gateway/policy/terms';
import { pick, type Random, randomOf, seed } from '../../support/random';

interface Found {
  rule: number;
  start: number;
  end: number;
}

/** What is to be found, term by term: at each end the longest term, at equal length the first. */
function expected(terms: readonly string[], text: string): Found[] {
  const found: Found[] = [];
  for (let end = 1; end <= text.length; end += 1) {
    let longest: (Found & { units: number }) | undefined;
    for (const [rule, term] of terms.entries()) {
      const words = term.trim().split(/ +/);
      const units = words.join('').length;
      const { index } = new RegExp(`${words.join(' *')}$`).exec(text.slice(0, end)) ?? {};
      if (units === 0 || index === undefined || units <= (longest?.units ?? 0)) continue;
      longest = { rule, start: index, end, units };
    }
    if (longest === undefined || text[end - 1] === ' ') continue;
    const { units: _, ...match } = longest;
    found.push(match);
  }
  return found;
}

const textOf = (random: Random, most: number): string =>
  Array.from({ length: 1 + Math.floor(random() * most) }, () => pick(random, [...'aab  b'])).join(
    '',
  );

test('all that a search term by term finds is found in one pass', () => {
  const random = randomOf(seed);
  for (let round = 0; round < 2_000; round += 1) {
    const terms = Array.from({ length: 1 + Math.floor(random() * 6) }, () => textOf(random, 5));
    const text = textOf(random, 24);
    const { found, partial } = createTerms(terms).find(text, 0);
    expect({ terms, text, found }).toEqual({ terms, text, found: expected(terms, text) });
    // No term that more text completes begins before this place.
    for (const more of ['a', 'b', 'ab', ' b', 'ba b']) {
      const later = expected(terms, text + more).filter(({ end }) => end > text.length);
      for (const { start } of later) expect(start).toBeGreaterThanOrEqual(partial);
    }
  }
});

test('10,000 terms of 8 different characters each take a few bytes a character', () => {
  const random = randomOf(seed);
  const ideograph = () => String.fromCharCode(0x4e00 + Math.floor(random() * 20_000));
  const list = Array.from({ length: 10_000 }, () => Array.from({ length: 8 }, ideograph).join(''));
  const before = process.memoryUsage().arrayBuffers;
  const terms = createTerms(list);
  expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(16_000_000);
  for (const at of [0, 4_999, 9_999]) {
    const { found } = terms.find(`about ${list[at]}.`, 0);
    expect(found).toEqual([{ rule: at, start: 6, end: 14 }]);
  }
});
