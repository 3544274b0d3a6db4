import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { lstat, mkdir, readFile, rm } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { birthOf, endLeftover } from '../processes/leftovers';
import type { Program, SystemUser } from '../processes/processes';
import { maintenanceUrl, reach } from './database';
import { checkVersion, createCluster, moveAside, placeCluster } from './postgres-folder';
import { findPrograms } from './postgres-programs';
import { postgresUser } from './postgres-user';

const run = promisify(execFile);

interface Cluster {
  program: Program;
  /** The database `svc` of this cluster, with its password. */
  url: string;
  folder: string;
  /** Remarks for a person about the place of the data. */
  notes: string[];
}

interface ClusterOptions {
  data_dir: string;
  port: number;
  /** False only for throw-away data: nothing is flushed to the disk. */
  durable?: boolean;
}

// The package's own class prints, stops itself by exit hooks and never recovers a killed server;
// so the programs it brings are run directly.
/** Makes the cluster of a data directory, or finds it again, and says how to start its server. */
export async function prepareCluster(options: ClusterOptions): Promise<Cluster> {
  const data_dir = path.resolve(options.data_dir);
  await mkdir(data_dir, { recursive: true });
  const user = await postgresUser();
  const programs = await findPrograms(user);
  const notes: string[] = [];
  const folder = await placeCluster(data_dir, user, notes);
  const password_file = path.join(data_dir, 'postgres.password');
  if (existsSync(folder) && !existsSync(password_file)) await moveAside(folder, notes);
  if (!existsSync(folder)) {
    await createCluster({ folder, password_file, initdb: programs.initdb, user, ...options });
  }
  await checkVersion(folder, programs.postgres);
  const password = (await readFile(password_file, 'utf8')).trim();
  const owner = await lstat(folder);
  const run_as = user && { uid: owner.uid, gid: owner.gid };
  const url = `postgres://svc:${password}@127.0.0.1:${options.port}/svc`;
  return { program: server(programs.postgres, folder, options, run_as, url), url, folder, notes };
}

function server(
  command: string,
  folder: string,
  { port, durable = true }: ClusterOptions,
  run_as: SystemUser | undefined,
  url: string,
): Program {
  const on = durable ? 'on' : 'off';
  const settings = {
    listen_addresses: '127.0.0.1',
    // No socket file: nothing to leave behind, and no path that may be too long.
    unix_socket_directories: '',
    max_connections: '200',
    fsync: on,
    full_page_writes: on,
    // Also for throw-away data: off would lose acknowledged commits if a server process is killed.
    synchronous_commit: 'on',
    // Refused statements are answers of the product, not news; crashes and restarts are.
    log_min_messages: 'log',
    log_checkpoints: 'off',
    log_line_prefix: '',
  };
  const flags = Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
  return {
    name: 'postgres',
    command,
    args: ['-D', folder, '-p', String(port), ...flags],
    env: { PATH: process.env.PATH, TZ: process.env.TZ, LC_ALL: 'C' },
    cwd: folder,
    run_as,
    // Fast shutdown: sessions are cut, everything acknowledged is kept. Then an immediate one,
    // recovered at the next start.
    stop_signals: ['SIGINT', 'SIGQUIT'],
    prepare: () => endOldServer(folder),
    isReady: () => reach(maintenanceUrl(url)).then(() => true),
    ready_timeout_ms: 60_000,
  };
}

// A killed parent leaves the server running, and a reboot leaves its pid file with a number that is
// somebody else's now.
async function endOldServer(folder: string): Promise<void> {
  const pid_file = path.join(folder, 'postmaster.pid');
  const text = await readFile(pid_file, 'utf8').catch(() => undefined);
  const record = text === undefined ? undefined : birthOf(Number.parseInt(text, 10));
  if (record && (await commandOf(record.pid)).includes(folder)) {
    await endLeftover(record);
  } else if (record) {
    await rm(pid_file, { force: true });
  }
}

async function commandOf(pid: number): Promise<string> {
  return readFile(`/proc/${pid}/cmdline`, 'utf8').catch(async () => {
    const { stdout } = await run('ps', ['-o', 'command=', '-p', String(pid)]);
    return stdout;
  });
}
