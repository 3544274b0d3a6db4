/**
 * The automaton of Aho and Corasick over many words. The states are numbered breadth first, so the
 * children of a state lie behind one another, and each state costs the same few bytes however many
 * different characters the words have.
 */
export interface Trie {
  /** The columns of the characters; 0 is every character that no word has. */
  columns: ReadonlyMap<number, number>;
  /** The children of the root by column: most of any text is decided here. */
  roots: Int32Array;
  /** The children of state s are the states from `first[s]` to `first[s + 1] - 1`. */
  first: Int32Array;
  /** The column by which a state is reached; the children of one state are in its order. */
  reached_by: Int32Array;
  /** The state of the longest end of a state's characters that begins another word. */
  fallbacks: Int32Array;
  depths: Int32Array;
  /** The words that end in a state, as `ends[state]` to `ends[state + 1] - 1` of `words`. */
  ends: Int32Array;
  words: Int32Array;
  /** The next state on the way of fallbacks in which a word ends; 0 if there is none. */
  next_ends: Int32Array;
}

/** Words that share their first characters, and the state that those lead to. */
interface Shared {
  from: number;
  to: number;
  depth: number;
  state: number;
}

/** Makes the automaton of words, each given by its characters; empty ones are never found. */
export function newTrie(given: readonly (readonly number[])[]): Trie {
  const columns = columnsOf(given);
  const words = given.map((units, word) => ({
    word,
    path: Int32Array.from(units, (unit) => columns.get(unit) as number),
  }));
  words.sort((a, b) => compare(a.path, b.path));
  const states = 1 + statesOf(words);
  const trie = {
    columns,
    roots: new Int32Array(columns.size + 1),
    first: new Int32Array(states + 1),
    reached_by: new Int32Array(states),
    fallbacks: new Int32Array(states),
    depths: new Int32Array(states),
    ends: new Int32Array(states + 1),
    words: Int32Array.from(words, ({ word }) => word),
    next_ends: new Int32Array(states),
  };
  plant(trie, words);
  for (let child = trie.first[0] as number; child < (trie.first[1] as number); child += 1) {
    trie.roots[trie.reached_by[child] as number] = child;
  }
  link(trie);
  return trie;
}

/** The state that a column leads to. */
export function nextState(trie: Trie, from: number, column: number): number {
  if (column === 0) return 0;
  for (let state = from; state !== 0; state = trie.fallbacks[state] as number) {
    const child = childOf(trie, state, column);
    if (child !== 0) return child;
  }
  return trie.roots[column] as number;
}

function childOf({ first, reached_by }: Trie, state: number, column: number): number {
  let low = first[state] as number;
  let high = first[state + 1] as number;
  while (low < high) {
    const middle = (low + high) >> 1;
    const found = reached_by[middle] as number;
    if (found === column) return middle;
    if (found < column) low = middle + 1;
    else high = middle;
  }
  return 0;
}

interface Word {
  word: number;
  path: Int32Array;
}

function columnsOf(words: readonly (readonly number[])[]): Map<number, number> {
  const columns = new Map<number, number>();
  for (const units of words) {
    for (const unit of units) if (!columns.has(unit)) columns.set(unit, columns.size + 1);
  }
  return columns;
}

function compare(a: Int32Array, b: Int32Array): number {
  const shared = sharedLength(a, b);
  if (shared === a.length || shared === b.length) return a.length - b.length;
  return (a[shared] as number) - (b[shared] as number);
}

function sharedLength(a: Int32Array, b: Int32Array): number {
  let at = 0;
  while (at < a.length && at < b.length && a[at] === b[at]) at += 1;
  return at;
}

/** How many different beginnings sorted words have. */
function statesOf(words: readonly Word[]): number {
  let count = 0;
  for (const [at, { path }] of words.entries()) {
    const before = words[at - 1];
    count += path.length - (before === undefined ? 0 : sharedLength(before.path, path));
  }
  return count;
}

/** Numbers the states level by level; those who share a state lie behind one another. */
function plant(trie: Trie, words: readonly Word[]): void {
  const { first, reached_by, depths, ends } = trie;
  const sorted = trie.words.slice();
  let level: Shared[] = [{ from: 0, to: words.length, depth: 0, state: 0 }];
  let made = 0;
  let ended = 0;
  while (level.length > 0) {
    const below: Shared[] = [];
    for (const { from, to, depth, state } of level) {
      first[state] = made + 1;
      ends[state] = ended;
      for (let at = from; at < to; ) {
        const begin = at;
        const column = words[at]?.path[depth];
        while (at < to && words[at]?.path[depth] === column) at += 1;
        if (column === undefined) {
          trie.words.set(sorted.subarray(begin, at), ended);
          ended += at - begin;
          continue;
        }
        made += 1;
        reached_by[made] = column;
        depths[made] = depth + 1;
        below.push({ from: begin, to: at, depth: depth + 1, state: made });
      }
    }
    level = below;
  }
  first[made + 1] = made + 1;
  ends[made + 1] = ended;
}

/** Fallbacks of a state are those of its parent, continued; parents have smaller numbers. */
function link(trie: Trie): void {
  const { first, reached_by, fallbacks, ends, next_ends } = trie;
  const states = reached_by.length;
  for (let state = 0; state < states; state += 1) {
    for (let child = first[state] as number; child < (first[state + 1] as number); child += 1) {
      const column = reached_by[child] as number;
      const fallback = state === 0 ? 0 : nextState(trie, fallbacks[state] as number, column);
      fallbacks[child] = fallback;
      const is_end = (ends[fallback + 1] as number) > (ends[fallback] as number);
      next_ends[child] = is_end && fallback !== 0 ? fallback : (next_ends[fallback] as number);
    }
  }
}
