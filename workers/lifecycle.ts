import { setTimeout as sleep } from 'node:timers/promises';
import type { Client } from '@temporalio/client';
import type { Knex } from 'knex';
import { bringSchedules, makeSchedules } from '../temporal/schedules';
import { openDispatcher } from './dispatcher';
import { type Beside, type Program, runPrograms } from './program';

const SCHEDULE_CHECK_MS = 15_000;

/**
 * worker_lifecycle: runs the workflows of reservations, tickets and payments, and carries messages
 * from the outbox to Temporal.
 */
export const lifecycle: Program = {
  name: 'worker_lifecycle',
  pool_max: 10,
  openBeside(parts) {
    warnOfUnsigned(parts);
    void keepSchedules(parts);
    return openDispatcher({ ...parts, database_url: parts.config.DATABASE_URL });
  },
};

export const main = () => runPrograms([lifecycle]);

function warnOfUnsigned({ config, log }: Beside): void {
  const { ACCEPT_UNSIGNED_VERDICTS_UNTIL: until } = config;
  if (until)
    log.warn(
      { until },
      'unsigned verdicts on tickets are recorded: whoever reaches Temporal can make money',
    );
}

/** The schedules, brought to this program's definition once, and made whenever they are gone. */
async function keepSchedules({ client, db, log }: Beside): Promise<void> {
  let step: (client: Client, db: Knex) => Promise<number> = bringSchedules;
  for (;;) {
    try {
      const count = await step(client, db);
      step = makeSchedules;
      if (count > 0)
        log.warn({ count }, "Temporal's store was new; unfinished workflows start again");
    } catch (error) {
      log.warn({ err: error }, 'the schedules could not be made yet');
    }
    await sleep(SCHEDULE_CHECK_MS, undefined, { ref: false });
  }
}
