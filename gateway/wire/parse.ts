import { AppError } from '../../domain/errors';
import { Signs } from './scan';
import type { Body } from './values';

// Every parser behind this gateway takes as much; the strictest in use, that of protocol buffers,
// stops here.
const NESTING_MAX = 100;
// Ten times what the longest conversations have. Millions of keys take seconds to parse, and of
// texts to count.
const VALUES_MAX = 100_000;

/**
 * The object that a body holds; none that is nested too deeply, or of too many pieces, for what
 * reads it later.
 */
export function parseBody(text: string): Body {
  const body = parseText(text);
  if (typeof body === 'object' && body !== null && !Array.isArray(body)) return body as Body;
  throw new AppError('invalid_request', 'The body must be a JSON object.');
}

/** Any value, within the same bounds. */
export function parseText(text: string, parse: (text: string) => unknown = JSON.parse): unknown {
  if (text.trim() === '')
    throw new AppError('invalid_json', 'The body is empty. Send a JSON object.');
  checkStructure(text);
  try {
    return parse(text);
  } catch {
    throw new AppError('invalid_json', 'The body is not valid JSON.');
  }
}

/**
 * Runs before JSON.parse, which takes seconds for millions of levels or keys; so the text may be
 * anything.
 */
function checkStructure(text: string): void {
  let depth = 0;
  let values = 0;
  const signs = new Signs(text);
  while (signs.nextPiece()) {
    if (signs.closes) depth -= 1;
    else values += 1;
    if (signs.opens) depth += 1;
    if (depth > NESTING_MAX) throw tooDeep();
    if (values > VALUES_MAX) throw tooLarge();
  }
}

function tooLarge(): AppError {
  return new AppError(
    'payload_too_large',
    `A body may have at most ${VALUES_MAX} keys, texts, lists and objects.`,
  );
}

function tooDeep(): AppError {
  return new AppError(
    'invalid_request',
    `The body is nested too deeply: at most ${NESTING_MAX} levels of lists and objects are taken.`,
  );
}
