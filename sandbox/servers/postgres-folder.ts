import { execFile } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { chown, lstat, mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import type { SystemUser } from '../processes/processes';
import { canExecute } from './postgres-user';

const run = promisify(execFile);

/**
 * The folder of the data: under DATA_DIR, unless the system user that must own it cannot go there.
 */
export async function placeCluster(
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
      `The database in ${inside} belongs to a system user that may no longer enter ` +
        `${data_dir}. Allow it (chmod o+x on the folders above), or move the data.`,
    );
  }
  if (existsSync(inside) || (enterable && !existsSync(outside))) return inside;
  await mkdir(outside_parent, { mode: 0o755 }).catch(refuseForeign(outside_parent));
  notes.push(
    `PostgreSQL cannot run as root, and its system user cannot enter ${data_dir}: the ` +
      `database is kept in ${outside}.`,
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
export async function moveAside(folder: string, notes: string[]): Promise<void> {
  const aside = `${folder}.without-password-${Date.now()}`;
  await rename(folder, aside);
  notes.push(
    `The password of the database in ${folder} is gone, so it was moved to ${aside} and a new ` +
      'one made.',
  );
}

export async function createCluster(given: {
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

export async function checkVersion(folder: string, postgres: string): Promise<void> {
  const made_by = (await readFile(path.join(folder, 'PG_VERSION'), 'utf8')).trim();
  const { stdout } = await run(postgres, ['--version']);
  const [ours] = /\d+/.exec(stdout) ?? [];
  if (made_by === ours) return;
  throw new Error(
    `The database in ${folder} was made by PostgreSQL ${made_by}, this is ${ours}. Dump it ` +
      'with the old version, or choose another DATA_DIR.',
  );
}
