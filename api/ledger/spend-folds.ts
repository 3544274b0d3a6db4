import { setTimeout as sleep } from 'node:timers/promises';
import * as editions from '../../domain/spend/editions';
import { type Db, isUnreachable } from '../../domain/sql';
import type { Logger } from '../../runtime/log';

const PAUSE_MS = 2_000;
const PAUSE_MS_MAX = 15_000;
/** A look passes over all wallets: one that finds nothing takes a fiftieth of the time at most. */
const PAUSES_PER_LOOK = 50;
const SWEEP_MS = 3_600_000;
const STOP_MS = 1_000;

/** The loop that folds settlements into spend; APIs beside each other share the work. */
export interface SpendFolds {
  /** Begins no further step, and waits a second for the one that runs. */
  close(): Promise<void>;
}

/**
 * Folds every two seconds until nothing is left to fold, and deletes once an hour what is kept no
 * longer; less often if a look takes long and finds nothing. Whatever fails is tried again at the
 * next turn: a step is one transaction.
 */
export function openSpendFolds({ db, log }: { db: Db; log: Logger }): SpendFolds {
  const stop = new AbortController();
  let swept_at = Number.NEGATIVE_INFINITY;
  let pause_ms = PAUSE_MS;
  const turn = async () => {
    await editions.openEditions(db);
    let folded = editions.STEP_ENTRIES;
    while (folded >= editions.STEP_ENTRIES && !stop.signal.aborted) {
      const began = performance.now();
      folded = await editions.foldStep(db);
      const look_ms = folded === 0 ? performance.now() - began : 0;
      pause_ms = Math.min(PAUSE_MS_MAX, Math.max(PAUSE_MS, PAUSES_PER_LOOK * look_ms));
    }
    if (performance.now() - swept_at < SWEEP_MS) return;
    await editions.sweep(db);
    swept_at = performance.now();
  };
  const run = async () => {
    while (!stop.signal.aborted) {
      await turn().catch((error: unknown) => {
        // What needs the database says so; a fold is in no hurry.
        if (!isUnreachable(error)) log.warn({ err: error }, 'spend could not be folded');
      });
      await sleep(pause_ms, undefined, { signal: stop.signal, ref: false }).catch(() => undefined);
    }
  };
  const done = run();
  return {
    async close() {
      stop.abort();
      // A step that the database holds up is undone there.
      await Promise.race([done, sleep(STOP_MS, undefined, { ref: false })]);
    },
  };
}
