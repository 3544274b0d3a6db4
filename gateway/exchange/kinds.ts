import type { Family } from '../families/family';

/** How the bytes of an answer are read. */
export type Kind = 'events' | 'json' | 'sound';

const ENOUGH_CHARACTERS = 16;
const BLANKS_MAX = 4_096;
const field = /^(?:(?:data|event|id|retry)?:|(?:data|event)\n)/;

/**
 * What an answer is by its first bytes, as content types lie; undefined while too few have come to
 * tell. `asked` says that the client asked for a stream.
 */
export function kindOf(
  bytes: Buffer,
  content_type: string,
  given: { family: Family; asked: boolean },
): Kind | undefined {
  const { family, asked } = given;
  const is_said = /^text\/event-stream/i.test(content_type);
  if (family.is_binary && !is_said && !asked) return 'sound';
  const text = bytes
    .subarray(0, 64)
    .toString('latin1')
    .replace(/^(?:\xef\xbb\xbf)?\s+|^\xef\xbb\xbf/, '');
  if (/^[{["]/.test(text)) return 'json';
  // A text that was asked for may begin with any words.
  const may_be_text = family.reader.readText !== undefined && !is_said && !asked;
  if (!may_be_text && field.test(text)) return 'events';
  // Blanks may lead anything.
  if (text === '' && bytes.length < BLANKS_MAX) return kindOfRest(bytes, content_type, given);
  if (text.length < ENOUGH_CHARACTERS && bytes.length < 64) return undefined;
  return byType(is_said, family);
}

/** What comes behind a beginning of nothing but blanks; undefined if nothing has come yet. */
function kindOfRest(
  bytes: Buffer,
  content_type: string,
  given: { family: Family; asked: boolean },
): Kind | undefined {
  const at = bytes.findIndex((byte) => byte > 32);
  return at < 0 ? undefined : kindOf(bytes.subarray(at), content_type, given);
}

/** What an answer is by its content type alone, if it ended before its bytes could tell. */
export function kindByType(content_type: string, family: Family): Kind {
  return byType(/^text\/event-stream/i.test(content_type), family);
}

function byType(is_said: boolean, family: Family): Kind {
  if (is_said) return 'events';
  return family.is_binary ? 'sound' : 'json';
}
