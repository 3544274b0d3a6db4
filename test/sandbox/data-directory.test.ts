import { type SpawnSyncReturns, spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { root } from '../../runtime/root';
import { claimDirectory } from '../../sandbox/processes/data-directory';

const clone = mkdtempSync(path.join(tmpdir(), 'svc-clone-'));
const data_dir = path.join(clone, 'somewhere');

const said = ({ stdout, stderr }: SpawnSyncReturns<string>) => stdout + stderr;

afterAll(() => rmSync(clone, { recursive: true }));

test('lint passes over a data directory inside the clone, whatever its name', async () => {
  mkdirSync(data_dir);
  writeFileSync(path.join(data_dir, 'demo.json'), '{"a":1,   "b":[1,2]}');
  mkdirSync(path.join(clone, '.git'));
  writeFileSync(path.join(clone, '.gitignore'), 'node_modules/\n');
  const config = { vcs: { enabled: true, clientKind: 'git', useIgnoreFile: true } };
  writeFileSync(path.join(clone, 'biome.json'), JSON.stringify(config));
  const biome = path.join(root, 'node_modules/@biomejs/biome/bin/biome');
  const lint = () =>
    spawnSync(process.execPath, [biome, 'lint', '.'], { cwd: clone, encoding: 'utf8' });
  expect(said(lint())).toContain('Checked 2 files');
  const claim = await claimDirectory(data_dir);
  claim.release();
  expect(said(lint())).toContain('Checked 1 file');
});

test('a folder that has rules of its own keeps them', async () => {
  const own = path.join(clone, 'own');
  mkdirSync(own);
  writeFileSync(path.join(own, '.gitignore'), '*.log\n');
  const claim = await claimDirectory(own);
  claim.release();
  expect(readFileSync(path.join(own, '.gitignore'), 'utf8')).toBe('*.log\n');
});
