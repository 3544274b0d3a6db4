import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client, Connection } from '@temporalio/client';
import { IllegalStateError } from '@temporalio/common';
import { DefaultLogger, NativeConnection, Runtime, type Worker } from '@temporalio/worker';
import { activities_of } from '../../activities';
import type { NoticeWays } from '../../activities/notices';
import { type Db, many } from '../../domain/sql';
import { createLog } from '../../runtime/log';
import type { Tracing } from '../../runtime/telemetry/spans';
import { useTemporal } from '../../sandbox/servers/temporal';
import { openTemporal, type Temporal } from '../../temporal/client';
import { dispatchDue } from '../../temporal/outbox';
import type { WorkerName } from '../../temporal/queues';
import { bundleWorkflows } from '../../workers/bundle';
import { createWorkers } from '../../workers/run';
import { payment_hosts, secrets } from './api';
import { until } from './until';

installRuntime();

export interface TestWorker {
  namespace: string;
  /** Runs a further worker program beside it, until the test's worker is closed. */
  runAlso: (name: WorkerName) => Promise<void>;
  client: Client;
  /** The client with which an API over the same database sends its updates. */
  temporal: Temporal;
  /** Sends the messages that wait in the outbox now. */
  dispatch: () => Promise<number>;
  close: () => Promise<void>;
}

/**
 * A namespace of its own on the shared server with a worker over a test's database: queues of test
 * files never mix.
 */
export async function openWorker(
  db: Db,
  address = process.env.TEST_TEMPORAL_ADDRESS as string,
  tracing?: Tracing,
  notice_ways?: NoticeWays,
): Promise<TestWorker> {
  const namespace = `test-${randomUUID()}`;
  await useTemporal({ address }, namespace);
  const connection = await NativeConnection.connect({ address });
  const client = new Client({ connection: await Connection.connect({ address }), namespace });
  const workflow_code = await bundleWorkflows();
  const parts = { connection, namespace, workflow_code, tracing };
  const workers: Worker[] = [];
  const running: Promise<void>[] = [];
  const run = async (name: WorkerName, activities: object) => {
    const started = await createWorkers({ ...parts, name, activities });
    workers.push(...started);
    running.push(...started.map((worker) => worker.run()));
  };
  const given = { db, secrets, payment_hosts, notice_ways };
  const runAlso = (name: WorkerName) => run(name, activities_of[name](given));
  await runAlso('worker_lifecycle');
  const temporal = patient(openTemporal({ address, namespace }, db));
  const log = createLog('test', 'fatal');
  const close = async () => {
    for (const worker of workers) worker.shutdown();
    await Promise.all(running);
    await temporal.close();
    await client.connection.close();
    await connection.close();
  };
  const dispatch = () => dispatchDue(db, client, log);
  return { namespace, runAlso, client, temporal, dispatch, close };
}

/**
 * An API answers 503 if a message is not accepted within 2 s, unless a row shows that its workflow
 * is at work: a busy machine may take longer. Here a row has longer to show it, and messages for
 * which no row does have the 25 s that a result may take.
 */
function patient(temporal: Temporal): Temporal {
  const waiting =
    (update: Temporal['update']): Temporal['update'] =>
    (start, name, input, options) => {
      const { isUnderWay = async () => true } = options ?? {};
      return update(start, name, input, { ...options, isUnderWay: () => isShown(isUnderWay) });
    };
  return {
    ...temporal,
    update: waiting(temporal.update),
    inTrace: (trace) => ({ update: waiting(temporal.inTrace(trace).update) }),
  };
}

const ROW_MS = 15_000;

function isShown(isUnderWay: () => Promise<boolean>): Promise<boolean> {
  return until(isUnderWay, ROW_MS).then(
    () => true,
    () => false,
  );
}

/** Sends the outbox as the worker process does, every 20 ms, until it is stopped. */
export function keepSending({ dispatch }: Pick<TestWorker, 'dispatch'>): () => Promise<void> {
  let stopped = false;
  const running = (async () => {
    while (!stopped) {
      await dispatch().catch(() => undefined);
      await sleep(20);
    }
  })();
  return async () => {
    stopped = true;
    await running;
  };
}

/**
 * Sends all that waits in the outbox. What Temporal had no time for goes again at once; what is
 * parked stays.
 */
export async function sendAll({
  db,
  dispatch,
}: Pick<TestWorker, 'dispatch'> & { db: Db }): Promise<void> {
  const again =
    'update outbox set next_at = clock_timestamp() where parked_at is null returning id';
  await until(async () => {
    await dispatch();
    return (await many(db, again)).length === 0;
  });
}

/** True if nothing of a workflow is under way: it waits for a timer or a signal, or is over. */
export async function isAtRest({ workflow }: Client, id: string): Promise<boolean> {
  const { status, raw } = await workflow.getHandle(id).describe();
  return status.name !== 'RUNNING' || !(raw.pendingActivities?.length || raw.pendingWorkflowTask);
}

/**
 * Waits until a workflow rests, and answers for how many seconds it will, unless an event arrives.
 */
export async function restOf(client: Client, id: string): Promise<number> {
  await until(() => isAtRest(client, id));
  const { events } = await client.workflow.getHandle(id).fetchHistory();
  const timers = new Map<unknown, number>();
  for (const event of events ?? []) {
    const { timerStartedEventAttributes: started } = event;
    if (started) timers.set(started.timerId, Number(started.startToFireTimeout?.seconds));
    const ended = event.timerFiredEventAttributes ?? event.timerCanceledEventAttributes;
    if (ended) timers.delete(ended.timerId);
  }
  return Math.min(...timers.values());
}

// The files of one Jest worker share packages, and Temporal's runtime with them.
export function installRuntime(): void {
  try {
    Runtime.install({ logger: new DefaultLogger('ERROR') });
  } catch (error) {
    if (!(error instanceof IllegalStateError)) throw error;
  }
}
