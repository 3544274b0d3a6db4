import type { ErrorCode } from '../errors';
import { type Db, many, maybe, one } from '../sql';
import * as exports from './exports';
import type { Part } from './parts';
import type { Sum } from './sums';

// What the worker of an export records, a transaction a step. The row is the truth: a step of an
// export that does not run any more changes nothing.

/** Completed exports keep their files so long. */
const DAYS_KEPT = 7;
/** A running export without a sign of life for so long is given its workflow again. */
const SILENT_MINUTES = 5;

/** The parts of a running export that are not written yet, in their order; none if it has ended. */
export async function unwritten(db: Db, export_id: string): Promise<number[]> {
  const rows = await many<{ n: number }>(
    db,
    `select f.n from export_files f join exports x on x.id = f.export_id
     where f.export_id = :export_id and f.n > 0 and f.written_at is null and x.status = 'running' order by f.n`,
    { export_id },
  );
  return rows.map(({ n }) => n);
}

/** A part that is to be written; undefined if its export does not run, or it is written. */
export async function partOf(db: Db, export_id: string, n: number): Promise<Part | undefined> {
  return maybe<Part>(
    db,
    `select x.id as export_id, x.org_id, f.n, f.kind, f.day::text as day, x.snapshot::text as snapshot, x.events_after::text as events_after,
       greatest(x.from_time, coalesce(f.day::timestamp at time zone 'UTC', x.from_time)) as "from",
       least(x.to_time, coalesce((f.day + 1)::timestamp at time zone 'UTC', x.to_time)) as "to",
       coalesce(f.day::timestamp at time zone 'UTC' <= x.from_time, true) as is_first,
       coalesce((f.day + 1)::timestamp at time zone 'UTC' >= x.to_time, true) as is_last
     from exports x join export_files f on f.export_id = x.id
     where x.id = :export_id and f.n = :n and f.written_at is null and x.status = 'running'`,
    { export_id, n },
  );
}

/** Notes how many rows of a part are written by now; false if its export does not run any more. */
export async function progress(
  db: Db,
  { export_id, n, rows }: { export_id: string; n: number; rows: number },
): Promise<boolean> {
  const running = await many(
    db,
    `with running as (
       update exports set progressed_at = clock_timestamp() where id = :export_id and status = 'running' returning id
     ), noted as (
       update export_files f set rows = :rows from running r where f.export_id = r.id and f.n = :n and f.written_at is null
     )
     select id from running`,
    { export_id, n, rows },
  );
  return running.length > 0;
}

/** A part as it was written. A part without rows has no file. */
export interface Written {
  rows: number;
  bytes: number | null;
  sha256: string | null;
  first_id: string | null;
  last_id: string | null;
  sums: Sum[];
}

/** Records that a part is written; false if its export does not run any more. */
export async function written(
  db: Db,
  { export_id, n }: Pick<Part, 'export_id' | 'n'>,
  { sums, ...file }: Written,
): Promise<boolean> {
  const recorded = await many(
    db,
    `with running as (
       update exports set progressed_at = clock_timestamp(), error_code = null, error_message = null
       where id = :export_id and status = 'running' returning id
     )
     update export_files f set rows = :rows, bytes = :bytes, sha256 = :sha256, first_id = :first_id, last_id = :last_id,
       sums = :sums, written_at = clock_timestamp()
     from running r where f.export_id = r.id and f.n = :n returning f.n`,
    { export_id, n, ...file, sums: JSON.stringify(sums) },
  );
  return recorded.length > 0;
}

/** The end of an export whose manifest is written: its event, and the start of the next one. */
export function complete(db: Db, export_id: string): Promise<void> {
  // What a schedule brings to a bucket stays there: it is its owner who deletes it.
  return end(
    db,
    export_id,
    `status = 'completed', error_code = null, error_message = null, expires_at = case when target = 'folder' or schedule_id is null
       then clock_timestamp() + interval '${DAYS_KEPT} days' end`,
  );
}

/** Says on an export that runs what its last try met: it goes on once that is over. */
export async function trouble(
  db: Db,
  export_id: string,
  { code, message }: { code: ErrorCode; message: string },
): Promise<void> {
  await many(
    db,
    `update exports set error_code = :code, error_message = :message where id = :export_id and status = 'running'`,
    { export_id, code, message },
  );
}

/** The end of an export that cannot be written; `message` is for the person who asked for it. */
export function fail(
  db: Db,
  export_id: string,
  { code, message }: { code: ErrorCode; message: string },
): Promise<void> {
  return end(db, export_id, `status = 'failed', error_code = :code, error_message = :message`, {
    code,
    message,
  });
}

