import { isUtf8 } from 'node:buffer';
import type { IncomingMessage } from 'node:http';
import rawBody from 'raw-body';
import { AppError } from '../domain/errors';
import {
  CLOSE_LIST,
  CLOSE_OBJECT,
  COMMA,
  charCodeAt,
  OPEN_LIST,
  OPEN_OBJECT,
  QUOTE,
  stringEnd,
} from './json-text';
import type { Body } from './usage';

const MODEL_CHARACTERS_MAX = 256;
// Every parser behind this gateway takes as much; the strictest in use, that of protocol buffers, stops here.
const NESTING_MAX = 100;
// Ten times what the longest conversations have. Millions of keys take seconds to parse, and of texts to count.
const VALUES_MAX = 100_000;
const KEY_SHOWN_CHARACTERS = 64;

// What this gateway decides on; the upstream must not read another value of it than was checked here.
const deciding = spellings(
  ...['model', 'stream', 'stream_options', 'max_tokens', 'max_completion_tokens', 'n', 'best_of'],
  ...['max_output_tokens', 'background', 'stream_format', 'speed', 'fallbacks'],
  ...['messages', 'input', 'tools', 'functions', 'response_format', 'prediction', 'prompt'],
  ...['system', 'instructions', 'conversation', 'previous_response_id', 'text', 'session_id'],
);
const deciding_options = spellings('include_usage');

/** Where the value of a top-level key stands in a JSON text. */
export interface Span {
  start: number;
  end: number;
}

/** A member: its value, and where its name begins. */
export interface Member extends Span {
  key: number;
}

export type Spans = ReadonlyMap<string, Member>;

/** Reads a request's bytes, which must be UTF-8, as parsers differ in what they make of others; 413 above the limit, by the declared length where there is one. */
export async function readBody(req: IncomingMessage, limit: number): Promise<Buffer> {
  const { 'content-type': type = '' } = req.headers;
  if (!/^application\/([\w.-]+\+)?json\s*(;|$)/i.test(type)) {
    throw new AppError('unsupported_media_type', 'Send the body as content-type application/json.');
  }
  const raw = await readBytes(req, limit);
  if (isUtf8(raw)) return raw;
  throw new AppError('invalid_json', 'The body is not UTF-8, as JSON must be.');
}

/** A request's bytes; 413 above the limit, by the declared length where there is one. */
export async function readBytes(req: IncomingMessage, limit: number): Promise<Buffer> {
  const { 'content-length': declared, 'content-encoding': coding } = req.headers;
  if (coding !== undefined && coding.toLowerCase() !== 'identity') {
    throw new AppError('unsupported_media_type', 'Send the body without content-encoding.');
  }
  try {
    return await rawBody(req, { limit, ...(declared ? { length: Number(declared) } : {}) });
  } catch (error) {
    // What still comes is read and dropped; unread, it would stand before the connection's next request.
    req.resume();
    throw unreadable(error, limit);
  }
}

