import { DAYS_KEPT } from '../events';
import { type Db, many, one } from '../sql';

// The partitions of events by day: which there are, and how long.

const DAYS_AHEAD = 7;

/**
 * An event is of the time of its id, at which its gateway saw it, and may arrive up to seven days
 * later. A day is the margin.
 */
export const LATE_DAYS = 8;

/** An export of the oldest day that was asked for just before midnight still finds its events. */
const GRACE_MS = 3_600_000;

/** The first moment of the oldest UTC day whose events are kept. */
export function keptFrom(now: Date): Date {
  return new Date(`${dayAfter(now, -DAYS_KEPT)}T00:00:00.000Z`);
}

/**
 * Makes partitions of the days to come, drops those past their 90 days; how many changed. What an
 * export that waits or runs has yet to read stays until it has ended.
 */
export async function keepPartitions(db: Db, today: Date = new Date()): Promise<number> {
  let changed = 0;
  for (let ahead = 0; ahead <= DAYS_AHEAD; ahead += 1) {
    const day = dayAfter(today, ahead);
    const row = await withPatience(() =>
      one<{ added: boolean }>(db, 'select add_event_partition(:day) as added', { day }),
    );
    if (row.added) changed += 1;
  }
  const wanted = await oldestWanted(db);
  const kept = keptFrom(new Date(today.getTime() - GRACE_MS));
  const oldest = `events_${dayAfter(wanted && wanted < kept ? wanted : kept, 0).replaceAll('-', '')}`;
  const past = await many<{ name: string }>(
    db,
    `select c.relname as name from pg_inherits i join pg_class c on c.oid = i.inhrelid
     where i.inhparent = 'events'::regclass and c.relname ~ '^events_[0-9]{8}$' and c.relname < :oldest`,
    { oldest },
  );
  for (const { name } of past) {
    await withPatience(() => many(db, 'select drop_event_partition(:name)', { name }));
    changed += 1;
  }
  return changed;
}

/** The first moment whose events exports that wait or run may read; undefined: there are none. */
async function oldestWanted(db: Db): Promise<Date | undefined> {
  const { wanted } = await one<{ wanted: Date | null }>(
    db,
    `select min(x.from_time - case when x.events_after is null then interval '0' else ${LATE_DAYS} * interval '1 day' end) as wanted
     from exports x where x.status in ('queued', 'running') and 'events' = any(x.kinds)`,
  );
  return wanted ?? undefined;
}

const PATIENCE = 50;

/** Repeats a transaction that timed out after 200 ms on another one's lock. */
async function withPatience<T>(run: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await run();
    } catch (error) {
      const gave_way = (error as { code?: string }).code === '55P03';
      if (!gave_way || attempt >= PATIENCE) throw error;
    }
  }
}

function dayAfter(day: Date, days: number): string {
  return new Date(day.getTime() + days * 86_400_000).toISOString().slice(0, 10);
}
