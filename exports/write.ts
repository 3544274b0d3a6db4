import { createHash } from 'node:crypto';
import { createReadStream, createWriteStream } from 'node:fs';
import { open } from 'node:fs/promises';
import { pipeline } from 'node:stream/promises';
import { createGzip } from 'node:zlib';
import { type Column, fileColumns } from '../domain/exports/columns';
import { NEWLINE } from '../domain/exports/copy-text';
import type { Format } from '../domain/exports/exports';
import type { PartPage } from '../domain/exports/parts';
import type { Written } from '../domain/exports/steps';
import { addUp, type Sum } from '../domain/exports/sums';
import { Lines } from './lines';
import { writeParquet } from './parquet';
import { csv, jsonl, type TextFormat, type WriteValue } from './text-formats';

// A third of the time of the usual level, for files a fifth larger. A file's bytes depend on it.
const GZIP_LEVEL = 1;

interface Wanted {
  /** Where the file is written. */
  file: string;
  format: Format;
  /** The columns of the pages' rows. */
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
  async function* counted(): AsyncGenerator<Buffer> {
    for (let next: IteratorResult<PartPage> = first; !next.done; next = await reading.next()) {
      const page = next.value;
      rows += page.rows;
      first_id ??= page.first_id;
      last_id = page.last_id;
      sums = addUp([...sums, ...page.sums]);
      await onPage(rows);
      yield page.text;
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
  pages: AsyncIterable<Buffer>,
): Promise<void> {
  // Node's gzip writes no time and no name, so that the same text makes the same bytes.
  const gzip = createGzip({ level: GZIP_LEVEL, chunkSize: CHUNK_BYTES });
  await pipeline(() => chunksOf(format, columns, pages), gzip, createWriteStream(file));
}

const CHUNK_BYTES = 262_144;
/** One byte becomes six at most, as a control character does in JSON. */
const MOST_BYTES = 6;

async function* chunksOf(
  { head, values, row_end }: TextFormat,
  columns: readonly Column[],
  pages: AsyncIterable<Buffer>,
): AsyncGenerator<Buffer> {
  const written = values(columns);
  const end = Buffer.from(row_end);
  // The name of a column in JSON, its decimal beside it, and what stands between.
  const room = fileColumns(columns).reduce((sum, { name }) => sum + name.length + 40, end.length);
  yield Buffer.from(head(columns));
  const lines = new Lines(CHUNK_BYTES);
  for await (const text of pages)
    for (let at = 0; at < text.length; at += 1) {
      const row_bytes = text.indexOf(NEWLINE, at) - at;
      const full = lines.taken(row_bytes * MOST_BYTES + room);
      if (full !== undefined) yield full;
      for (let index = 0; index < written.length; index += 1) {
        if (index > 0) at += 1;
        at = (written[index] as WriteValue)(lines, text, at);
      }
      lines.put(end);
    }
  yield lines.rest();
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
