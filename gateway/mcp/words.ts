import { checkJson, type Dlp } from '../policy/dlp';
import { isPlainName, isSilent, spliced } from '../policy/literals';
import { said, stringEnd } from '../wire/scan';

/** A text or a number that somebody wrote into a message: its place, and itself as a JSON string. */
export interface Word {
  start: number;
  end: number;
  json: string;
}

/**
 * What the members of an object are: those of a message, of its `params` or `result`, of their `_meta`, those that a tool names
 * as it likes, of anything else, or of what nobody looks at.
 */
type Kind = 'root' | 'message' | 'params' | 'result' | 'meta' | 'free' | 'said' | 'unread';

interface Holder {
  kind: Kind;
  is_list: boolean;
  member: string;
  takes_key: boolean;
}

const PROTOCOL = 'io.modelcontextprotocol/';
const own_members = new Set(['jsonrpc', 'id', 'method']);
/** Whom a request addresses: what is paid for is not rewritten. */
export const addressed = ['name', 'uri', 'taskId'] as const;
const addressed_members = new Set<string>(addressed);
// Values that tools and their callers shape.
const free_members = new Set(['arguments', 'structuredContent']);
// A shorter number names nobody.
const DIGITS_MIN = 6;
const BINARY_MIN = 1_024;
const number = /-?\d[\d.eE+-]*/y;

/**
 * The words of JSON-RPC messages, read from the text itself, so that none hides behind another of its name. The protocol's own
 * words are left out, and the whole `params` of the messages, by their place among all, that are `unread`.
 */
export function wordsIn(text: string, unread: ReadonlySet<number> = new Set()): Word[] {
  const words: Word[] = [];
  const stack: Holder[] = [];
  let message = -1;
  for (let at = 0; at < text.length; at += 1) {
    const top = stack.at(-1);
    const char = text[at] as string;
    if (char === '"') {
      const end = stringEnd(text, at);
      addText(words, text, { start: at, end }, top);
      at = end - 1;
    } else if (char === '{' || char === '[') {
      const kind = kindIn(top, char === '[', unread.has(message));
      if (kind === 'message') message += 1;
      stack.push({ kind, is_list: char === '[', member: '', takes_key: char === '{' });
    } else if (char === '}' || char === ']') stack.pop();
    else if (char === ',' && top?.is_list === false) top.takes_key = true;
    else if (char === '-' || (char >= '0' && char <= '9')) {
      number.lastIndex = at;
      const [digits = char] = number.exec(text) ?? [];
      const end = at + digits.length;
      if (digits.length >= DIGITS_MIN && isRead(top)) {
        words.push({ start: at, end, json: `"${digits}"` });
      }
      at = end - 1;
    }
  }
  return words;
}

function kindIn(top: Holder | undefined, is_list: boolean, is_unread: boolean): Kind {
  if (top === undefined) return is_list ? 'root' : 'message';
  const { kind, member } = top;
  if (kind === 'root') return 'message';
  if (kind === 'free' || kind === 'unread') return kind;
  if (top.is_list) return 'said';
  if (kind === 'meta') return member.startsWith(PROTOCOL) ? 'unread' : 'said';
  if (kind === 'params' || kind === 'result') {
    if (member === '_meta') return 'meta';
    return free_members.has(member) ? 'free' : 'said';
  }
  if (kind !== 'message') return 'said';
  if (member === 'params') return is_unread ? 'unread' : 'params';
  return member === 'result' ? 'result' : 'said';
}

function addText(
  words: Word[],
  text: string,
  place: { start: number; end: number },
  top: Holder | undefined,
): void {
  if (top === undefined || top.kind === 'unread') return;
  const value = said(text, place.start, place.end);
  if (top.takes_key) {
    top.takes_key = false;
    top.member = value;
    const is_ours = isPlainName(value) || (top.kind === 'meta' && value.startsWith(PROTOCOL));
    if (is_ours && top.kind !== 'free') return;
  } else if (!isRead(top) || isBytes(top.member, value)) return;
  words.push({ ...place, json: text.slice(place.start, place.end) });
}

function isRead(top: Holder | undefined): boolean {
  if (top === undefined || top.kind === 'unread') return false;
  const { kind, member, is_list } = top;
  if (is_list) return true;
  if (kind === 'message') return !own_members.has(member);
  if (kind === 'meta') return member !== 'progressToken' && !member.startsWith(PROTOCOL);
  return kind !== 'params' || !addressed_members.has(member);
}

/** Pictures and files in Base64. */
function isBytes(member: string, value: string): boolean {
  if (value.length < BINARY_MIN) return false;
  return isSilent(member === 'blob' ? 'data' : member, value);
}

type Filtered =
  | { rule: string; text?: never; values?: never }
  | { rule?: never; text: string; values: string[] };

/** Filters the words of a text, and values that come with it. */
export async function filterWords(
  dlp: Dlp,
  { text, words, values = [] }: { text: string; words: readonly Word[]; values?: string[] },
): Promise<Filtered> {
  // Each by itself, in a list: there no name makes a label of it.
  const given = `[${[...words.map(({ json }) => json), ...values.map((value) => JSON.stringify(value))].join(',')}]`;
  const { rule, text: filtered } = await checkJson(dlp, given);
  if (rule !== undefined) return { rule };
  if (filtered === given) return { text, values };
  const found = JSON.parse(filtered) as string[];
  const edits = words.flatMap(({ start, end, json }, at) => {
    const now = found[at] as string;
    return now === JSON.parse(json) ? [] : [{ start, end, text: JSON.stringify(now) }];
  });
  return { text: spliced(text, edits), values: found.slice(words.length) };
}
