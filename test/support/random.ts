/** Numbers from 0 up to 1 that a seed repeats. */
export type Random = () => number;

/** The seed of this test file: `TEST_SEED`, or a fresh one. A test that fails names it. */
export const seed = Number(process.env.TEST_SEED ?? Math.floor(Math.random() * 1e9));

// For the test environment, which prints it.
(globalThis as { test_seed?: number }).test_seed = seed;

/** The numbers of a seed (mulberry32). */
export function randomOf(from: number): Random {
  let state = from >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

export function pick<T>(random: Random, all: readonly T[]): T {
  return all[Math.floor(random() * all.length)] as T;
}
