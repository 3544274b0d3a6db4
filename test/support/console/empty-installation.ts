import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import path from 'node:path';
import { promisify } from 'node:util';
import { openDatabase } from '../../../runtime/database';
import { root } from '../../../runtime/root';
import { scratchRoot } from '../scratch';
import { until } from '../until';
import { demo } from './visitor';

const run = promisify(execFile);
const START_MS = 240_000;

export interface EmptyInstallation {
  console_url: string;
  gateway_url: string;
  /** The one key that an empty installation has. */
  key: string;
  /** Starts a gateway by the lines that the console shows. */
  startGateway: (lines: string) => Promise<void>;
  stop: () => Promise<void>;
}

/**
 * An API over a database that has nothing but its first key, and a console before it. Temporal is
 * away: money moves without it.
 */
export async function startEmpty(): Promise<EmptyInstallation> {
  const folder = mkdtempSync(path.join(scratchRoot(), 'svc-empty-'));
  const name = `empty_${randomBytes(6).toString('hex')}`;
  const url = new URL(demo().database_url);
  const admin = openDatabase(url.href, 1, 'console tests');
  await admin.raw(`create database ${name}`);
  url.pathname = `/${name}`;
  const [api, gateway, web] = await Promise.all([freePort(), freePort(), freePort()]);
  const at = (port: number) => `http://127.0.0.1:${port}`;
  const built = path.join(folder, 'console');
  const env = {
    PATH: process.env.PATH ?? '',
    HOME: process.env.HOME ?? '',
    DATABASE_URL: url.href,
    TEMPORAL_ADDRESS: '127.0.0.1:9',
    SVC_SECRETS_KEY: randomBytes(32).toString('base64'),
    API_PORT: String(api),
    GATEWAY_PORT: String(gateway),
    CONSOLE_PORT: String(web),
    CONSOLE_HOST: '127.0.0.1',
    CONSOLE_DIR: built,
    CONSOLE_ORIGIN: at(web),
    CONSOLE_API_URL: at(api),
    CONSOLE_COOKIE_KEYS: randomBytes(32).toString('base64'),
    PUBLIC_API_URL: at(api),
    PUBLIC_GATEWAY_URL: at(gateway),
    LOG_LEVEL: 'error',
  };
  const program = (script: string) => [path.join(root, 'run.cjs'), path.join(root, script)];
  const node = (script: string, ...args: string[]) =>
    run(process.execPath, [...program(script), ...args], { cwd: root, env });
  const [boot] = await Promise.all([node('api/admin.ts', 'bootstrap'), node('console/build.ts')]);
  const started: ChildProcess[] = [];
  const start = (command: string, args: string[], cwd: string) => {
    const child = spawn(command, args, { cwd, env, stdio: 'ignore' });
    started.push(child);
  };
  for (const script of ['api/main.ts', 'console/main.ts'])
    start(process.execPath, program(script), root);
  await Promise.all([answers(`${at(api)}/health`), answers(`${at(web)}/api/health`)]);
  return {
    console_url: at(web),
    gateway_url: at(gateway),
    key: boot.stdout.trim(),
    startGateway: async (lines) => {
      // Where it runs is the reader's affair; the key of their provider too.
      const command = `exec '${process.execPath}' ${program('gateway/main.ts').join(' ')}`;
      const text = lines.replace('npm run start:gateway', command).replace('=…', '=sk-anything');
      start('sh', ['-c', text], folder);
      await answers(`${at(gateway)}/svc/health`);
    },
    stop: async () => {
      const ends = started.map((child) => new Promise((resolve) => child.once('exit', resolve)));
      for (const child of started) child.kill('SIGTERM');
      await Promise.all(ends);
      await admin.raw(`drop database ${name} with (force)`);
      await admin.destroy();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

function answers(url: string): Promise<void> {
  return until(
    () =>
      fetch(url).then(
        ({ ok }) => ok,
        () => false,
      ),
    START_MS,
  );
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as { port: number };
  await new Promise((resolve) => server.close(resolve));
  return port;
}
