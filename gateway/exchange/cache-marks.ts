import { parseExact, printExact } from '../wire/exact';
import { type Body, isObject, listOf, stringOf } from '../wire/values';

// A request may ask for a cache as a whole, which holds up to its last block. Not every seller of
// Claude takes that; a mark at the block itself says the same, and all of them do.

// These carry no mark.
const unmarked = new Set(['thinking', 'redacted_thinking']);

/**
 * The members of a message, as texts, with a mark of the whole request moved to its last block. One
 * that says nothing is left out.
 */
export function withMarkAtEnd(parts: ReadonlyMap<string, string>): Map<string, string> {
  const moved = new Map(parts);
  const mark = parts.get('cache_control');
  if (mark === undefined) return moved;
  moved.delete('cache_control');
  if (mark.trim() === 'null') return moved;
  for (const name of ['messages', 'system', 'tools']) {
    const text = parts.get(name);
    if (text === undefined) continue;
    const value = parseExact(text);
    const marked = markEnd(name, value, parseExact(mark));
    if (marked === undefined) continue;
    moved.set(name, printExact(marked));
    break;
  }
  return moved;
}

/** Undefined if nothing of it can carry a mark. */
function markEnd(name: string, value: unknown, mark: unknown): unknown {
  if (name !== 'messages') return markLast(value, mark);
  const messages = listOf(value);
  for (const message of [...messages].reverse()) {
    const content = markLast(message.content, mark);
    if (content === undefined) continue;
    message.content = content;
    return messages;
  }
  return undefined;
}

/** Blocks with a mark at the last one that can carry it; a text becomes a block. */
function markLast(content: unknown, cache_control: unknown): Body[] | undefined {
  if (typeof content === 'string')
    return content === '' ? undefined : [{ type: 'text', text: content, cache_control }];
  if (!Array.isArray(content)) return undefined;
  const last = (content as unknown[]).findLast(canCarry);
  if (!isObject(last)) return undefined;
  last.cache_control ??= cache_control;
  return content as Body[];
}

function canCarry(block: unknown): boolean {
  if (!isObject(block) || unmarked.has(stringOf(block.type))) return false;
  return block.type !== 'text' || stringOf(block.text) !== '';
}
