import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { type Db, many } from '../../domain/sql';
import { filesBelow } from '../exports/world';

// Exports that stand still at one of their records, for tests that end something meanwhile.

/**
 * In the middle of a file; a file has its name, its row does not say so; the same of the manifest;
 * all is there but the end.
 */
export const export_steps = ['page', 'file', 'manifest', 'completed'] as const;
export type ExportStep = (typeof export_steps)[number];

/** The next record of an export at a step waits, and is never committed. */
const stalling = `
  create table export_stalls (step text);
  create function stall_export() returns trigger language plpgsql as $$
  declare
    o jsonb := to_jsonb(old);
    n jsonb := to_jsonb(new);
  begin
    if exists (select from export_stalls s where s.step = case
        when tg_table_name = 'export_files' and n ->> 'written_at' is distinct from o ->> 'written_at'
          then case n ->> 'n' when '0' then 'manifest' else 'file' end
        when tg_table_name = 'export_files' then 'page'
        when n ->> 'status' is distinct from o ->> 'status' then n ->> 'status' end) then
      perform pg_sleep(900);
    end if;
    return new;
  end $$;
  create trigger stall_export before update on export_files for each row execute function stall_export();
  create trigger stall_export before update on exports for each row execute function stall_export()`;

const sleeping = `datname = current_database() and wait_event = 'PgSleep'`;

/** Lets exports of a database stand still from now on, once a step is named. */
export async function makeStalls(db: Db): Promise<void> {
  await many(db, stalling);
}

/** Lets the next record at a step stand still. */
export async function stallAt(db: Db, step: ExportStep): Promise<void> {
  await many(db, 'insert into export_stalls values (:step)', { step });
}

export async function standsStill(db: Db): Promise<boolean> {
  return (await many(db, `select 1 from pg_stat_activity where ${sleeping}`)).length > 0;
}

/** No further record stands still; one that does goes on to. */
export async function stallNoMore(db: Db): Promise<void> {
  await many(db, 'delete from export_stalls');
}

/** The record that stands still is undone, as the database does once its client is gone. */
export async function undoStall(db: Db): Promise<void> {
  await many(db, `select pg_terminate_backend(pid) from pg_stat_activity where ${sleeping}`);
}

/** Its SHA-256, in hexadecimal. */
export function hash(bytes: Buffer | undefined): string {
  return createHash('sha256')
    .update(bytes ?? '')
    .digest('hex');
}

/**
 * The manifest of an export in a folder, but for what names this export among others. It is the
 * only one, the files beside it are those that it names, by their sums, and nothing is left over.
 */
export async function wholeFolder(dir: string, export_id: string): Promise<object> {
  const files = (await filesBelow(dir)).filter((name) => name.includes(export_id));
  const manifests = files.filter((name) => path.basename(name) === 'manifest.json');
  expect(manifests).toHaveLength(1);
  const at = path.join(dir, path.dirname(manifests[0] as string));
  const text = await readFile(path.join(at, 'manifest.json'), 'utf8');
  const { export_id: named, as_of, ...manifest } = JSON.parse(text);
  expect(named).toBe(export_id);
  const written = manifest.files.filter(({ name }: { name: string | null }) => name !== null);
  expect(files.map((name) => path.basename(name)).sort()).toEqual(
    ['manifest.json', ...written.map(({ name }: { name: string }) => name)].sort(),
  );
  for (const { name, sha256, bytes } of written) {
    const found = await readFile(path.join(at, name));
    expect([name, found.length, hash(found)]).toEqual([name, bytes, sha256]);
  }
  return manifest;
}
