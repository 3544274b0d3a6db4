import {
  CL100K_TOKEN_SPLIT_REGEX,
  O200K_TOKEN_SPLIT_REGEX,
} from 'gpt-tokenizer/encodingParams/constants';
import type { GptEncoding } from 'gpt-tokenizer/GptEncoding';
import { codeAt } from '../wire/scan';
import { startThread, type Thread } from './thread';

export type Encoding = 'o200k_base' | 'cl100k_base';

// Measured: 64 kB of ordinary text takes 10 ms, 1 MB takes 64 ms in the thread with the copy.
const INLINE_MAX = 65_536;
const COUNTED_MAX_BYTES = 1_048_576;
const COUNTED_MAX_TEXTS = 10_000;
const BYTES_PER_TOKEN = 3;
// An unbroken run takes quadratic time: 100,000 letters 5 s. Cut at 256 the count grows by 0.3 % at most.
const RUN_MAX = 256;

// Text that spells a special token is text: the default throws.
const as_text = { disallowedSpecial: new Set<string>() };

interface Counter {
  api: GptEncoding;
  /** Where the encoding cuts a text into words, each of which is encoded by itself. */
  split: RegExp;
  /** The tokens of words seen lately; most texts use few. */
  words: Map<string, number>;
}

const WORDS_MAX = 20_000;
const WORD_MAX_CHARACTERS = 32;
const splits = { o200k_base: O200K_TOKEN_SPLIT_REGEX, cl100k_base: CL100K_TOKEN_SPLIT_REGEX };
const loaded = new Map<Encoding, Counter>();

/** Counts tokens without ever holding the event loop for long: small texts here, larger in a thread, huge by their bytes. */
export interface Tokenizer {
  count(texts: readonly string[], encoding: Encoding): number | Promise<number>;
  /** Loads an encoding ahead of the first request; that takes 150 ms. */
  warm(encoding: Encoding): void;
  close(): void;
}

/** The older families' encoding by name, the newer one's for all else. */
export function encodingOf(model: string): Encoding {
  return /^(gpt-4(?![.o])|gpt-3|text-embedding-|davinci|babbage)/.test(model)
    ? 'cl100k_base'
    : 'o200k_base';
}

interface Question {
  texts: readonly string[];
  encoding: Encoding;
}

/** Opens the tokenizer; its thread starts with the first text that needs it. */
export function openTokenizer(): Tokenizer {
  let thread: Thread<Question, number> | undefined;
  const start = () =>
    startThread<Question, number>('gateway/counting/tokenizer-thread.ts', () => {
      thread = undefined;
    });
  return {
    count(texts, encoding) {
      // A text of a letter takes a whole token, a character at most three bytes.
      if (texts.length > COUNTED_MAX_TEXTS) return Math.max(characters(texts), texts.length);
      const bytes = texts.reduce((sum, text) => sum + Buffer.byteLength(text), 0);
      if (bytes > COUNTED_MAX_BYTES) return Math.ceil(bytes / BYTES_PER_TOKEN);
      if (effort(texts, bytes) <= INLINE_MAX) return countTexts(texts, encoding);
      thread ??= start();
      return thread.ask({ texts, encoding }).catch(() => Math.ceil(bytes / BYTES_PER_TOKEN));
    },
    warm: encode,
    close: () => thread?.stop(),
  };
}

/** The exact work, in whichever thread it runs. */
export function countTexts(texts: readonly string[], encoding: Encoding): number {
  const counter = encode(encoding);
  let total = 0;
  for (const text of texts) {
    if (text.length <= RUN_MAX) total += countWords(counter, text);
    else for (const piece of pieces(text)) total += countWords(counter, piece);
  }
  return total;
}

/** Word by word, as the library does it, without the array that it makes of each match. */
function countWords({ api, split, words }: Counter, text: string): number {
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

// Rare ideographs take nine times as long a character as Latin text; a text of one letter as long as ten letters.
function effort(texts: readonly string[], bytes: number): number {
  const count = characters(texts);
  return count + 4 * (bytes - count) + 10 * texts.length;
}

function characters(texts: readonly string[]): number {
  return texts.reduce((sum, text) => sum + text.length, 0);
}

function encode(encoding: Encoding): Counter {
  let counter = loaded.get(encoding);
  if (counter === undefined) {
    const api = (require(`gpt-tokenizer/encoding/${encoding}`) as { default: GptEncoding }).default;
    // Its own, as the place where it stands is a part of it.
    counter = { api, split: new RegExp(splits[encoding]), words: new Map() };
    loaded.set(encoding, counter);
  }
  return counter;
}

/**
 * Cuts a text wherever 256 characters pass without a blank or with white space alone. A line end counts for both runs:
 * the pre-tokenizer joins it to blanks as well as to signs, and "/\n" repeated is one quadratic run otherwise.
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
