// The one walk over JSON text that builds no values of it. All who look for something in a text
// without parsing it come here.

const { charCodeAt } = String.prototype;

/**
 * The code of the character at a place; NaN behind the text. `charCodeAt` is called by itself: as a
 * method it is looked up anew for each character once a loop has seen strings of many kinds, which
 * takes five times as long.
 */
export function codeAt(text: string, at: number): number {
  return charCodeAt.call(text, at);
}

const QUOTE = 0x22;
const COMMA = 0x2c;
const OPEN_LIST = 0x5b;
const CLOSE_LIST = 0x5d;
const OPEN_OBJECT = 0x7b;
const CLOSE_OBJECT = 0x7d;
const BLANK_MAX = 0x20;

/** A part of a text, from its first character to the one behind its last. */
export interface Span {
  start: number;
  end: number;
}

/** The value of a member, and where its name begins. */
export interface Member extends Span {
  key: number;
}

/** The members of an object by their names. */
export type Spans = ReadonlyMap<string, Member>;

/** The value of the string between two places. */
export function said(text: string, start: number, end: number): string {
  const raw = text.slice(start + 1, end - 1);
  return raw.includes('\\') ? (JSON.parse(`"${raw}"`) as string) : raw;
}

/**
 * Goes over a text from sign to sign: a whole string, a bracket or a comma. The text may be
 * anything.
 */
export class Signs {
  start = 0;
  end: number;
  private readonly text: string;
  private code = 0;

  constructor(text: string, from = 0) {
    this.text = text;
    this.end = from;
  }

  /** Goes to the next sign; false at the end of the text. */
  next(): boolean {
    const { text } = this;
    const { length } = text;
    for (let at = this.end; at < length; at += 1) {
      const code = charCodeAt.call(text, at);
      if (code === COMMA || isPiece(code)) return this.goTo(at, code);
    }
    return false;
  }

  /** The same for all signs but commas, of which long lists of numbers have many. */
  nextPiece(): boolean {
    const { text } = this;
    const { length } = text;
    for (let at = this.end; at < length; at += 1) {
      const code = charCodeAt.call(text, at);
      if (isPiece(code)) return this.goTo(at, code);
    }
    return false;
  }

  private goTo(at: number, code: number): true {
    this.code = code;
    this.start = at;
    this.end = code === QUOTE ? stringEnd(this.text, at) : at + 1;
    return true;
  }

  get is_string(): boolean {
    return this.code === QUOTE;
  }

  get opens_list(): boolean {
    return this.code === OPEN_LIST;
  }

  get opens(): boolean {
    return this.code === OPEN_LIST || this.code === OPEN_OBJECT;
  }

  get closes(): boolean {
    return this.code === CLOSE_LIST || this.code === CLOSE_OBJECT;
  }
}

function isPiece(code: number): boolean {
  // A bracket and a brace of one side differ in one bit.
  const bracket = code & ~0x20;
  return code === QUOTE || bracket === OPEN_LIST || bracket === CLOSE_LIST;
}

/** The members of the object that begins at a place, in their order. The text must be JSON. */
export function* membersOf(text: string, open: number): Generator<[name: string, Member]> {
  let key = pastBlanks(text, open + 1);
  while (codeAt(text, key) === QUOTE) {
    const key_end = stringEnd(text, key);
    const start = pastBlanks(text, pastBlanks(text, key_end) + 1);
    const end = valueEnd(text, start);
    yield [said(text, key, key_end), { key, start, end }];
    key = pastBlanks(text, pastComma(text, end) ?? end);
  }
}

/** The items of the list that begins at a place, in their order. The text must be JSON. */
export function* itemsOf(text: string, open: number): Generator<Span> {
  let start = pastBlanks(text, open + 1);
  while (start < text.length && codeAt(text, start) !== CLOSE_LIST) {
    const end = valueEnd(text, start);
    yield { start, end };
    start = pastBlanks(text, pastComma(text, end) ?? text.length);
  }
}

/**
 * The place behind the value that begins at a place. Behind a number, `true`, `false` or `null` it
 * counts white space too.
 */
