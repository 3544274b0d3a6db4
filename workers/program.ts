import { setTimeout as sleep } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { Client, Connection } from '@temporalio/client';
import { DefaultLogger, type NativeConnection, Runtime } from '@temporalio/worker';
import type { Knex } from 'knex';
import { activities_of } from '../activities';
import type { NoticeWays } from '../activities/notices';
import { createSecrets } from '../domain/secrets';
import { loadConfig, temporalVariables } from '../runtime/config';
import { openDatabase } from '../runtime/database';
import { createLog, type Logger } from '../runtime/log';
import { createNetworks } from '../runtime/networks';
import { openProcessTracing } from '../runtime/telemetry/open';
import { temporalAddress } from '../temporal/connection';
import { missingParts } from '../temporal/prepare';
import { type WorkerName, worker_queues } from '../temporal/queues';
import { bundleWorkflows } from './bundle';
import { openProbes, type Probes } from './probes';
import { connectWorker, createWorkers } from './run';
import { sdkLogInto } from './sdk-log';

const PARTS_CHECK_MS = 2_000;

/** A worker program: what it is, beside its task queues and activities. */
export interface Program {
  name: WorkerName;
  /** Connections to PostgreSQL that it takes at most. */
  pool_max: number;
  /** What runs beside its workers from the moment they do; `close` resolves when it has ended. */
  openBeside?: (parts: Beside) => { close: () => Promise<void> };
}

type Config = ReturnType<typeof loadConfig<'worker'>>;

export interface Beside {
  db: Knex;
  client: Client;
  config: Config;
  log: Logger;
}

/** What the programs of one process share. */
interface Shared {
  config: Config;
  connection: NativeConnection;
  client: Client;
  workflow_code: string;
  probes: Probes | undefined;
}

/**
 * Runs worker programs in this process until SIGINT or SIGTERM. Several in one share the SDK and
 * its connection, which are most of what a process costs; each has its own queues, activities,
 * pool, log and traces.
 */
export async function runPrograms(programs: readonly Program[]): Promise<void> {
  const config = loadConfig('worker');
  const names = programs.map(({ name }) => name);
  const log = createLog(names.length === 1 ? (names[0] as string) : 'workers', config.LOG_LEVEL);
  quietRuntime(log);
  // Of each thread that runs workflows: they make little garbage, and V8 would let it grow to three
  // times 16 MB in each before it looks.
  setFlagsFromString('--max-semi-space-size=2');
  const { WORKER_PORT: port, WORKER_HOST: host } = config;
  const probes =
    port === undefined
      ? undefined
      : await openProbes({ port, host, programs: programs.length }, log);
  const workflow_code = await bundleWorkflows();
  const to = temporalAddress(temporalVariables());
  const connection = await connectWorker(to, log);
  const client = new Client({
    connection: Connection.lazy(to),
    namespace: config.TEMPORAL_NAMESPACE,
  });
  await waitForParts(client, log);
  const shared = { config, connection, client, workflow_code, probes };
  await Promise.all(programs.map((program) => runProgram(program, shared)));
  await client.connection.close();
  await connection.close();
  probes?.close();
}

async function runProgram(program: Program, shared: Shared): Promise<void> {
  const { name, pool_max, openBeside } = program;
  const { config, connection, client, workflow_code, probes } = shared;
  const namespace = config.TEMPORAL_NAMESPACE;
  const log = createLog(name, config.LOG_LEVEL);
  const db = openDatabase(config.DATABASE_URL, pool_max, name);
  const activities = activities_of[name]({
    db,
    secrets: createSecrets(config.SVC_SECRETS_KEY),
    payment_hosts: config.PAYMENT_HOSTS,
    export_dir: config.EXPORT_DIR,
    s3_origins: config.EXPORT_S3_ORIGINS,
    export_bytes_max: config.EXPORT_OWNER_BYTES_MAX,
    notice_ways: noticeWays(config),
    accept_unsigned_until: config.ACCEPT_UNSIGNED_VERDICTS_UNTIL,
  });
  const tracing = await openProcessTracing(name, config, log);
  const parts = { name, connection, namespace, activities, workflow_code, tracing };
  const workers = await createWorkers(parts);
  const beside = openBeside?.({ db, client, config, log });
  log.info({ address: config.TEMPORAL_ADDRESS, task_queues: worker_queues[name] }, `${name} runs`);
  // Ends on SIGINT and SIGTERM, which the SDK's runtime handles.
  const running = workers.map((worker) => worker.run());
  probes?.watch(workers);
  await Promise.all(running);
  await beside?.close();
  await tracing?.close();
  await db.destroy();
}

function noticeWays(config: Config): NoticeWays {
  const { NOTICE_SMTP_URL: smtp_url, NOTICE_MAIL_FROM: from } = config;
  return {
    networks: createNetworks(config.NOTICE_NETWORKS),
    chat_hosts: config.NOTICE_CHAT_HOSTS,
    public_url: config.API_PUBLIC_URL,
    console_url: config.CONSOLE_ORIGIN,
    mail: smtp_url === undefined || from === undefined ? undefined : { smtp_url, from },
  };
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
