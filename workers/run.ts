import { setTimeout as sleep } from 'node:timers/promises';
import {
  NativeConnection,
  type NativeConnectionOptions,
  Worker,
  type WorkerOptions,
} from '@temporalio/worker';
import type { Logger } from '../runtime/log';
import type { Tracing } from '../runtime/telemetry/spans';
import { type TaskQueue, type WorkerName, worker_queues, workerIdentity } from '../temporal/queues';
import { tracedBy } from './tracing';

interface WorkerSpec {
  name: WorkerName;
  connection: NativeConnection;
  namespace: string;
  activities: object;
  workflow_code: string;
  tracing?: Tracing | undefined;
}

const SLOTS = 200;

// A slow payment provider holds a task and its local activity; it must not hold up other people's
// payments. A step that is under way gets 5 s to end when the process must stop.
const many: Partial<WorkerOptions> = {
  maxConcurrentWorkflowTaskExecutions: SLOTS,
  maxConcurrentLocalActivityExecutions: SLOTS,
  shutdownGraceTime: '5 seconds',
};

// Few and long. One that is under way is canceled as soon as the process must stop, so that another
// worker takes it; what was done before stands in the rows.
const few: Partial<WorkerOptions> = {
  maxConcurrentWorkflowTaskExecutions: 8,
  maxConcurrentLocalActivityExecutions: 8,
  maxConcurrentActivityTaskExecutions: 8,
  maxCachedWorkflows: 32,
  workflowTaskPollerBehavior: { type: 'simple-maximum', maximum: 2 },
  activityTaskPollerBehavior: { type: 'simple-maximum', maximum: 1 },
  shutdownGraceTime: 0,
};

// Each destination that does not answer keeps one activity for 10 s, so there is room for many; the
// workflows themselves are small and few run at a time.
const hanging: Partial<WorkerOptions> = {
  maxConcurrentWorkflowTaskExecutions: 16,
  maxConcurrentLocalActivityExecutions: 8,
  maxConcurrentActivityTaskExecutions: 400,
  maxCachedWorkflows: 100,
  workflowThreadPoolSize: 1,
  workflowTaskPollerBehavior: { type: 'simple-maximum', maximum: 2 },
  activityTaskPollerBehavior: { type: 'simple-maximum', maximum: 2 },
  shutdownGraceTime: '5 seconds',
};

const sizes: Record<TaskQueue, Partial<WorkerOptions>> = {
  payments: many,
  lifecycle: many,
  notices: hanging,
  export: few,
  config: few,
};

/** One worker of the SDK for each task queue of a worker program. */
export function createWorkers({
  name,
  connection,
  namespace,
  activities,
  workflow_code,
  tracing,
}: WorkerSpec): Promise<Worker[]> {
  return Promise.all(
    worker_queues[name].map((task_queue) =>
      Worker.create({
        connection,
        namespace,
        identity: workerIdentity(name),
        taskQueue: task_queue,
        activities,
        workflowBundle: { code: workflow_code },
        ...tracedBy(tracing),
        ...sizes[task_queue],
        shutdownForceTime: '7 seconds',
      }),
    ),
  );
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
