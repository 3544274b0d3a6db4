import { randomUUID } from 'node:crypto';
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { gunzipSync } from 'node:zlib';
import { asyncBufferFromFile, parquetMetadataAsync, parquetReadObjects } from 'hyparquet';
import { type Column, decimalOf, type Row } from '../../domain/exports/columns';
import { copyLine } from '../../domain/exports/copy-text';
import { columnsOf } from '../../domain/exports/kinds';
import type { PartPage } from '../../domain/exports/parts';
import { decimalText } from '../../domain/money';
import { writePart } from '../../exports/write';
import { until } from '../support/until';

// What a file holds is what the rows say, in each format, and the same rows make the same bytes.

let dir: string;

beforeAll(async () => {
  dir = await mkdtemp(path.join(tmpdir(), 'svc-formats-'));
});

afterAll(() => rm(dir, { recursive: true }));

const selected: Column[] = [
  { name: 'id', type: 'text' },
  { name: 'created_at', type: 'time' },
  { name: 'seq', type: 'integer' },
  { name: 'note', type: 'text' },
  { name: 'payload', type: 'json' },
  { name: 'amount_nanos', type: 'nanos' },
];
function row(n: number, note: string | null, amount_nanos: string | null): Row {
  const at = '2027-01-31T23:59:59.999Z';
  return [`id_${n}`, at, String(n), note, `{"n": ${n}}`, amount_nanos];
}

async function* pagesOf(...pages: Row[][]): AsyncGenerator<PartPage> {
  for (const rows of pages)
    yield {
      text: Buffer.from(rows.map(copyLine).join('')),
      rows: rows.length,
      first_id: rows[0]?.[0] ?? null,
      last_id: rows.at(-1)?.[0] ?? null,
      sums: [],
    };
}

async function write(format: 'jsonl' | 'csv' | 'parquet', ...pages: Row[][]) {
  const file = path.join(dir, randomUUID());
  const onPage = async () => undefined;
  const written = await writePart({
    file,
    format,
    columns: selected,
    pages: pagesOf(...pages),
    onPage,
  });
  return { file, written };
}

const big = '-9007199254740993000000001';

test('amounts stand as exact text beside nanos, above what a double can say too', async () => {
  const { file, written } = await write('jsonl', [row(1, 'a "b"\n', big), row(2, null, null)]);
  const lines = gunzipSync(await readFile(file))
    .toString()
    .trimEnd()
    .split('\n');
  expect(lines.map((line) => JSON.parse(line))).toEqual([
    {
      id: 'id_1',
      created_at: '2027-01-31T23:59:59.999Z',
      seq: 1,
      note: 'a "b"\n',
      payload: { n: 1 },
      amount: '-9007199254740993.000000001',
      amount_nanos: big,
    },
    expect.objectContaining({ note: null, amount: null, amount_nanos: null }),
  ]);
  expect(written).toMatchObject({ rows: 2, first_id: 'id_1', last_id: 'id_2' });
});

test.each([
  ['=1+1', "'=1+1"],
  ['+1', "'+1"],
  ['-1', "'-1"],
  ['@SUM(A1)', "'@SUM(A1)"],
  ['\t=1', "'\t=1"],
  ['\r=1', `"'\r=1"`],
  ['\n=1', `"'\n=1"`],
  ['＝1+1', "'＝1+1"],
  ['＋1', "'＋1"],
  ['－1', "'－1"],
  ['＠SUM(A1)', "'＠SUM(A1)"],
  ['=cmd|"/c calc"!A1', `"'=cmd|""/c calc""!A1"`],
  ['a,b', '"a,b"'],
  ['line\nbreak', '"line\nbreak"'],
  ['', '""'],
  ['plain - text', 'plain - text'],
])('a CSV cell of %j is %j: no spreadsheet runs it', async (note, cell) => {
  const { file } = await write('csv', [row(1, note, '-5')]);
  const text = gunzipSync(await readFile(file)).toString();
  expect(text).toBe(
    'id,created_at,seq,note,payload,amount,amount_nanos\r\n' +
      `id_1,2027-01-31T23:59:59.999Z,1,${cell},"{""n"": 1}",-0.000000005,-5\r\n`,
  );
});

