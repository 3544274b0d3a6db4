import { DAYS_KEPT, type Event, eventOf, foundIn, type Scanned, scanned } from './events';
import { type Db, many, maybe, one } from './sql';

/** A place in the order in which events became visible. */
export interface Place {
  transaction_id: string;
  id: string;
  /** No event after it is older, which leaves out the partitions of all other days. */
  since: Date;
}

// An event is written at most a week after the time of its id, and a minute before it.
const DAY_MS = 86_400_000;
const WRITTEN_WITHIN_MS = 8 * DAY_MS;

function placeAt(transaction_id: string, id: string, time: number): Place {
  return { transaction_id, id, since: new Date(time - WRITTEN_WITHIN_MS) };
}

/** The place after everything that is visible now. */
export async function newestPlace(db: Db): Promise<Place> {
  const { transaction_id } = await one<{ transaction_id: string }>(
    db,
    'select pg_snapshot_xmin(pg_current_snapshot())::text as transaction_id',
  );
  // Before every id of that transaction.
  return placeAt(transaction_id, '', Date.now());
}

/** A place as a reader is told it who has seen no event there: by it they go on where they were. */
export function nameOf({ transaction_id, id, since }: Place): string {
  return `at_${transaction_id}_${since.getTime()}_${id}`;
}

const place_name = /^at_(\d{1,19})_(\d{13})_((?:evt_\w{32})?)$/;

/** The place of a name; undefined for another text, and for one whose days are kept no more. */
function placeNamed(name: string): Place | undefined {
  const [, transaction_id, since_ms, id] = place_name.exec(name) ?? [];
  if (transaction_id === undefined || id === undefined) return undefined;
  const since = new Date(Number(since_ms));
  const is_kept = since.getTime() + WRITTEN_WITHIN_MS > Date.now() - DAYS_KEPT * DAY_MS;
  return is_kept ? { transaction_id, id, since } : undefined;
}

/**
 * The place that a reader saw last: an event, or a place by its name. Undefined if it is not kept
 * any more.
 */
export async function placeOf(db: Db, id: string, org_id: string): Promise<Place | undefined> {
  if (id.startsWith('at_')) return placeNamed(id);
  const row = await maybe<{ transaction_id: string; created_at: Date }>(
    db,
    'select e.transaction_id::text as transaction_id, e.created_at from events e where e.id = :id and e.org_id = :org_id',
    { id, org_id },
  );
  return row && placeAt(row.transaction_id, id, row.created_at.getTime());
}

/** One read of events: it scans at most `scan` rows and returns at most `limit` of these types. */
export interface Wanted {
  org_id: string;
  types: readonly string[];
  scan: number;
  limit: number;
}

/**
 * The events that became visible between two places, in that order: one that commits late is never
 * skipped. The place moves on over whatever was read, also if nothing of it was wanted.
 */
export async function after(
  db: Db,
  { org_id, types, scan, limit }: Wanted,
  place: Place,
  until: Place,
): Promise<{ events: Event[]; place: Place }> {
  const rows = await many<Scanned & { transaction_id: string }>(
    db,
    `select ${scanned}, e.transaction_id::text as transaction_id
     from events_after(:org_id, :transaction_id::xid8, :id, :until::xid8, :until_id, :since, :types, :scan, :limit) as s
     cross join lateral (select (s.event).*) as e`,
    {
      org_id,
      types: [...types],
      ...place,
      until: until.transaction_id,
      until_id: until.id,
      scan,
      limit,
    },
  );
  const { found, bound } = foundIn(rows);
  const last = found.length === limit ? found.at(-1) : bound;
  return {
    events: found.map(({ transaction_id: _, ...row }) => eventOf(row)),
    place: last ? { ...place, transaction_id: last.transaction_id, id: last.id } : until,
  };
}
