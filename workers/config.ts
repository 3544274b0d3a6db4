import { type Program, runPrograms } from './program';

/** worker_config: brings configurations to the gateways, stage by stage. */
export const config: Program = { name: 'worker_config', pool_max: 4 };

export const main = () => runPrograms([config]);
