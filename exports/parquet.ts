import { type BasicType, fileWriter, ParquetWriter, schemaFromColumnData } from 'hyparquet-writer';
import { rowsOf } from '../domain/copy-text';
import {
  type Column,
  type ColumnType,
  fileColumns,
  fileRow,
  type Row,
} from '../domain/exports/columns';

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

/** Writes rows to a Parquet file, a group at a time. */
export async function writeParquet(
  file: string,
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
  const writer = new ParquetWriter({ writer: fileWriter(file), schema, createdBy: CREATED_BY });
  let held: Row[] = [];
  const writeGroup = async (rows: Row[]) => {
    const columnData = columns.map(({ name, type }, index) => ({
      name,
      data: rows.map((row) => cellOf(row[index] ?? null, type)),
    }));
    await writer.write({ columnData, rowGroupSize: GROUP_ROWS });
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
  await writer.finish();
}

function cellOf(value: string | null, type: ColumnType): string | bigint | Date | null {
  if (value === null) return null;
  // PostgreSQL writes it without its zone.
  if (type === 'time') return new Date(value.endsWith('Z') ? value : `${value.replace(' ', 'T')}Z`);
  return type === 'integer' || type === 'nanos' ? BigInt(value) : value;
}
