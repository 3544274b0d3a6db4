import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { root } from '../../runtime/root';
import { variables } from '../../runtime/variables';
import { gateway, house } from './rooms';

const readme = readFileSync(path.join(root, 'README.md'), 'utf8');
const architecture = readFileSync(path.join(root, 'docs/architecture.md'), 'utf8');

const foldersOf = (table: Record<string, string>, folder = '') =>
  Object.keys(table).filter((name) => existsSync(path.join(root, folder, name)));

test('the map of the README names each folder and each room of the gateway', () => {
  const [, map = ''] = readme.split('## Map');
  const missing = [...foldersOf(house), ...foldersOf(gateway, 'gateway')].filter(
    (name) => !map.includes(`\`${name}/\``),
  );
  expect(missing).toEqual([]);
});

/** What rows of a table of the architecture say that a folder may import, and its rule does not. */
function unsaid(rows: string[], table: Record<string, string>, folder = ''): string[] {
  return foldersOf(table, folder).flatMap((name) => {
    const at = rows.findIndex((line) => line.includes(`](../${folder}${name})`));
    if (at < 0) return [`${name} in the table`];
    // "the same" are those of the row above.
    const [may = ''] = (rows[at] as string).split('|').slice(-2);
    const all = may.includes('the same') ? (rows[at - 1] as string) + may : may;
    if (/everything|itself/.test(all)) return [];
    const others = (table[name] ?? '').split(' ');
    return others.filter((other) => !all.includes(other)).map((other) => `${name} -> ${other}`);
  });
}

const rowsOf = (text: string) => text.split('\n').filter((line) => line.startsWith('| '));

test("the architecture's picture and table name each folder, and all that it may import", () => {
  const [, picture = '', after = ''] = architecture.split('```');
  const [of_house = '', of_gateway = ''] = after.split("### The gateway's rooms");
  expect(foldersOf(house).filter((name) => !picture.includes(`${name}/`))).toEqual([]);
  expect(unsaid(rowsOf(of_house), house)).toEqual([]);
  expect(unsaid(rowsOf(of_gateway), gateway, 'gateway/')).toEqual([]);
});

test('each variable is read by a program, and told in the pages of configuration and operations', () => {
  const told = ['configuration', 'operations', 'console', 'telemetry', 'exports', 'notices']
    .map((page) => readFileSync(path.join(root, `docs/${page}.md`), 'utf8'))
    .join('\n');
  const listed = execFileSync('git', ['ls-files', '*.ts'], { cwd: root, encoding: 'utf8' });
  const text = listed
    .split('\n')
    .filter((file) => file !== '' && !/^test\/|runtime\/variables/.test(file))
    .filter((file) => existsSync(path.join(root, file)))
    .map((file) => readFileSync(path.join(root, file), 'utf8'))
    .join('\n');
  const names = new Set(Object.values(variables).flatMap(({ shape }) => Object.keys(shape)));
  const unread = [...names].filter((name) => !text.includes(name));
  const untold = [...names].filter((name) => !told.includes(`\`${name}`));
  expect({ unread, untold }).toEqual({ unread: [], untold: [] });
});
