import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';

/**
 * The processor's time that some work takes, in milliseconds. User and system time together: the
 * kernel counts only their sum exactly and divides it between the two by samples, so that either
 * alone may read 0 for work of several milliseconds.
 */
export async function cpuMsOf(work: () => unknown): Promise<number> {
  const before = process.cpuUsage();
  await work();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1_000;
}

/**
 * The processor's time of this thread so far, in milliseconds; the time of the clock where the
 * system does not tell. The kernel counts it up as the thread pauses.
 */
export function threadMs(): number {
  try {
    return Number(readFileSync('/proc/thread-self/schedstat', 'utf8').split(' ')[0]) / 1e6;
  } catch {
    return performance.now();
  }
}

/**
 * The smallest of several figures, taken until one is below `enough`: what the work costs, not what
 * else the machine did meanwhile. Several may fall on the collector of garbage or on a busy
 * neighbour; a fault that costs time each time is in all of them.
 */
export async function leastOf(
  tries: number,
  enough: number,
  measure: () => number | Promise<number>,
): Promise<number> {
  let least = Number.POSITIVE_INFINITY;
  for (let n = 0; n < tries && least >= enough; n += 1) least = Math.min(least, await measure());
  return least;
}

/**
 * How long some work takes, and the longest time that a reference takes, which is asked for again
 * and again meanwhile: what a bound on the work grows by if the machine is slow.
 */
export async function besideReference<T>(
  reference: () => Promise<unknown>,
  work: () => Promise<T>,
): Promise<{ result: T; took_ms: number; reference_ms: number }> {
  let is_over = false;
  let reference_ms = 0;
  const refer = async () => {
    do {
      const since = performance.now();
      await reference();
      reference_ms = Math.max(reference_ms, performance.now() - since);
      await sleep(50);
    } while (!is_over);
  };
  const measure = async () => {
    const since = performance.now();
    const result = await work().finally(() => {
      is_over = true;
    });
    return { result, took_ms: performance.now() - since };
  };
  const [measured] = await Promise.all([measure(), refer()]);
  return { ...measured, reference_ms };
}
