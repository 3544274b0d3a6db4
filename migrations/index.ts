import { setTimeout as sleep } from 'node:timers/promises';
import type { Knex } from 'knex';
import { migrationNames, migrationText } from './files';

// Any constant will do, as long as every instance uses the same.
const MIGRATION_LOCK = 7_215_001;
// No statement of an API that serves meanwhile waits longer for a try that gets no lock.
const LOCK_MS = 200;
const PAUSE_MS = 300;
/** About two minutes: longer than any statement of people runs. */
const ATTEMPTS_MAX = 240;

const config: Knex.MigratorConfig = {
  disableTransactions: true,
  // The previous API version runs on a newer database.
  disableMigrationsListValidation: true,
};

/**
 * Applies the .sql files beside this one, in name order, once. Instances that start together wait
 * for each other: that wait has no time-out (a lock time-out also ends advisory waits). All tables
 * are locked at once, before anything is changed: an API of the version before goes on meanwhile,
 * and a lock that is taken here while a call there holds another would stop both.
 */
export async function migrate(db: Knex): Promise<void> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      await db.transaction(applyPending);
      return;
    } catch (error) {
      const lock_not_available = (error as { code?: string }).code === '55P03';
      if (!lock_not_available || attempt === ATTEMPTS_MAX) throw error;
    }
    await sleep(PAUSE_MS);
  }
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
