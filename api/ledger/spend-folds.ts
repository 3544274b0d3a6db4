import { setTimeout as sleep } from 'node:timers/promises';
import * as editions from '../../domain/spend/editions';
import { type Db, isUnreachable } from '../../domain/sql';
import type { Logger } from '../../runtime/log';

const PAUSE_MS = 2_000;
const SWEEP_MS = 3_600_000;
const STOP_MS = 1_000;

/** The loop that folds settlements into spend; APIs beside each other share the work. */
export interface SpendFolds {
  /** Begins no further step, and waits a second for the one that runs. */
  close(): Promise<void>;
}

/**
 * Folds every two seconds until nothing is left to fold, and deletes once an hour what is kept no
 * longer. Whatever fails is tried again at the next turn: a step is one transaction.
 */
export function openSpendFolds({ db, log }: { db: Db; log: Logger }): SpendFolds {
  const stop = new AbortController();
  let swept_at = 0;
  const turn = async () => {
    await editions.openEditions(db);
    let folded = editions.STEP_ENTRIES;
    while (folded >= editions.STEP_ENTRIES && !stop.signal.aborted)
      folded = await editions.foldStep(db);
    if (Date.now() - swept_at < SWEEP_MS) return;
    await editions.sweep(db);
    swept_at = Date.now();
  };
  const run = async () => {
    while (!stop.signal.aborted) {
      await turn().catch((error: unknown) => {
        // What needs the database says so; a fold is in no hurry.
        if (!isUnreachable(error)) log.warn({ err: error }, 'spend could not be folded');
      });
      await sleep(PAUSE_MS, undefined, { signal: stop.signal, ref: false }).catch(() => undefined);
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
