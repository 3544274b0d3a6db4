import { setTimeout as sleep } from 'node:timers/promises';
import {
  Client,
  Connection,
  defaultGrpcRetryOptions,
  makeGrpcRetryInterceptor,
  ServiceError,
  WithStartWorkflowOperation,
  WorkflowNotFoundError,
  WorkflowUpdateFailedError,
  WorkflowUpdateRPCTimeoutOrCancelledError,
} from '@temporalio/client';
import { ActivityFailure, ApplicationFailure, NamespaceNotFoundError } from '@temporalio/common';
import { AppError, type ErrorCode, type ErrorDetails } from '../domain/errors';
import type { Db } from '../domain/sql';
import type { Trace } from '../domain/trace';
import { createTurns, type Turns } from '../runtime/turns';
import { grpcCode, type TemporalAddress } from './connection';
import {
  type InputOf,
  type ResultOf,
  type Start,
  startOptions,
  type UpdateName,
  type WorkflowName,
} from './starts';
import { temporalStatus } from './status';
import { inTrace } from './traces';

/** Temporal accepts a message in this time, or the caller gets 503: look and repeat. */
const ACCEPT_MS = 2_000;
const RESULT_MS = 25_000;
// Between tries of a message that met the workflow's end, or a task that was undone.
const PAUSE_MS = { first: 50, longest: 500 };
// gRPC: RESOURCE_EXHAUSTED. So answers Temporal, too, if a workflow that has just ended is started
// again within a second: the tries outlast that second, and end within the time for accepting.
const EXHAUSTED = 8;

/**
 * Updates of one organization and kind of workflow that are under way at one time, so that one
 * organization's many do not keep Temporal and the workers from the others'; the rest wait. Those
 * of payments wait for a provider most of their time.
 */
const VERDICTS_MAX = 2;
const PAYMENTS_MAX = 4;
/** What is left of the time for the result is enough for one that has its turn at last. */
const TURN_MS = 10_000;

export type Temporal = ReturnType<typeof openTemporal>;

export interface UpdateOptions {
  /** Callers under one id share one update. */
  update_id?: string;
  /**
   * False if a row says how things stand: then the time a result takes, or a full workflow, is no
   * failure.
   */
  isResultNeeded?: boolean;
  /**
   * True if a row shows that the workflow works on it: then it has taken the message though it has
   * not said so yet.
   */
  isUnderWay?: () => Promise<boolean>;
  /**
   * True if a row shows that nothing is left to wait for: then a message that came too late is not
   * sent again.
   */
  isDone?: () => Promise<boolean>;
}

const RECONNECT_MS_MAX = 2_000;

/** A client that connects when it is first used, and gives up soon if Temporal is away. */
export function openTemporal(
  { namespace, ...to }: TemporalAddress & { namespace: string },
  db: Db,
) {
  const initialIntervalMs = ({ code }: { code: number }) => (code === EXHAUSTED ? 300 : 100);
  const retry = defaultGrpcRetryOptions({ maxAttempts: 3, initialIntervalMs });
  const connection = Connection.lazy({
    ...to,
    interceptors: [makeGrpcRetryInterceptor(retry)],
    // A server that comes back is found within seconds; left alone, the pause grows to two minutes.
    channelArgs: { 'grpc.max_reconnect_backoff_ms': RECONNECT_MS_MAX },
  });
  const client = new Client({ connection, namespace });
  const waiting = {
    wait_ms: TURN_MS,
    message: 'Too much of this organization is under way. Repeat the request after Retry-After.',
  };
  const verdicts = createTurns({ most: VERDICTS_MAX, ...waiting });
  const payments = createTurns({ most: PAYMENTS_MAX, ...waiting });
  const turnsOf = (workflow: WorkflowName) => (workflow === 'costTicket' ? verdicts : payments);
  const updater = (of: Client) => updaterOf(of, db, turnsOf);
  return {
    update: updater(client),
    /** The same, whose messages are part of a trace. */
    inTrace: (trace: Trace) => ({ update: updater(inTrace(client, trace)) }),
    /** Throws if Temporal does not answer within 3 s. */
    status: () => temporalStatus(client),
    close: () => connection.close(),
  };
}

function updaterOf(client: Client, db: Db, turnsOf: (workflow: WorkflowName) => Turns) {
  /**
   * Sends an update to a row's workflow, started if it does not run, and waits for its result.
   * Undefined if the result is not needed and does not come in time. Throws the refusal that the
   * workflow answers, or 503 if Temporal is away or too many of its organization are before it.
   */
  return async <W extends WorkflowName, N extends UpdateName<W>>(
    start: Start<W>,
    name: N,
    input: InputOf<W, N>,
    options?: UpdateOptions,
  ): Promise<ResultOf<W, N> | undefined> => {
    const give_up_at = Date.now() + RESULT_MS;
    const end = await turnsOf(start.workflow).take(`${start.org_id} ${start.workflow}`);
    try {
      return await update<ResultOf<W, N>>(client, db, { start, name, input, options }, give_up_at);
    } finally {
      end();
    }
  };
}

