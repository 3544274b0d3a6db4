import { setTimeout as sleep } from 'node:timers/promises';
import type { Knex } from 'knex';
import { migrationNames, migrationText } from './files';

// Any constant will do, as long as every instance uses the same.
const MIGRATION_LOCK = 7_215_001;
// No statement of an API that serves meanwhile waits longer for a try that gets no lock.
const LOCK_MS = 200;
/** The pause between two tries grows: each stops the calls of an API that serves for a moment. */
const PAUSES_MS = { first: 300, factor: 1.2, longest: 10_000 };
/** A dump of a large database holds its locks for long. */
const PATIENCE_MS = 30 * 60_000;
/** Who holds the lock is said so often at most. */
const SAID_MS = 10_000;

const config: Knex.MigratorConfig = {
  disableTransactions: true,
  // The previous API version runs on a newer database.
  disableMigrationsListValidation: true,
};

/** Which migrations a database has, and which it lacks of those of this version. */
export interface Migrations {
  applied: number;
  pending: string[];
}

/** Compares a database with the files beside this one; also one that an older version migrated. */
export async function migrationsOf(db: Knex): Promise<Migrations> {
  const { rows } = await db.raw<{ rows: { name: string }[] }>('select name from knex_migrations');
  const applied = new Set(rows.map(({ name }) => name));
  const pending = (await migrationNames()).filter((name) => !applied.has(name));
  return { applied: applied.size, pending };
}

/** How long `migrate` tries, and who hears what it waits for. */
export interface Waiting {
  patience_ms?: number;
  say?: (words: string) => void;
}

/**
 * Applies the .sql files beside this one, in name order, once. Instances that start together wait
 * for each other: that wait has no time-out (a lock time-out also ends advisory waits). All tables
 * are locked at once, before anything is changed: an API of the version before goes on meanwhile,
 * and a lock that is taken here while a call there holds another would stop both. Throws an error
 * that names the session in the way if it gets no lock within its patience.
 */
export async function migrate(
  db: Knex,
  { patience_ms = PATIENCE_MS, say = () => undefined }: Waiting = {},
): Promise<void> {
  const began = performance.now();
  let said_at = Number.NEGATIVE_INFINITY;
  for (let pause_ms = PAUSES_MS.first; ; pause_ms *= PAUSES_MS.factor) {
    try {
      await db.transaction(applyPending);
      return;
    } catch (error) {
      if ((error as { code?: string }).code !== '55P03') throw error;
      const now = performance.now();
      const is_over = now - began > patience_ms;
      if (is_over || now - said_at > SAID_MS) {
        const words = `The migrations wait for a lock of all tables. ${await holderWords(db)}`;
        if (is_over) throw new Error(words, { cause: error });
        said_at = now;
        say(words);
      }
    }
    await sleep(Math.min(pause_ms, PAUSES_MS.longest));
  }
}

interface Holder {
  pid: number;
  application: string;
  seconds: number | null;
}

/** Which session holds a lock of a table for longest, and what to do. */
async function holderWords(db: Knex): Promise<string> {
  const { rows } = await db.raw<{ rows: Holder[] }>(
    `select a.pid, a.application_name as application, floor(extract(epoch from clock_timestamp() - a.xact_start))::int as seconds
     from pg_locks l join pg_class c on c.oid = l.relation join pg_stat_activity a on a.pid = l.pid
     where l.database = (select d.oid from pg_database d where d.datname = current_database()) and l.granted
       and c.relnamespace = current_schema()::regnamespace and l.pid <> pg_backend_pid()
     order by a.xact_start limit 1`,
  );
  const [holder] = rows;
  if (holder === undefined) return 'Nobody holds one any more.';
  const { pid, application, seconds } = holder;
  const who = application === '' ? `Session ${pid}` : `Session ${pid} (${application})`;
  const since = seconds === null ? '' : ` for ${seconds} s`;
  return `${who} has had one of some${since}: let it end, as a dump does, or end it: select pg_terminate_backend(${pid}).`;
}

async function applyPending(trx: Knex.Transaction): Promise<void> {
  await trx.raw('set local lock_timeout = 0');
  await trx.raw('set local idle_in_transaction_session_timeout = 0');
  await trx.raw('select pg_advisory_xact_lock(?)', [MIGRATION_LOCK]);
  await trx.raw(`set local lock_timeout = ${LOCK_MS}`);
  const source = { ...config, migrationSource: new SqlFiles() };
  const [, pending] = await trx.migrate.list(source);
  if (pending.length === 0) return;
  await lockTables(trx);
  await trx.migrate.latest(source);
}

async function lockTables(trx: Knex.Transaction): Promise<void> {
  const { rows } = await trx.raw<{ rows: { name: string }[] }>(
    `select c.oid::regclass::text as name from pg_class c
     where c.relnamespace = current_schema()::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
       and c.relname not like 'knex%'
     order by c.relname`,
  );
  const names = rows.map(({ name }) => name).join(', ');
  if (names !== '') await trx.raw(`lock table ${names} in access exclusive mode`);
}

/** knex's migration source over plain SQL files. */
class SqlFiles implements Knex.MigrationSource<string> {
  getMigrations(): Promise<string[]> {
    return migrationNames();
  }

  getMigrationName(name: string): string {
    return name;
  }

  async getMigration(name: string): Promise<Knex.Migration> {
    const text = await migrationText(name);
    // pg's simple protocol takes a whole file at once; knex would read `?` in it as a binding.
    const up = async (db: Knex) => {
      await db.raw(text.replaceAll('?', '\\?'));
    };
    return { up, down: async () => {} };
  }
}
