import pg from 'pg';
import type { Logger } from './log';

const RETRY_MS = 1_000;

interface Channel {
  database_url: string;
  channel: 'outbox' | 'tickets' | 'events' | 'configs';
  log: Logger;
}

/**
 * Listens to PostgreSQL's notices of a channel on a connection of its own, and connects again when
 * it breaks. `onNotice` gets the payload, and undefined after each connect: earlier notices are
 * lost.
 */
export function openListener(
  { database_url, channel, log }: Channel,
  onNotice: (payload?: string) => void,
): { close(): Promise<void> } {
  let closed = false;
  let client: pg.Client | undefined;
  let timer: NodeJS.Timeout | undefined;

  const connect = async () => {
    client = new pg.Client({
      connectionString: database_url,
      application_name: `${channel} listener`,
      keepAlive: true,
    });
    client.on('notification', ({ payload }) => onNotice(payload ?? ''));
    client.on('error', () => undefined);
    client.on('end', () => {
      if (!closed) timer = setTimeout(connect, RETRY_MS);
    });
    try {
      await client.connect();
      await client.query(`listen ${channel}`);
      onNotice();
    } catch (error) {
      log.warn({ err: error, channel }, 'notices cannot be received; sweeps stand in for them');
      await client.end().catch(() => undefined);
    }
  };
  void connect();

  return {
    async close() {
      closed = true;
      clearTimeout(timer);
      await client?.end().catch(() => undefined);
    },
  };
}