interface Update {
  start: Start;
  name: string;
  input: unknown;
  options?: UpdateOptions | undefined;
}

async function update<Result>(
  client: Client,
  db: Db,
  message: Update,
  give_up_at: number,
): Promise<Result> {
  for (let pause_ms = PAUSE_MS.first; ; pause_ms = Math.min(2 * pause_ms, PAUSE_MS.longest)) {
    try {
      return await send<Result>(client, db, message, give_up_at);
    } catch (error) {
      // It ended as the message came: started anew, it reads its row and answers. Or its task was
      // undone by another message, or by the death of its worker.
      const isPassing = hasJustEnded(error) || isUndone(error);
      if (isPassing && Date.now() + pause_ms < give_up_at) {
        if (await message.options?.isDone?.()) return undefined as Result;
        await sleep(pause_ms);
        continue;
      }
      if (message.options?.isResultNeeded === false && isFull(error)) return undefined as Result;
      throw isPassing || isFull(error) ? away() : (refusalOf(error) ?? error);
    }
  }
}

async function send<Result>(
  client: Client,
  db: Db,
  { start, name, input, options = {} }: Update,
  give_up_at: number,
): Promise<Result> {
  const { update_id, isResultNeeded = true, isUnderWay } = options;
  const operation = new WithStartWorkflowOperation(start.workflow, {
    ...(await startOptions(db, start)),
    args: [input],
    workflowIdConflictPolicy: 'USE_EXISTING',
  });
  const accepting = client.withDeadline(give_up_at, () =>
    client.workflow.startUpdateWithStart(name, {
      args: [input],
      ...(update_id === undefined ? {} : { updateId: update_id }),
      startWorkflowOperation: operation,
      waitForStage: 'ACCEPTED',
    }),
  );
  const handle = await inTime(accepting, isUnderWay);
  const result = client.withDeadline(give_up_at, () => handle.result());
  if (isResultNeeded) return (await result) as Result;
  return (await result.catch((error) => {
    if (!(error instanceof WorkflowUpdateRPCTimeoutOrCancelledError)) throw error;
  })) as Result;
}

/** The update's handle within 2 s, or later if its row shows that it was accepted; else 503. */
async function inTime<T>(
  accepting: Promise<T>,
  isUnderWay: () => Promise<boolean> = async () => false,
): Promise<T> {
  const late = Symbol();
  const first = await Promise.race([accepting, sleep(ACCEPT_MS, late, { ref: false })]);
  if (first !== late) return first as T;
  if (await isUnderWay()) return accepting;
  accepting.catch(() => undefined);
  throw away();
}

function hasJustEnded(error: unknown): boolean {
  if (error instanceof WorkflowNotFoundError) return true;
  const { cause } = error as { cause?: unknown };
  return cause instanceof ApplicationFailure && cause.type === 'AcceptedUpdateCompletedWorkflow';
}

// gRPC: FAILED_PRECONDITION.
const UNDONE = 9;

/**
 * Another message came while the task ran that would have ended the workflow: the task runs again,
 * without this message.
 */
function isUndone(error: unknown): boolean {
  return grpcCode(error) === UNDONE;
}

/** The workflow takes no more messages at this moment. */
function isFull(error: unknown): boolean {
  return grpcCode(error) === EXHAUSTED;
}

/** The workflow's refusal as the API's own error; undefined if the failure is a bug. */
function refusalOf(error: unknown): AppError | undefined {
  if (error instanceof WorkflowUpdateFailedError) {
    const cause = error.cause instanceof ActivityFailure ? error.cause.cause : error.cause;
    if (!(cause instanceof ApplicationFailure) || !cause.type) return undefined;
    const [details] = (cause.details ?? []) as ErrorDetails[];
    return new AppError(cause.type as ErrorCode, cause.message, details ?? {});
  }
  const is_away =
    error instanceof WorkflowUpdateRPCTimeoutOrCancelledError ||
    error instanceof ServiceError ||
    error instanceof NamespaceNotFoundError;
  return is_away ? away() : undefined;
}

function away(): AppError {
  return new AppError(
    'unavailable',
    'Temporal did not answer in time. Look at how things stand before you repeat this.',
    { retry_after: 2 },
  );
}
