import { AppError, isAppError } from './errors';
import { cut, isKept } from './texts';

const NESTING_MAX = 100;

/**
 * Reads the JSON object that a body is. Throws if it is none, if it holds a text that PostgreSQL
 * cannot hold or a number that no program does, names a member twice, or has more than so many
 * `members` and items; undefined: nobody looks at numbers, names and how many.
 */
export function readObject(text: string, members: number | undefined): Record<string, unknown> {
  const body = parseText(text);
  if (members !== undefined) {
    checkMembers(text, members);
    if (may_be_infinite.test(text)) requireFinite('', body);
  }
  if (typeof body !== 'object' || body === null || Array.isArray(body)) {
    throw new AppError('invalid_json', 'The body must be a JSON object.');
  }
  return body as Record<string, unknown>;
}

const may_be_infinite = /\d[eE]\+?\d{3}|\d{309}/;

/** Refuses a number beyond all that a program holds, which would be written anew as null. */
function requireFinite(path: string, value: unknown): void {
  if (value === Number.POSITIVE_INFINITY || value === Number.NEGATIVE_INFINITY)
    throw new AppError('invalid_field', `${path} is too large a number.`, { param: path });
  if (typeof value !== 'object' || value === null) return;
  for (const [name, member] of Object.entries(value))
    requireFinite(path === '' ? name : `${path}.${name}`, member);
}

function parseText(text: string): unknown {
  try {
    // Only an escape can contain a character that PostgreSQL cannot hold, so other bodies are not
    // walked.
    const body: unknown = JSON.parse(text);
    if (text.includes('\\u')) requireTextsIn('', body);
    return body;
  } catch (error) {
    if (isAppError(error)) throw error;
    throw new AppError('invalid_json', 'The body is not JSON.');
  }
}

/** Refuses a text that PostgreSQL cannot hold, anywhere in a body: by its whole path. */
function requireTextsIn(path: string, value: unknown): void {
  if (typeof value === 'string') requireText(path, value);
  if (typeof value !== 'object' || value === null) return;
  for (const [name, member] of Object.entries(value)) {
    const at = path === '' ? name : `${path}.${name}`;
    requireText(at, name);
    requireTextsIn(at, member);
  }
}

/** Refuses a text that PostgreSQL cannot hold. */
export function requireText(param: string, value: string): void {
  if (isKept(value)) return;
  throw new AppError('invalid_field', `${param} holds a character that no text may have.`, {
    param,
  });
}

const piece = /"(?:[^"\\]|\\.)*"|[{}[\],:]/g;

/**
 * Refuses JSON that names a member of one object twice, as readers differ in which of them counts,
 * and what has more members or levels than anybody needs.
 */
function checkMembers(text: string, members_max: number): void {
  const names: Set<string>[] = [];
  let members = 1;
  let latest = '';
  for (const [sign] of text.matchAll(piece)) {
    if (sign === '{' || sign === '[') names.push(new Set());
    else if (sign === '}' || sign === ']') names.pop();
    else if (sign === ':') addName(names.at(-1) as Set<string>, latest);
    else if (sign === ',') members += 1;
    else latest = sign;
    if (members > members_max)
      throw new AppError(
        'payload_too_large',
        `A body may have at most ${members_max} members and items.`,
      );
    if (names.length > NESTING_MAX)
      throw new AppError(
        'invalid_request',
        `The body is nested too deeply: at most ${NESTING_MAX} levels of objects and lists are taken.`,
      );
  }
}

const NAME_SHOWN_CHARACTERS = 64;

function addName(names: Set<string>, text: string): void {
  const name = text.includes('\\') ? (JSON.parse(text) as string) : text.slice(1, -1);
  if (names.has(name)) {
    const param = cut(name, NAME_SHOWN_CHARACTERS);
    throw new AppError('invalid_request', `The body names "${param}" twice.`, { param });
  }
  names.add(name);
}
