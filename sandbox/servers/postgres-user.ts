import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import type { SystemUser } from '../processes/processes';

const run = promisify(execFile);

const USER = 'postgres';

/**
 * The system user that PostgreSQL runs as, since it refuses to run as root; made if it is missing,
 * undefined for plain users.
 */
export async function postgresUser(): Promise<SystemUser | undefined> {
  if (process.getuid?.() !== 0) return undefined;
  const known = await lookUp();
  if (known) return known;
  try {
    await run('useradd', ['--system', '--user-group', '--no-create-home', USER]);
  } catch (error) {
    throw new Error(
      `PostgreSQL cannot run as root, and a system user "${USER}" could not be made. Make ` +
        'one, run this as a plain user, or set DATABASE_URL.',
      { cause: error },
    );
  }
  return lookUp();
}

/**
 * True if this user may execute the file or enter the folder; the system is asked, so that every
 * kind of permission counts.
 */
export async function canExecute(name: string, { uid, gid }: SystemUser): Promise<boolean> {
  return run('/bin/sh', ['-c', 'test -x "$1"', 'sh', name], { uid, gid, cwd: '/' }).then(
    () => true,
    () => false,
  );
}

async function lookUp(): Promise<SystemUser | undefined> {
  try {
    const [uid, gid] = await Promise.all(
      ['-u', '-g'].map(async (flag) => Number((await run('id', [flag, USER])).stdout)),
    );
    return uid && gid ? { uid, gid } : undefined;
  } catch {
    return undefined;
  }
}
