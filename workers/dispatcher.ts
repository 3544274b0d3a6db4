import type { Client } from '@temporalio/client';
import type { Knex } from 'knex';
import type { Logger } from '../runtime/log';
import { listenTo } from '../runtime/notices';
import { dispatchDue, SEND_PACE_MS } from '../temporal/outbox';

const SWEEP_MS = 1_000;

interface DispatcherParts {
  db: Knex;
  database_url: string;
  client: Client;
  log: Logger;
}

/** Sends the outbox as it fills: at once when PostgreSQL tells of a message, and in a sweep that covers lost notices. */
export function startDispatcher({ db, database_url, client, log }: DispatcherParts) {
  let stopping = false;
  let wakeUp: () => void = () => undefined;
  const listener = listenTo({ database_url, channel: 'outbox', log }, () => wakeUp());
  const pause = (ms: number) =>
    new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, ms);
      wakeUp = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  const running = (async () => {
    while (!stopping) {
      const sent = await dispatchDue(db, client, log).catch((error) => {
        log.warn({ err: error }, 'the outbox could not be read');
        return 0;
      });
      // A notice cuts the sweep's pause short, never the pace: a burst must not flood Temporal.
      await new Promise((resolve) => setTimeout(resolve, sent * SEND_PACE_MS));
      await pause(sent > 0 ? 0 : SWEEP_MS);
    }
  })();
  return {
    async stop() {
      stopping = true;
      wakeUp();
      await running;
      await listener.close();
    },
  };
}
