import { randomUUID } from 'node:crypto';
import { readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { gunzipSync } from 'node:zlib';
import { asyncBufferFromFile, parquetReadObjects } from 'hyparquet';
import type { Row } from '../../domain/exports/columns';
import { fileColumns } from '../../domain/exports/columns';
import { columnsOf, kind_names } from '../../domain/exports/kinds';
import { many } from '../../domain/sql';
import { writePart } from '../../exports/write';
import { makeTenant } from '../support/api';
import { download, type ExportWorld, ended, lastHour, openExportWorld } from './world';

// Texts that people choose, as somebody else's reader finds them in files of CSV and Parquet.

let world: ExportWorld;

beforeAll(async () => {
  world = await openExportWorld();
});
afterAll(() => world.close());

/** The cells of a CSV text by RFC 4180; null for an empty cell, unlike an empty text in quotes. */
function csvRows(text: string): (string | null)[][] {
  const rows: (string | null)[][] = [];
  let row: (string | null)[] = [];
  for (let at = 0; at < text.length; ) {
    let cell: string | null = null;
    if (text[at] === '"') {
      cell = '';
      for (at += 1; text[at] !== '"' || text[at + 1] === '"'; at += 1) {
        if (text[at] === '"') at += 1;
        cell += text[at];
      }
      at += 1;
    } else {
      const from = at;
      while (text[at] !== ',' && text[at] !== '\r') at += 1;
      if (at > from) cell = text.slice(from, at);
    }
    row.push(cell);
    if (text[at] === ',') at += 1;
    else {
      expect(text.slice(at, at + 2)).toBe('\r\n');
      at += 2;
      rows.push(row);
      row = [];
    }
  }
  return rows;
}

/** A value in the text form of COPY. */
const copied = (value: string | null) =>
  value === null
    ? '\\N'
    : value.replace(/[\\\n\r\t]/g, (one) => {
        return { '\\': '\\\\', '\n': '\\n', '\r': '\\r', '\t': '\\t' }[one] as string;
      });

const formulas = [
  '=1+1',
  '+1',
  '-1',
  '@SUM(A1)',
  '\t=1',
  '\r=1',
  '\n=1',
  '＝1+1',
  '＋1',
  '－1',
  '＠A',
];

test.each(kind_names)('no text column of %s is a formula to a spreadsheet', async (kind) => {
  const columns = columnsOf(kind);
  const texts = columns.filter(({ type }) => type === 'text' || type === 'json');
  expect(texts.length).toBeGreaterThan(3);
  const rows: { row: Row; name: string; value: string }[] = texts.flatMap(({ name }) =>
    formulas.map((value) => ({
      name,
      value,
      row: columns.map((column) => (column.name === name ? value : null)),
    })),
  );
  const file = path.join(tmpdir(), randomUUID());
  async function* pages() {
    const text = rows.map(({ row }) => `${row.map(copied).join('\t')}\n`).join('');
    yield { text: Buffer.from(text), rows: rows.length, first_id: null, last_id: null, sums: [] };
  }
  const onPage = async () => undefined;
  await writePart({ file, format: 'csv', columns, pages: pages(), onPage });
  const [head = [], ...found] = csvRows(gunzipSync(await readFile(file)).toString());
  await rm(file);
  expect(head).toEqual(fileColumns(columns).map(({ name }) => name));
  expect(found).toHaveLength(rows.length);
  for (const [n, { name, value }] of rows.entries()) {
    const cells = found[n] ?? [];
    expect([name, cells[head.indexOf(name)]]).toEqual([name, `'${value}`]);
    expect(cells.filter((cell) => cell !== null)).toHaveLength(1);
  }
});

const names = [
  '"'.repeat(200),
  `line\r\nbreak, ${'x'.repeat(180)}`,
  '👩‍👩‍👧‍👦'.repeat(18).slice(0, 198),
  'a\tb\\c\\N\u2028 ü "quoted", \'single\' 💶',
  '\\N',
];

test.each(['csv', 'parquet'])(
  'names of 200 characters, with quotes, breaks of lines and emoji, are read back from %s as they are',
  async (format) => {
    const { db, call } = world;
    const exporter = await world.startExporter();
    for (const name of names) {
      const tenant = await makeTenant(db);
      const { org_id, team_id, owner_key: key } = tenant;
      await many(db, 'update teams set name = :name where id = :team_id', { name, team_id });
      await many(db, 'update organizations set name = :name where id = :org_id', { name, org_id });
      await many(
        db,
        `select credit(:org_id, (ensure_wallet(:org_id, 'team', :team_id)).id, 5, :name)`,
        {
          ...{ org_id, team_id, name },
        },
      );
      const period = await lastHour();
      const body = { kinds: ['ledger', 'statement'], format, ...period };
      const made = await call('post', '/v1/exports', { key, body });
      expect(made.status).toBe(201);
      const done = await ended(world, key, made.body.id);
      const read = async (kind: string): Promise<Record<string, unknown>[]> => {
        const file = done.files.find(
          (one: { kind: string; sha256: string | null }) =>
            one.kind === kind && one.sha256 !== null,
        );
        const { bytes } = await download(world, key, `${done.id}/files/${file.n}`);
        if (format === 'csv') {
          const [head = [], ...rows] = csvRows(gunzipSync(bytes).toString());
          return rows.map((row) => Object.fromEntries(row.map((cell, n) => [head[n], cell])));
        }
        const file_name = path.join(tmpdir(), randomUUID());
        await writeFile(file_name, bytes);
        const rows = await parquetReadObjects({ file: await asyncBufferFromFile(file_name) });
        await rm(file_name);
        return rows;
      };
      const of_team = ({ wallet_owner_type }: Record<string, unknown>) =>
        wallet_owner_type === 'team';
      expect((await read('ledger')).filter(of_team)).toMatchObject([
        { wallet_owner_name: name, description: name, amount: '0.000000005' },
      ]);
      const statement = await read('statement');
      expect(statement.map(({ owner_name }) => owner_name)).toContain(name);
      expect(new Set(statement.map(({ org_name }) => org_name))).toEqual(new Set([name]));
    }
    await exporter.stop();
  },
);
