import {
  CLOSE_LIST,
  CLOSE_OBJECT,
  COMMA,
  charCodeAt,
  OPEN_LIST,
  OPEN_OBJECT,
  QUOTE,
  said,
  stringEnd,
} from '../wire/scan';

/** A string in a JSON text: its place, quotes included, and what it says. */
export interface Literal {
  start: number;
  end: number;
  value: string;
  /** The list that its object stands in, where it is the text of one part among others; they are read as one. */
  parts_of: number | undefined;
  /** It is JSON itself. */
  is_json?: boolean;
}

/** A value that tells again, token by token, what the texts say. */
export interface Echo {
  start: number;
  end: number;
  is_list: boolean;
}

export interface Literals {
  literals: Literal[];
  echoes: Echo[];
}

const nothing: ReadonlySet<string> = new Set();

interface Container {
  start: number;
  is_list: boolean;
  /** The member that it is the value of. */
  name: string;
  /** The member that is being read in it. */
  member: string;
  takes_key: boolean;
  /** Where it begins, for what tells again; else -1. */
  echo: number;
  is_in_echo: boolean;
}

// Names and kinds, which mean something to the provider and say nothing.
const labels = new Set([
  ...['model', 'role', 'type', 'object', 'id', 'call_id', 'tool_call_id', 'item_id', 'status'],
  ...['previous_response_id', 'finish_reason', 'service_tier', 'system_fingerprint', 'obfuscation'],
]);
// Members whose own members are named by whoever writes them.
const named_freely = new Set([
  ...['properties', 'patternProperties', '$defs', 'definitions', 'dependentSchemas', 'metadata'],
  ...['variables', 'default', 'const', 'example', 'examples', 'parsed'],
]);
// Members that carry pictures, sounds, files and sealed thoughts.
const carriers = new Set([
  ...['data', 'file_data', 'url', 'image_url', 'b64_json', 'encrypted_content', 'signature'],
  ...['result', 'partial_image_b64'],
]);
// No phrase, address or escape has this form.
const label = /^[\w.:/-]{0,128}$/;
const plain_name = /^[$A-Za-z_]{1,64}$/;
const BINARY_MIN = 1_024;
const binary = /^(?:data:[\w/+.;=-]*,)?[\w+/=-]*$/;

/** True where a member's string is none that anybody reads: a label, or bytes in Base64 from end to end. */
export function isSilent(name: string, value: string): boolean {
  if (labels.has(name)) return label.test(value);
  return value.length >= BINARY_MIN && carriers.has(name) && binary.test(value);
}

/** True for the name of a member that is one of the wire's, by its form. */
export function isPlainName(name: string): boolean {
  return plain_name.test(name);
}

/** True for bytes in Base64, and nothing else. */
export function isBinary(value: string): boolean {
  return binary.test(value);
}

/** The text, written anew where it names a member twice, so that every parser reads the value that was looked at. */
export function withoutRepeats(text: string, value: unknown): string {
  return hasRepeats(text) ? JSON.stringify(value) : text;
}

/** Names of members: in a list while they are few, which is faster than a set. */
interface Names {
  few: string[];
  many: Set<string> | undefined;
}

const NAMES_FEW = 16;

/** True where a name is among them; it is from now on. */
function isKnown(names: Names, name: string): boolean {
  if (names.many?.has(name) || names.few.includes(name)) return true;
  if (names.few.length < NAMES_FEW) names.few.push(name);
  else {
    names.many ??= new Set();
    names.many.add(name);
  }
  return false;
}

/** True where an object of this JSON text names a member twice. */
export function hasRepeats(text: string): boolean {
  const { length } = text;
  const outer: (Names | undefined)[] = [];
  // The members so far of the object that is read; a list has none.
  let names: Names | undefined;
  let takes_key = false;
  for (let at = 0; at < length; at += 1) {
    const code = charCodeAt.call(text, at);
    if (code === QUOTE) {
      const end = stringEnd(text, at);
      if (takes_key && names !== undefined) {
        const name = said(text, at, end);
        if (isKnown(names, name)) return true;
        takes_key = false;
      }
      at = end - 1;
    } else if (code === OPEN_OBJECT || code === OPEN_LIST) {
      outer.push(names);
      takes_key = code === OPEN_OBJECT;
      names = takes_key ? { few: [], many: undefined } : undefined;
    } else if (code === CLOSE_OBJECT || code === CLOSE_LIST) names = outer.pop();
    else if (code === COMMA) takes_key = names !== undefined;
  }
  return false;
}

/**
 * The strings of a JSON text that say something. They are read from the text itself and not from what a parser makes of it:
 * of two members of one name parsers keep one, and not all the same. `unread` are the top-level members not looked into.
 */
export function literalsIn(text: string, unread: ReadonlySet<string> = nothing): Literals {
  const found: Literals = { literals: [], echoes: [] };
  const stack: Container[] = [];
  const { length } = text;
  for (let at = 0; at < length; at += 1) {
    const top = stack.at(-1);
    const code = charCodeAt.call(text, at);
    if (code === QUOTE) at = readString(text, at, stack, unread, found) - 1;
    else if (code === OPEN_LIST || code === OPEN_OBJECT) {
      const is_list = code === OPEN_LIST;
      const name = top === undefined ? '' : top.is_list ? top.name : top.member;
      const echo = name === 'logprobs' && top?.is_list === false ? at : -1;
      const is_in_echo = echo >= 0 || top?.is_in_echo === true;
      const takes_key = !is_list;
      stack.push({ start: at, is_list, name, member: '', takes_key, echo, is_in_echo });
    } else if (code === CLOSE_LIST || code === CLOSE_OBJECT) {
      stack.pop();
      if (top !== undefined && top.echo >= 0) {
        found.echoes.push({ start: top.echo, end: at + 1, is_list: top.is_list });
      }
    } else if (code === COMMA && top?.is_list === false) top.takes_key = true;
  }
  return found;
}

/** Puts texts in the place of parts of a JSON text. */
export function spliced(
  text: string,
  edits: readonly { start: number; end: number; text: string }[],
): string {
  let result = '';
  let from = 0;
  for (const edit of edits.toSorted((a, b) => a.start - b.start)) {
    // What lies in a part that has been replaced is gone.
    if (edit.start < from) continue;
    result += text.slice(from, edit.start) + edit.text;
    from = edit.end;
  }
  return result + text.slice(from);
}

/** Takes the string that starts here; gives the place behind it. */
function readString(
  text: string,
  start: number,
  stack: readonly Container[],
  unread: ReadonlySet<string>,
  found: Literals,
): number {
  const end = stringEnd(text, start);
  const top = stack.at(-1);
  if (top === undefined) return end;
  if (top.takes_key) {
    const value = said(text, start, end);
    top.member = value;
    top.takes_key = false;
    const is_said = named_freely.has(top.name) || !isPlainName(value);
    if (is_said && (stack.length === 1 || !unread.has(stack[0]?.member ?? ''))) {
      found.literals.push({ start, end, value, parts_of: undefined });
    }
    return end;
  }
  if (unread.has(stack[0]?.member ?? '')) return end;
  // It is taken out of answers as a whole.
  if (top.is_in_echo && unread !== nothing) return end;
  const value = said(text, start, end);
  const name = top.is_list ? top.name : top.member;
  const is_free = !top.is_list && named_freely.has(top.name);
  if (!is_free && isSilent(name, value)) return end;
  const list = name === 'text' && !top.is_list ? stack.at(-2) : undefined;
  const parts_of = list?.is_list ? list.start : undefined;
  found.literals.push({ start, end, value, parts_of, is_json: name === 'arguments' });
  return end;
}
