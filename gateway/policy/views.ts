import { unseen } from '../wire/unseen';
import { remembered } from './characters';
import { entities, long_names, short_names } from './entities';

/**
 * A text as it is looked at, and where each of its characters stands in the text that was given.
 */
export interface View {
  text: string;
  /** Undefined if every character keeps its place. */
  map: Int32Array | undefined;
  /**
   * It is one reading among several of what may be no form at all: patterns would find too much in
   * it.
   */
  is_for_terms?: boolean;
}

// Other control characters are not seen.
const plain = /^[\t-\r\x20-\x7e]*$/;
// Escapes may hide letters: those of JSON and most languages, of URLs, and of HTML.
const escaped = /[\\%&]/;

// Escapes in escapes in escapes; nobody reads more of them.
const ROUNDS = 3;

/**
 * Gives the ways in which a text may be read. If more text follows, it leaves out what may be the
 * beginning of an escape.
 */
type Reading = (text: string, is_final: boolean) => View[];

/**
 * Reads texts as they stand, and with their escapes undone once and again, all without invisible
 * characters and with those of one meaning made one (NFKC).
 */
export function createReading(): Reading {
  const cleanOf = remembered(cleanCharacter);
  return (text, is_final) => {
    let view = cleaned(text, cleanOf);
    const views = [view];
    for (let round = 0; round < ROUNDS && escaped.test(view.text); round += 1) {
      const undone = unescaped(view.text);
      const bare = undone && composed(view, undone);
      const next = bare === undefined ? view : composed(bare, cleaned(bare.text, cleanOf));
      const end = is_final ? next.text.length : openFrom(next.text);
      if (bare === undefined && end === next.text.length) break;
      view = end < next.text.length ? upTo(next, end) : next;
      views.push(view);
      if (bare === undefined) break;
    }
    return text.includes('+') || views.length > 1 ? [...views, ...formsOf(views)] : views;
  };
}

/** The same views as forms write them: there a plus is a space. */
function formsOf(views: readonly View[]): View[] {
  return views
    .filter(({ text }) => text.includes('+'))
    .map(({ text, map }) => ({ text: text.replaceAll('+', ' '), map, is_for_terms: true }));
}

function upTo({ text, map }: View, end: number): View {
  return { text: text.slice(0, end), map: map?.subarray(0, end + 1) };
}

// The beginnings of escapes that the next piece of a stream may complete; one character of a URL
// takes up to four of them.
const open =
  /(?:\\+(?:u(?:\{[0-9a-f]{0,6}|[0-9a-f]{0,3})|x[0-9a-f]?|[0-3][0-7]?)?|(?:%[cd][0-9a-f]|%e[0-9a-f](?:%[89ab][0-9a-f])?|%f[0-7](?:%[89ab][0-9a-f]){0,2})(?:%[89ab]?)?|%[0-9a-f]?|&(?:#(?:x[0-9a-f]{0,14}|\d{0,14})?|[a-z][a-z\d]{0,23})?)$/i;
const OPEN_MAX = 64;

/** The place where an incomplete character begins; the text's length if there is none. */
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

/** One character as NFKC writes it; nothing for one that is not seen. */
function cleanCharacter(code: number): string {
  const character = String.fromCodePoint(code);
  return unseen.test(character) ? '' : character.normalize('NFKC');
}

function cleaned(text: string, cleanOf: (code: number) => string): View {
  if (plain.test(text)) return { text, map: undefined };
  let clean = '';
  const places: number[] = [];
  const { length } = text;
  for (let at = 0; at < length; ) {
    const code = text.codePointAt(at) as number;
    const is_plain = code >= 0x20 && code < 0x7f;
    const character = is_plain ? (text[at] as string) : cleanOf(code);
    for (let unit = 0; unit < character.length; unit += 1) places.push(at);
    clean += character;
    at += code > 0xffff ? 2 : 1;
  }
  places.push(length);
  return { text: clean, map: Int32Array.from(places) };
}

const escapes = new RegExp(
  [
    '(?<!\\\\)\\\\+(?:u\\{([0-9a-f]{1,6})\\}|u([0-9a-f]{4})|x([0-9a-f]{2})|([0-3][0-7]{2})|([^\\\\]))',
    '((?:%[0-9a-f]{2})+)',
    '&#x0{0,8}([0-9a-f]{1,6});?',
    '&#0{0,8}(\\d{1,7});?',
    `&(?:(${long_names});?|(${short_names});)`,
  ].join('|'),
  'gi',
);

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
    const step = match[6] !== undefined && letters.length * 3 === match[0].length ? 3 : 0;
    for (let at = 0; at < letters.length; at += 1) places.push(match.index + at * step);
    undone += letters;
    from = match.index + match[0].length;
  }
  if (from === 0) return undefined;
  keep(text.length);
  places.push(text.length);
  return { text: undone, map: Int32Array.from(places) };
}

function lettersOf(match: RegExpMatchArray): string {
  const [, braced, four, two, octal, letter, percents, hex, decimal, entity, short] = match;
  if (letter !== undefined) return /[nrtbfv]/.test(letter) ? '\n' : letter;
  if (percents !== undefined) return utf8(percents);
  if (octal !== undefined) return String.fromCharCode(Number.parseInt(octal, 8));
  const name = entity ?? short;
  if (name !== undefined) return entities.get(name.toLowerCase()) ?? '';
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
