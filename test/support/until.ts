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

interface Answered {
  status: number;
  headers: Record<string, string | string[] | undefined>;
}

/** True for an answer that says when to come back. */
export function isBusy({ status, headers }: Answered): boolean {
  return status === 503 && headers['retry-after'] !== undefined;
}

/** The answer to a call that is repeated for as long as it is 503 and says when to come back. */
export async function repeated<Answer extends Answered>(
  ask: () => Promise<Answer>,
): Promise<Answer> {
  let answer = await ask();
  await until(async () => {
    if (isBusy(answer)) answer = await ask();
    return !isBusy(answer);
  }).catch(() => undefined);
  return answer;
}
