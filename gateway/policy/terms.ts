import { codeAt } from '../wire/scan';
import { withoutUnseen } from '../wire/unseen';
import { remembered } from './characters';
import type { Range } from './patterns';
import { newTrie, nextState, type Trie } from './trie';

/** A term that was found; `rule` is its number in the list. */
interface FoundTerm extends Range {
  rule: number;
}

export type Terms = ReturnType<typeof createTerms>;

const SPACE = 0x20;

/**
 * Looks for many terms in one pass, however many they are: in any case, with or without accents. A
 * blank of a term stands for any white space, and for none.
 */
export function createTerms(list: readonly string[]) {
  const foldOf = remembered(folded);
  const terms = list.map((term) => termOf(term.normalize('NFKC').trim(), foldOf));
  const trie = newTrie(terms.map(({ units }) => units));
  const longest = terms.reduce((most, { units }) => Math.max(most, units.length), 1);
  // One pass at a time, so they share the places.
  const track: Track = {
    places: new Int32Array(longest + 1),
    is_behind_gap: new Uint8Array(longest + 1),
  };
  const of_ascii = Uint32Array.from(ascii, (unit) => trie.columns.get(unit) ?? 0);
  const is_idle = Uint8Array.from(of_ascii, (column) => (trie.roots[column] === 0 ? 1 : 0));
  return {
    /**
     * `partial` is the place at the text's end from which a term may be beginning, else the text's
     * length.
     */
    find(text: string, from: number): { found: FoundTerm[]; partial: number } {
      // Read once: in a loop, the length of strings of many kinds is looked up anew for each
      // character.
      const { length } = text;
      const walk: Walk = { terms, trie, track, state: 0, count: 0, gap: -1, found: [] };
      for (let at = from; at < length; ) {
        if (walk.state === 0) {
          at = passOver(text, at, is_idle);
          if (at === length) break;
        }
        const code = codeAt(text, at);
        if (code >= 0x80) {
          const character = text.codePointAt(at) as number;
          const end = at + (character > 0xffff ? 2 : 1);
          stepOver(walk, foldOf(character), { start: at, end });
          at = end;
          continue;
        }
        if (ascii[code] === SPACE) walk.gap = walk.count;
        else step(walk, of_ascii[code] as number, at, at + 1);
        at += 1;
      }
      return { found: walk.found, partial: startAt(walk, trie.depths[walk.state] as number, text) };
    },
  };
}

/** The first place from here on where a term may begin: most of any text is passed over here. */
function passOver(text: string, from: number, is_idle: Uint8Array): number {
  const { length } = text;
  let at = from;
  // A character that is no ASCII reads as undefined.
  while (at < length && is_idle[codeAt(text, at)] === 1) at += 1;
  return at;
}

/** The last units of a text, as many as the longest term has. */
interface Track {
  places: Int32Array;
  /** White space stands before the unit. */
  is_behind_gap: Uint8Array;
}

/** Where one pass over a text stands. White space is no unit of its own: it leaves a gap. */
interface Walk {
  terms: readonly Term[];
  trie: Trie;
  track: Track;
  state: number;
  count: number;
  /** The number of the last unit that stands behind a gap, or will; -1 if there is none. */
  gap: number;
  found: FoundTerm[];
}

function step(walk: Walk, column: number, at: number, end: number): void {
  const { trie, track, count } = walk;
  walk.state = nextState(trie, walk.state, column);
  // No term goes on here, so nobody will ask for this place.
  if (walk.state === 0) return;
  const place = count % track.places.length;
  track.places[place] = at;
  track.is_behind_gap[place] = walk.gap === count ? 1 : 0;
  walk.count = count + 1;
  const rule = foundAt(walk);
  if (rule < 0) return;
  const { length } = (walk.terms[rule] as Term).units;
  walk.found.push({ rule, start: startAt(walk, length, ''), end });
}

/** The longest term that ends with the last unit and has a blank wherever the text has a gap. */
function foundAt({ trie, terms, track, state, count, gap }: Walk): number {
  const { ends, words, next_ends } = trie;
  for (let at = state; at !== 0; at = next_ends[at] as number) {
    for (let index = ends[at] as number; index < (ends[at + 1] as number); index += 1) {
      const rule = words[index] as number;
      const { units, is_behind_blank } = terms[rule] as Term;
      const start = count - units.length;
      if (gap <= start || suits(is_behind_blank, start, track)) return rule;
    }
  }
  return -1;
}

/** True if there is no gap in the middle of a word of the term. */
function suits(is_behind_blank: readonly boolean[], start: number, track: Track): boolean {
  const { is_behind_gap } = track;
  return is_behind_blank.every(
    (is_behind, at) =>
      at === 0 || is_behind || is_behind_gap[(start + at) % is_behind_gap.length] === 0,
  );
}

/** Steps over the units of one character that is no ASCII. */
function stepOver(walk: Walk, units: string, { start, end }: Range): void {
  for (let index = 0; index < units.length; index += 1) {
    const unit = units.charCodeAt(index);
    if (unit === SPACE) walk.gap = walk.count;
    else step(walk, walk.trie.columns.get(unit) ?? 0, start, end);
  }
}

/** Where the last units of a walk begin. */
function startAt({ track: { places }, count }: Walk, units: number, text: string): number {
  return units === 0 ? text.length : (places[(count - units) % places.length] as number);
}

// Upper case is made lower case, and what stands between words a space.
const ascii = Uint8Array.from({ length: 128 }, (_, code) => {
  if (code >= 0x41 && code <= 0x5a) return code + 0x20;
  return code <= 0x20 || code === 0x7f ? SPACE : code;
});

// Marks that stand over the letters of alphabets; those of other scripts make other letters.
const accents = /[\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]/g;

function folded(code: number): string {
  const character = String.fromCodePoint(code);
  // White space and a control at once: it may stand between words, and in their middle.
  if (code === 0x85) return '';
  const is_syllable = code >= 0xac00 && code <= 0xd7a3;
  const letters = is_syllable ? character : character.normalize('NFKD').replace(accents, '');
  // Upper case first: it is what the long s and the sharp s share with their letters.
  return letters.toUpperCase().toLowerCase().replace(/\s+/g, ' ');
}

/** What a term is looked for by: its units without blanks, and which of them stand behind one. */
interface Term {
  units: number[];
  is_behind_blank: boolean[];
}

function termOf(term: string, foldOf: (code: number) => string): Term {
  const found: Term = { units: [], is_behind_blank: [] };
  let is_behind = false;
  for (const character of withoutUnseen(term.replaceAll('\x85', ' '))) {
    const code = character.codePointAt(0) as number;
    const fold = code < 0x80 ? String.fromCharCode(ascii[code] as number) : foldOf(code);
    for (let at = 0; at < fold.length; at += 1) {
      const unit = fold.charCodeAt(at);
      if (unit !== SPACE) {
        found.units.push(unit);
        found.is_behind_blank.push(is_behind);
      }
      is_behind = unit === SPACE;
    }
  }
  return found;
}
