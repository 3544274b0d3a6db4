import { randomUUID } from 'node:crypto';
import knex from 'knex';
import { type Db, many, one } from '../../domain/sql';
import { openDatabase } from '../../runtime/database';
import { maintenanceUrl } from '../../sandbox/servers/database';
import { until } from './until';

export interface TestDatabase {
  db: Db;
  url: string;
  /** Drops it, together with every session that is still in it. */
  close: () => Promise<void>;
}

// Long enough for a machine that is busy with other tests, and below the time of a test: one that
// hangs is still seen.
const LOCK_MS = 30_000;
const IDLE_MS = 45_000;
const CONNECTION_MS = 60_000;

/**
 * The same pool, unused so far, whose sessions wait longer than the product's for a connection, for
 * a lock, and for the next statement of a transaction: that a machine is busy is no outage.
 */
export function patient(db: Db): Db {
  const { connection, ...config } = db.client.config;
  const options = connection.options
    .replace(/lock_timeout=\d+/, `lock_timeout=${LOCK_MS}`)
    .replace(
      /idle_in_transaction_session_timeout=\d+/,
      `idle_in_transaction_session_timeout=${IDLE_MS}`,
    );
  return knex({
    ...config,
    acquireConnectionTimeout: CONNECTION_MS,
    connection: { ...connection, options, connectionTimeoutMillis: CONNECTION_MS },
  });
}

/** A migrated, empty database for one test file: a copy of the template. */
export async function openTestDatabase(
  pool_max = 10,
  template = process.env.TEST_DATABASE_URL,
): Promise<TestDatabase> {
  if (!template) throw new Error('TEST_DATABASE_URL is set by test/support/start-servers.ts.');
  const name = `test_${randomUUID().replaceAll('-', '')}`;
  const template_name = new URL(template).pathname.slice(1);
  await asAdmin(template, `create database ${name} template ${template_name}`);
  const url = Object.assign(new URL(template), { pathname: `/${name}` }).toString();
  const db = patient(openDatabase(url, pool_max, 'test'));
  const close = async () => {
    await db.destroy();
    await asAdmin(template, `drop database ${name} with (force)`);
  };
  return { db, url, close };
}

async function asAdmin(url: string, statement: string): Promise<void> {
  const admin = patient(openDatabase(maintenanceUrl(url), 1));
  try {
    await many(admin, statement);
  } finally {
    await admin.destroy();
  }
}

/** How many sessions of a test's database wait for a lock. */
export async function locksAwaited(db: Db): Promise<number> {
  const { count } = await one<{ count: number }>(
    db,
    `select count(*)::int as count from pg_stat_activity
     where datname = current_database() and wait_event_type = 'Lock'`,
  );
  return count;
}

// So long may a transaction of another test's database stay open.
const OPEN_MS = 90_000;

/** Waits until readers see all events: they stay below the server's oldest open transaction. */
export function untilVisible(db: Db): Promise<void> {
  const sql =
    'select 1 from events where transaction_id >= pg_snapshot_xmin(pg_current_snapshot()) limit 1';
  return until(async () => (await many(db, sql)).length === 0, OPEN_MS);
}
