import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { type Db, many } from '../../domain/sql';
import { root } from '../../runtime/root';
import { openTestDatabase } from '../support/database';

// migrations/README.md shows a reader which stored functions live and where their text is.

const migrations = readdirSync(path.join(root, 'migrations'))
  .filter((name) => /^\d{4}-.*\.sql$/.test(name))
  .sort();

interface Row {
  name: string;
  file: string;
  superseded_by: string | undefined;
}

const rows: Row[] = [
  ...readFileSync(path.join(root, 'migrations/README.md'), 'utf8').matchAll(
    /^\| `(\w+)` \| (\S+) \|(?: `(\w+)`)? \|$/gm,
  ),
].map(([, name = '', file = '', superseded_by]) => ({ name, file, superseded_by }));

let db: Db;
let close: () => Promise<void>;
let stored: { name: string; text: string }[];

beforeAll(async () => {
  ({ db, close } = await openTestDatabase());
  stored = await many(
    db,
    `select p.proname as name, p.prosrc as text from pg_proc p
     where p.pronamespace = 'public'::regnamespace
       and not exists (select 1 from pg_depend d where d.objid = p.oid and d.deptype = 'e')
     order by p.proname`,
  );
});

afterAll(() => close());

test('the table has a row for each stored function, in the order of names', () => {
  const byName = (a: string, b: string) => (a < b ? -1 : 1);
  expect(rows.map(({ name }) => name)).toEqual(stored.map(({ name }) => name).sort(byName));
});

test('the file of a row is the last migration that creates its function', () => {
  const texts = migrations.map((file) => ({
    file,
    text: readFileSync(path.join(root, 'migrations', file), 'utf8'),
  }));
  for (const { name, file } of rows) {
    const creates = new RegExp(`^create (or replace )?function ${name}\\s*\\(`, 'm');
    const last = texts.findLast(({ text }) => creates.test(text));
    expect([name, file]).toEqual([name, last?.file]);
  }
});

test('a function is superseded exactly where nothing that lives calls it', async () => {
  const living = await alive();
  for (const { name, superseded_by } of rows) {
    expect([name, superseded_by === undefined]).toEqual([name, living.has(name)]);
    if (superseded_by)
      expect([superseded_by, living.has(superseded_by)]).toEqual([superseded_by, true]);
  }
});

/**
 * The functions that the product calls, triggers and defaults included, and those that they call.
 */
async function alive(): Promise<Set<string>> {
  const attached = await many<{ text: string }>(
    db,
    `select tgfoid::regproc || '(' as text from pg_trigger where not tgisinternal
     union all select pg_get_expr(adbin, adrelid) from pg_attrdef`,
  );
  const found = new Set<string>();
  const visit = (text: string) => {
    for (const { name, text: body } of stored) {
      if (found.has(name) || !new RegExp(`\\b${name}\\(`).test(text)) continue;
      found.add(name);
      visit(body);
    }
  };
  for (const { text } of attached) visit(text);
  for (const text of queries()) visit(text);
  return found;
}

/**
 * The SQL of the product's own TypeScript: texts with a statement in them, or a condition of a
 * search, and names that such a text is given.
 */
function queries(): string[] {
  const files = ['domain', 'api', 'activities', 'sandbox', 'workers'].flatMap((folder) =>
    readdirSync(path.join(root, folder), { recursive: true, encoding: 'utf8' })
      .filter((name) => name.endsWith('.ts'))
      .map((name) => readFileSync(path.join(root, folder, name), 'utf8')),
  );
  return files.flatMap((text) =>
    [...text.matchAll(/`[^`]*`|'[^'\n]*'|"[^"\n]*"/g)]
      .map(([quoted]) => quoted)
      .map((quoted) => quoted.replace(/^'([a-z]+_\w+)'$/, 'select $1('))
      .filter((quoted) => /\b(select|insert|update|delete)\b|@@|^.has_words\(/.test(quoted)),
  );
}
