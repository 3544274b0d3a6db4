import { setTimeout as sleep } from 'node:timers/promises';
import * as cl100k from 'gpt-tokenizer/encoding/cl100k_base';
import * as o200k from 'gpt-tokenizer/encoding/o200k_base';
import { createCounter, pieces } from '../../../gateway/counting/counter';
import { encodingOf, openTokenizer, type Tokenizer } from '../../../gateway/counting/tokenizer';
import { leastOf, threadMs } from '../../support/cpu';

const MEGABYTE = 1_048_576;
const prose =
  'The council met on Thursday to consider the new rules for 1,250 market stalls; nobody was surprised. ';
const code = `function add(a: number, b: number): number {\n  return a + b; // "sum"\n}\n\n`;
const samples = {
  prose: prose.repeat(50),
  code: code.repeat(50),
  mixed:
    'Gr\u00fc\u00dfe \u4f60\u597d, \u4e16\u754c \u{1f468}\u200d\u{1f469}\u200d\u{1f467} \u0661\u0662\u0663 na\u00efve\r\n'.repeat(
      30,
    ),
};

let tokenizer: Tokenizer;

beforeAll(async () => {
  tokenizer = openTokenizer();
  for (const encoding of ['o200k_base', 'cl100k_base'] as const) tokenizer.warm(encoding);
  // The thread starts with the first text that needs it.
  await tokenizer.count([prose.repeat(2_000)], 'o200k_base');
});

afterAll(() => tokenizer.close());

test.each(Object.entries(samples))('%s counts as gpt-tokenizer counts it', async (_, text) => {
  const as_text = { disallowedSpecial: new Set<string>() };
  expect(await tokenizer.count([text], 'o200k_base')).toBe(o200k.countTokens(text, as_text));
  expect(await tokenizer.count([text], 'cl100k_base')).toBe(cl100k.countTokens(text, as_text));
});

test('text that spells a special token is counted as text', async () => {
  const text = 'before <|endoftext|> between <|im_start|> after <|endofprompt|>';
  const count = await tokenizer.count([text], 'o200k_base');
  expect(count).toBe(o200k.countTokens(text, { disallowedSpecial: new Set() }));
  expect(count).toBeGreaterThan(10);
});

test('each model is counted in its own encoding', () => {
  expect(
    ['gpt-4', 'gpt-4-turbo', 'gpt-3.5-turbo', 'text-embedding-3-small'].map(encodingOf),
  ).toEqual(Array(4).fill('cl100k_base'));
  expect(['gpt-4o', 'gpt-4.1-mini', 'o4-mini', 'gpt-5', 'anything'].map(encodingOf)).toEqual(
    Array(5).fill('o200k_base'),
  );
});

test('the pieces of a cut text are the text, and no pair of surrogates is cut', () => {
  const text = `${'\u{1f44b}'.repeat(1_000)}${'a'.repeat(700)}${' '.repeat(700)}${'/\n'.repeat(700)}`;
  const cut = pieces(text);
  expect(cut.join('')).toBe(text);
  expect(cut.length).toBeGreaterThan(5);
  // A lone half of a pair does not survive UTF-8.
  for (const piece of cut) expect(Buffer.from(piece).toString()).toBe(piece);
});

test('the cut adds less than 0.5 % to a run, always upward', () => {
  const run = 'a'.repeat(5_000);
  const exact = o200k.countTokens(run);
  const counted = createCounter().count([run], 'o200k_base');
  expect(counted).toBeGreaterThanOrEqual(exact);
  expect(counted - exact).toBeLessThanOrEqual(25);
});

// A letter makes each try another text, so that no cache answers for the work.
const hostile: [string, (letter: string) => string][] = [
  ['1 MB of one letter', (letter) => letter.repeat(MEGABYTE)],
  ['1 MB of blanks', (letter) => letter + ' '.repeat(MEGABYTE - 1)],
  ['1 MB of line ends', (letter) => letter + '\n'.repeat(MEGABYTE - 1)],
  ['1 MB of signs and line ends', (letter) => `${letter}\n`.repeat(MEGABYTE / 2)],
  ['1 MB of one Chinese character', (letter) => letter + '\u4f60'.repeat(MEGABYTE / 3 - 1)],
  ['1 MB of base64', (letter) => base64(letter, MEGABYTE)],
  ['1 MB of prose', (letter) => (letter + prose).repeat(MEGABYTE / (prose.length + 1))],
  ['64 kB of one letter', (letter) => letter.repeat(65_000)],
  ['64 kB of prose', (letter) => (letter + prose).repeat(65_000 / (prose.length + 1))],
];

function base64(letter: string, characters: number): string {
  const seed = letter.charCodeAt(0);
  const bytes = Buffer.from(
    Array.from({ length: characters * 0.75 }, (_, at) => (at * seed + (at >> 5)) % 251),
  );
  return bytes.toString('base64');
}

test.each(hostile)(
  'counting %s never holds the event loop for more than 20 ms',
  async (_, textWith) => {
    // Another letter each time: no try is answered by the one before.
    const letters = [...'abcdefghijklmnopqrst'];
    const longest = await leastOf(letters.length, 20, () => {
      const text = textWith(letters.pop() as string);
      return longestTurn(() => tokenizer.count([text], 'o200k_base'));
    });
    expect(longest).toBeLessThan(20);
  },
);

test.each([10_000, 50_000])(
  'counting %d texts of a letter each never holds the event loop for more than 20 ms, and counts each',
  async (count) => {
    const letters = [...'abcdefghijklmnopqrst'];
    const longest = await leastOf(letters.length, 20, async () => {
      const texts = Array<string>(count).fill(letters.pop() as string);
      const delay = await longestTurn(() => tokenizer.count(texts, 'o200k_base'));
      expect(await tokenizer.count(texts, 'o200k_base')).toBeGreaterThanOrEqual(count);
      return delay;
    });
    expect(longest).toBeLessThan(20);
  },
);

/**
 * The longest time in milliseconds that this thread worked in one turn while the work was done.
 * What else the machine did meanwhile counts for nothing.
 */
async function longestTurn(work: () => number | Promise<number>): Promise<number> {
  let longest = 0;
  let is_over = false;
  const watch = async () => {
    let before = threadMs();
    while (!is_over) {
      await sleep(1);
      const now = threadMs();
      longest = Math.max(longest, now - before);
      before = now;
    }
  };
  // So that what the test did before is counted by now.
  await sleep(1);
  const watched = watch();
  expect(await work()).toBeGreaterThan(1_000);
  is_over = true;
  await watched;
  return longest;
}

test('above 1 MB a text is estimated by its bytes, at once', () => {
  const text = prose.repeat(20_000);
  expect(tokenizer.count([text], 'o200k_base')).toBe(Math.ceil(Buffer.byteLength(text) / 3));
});
