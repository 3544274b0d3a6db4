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
 * none: then the window has moved to the events that are kept, and the gap is told of.
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
  if (before !== undefined) return;
  const words = `those from ${from.toISOString()} to ${to.toISOString()} are not in their export, as some or all were deleted before it.`;
  await tell(trx, { id, from, to }, words);
}

/** Moves a window to the first moment that is kept, which may lie within a day of its zone. */
async function move(trx: Db, { id, from }: Due, kept: Date): Promise<void> {
  // Of a day or month that is kept in part, what is kept is exported.
  await many(trx, 'update export_schedules set window_from = :kept where id = :id', { id, kept });
  const words = `those from ${from.toISOString()} to ${kept.toISOString()} were deleted before they could be exported.`;
  await tell(trx, { id, from, to: kept }, words);
}

async function tell(
  trx: Db,
  { id, from, to }: Pick<Due, 'id' | 'from' | 'to'>,
  what: string,
): Promise<void> {
  const words = `Events are kept for 90 days: ${what}`;
  const payload = { schedule_id: id, kinds: ['events'], error_code, from, to };
  await many(
    trx,
    `update export_schedules set waiting_since = coalesce(waiting_since, clock_timestamp()), waiting_reason = :words where id = :id
     returning append_event(coalesce(org_id, 'platform'), 'export.failed', :payload::jsonb)`,
    { id, words, payload: JSON.stringify(payload) },
  );
}
