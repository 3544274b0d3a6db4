import { type Db, many } from '../../sql';
import type { Viewer } from '../wallets';
import { isSeen, seenBy } from './entries';

/** So many of a label's newest events are looked at, which a client may give to each call. */
const SCAN = 1_000;
const CALLS_MAX = 21;

const seenIn = (from: string) => `exists (select 1 from ${from} and ${isSeen})`;
const isIn = (from: string) => `exists (select 1 from ${from})`;
const held = 'reservations r where r.org_id = c.org_id and r.request_id = c.request_id';
const waited = `ticket_waiters w join cost_tickets r on r.id = w.ticket_id
  where w.org_id = c.org_id and w.request_id = c.request_id`;
const refused = `cost_tickets r where r.org_id = c.org_id and r.id = c.cost_ticket_id`;

/**
 * The calls whose client gave them this X-Request-Id, newest first, of those that the viewer may
 * see. Their label stands on their events, which are kept for 90 days.
 */
export async function callsLabelled(
  db: Db,
  label: string,
  viewer: Viewer & { event_types: readonly string[] },
): Promise<string[]> {
  const { org_id, event_types } = viewer;
  const rows = await many<{ request_id: string }>(
    db,
    `with calls as (
       select :org_id::text as org_id, l.request_id, max(l.id) as newest, array_agg(distinct l.type) as types,
         max(l.payload ->> 'cost_ticket_id') as cost_ticket_id
       from (select e.id, e.type, e.request_id, e.payload from events e
         where e.org_id = :org_id and e.trace_label = :label and e.request_id is not null
         order by e.id desc limit :scan) as l
       group by l.request_id
     )
     select c.request_id from calls c
     where :sees_all or ${seenIn(held)} or ${seenIn(waited)} or ${seenIn(refused)}
       or c.types && :event_types::text[] and not (${isIn(held)} or ${isIn(waited)} or ${isIn(refused)})
     order by c.newest desc limit :limit`,
    {
      ...seenBy(viewer),
      ...{ org_id, label, event_types: [...event_types], scan: SCAN, limit: CALLS_MAX },
    },
  );
  return rows.map(({ request_id }) => request_id);
}
