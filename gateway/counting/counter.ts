import {
  CL100K_TOKEN_SPLIT_REGEX,
  O200K_TOKEN_SPLIT_REGEX,
} from 'gpt-tokenizer/encodingParams/constants';
import type { GptEncoding } from 'gpt-tokenizer/GptEncoding';
import { codeAt } from '../wire/scan';

export type Encoding = 'o200k_base' | 'cl100k_base';

// An unbroken run takes quadratic time: 100,000 letters 5 s. Cut at 256 the count grows by 0.3 % at
// most.
const RUN_MAX = 256;

// Text that spells a special token is text: the default throws.
const as_text = { disallowedSpecial: new Set<string>() };

const WORDS_MAX = 20_000;
const WORD_MAX_CHARACTERS = 32;
const splits = { o200k_base: O200K_TOKEN_SPLIT_REGEX, cl100k_base: CL100K_TOKEN_SPLIT_REGEX };

/** Texts that are counted together. */
export interface CountedTexts {
  texts: readonly string[];
  encoding: Encoding;
}

interface Loaded {
  api: GptEncoding;
  /** Where the encoding cuts a text into words, each of which is encoded by itself. */
  split: RegExp;
  /** The tokens of words seen lately; most texts use few. */
  words: Map<string, number>;
}

/** Counts the tokens of texts exactly, in whichever thread it is asked. */
export function createCounter() {
  const loaded = new Map<Encoding, Loaded>();
  /** Takes 150 ms the first time. */
  const load = (encoding: Encoding): Loaded => {
    const before = loaded.get(encoding);
    if (before !== undefined) return before;
    const now = loadEncoding(encoding);
    loaded.set(encoding, now);
    return now;
  };
  return {
    load,
    count(texts: readonly string[], encoding: Encoding): number {
      const now = load(encoding);
      let total = 0;
      for (const text of texts) {
        if (text.length <= RUN_MAX) total += countWords(now, text);
        else for (const piece of pieces(text)) total += countWords(now, piece);
      }
      return total;
    },
  };
}

function loadEncoding(encoding: Encoding): Loaded {
  const { default: api } = require(`gpt-tokenizer/encoding/${encoding}`) as {
    default: GptEncoding;
  };
  // A copy, as a regular expression keeps its place in the text.
  return { api, split: new RegExp(splits[encoding]), words: new Map() };
}

/** Word by word, as the library does it, without the array that it makes of each match. */
function countWords({ api, split, words }: Loaded, text: string): number {
  let total = 0;
  let from = 0;
  split.lastIndex = 0;
  while (split.test(text)) {
    const word = text.slice(from, split.lastIndex);
    from = split.lastIndex;
    let tokens = words.get(word);
    if (tokens === undefined) {
      tokens = api.countTokens(word, as_text);
      if (words.size >= WORDS_MAX) words.clear();
      // A slice would keep the whole text that it was cut from.
      if (word.length <= WORD_MAX_CHARACTERS) words.set(Buffer.from(word).toString(), tokens);
    }
    total += tokens;
  }
  return total;
}

/**
 * Cuts a text wherever 256 characters pass without a blank or with white space alone. A line end
 * counts for both runs: the pre-tokenizer joins it to blanks as well as to signs, and "/\n"
 * repeated is one quadratic run otherwise.
 */
export function pieces(text: string): string[] {
  const found: string[] = [];
  const { length } = text;
  let start = 0;
  let unbroken = 0;
  let white = 0;
  for (let at = 0; at < length; at += 1) {
    const code = codeAt(text, at);
    const kind = kindOf(code);
    unbroken = kind === 'blank' ? 0 : unbroken + 1;
    white = kind === 'sign' ? 0 : white + 1;
    if ((unbroken >= RUN_MAX || white >= RUN_MAX) && !isHighSurrogate(code)) {
      found.push(text.slice(start, at + 1));
      start = at + 1;
      unbroken = 0;
      white = 0;
    }
  }
  if (start < length) found.push(start === 0 ? text : text.slice(start));
  return found;
}

function kindOf(code: number): 'sign' | 'blank' | 'line_end' {
  if (code > 32 && code < 0x85) return 'sign';
  if (code === 10 || code === 13 || code === 11 || code === 12) return 'line_end';
  if (code === 32 || code === 9) return 'blank';
  // Other Unicode white space; counting it for both runs can only cut earlier.
  return /\s|\x85/.test(String.fromCharCode(code)) ? 'line_end' : 'sign';
}

function isHighSurrogate(code: number): boolean {
  return code >= 0xd800 && code <= 0xdbff;
}
