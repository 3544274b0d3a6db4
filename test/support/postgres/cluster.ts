import { setTimeout as sleep } from 'node:timers/promises';
import { many } from '../../../domain/sql';
import { migrate } from '../../../migrations';
import { openDatabase } from '../../../runtime/database';
import { launch, type Process } from '../../../sandbox/processes/processes';
import { ensureDatabase, maintenanceUrl } from '../../../sandbox/servers/database';
import { prepareCluster } from '../../../sandbox/servers/postgres';

const TEMPLATE = 'template_svc';
// Servers start beside each other, and perhaps on a machine that is busy.
const READY_MS = 180_000;
const STOP_MS = 60_000;
const RETRY_MS = 100;

/** A PostgreSQL server with a migrated template, which ends and starts at a test's wish. */
export interface Cluster {
  /** The template that databases of tests are copies of. */
  template: string;
  /**
   * SIGINT, a fast shutdown: all sessions are cut, and what is committed is on the disk. Resolves
   * with words for how the server ended.
   */
  stop: (grace_ms?: number) => Promise<string>;
  /** SIGKILL of the server's first process: its sessions end by themselves. */
  kill: () => Promise<string>;
  /** Starts it again over the same data, once nothing is left of the one before. */
  start: () => Promise<void>;
}

/** Starts one over a new folder; not durable is for servers that no test ends. */
export async function openCluster(given: {
  data_dir: string;
  port: number;
  durable: boolean;
}): Promise<Cluster> {
  const { program, url } = await prepareCluster(given);
  const launched = () => launch({ ...program, ready_timeout_ms: READY_MS });
  let server: Process = await launched();
  const template = Object.assign(new URL(url), { pathname: `/${TEMPLATE}` }).toString();
  await ensureDatabase(template);
  const db = openDatabase(template, 2);
  await migrate(db);
  await db.destroy();
  // A database that nobody can enter can be copied at any moment.
  const admin = openDatabase(maintenanceUrl(url), 1);
  await many(admin, `alter database ${TEMPLATE} with is_template true allow_connections false`);
  await admin.destroy();
  return {
    template,
    async stop(grace_ms = STOP_MS) {
      await server.stop(grace_ms);
      return server.ended;
    },
    async kill() {
      process.kill(server.pid, 'SIGKILL');
      return server.ended;
    },
    async start() {
      const deadline = performance.now() + READY_MS;
      for (;;) {
        try {
          server = await launched();
          return;
        } catch (error) {
          // Sessions of a killed server hold its memory until each has seen that it is gone.
          const is_held = /shared memory block/.test((error as Error).message);
          if (!is_held || performance.now() > deadline) throw error;
          await sleep(RETRY_MS);
        }
      }
    },
  };
}
