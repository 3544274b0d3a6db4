import { readFileSync } from 'node:fs';
import path from 'node:path';
import { kindTable, withKindTable } from '../../gateway/kind-table';
import { kinds } from '../../gateway/providers/table';
import { root } from '../../runtime/root';

const document = readFileSync(path.join(root, 'docs/providers.md'), 'utf8');

test('the table of kinds in the document is the one that their rows make', () => {
  expect(document).toContain(kindTable());
  expect(withKindTable(document)).toBe(document);
  for (const name of kinds.keys()) expect(kindTable()).toContain(`| ${name} |`);
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
