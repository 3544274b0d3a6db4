import { execFile } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { chown, lstat, mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import pg from 'pg';
import { birthOf, endLeftover } from '../processes/leftovers';
import type { Program, SystemUser } from '../processes/processes';
import { canExecute, findPrograms, postgresUser } from './postgres-programs';

const run = promisify(execFile);

const FOREIGN_SERVER_MS = 30_000;
const UNKNOWN_DATABASE = '3D000';

interface Cluster {
  program: Program;
  /** The database `svc` of this cluster, with its password. */
  url: string;
  folder: string;
  /** What a person should know about where the data is. */
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

/** Waits for a server that somebody else runs, and makes the database in it where it is missing. */
export async function useDatabase(url: string): Promise<void> {
  const deadline = performance.now() + FOREIGN_SERVER_MS;
  for (;;) {
    const problem = await reach(url).then(
      () => undefined,
      (error: Error & { code?: string }) => error,
    );
    if (!problem) return;
    if (problem.code === UNKNOWN_DATABASE) await ensureDatabase(url);
    else if (performance.now() > deadline) {
      throw new Error(`DATABASE_URL cannot be used: ${problem.message || problem.code}`);
    } else await sleep(500);
  }
}

/** Makes the database that an address names, where it is missing. */
export async function ensureDatabase(url: string): Promise<void> {
  const name = new URL(url).pathname.slice(1);
  const client = new pg.Client({ connectionString: maintenanceUrl(url) });
  await client.connect();
  try {
    const known = await client.query('select from pg_database where datname = $1', [name]);
    if (known.rowCount === 0) {
      await client.query(`create database ${pg.escapeIdentifier(name)}`);
    }
  } finally {
    await client.end();
  }
}

async function reach(url: string): Promise<void> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 2_000 });
  client.on('error', () => undefined);
  try {
    await client.connect();
    await client.query('select 1');
  } finally {
    await client.end().catch(() => undefined);
  }
}

/** The same server's database `postgres`, which is always there. */
export function maintenanceUrl(url: string): string {
  return Object.assign(new URL(url), { pathname: '/postgres' }).toString();
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
    // Also for throw-away data: off would lose acknowledged commits where a server process is killed.
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
    // Fast shutdown: sessions are cut, everything acknowledged is kept. Then an immediate one, recovered at the next start.
    stop_signals: ['SIGINT', 'SIGQUIT'],
    prepare: () => endOldServer(folder),
    isReady: () => reach(maintenanceUrl(url)).then(() => true),
    ready_timeout_ms: 60_000,
  };
}

/** Where the data lies: under DATA_DIR, except where the system user that must own it cannot go there. */
async function placeCluster(
  data_dir: string,
  user: SystemUser | undefined,
  notes: string[],
): Promise<string> {
  const inside = path.join(data_dir, 'postgres');
  if (!user) return inside;
  const hash = createHash('sha256').update(data_dir).digest('hex').slice(0, 12);
  const outside_parent = `/var/tmp/svc-${hash}`;
  const outside = path.join(outside_parent, 'postgres');
  const enterable = await canExecute(data_dir, user);
  if (existsSync(inside) && !enterable) {
    throw new Error(
      `The database in ${inside} belongs to a system user that may no longer enter ${data_dir}. Allow it (chmod o+x on the folders above), or move the data.`,
    );
  }
  if (existsSync(inside) || (enterable && !existsSync(outside))) return inside;
  await mkdir(outside_parent, { mode: 0o755 }).catch(refuseForeign(outside_parent));
  notes.push(
    `PostgreSQL cannot run as root, and its system user cannot enter ${data_dir}: the database is kept in ${outside}.`,
  );
  return outside;
}

function refuseForeign(folder: string): (error: NodeJS.ErrnoException) => Promise<void> {
  return async (error) => {
    const found = error.code === 'EEXIST' ? await lstat(folder) : undefined;
    if (found?.isDirectory() && found.uid === 0) return;
    throw new Error(`${folder} cannot be used: it must be a folder of root.`, { cause: error });
  };
}

// Without its password nobody can enter; a person may still want the data.
async function moveAside(folder: string, notes: string[]): Promise<void> {
  const aside = `${folder}.without-password-${Date.now()}`;
  await rename(folder, aside);
  notes.push(
    `The password of the database in ${folder} is gone, so it was moved to ${aside} and a new one made.`,
  );
}

async function createCluster(given: {
  folder: string;
  password_file: string;
  initdb: string;
  user: SystemUser | undefined;
  durable?: boolean;
}): Promise<void> {
  const { folder, password_file, initdb, user, durable = true } = given;
  // Made beside its place and renamed, so that a start that was killed here leaves no half cluster.
  const unfinished = `${folder}.unfinished`;
  await rm(unfinished, { recursive: true, force: true });
  await mkdir(unfinished, { mode: 0o700 });
  const password = randomBytes(24).toString('base64url');
  await writeFile(password_file, `${password}\n`, { mode: 0o600 });
  const copy = path.join(unfinished, 'password');
  const cluster = path.join(unfinished, 'cluster');
  await writeFile(copy, `${password}\n`, { mode: 0o600 });
  if (user) await Promise.all([unfinished, copy].map((name) => chown(name, user.uid, user.gid)));
  const flags = ['--username=svc', '--auth=scram-sha-256', `--pwfile=${copy}`, '--encoding=UTF8'];
  // Bare machines lack every locale but C.
  const locale = ['--locale=C.UTF-8', '--lc-messages=C'];
  await run(initdb, [`--pgdata=${cluster}`, ...flags, ...locale, ...(durable ? [] : ['-N'])], {
    cwd: unfinished,
    env: { PATH: process.env.PATH, TZ: process.env.TZ, LC_ALL: 'C' },
    ...user,
  });
  await rename(cluster, folder);
  await rm(unfinished, { recursive: true });
}

async function checkVersion(folder: string, postgres: string): Promise<void> {
  const made_by = (await readFile(path.join(folder, 'PG_VERSION'), 'utf8')).trim();
  const { stdout } = await run(postgres, ['--version']);
  const [ours] = /\d+/.exec(stdout) ?? [];
  if (made_by === ours) return;
  throw new Error(
    `The database in ${folder} was made by PostgreSQL ${made_by}, this is ${ours}. Dump it with the old version, or choose another DATA_DIR.`,
  );
}

// A killed parent leaves the server running, and a reboot leaves its pid file with a number that is somebody else's now.
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
