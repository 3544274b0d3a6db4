/** A string in a JSON text: its place, quotes included, and what it says. */
export interface Literal {
  start: number;
  end: number;
  value: string;
  /** The list that its object stands in, where it is the text of one part among others; they are read as one. */
  parts_of: number | undefined;
}

/** A value that tells again, token by token, what the texts say. */
export interface Echo {
  start: number;
  end: number;
  is_list: boolean;
}

interface Container {
  start: number;
  is_list: boolean;
  /** The member that it is the value of. */
  name: string;
  /** The member that is being read in it. */
  member: string;
  takes_key: boolean;
  echo: number;
}

// Names and kinds, which mean something to the provider and say nothing.
const labels = new Set([
  ...['model', 'role', 'type', 'object', 'id', 'call_id', 'tool_call_id', 'item_id', 'status'],
  ...['previous_response_id', 'finish_reason', 'service_tier', 'system_fingerprint', 'obfuscation'],
]);
// Members whose own members are named by whoever writes them.
const named_freely = new Set(['properties', 'patternProperties', '$defs', 'metadata', 'variables']);
// Members that carry pictures, sounds, files and sealed thoughts.
const carriers = new Set([
  ...['data', 'file_data', 'url', 'image_url', 'b64_json', 'encrypted_content', 'signature'],
  ...['result', 'partial_image_b64'],
]);
const LABEL_MAX = 128;
const BINARY_MIN = 1_024;
const binary = /^(?:data:[\w/+.;=-]*,)?[\w+/=-]*$/;

/** True where a member's string is none that anybody reads: a label, or bytes in Base64 from end to end. */
export function isSilent(name: string, value: string): boolean {
  if (labels.has(name)) return value.length <= LABEL_MAX;
  return value.length >= BINARY_MIN && carriers.has(name) && binary.test(value);
}

/**
 * The strings of a JSON text that say something. They are read from the text itself and not from what a parser makes of it:
 * of two members of one name parsers keep one, and not all the same. `roots` are the top-level members looked into.
 */
export function literalsIn(text: string, roots?: ReadonlySet<string>) {
  const found: { literals: Literal[]; echoes: Echo[] } = { literals: [], echoes: [] };
  const stack: Container[] = [];
  for (let at = 0; at < text.length; at += 1) {
    const top = stack.at(-1);
    const code = text.charCodeAt(at);
    if (code === QUOTE) at = readString(text, at, stack, roots, found.literals) - 1;
    else if (code === OPEN_LIST || code === OPEN_OBJECT) {
      const is_list = code === OPEN_LIST;
      const name = top === undefined ? '' : top.is_list ? top.name : top.member;
      const echo = name === 'logprobs' && top?.is_list === false ? at : -1;
      stack.push({ start: at, is_list, name, member: '', takes_key: !is_list, echo });
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

const QUOTE = 0x22;
const COMMA = 0x2c;
const OPEN_LIST = 0x5b;
const CLOSE_LIST = 0x5d;
const OPEN_OBJECT = 0x7b;
const CLOSE_OBJECT = 0x7d;

/** Takes the string that starts here; gives the place behind it. */
function readString(
  text: string,
  start: number,
  stack: readonly Container[],
  roots: ReadonlySet<string> | undefined,
  literals: Literal[],
): number {
  const end = stringEnd(text, start);
  const top = stack.at(-1);
  if (top === undefined) return end;
  const is_key = top.takes_key;
  if (!is_key && roots !== undefined && !roots.has(stack[0]?.member ?? '')) return end;
  const value = said(text, start, end);
  if (is_key) {
    top.member = value;
    top.takes_key = false;
    const is_said = roots === undefined && named_freely.has(top.name);
    if (is_said) literals.push({ start, end, value, parts_of: undefined });
    return end;
  }
  const name = top.is_list ? top.name : top.member;
  const is_free = !top.is_list && named_freely.has(top.name);
  if (!is_free && isSilent(name, value)) return end;
  const list = name === 'text' && !top.is_list ? stack.at(-2) : undefined;
  const parts_of = list?.is_list ? list.start : undefined;
  literals.push({ start, end, value, parts_of });
  return end;
}

function said(text: string, start: number, end: number): string {
  const raw = text.slice(start + 1, end - 1);
  return raw.includes('\\') ? (JSON.parse(`"${raw}"`) as string) : raw;
}

function stringEnd(text: string, start: number): number {
  let quote = text.indexOf('"', start + 1);
  while (quote > 0 && isEscaped(text, quote)) quote = text.indexOf('"', quote + 1);
  return quote < 0 ? text.length : quote + 1;
}

function isEscaped(text: string, quote: number): boolean {
  let backslashes = 0;
  while (text[quote - 1 - backslashes] === '\\') backslashes += 1;
  return backslashes % 2 === 1;
}
