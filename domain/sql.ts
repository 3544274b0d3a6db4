import type { Knex } from 'knex';
import { AppError } from './errors';

/** A connection pool or an open transaction: what every domain function takes first. */
export type Db = Knex;

type Bindings = Record<string, unknown>;

/** All rows. Bindings are named: `:org_id`. */
export async function many<Row>(db: Db, sql: string, bindings: Bindings = {}): Promise<Row[]> {
  const result = await db.raw<{ rows: Row[] }>(sql, bindings as Record<string, Knex.RawBinding>);
  return result.rows;
}

/** The first row, or undefined. */
export async function maybe<Row>(
  db: Db,
  sql: string,
  bindings: Bindings = {},
): Promise<Row | undefined> {
  return (await many<Row>(db, sql, bindings))[0];
}

/** Exactly one row; `not_found` with the given words where there is none. */
export async function one<Row>(
  db: Db,
  sql: string,
  bindings: Bindings = {},
  missing = 'Nothing',
): Promise<Row> {
  const row = await maybe<Row>(db, sql, bindings);
  if (row === undefined) throw new AppError('not_found', `${missing} was found under this id.`);
  return row;
}

// Serialization failure, deadlock, lock time-out: nothing was written and a repeat may succeed.
const transient = new Set(['40001', '40P01', '55P03']);

/** True where PostgreSQL undid the statement for a reason that passes. */
export function isTransient(error: unknown): boolean {
  return transient.has((error as { code?: string }).code ?? '');
}

/** Runs a whole transaction up to three times while PostgreSQL undoes it; then 503. Never reported as a lack of money. */
export async function withRetry<T>(run: () => Promise<T>, attempts = 3): Promise<T> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await run();
    } catch (error) {
      if (!isTransient(error)) throw error;
      if (attempt >= attempts) throw busy();
    }
  }
}

function busy(): AppError {
  return new AppError('unavailable', 'The ledger is busy. Repeat the request with the same ids.', {
    retry_after: 1,
  });
}
