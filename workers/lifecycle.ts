import { setTimeout as sleep } from 'node:timers/promises';
import { Client, Connection } from '@temporalio/client';
import { DefaultLogger, Runtime } from '@temporalio/worker';
import type { Knex } from 'knex';
import { createActivities } from '../activities';
import { createSecrets } from '../domain/secrets';
import { loadConfig, temporalVariables } from '../runtime/config';
import { openDatabase } from '../runtime/database';
import { createLog, type Logger } from '../runtime/log';
import { openProcessTracing } from '../runtime/telemetry/open';
import { temporalAddress } from '../temporal/connection';
import { missingParts } from '../temporal/prepare';
import { worker_queues } from '../temporal/queues';
import { bringSchedules, makeSchedules } from '../temporal/schedules';
import { bundleWorkflows } from './bundle';
import { openDispatcher } from './dispatcher';
import { connectWorker, createWorkers } from './run';
import { sdkLogInto } from './sdk-log';

const SCHEDULE_CHECK_MS = 15_000;
const PARTS_CHECK_MS = 2_000;

/**
 * worker_lifecycle: runs the workflows of reservations, tickets and payments, and carries messages
 * from the outbox to Temporal.
 */
export async function main(): Promise<void> {
  const config = loadConfig('worker');
  const log = createLog('worker_lifecycle', config.LOG_LEVEL);
  quietRuntime(log);
  const db = openDatabase(config.DATABASE_URL, 10, 'worker_lifecycle');
  const workflow_code = await bundleWorkflows();
  const to = temporalAddress(temporalVariables());
  const connection = await connectWorker(to, log);
  const client = new Client({
    connection: Connection.lazy(to),
    namespace: config.TEMPORAL_NAMESPACE,
  });
  await waitForParts(client, log);
  const { ACCEPT_UNSIGNED_VERDICTS_UNTIL: accept_unsigned_until, PAYMENT_HOSTS: payment_hosts } =
    config;
  if (accept_unsigned_until)
    log.warn(
      { until: accept_unsigned_until },
      'unsigned verdicts on tickets are recorded: whoever reaches Temporal can make money',
    );
  const secrets = createSecrets(config.SVC_SECRETS_KEY);
  const activities = createActivities({
    db,
    secrets,
    payment_hosts,
    export_dir: config.EXPORT_DIR,
    accept_unsigned_until,
  });
  const namespace = config.TEMPORAL_NAMESPACE;
  const tracing = await openProcessTracing('worker_lifecycle', config, log);
  const parts = { connection, namespace, activities, workflow_code, tracing };
  const workers = await createWorkers(parts);
  const dispatcher = openDispatcher({ db, database_url: config.DATABASE_URL, client, log });
  void keepSchedules(client, db, log);
  log.info(
    { address: config.TEMPORAL_ADDRESS, task_queues: worker_queues.worker_lifecycle },
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

/** The schedules, brought to this program's definition once, and made whenever they are gone. */
async function keepSchedules(client: Client, db: Knex, log: Logger): Promise<void> {
  let step = bringSchedules;
  for (;;) {
    try {
      const count = await step(client, db);
      step = makeSchedules;
      if (count > 0)
        log.warn({ count }, "Temporal's store was new; unfinished workflows start again");
    } catch (error) {
      log.warn({ err: error }, 'the schedules could not be made yet');
    }
    await sleep(SCHEDULE_CHECK_MS, undefined, { ref: false });
  }
}

/** Waits until Temporal has the namespace and the search attributes, and says what is missing. */
async function waitForParts(client: Client, log: Logger): Promise<void> {
  for (let told = ''; ; ) {
    const missing = await missingParts(client).catch((error) => {
      log.warn({ err: error }, 'Temporal could not be asked for its namespace');
      return ['an answer'];
    });
    if (missing.length === 0) return;
    const words = missing.join(', ');
    if (words !== told)
      log.warn(`Temporal lacks ${words}. Waiting for it; make it with: npm run admin -- prepare`);
    told = words;
    await sleep(PARTS_CHECK_MS);
  }
}

/** The SDK's own log lines go into ours, from warnings up. */
function quietRuntime(log: Logger): void {
  Runtime.install({
    logger: new DefaultLogger('WARN', sdkLogInto(log) as never),
    telemetryOptions: { logging: { filter: 'ERROR', forward: {} } },
  });
}
