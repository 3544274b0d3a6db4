import { decimalText } from '../money';
import type { Export, ExportFile, Format } from './exports';
import { columnsOf } from './kinds';
import { addUp, type Sum } from './sums';

const endings: Record<Format, string> = {
  jsonl: 'jsonl.gz',
  csv: 'csv.gz',
  parquet: 'parquet',
};

/** The name of a file: `ledger-2027-01-31.jsonl.gz`, `statement.csv.gz`, `manifest.json`. */
export function fileName({ kind, day }: Pick<ExportFile, 'kind' | 'day'>, format: Format): string {
  if (kind === 'manifest') return 'manifest.json';
  return `${day === null ? kind : `${kind}-${day}`}.${endings[format]}`;
}

/** The folder of an export's files, below that of its organization. */
export function folderOf({ org_id, id }: { org_id: string | null; id: string }): string {
  return `${ownerFolder(org_id)}/${id}`;
}

/** The folder of all exports of an organization, or of the platform (null). */
export function ownerFolder(org_id: string | null): string {
  return org_id === null ? 'platform' : `org/${org_id}`;
}

/**
 * The manifest, which is written last: an export without one is not complete. Its text is the same
 * each time it is made.
 */
export function manifestText(made: Export, files: readonly ExportFile[]): string {
  const parts = files.filter(({ n }) => n > 0);
  const manifest = {
    export_id: made.id,
    org_id: made.org_id,
    from: made.from,
    to: made.to,
    as_of: made.created_at,
    format: made.format,
    rows: parts.reduce((sum, { rows }) => sum + Number(rows), 0),
    bytes: parts.reduce((sum, { bytes }) => sum + Number(bytes ?? 0), 0),
    kinds: made.kinds.map((kind) => ({
      kind,
      columns: columnsOf(kind),
      sums: shown(
        addUp(parts.filter((one) => one.kind === kind).flatMap(({ sums }) => sums ?? [])),
      ),
    })),
    files: parts.map(({ kind, day, rows, bytes, sha256, first_id, last_id, sums, n }) => ({
      n,
      // A day without rows has no file.
      name: sha256 === null ? null : fileName({ kind, day }, made.format),
      kind,
      day,
      rows: Number(rows),
      bytes: bytes === null ? null : Number(bytes),
      sha256,
      first_id,
      last_id,
      sums: shown(sums ?? []),
    })),
  };
  return `${JSON.stringify(manifest, null, 2)}\n`;
}

function shown(sums: readonly Sum[]) {
  return sums.map(({ amount_nanos, ...sum }) => ({
    ...sum,
    amount: amount_nanos === null ? null : decimalText(BigInt(amount_nanos)),
    amount_nanos,
  }));
}
