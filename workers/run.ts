import { setTimeout as sleep } from 'node:timers/promises';
import { NativeConnection, type NativeConnectionOptions, Worker } from '@temporalio/worker';
import type { Activities } from '../activities';
import type { Logger } from '../runtime/log';
import type { Tracing } from '../runtime/telemetry/spans';
import { worker_queues, workerIdentity } from '../temporal/queues';
import { tracedBy } from './tracing';

interface WorkerSpec {
  connection: NativeConnection;
  namespace: string;
  activities: Activities;
  workflow_code: string;
  tracing?: Tracing | undefined;
}

const SLOTS = 200;

/** One worker a task queue of worker_lifecycle. */
export function createWorkers(spec: WorkerSpec): Promise<Worker[]> {
  const queues = worker_queues.worker_lifecycle;
  return Promise.all(queues.map((task_queue) => createWorker(spec, task_queue)));
}

/** One worker on one task queue. Normal activities get 5 s to end when the process must stop. */
function createWorker(spec: WorkerSpec, task_queue: string): Promise<Worker> {
  return Worker.create({
    connection: spec.connection,
    namespace: spec.namespace,
    identity: workerIdentity('worker_lifecycle'),
    taskQueue: task_queue,
    activities: spec.activities,
    workflowBundle: { code: spec.workflow_code },
    ...tracedBy(spec.tracing),
    // A slow payment provider holds a task and its local activity; it must not hold up other
    // people's payments.
    maxConcurrentWorkflowTaskExecutions: SLOTS,
    maxConcurrentLocalActivityExecutions: SLOTS,
    shutdownGraceTime: '5 seconds',
    shutdownForceTime: '7 seconds',
  });
}

/** Connects to Temporal; while it is away, tries again for ever with a pause, and says so once. */
export async function connectWorker(
  options: NativeConnectionOptions,
  log: Logger,
): Promise<NativeConnection> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await NativeConnection.connect(options);
    } catch (error) {
      if (attempt === 1)
        log.warn(
          { err: error, address: options.address },
          'Temporal is away; trying again until it answers',
        );
      await sleep(Math.min(attempt * 250, 3_000));
    }
  }
}
