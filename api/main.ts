import { createServer } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { createSecrets } from '../domain/secrets';
import { type Db, isUnreachable } from '../domain/sql';
import { migrate } from '../migrations';
import { authoritiesOf } from '../payment-providers/certificates';
import { loadConfig, temporalVariables } from '../runtime/config';
import { createJwtVerifier } from '../runtime/jwt';
import { listen } from '../runtime/listen';
import { createLog, type Logger } from '../runtime/log';
import { createNetworks } from '../runtime/networks';
import { openProcessTracing } from '../runtime/telemetry/open';
import { tuneV8 } from '../runtime/v8';
import { openTemporal } from '../temporal/client';
import { temporalAddress } from '../temporal/connection';
import { createApp } from './app';
import { openConfigWatch } from './http/config-watch';
import { openPools } from './http/pools';
import { openRefused } from './http/refused';
import { openBatches } from './ledger/batches';
import { openSpendFolds } from './ledger/spend-folds';
import { openWaiters } from './ledger/waiters';
import { openWorkerWatch } from './notices/worker-watch';

const DRAIN_MS = 6_000;
const REQUEST_MS = 30_000;

/** The control plane: migrates, listens, and drains on SIGTERM and SIGINT. */
export async function main(): Promise<void> {
  tuneV8();
  const config = loadConfig('api');
  const log = createLog('api', config.LOG_LEVEL);
  const pools = openPools(config);
  const db = pools.people;
  await waitForDatabase(db, log);
  await migrate(db, { say: (words) => log.warn(words) });
  const batches = openBatches(pools.machine, log);
  const { DATABASE_URL: database_url, TEMPORAL_NAMESPACE: namespace } = config;
  const waiters = openWaiters({ db: pools.machine, batches, database_url, log });
  const config_watch = openConfigWatch({ db: pools.machine, database_url, log });
  const spend_folds = openSpendFolds({ db, log });
  const refused_requests = openRefused(db, log);
  const temporal = openTemporal({ ...temporalAddress(temporalVariables()), namespace }, db);
  const worker_watch = openWorkerWatch({ db, temporal, log });
  const secrets = createSecrets(config.SVC_SECRETS_KEY);
  const tracing = await openProcessTracing('api', config, log);
  let is_draining = false;
  const isDraining = () => is_draining;
  const ledger = { db, pools, batches, waiters };
  const watching = { config_watch, refused_requests };
  const opened = { ...ledger, ...watching, temporal, secrets, tracing, isDraining };
  const chosen = chosenIn(config);
  const app = createApp({ ...opened, ...chosen, jwt: jwtOf(config) }, log);
  const server = createApiServer(app);
  const port = await listen(server, config.API_PORT, { host: config.API_HOST, name: 'API' });
  log.info({ port }, 'api listens');

  const stop = async () => {
    if (is_draining) return;
    is_draining = true;
    const loops = [waiters, config_watch, spend_folds, worker_watch];
    await Promise.all(loops.map((loop) => loop.close()));
    server.close();
    server.closeIdleConnections();
    const timer = setInterval(() => server.closeIdleConnections(), 100);
    await Promise.race([closed, sleep(DRAIN_MS, undefined, { ref: false })]);
    clearInterval(timer);
    server.closeAllConnections();
    const written = Promise.all([batches.close(), refused_requests.close()]);
    await Promise.race([written, sleep(2_000, undefined, { ref: false })]);
    await temporal.close();
    await tracing?.close();
    await Promise.all(Object.values(pools).map((pool) => pool.destroy()));
    log.info('api has stopped');
    process.exit(0);
  };
  const closed = new Promise<void>((resolve) => server.once('close', () => resolve()));
  process.once('SIGTERM', stop);
  process.once('SIGINT', stop);
}

function createApiServer(app: ReturnType<typeof createApp>) {
  const server = createServer(app.callback());
  // Longer than a balancer's or gateway's idle time, so that they close first.
  server.keepAliveTimeout = 65_000;
  // The longest that a request may take to arrive, whoever sends it.
  server.requestTimeout = REQUEST_MS;
  return server;
}

/** What the app takes of the configuration as it is. */
function chosenIn(config: ReturnType<typeof loadConfig<'api'>>) {
  return {
    requests_per_minute: config.REQUESTS_PER_MINUTE,
    payment_hosts: config.PAYMENT_HOSTS,
    payment_authorities: authoritiesOf(config.PAYMENT_CA_FILES),
    export_dir: config.EXPORT_DIR,
    s3_origins: config.EXPORT_S3_ORIGINS,
    export_bytes_max: config.EXPORT_OWNER_BYTES_MAX,
    trusted_proxies: config.TRUSTED_PROXIES,
    notice_reach: {
      networks: createNetworks(config.NOTICE_NETWORKS),
      chat_hosts: config.NOTICE_CHAT_HOSTS,
      has_mail: config.NOTICE_MAIL_FROM !== undefined,
    },
  };
}

function jwtOf(config: ReturnType<typeof loadConfig<'api'>>) {
  const { JWT_ISSUER: issuer, JWT_AUDIENCE: audience, JWT_JWKS_URL: jwks_url } = config;
  return issuer && audience && jwks_url
    ? createJwtVerifier({ issuer, audience, jwks_url })
    : undefined;
}

/** Waits for the database for as long as it takes, and says so once. */
async function waitForDatabase(db: Db, log: Logger): Promise<void> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      await db.raw('select 1');
      return;
    } catch (error) {
      if (!isUnreachable(error)) throw error;
      if (attempt === 1) log.warn({ err: error }, 'the database is away; waiting for it');
      await sleep(Math.min(attempt * 200, 2_000));
    }
  }
}
