import { countTokens, decode, encode } from 'gpt-tokenizer/encoding/o200k_base';
import { type Faults, figure } from './faults';

const PIECE_CHARACTERS = 500;
const as_text = { disallowedSpecial: new Set<string>() };

/** The text of a message, or the texts of its parts. */
export function textOf(content: unknown): string {
  if (!Array.isArray(content)) return typeof content === 'string' ? content : '';
  return content
    .map((part: { text?: string; content?: unknown }) => part.text ?? textOf(part.content))
    .join('');
}

/** The answer of a model: it echoes the user, or says the text that a fault asks for. */
export function plainWords(model: string, said: string, faults: Faults, is_json = false): string {
  if (faults['big-line']) return 'x'.repeat(figure(faults, 'size', 1_000_000));
  if (faults.chunks) return 'word '.repeat(figure(faults, 'count', 200)).trimEnd();
  const echo = said.length > 400 ? `${said.slice(0, 400)}...` : said;
  if (is_json) return JSON.stringify({ echo });
  return `You said: ${echo || 'nothing'}. This is ${model} of the sandbox.`;
}

/** The pieces in which a stream delivers a text. */
export function deltas(text: string, faults: Faults): string[] {
  return faults['big-line'] ? [text] : (text.match(/\s*\S+\s*?|\s+/g) ?? []);
}

/** Real token counts; a text that spells a special token is text. */
export function count(input: string | number[]): number {
  if (typeof input !== 'string') return input.length;
  let total = 0;
  for (const piece of pieces(input)) total += countTokens(piece, as_text);
  return total;
}

/** The part of a text that a cap lets pass. */
export function firstTokens(text: string, limit: number): string {
  let kept = '';
  let left = limit;
  for (const piece of pieces(text)) {
    const tokens = encode(piece, as_text);
    kept += decode(tokens.slice(0, left));
    left -= tokens.length;
    if (left <= 0) break;
  }
  return kept;
}

/** One unbroken run takes quadratic time, so long texts are counted piece by piece. */
function* pieces(text: string): Generator<string> {
  for (let at = 0; at < text.length; at += PIECE_CHARACTERS) {
    yield text.slice(at, at + PIECE_CHARACTERS);
  }
}
