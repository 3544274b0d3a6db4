import type { Knex } from 'knex';
import { migrationNames, migrationText } from './files';

// Any constant will do, as long as every instance uses the same.
const MIGRATION_LOCK = 7_215_001;
const attempts_max = 5;

/**
 * Applies the .sql files beside this one, in name order, once. Instances that start together wait
 * for each other: that wait has no time-out (a lock time-out also ends advisory waits); the DDL
 * after it has 2 s and is tried again.
 */
export async function migrate(db: Knex): Promise<void> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      await db.transaction(applyPending);
      return;
    } catch (error) {
      const lock_not_available = (error as { code?: string }).code === '55P03';
      if (!lock_not_available || attempt === attempts_max) throw error;
    }
  }
}

async function applyPending(trx: Knex.Transaction): Promise<void> {
  await trx.raw('set local lock_timeout = 0');
  await trx.raw('set local idle_in_transaction_session_timeout = 0');
  await trx.raw('select pg_advisory_xact_lock(?)', [MIGRATION_LOCK]);
  await trx.raw('set local lock_timeout = 2000');
  await trx.migrate.latest({
    migrationSource: new SqlFiles(),
    disableTransactions: true,
    // The previous API version runs on a newer database.
    disableMigrationsListValidation: true,
  });
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
