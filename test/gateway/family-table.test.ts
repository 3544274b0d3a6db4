import { readFileSync } from 'node:fs';
import path from 'node:path';
import { familyTable, withFamilyTable } from '../../gateway/family-table';
import { routes } from '../../gateway/routes';
import { root } from '../../runtime/root';

const clients = readFileSync(path.join(root, 'docs/clients.md'), 'utf8');

test("the README's table of families is that of the routes; npm run families writes it", () => {
  expect(clients).toContain(familyTable());
  expect(withFamilyTable(clients)).toBe(clients);
});

test('the table names every priced route', () => {
  for (const { method, path: route } of routes.filter(({ family }) => family !== undefined)) {
    expect(familyTable()).toContain(`| ${method} \`${route}\` |`);
  }
});
