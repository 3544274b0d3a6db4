import { hostname } from 'node:os';
import { API_VERSION } from '../runtime/version';

/**
 * The worker programs, each with the task queues that it polls. Payments do not wait behind a burst
 * of holds and tickets, and nothing waits behind servers of others that notices go to.
 */
export const worker_queues = {
  worker_lifecycle: ['payments', 'lifecycle', 'notices'],
  worker_export: ['export'],
  worker_config: ['config'],
} as const;

export type WorkerName = keyof typeof worker_queues;
export type TaskQueue = (typeof worker_queues)[WorkerName][number];

/** The schedules, each with the queue on which its runs are worked off. */
export const schedule_queues = {
  reconcile: 'lifecycle',
  audit: 'lifecycle',
  exportUpkeep: 'export',
  pricesCheck: 'lifecycle',
} as const satisfies Record<string, TaskQueue>;

export type ScheduleId = keyof typeof schedule_queues;

/** How a worker names itself to Temporal: program, version and process. */
export function workerIdentity(name: WorkerName): string {
  return `${name} ${API_VERSION} ${process.pid}@${hostname()}`;
}

/** The version in a worker's identity; null if it is none of ours, or older than 1.5. */
export function versionIn(identity: string): string | null {
  return /^worker_\w+ (\d+\.\d+\.\d+) /.exec(identity)?.[1] ?? null;
}
