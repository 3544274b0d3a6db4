import { randomUUID } from 'node:crypto';
import { Client, Connection } from '@temporalio/client';
import { IllegalStateError } from '@temporalio/common';
import { DefaultLogger, NativeConnection, Runtime } from '@temporalio/worker';
import { createActivities } from '../../activities';
import type { Db } from '../../domain/sql';
import { createLog } from '../../runtime/log';
import type { Tracing } from '../../runtime/telemetry/spans';
import { useTemporal } from '../../sandbox/servers/temporal';
import { openTemporal, type Temporal } from '../../temporal/client';
import { dispatchDue } from '../../temporal/outbox';
import { bundleWorkflows } from '../../workers/bundle';
import { createWorkers } from '../../workers/run';
import { payment_hosts, secrets } from './api';
import { until } from './until';

installRuntime();

export interface TestWorker {
  namespace: string;
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
): Promise<TestWorker> {
  const namespace = `test-${randomUUID()}`;
  await useTemporal({ address }, namespace);
  const connection = await NativeConnection.connect({ address });
  const client = new Client({ connection: await Connection.connect({ address }), namespace });
  const workflow_code = await bundleWorkflows();
  const activities = createActivities({ db, secrets, payment_hosts });
  const parts = { connection, namespace, activities, workflow_code, tracing };
  const workers = await createWorkers(parts);
  const running = Promise.all(workers.map((worker) => worker.run()));
  const temporal = openTemporal({ address, namespace }, db);
  const log = createLog('test', 'fatal');
  const close = async () => {
    for (const worker of workers) worker.shutdown();
    await running;
    await temporal.close();
    await client.connection.close();
    await connection.close();
  };
  return { namespace, client, temporal, dispatch: () => dispatchDue(db, client, log), close };
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
function installRuntime(): void {
  try {
    Runtime.install({ logger: new DefaultLogger('ERROR') });
  } catch (error) {
    if (!(error instanceof IllegalStateError)) throw error;
  }
}
