import { mkdtempSync, rmSync } from 'node:fs';
import { mkdir, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';

/** Files of exports are for their processes alone, and for their group. */
export const FOLDER_MODE = 0o750;

/**
 * Where a file may be written before it has its name; its folder is there. What an earlier try has
 * left of the same file is deleted: its worker has died, or is about to hear that it is not wanted.
 */
export async function draftIn(folder: string, base: string, attempt: string): Promise<string> {
  await mkdir(folder, { recursive: true, mode: FOLDER_MODE });
  const prefix = `.${base}.`;
  for (const name of await readdir(folder))
    if (name.startsWith(prefix)) await rm(path.join(folder, name), { force: true });
  return path.join(folder, `${prefix}${attempt}`);
}

let own: string | undefined;

/** A folder that this process alone may look into, and that is removed as it ends. */
export function ownDrafts(): string {
  if (own !== undefined) return own;
  // With mode 0700, under a name that nobody can have taken before.
  const folder = mkdtempSync(path.join(tmpdir(), 'svc-export-drafts-'));
  process.once('exit', () => rmSync(folder, { recursive: true, force: true }));
  own = folder;
  return folder;
}
