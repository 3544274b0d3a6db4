import { setTimeout as sleep } from 'node:timers/promises';
import type { Client } from '@temporalio/client';
import type { Knex } from 'knex';
import { nextDueIn } from '../domain/outbox';
import type { Logger } from '../runtime/log';
import { openListener } from '../runtime/notices';
import { dispatchDue, SEND_PACE_MS } from '../temporal/outbox';

// Beside the notices, which say of each message that is new. What waits to be sent again is due at
// a time that is known.
const SWEEP_MS = 5_000;
const RETRY_MS = 1_000;

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
  const pause = (ms: number, { signal }: AbortController) =>
    sleep(ms, undefined, { signal }).catch(() => undefined);
  /** Milliseconds until there may be more to send. */
  const sendDue = async () => {
    try {
      const sent = await dispatchDue(db, client, log);
      // A notice cuts the sweep's pause short, never the pace: a burst must not flood Temporal.
      await sleep(sent * SEND_PACE_MS);
      if (sent > 0) return 0;
      const left_ms = (await nextDueIn(db)) ?? SWEEP_MS;
      return Math.min(SWEEP_MS, Math.max(SEND_PACE_MS, left_ms));
    } catch (error) {
      log.warn({ err: error }, 'the outbox could not be read');
      return RETRY_MS;
    }
  };
  const running = (async () => {
    while (!is_closing) {
      // From here on a notice cuts the pause that comes: what it tells of may be read too late now.
      pausing = new AbortController();
      await pause(await sendDue(), pausing);
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
