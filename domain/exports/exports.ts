import { AppError } from '../errors';
import { type ListRequest, listOf, type Part } from '../lists';
import type { Page } from '../pages';
import { type Db, many, one, owns } from '../sql';
import type { KindName } from './kinds';
import type { Sum } from './sums';

export const formats = ['jsonl', 'csv', 'parquet'] as const;
export type Format = (typeof formats)[number];

export const export_statuses = [
  'queued',
  'running',
  'completed',
  'failed',
  'canceled',
  'expired',
] as const;
export type ExportStatus = (typeof export_statuses)[number];

/** The state table: which status follows which. */
export const moves: Record<ExportStatus, readonly ExportStatus[]> = {
  queued: ['running', 'canceled'],
  running: ['completed', 'failed', 'canceled'],
  completed: ['expired'],
  failed: [],
  canceled: [],
  expired: [],
};

/** An export as people see it. */
export interface Export {
  id: string;
  /** Null: of all organizations. */
  org_id: string | null;
  kinds: KindName[];
  format: Format;
  from: Date;
  /** The first moment that is no longer in it. */
  to: Date;
  target: 'folder' | 's3';
  /** The bucket of target s3. */
  destination_id: string | null;
  /** The schedule that made it. */
  schedule_id: string | null;
  status: ExportStatus;
  parts_done: number;
  /** Files to write, the manifest too. */
  parts_total: number;
  /** Rows that are written by now. */
  rows: bigint;
  bytes: bigint;
  created_at: Date;
  created_by: string;
  started_at: Date | null;
  ended_at: Date | null;
  expires_at: Date | null;
  error_code: string | null;
  error_message: string | null;
}

/** True while it waits or is written. */
export function isUnderWay({ status }: Pick<Export, 'status'>): boolean {
  return status === 'queued' || status === 'running';
}

/** A file of an export. */
export interface ExportFile {
  n: number;
  kind: KindName | 'manifest';
  /** Null: of the whole period. */
  day: string | null;
  rows: bigint;
  /** Null until it is written, and of a part without rows. */
  bytes: bigint | null;
  sha256: string | null;
  first_id: string | null;
  last_id: string | null;
  sums: Sum[] | null;
  written_at: Date | null;
}

const exportColumns = `
  select x.id, x.org_id, x.kinds, x.format, x.from_time as "from", x.to_time as "to", x.target, x.destination_id, x.schedule_id, x.status, f.parts_done, f.parts_total,
  f.rows, f.bytes, x.created_at, x.created_by, x.started_at, x.ended_at, x.expires_at, x.error_code, x.error_message`;

const exportTable = `from exports x cross join lateral (
  select count(*) filter (where q.written_at is not null)::int as parts_done, count(*)::int as parts_total,
    coalesce(sum(q.rows), 0)::bigint as rows, coalesce(sum(q.bytes), 0)::bigint as bytes
  from export_files q where q.export_id = x.id) as f`;

/** Whose exports: of an organization, of the platform (null), or of all (undefined). */
interface Owned {
  org_id: string | null | undefined;
}

const own = '(:is_any or x.org_id is not distinct from :org_id)';

function ownerOf({ org_id }: Owned) {
  return { org_id: org_id ?? null, is_any: org_id === undefined };
}

/** Exports, as they were asked for. */
export function list(
  db: Db,
  { org_id, status }: Owned & { status?: ExportStatus | undefined },
  request: ListRequest,
): Promise<Page<Export> | Part<Export>> {
  const conditions = [
    org_id === undefined ? 'true' : owns('x.org_id', org_id),
    ...(status ? ['x.status = :status'] : []),
  ];
  return listOf(
    db,
    {
      name: 'exports',
      select: exportColumns,
      from: `${exportTable} where ${conditions.join(' and ')}`,
      bindings: { ...ownerOf({ org_id }), status: status ?? null },
      id: 'x.id',
      created_at: 'x.created_at',
    },
    request,
  );
}

/** One export, of any organization if `org_id` is undefined; `not_found` if it is another's. */
export function get(db: Db, id: string, org_id: string | null | undefined): Promise<Export> {
  return one<Export>(
    db,
    `${exportColumns} ${exportTable} where x.id = :id and ${own}`,
    { id, ...ownerOf({ org_id }) },
    'No export',
  );
}

const fileRows = `
  select f.n, f.kind, f.day::text as day, f.rows, f.bytes, f.sha256, f.first_id, f.last_id, f.sums, f.written_at
  from export_files f where f.export_id = :id`;

/** The files of an export by their numbers, the manifest first. */
export function filesOf(db: Db, id: string): Promise<ExportFile[]> {
  return many<ExportFile>(db, `${fileRows} order by f.n`, { id });
}

/** One file of an export; `not_found` if it has none of this number. */
export function fileOf(db: Db, id: string, n: number): Promise<ExportFile> {
  return one<ExportFile>(db, `${fileRows} and f.n = :n`, { id, n }, 'No file');
}

/**
 * Ends an export at somebody's wish. Its worker is told, and deletes what it has written; one that
 * is completed expires at once, and the upkeep deletes its files. Throws `not_found`, or
 * `export_state` if it has failed; one that has ended so already stays so.
 */
export function cancel(db: Db, id: string, org_id: string | null | undefined): Promise<Export> {
  return db.transaction(async (trx) => {
    const { org_id: owner } = await get(trx, id, org_id);
    await lock(trx, owner);
    const canceled = await many(
      trx,
      `update exports set status = 'canceled', ended_at = clock_timestamp()
       where id = :id and status in ('queued', 'running')
       returning send_to_workflow(coalesce(org_id, 'platform'), 'exportJob', id, 'canceled', jsonb_build_object('export_id', id))`,
      { id },
    );
    if (canceled.length > 0) await startNext(trx, owner);
    await many(
      trx,
      `update exports set status = 'expired', expires_at = clock_timestamp() where id = :id and status = 'completed'`,
      { id },
    );
    const now = await get(trx, id, org_id);
    if (now.status === 'failed')
      throw new AppError('export_state', 'This export has failed: there is nothing to delete.');
    return now;
  });
}

/** Takes the lock by which exports of one organization are moved one after the other. */
export async function lock(trx: Db, org_id: string | null): Promise<void> {
  await many(trx, 'select lock_exports(:org_id)', { org_id });
}

/** Starts the oldest export that waits, unless one runs. The caller holds the lock. */
export async function startNext(trx: Db, org_id: string | null): Promise<void> {
  await many(trx, 'select start_next_export(:org_id)', { org_id });
}

/** The line that operators read of an export. */
export async function summary(db: Db, id: string): Promise<string> {
  const { org_id, kinds, from, to, status, parts_done, parts_total, rows } = await get(
    db,
    id,
    undefined,
  );
  const whose = org_id ?? 'all organizations';
  return (
    `Export of ${kinds.join(', ')} of ${whose}, ${from.toISOString()} to ${to.toISOString()}: ${status}, ` +
    `${parts_done} of ${parts_total} files, ${rows} rows`
  );
}

/** True while a worker has something to do for it: to write, or to delete what was written. */
export async function isUnfinished(db: Db, id: string): Promise<boolean> {
  const found = await many(
    db,
    `select 1 from exports where id = :id and (status = 'running' or (status in ('canceled', 'failed') and cleared_at is null))`,
    { id },
  );
  return found.length > 0;
}
