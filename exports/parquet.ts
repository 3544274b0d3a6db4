import { closeSync, openSync, writeSync } from 'node:fs';
import { type BasicType, ByteWriter, ParquetWriter, schemaFromColumnData } from 'hyparquet-writer';
import {
  type Column,
  type ColumnType,
  fileColumns,
  fileRow,
  type Row,
} from '../domain/exports/columns';
import { rowsOf } from '../domain/exports/copy-text';

/** Rows that are held until they are written together. A file's bytes depend on it. */
const GROUP_ROWS = 20_000;
/** Characters that are held at most, but for the last row's. It is the content that decides. */
const GROUP_CHARACTERS = 16 * 1_048_576;

/** A part of the file's bytes: another name makes another file. */
const CREATED_BY = 'svc exports 1';

// Exact decimals stay text; the integers of billionths beside them can be reckoned with. Sums of
// these may need more than 64 bits: they are text, which no reader rounds.
const types: Record<ColumnType, BasicType> = {
  text: 'STRING',
  json: 'STRING',
  decimal: 'STRING',
  time: 'TIMESTAMP',
  integer: 'INT64',
  nanos: 'INT64',
  sum: 'STRING',
};

// Bytes that are held before they are written.
const CHUNK_BYTES = 1_000_000;

/**
 * Writes to one open file. The package's own writer opens its file anew for each chunk, so that a
 * draft that was deleted meanwhile would go on without its beginning.
 */
class OpenFile extends ByteWriter {
  private readonly fd: number;

  constructor(fd: number) {
    super();
    this.fd = fd;
  }

  override ensure(size: number): void {
    if (this.index > CHUNK_BYTES) this.writeOut();
    super.ensure(size);
  }

  override finish(): void {
    this.writeOut();
  }

  private writeOut(): void {
    const bytes = this.getBytes();
    for (let at = 0; at < bytes.length; ) at += writeSync(this.fd, bytes, at);
    this.index = 0;
  }
}

/** Writes rows to a Parquet file, a group at a time. */
export async function writeParquet(
  file: string,
  selected: readonly Column[],
  pages: AsyncIterable<Buffer>,
): Promise<void> {
  const fd = openSync(file, 'w');
  try {
    await writeGroups(new OpenFile(fd), selected, pages);
  } finally {
    closeSync(fd);
  }
}

async function writeGroups(
  writer: OpenFile,
  selected: readonly Column[],
  pages: AsyncIterable<Buffer>,
): Promise<void> {
  const columns = fileColumns(selected);
  const described = columns.map(({ name, type }) => ({
    name,
    type: types[type],
    nullable: true,
    data: [],
  }));
  const schema = schemaFromColumnData({ columnData: described });
  const parquet = new ParquetWriter({ writer, schema, createdBy: CREATED_BY });
  let held: Row[] = [];
  const writeGroup = async (rows: Row[]) => {
    const columnData = columns.map(({ name, type }, index) => ({
      name,
      data: rows.map((row) => cellOf(row[index] ?? null, type)),
    }));
    await parquet.write({ columnData, rowGroupSize: GROUP_ROWS });
  };
  let characters = 0;
  for await (const text of pages)
    for (const found of rowsOf(text)) {
      const row = fileRow(selected, found);
      held.push(row);
      for (const value of row) characters += value?.length ?? 0;
      if (held.length < GROUP_ROWS && characters < GROUP_CHARACTERS) continue;
      await writeGroup(held);
      held = [];
      characters = 0;
    }
  if (held.length > 0) await writeGroup(held);
  await parquet.finish();
}

function cellOf(value: string | null, type: ColumnType): string | bigint | Date | null {
  if (value === null) return null;
  // PostgreSQL writes it without its zone.
  if (type === 'time') return new Date(value.endsWith('Z') ? value : `${value.replace(' ', 'T')}Z`);
  return type === 'integer' || type === 'nanos' ? BigInt(value) : value;
}
