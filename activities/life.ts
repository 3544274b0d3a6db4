import { Context } from '@temporalio/activity';
import type { Life } from './exports';

const BEAT_MS = 2_000;

/**
 * Runs a step that takes long: Temporal hears that its worker lives, and the step that it is to
 * stop, since somebody canceled it or its worker stops.
 */
export async function withLife<T>(run: (life: Life) => Promise<T>): Promise<T> {
  const context = Context.current();
  const { attempt, workflowExecution } = context.info;
  const { cancellationSignal } = context;
  const beat = setInterval(() => context.heartbeat(), BEAT_MS);
  context.heartbeat();
  try {
    return await run({
      attempt: `${workflowExecution?.runId ?? 'alone'}-${attempt}`,
      requireLife: () => cancellationSignal.throwIfAborted(),
    });
  } finally {
    clearInterval(beat);
  }
}
