import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { root } from '../../runtime/root';

// Which room may import which, types included. A room is a folder, or a file that lies between
// rooms.

/** The rooms of the project; a room may import itself and those named here. */
const house: Record<string, string> = {
  domain: '',
  runtime: 'domain',
  'payment-providers': 'domain runtime',
  migrations: 'runtime',
  exports: 'domain runtime',
  notices: 'domain runtime',
  activities: 'domain exports notices payment-providers',
  workflows: 'activities domain', // Types only: the bundle's own test says so.
  temporal: 'domain runtime workflows', // Of workflows only types.
  gateway: 'domain runtime',
  api: 'domain exports gateway/config migrations notices payment-providers runtime temporal',
  workers: 'activities domain exports runtime temporal workflows',
  console: 'domain runtime',
  sandbox: 'domain gateway/config migrations runtime temporal',
  bench: 'activities api domain exports gateway migrations runtime sandbox temporal',
};

/** The rooms of the gateway, lowest first. */
const gateway: Record<string, string> = {
  wire: '',
  'control-plane': '',
  counting: 'wire',
  config: 'wire',
  identity: 'config control-plane',
  upstreams: 'config wire',
  limits: 'config',
  policy: 'config wire',
  telemetry: 'config limits',
  families: 'config counting policy wire',
  call: 'config control-plane counting families identity limits policy telemetry upstreams',
  stages: 'call config control-plane counting families identity limits policy upstreams wire',
  exchange: 'call families policy stages upstreams wire',
  pipeline: 'call exchange stages',
  sockets: 'call config families identity pipeline stages upstreams wire',
  mcp: 'call config control-plane exchange families identity pipeline policy stages upstreams wire',
  key: 'call config limits stages',
  models: 'call config stages upstreams',
  routes: 'call config families key mcp models pipeline sockets stages',
  'family-table': 'config families routes sockets',
  adopt: 'call counting families stages',
  reports: 'call',
  configuration: 'adopt call config control-plane reports',
  notices: 'call control-plane',
  gateway: 'adopt call config control-plane counting identity limits sockets telemetry',
  app: 'call configuration routes stages',
  main: 'app call config configuration control-plane gateway notices sockets',
};

/** The rooms of the API. */
const api: Record<string, string> = {
  ledger: '',
  http: 'ledger',
  answers: 'http',
  identity: 'answers http',
  machine: 'answers http',
  notices: 'answers http',
  payments: 'answers http',
  people: 'answers http',
  routes: 'answers http',
  table: 'identity machine notices payments people routes',
  openapi: 'http table',
  app: 'http ledger notices openapi table',
  main: 'app http ledger',
  'admin-exports': '',
  'admin-spend': '',
  admin: 'admin-exports admin-spend',
  verify: '',
};

/** The rooms of the domain. */
const domain: Record<string, string> = {
  errors: '',
  texts: '',
  trace: '',
  digest: '',
  ids: '',
  'rate-limits': '',
  secrets: '',
  sql: 'errors',
  money: 'errors',
  'time-zones': 'errors sql',
  pages: 'sql',
  lists: 'digest errors pages sql',
  named: '',
  outbox: 'errors pages sql texts',
  events: 'errors sql',
  'copy-text': 'sql',
  'audit-events': 'pages sql',
  'audit-log': 'audit-events lists pages sql',
  'event-places': 'events sql',
  gateways: 'errors ids pages sql',
  shares: '',
  'stored-answers': 'errors sql',
  people: 'digest errors lists pages sql texts trace',
  notices: 'digest errors ids pages secrets sql',
  spend: 'errors people sql',
  ledger:
    'audit-events errors events ids lists money named pages people secrets sql time-zones trace',
  exports: 'copy-text errors ids money pages people secrets sql time-zones',
  payments: 'audit-events errors ledger lists money pages secrets sql',
};

/** The rooms of the console: its pages import nothing of the rest but types that are made. */
const console_rooms: Record<string, string> = {
  server: '',
  main: 'server',
  types: 'server',
  build: '',
  web: '',
};

/** The rooms of the console's pages. */
const web: Record<string, string> = {
  generated: '',
  base: '',
  api: 'base generated',
  session: 'api',
  parts: 'api base session',
  keys: 'api base parts session',
  payments: 'api base',
  tickets: 'api parts session',
  wallets: 'api parts',
  chat: 'api base parts payments',
  operations: 'api parts session',
  people: 'api parts session',
  settings: 'api parts session tickets',
  setup: 'api keys parts session',
  screens:
    'api base chat keys operations parts payments people session settings setup tickets wallets',
  app: 'api base parts screens session tickets',
  theme: '',
  main: 'api app base theme',
};

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
