import { setTimeout as sleep } from 'node:timers/promises';

/**
 * Waits until the condition holds, looking every 25 ms; fails after the given time. That is no
 * bound on what is waited for: a busy machine may take several times as long as a quiet one.
 */
export async function until(
  condition: () => boolean | Promise<boolean>,
  timeout_ms = 120_000,
): Promise<void> {
  const deadline = performance.now() + timeout_ms;
  while (!(await condition())) {
    if (performance.now() > deadline)
      throw new Error(`Still not true after ${timeout_ms} ms: ${condition}`);
    await sleep(25);
  }
}

/** The answer to a call that is repeated for as long as it is 503 and says when to come back. */
export async function repeated<
  Answer extends { status: number; headers: Record<string, string | string[] | undefined> },
>(ask: () => Promise<Answer>): Promise<Answer> {
  let answer = await ask();
  const isBusy = () => answer.status === 503 && answer.headers['retry-after'] !== undefined;
  await until(async () => {
    if (isBusy()) answer = await ask();
    return !isBusy();
  }).catch(() => undefined);
  return answer;
}
