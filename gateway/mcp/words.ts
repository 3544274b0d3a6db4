import { checkJson, type Dlp } from '../policy/dlp';
import { isPlainName, isSilent } from '../policy/literals';
import { applyEdits } from '../wire/edits';
import { type Container, type Span, said, walk } from '../wire/scan';

/**
 * A text or a number that somebody wrote into a message: its place, and itself as a JSON string.
 */
interface Written extends Span {
  json: string;
}

/**
 * The meaning of an object's members: those of a message, of its `params` or `result`, of their
 * `_meta`, those that a tool names as it likes, of anything else, or of what nobody looks at.
 */
type Role = 'root' | 'message' | 'params' | 'result' | 'meta' | 'free' | 'said' | 'unread';

type Holder = Container<Role>;

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
const number = /-?\d[\d.eE+-]*/;

/**
 * The words of JSON-RPC messages, read from the text itself, so that none hides behind another of
 * its name. The protocol's own words are left out, and the whole `params` of the messages, by their
 * place among all, that are `unread`. Whom a request of a client addresses is looked at apart.
 */
export function wordsIn(
  text: string,
  { unread, is_answer = false }: { unread?: ReadonlySet<number>; is_answer?: boolean } = {},
): Written[] {
  const words: Written[] = [];
  let message = -1;
  walk<Role>(text, {
    open(outer, is_list) {
      const role = roleIn(outer, is_list, unread?.has(message) === true);
      if (role === 'message') message += 1;
      return role;
    },
    name(holder, start, end) {
      const { role, member } = holder;
      if (role === 'unread') return;
      const is_ours = isPlainName(member) || (role === 'meta' && member.startsWith(PROTOCOL));
      if (!is_ours || role === 'free') words.push({ start, end, json: text.slice(start, end) });
    },
    string(holder, start, end) {
      if (!isRead(holder, is_answer) || isBytes(holder.member, said(text, start, end))) return;
      words.push({ start, end, json: text.slice(start, end) });
    },
    between(holder, from, to) {
      const found = isRead(holder, is_answer) ? number.exec(text.slice(from, to)) : null;
      if (found === null || found[0].length < DIGITS_MIN) return;
      const start = from + found.index;
      words.push({ start, end: start + found[0].length, json: `"${found[0]}"` });
    },
  });
  return words;
}

function roleIn(top: Holder | undefined, is_list: boolean, is_unread: boolean): Role {
  if (top === undefined) return is_list ? 'root' : 'message';
  const { role, member } = top;
  if (role === 'root') return 'message';
  if (role === 'free' || role === 'unread') return role;
  if (top.is_list) return 'said';
  if (role === 'meta') return member.startsWith(PROTOCOL) ? 'unread' : 'said';
  if (role === 'params' || role === 'result') {
    if (member === '_meta') return 'meta';
    return free_members.has(member) ? 'free' : 'said';
  }
  if (role !== 'message') return 'said';
  if (member === 'params') return is_unread ? 'unread' : 'params';
  return member === 'result' ? 'result' : 'said';
}

function isRead({ role, member, is_list }: Holder, is_answer: boolean): boolean {
  if (role === 'unread') return false;
  if (is_list) return true;
  if (role === 'message') return !own_members.has(member);
  if (role === 'meta') return member !== 'progressToken' && !member.startsWith(PROTOCOL);
  return is_answer || role !== 'params' || !addressed_members.has(member);
}

/** Pictures and files in Base64. */
function isBytes(member: string, value: string): boolean {
  if (value.length < BINARY_MIN) return false;
  return isSilent(member === 'blob' ? 'data' : member, value);
}

type FilteredWords =
  | { rule: string; text?: never; values?: never }
  | { rule?: never; text: string; values: string[] };

/** Filters the words of a text, and values that come with it. */
export async function filterWords(
  dlp: Dlp,
  { text, words, values = [] }: { text: string; words: readonly Written[]; values?: string[] },
): Promise<FilteredWords> {
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
  return { text: applyEdits(text, edits), values: found.slice(words.length) };
}
