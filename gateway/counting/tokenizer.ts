import { type CountedTexts, createCounter, type Encoding } from './counter';
import { startThread, type Thread } from './thread';

// Measured: 64 kB of ordinary text takes 10 ms, 1 MB takes 64 ms in the thread with the copy.
const INLINE_MAX = 65_536;
const COUNTED_MAX_BYTES = 1_048_576;
const COUNTED_MAX_TEXTS = 10_000;
const BYTES_PER_TOKEN = 3;

export type Tokenizer = ReturnType<typeof openTokenizer>;

/** The older families' encoding by name, the newer one's for all else. */
export function encodingOf(model: string): Encoding {
  return /^(gpt-4(?![.o])|gpt-3|text-embedding-|davinci|babbage)/.test(model)
    ? 'cl100k_base'
    : 'o200k_base';
}

/**
 * Counts tokens and never holds the event loop for long: it counts small texts here and larger ones
 * in a thread, which starts with the first of them, and estimates huge ones by their bytes.
 */
export function openTokenizer() {
  const counter = createCounter();
  let thread: Thread<CountedTexts, number> | undefined;
  const start = () =>
    startThread<CountedTexts, number>('gateway/counting/tokenizer-thread.ts', () => {
      thread = undefined;
    });
  return {
    count(texts: readonly string[], encoding: Encoding): number | Promise<number> {
      // A text of a letter takes a whole token, a character at most three bytes.
      if (texts.length > COUNTED_MAX_TEXTS) return Math.max(characters(texts), texts.length);
      const bytes = texts.reduce((sum, text) => sum + Buffer.byteLength(text), 0);
      if (bytes > COUNTED_MAX_BYTES) return Math.ceil(bytes / BYTES_PER_TOKEN);
      if (effort(texts, bytes) <= INLINE_MAX) return counter.count(texts, encoding);
      thread ??= start();
      return thread.ask({ texts, encoding }).catch(() => Math.ceil(bytes / BYTES_PER_TOKEN));
    },
    /** Loads an encoding ahead of the first request; that takes 150 ms. */
    warm: (encoding: Encoding) => void counter.load(encoding),
    close: () => thread?.stop(),
  };
}

// Rare ideographs take nine times as long a character as Latin text; a text of one letter as long
// as ten letters.
function effort(texts: readonly string[], bytes: number): number {
  const count = characters(texts);
  return count + 4 * (bytes - count) + 10 * texts.length;
}

function characters(texts: readonly string[]): number {
  return texts.reduce((sum, text) => sum + text.length, 0);
}
