import { Context } from '@temporalio/activity';
import { ApplicationFailure } from '@temporalio/common';
import type { Life } from './exports';

const BEAT_MS = 2_000;

/** An error ends a step for good after so long and so many tries; restarts of workers do not. */
const TRIES_MIN = 8;
const TRIED_MS_MIN = 10 * 60_000;

/**
 * Runs a step that takes long: Temporal hears that its worker lives, and the step that it is to
 * stop, since somebody canceled it or its worker stops. Then another worker takes it up at once.
 */
export async function withLife<T>(run: (life: Life) => Promise<T>): Promise<T> {
  const context = Context.current();
  const { attempt, workflowExecution, scheduledTimestampMs } = context.info;
  const { cancellationSignal: signal } = context;
  const beat = setInterval(() => context.heartbeat(), BEAT_MS);
  context.heartbeat();
  try {
    return await run({
      attempt: `${workflowExecution?.runId ?? 'alone'}-${attempt}`,
      requireLife: () => signal.throwIfAborted(),
      signal,
    });
  } catch (error) {
    if (signal.aborted) throw signal.reason.message === 'WORKER_SHUTDOWN' ? handedOver() : error;
    const is_over = attempt >= TRIES_MIN && Date.now() - scheduledTimestampMs > TRIED_MS_MIN;
    throw is_over ? ApplicationFailure.create({ ...named(error), nonRetryable: true }) : error;
  } finally {
    clearInterval(beat);
  }
}

function handedOver(): ApplicationFailure {
  return ApplicationFailure.create({
    message: 'This worker stops; another one goes on.',
    type: 'WorkerStops',
    nextRetryDelay: '10 milliseconds',
  });
}

/** The code of an error of ours, by which the workflow knows it. */
function named(error: unknown) {
  const { code, name, message } = error as { code?: string; name?: string; message?: string };
  return { message: message ?? '', type: name === 'AppError' ? (code ?? name) : (name ?? 'Error') };
}
