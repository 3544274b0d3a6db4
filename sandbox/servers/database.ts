import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';

// One database of a PostgreSQL server, whoever runs the server.

const FOREIGN_SERVER_MS = 30_000;
const UNKNOWN_DATABASE = '3D000';

/** Waits for a server that somebody else runs, and makes the database in it if it is missing. */
export async function useDatabase(url: string): Promise<void> {
  const deadline = performance.now() + FOREIGN_SERVER_MS;
  for (;;) {
    const problem = await reach(url).then(
      () => undefined,
      (error: Error & { code?: string }) => error,
    );
    if (!problem) return;
    if (problem.code === UNKNOWN_DATABASE) await ensureDatabase(url);
    else if (performance.now() > deadline) {
      throw new Error(`DATABASE_URL cannot be used: ${problem.message || problem.code}`);
    } else await sleep(500);
  }
}

/** Makes the database that an address names, if it is missing. */
export async function ensureDatabase(url: string): Promise<void> {
  const name = new URL(url).pathname.slice(1);
  const client = new pg.Client({ connectionString: maintenanceUrl(url) });
  await client.connect();
  try {
    const known = await client.query('select from pg_database where datname = $1', [name]);
    if (known.rowCount === 0) {
      await client.query(`create database ${pg.escapeIdentifier(name)}`);
    }
  } finally {
    await client.end();
  }
}

/** Fails unless the database answers a query. */
export async function reach(url: string): Promise<void> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 2_000 });
  client.on('error', () => undefined);
  try {
    await client.connect();
    await client.query('select 1');
  } finally {
    await client.end().catch(() => undefined);
  }
}

/** The same server's database `postgres`, which is always there. */
export function maintenanceUrl(url: string): string {
  return Object.assign(new URL(url), { pathname: '/postgres' }).toString();
}