/** Refuses the name of a form's part that a lenient parser may take for another that is decided on. */
export function checkName(name: string): void {
  // Some readers of forms make a list of `model[]`, or an object of `model[x]`.
  const right = deciding.get(folded(name.replace(/\[.*$/, '')));
  if (right !== undefined && right !== name) throw misspelled(name, right);
}

/** The object that a body holds; none that is nested too deeply, or of too many pieces, for what reads it later. */
export function parseBody(text: string): Body {
  const body = parseText(text);
  if (typeof body === 'object' && body !== null && !Array.isArray(body)) return body as Body;
  throw new AppError('invalid_request', 'The body must be a JSON object.');
}

/** Any value, within the same bounds. */
export function parseText(text: string): unknown {
  checkStructure(text);
  try {
    return JSON.parse(text) as unknown;
  } catch {
    throw new AppError('invalid_json', 'The body is not valid JSON.');
  }
}

/**
 * Refuses a body that names a deciding key twice or in another spelling: parsers differ in which one they take, and some
 * ignore case and underscores. Gives their places.
 */
export function checkKeys(text: string): Spans {
  const spans = checkMembers(text, text.indexOf('{'), deciding);
  const options = spans.get('stream_options');
  if (options !== undefined && text[options.start] === '{') {
    checkMembers(text, options.start, deciding_options);
  }
  return spans;
}

/** The same for one object or a list of them, and for the object that each holds under a key. */
export function checkEach(
  text: string,
  names: Spellings,
  inner: { key: string; names: Spellings },
): void {
  let at = next(text, 0);
  if (text[at] === '[') at = next(text, at + 1);
  while (text[at] === '{') {
    const span = checkMembers(text, at, names).get(inner.key);
    if (span !== undefined && text[span.start] === '{') {
      checkMembers(text, span.start, inner.names);
    }
    at = next(text, valueEnd(text, at));
    if (text[at] === ',') at = next(text, at + 1);
  }
}

/** The places of the named members of the object that starts here; refuses one that stands there twice or in another spelling. */
export function checkMembers(text: string, open: number, names: Spellings): Map<string, Member> {
  const found = new Map<string, Member>();
  for (let at = next(text, open + 1); text[at] === '"'; ) {
    const key_end = stringEnd(text, at);
    const key = JSON.parse(text.slice(at, key_end)) as string;
    const start = next(text, next(text, key_end) + 1);
    const end = valueEnd(text, start);
    const name = names.get(key) ?? names.get(folded(key));
    if (name !== undefined) {
      if (key !== name) throw misspelled(key, name);
      if (found.has(name)) throw repeated(name);
      found.set(name, { key: at, start, end });
    }
    at = next(text, end);
    if (text[at] === ',') at = next(text, at + 1);
  }
  return found;
}

/** The model's name; 422 where it is missing and the family has no model of its own. */
export function modelOf(body: Body, otherwise?: string): string {
  const { model = otherwise } = body;
  if (typeof model === 'string' && model !== '' && model.length <= MODEL_CHARACTERS_MAX)
    return model;
  throw invalid('model', 'Name a model in "model", as GET /v1/models lists them.');
}

/** True where the client asks for a stream. */
export function streamOf({ stream, stream_options }: Body): boolean {
  if (!isFlag(stream)) throw invalid('stream', '"stream" must be true or false.');
  if (stream_options === undefined || stream_options === null) return stream === true;
  if (typeof stream_options !== 'object' || Array.isArray(stream_options)) {
    throw invalid('stream_options', '"stream_options" must be an object.');
  }
  if (isFlag((stream_options as Body).include_usage)) return stream === true;
  throw invalid('stream_options.include_usage', '"include_usage" must be true or false.');
}

function isFlag(value: unknown): boolean {
  return value === undefined || value === null || typeof value === 'boolean';
}

function invalid(param: string, message: string): AppError {
  return new AppError('invalid_field', message, { param });
}

/** The right spelling of keys by what a lenient parser may take for them, and by themselves. */
export type Spellings = ReadonlyMap<string, string>;

/** The spellings of these names. */
export function spellings(...names: string[]): Spellings {
  return new Map(
    names.flatMap((name): [string, string][] => [
      [name, name],
      [folded(name), name],
    ]),
  );
}

// Upper case comes first: it is what the long s and the Kelvin sign share with their letters.
function folded(key: string): string {
  return key.toUpperCase().toLowerCase().replaceAll(/[_-]/g, '');
}

function misspelled(key: string, name: string): AppError {
  const param = key.slice(0, KEY_SHOWN_CHARACTERS);
  return new AppError(
    'invalid_request',
    `The body names "${param}", which may be taken for "${name}": write "${name}", or leave it out.`,
    { param },
  );
}

function repeated(key: string): AppError {
  return new AppError('invalid_request', `The body names "${key}" twice.`, { param: key });
}

function unreadable(error: unknown, limit: number): unknown {
  const { type } = error as { type?: string };
  if (type === 'entity.too.large') {
    return new AppError('payload_too_large', `A body may have at most ${limit} bytes.`);
  }
  if (type === 'request.aborted' || type === 'request.size.invalid') {
    return new AppError('invalid_request', 'The body ended early.');
  }
  return error;
}

/** Runs before JSON.parse, which takes seconds for millions of levels or keys; so the text may be anything. */
function checkStructure(text: string): void {
  let depth = 0;
  let values = 0;
  const { length } = text;
  for (let at = 0; at < length; at += 1) {
    const code = charCodeAt.call(text, at);
    if (code === QUOTE) {
      values += 1;
      at = stringEnd(text, at) - 1;
    } else if (code === OPEN_LIST || code === OPEN_OBJECT) {
      values += 1;
      depth += 1;
      if (depth > NESTING_MAX) throw tooDeep();
    } else if (code === CLOSE_LIST || code === CLOSE_OBJECT) depth -= 1;
    if (values > VALUES_MAX) throw tooMany();
  }
}

function tooMany(): AppError {
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

// The walk below runs over text that JSON.parse has accepted, so it only has to find where things end.

function next(text: string, from: number): number {
  let at = from;
  while (charCodeAt.call(text, at) <= 32) at += 1;
  return at;
}

/** The place behind the value that starts here, white space behind it not counted for objects, lists and strings. */
function valueEnd(text: string, start: number): number {
  let depth = 0;
  for (let at = start; ; at += 1) {
    const code = charCodeAt.call(text, at);
    if (code === QUOTE) {
      at = stringEnd(text, at) - 1;
      if (depth === 0) return at + 1;
    } else if (code === OPEN_LIST || code === OPEN_OBJECT) depth += 1;
    else if (code === CLOSE_LIST || code === CLOSE_OBJECT) {
      if (depth === 0) return at;
      depth -= 1;
      if (depth === 0) return at + 1;
    } else if (code === COMMA && depth === 0) return at;
  }
}
