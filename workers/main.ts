import { setPriority } from 'node:os';
import { ConfigError } from '../runtime/config';
import { config } from './config';
import { exporter } from './export';
import { lifecycle } from './lifecycle';
import { type Program, runPrograms } from './program';

const programs = new Map<string, Program>([
  ['lifecycle', lifecycle],
  ['export', exporter],
  ['config', config],
]);

/** A third of the weight of a usual process: enough for its signs of life. */
const EXPORT_NICENESS = 5;

/**
 * `npm run start:worker -- lifecycle export`: the named programs in one process; all three if none
 * is named. Throws a ConfigError for a name that is none.
 */
export async function main(names: readonly string[]): Promise<void> {
  for (const name of names) {
    if (!programs.has(name))
      throw new ConfigError(
        `There is no worker ${JSON.stringify(name)}. Usage: npm run start:worker -- [${[...programs.keys()].join('] [')}]; no name starts all three.`,
      );
  }
  const wanted = names.length === 0 ? [...programs.keys()] : [...new Set(names)];
  // Alone in its process, what is in no hurry leaves the processor to others.
  if (wanted.every((name) => name === 'export')) setPriority(EXPORT_NICENESS);
  await runPrograms(wanted.map((name) => programs.get(name) as Program));
}
