import { mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs';
import { mkdir, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';

/** Files of exports are for their processes alone, and for their group. */
const FOLDER_MODE = 0o750;

/**
 * Where a file may be written before it has its name; its folder is there. What an earlier try has
 * left of the same file is deleted: its worker has died, or is about to hear that it is not wanted.
 */
export async function draftIn(folder: string, base: string, attempt: string): Promise<string> {
  await makeFolder(folder);
  const prefix = `.${base}.`;
  for (const name of await readdir(folder))
    if (name.startsWith(prefix)) await rm(path.join(folder, name), { force: true });
  return path.join(folder, `${prefix}${attempt}`);
}

/**
 * Makes a folder and those above it that are missing. Node's own recursive call says ENOENT of a
 * disk that may only be read.
 */
export async function makeFolder(folder: string): Promise<void> {
  try {
    await mkdir(folder, { mode: FOLDER_MODE });
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'EEXIST') return;
    const above = path.dirname(folder);
    if (code !== 'ENOENT' || above === folder) throw error;
    await makeFolder(above);
    await makeFolder(folder);
  }
}

/** Deletes what killed workers left in a folder whose files are all written. */
export async function deleteDrafts(folder: string): Promise<void> {
  const names = await readdir(folder).catch(unlessMissing);
  for (const name of names ?? [])
    if (name.startsWith('.')) await rm(path.join(folder, name), { force: true });
}

/** What `catch` makes of a file or folder that is not there; throws any other error. */
export function unlessMissing(error: NodeJS.ErrnoException): undefined {
  if (error.code !== 'ENOENT') throw error;
}

const OWN = 'svc-export-drafts-';
/** Longer than a step may take: nobody writes on what was not touched since. */
const LEFT_MS = 7 * 3_600_000;

let own: string | undefined;

/** A folder that this process alone may look into, and that is removed as it ends. */
export function ownDrafts(): string {
  if (own !== undefined) return own;
  removeLeft();
  // With mode 0700, under a name that nobody can have taken before.
  const folder = mkdtempSync(path.join(tmpdir(), OWN));
  process.once('exit', () => rmSync(folder, { recursive: true, force: true }));
  own = folder;
  return folder;
}

/** Removes the folders of processes of this user that were killed. */
export function removeLeft(now = Date.now()): void {
  for (const name of readdirSync(tmpdir())) {
    if (!name.startsWith(OWN)) continue;
    const folder = path.join(tmpdir(), name);
    try {
      const touched = [folder, ...readdirSync(folder).map((file) => path.join(folder, file))];
      if (touched.every((one) => statSync(one).mtimeMs < now - LEFT_MS))
        rmSync(folder, { recursive: true });
    } catch {
      // It is another user's, or its process has just removed it.
    }
  }
}
