import { type Program, runPrograms } from './program';

/** worker_export: writes the files of exports. */
export const exporter: Program = { name: 'worker_export', pool_max: 4 };

export const main = () => runPrograms([exporter]);
