import { type Event, eventOf, foundIn, type Scanned, scanned } from './events';
import { type Db, many, maybe, one } from './sql';

/** A place in the order in which events became visible. */
export interface Place {
  transaction_id: string;
  id: string;
  /** No event after it is older, which leaves out the partitions of all other days. */
  since: Date;
}

// An event is written at most a week after the time of its id, and a minute before it.
const WRITTEN_WITHIN_MS = 8 * 86_400_000;

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

/** The place of an event that a reader saw last; undefined if it is not kept any more. */
export async function placeOf(db: Db, id: string, org_id: string): Promise<Place | undefined> {
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
