import { Context } from '@temporalio/activity';
import { ApplicationFailure } from '@temporalio/common';
import { AppError } from '../domain/errors';
import { cannotWorkNow, isTransient } from '../domain/sql';
import type { Life } from './exports';

const BEAT_MS = 2_000;

/** An error ends a step for good once so many tries in a row have failed, for so long. */
const FAILURES_MIN = 8;
const FAILING_MS_MIN = 10 * 60_000;

/** Failures of a step in a row: its heartbeats carry them from one try to the next. */
interface Failing {
  count: number;
  /** When the first of them happened, in milliseconds of the workers' clock. */
  since_ms: number;
}

/**
 * Runs a step that takes long: Temporal hears that its worker lives, and the step that it is to
 * stop, since somebody canceled it or its worker stops. Then another worker takes it up at once.
 * Tries whose worker stopped or died are no failures, nor are those of a database that is away.
 */
export async function withLife<T>(run: (life: Life) => Promise<T>): Promise<T> {
  const context = Context.current();
  const { attempt, workflowExecution, heartbeatDetails } = context.info;
  const { cancellationSignal: signal } = context;
  // A worker of an older version gives none.
  const before = (heartbeatDetails as Failing | null | undefined) ?? undefined;
  const beat = setInterval(() => context.heartbeat(before), BEAT_MS);
  context.heartbeat(before);
  try {
    return await run({
      attempt: `${workflowExecution?.runId ?? 'alone'}-${attempt}`,
      requireLife: () => signal.throwIfAborted(),
      signal,
    });
  } catch (error) {
    if (signal.aborted) throw signal.reason.message === 'WORKER_SHUTDOWN' ? handedOver() : error;
    if (passes(error)) throw databaseAway(error);
    const failing = { since_ms: before?.since_ms ?? Date.now(), count: (before?.count ?? 0) + 1 };
    // It is sent ahead of the failure.
    context.heartbeat(failing);
    const is_over = failing.count >= FAILURES_MIN && Date.now() - failing.since_ms > FAILING_MS_MIN;
    throw is_over ? ApplicationFailure.create({ ...named(error), nonRetryable: true }) : error;
  } finally {
    clearInterval(beat);
  }
}

/** True for what ends with the outage of the database, however long that is. */
function passes(error: unknown): boolean {
  const is_busy = (error as { code?: string }).code === 'unavailable';
  return is_busy || isTransient(error) || cannotWorkNow(error);
}

function databaseAway(error: unknown): AppError {
  const { message } = error as { message?: string };
  return new AppError(
    'unavailable',
    `The database is away or cannot work now; this goes on as soon as it can. It said: ${message}`,
  );
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
