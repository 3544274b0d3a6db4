import { setTimeout as sleep } from 'node:timers/promises';
import type { Client } from '@temporalio/client';
import type { Knex } from 'knex';
import type { Logger } from '../runtime/log';
import { openListener } from '../runtime/notices';
import { dispatchDue, SEND_PACE_MS } from '../temporal/outbox';

const SWEEP_MS = 1_000;

interface DispatcherParts {
  db: Knex;
  database_url: string;
  client: Client;
  log: Logger;
}

/**
 * Sends the outbox as it fills: at once when PostgreSQL notifies of a message, and in a sweep that
 * covers lost notices.
 */
export function openDispatcher({ db, database_url, client, log }: DispatcherParts) {
  let is_closing = false;
  let pausing = new AbortController();
  const wakeUp = () => pausing.abort();
  const listener = openListener({ database_url, channel: 'outbox', log }, wakeUp);
  const pause = (ms: number) => {
    pausing = new AbortController();
    return sleep(ms, undefined, { signal: pausing.signal }).catch(() => undefined);
  };
  const running = (async () => {
    while (!is_closing) {
      const sent = await dispatchDue(db, client, log).catch((error) => {
        log.warn({ err: error }, 'the outbox could not be read');
        return 0;
      });
      // A notice cuts the sweep's pause short, never the pace: a burst must not flood Temporal.
      await sleep(sent * SEND_PACE_MS);
      await pause(sent > 0 ? 0 : SWEEP_MS);
    }
  })();
  return {
    async close() {
      is_closing = true;
      wakeUp();
      await running;
      await listener.close();
    },
  };
}
