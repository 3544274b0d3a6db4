import knex, { type Knex } from 'knex';
import pg from 'pg';

const INT8 = 20;
pg.types.setTypeParser(INT8, BigInt);

// At most 2 s for a lock and 5 s idle in a transaction; no session keeps others waiting longer.
const session =
  '-c lock_timeout=2000 -c idle_in_transaction_session_timeout=5000 -c timezone=UTC -c jit=off';

// Knex would print lost connections as text between the JSON lines of the log; the caller of the
// statement gets the same error.
const ignore = () => undefined;
const silent = { warn: ignore, error: ignore, deprecate: ignore, debug: ignore };

/**
 * Opens a pool. int8 arrives as BigInt, timestamps as Date. A statement takes as long as it takes,
 * unless a time-out is given.
 */
export function openDatabase(
  url: string,
  pool_max = 10,
  application_name = 'svc',
  statement_timeout_ms = 0,
): Knex {
  return knex({
    client: 'pg',
    connection: {
      connectionString: url,
      application_name,
      options: `${session} -c statement_timeout=${statement_timeout_ms}`,
      keepAlive: true,
      connectionTimeoutMillis: 3_000,
    },
    pool: { min: 0, max: pool_max },
    acquireConnectionTimeout: 5_000,
    // Bindings belong in no message: webhooks carry people's names, config carries secrets.
    compileSqlOnError: false,
    log: silent,
  });
}
