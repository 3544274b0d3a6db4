import { codeAt } from '../wire/scan';
import { remembered } from './characters';
import type { Range } from './patterns';

/** A term that was found; `rule` is its number in the list. */
interface FoundTerm extends Range {
  rule: number;
}

export type Terms = ReturnType<typeof createTerms>;

const SPACE = 0x20;

/**
 * Looks for many terms in one pass, however many they are: in any case, with or without accents,
 * with any white space for theirs.
 */
export function createTerms(list: readonly string[]) {
  const foldOf = remembered(folded);
  const trie = newTrie(list.map((term) => unitsOf(term.normalize('NFKC').trim(), foldOf)));
  // One pass at a time, so they share the places.
  const ring = new Int32Array(trie.longest + 1);
  const of_ascii = Uint32Array.from(ascii, (unit) => trie.classes.get(unit) ?? 0);
  const is_idle = Uint8Array.from(of_ascii, (column) => (trie.next[column] === 0 ? 1 : 0));
  return {
    /**
     * `partial` is the place at the text's end from which a term may be beginning, else the text's
     * length.
     */
    find(text: string, from: number): { found: FoundTerm[]; partial: number } {
      // Read once: in a loop, the length of strings of many kinds is looked up anew for each
      // character.
      const { length } = text;
      const walk: Walk = { state: 0, ring, count: 0, after_space: false, found: [] };
      for (let at = from; at < length; ) {
        if (walk.state === 0) {
          at = passOver(text, at, is_idle);
          if (at === length) break;
        }
        const code = codeAt(text, at);
        if (code >= 0x80) {
          const character = text.codePointAt(at) as number;
          const end = at + (character > 0xffff ? 2 : 1);
          stepOver(trie, walk, foldOf(character), { start: at, end });
          at = end;
          continue;
        }
        const is_space = ascii[code] === SPACE;
        if (!is_space || !walk.after_space) step(trie, walk, of_ascii[code] as number, at, at + 1);
        walk.after_space = is_space;
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

/** Where one pass over a text stands. */
interface Walk {
  state: number;
  /** The places of the last units, as many as the longest term has. */
  ring: Int32Array;
  count: number;
  /** Runs of white space are one space. */
  after_space: boolean;
  found: FoundTerm[];
}

function step(trie: Trie, walk: Walk, column: number, at: number, end: number): void {
  const { ring } = walk;
  walk.state = trie.next[walk.state * trie.width + column] as number;
  // No term goes on here, so nobody will ask for this place.
  if (walk.state === 0) return;
  ring[walk.count % ring.length] = at;
  walk.count += 1;
  const rule = trie.rules[walk.state] as number;
  if (rule < 0) return;
  const length = trie.lengths[rule] as number;
  walk.found.push({ rule, start: ring[(walk.count - length) % ring.length] as number, end });
}

/** Steps over the units of one character that is no ASCII. */
function stepOver(trie: Trie, walk: Walk, units: string, { start, end }: Range): void {
  for (let index = 0; index < units.length; index += 1) {
    const unit = units.charCodeAt(index);
    const is_space = unit === SPACE;
    if (!is_space || !walk.after_space) step(trie, walk, trie.classes.get(unit) ?? 0, start, end);
    walk.after_space = is_space;
  }
}

/** Where the last units of a walk begin. */
function startAt({ ring, count }: Walk, units: number, text: string): number {
  return units === 0 ? text.length : (ring[(count - units) % ring.length] as number);
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
  const is_syllable = code >= 0xac00 && code <= 0xd7a3;
  const letters = is_syllable ? character : character.normalize('NFKD').replace(accents, '');
  // Upper case first: it is what the long s and the sharp s share with their letters.
  return letters.toUpperCase().toLowerCase().replace(/\s+/g, ' ');
}

/** The units that a term is looked for by. */
function unitsOf(term: string, foldOf: (code: number) => string): number[] {
  const units: number[] = [];
  for (const character of term.replace(/[\p{Cf}\p{Default_Ignorable_Code_Point}]/gu, '')) {
    const code = character.codePointAt(0) as number;
    const fold = code < 0x80 ? String.fromCharCode(ascii[code] as number) : foldOf(code);
    for (let at = 0; at < fold.length; at += 1) {
      const unit = fold.charCodeAt(at);
      if (unit !== SPACE || units.at(-1) !== SPACE) units.push(unit);
    }
  }
  return units;
}

/** The automaton of Aho and Corasick, with every transition written out. */
interface Trie {
  /** The columns of `next` by unit; 0 is every unit that no term has. */
  classes: Map<number, number>;
  width: number;
  next: Int32Array;
  /** The longest term that ends in a state, or -1. */
  rules: Int32Array;
  depths: Int32Array;
  lengths: number[];
  longest: number;
}

function newTrie(terms: readonly number[][]): Trie {
  const classes = new Map<number, number>();
  for (const unit of terms.flat()) if (!classes.has(unit)) classes.set(unit, classes.size + 1);
  const width = classes.size + 1;
  const states = 1 + terms.reduce((sum, { length }) => sum + length, 0);
  const trie: Trie = {
    classes,
    width,
    next: new Int32Array(states * width),
    rules: new Int32Array(states).fill(-1),
    depths: new Int32Array(states),
    lengths: terms.map(({ length }) => length),
    longest: Math.max(1, ...terms.map(({ length }) => length)),
  };
  plant(trie, terms);
  link(trie);
  return trie;
}

function plant({ next, rules, depths, classes, width }: Trie, terms: readonly number[][]): void {
  let made = 0;
  for (const [rule, units] of terms.entries()) {
    let state = 0;
    for (const unit of units) {
      const at = state * width + (classes.get(unit) as number);
      if (next[at] === 0) {
        made += 1;
        next[at] = made;
        depths[made] = (depths[state] as number) + 1;
      }
      state = next[at] as number;
    }
    // A term of nothing but invisible characters is none.
    if (state !== 0 && rules[state] === -1) rules[state] = rule;
  }
}

/**
 * Completes the transitions: if a term breaks off, the longest end of it that begins another term
 * goes on.
 */
function link({ next, rules, width }: Trie): void {
  const fallbacks = new Int32Array(rules.length);
  const queue: number[] = [];
  for (let unit = 0; unit < width; unit += 1)
    if (next[unit] !== 0) queue.push(next[unit] as number);
  for (let at = 0; at < queue.length; at += 1) {
    const state = queue[at] as number;
    const fallback = fallbacks[state] as number;
    if (rules[state] === -1) rules[state] = rules[fallback] as number;
    for (let unit = 0; unit < width; unit += 1) {
      const child = next[state * width + unit] as number;
      const other = next[fallback * width + unit] as number;
      if (child === 0) next[state * width + unit] = other;
      else {
        fallbacks[child] = other;
        queue.push(child);
      }
    }
  }
}
