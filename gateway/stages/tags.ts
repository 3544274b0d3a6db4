import { AppError } from '../../domain/errors';
import { TAG_LENGTH_MAX, TAGS_MAX } from '../../domain/ledger/calls';
import { isKept } from '../../domain/texts';
import type { ClientSide } from '../call/client-side';

const HEADER = 'x-svc-tags';
const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/**
 * What the call is for, in its caller's words: the tags of x-svc-tags, each once, in their order.
 * Undefined if there are none. Throws 422 for too many or too long ones.
 */
export function tagsIn({ req }: Pick<ClientSide, 'req'>): string[] | undefined {
  const given = req.headers[HEADER];
  if (given === undefined) return undefined;
  const tags = [
    ...new Set(
      utf8Of(String(given))
        .split(',')
        .map((tag) => tag.trim()),
    ),
  ].filter((tag) => tag !== '');
  if (tags.length > TAGS_MAX)
    throw wrong(`${HEADER} may name at most ${TAGS_MAX} tags, with commas between them.`);
  if (tags.some((tag) => tag.length > TAG_LENGTH_MAX || !isKept(tag)))
    throw wrong(`A tag of ${HEADER} may have at most ${TAG_LENGTH_MAX} characters.`);
  return tags.length === 0 ? undefined : tags;
}

/** A header is given as one character a byte; clients write UTF-8, and some Latin-1. */
function utf8Of(given: string): string {
  try {
    return utf8.decode(Buffer.from(given, 'latin1'));
  } catch {
    return given;
  }
}

function wrong(message: string): AppError {
  return new AppError('invalid_field', message, { param: HEADER });
}
