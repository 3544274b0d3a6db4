import { hasRepeats } from '../../../gateway/policy/literals';
import { cpuMsOf, leastOf } from '../../support/cpu';

test('members named twice are found at any depth and however many there are, in time that grows with them', async () => {
  const named = (count: number, last = '') =>
    `{"a":[{"b":{${Array.from({ length: count }, (_, at) => `"n${at}":1`).join()}${last}}}]}`;
  expect(hasRepeats(named(50_000))).toBe(false);
  expect(hasRepeats(named(50_000, ',"n\\u0037":1'))).toBe(true);
  expect(hasRepeats('[{"a":1},{"a":{"a":["a","a"]},"b":"a"}]')).toBe(false);
  expect(hasRepeats('{"a":{"b":1},"c":[{}],"a":2}')).toBe(true);
  // The same by the parsed text: with a colon in a string, at a depth that no recursion stands, and
  // with the one name that assignment would not make.
  const deep = (inner: string) => `{"a":${'['.repeat(50_000)}${inner}${']'.repeat(50_000)}}`;
  const texts: [has_repeats: boolean, text: string][] = [
    [false, named(50_000)],
    [true, named(50_000, ',"n\\u0037":1')],
    [true, '{"a":{"b":1,"c":2},"a":3}'],
    [false, '{"a":"12:30:00","b":[{"c":":"}]}'],
    [true, '{"a":"12:30:00","b":[{"c":":","c":1}]}'],
    [false, '{"__proto__":{"a":1},"a":{"__proto__":2}}'],
    [true, '{"__proto__":{"a":1},"__proto__":{"a":1}}'],
    [false, deep('{"b":1}')],
    [true, deep('{"b":1,"b":1}')],
  ];
  expect(texts.map(([, text]) => hasRepeats(text, JSON.parse(text)))).toEqual(
    texts.map(([has_repeats]) => has_repeats),
  );
  const best = (count: number, enough = 0) => {
    const text = named(count);
    return leastOf(5, enough, () =>
      cpuMsOf(() => {
        for (let turn = 0; turn < 5; turn += 1) hasRepeats(text);
      }),
    );
  };
  // Ten times as many; a walk of each over all the others takes a hundred times as long.
  const bound = 40 * (await best(5_000)) + 20;
  expect(await best(50_000, bound)).toBeLessThan(bound);
});
