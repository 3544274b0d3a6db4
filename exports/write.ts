import { createHash } from 'node:crypto';
import { createReadStream, createWriteStream } from 'node:fs';
import { open } from 'node:fs/promises';
import { pipeline } from 'node:stream/promises';
import { createGzip } from 'node:zlib';
import type { Column, Row } from '../domain/exports/columns';
import type { Format } from '../domain/exports/exports';
import { addUp, type PartPage, type Sum } from '../domain/exports/parts';
import type { Written } from '../domain/exports/steps';
import { writeParquet } from './parquet';
import { csv, jsonl, type TextFormat } from './text-formats';

// A third of the time of the usual level, for files a fifth larger. A file's bytes depend on it.
const GZIP_LEVEL = 1;

interface Wanted {
  /** Where the file is written. */
  file: string;
  format: Format;
  columns: readonly Column[];
  pages: AsyncIterable<PartPage>;
  /** Hears of each page how many rows are written by then; throws to stop. */
  onPage: (rows: number) => Promise<void>;
}

/**
 * Writes the pages of a part to a file that is on the disk when this resolves. Without rows it
 * makes no file. The same pages make the same bytes.
 */
export async function writePart({
  file,
  format,
  columns,
  pages,
  onPage,
}: Wanted): Promise<Written> {
  let rows = 0;
  let first_id: string | null = null;
  let last_id: string | null = null;
  let sums: Sum[] = [];
  const reading = pages[Symbol.asyncIterator]();
  const first = await reading.next();
  if (first.done) return { rows, bytes: null, sha256: null, first_id, last_id, sums };
  async function* counted(): AsyncGenerator<Row[]> {
    for (let next: IteratorResult<PartPage> = first; !next.done; next = await reading.next()) {
      const page = next.value;
      rows += page.rows.length;
      first_id ??= page.first_id;
      last_id = page.last_id;
      sums = addUp([...sums, ...page.sums]);
      await onPage(rows);
      yield page.rows;
    }
  }
  try {
    if (format === 'parquet') await writeParquet(file, columns, counted());
    else await writeLines(file, format === 'csv' ? csv : jsonl, columns, counted());
  } finally {
    await reading.return?.();
  }
  const { bytes, sha256 } = await digestOf(file);
  return { rows, bytes, sha256, first_id, last_id, sums };
}

async function writeLines(
  file: string,
  format: TextFormat,
  columns: readonly Column[],
  pages: AsyncIterable<readonly Row[]>,
): Promise<void> {
  // Node's gzip writes no time and no name, so that the same text makes the same bytes.
  const gzip = createGzip({ level: GZIP_LEVEL, chunkSize: CHUNK_BYTES });
  await pipeline(() => chunksOf(format, columns, pages), gzip, createWriteStream(file));
}

const CHUNK_BYTES = 262_144;
/** No character of UTF-16 takes more bytes in UTF-8. */
const UNIT_BYTES = 3;

/** The text of rows as bytes: each line goes straight into a chunk, which a long text never is. */
async function* chunksOf(
  { head, lineOf }: TextFormat,
  columns: readonly Column[],
  pages: AsyncIterable<readonly Row[]>,
): AsyncGenerator<Buffer> {
  const line_of = lineOf(columns);
  yield Buffer.from(head(columns));
  let chunk = Buffer.allocUnsafe(CHUNK_BYTES);
  let end = 0;
  for await (const rows of pages) {
    for (const row of rows) {
      const line = line_of(row);
      if (end + line.length * UNIT_BYTES > chunk.length) {
        yield chunk.subarray(0, end);
        chunk = Buffer.allocUnsafe(Math.max(CHUNK_BYTES, line.length * UNIT_BYTES));
        end = 0;
      }
      end += chunk.write(line, end);
    }
  }
  yield chunk.subarray(0, end);
}

/** The size and SHA-256 of a file, in hexadecimal, once its bytes are on the disk. */
export async function digestOf(file: string): Promise<{ bytes: number; sha256: string }> {
  const handle = await open(file, 'r+');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
  const hash = createHash('sha256');
  let bytes = 0;
  for await (const chunk of createReadStream(file)) {
    hash.update(chunk);
    bytes += chunk.length;
  }
  return { bytes, sha256: hash.digest('hex') };
}
