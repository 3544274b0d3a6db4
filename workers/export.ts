import { setTimeout as sleep } from 'node:timers/promises';
import { markFolder } from '../exports/folder';
import { type Beside, type Program, runPrograms } from './program';

const MARK_CHECK_MS = 15_000;

/** worker_export: writes the files of exports. */
export const exporter: Program = {
  name: 'worker_export',
  pool_max: 4,
  openBeside(parts) {
    void takeUpFolder(parts);
    return { close: async () => undefined };
  },
};

export const main = () => runPrograms([exporter]);

/** Marks the folder of exports; says why it cannot be used, and looks again until it can be. */
async function takeUpFolder({ db, config: { EXPORT_DIR: dir }, log }: Beside): Promise<void> {
  for (let told = ''; ; ) {
    try {
      await markFolder({ db, dir });
      return;
    } catch (error) {
      const words = String(error);
      if (words !== told) log.warn({ err: error }, 'no file of an export can be written yet');
      told = words;
    }
    await sleep(MARK_CHECK_MS, undefined, { ref: false });
  }
}
