import { AppError } from '../../domain/errors';
import { TAG_LENGTH_MAX, TAGS_MAX } from '../../domain/ledger/calls';
import { isKept } from '../../domain/texts';
import type { ClientSide } from '../call/client-side';
import { headerText } from '../wire/values';

const HEADER = 'x-svc-tags';

/**
 * What the call is for, in its caller's words: the tags of x-svc-tags, each once, in their order.
 * Undefined if there are none. Throws 422 for too many or too long ones.
 */
export function tagsIn({ req }: Pick<ClientSide, 'req'>): string[] | undefined {
  const given = req.headers[HEADER];
  if (given === undefined) return undefined;
  const tags = [
    ...new Set(
      headerText(String(given))
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

function wrong(message: string): AppError {
  return new AppError('invalid_field', message, { param: HEADER });
}
