import { randomUUID } from 'node:crypto';
import { mkdtempSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { runPrices } from '../../api/admin-prices';
import { openTestDatabase, type TestDatabase } from '../support/database';
import { makePrice } from '../support/ledger';

// What `npm run admin -- prices` says to whom asks for what it cannot do, or does not know.

let database: TestDatabase;
const dir = mkdtempSync(path.join(os.tmpdir(), 'prices-'));
beforeAll(async () => {
  database = await openTestDatabase();
});
afterAll(() => database.close());

async function terminal(...args: string[]): Promise<{ code: number; text: string }> {
  const lines: string[] = [];
  const code = await runPrices(database.db, args, (line) => lines.push(line));
  return { code, text: lines.join('\n') };
}

function fileOf(name: string, content: unknown): string {
  const file = path.join(dir, name);
  writeFileSync(file, typeof content === 'string' ? content : JSON.stringify(content));
  return file;
}

const discovering = (...kinds: string[]) =>
  fileOf('discovering.yaml', {
    providers: { targets: kinds.map((kind) => ({ id: kind, kind, discover: true })) },
  });

test('servers that list their models are in order once one of these has a price', async () => {
  const look = () => terminal('check', '--targets', discovering('lmstudio'));
  const bare = await look();
  expect(bare.code).toBe(1);
  expect(bare.text).toContain('lmstudio/* is served and has no price');
  expect(bare.text).toContain('{"provider": "lmstudio", "model": "*"}');
  await makePrice(database.db, { provider: 'lmstudio', model: '*' });
  expect(await look()).toMatchObject({
    code: 0,
    text: expect.stringContaining('Prices are in order.'),
  });
});

test.each<[string, () => string[], RegExp]>([
  ['nothing', () => [], /^Usage:/],
  ['an unknown verb', () => ['buy', 'x'], /^Usage:/],
  ['an unknown flag', () => ['import', '--form', 'x'], /--form[\s\S]*Usage:/],
  ['no served model', () => ['import'], /No served model is known here/],
  ['an unknown seller', () => ['import', '--provider', 'acme'], /--provider acme=openai/],
  ['a factor of words', () => ['import', '--all', '--factor', 'a=b'], /--factor a=b: say/],
  ['a file that is not there', () => ['import', '--all', '--from', '/no/file'], /cannot be read/],
  [
    'a file of something else',
    () => ['import', '--all', '--from', fileOf('a', {})],
    /no price catalog/,
  ],
  [
    'a file where no folder is',
    () => ['import', '--provider', 'xai', '--out', '/no/dir/plan.json'],
    /^--out \/no\/dir\/plan\.json cannot be written/,
  ],
  [
    'an unknown seller of a known one',
    () => ['import', '--provider', 'xai=x'],
    /Known are [^.]+\.$/,
  ],
  [
    'a configuration of no YAML',
    () => ['import', '--targets', fileOf('d.yaml', 'a: [')],
    /d\.yaml is no YAML/,
  ],
  [
    'servers that list their models',
    () => ['import', '--targets', discovering('openrouter', 'vllm')],
    /^openrouter lists .*: npm run admin -- prices import --provider openrouter\.\nvllm lists .* POST \/v1\/admin\/model-pricing/,
  ],
  ['a file of no JSON', () => ['import', '--all', '--from', fileOf('b', 'x')], /is no JSON/],
  ['a plain address', () => ['import', '--all', '--from', 'http://x.example'], /https only/],
  [
    'an address inside',
    () => ['import', '--all', '--from', 'https://127.0.0.1:1'],
    /cannot be read/,
  ],
  [
    'a plan of something else',
    () => ['apply', fileOf('c', {}), '--yes'],
    /no plan of prices: format/,
  ],
  ['an unknown import', () => ['undo', `pimp_${randomUUID()}`], /No import of prices/],
])('a terminal that says %s is told what to say', async (_, args, words) => {
  await expect(terminal(...args())).rejects.toThrow(words);
});
