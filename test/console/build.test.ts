import { execFileSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { gzipSync } from 'node:zlib';
import { root } from '../../runtime/root';

const scratch = mkdtempSync(path.join(tmpdir(), 'svc-console-build-'));
const folder = path.join(scratch, 'out');

afterAll(() => rmSync(scratch, { recursive: true, force: true }));

function build(host: string): void {
  execFileSync(process.execPath, ['run.cjs', 'console/build.ts'], {
    cwd: root,
    env: {
      PATH: process.env.PATH,
      // As empty as on a machine that has built nothing.
      XDG_CACHE_HOME: path.join(scratch, 'cache'),
      NODE_ENV: 'development',
      PUBLIC_API_URL: `https://api.${host}`,
      PUBLIC_GATEWAY_URL: `https://gateway.${host}`,
      CONSOLE_DIR: folder,
    },
  });
}

const assets = () => readdirSync(path.join(folder, 'assets'));
const textOf = (name: string) => readFileSync(path.join(folder, 'assets', name), 'utf8');
const scripts = () => assets().filter((name) => name.endsWith('.js'));

test('a build for other addresses leaves nothing of the first ones, and makes only their file anew', () => {
  build('first.example');
  const before = new Set(assets());
  expect(scripts().filter((name) => textOf(name).includes('first.example'))).toEqual([
    expect.stringMatching(/^origins-/),
  ]);
  const made = path.join(scratch, 'cache/svc/console');
  const [kept = ''] = readdirSync(made);
  const made_at = statSync(path.join(made, kept)).mtimeMs;
  build('second.example');
  expect(statSync(path.join(made, kept)).mtimeMs).toBe(made_at);
  expect(assets().filter((name) => !before.has(name))).toEqual([
    expect.stringMatching(/^origins-/),
  ]);
  expect(scripts().filter((name) => textOf(name).includes('first.example'))).toEqual([]);
  const built = JSON.parse(readFileSync(path.join(folder, 'built.json'), 'utf8'));
  expect(built).toMatchObject({
    api_url: 'https://api.second.example',
    gateway_url: 'https://gateway.second.example',
  });
});

test('pages are light: 260 kB of script before the first one, 150 in what comes later, and none for developers', () => {
  const { script } = JSON.parse(readFileSync(path.join(folder, 'built.json'), 'utf8'));
  const weigh = (name: string) => gzipSync(textOf(name)).length;
  // What the entry imports at once, and what that does.
  const first = new Set<string>([script]);
  for (const name of first)
    for (const [, other = ''] of textOf(name).matchAll(
      /(?:from|import)\s*["']\.\/([\w.-]+\.js)["']/g,
    ))
      first.add(other);
  const total = [...first].map(weigh).reduce((sum, one) => sum + one, 0);
  expect(first.size).toBeGreaterThan(1);
  expect(total).toBeLessThan(260_000);
  for (const name of scripts()) {
    if (!first.has(name)) expect([name, weigh(name) < 150_000]).toEqual([name, true]);
    // A warning that React has for developers only.
    expect([name, textOf(name).includes('Each child in a list')]).toEqual([name, false]);
  }
});