test.each([
  ['\b\f\n\r\t\v\\"', String.raw`"\b\f\n\r\t\u000b\\\""`],
  ['\u0001\u001f', String.raw`"\u0001\u001f"`],
  ['\\N', String.raw`"\\N"`],
  ['', '""'],
  ['tab\there, 💶 and ü', String.raw`"tab\there, 💶 and ü"`],
])('a text of %j is the JSON text that JSON.stringify writes', async (note, json) => {
  expect(json).toBe(JSON.stringify(note));
  const { file } = await write('jsonl', [row(1, note, null)]);
  expect(gunzipSync(await readFile(file)).toString()).toContain(`"note":${json},`);
});

test.each([
  ['2027-01-31 23:59:59', '2027-01-31T23:59:59.000Z'],
  ['2027-01-31 23:59:59.5', '2027-01-31T23:59:59.500Z'],
  ['2027-01-31 23:59:59.999999', '2027-01-31T23:59:59.999Z'],
  ['2027-01-31T23:59:59.123Z', '2027-01-31T23:59:59.123Z'],
])('a time that PostgreSQL writes as %s is %s in each format', async (written, shown) => {
  const cells = ['id', written, '1', 'note', '{}', null];
  for (const format of ['jsonl', 'csv'] as const) {
    const { file } = await write(format, [cells]);
    expect(gunzipSync(await readFile(file)).toString()).toContain(shown);
  }
  const { file } = await write('parquet', [cells]);
  const [read] = await parquetReadObjects({ file: await asyncBufferFromFile(file) });
  expect(read?.created_at).toEqual(new Date(shown));
});

test('null is an empty CSV cell, which an empty text is not', async () => {
  const { file } = await write('csv', [row(1, null, null)]);
  const [, line] = gunzipSync(await readFile(file))
    .toString()
    .split('\r\n');
  expect(line).toBe('id_1,2027-01-31T23:59:59.999Z,1,,"{""n"": 1}",,');
});

test('a Parquet file is read back as it was written, over several groups of rows', async () => {
  const rows = Array.from({ length: 45_000 }, (_, n) =>
    row(n, n % 3 === 0 ? null : `note ${n}`, n % 5 === 0 ? null : String(n * 1_000_003)),
  );
  const pages = Array.from({ length: 9 }, (_, n) => rows.slice(n * 5_000, (n + 1) * 5_000));
  const { file, written } = await write('parquet', ...pages);
  expect(written.rows).toBe(45_000);
  const read = await parquetReadObjects({ file: await asyncBufferFromFile(file) });
  expect(read).toHaveLength(45_000);
  for (const n of [0, 1, 19_999, 20_000, 44_999])
    expect(read[n]).toEqual({
      id: `id_${n}`,
      created_at: new Date('2027-01-31T23:59:59.999Z'),
      seq: BigInt(n),
      note: n % 3 === 0 ? null : `note ${n}`,
      payload: `{"n": ${n}}`,
      amount: n % 5 === 0 ? null : decimalOf(String(n * 1_000_003)),
      amount_nanos: n % 5 === 0 ? null : BigInt(n * 1_000_003),
    });
});

test('sums that 64 bits cannot say stand in a Parquet file of statements to the nano', async () => {
  const columns = columnsOf('statement');
  const values: Row = columns.map(({ type }) => (type === 'sum' ? big : '1'));
  const file = path.join(dir, randomUUID());
  const onPage = async () => undefined;
  await writePart({ file, format: 'parquet', columns, pages: pagesOf([values]), onPage });
  const [read] = await parquetReadObjects({ file: await asyncBufferFromFile(file) });
  expect(read).toMatchObject({
    opening_nanos: 1n,
    closing_nanos: 1n,
    allocation_in: decimalOf(big),
    allocation_in_nanos: big,
    cost_nanos: big,
  });
});

