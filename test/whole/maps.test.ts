import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { root } from '../../runtime/root';
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

test("the architecture's picture and table name each folder, and all that it may import", () => {
  const [, picture = '', after = ''] = architecture.split('```');
  const rows = after.split('\n').filter((line) => line.startsWith('| ['));
  const unsaid = foldersOf(house).flatMap((name) => {
    if (!picture.includes(`${name}/`)) return [`${name} in the picture`];
    const row = rows.find((line) => line.includes(`[${name}/](../${name})`));
    if (row === undefined) return [`${name} in the table`];
    const [may = ''] = row.split('|').slice(-2);
    if (/everything|itself/.test(may)) return [];
    const others = (house[name] ?? '').split(' ');
    return others.filter((other) => !may.includes(other)).map((other) => `${name} -> ${other}`);
  });
  expect(unsaid).toEqual([]);
});

test("the architecture's second table names each room of the gateway", () => {
  const [, table = ''] = architecture.split("### The gateway's rooms");
  const missing = foldersOf(gateway, 'gateway').filter(
    (name) => !table.includes(`](../gateway/${name})`),
  );
  expect(missing).toEqual([]);
});
