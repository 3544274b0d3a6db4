import { setTimeout as sleep } from 'node:timers/promises';
import { claimLook, noteTroubles } from '../../domain/notices/worker-troubles';
import * as outbox from '../../domain/outbox';
import { type Db, isUnreachable } from '../../domain/sql';
import type { Logger } from '../../runtime/log';
import type { Temporal } from '../../temporal/client';
import { troublesOf } from '../../temporal/problems';

const EVERY_SECONDS = 30;
const STOP_MS = 1_000;

interface Parts {
  db: Db;
  temporal: Pick<Temporal, 'status'>;
  log: Logger;
}

/** The loop that looks whether workers do their work, in one of all APIs at a time. */
export interface WorkerWatch {
  /** Begins no further look, and waits a second for the one that runs. */
  close(): Promise<void>;
}

/** Looks each half minute; whatever fails is tried again then. */
export function openWorkerWatch({ db, temporal, log }: Parts): WorkerWatch {
  const stop = new AbortController();
  const run = async () => {
    while (!stop.signal.aborted) {
      await look({ db, temporal }, EVERY_SECONDS - 1).catch((error: unknown) => {
        if (!isUnreachable(error)) log.warn({ err: error }, 'workers could not be looked at');
      });
      const pause = { signal: stop.signal, ref: false };
      await sleep(EVERY_SECONDS * 1_000, undefined, pause).catch(() => undefined);
    }
  };
  const done = run();
  return {
    async close() {
      stop.abort();
      await Promise.race([done, sleep(STOP_MS, undefined, { ref: false })]);
    },
  };
}

/**
 * Tells the platform's destinations of what is wrong with workers, unless somebody has looked
 * within so many seconds. While Temporal is away nothing is known of them: what was wrong stays so.
 */
export async function look(
  { db, temporal }: Pick<Parts, 'db' | 'temporal'>,
  every_seconds: number,
): Promise<void> {
  if (!(await claimLook(db, every_seconds))) return;
  const told = await temporal.status().catch(() => undefined);
  const troubles = troublesOf(told, await outbox.counts(db));
  const known = told === undefined ? (['outbox.parked'] as const) : all_types;
  await noteTroubles(db, troubles, known);
}

const all_types = ['worker.missing', 'worker.behind', 'outbox.parked'] as const;
