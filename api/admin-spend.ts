import { setTimeout as sleep } from 'node:timers/promises';
import * as editions from '../domain/spend/editions';
import type { Db } from '../domain/sql';
import { ConfigError } from '../runtime/config';

const OTHERS_STEP_MS = 200;

/** `spend rebuild [org_id]`: folds the ledger anew, and waits until the new figures are read. */
export async function runSpend(
  db: Db,
  [verb, org_id]: string[],
  print: (text: string) => void,
): Promise<number> {
  if (verb !== 'rebuild') throw new ConfigError('Usage: spend rebuild, or spend rebuild <org_id>.');
  const begun = await editions.rebuild(db, org_id);
  if (org_id !== undefined && begun === 0)
    throw new ConfigError(`${org_id} is no organization, or is being rebuilt already.`);
  let folded = 0;
  // Running APIs take steps of it too.
  while ((await editions.madeNow(db, org_id)) > 0) {
    const entries = await editions.foldStep(db);
    folded += entries;
    if (entries === 0) await sleep(OTHERS_STEP_MS);
  }
  await editions.sweep(db);
  print(`Spend was folded anew: ${begun} organizations, ${folded} entries by this command.`);
  return 0;
}
