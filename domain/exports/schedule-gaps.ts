import type { ErrorCode } from '../errors';
import { type Db, many, maybe, one } from '../sql';
import { keptFrom } from './kept-events';
import type { KindName } from './kinds';

// Events are kept for 90 days. A window that has waited for longer has none any more, and must not
// look as if there had been none.

/** A schedule with the window that is due. */
interface Due {
  id: string;
  kinds: readonly KindName[];
  time_zone: string;
  from: Date;
  to: Date;
}

const error_code: ErrorCode = 'export_expired';

/**
 * What of a window can still be exported: all kinds, or those whose rows are kept. Empty if that is
 * none: then the window has moved to the days whose events are kept, and the gap is told of.
 */
export async function keptKinds(trx: Db, due: Due): Promise<readonly KindName[]> {
  const { now } = await one<{ now: Date }>(trx, 'select clock_timestamp() as now', {});
  const kept = keptFrom(now);
  if (!due.kinds.includes('events') || due.from >= kept) return due.kinds;
  const others = due.kinds.filter((kind) => kind !== 'events');
  if (others.length === 0) await move(trx, due, kept);
  return others;
}

/**
 * Tells, once, that the export of a window is made without its events. They may be kept in part:
 * whoever asks for them by themselves gets those.
 */
export async function tellGap(trx: Db, { id, from, to }: Due): Promise<void> {
  const before = await maybe(
    trx,
    `select 1 from exports where schedule_id = :id and from_time = :from and to_time = :to and not 'events' = any(kinds)
     offset 1 limit 1`,
    { id, from, to },
  );
  if (before === undefined) await tell(trx, { id, from, to });
}

/** Moves a window to the first day of its zone whose events are all kept. */
async function move(trx: Db, { id, time_zone, from }: Due, kept: Date): Promise<void> {
  const { next } = await one<{ next: Date }>(
    trx,
    `select case when w.starts_at = :kept::timestamptz then w.starts_at else w.ends_at end as next
     from reporting_window('day', :time_zone, :kept::timestamptz) as w`,
    { kept, time_zone },
  );
  // Of a month that is kept in part, what is kept is exported.
  await many(trx, 'update export_schedules set window_from = :next where id = :id', { id, next });
  await tell(trx, { id, from, to: next });
}

async function tell(trx: Db, { id, from, to }: Pick<Due, 'id' | 'from' | 'to'>): Promise<void> {
  const words = `Events are kept for 90 days: those from ${from.toISOString()} to ${to.toISOString()} were deleted before they could be exported.`;
  const payload = { schedule_id: id, kinds: ['events'], error_code, from, to };
  await many(
    trx,
    `update export_schedules set waiting_since = coalesce(waiting_since, clock_timestamp()), waiting_reason = :words where id = :id
     returning append_event(coalesce(org_id, 'platform'), 'export.failed', :payload::jsonb)`,
    { id, words, payload: JSON.stringify(payload) },
  );
}
