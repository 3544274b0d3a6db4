import { readFileSync } from 'node:fs';
import path from 'node:path';
import {
  droppedBy,
  everyWire,
  harmlessTable,
  kindTable,
  servedTable,
  withKindTable,
} from '../../gateway/kind-table';
import { harmless } from '../../gateway/providers/harmless';
import { kinds } from '../../gateway/providers/table';
import { root } from '../../runtime/root';

const document = readFileSync(path.join(root, 'docs/providers.md'), 'utf8');

test('the table of kinds in the document is the one that their rows make', () => {
  expect(document).toContain(kindTable());
  expect(withKindTable(document)).toBe(document);
  for (const name of kinds.keys()) expect(kindTable()).toContain(`| ${name} |`);
});

test('the tables of what is left out and of the families are those that the rows make', () => {
  for (const table of [harmlessTable(), servedTable()]) expect(document).toContain(table);
  for (const name of Object.keys(harmless))
    expect(harmlessTable()).toMatch(new RegExp(`\\| \`${name}\` \\| [^|]+ \\| (?!none)[^|]+ \\|`));
});

test('what a kind leaves out changes no answer, for a reason that is told', () => {
  for (const { name, shape, wire } of everyWire()) {
    const untold = droppedBy(wire).filter((member) => !Object.hasOwn(harmless, member));
    expect({ name, shape, untold }).toEqual({ name, shape, untold: [] });
    // A member is one or the other.
    const { lacks = [] } = wire;
    expect(lacks.filter((member) => Object.hasOwn(harmless, member))).toEqual([]);
  }
});

test('each kind has a block of its own, which the tests of documents load', () => {
  for (const name of kinds.keys()) {
    const [, block = ''] =
      new RegExp(`### ${name}\\n\\n\`\`\`yaml\\n([^\`]+)\`\`\``).exec(document) ?? [];
    expect([name, block]).toEqual([
      name,
      expect.stringMatching(name === 'compatible' ? /shape: / : new RegExp(`kind: ${name},`)),
    ]);
  }
});
