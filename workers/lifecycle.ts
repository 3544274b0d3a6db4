import { setTimeout as sleep } from 'node:timers/promises';
import {
  Client,
  Connection,
  ScheduleAlreadyRunning,
  ScheduleOverlapPolicy,
  type ScheduleSpec,
} from '@temporalio/client';
import { DefaultLogger, Runtime } from '@temporalio/worker';
import type { Knex } from 'knex';
import { createActivities } from '../activities';
import * as outbox from '../domain/outbox';
import { createSecrets } from '../domain/secrets';
import { loadConfig } from '../runtime/config';
import { openDatabase } from '../runtime/database';
import { createLog, type Logger } from '../runtime/log';
import { openProcessTracing } from '../runtime/telemetry/open';
import { bundleWorkflows } from './bundle';
import { openDispatcher } from './dispatcher';
import { connectWorker, createWorkers, lifecycle_queues } from './run';

const SCHEDULE_CHECK_MS = 15_000;

/**
 * worker_lifecycle: runs the workflows of reservations, tickets and payments, and carries messages
 * from the outbox to Temporal.
 */
export async function main(): Promise<void> {
  const config = loadConfig('worker');
  const log = createLog('worker_lifecycle', config.LOG_LEVEL);
  quietRuntime(log);
  const db = openDatabase(config.DATABASE_URL, 5, 'worker_lifecycle');
  const workflow_code = await bundleWorkflows();
  const connection = await connectWorker({ address: config.TEMPORAL_ADDRESS }, log);
  const client = new Client({
    connection: Connection.lazy({ address: config.TEMPORAL_ADDRESS }),
    namespace: config.TEMPORAL_NAMESPACE,
  });
  const activities = createActivities({ db, secrets: createSecrets(config.SVC_SECRETS_KEY) });
  const namespace = config.TEMPORAL_NAMESPACE;
  const tracing = await openProcessTracing('worker_lifecycle', config, log);
  const parts = { connection, namespace, activities, workflow_code, tracing };
  const workers = await createWorkers(parts);
  const dispatcher = openDispatcher({ db, database_url: config.DATABASE_URL, client, log });
  void keepSchedule(client, db, log);
  log.info(
    { address: config.TEMPORAL_ADDRESS, task_queues: lifecycle_queues },
    'worker_lifecycle runs',
  );
  // Ends on SIGINT and SIGTERM, which the SDK's runtime handles.
  await Promise.all(workers.map((worker) => worker.run()));
  await dispatcher.close();
  await tracing?.close();
  await client.connection.close();
  await connection.close();
  await db.destroy();
}

/**
 * The reconcile schedule, made if it is missing. If that was necessary, Temporal's store is new or
 * was lost: then the workflows of everything unfinished are asked for again.
 */
async function keepSchedule(client: Client, db: Knex, log: Logger): Promise<void> {
  for (;;) {
    try {
      await createSchedule(client, audit).catch(unlessRunning);
      await createSchedule(client, reconcile);
      const count = await outbox.resendUnfinished(db);
      if (count > 0)
        log.warn({ count }, "Temporal's store was new; unfinished workflows start again");
    } catch (error) {
      if (!(error instanceof ScheduleAlreadyRunning))
        log.warn({ err: error }, 'the reconcile schedule could not be made yet');
    }
    await sleep(SCHEDULE_CHECK_MS, undefined, { ref: false });
  }
}

function unlessRunning(error: unknown): void {
  if (!(error instanceof ScheduleAlreadyRunning)) throw error;
}

interface Schedule {
  id: string;
  spec: ScheduleSpec;
  summary: string;
  /** Runs once as it is made. */
  at_once: boolean;
}

const reconcile: Schedule = {
  id: 'reconcile',
  spec: { intervals: [{ every: '5 minutes' }] },
  summary: 'Gives orphan holds, tickets and payments their workflow again, forgets old answers',
  at_once: true,
};

const audit: Schedule = {
  id: 'audit',
  spec: { calendars: [{ hour: 3, minute: 30 }] },
  summary: 'Proves the whole ledger, each night at 03:30 UTC',
  at_once: false,
};

/** A schedule runs the workflow of its own name. */
function createSchedule(client: Client, { id, spec, summary, at_once }: Schedule) {
  return client.schedule.create({
    scheduleId: id,
    spec,
    policies: { overlap: ScheduleOverlapPolicy.SKIP },
    action: {
      type: 'startWorkflow',
      workflowType: id,
      workflowId: id,
      taskQueue: 'lifecycle',
      staticSummary: summary,
    },
    state: { triggerImmediately: at_once },
  });
}

/** The SDK's own log lines go into ours, from warnings up. */
function quietRuntime(log: Logger): void {
  const write = ({ level, message, meta }: { level: string; message: string; meta?: object }) => {
    if (level === 'ERROR') log.error(meta ?? {}, message);
    else if (level === 'WARN') log.warn(meta ?? {}, message);
  };
  Runtime.install({
    logger: new DefaultLogger('WARN', write as never),
    telemetryOptions: { logging: { filter: 'ERROR', forward: {} } },
  });
}