function end(
  db: Db,
  export_id: string,
  change: string,
  bindings: Record<string, unknown> = {},
): Promise<void> {
  return db.transaction(async (trx) => {
    const { org_id } = await exports.get(trx, export_id, undefined);
    await exports.lock(trx, org_id);
    const ended = await many(
      trx,
      `update exports set ${change}, ended_at = clock_timestamp() where id = :export_id and status = 'running' returning id`,
      { export_id, ...bindings },
    );
    if (ended.length === 0) return;
    await forget(trx, export_id);
    await many(
      trx,
      `select append_event(coalesce(x.org_id, 'platform'), 'export.' || x.status, jsonb_strip_nulls(jsonb_build_object(
         'export_id', x.id, 'kinds', x.kinds, 'from', iso_time(x.from_time), 'to', iso_time(x.to_time),
         'rows', f.rows, 'bytes', f.bytes, 'expires_at', iso_time(x.expires_at), 'error_code', x.error_code)))
       from exports x cross join lateral (select sum(q.rows) as rows, sum(q.bytes) as bytes from export_files q
         where q.export_id = x.id) as f
       where x.id = :export_id`,
      { export_id },
    );
    await exports.startNext(trx, org_id);
  });
}

/** Drops what only its worker needed. */
async function forget(trx: Db, export_id: string): Promise<void> {
  await many(trx, 'delete from export_rows where export_id = :export_id', { export_id });
  await many(trx, 'delete from export_wallets where export_id = :export_id', { export_id });
  await many(trx, 'delete from export_names where export_id = :export_id', { export_id });
}

/** Where the files of an export are. */
export interface Place {
  export_id: string;
  org_id: string | null;
  format: exports.Format;
  target: 'folder' | 's3';
  /** The bucket of target s3. */
  destination_id: string | null;
  status: exports.ExportStatus;
}

/** Where an export's files are; `not_found` if there is none of this id. */
export function placeOf(db: Db, export_id: string): Promise<Place> {
  return one<Place>(
    db,
    'select id as export_id, org_id, format, target, destination_id, status from exports where id = :export_id',
    { export_id },
    'No export',
  );
}

/**
 * Exports past their time expire here; then those whose files are to be deleted, the oldest first.
 */
export async function toClear(db: Db, limit: number): Promise<Place[]> {
  await many(
    db,
    `update exports set status = 'expired' where status = 'completed' and expires_at <= clock_timestamp()`,
  );
  // Whose files could not be deleted is left alone for an hour, so that it keeps no others waiting.
  return many<Place>(
    db,
    `update exports x set clear_tried_at = clock_timestamp()
     from (select q.id from exports q where q.cleared_at is null and q.status in ('failed', 'canceled', 'expired')
         and coalesce(q.clear_tried_at < clock_timestamp() - interval '1 hour', true) order by q.id limit :limit) as due
     where x.id = due.id returning x.id as export_id, x.org_id, x.format, x.target, x.destination_id, x.status`,
    { limit },
  );
}

/** Notes that the files of an export that has ended are deleted. */
export async function cleared(db: Db, export_id: string): Promise<void> {
  await db.transaction(async (trx) => {
    await forget(trx, export_id);
    await many(
      trx,
      `update exports set cleared_at = clock_timestamp()
       where id = :export_id and cleared_at is null and status in ('failed', 'canceled', 'expired')`,
      { export_id },
    );
  });
}

/**
 * Gives running exports that are silent their workflow again, and starts those that wait for none;
 * how many.
 */
export async function adoptOrphans(db: Db, limit: number): Promise<number> {
  const silent = await many(
    db,
    `update exports x set progressed_at = clock_timestamp()
     from (select q.id from exports q where q.status = 'running'
         and q.progressed_at < clock_timestamp() - interval '${SILENT_MINUTES} minutes' order by q.id limit :limit) as o
     where x.id = o.id
     returning send_to_workflow(coalesce(x.org_id, 'platform'), 'exportJob', x.id, null, jsonb_build_object('export_id', x.id))`,
    { limit },
  );
  const waiting = await many<{ org_id: string | null }>(
    db,
    `select distinct x.org_id from exports x where x.status = 'queued' and not exists (select 1 from exports r
       where r.org_id is not distinct from x.org_id and r.status = 'running') limit :limit`,
    { limit },
  );
  for (const { org_id } of waiting)
    await db.transaction(async (trx) => {
      await exports.lock(trx, org_id);
      await exports.startNext(trx, org_id);
    });
  return silent.length + waiting.length;
}

/**
 * What identifies the shared folder. If nothing does yet it is what `mark` has found or written
 * there; one worker does so after the other.
 */
export function folderMarker(db: Db, mark: () => Promise<string>): Promise<string> {
  return db.transaction(async (trx) => {
    await many(trx, 'lock table export_folder in share row exclusive mode');
    const known = await knownMarker(trx);
    if (known !== undefined) return known;
    const marker = await mark();
    await many(trx, 'insert into export_folder (marker) values (:marker)', { marker });
    return marker;
  });
}

/** The marker of the shared folder; undefined if no worker has used one yet. */
export async function knownMarker(db: Db): Promise<string | undefined> {
  return (await maybe<{ marker: string }>(db, 'select marker from export_folder'))?.marker;
}
