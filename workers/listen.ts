import pg from 'pg';
import type { Logger } from '../log';

const RETRY_MS = 1_000;

/** Hears PostgreSQL's notices of new outbox rows on a connection of its own; connects again when it breaks. */
export function listenForMessages(
  database_url: string,
  onMessage: () => void,
  log: Logger,
): { close(): Promise<void> } {
  let closed = false;
  let client: pg.Client | undefined;
  let timer: NodeJS.Timeout | undefined;

  const connect = async () => {
    client = new pg.Client({
      connectionString: database_url,
      application_name: 'outbox listener',
      keepAlive: true,
    });
    client.on('notification', onMessage);
    client.on('error', () => undefined);
    client.on('end', () => {
      if (!closed) timer = setTimeout(connect, RETRY_MS);
    });
    try {
      await client.connect();
      await client.query('listen outbox');
      onMessage();
    } catch (error) {
      log.warn({ err: error }, 'the outbox cannot be heard; it is still swept');
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
