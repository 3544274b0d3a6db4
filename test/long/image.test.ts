import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { root } from '../../runtime/root';
import { freePorts } from '../../sandbox/processes/ports';
import { caller, secrets_key } from '../support/api';
import { openTestDatabase } from '../support/database';
import { until } from '../support/until';

// What the Dockerfile puts into an image is enough for each process: the files that .dockerignore
// leaves, and the packages that are no tools of development. An engine is not needed for that.

const linesOf = (file: string) =>
  readFileSync(path.join(root, file), 'utf8')
    .split('\n')
    .filter((line) => line !== '' && !line.startsWith('#'));

const outputOf = (command: string, ...args: string[]) =>
  execFileSync(command, args, { cwd: root, encoding: 'utf8', maxBuffer: 2 ** 26 }).split('\n');

let app: string;
beforeAll(() => {
  app = mkdtempSync(path.join(tmpdir(), 'svc-image-'));
  const ignored = new Set(linesOf('.dockerignore'));
  const files = outputOf('git', 'ls-files').filter(
    (file) => file !== '' && !ignored.has(file.split('/')[0] as string),
  );
  for (const file of files) cpSync(path.join(root, file), path.join(app, file));
  const folder = `${path.join(root, 'node_modules')}/`;
  const packages = outputOf('npm', 'ls', '--omit=dev', '--all', '--parseable')
    .filter((file) => file.startsWith(folder))
    .map((file) => file.slice(folder.length))
    .filter((name) => !name.includes('/node_modules/'));
  for (const name of packages) {
    const link = path.join(app, 'node_modules', name);
    mkdirSync(path.dirname(link), { recursive: true });
    symlinkSync(path.join(folder, name), link);
  }
});

/** Runs a program as the image does, with these variables alone. */
function run(program: string, env: Record<string, string> = {}) {
  const child = spawn(process.execPath, ['run.cjs', program], {
    cwd: app,
    env: { PATH: process.env.PATH ?? '', HOME: app, NODE_ENV: 'production', ...env },
  });
  let text = '';
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (chunk) => {
      text += chunk;
    });
  return { child, output: () => text, exit: once(child, 'exit').then(([code]) => code as number) };
}

test.each([
  ['api/main.ts', 'DATABASE_URL is missing'],
  ['gateway/main.ts', 'CONTROL_PLANE_URL is missing'],
  ['workers/main.ts', 'TEMPORAL_ADDRESS is missing'],
  ['console/main.ts', 'CONSOLE_ORIGIN is missing'],
  ['api/verify/main.ts', 'npm run verify'],
])('%s of the image starts, and says what it lacks: %s', async (program, said) => {
  const { exit, output } = run(program);
  expect(await exit).not.toBe(0);
  expect(output()).toContain(said);
});

test('the console of the image is built there', async () => {
  const { exit, output } = run('console/build.ts', {
    ...{ PUBLIC_API_URL: 'https://api.example.com', PUBLIC_GATEWAY_URL: 'https://g.example.com' },
  });
  expect([await exit, output()]).toEqual([0, expect.not.stringContaining('rror')]);
});

test('the API of the image migrates, serves its documentation, and ends on SIGTERM', async () => {
  const { url, close } = await openTestDatabase();
  const [port = 0] = await freePorts(1);
  const { child, exit, output } = run('api/main.ts', {
    ...{ DATABASE_URL: url, TEMPORAL_ADDRESS: '127.0.0.1:1', SVC_SECRETS_KEY: secrets_key },
    API_PORT: String(port),
  });
  await until(() => output().includes('api listens'));
  const call = caller(`http://127.0.0.1:${port}`);
  expect((await call('get', '/readyz')).status).toBe(200);
  expect((await call('get', '/openapi.json')).status).toBe(200);
  child.kill('SIGTERM');
  expect(await exit).toBe(0);
  await close();
});

test('what the Dockerfile says is there: its base fits, its files and programs exist', () => {
  const lines = linesOf('Dockerfile');
  const [, major] = /^FROM node:(\d+)-slim$/.exec(lines[0] ?? '') ?? [];
  expect(Number(major)).toBeGreaterThanOrEqual(22);
  const [, copied = ''] = /^COPY (.*) \.\/$/.exec(lines[2] ?? '') ?? [];
  const tracked = new Set(outputOf('git', 'ls-files'));
  for (const file of [...copied.split(' '), 'run.cjs', 'api/main.ts'])
    expect([file, tracked.has(file)]).toEqual([file, true]);
  expect(lines.at(-2)).toBe('ENTRYPOINT ["node", "run.cjs"]');
  expect(lines.at(-1)).toBe('CMD ["api/main.ts"]');
});
