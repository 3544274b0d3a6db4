import { randomUUID } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { open, readFile, rename, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { AppError } from '../domain/errors';
import { folderMarker, knownMarker } from '../domain/exports/steps';
import type { Db } from '../domain/sql';
import { deleteDrafts, draftIn, makeFolder, unlessMissing } from './drafts';
import type { ExportTarget } from './target';

/** The file that tells the folder apart from another one of the same path. */
export const MARKER = '.svc-exports';

interface Folder {
  db: Db;
  /** `EXPORT_DIR`; undefined if it is not set. */
  dir: string | undefined;
}

/** The files of exports in a folder that the API and the workers of queue `export` share. */
export function openFolder({ db, dir }: Folder): ExportTarget {
  const at = (name: string) => path.join(required(dir), name);
  return {
    check: () => requireShared({ db, dir }),
    async draft(name, attempt) {
      await markFolder({ db, dir });
      return draftIn(path.dirname(at(name)), path.basename(name), attempt);
    },
    async publish(draft, name) {
      await rename(draft, at(name));
      // The name is on the disk too.
      const folder = await open(path.dirname(draft));
      await folder.sync().finally(() => folder.close());
    },
    discard: (draft) => rm(draft, { force: true }),
    tidy: (folder) => deleteDrafts(at(folder)),
    async clear(folder) {
      await requireShared({ db, dir });
      await rm(at(folder), { recursive: true, force: true });
    },
    async read(name, range) {
      await requireShared({ db, dir });
      const handle = await open(at(name)).catch((error) => {
        if (error.code !== 'ENOENT') throw error;
        throw new AppError(
          'not_found',
          'This file of the export was deleted. Ask for the export again.',
        );
      });
      return { body: createReadStream('', { fd: handle, ...range }) };
    },
    close: () => undefined,
  };
}

function required(dir: string | undefined): string {
  if (dir !== undefined) return dir;
  throw notShared(
    'EXPORT_DIR is not set here. Set it to a folder that the API and worker_export share.',
  );
}

function notShared(message: string): AppError {
  return new AppError('export_dir_not_shared', message, { retry_after: 30 });
}

/**
 * A worker's look at its folder: the first worker of all marks it, every other one must find that
 * mark. Throws `export_dir_not_shared` (503).
 */
export async function markFolder({ db, dir }: Folder): Promise<void> {
  const file = path.join(required(dir), MARKER);
  if ((await knownMarker(db)) === undefined) await folderMarker(db, () => markOf(file));
  await requireShared({ db, dir });
}

/**
 * The text of a folder's mark, made if there is none. It is on the disk before it has its name: a
 * disk that is full leaves no empty mark, which every other such folder would bear too.
 */
async function markOf(file: string): Promise<string> {
  const found = await readFile(file, 'utf8').catch(unlessMissing);
  if (found) return found;
  await makeFolder(path.dirname(file));
  const text = randomUUID();
  const beside = `${file}.${text}`;
  try {
    await writeFile(beside, text, { flush: true });
    await rename(beside, file);
  } finally {
    await rm(beside, { force: true });
  }
  return text;
}

/** Throws `export_dir_not_shared` (503) unless this folder bears the mark of the workers'. */
async function requireShared({ db, dir }: Folder): Promise<void> {
  const file = path.join(required(dir), MARKER);
  const known = await knownMarker(db);
  if (known === undefined)
    throw notShared(
      'No worker_export has taken up its EXPORT_DIR yet. Start one: npm run start:worker -- export.',
    );
  const found = await readFile(file, 'utf8').catch(() => undefined);
  if (found === known) return;
  throw notShared(
    `EXPORT_DIR ${dir} is not the folder that exports are written to: it lacks the mark of the workers' (${MARKER}). ` +
      'Give the API and all worker_export the same folder, or copy that file with the folder.',
  );
}
