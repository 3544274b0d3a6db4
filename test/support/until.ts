import { setTimeout as sleep } from 'node:timers/promises';

/**
 * Waits until the condition holds, looking every 25 ms; fails after the given time. That is no
 * bound on what is waited for: a busy machine may take several times as long as a quiet one.
 */
export async function until(
  condition: () => boolean | Promise<boolean>,
  timeout_ms = 60_000,
): Promise<void> {
  const deadline = performance.now() + timeout_ms;
  while (!(await condition())) {
    if (performance.now() > deadline)
      throw new Error(`Still not true after ${timeout_ms} ms: ${condition}`);
    await sleep(25);
  }
}