test('the same rows make the same bytes of each format, and the time of writing is not among them', async () => {
  const rows = Array.from({ length: 3_000 }, (_, n) => row(n, `note ${n % 7}`, String(n)));
  const formats = ['jsonl', 'csv', 'parquet'] as const;
  const writeAll = async () => {
    const files: [unknown, Buffer][] = [];
    for (const format of formats) {
      const { written, file } = await write(format, rows);
      files.push([written, await readFile(file)]);
    }
    return files;
  };
  const first = await writeAll();
  // Formats keep times to the second.
  const second_of = () => Math.floor(Date.now() / 1_000);
  const before = second_of();
  await until(() => second_of() > before);
  expect(await writeAll()).toEqual(first);
});

test('without rows there is no file', async () => {
  const { file, written } = await write('csv');
  expect(written).toMatchObject({ rows: 0, bytes: null, sha256: null });
  expect(await readdir(dir)).not.toContain(path.basename(file));
});

test.each(['jsonl', 'csv', 'parquet'] as const)(
  'a disk that is full fails the writing of %s; no part of it counts as written',
  async (format) => {
    const rows = Array.from({ length: 20_000 }, () => row(1, randomUUID(), '1'));
    const onPage = async () => undefined;
    const writing = writePart({
      file: '/dev/full',
      format,
      columns: selected,
      pages: pagesOf(rows),
      onPage,
    });
    await expect(writing).rejects.toMatchObject({ code: 'ENOSPC' });
  },
);

test.each(['jsonl', 'csv', 'parquet'] as const)(
  'a draft of %s that is deleted while it is written is no file, and never the rest of one',
  async (format) => {
    const rows = Array.from({ length: 25_000 }, (_, n) => row(n, randomUUID(), '1'));
    const file = path.join(dir, randomUUID());
    let pages = 0;
    const onPage = async () => {
      pages += 1;
      if (pages === 3) await rm(file);
    };
    const pages_of = pagesOf(rows, rows, rows, rows);
    const writing = writePart({ file, format, columns: selected, pages: pages_of, onPage });
    await expect(writing).rejects.toMatchObject({ code: 'ENOENT' });
    expect(await readdir(dir)).not.toContain(path.basename(file));
  },
);

test('the decimals of files are those of money, whatever the amount', async () => {
  const amounts = [
    '0',
    '1',
    '-1',
    '10',
    '999999999',
    '1000000000',
    '-1000000000',
    '1500000000',
    big,
  ];
  const all = [...amounts, '9000000000000000000', '-100', '123456789012345678'];
  for (const nanos of all)
    expect([nanos, decimalOf(nanos)]).toEqual([nanos, decimalText(BigInt(nanos))]);
  const { file } = await write(
    'csv',
    all.map((nanos) => row(1, null, nanos)),
  );
  const lines = gunzipSync(await readFile(file))
    .toString()
    .trimEnd()
    .split('\r\n')
    .slice(1);
  expect(lines.map((line) => line.split(',').slice(-2).join())).toEqual(
    all.map((nanos) => `${decimalText(BigInt(nanos))},${nanos}`),
  );
});

test('groups of long rows are written by their size, wherever pages end', async () => {
  const rows = Array.from({ length: 40 }, (_, n) => row(n, 'x'.repeat(1_048_576), null));
  const { file, written } = await write('parquet', rows);
  const { row_groups } = await parquetMetadataAsync(await asyncBufferFromFile(file));
  expect(row_groups.map(({ num_rows }) => Number(num_rows))).toEqual([16, 16, 8]);
  const again = await write('parquet', rows.slice(0, 7), rows.slice(7));
  expect(again.written.sha256).toBe(written.sha256);
});