export function valueEnd(text: string, start: number): number {
  const signs = new Signs(text, start);
  if (!signs.next()) return text.length;
  if (!signs.opens) return signs.is_string ? signs.end : signs.start;
  for (let depth = 1; depth > 0 && signs.nextPiece(); ) {
    if (signs.opens) depth += 1;
    else if (signs.closes) depth -= 1;
  }
  return signs.end;
}

/** The place of the first character from here on that is no white space. */
function pastBlanks(text: string, from: number): number {
  let at = from;
  while (codeAt(text, at) <= BLANK_MAX) at += 1;
  return at;
}

/**
 * The place behind the comma that comes next, white space aside; undefined if something else does.
 */
export function pastComma(text: string, from: number): number | undefined {
  const at = pastBlanks(text, from);
  return codeAt(text, at) === COMMA ? at + 1 : undefined;
}

/** The place of the comma that came last, white space aside; undefined if something else did. */
export function lastComma(text: string, from: number): number | undefined {
  let at = from - 1;
  while (codeAt(text, at) <= BLANK_MAX) at -= 1;
  return codeAt(text, at) === COMMA ? at : undefined;
}

/** A list or an object that is walked through. */
export interface Container<Role> {
  /** The role that the visitor gives it. */
  role: Role;
  is_list: boolean;
  start: number;
  /** The member that it is the value of; of a list in a list, the outermost one's. */
  name: string;
  /** The name of the member that is being read in it; always empty in a list. */
  member: string;
  /** The next string is a name. */
  takes_name: boolean;
  outer: Container<Role> | undefined;
}

/**
 * Hears of everything in a text, in its order. Of what lies in no list and no object it hears
 * nothing.
 */
interface Visitor<Role> {
  /** Says what the list or object is that begins here, by the one that it stands in. */
  open(outer: Container<Role> | undefined, is_list: boolean): Role;
  close?(container: Container<Role>, end: number): void;
  /** The name of a member, which `holder.member` is from now on. */
  name?(holder: Container<Role>, start: number, end: number): void;
  string?(holder: Container<Role>, start: number, end: number): void;
  /**
   * The text between two signs: a number, `true`, `false` or `null`, or nothing but a colon and
   * white space.
   */
  between?(holder: Container<Role>, start: number, end: number): void;
}

/**
 * Walks through a JSON text. Members of one name are all visited, whichever a parser would keep.
 */
export function walk<Role>(text: string, visitor: Visitor<Role>): void {
  const { between, close } = visitor;
  const signs = new Signs(text);
  let holder: Container<Role> | undefined;
  for (let from = 0; signs.next(); from = signs.end) {
    const { start, end } = signs;
    if (between !== undefined && holder !== undefined && start > from) between(holder, from, start);
    if (signs.is_string) {
      if (holder !== undefined) visitString(text, holder, signs, visitor);
    } else if (signs.opens) holder = opened(holder, signs, visitor);
    else if (signs.closes) {
      if (holder !== undefined) close?.(holder, end);
      holder = holder?.outer;
    } else if (holder !== undefined) holder.takes_name = !holder.is_list;
  }
}

function visitString<Role>(
  text: string,
  holder: Container<Role>,
  { start, end }: Span,
  visitor: Visitor<Role>,
): void {
  if (!holder.takes_name) {
    visitor.string?.(holder, start, end);
    return;
  }
  holder.member = said(text, start, end);
  holder.takes_name = false;
  visitor.name?.(holder, start, end);
}

function opened<Role>(
  outer: Container<Role> | undefined,
  { start, opens_list: is_list }: Signs,
  visitor: Visitor<Role>,
): Container<Role> {
  const role = visitor.open(outer, is_list);
  const name = outer === undefined ? '' : outer.is_list ? outer.name : outer.member;
  return { role, is_list, start, name, member: '', takes_name: !is_list, outer };
}

/**
 * True if a text has more quotes and commas than this many, and so perhaps more values than there
 * is time to look at.
 */
export function hasMoreThan(signs: number, text: string): boolean {
  const { length } = text;
  let count = 0;
  for (let at = 0; at < length && count <= signs; at += 1) {
    const code = charCodeAt.call(text, at);
    if (code === QUOTE || code === COMMA) count += 1;
  }
  return count > signs;
}

/** The place behind the string that begins at a place; the text's end if it never ends. */
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
