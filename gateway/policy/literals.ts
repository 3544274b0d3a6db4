import { type Container, type Span, said, walk } from '../wire/scan';

/** A string in a JSON text: its place, quotes included, and what it says. */
export interface Literal extends Span {
  value: string;
  /**
   * The list that its object stands in, if it is the text of one part among others; they are read
   * as one.
   */
  parts_of: number | undefined;
  /** It is JSON itself. */
  is_json?: boolean;
}

/** A value that repeats the texts, token by token. */
interface Echo extends Span {
  is_list: boolean;
}

interface Literals {
  literals: Literal[];
  echoes: Echo[];
}

const nothing: ReadonlySet<string> = new Set();

// Names and kinds, which mean something to the provider and say nothing.
const labels = new Set([
  'model',
  'role',
  'type',
  'object',
  'id',
  'call_id',
  'tool_call_id',
  'item_id',
  'status',
  'previous_response_id',
  'finish_reason',
  'service_tier',
  'system_fingerprint',
  'obfuscation',
]);
// Members whose own members their author names.
const named_freely = new Set([
  'properties',
  'patternProperties',
  '$defs',
  'definitions',
  'dependentSchemas',
  'metadata',
  'variables',
  'default',
  'const',
  'example',
  'examples',
  'parsed',
]);
// Members that carry pictures, sounds, files and sealed thoughts.
const carriers = new Set([
  'data',
  'file_data',
  'url',
  'image_url',
  'b64_json',
  'encrypted_content',
  'signature',
  'thought_signature',
  'result',
  'partial_image_b64',
]);
// No phrase, address or escape has this form.
const label = /^[\w.:/-]{0,128}$/;
const plain_name = /^[$A-Za-z_]{1,64}$/;
const BINARY_MIN = 1_024;
const binary = /^(?:data:[\w/+.;=-]*,)?[\w+/=-]*$/;
// A shorter number names nobody.
const number = /-?\d[\d.eE+-]{5,}/;

/** True if nobody reads a member's string: it is a label, or bytes in Base64 from end to end. */
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

/**
 * The text, written anew if it names a member twice, so that every parser reads the value that was
 * checked.
 */
export function withoutRepeats(text: string, value: unknown): string {
  return hasRepeats(text) ? JSON.stringify(value) : text;
}

const NAMES_FEW = 16;

/**
 * True if an object of this JSON text names a member twice. `parsed` is what the text parses to, if
 * that is known and unchanged, as it is of each event of a stream: where it has as many names as
 * the text has colons, none is there twice, and the text needs no walk, which takes four times as
 * long.
 */
export function hasRepeats(text: string, parsed?: object): boolean {
  return (parsed === undefined || namesIn(parsed, 0) !== colonsIn(text)) && namesTwice(text);
}

const DEPTH_MAX = 64;

/** How many names the objects of a value have together; NaN if it is too deep to be counted. */
function namesIn(value: object, depth: number): number {
  if (depth > DEPTH_MAX) return Number.NaN;
  const names = Object.keys(value);
  let count = Array.isArray(value) ? 0 : names.length;
  for (const name of names) {
    const inner = (value as Record<string, unknown>)[name];
    if (typeof inner === 'object' && inner !== null) count += namesIn(inner, depth + 1);
  }
  return count;
}

function colonsIn(text: string): number {
  let count = 0;
  for (let at = text.indexOf(':'); at >= 0; at = text.indexOf(':', at + 1)) count += 1;
  return count;
}

function namesTwice(text: string): boolean {
  // The names of all open objects, each object's behind its holder's, which is faster than sets.
  const names: string[] = [];
  let count = 0;
  // Of objects with more names than a few, the others, by the place of the first.
  let others: Map<number, Set<string>> | undefined;
  let has_repeats = false;
  walk<number>(text, {
    open: () => count,
    close({ role: first }) {
      count = first;
      others?.delete(first);
    },
    name({ role: first, member }) {
      for (let at = first; at < count; at += 1) has_repeats ||= names[at] === member;
      if (count - first < NAMES_FEW) {
        names[count] = member;
        count += 1;
        return;
      }
      others ??= new Map();
      const known = others.get(first) ?? new Set();
      has_repeats ||= known.has(member);
      others.set(first, known.add(member));
    },
  });
  return has_repeats;
}

interface Role {
  is_unread: boolean;
  is_echo: boolean;
  is_in_echo: boolean;
  /** What a model or a client gives a tool: all of it is theirs, and nothing the wire's. */
  is_tools: boolean;
  /** Its `type`, and what nobody reads in it unless it is of plain text. */
  type: string;
  silent: Literal[];
}

/**
 * The strings of a JSON text that say something. They are read from the text itself and not from a
 * parsed value: of two members of one name parsers keep one, and not all the same. `unread` are the
 * top-level members not looked into.
 */
export function literalsIn(text: string, unread: ReadonlySet<string> = nothing): Literals {
  const literals: Literal[] = [];
  const echoes: Echo[] = [];
  const isUnread = ({ outer, member, role }: Container<Role>): boolean =>
    outer === undefined ? unread.has(member) : role.is_unread;
  walk<Role>(text, {
    open(outer, is_list) {
      const is_echo = outer?.member === 'logprobs' && !outer.role.is_tools;
      const is_in_echo = is_echo || outer?.role.is_in_echo === true;
      const is_tools = outer?.role.is_tools === true || (outer?.member === 'input' && !is_list);
      const is_unread = outer !== undefined && isUnread(outer);
      return { is_unread, is_echo, is_in_echo, is_tools, type: '', silent: [] };
    },
    close({ role, start, is_list }, end) {
      if (role.is_echo) echoes.push({ start, end, is_list });
      if (role.type === 'text') literals.push(...role.silent);
    },
    name({ role, name, member }, start, end) {
      const is_said = role.is_tools || named_freely.has(name) || !isPlainName(member);
      if (!is_said || role.is_unread) return;
      literals.push({ start, end, value: member, parts_of: undefined });
    },
    string(holder, start, end) {
      const { role, member } = holder;
      if (isUnread(holder)) return;
      // It is taken out of answers as a whole.
      if (role.is_in_echo && unread !== nothing) return;
      const [literal, is_silent] = literalAt(text, holder, { start, end });
      if (member === 'type' && !holder.is_list) role.type = literal.value;
      (is_silent ? role.silent : literals).push(literal);
    },
    between({ role }, from, to) {
      if (!role.is_tools || role.is_unread) return;
      const found = number.exec(text.slice(from, to));
      if (found === null) return;
      const start = from + found.index;
      const [value] = found;
      literals.push({ start, end: start + value.length, value, parts_of: undefined });
    },
  });
  return { literals, echoes };
}

/** The string that a list holds or a member has as its value, and whether nobody reads it. */
function literalAt(
  text: string,
  { is_list, name: own_name, member, outer, role }: Container<Role>,
  { start, end }: Span,
): [Literal, is_silent: boolean] {
  const value = said(text, start, end);
  const name = is_list ? own_name : member;
  const is_free = role.is_tools || (!is_list && named_freely.has(own_name));
  const is_part = member === 'text' && outer?.is_list === true;
  const parts_of = is_part ? outer.start : undefined;
  const literal = { start, end, value, parts_of, is_json: name === 'arguments' };
  return [literal, !is_free && isSilent(name, value)];
}
