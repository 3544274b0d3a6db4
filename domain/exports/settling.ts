import { type Db, maybe, one } from '../sql';

// What was written before a moment can be seen once every transaction that had begun by then has
// ended. One that somebody left open keeps all exports waiting, so it is named.

/** A moment of the database, and a transaction of it: what had begun to write by then is older. */
export interface Moment {
  now: Date;
  transaction_id: string;
}

/** To be called outside of a transaction, which would go on. */
export function momentNow(db: Db): Promise<Moment> {
  // The end of a snapshot would not do: it lies behind the last transaction that has ended, and one
  // that goes on may be younger.
  return one<Moment>(
    db,
    `select clock_timestamp() as now, pg_current_xact_id()::text as transaction_id`,
  );
}

/** A session of this database that has written and has not ended its transaction. */
export interface OpenTransaction {
  pid: number;
  /** What its program calls itself; may be empty. */
  application: string;
  /** Null if the role of this program may not see it: it lacks pg_read_all_stats. */
  seconds: number | null;
}

const open = `select a.pid, a.application_name as application, floor(extract(epoch from clock_timestamp() - a.xact_start))::int as seconds
  from pg_stat_activity a where a.datname = current_database() and a.backend_xid is not null and a.pid <> pg_backend_pid()`;

/**
 * The oldest transaction that began to write before a moment and goes on. Undefined: there is none,
 * so that what they wrote is visible, and nothing that is written later bears an earlier time.
 */
export function openSince(
  db: Db,
  { transaction_id }: Pick<Moment, 'transaction_id'>,
): Promise<OpenTransaction | undefined> {
  // A session's number has 32 bits, so it is its distance from now that says which is older.
  return maybe<OpenTransaction>(
    db,
    `${open} and age(a.backend_xid) > age(:transaction_id::xid8::xid) order by age(a.backend_xid) desc limit 1`,
    { transaction_id },
  );
}

/** The same of those that began before a time; one whose beginning cannot be seen may have. */
export function openBefore(db: Db, time: Date): Promise<OpenTransaction | undefined> {
  return maybe<OpenTransaction>(
    db,
    `${open} and coalesce(a.xact_start < :time, true) order by a.xact_start limit 1`,
    { time },
  );
}

/** For an operator: which session it is, and how to end it. */
export function openWords({ pid, application, seconds }: OpenTransaction): string {
  const who = application === '' ? `Session ${pid}` : `Session ${pid} (${application})`;
  const since = seconds === null ? '' : ` for ${seconds} s`;
  return `${who} has had a transaction open${since}, and what it writes may be of this period. End it: select pg_terminate_backend(${pid}).`;
}
