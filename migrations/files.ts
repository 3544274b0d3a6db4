import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { root } from '../runtime/root';

const folder = join(root, 'migrations');

/** The state of the schema after all migrations: written by `npm run schema`, for people. */
export const schemaFile = join(folder, 'schema.sql');

/** The names of the migrations, in the order in which they run. */
export async function migrationNames(): Promise<string[]> {
  const names = await readdir(folder);
  return names.filter((name) => /^\d{4}-.*\.sql$/.test(name)).sort();
}

export function migrationText(name: string): Promise<string> {
  return readFile(join(folder, name), 'utf8');
}
