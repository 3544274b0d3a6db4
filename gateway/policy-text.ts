/** A text as it is looked at, and where each of its characters stands in the text that was given. */
export interface View {
  text: string;
  /** Undefined where every character stands where it stood. */
  map: Int32Array | undefined;
}

const plain = /^[\0-\x7f]*$/;
// What may hide letters: escapes of JSON and of most languages, of URLs, and of HTML.
const escaped = /[\\%&]/;

/**
 * The ways in which a text may be read: as it stands, and with its escapes undone, both without invisible characters and
 * with those of one meaning made one (NFKC). Escapes inside escapes, as JSON in a text of JSON has them, are undone too.
 */
export function viewsOf(text: string): View[] {
  const views = [cleaned(text)];
  if (escaped.test(text)) {
    const undone = unescaped(text);
    if (undone !== undefined) views.push(composed(undone, cleaned(undone.text)));
  }
  return views;
}

// The beginnings of escapes that the next piece of a stream may complete.
const open =
  /(?:\\+(?:u(?:\{[0-9a-f]{0,6}|[0-9a-f]{0,3})|x[0-9a-f]?)?|%[0-9a-f]?|&(?:#(?:x[0-9a-f]{0,6}|\d{0,7})?)?)$/i;
const OPEN_MAX = 64;

/** Where a character that is not complete begins; the text's length where there is none. */
export function openFrom(text: string): number {
  const last = text.charCodeAt(text.length - 1);
  if (last >= 0xd800 && last < 0xdc00) return text.length - 1;
  const end = text.slice(-OPEN_MAX);
  if (!escaped.test(end)) return text.length;
  const at = end.search(open);
  return at < 0 ? text.length : text.length - end.length + at;
}

/** The place in the given text of a character of a view. */
export function startOf({ map }: View, at: number): number {
  return map === undefined ? at : (map[at] as number);
}

/** The place behind the character of a view that ends before this one. */
export function endOf({ map }: View, end: number): number {
  if (map === undefined) return end;
  const last = map[end - 1] as number;
  let at = end;
  // One character may have become several.
  while (map[at] === last) at += 1;
  return map[at] as number;
}

// Characters seen lately, as they are looked at; most texts use few.
const seen = new Map<number, string>();
const SEEN_MAX = 20_000;

/** One character as NFKC writes it; nothing for one that is not seen. */
function cleanOf(code: number): string {
  const known = seen.get(code);
  if (known !== undefined) return known;
  const character = String.fromCodePoint(code);
  const is_unseen = /[\p{Cf}\p{Default_Ignorable_Code_Point}]/u.test(character);
  const clean = is_unseen ? '' : character.normalize('NFKC');
  if (seen.size >= SEEN_MAX) seen.clear();
  seen.set(code, clean);
  return clean;
}

function cleaned(text: string): View {
  if (plain.test(text)) return { text, map: undefined };
  let clean = '';
  const places: number[] = [];
  for (let at = 0; at < text.length; ) {
    const code = text.codePointAt(at) as number;
    const character = code < 0x80 ? (text[at] as string) : cleanOf(code);
    for (let unit = 0; unit < character.length; unit += 1) places.push(at);
    clean += character;
    at += code > 0xffff ? 2 : 1;
  }
  places.push(text.length);
  return { text: clean, map: Int32Array.from(places) };
}

const escapes =
  /(?<!\\)\\+(?:u\{([0-9a-f]{1,6})\}|u([0-9a-f]{4})|x([0-9a-f]{2})|([^\\]))|((?:%[0-9a-f]{2})+)|&#x([0-9a-f]{1,6});|&#(\d{1,7});/gi;

function unescaped(text: string): View | undefined {
  let undone = '';
  const places: number[] = [];
  let from = 0;
  const keep = (end: number): void => {
    for (let at = from; at < end; at += 1) places.push(at);
    undone += text.slice(from, end);
  };
  for (const match of text.matchAll(escapes)) {
    keep(match.index);
    const letters = lettersOf(match);
    // Each of `%41%42` has its own place.
    const step = match[5] !== undefined && letters.length * 3 === match[0].length ? 3 : 0;
    for (let at = 0; at < letters.length; at += 1) places.push(match.index + at * step);
    undone += letters;
    from = match.index + match[0].length;
  }
  if (from === 0) return undefined;
  keep(text.length);
  places.push(text.length);
  return { text: undone, map: Int32Array.from(places) };
}

function lettersOf([, braced, four, two, letter, percents, hex, decimal]: RegExpMatchArray) {
  if (letter !== undefined) return /[nrtbfv]/.test(letter) ? '\n' : letter;
  if (percents !== undefined) return utf8(percents);
  const digits = braced ?? four ?? two ?? hex;
  const code = digits === undefined ? Number(decimal) : Number.parseInt(digits, 16);
  return code <= 0x10ffff ? String.fromCodePoint(code) : '';
}

function utf8(percents: string): string {
  return Buffer.from(percents.replaceAll('%', ''), 'hex').toString('utf8');
}

function composed(outer: View, inner: View): View {
  const { map } = inner;
  if (map === undefined) return outer;
  return { text: inner.text, map: map.map((at) => startOf(outer, at)) };
}
