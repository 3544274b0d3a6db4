import { isUtf8 } from 'node:buffer';
import type { Context } from 'koa';
import getRawBody from 'raw-body';
import { AppError, isAppError } from '../../domain/errors';
import { cut, isKept } from '../../domain/texts';

/** How large a body may be. */
interface Bounds {
  bytes: number;
  /** How many members and items it may have; undefined: nobody counts them or compares names. */
  members?: number | undefined;
}

/** Bodies of people are small. */
const SMALL: Bounds = { bytes: 65_536, members: 2_000 };
/** A whole configuration of a gateway, by a platform admin. */
export const LARGE: Bounds = { bytes: 1_048_576, members: 100_000 };
/** A plan of all prices of all catalogs, by a platform admin. */
export const HUGE: Bounds = { bytes: 8_388_608, members: 1_000_000 };
/** A batch of 64 reserves is about 100 kB. */
const OF_MACHINES: Bounds = { bytes: 1_048_576 };

/** The bounds of a route's body: of gateways', or by what the row says. */
export function boundsOf(
  row: { is_large: boolean; is_huge: boolean; members_max?: number },
  is_of_machines: boolean,
): Bounds {
  if (is_of_machines) return OF_MACHINES;
  const ofPeople = row.is_large ? LARGE : SMALL;
  const bounds = row.is_huge ? HUGE : ofPeople;
  return { ...bounds, members: row.members_max ?? bounds.members };
}

/** A body that takes longer to arrive than this is not waited for. */
const ARRIVAL_MS = 10_000;
const NESTING_MAX = 100;

/** Reads a JSON object. An absent body is an empty one. */
export async function readJson(http: Context, bounds: Bounds): Promise<Record<string, unknown>> {
  const bytes = await readBytes(http, bounds.bytes);
  if (bytes.length === 0) return {};
  const encoding = http.get('content-encoding');
  if (!http.is('json', '+json') || (encoding !== '' && encoding !== 'identity')) {
    throw new AppError(
      'unsupported_media_type',
      'Send the body as application/json, without a content encoding.',
    );
  }
  requireUtf8(http, bytes);
  const text = bytes.toString('utf8');
  const body = parseText(text);
  if (bounds.members !== undefined) checkMembers(text, bounds.members);
  if (typeof body !== 'object' || body === null || Array.isArray(body)) {
    throw new AppError('invalid_json', 'The body must be a JSON object.');
  }
  return body as Record<string, unknown>;
}

/** JSON is UTF-8. Read as another text it would be changed without a word. */
function requireUtf8(http: Context, bytes: Buffer): void {
  const { charset } = http.request;
  if (charset !== '' && !/^"?utf-?8"?$/i.test(charset))
    throw new AppError('unsupported_media_type', 'Send the body as application/json in UTF-8.');
  if (!isUtf8(bytes)) throw new AppError('invalid_json', 'The body is not UTF-8, as JSON must be.');
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

/** A request's body as it came. */
export async function readBytes(http: Context, limit: number): Promise<Buffer> {
  const { req } = http;
  let bytes: Buffer | undefined;
  try {
    bytes = await inTime(ARRIVAL_MS, getRawBody(req, { limit }));
  } catch (error) {
    if ((error as { type?: string }).type === 'entity.too.large') {
      // The rest is read and dropped, so that the client gets the answer and its connection stays
      // in step.
      req.resume();
      throw new AppError('payload_too_large', `The body may have at most ${limit} bytes.`);
    }
    throw new AppError(
      'invalid_request',
      'The body could not be read to its end. Send all of it again.',
    );
  }
  if (bytes !== undefined) return bytes;
  http.set('connection', 'close');
  throw new AppError('invalid_request', `The body did not arrive within ${ARRIVAL_MS} ms.`, {
    status: 408,
  });
}

/** Undefined if it takes longer. */
function inTime<T>(ms: number, promise: Promise<T>): Promise<T | undefined> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, ms, undefined);
    void promise.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}
