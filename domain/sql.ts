import type { Knex } from 'knex';
import { AppError } from './errors';

/** A connection pool or an open transaction, the first argument of every domain function. */
export type Db = Knex;

type Bindings = Record<string, unknown>;

/** All rows. Bindings are named: `:org_id`. */
export async function many<Row>(db: Db, sql: string, bindings: Bindings = {}): Promise<Row[]> {
  const result = await db.raw<{ rows: Row[] }>(sql, bindings as Record<string, Knex.RawBinding>);
  return result.rows;
}

/**
 * All rows of a statement that each session prepares once, under its name, and not for each call. A
 * name stands for one text. The columns of what it selects never change: a session would go on
 * with the old ones and fail. It goes to the driver as it is: what knex does for a statement costs
 * more than all else that the API does for a call alone.
 */
export async function prepared<Row>(
  db: Db,
  name: string,
  sql: string,
  bindings: Bindings,
): Promise<Row[]> {
  const { text, names } = numberedOnce(name, sql);
  const values = names.map((one) => bindings[one]);
  const client = db.client as Knex.Client;
  const session = (await client.acquireConnection()) as Session;
  try {
    return (await session.query({ name, text, values })).rows as Row[];
  } catch (error) {
    // The pool lets go of a session that it finds marked so.
    if (isStale(error)) session.__knex__disposed = error;
    throw error;
  } finally {
    await client.releaseConnection(session);
  }
}

/** A connection of the driver. */
interface Session {
  __knex__disposed?: unknown;
  query(statement: Statement): Promise<{ rows: unknown[] }>;
}

/** A statement as the driver takes it. */
interface Statement {
  name?: string;
  text: string;
  values: unknown[];
}

interface Numbered {
  text: string;
  /** The names of the bindings, in the order of their numbers. */
  names: string[];
}

const numbered = new Map<string, Numbered>();

/** The statement with the numbers of PostgreSQL in the place of names. */
function numberedOnce(name: string, sql: string): Numbered {
  const known = numbered.get(name);
  if (known !== undefined) return known;
  const names: string[] = [];
  const text = sql.replace(/(?<!:):(\w+)/g, (_, binding: string) => {
    if (!names.includes(binding)) names.push(binding);
    return `$${names.indexOf(binding) + 1}`;
  });
  numbered.set(name, { text, names });
  return { text, names };
}

/** The first row, or undefined. */
export async function maybe<Row>(
  db: Db,
  sql: string,
  bindings: Bindings = {},
): Promise<Row | undefined> {
  return (await many<Row>(db, sql, bindings))[0];
}

/** Exactly one row; `not_found` with the given subject if there is none. */
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

/**
 * A column is of `:org_id`: of an organization, or of the platform, whose rows name none. As
 * conditions that an index answers, which `is not distinct from` is not.
 */
export function owns(column: string, org_id: string | null): string {
  return org_id === null ? `${column} is null` : `${column} = :org_id`;
}

const STEP_ROWS = 10_000;

/**
 * Deletes the rows of a table that meet a condition; how many. Each step is a statement of its own,
 * so that no lock is held for long, and rows beyond a step are left to the next one.
 */
export async function deleteInSteps(
  db: Db,
  table: string,
  condition: string,
  step = STEP_ROWS,
): Promise<number> {
  let deleted = 0;
  for (let count = step; count === step; deleted += count) {
    ({ count } = await one<{ count: number }>(
      db,
      `with gone as (delete from ${table} where ${condition}
         and ctid = any(array(select ctid from ${table} where ${condition} limit :step)) returning 1)
       select count(*)::int as count from gone`,
      { step },
    ));
  }
  return deleted;
}

// Serialization failure, deadlock, lock time-out: nothing was written and a repeat may succeed.
const transient = new Set(['40001', '40P01', '55P03']);

/** True if PostgreSQL undid the statement for a reason that passes. */
export function isTransient(error: unknown): boolean {
  return transient.has((error as { code?: string }).code ?? '') || isStale(error);
}

/**
 * True if a session has lost what it prepared, or a migration has made it another: nothing was run,
 * and it will never be in this session.
 */
function isStale(error: unknown): boolean {
  const { code, message } = error as { code?: string; message?: string };
  return code === '26000' || (code === '0A000' && /cached plan/.test(message ?? ''));
}

// Node's connection errors, PostgreSQL's class 08 and 57P0x (shutdown, crash), and the pool's
// time-out.
const unreachable = /^(ECONN|ETIMEDOUT|EPIPE|ENOTFOUND|EHOSTUNREACH|08|57P0|53300)/;

// Messages of pg without a code: a session that ended while, before, or after a statement was on
// it.
const lostConnection =
  /Connection terminated|Connection ended unexpectedly|is not queryable|timeout expired|timeout exceeded when trying to connect/;

/** True if a database or service could not be reached, so that a repeat may find it. */
export function isUnreachable(error: unknown): boolean {
  const { code, name, message } = error as { code?: string; name?: string; message?: string };
  if (code && unreachable.test(code)) return true;
  return name === 'KnexTimeoutError' || lostConnection.test(message ?? '');
}

// PostgreSQL answers, and can do no work now: disk full and the like (class 53), read-only, no
// connections to this database, a statement past its time, a password that is no longer right.
const unable = /^(53|25006|55000|57014|28P01|28000)/;

/** True if the database refuses to work for a reason that its operator ends, or time. */
export function isUnable(error: unknown): boolean {
  return unable.test((error as { code?: string }).code ?? '');
}

/** True if the statement was ended from outside, by its time or by a person. */
export function isCanceled(error: unknown): boolean {
  return (error as { code?: string }).code === '57014';
}

/** True if the statement was ended by its time: the question was too much, and nothing is away. */
export function isOvertime(error: unknown): boolean {
  return isCanceled(error) && /statement timeout/.test((error as Error).message);
}

/** True if a repeat may find a database that works: it is away, or cannot work now. */
export function cannotWorkNow(error: unknown): boolean {
  return isUnreachable(error) || isUnable(error);
}

const ATTEMPTS = 3;

/**
 * Runs a whole transaction up to three times while PostgreSQL undoes it; then 503. Never reported
 * as a lack of money.
 */
export async function withRetry<T>(run: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await run();
    } catch (error) {
      if (!isTransient(error)) throw error;
      if (attempt === ATTEMPTS) throw busy();
    }
  }
}

/** The refusal (503) if PostgreSQL undid the work for a reason that passes. */
export function busy(): AppError {
  return new AppError('unavailable', 'The ledger is busy. Repeat the request with the same ids.', {
    retry_after: 1,
  });
}
