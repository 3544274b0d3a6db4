import { AppError } from '../../domain/errors';
import { cut } from '../../domain/texts';
import { type Member, membersOf, type Spans, valueEnd } from './scan';

const KEY_SHOWN_CHARACTERS = 64;

// The members that this gateway decides on: the upstream must not read another value of them than
// was checked here.
const deciding = spellings(
  'model',
  'stream',
  'stream_options',
  'max_tokens',
  'max_completion_tokens',
  'n',
  'best_of',
  'max_output_tokens',
  'background',
  'deferred',
  'data_sources',
  'stream_format',
  'speed',
  'fallbacks',
  'messages',
  'input',
  'tools',
  'functions',
  'response_format',
  'prediction',
  'prompt',
  'system',
  'instructions',
  'conversation',
  'previous_response_id',
  'container',
  'thread',
  'text',
  'session_id',
  'service_tier',
  'inference_geo',
  'web_search_options',
  'search_parameters',
  'search_settings',
  'compound_custom',
  'safety_model',
  'connectors',
  'enable_search',
  'plugins',
  'preset',
  'provider',
  'route',
  'modalities',
  'models',
  'billing_policy',
  'max_tool_calls',
);
const deciding_options = spellings('include_usage');

/** True for a member that this gateway decides on, in whatever spelling. */
export function isDeciding(name: string): boolean {
  return deciding.has(folded(name));
}

/**
 * Refuses the name of a form's part that a lenient parser may take for another that is decided on.
 */
export function checkName(name: string): void {
  // Some readers of forms make a list of `model[]`, or an object of `model[x]`.
  const right = deciding.get(folded(name.replace(/\[.*$/, '')));
  if (right !== undefined && right !== name) throw misspelled(name, right);
}

/**
 * Refuses a body that names a deciding key twice or in another spelling: parsers differ in which
 * one they take, and some ignore case and underscores. Gives their places.
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
  for (let at = text.indexOf('{'); at >= 0; at = text.indexOf('{', valueEnd(text, at))) {
    const span = checkMembers(text, at, names).get(inner.key);
    if (span !== undefined && text[span.start] === '{') {
      checkMembers(text, span.start, inner.names);
    }
  }
}

/**
 * The places of the named members of the object that begins here. Refuses the object if it names
 * one of them twice or in another spelling.
 */
export function checkMembers(text: string, open: number, names: Spellings): Map<string, Member> {
  const found = new Map<string, Member>();
  for (const [key, place] of membersOf(text, open)) {
    const name = names.get(key) ?? names.get(folded(key));
    if (name === undefined) continue;
    if (key !== name) throw misspelled(key, name);
    if (found.has(name)) throw repeated(name);
    found.set(name, place);
  }
  return found;
}

/** The right spelling of keys by what a lenient parser may take for them, and by themselves. */
type Spellings = ReadonlyMap<string, string>;

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
/** A name without case, underscores and hyphens, as some parsers compare names. */
export function folded(key: string): string {
  return key.toUpperCase().toLowerCase().replaceAll(/[_-]/g, '');
}

function misspelled(key: string, name: string): AppError {
  const param = cut(key, KEY_SHOWN_CHARACTERS);
  return new AppError(
    'invalid_request',
    `The body names "${param}", which may be taken for "${name}": write "${name}", or leave it out.`,
    { param },
  );
}

function repeated(key: string): AppError {
  return new AppError('invalid_request', `The body names "${key}" twice.`, { param: key });
}
