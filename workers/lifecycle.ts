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
import { loadConfig } from '../config';
import { openDatabase } from '../connections';
import * as outbox from '../domain/outbox';
import { createLog, type Logger } from '../log';
import { bundleWorkflows } from './bundle';
import { startDispatcher } from './dispatcher';
import { connectWorker, createWorker } from './run';

const SCHEDULE_CHECK_MS = 15_000;

/** worker_lifecycle: runs the workflows of reservations, and carries messages from the outbox to Temporal. */
async function main(): Promise<void> {
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
  const activities = createActivities({ db });
  const namespace = config.TEMPORAL_NAMESPACE;
  const worker = await createWorker({
    connection,
    namespace,
    task_queue: 'lifecycle',
    activities,
    workflow_code,
  });
  const dispatcher = startDispatcher({ db, database_url: config.DATABASE_URL, client, log });
  void keepSchedule(client, db, log);
  log.info({ address: config.TEMPORAL_ADDRESS, task_queue: 'lifecycle' }, 'worker_lifecycle runs');
  await worker.run(); // Ends on SIGINT and SIGTERM, which the SDK's runtime hears.
  await dispatcher.stop();
  await client.connection.close();
  await connection.close();
  await db.destroy();
}

/**
 * The reconcile schedule, made where it is missing. Where it had to be made, Temporal's store is new or was lost: then the
 * workflows of everything unfinished are asked for again.
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
    await new Promise((resolve) => setTimeout(resolve, SCHEDULE_CHECK_MS).unref());
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
  summary: 'Gives orphan holds and tickets their workflow again, forgets old answers',
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

main().catch((error: Error) => {
  process.stderr.write(`${error.message}\n`);
  process.exit(1);
});
