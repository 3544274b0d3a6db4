import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { root } from '../../runtime/root';
import { api, console_rooms, domain, gateway, house, web } from './rooms';

type Sources = ReadonlyMap<string, string>;

const listed = ['ls-files', '--cached', '--others', '--exclude-standard', '*.ts', '*.tsx'];
const all_files: Sources = new Map(
  execFileSync('git', listed, { cwd: root, encoding: 'utf8' })
    .split('\n')
    .filter((file) => file !== '' && existsSync(path.join(root, file)))
    .map((file) => [file, readFileSync(path.join(root, file), 'utf8')]),
);
const sources: Sources = new Map([...all_files].filter(([file]) => !file.startsWith('test/')));

const imported = /(?:\bfrom|\bimport\(|\brequire\(|\bimport)\s*'(\.[^']*)'/g;

/** The files of ours that a file imports, types included. */
function importsOf(file: string, text: string, all: Sources): string[] {
  return [...text.matchAll(imported)].flatMap(([, specifier = '']) => {
    const base = path.normalize(path.join(path.dirname(file), specifier)).replace(/\.tsx?$/, '');
    return [`${base}.ts`, `${base}.tsx`, `${base}/index.ts`].find((name) => all.has(name)) ?? [];
  });
}

/** Imports that the table does not allow, of the files below `folder`, as "file -> file". */
function forbidden(folder: string, table: Record<string, string>, all: Sources): string[] {
  const roomOf = (file: string) =>
    (file.slice(folder.length).split('/')[0] ?? '').replace(/\.tsx?$/, '');
  const found: string[] = [];
  for (const [file, text] of all) {
    if (!file.startsWith(folder)) continue;
    const room = roomOf(file);
    const rule = table[room];
    if (rule === undefined) found.push(`${file} is in no room of the table`);
    for (const other of importsOf(file, text, all)) {
      if (!other.startsWith(folder) || roomOf(other) === room) continue;
      const below = other.slice(folder.length);
      const is_allowed = rule
        ?.split(' ')
        .some((name) => `${below.replace(/\.tsx?$/, '')}/`.startsWith(`${name}/`) && name !== '');
      if (!is_allowed) found.push(`${file} -> ${other}`);
    }
  }
  return found;
}

const tables = [
  ['', house],
  ['gateway/', gateway],
  ['api/', api],
  ['domain/', domain],
  ['console/', console_rooms],
  ['console/web/', web],
] as const;

test.each(tables)('below "%s" a file imports only what its room may import', (folder, table) => {
  expect(forbidden(folder, table, sources)).toEqual([]);
});

test.each(tables)(
  'the table of "%s" has no circle and no rule that nothing needs',
  (folder, table) => {
    const used = new Set<string>();
    for (const [file, text] of sources) {
      if (!file.startsWith(folder)) continue;
      for (const other of importsOf(file, text, sources)) {
        const [from, to] = [file, other].map(
          (one) => `${one.slice(folder.length).replace(/\.tsx?$/, '')}/`,
        );
        for (const [room, rule] of Object.entries(table)) {
          if (!from?.startsWith(`${room}/`)) continue;
          for (const name of rule.split(' '))
            if (to?.startsWith(`${name}/`)) used.add(`${room} ${name}`);
        }
      }
    }
    const above = new Map(Object.keys(table).map((room, floor) => [room, floor]));
    for (const [room, rule] of Object.entries(table)) {
      for (const name of rule.split(' ').filter((one) => one !== '')) {
        expect(`${room} ${name}`).toBe(
          used.has(`${room} ${name}`) ? `${room} ${name}` : 'is needed',
        );
        const floor = above.get(name.split('/')[0] ?? '') as number;
        expect(floor).toBeLessThan(above.get(room) as number);
      }
    }
  },
);

test('workflows are imported for their types alone: their code runs in the sandbox of Temporal only', () => {
  const values = [...sources].filter(
    ([file, text]) =>
      !file.startsWith('workflows/') && /^import (?!type\b)[^;]*'(\.\.\/)+workflows/m.test(text),
  );
  expect(values.map(([file]) => file)).toEqual([]);
});

test('an import that no rule allows is found, also of a type alone', () => {
  const seeded = new Map([
    ...sources,
    ['gateway/wire/seeded.ts', "import type { Call } from '../call/call';\n"],
    ['domain/seeded.ts', "import { loadConfig } from '../runtime/config';\n"],
  ]);
  expect(forbidden('gateway/', gateway, seeded)).toEqual([
    'gateway/wire/seeded.ts -> gateway/call/call.ts',
  ]);
  expect(forbidden('', house, seeded)).toEqual(['domain/seeded.ts -> runtime/config.ts']);
});

test('the linter refuses two files that import a type of each other', () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'svc-layers-'));
  try {
    const config = JSON.parse(readFileSync(path.join(root, 'biome.json'), 'utf8'));
    delete config.vcs;
    writeFileSync(path.join(folder, 'biome.json'), JSON.stringify(config));
    const half = (own: string, other: string) =>
      `import type { ${other} } from './${other.toLowerCase()}';\n\nexport interface ${own} {\n  other: ${other} | undefined;\n}\n`;
    writeFileSync(path.join(folder, 'left.ts'), half('Left', 'Right'));
    writeFileSync(path.join(folder, 'right.ts'), half('Right', 'Left'));
    const program = path.join(root, 'node_modules/.bin/biome');
    const { status, stdout, stderr } = spawnSync(program, ['lint', '.'], {
      cwd: folder,
      encoding: 'utf8',
    });
    expect(`${stdout}${stderr}`).toContain('noImportCycles');
    expect(status).toBe(1);
  } finally {
    rmSync(folder, { recursive: true });
  }
});
const FILE_LINES_MAX = 300;
const FOLDER_FILES_MAX = 24;
const PROSE_COLUMNS_MAX = 100;

test('no file is longer than a reader keeps in mind, no folder fuller, and none lies loose at the root', () => {
  const long = [...all_files].filter(([, text]) => text.split('\n').length - 1 > FILE_LINES_MAX);
  const counts = new Map<string, number>();
  for (const file of all_files.keys()) {
    counts.set(path.dirname(file), (counts.get(path.dirname(file)) ?? 0) + 1);
  }
  const full = [...counts].filter(([, count]) => count > FOLDER_FILES_MAX);
  const loose = [...all_files.keys()].filter((file) => !file.includes('/'));
  expect({ long: long.map(([file]) => file), full, loose }).toEqual({
    long: [],
    full: [],
    loose: [],
  });
});

test('no comment is wider than a page of prose', () => {
  const wide = [...all_files].flatMap(([file, text]) =>
    text
      .split('\n')
      .filter((line) => line.length > PROSE_COLUMNS_MAX && /^\s*(\/\/|\/?\*)/.test(line))
      .filter((line) => !line.includes('biome-ignore'))
      .map((line) => `${file}: ${line.trim()}`),
  );
  expect(wide).toEqual([]);
});
