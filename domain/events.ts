import { AppError } from './errors';
import { type Db, many, maybe, one } from './sql';

/**
 * The types that gateways emit; the control plane writes all others in the transaction that causes
 * them.
 */
export const gatewayTypes = [
  'rate_limit.checked',
  'rate_limit.exceeded',
  'rate_limit.circuit_open',
  'request.completed',
  'request.blocked',
  'request.bounded',
] as const;

export const types = [
  ...gatewayTypes,
  'cost_ticket.created',
  'cost_ticket.resolved',
  'cost_ticket.exceeded',
  'wallet.balance_low',
  'payment.completed',
  'payment.failed',
  'payment.refunded',
  'reservation.expired',
  'settlement.bounded',
  'settlement.tier_unpriced',
] as const;

/**
 * The stream of what concerns no organization: a gateway's decisions on callers whom nobody knows.
 * Platform admins read it under this name in the place of an organization's id.
 */
export const PLATFORM_STREAM = 'platform';

export type EventType = (typeof types)[number];

/**
 * The types that a caller with `org:billing` sees without `events:read`: approvers need a live
 * inbox.
 */
export const billingTypes = types.filter((type) =>
  /^(cost_ticket|wallet|payment|reservation|settlement)\./.test(type),
);

export interface Event {
  id: string;
  type: EventType;
  action: string | null;
  org_id: string;
  agent_id: string | null;
  request_id: string | null;
  trace_label: string | null;
  created_at: Date;
  /** Money under keys that end in `_nanos`, as decimal text. */
  payload: Record<string, unknown>;
}

/** Whose events, and which of them. */
export interface Filter {
  org_id: string;
  /** The kinds that the reader may see. */
  visible: readonly string[];
  type?: string | undefined;
  action?: string | undefined;
  agent_id?: string | undefined;
  /** The call's id or its client's label. */
  request_id?: string | undefined;
  since?: Date | undefined;
  until?: Date | undefined;
}

const columns =
  'e.id, e.type, e.action, e.org_id, e.agent_id, e.request_id, e.trace_label, e.created_at, e.payload';

// Below the oldest open transaction nothing more can appear; a transaction that only reads has no
// id and delays nobody.
const settled = 'e.transaction_id < pg_snapshot_xmin(pg_current_snapshot())';

/**
 * Events before the cursor, newest first; `next` is the cursor of the next page, null at the end.
 */
export async function list(
  db: Db,
  { visible, ...filter }: Filter,
  { limit, cursor }: { limit: number; cursor?: string | undefined },
): Promise<{ events: Event[]; next_cursor: string | null }> {
  const { type, action, agent_id, request_id, since, until } = filter;
  const conditions = [
    'e.org_id = :org_id and e.type = any(:visible)',
    settled,
    ...(type === undefined ? [] : ['e.type = :type']),
    ...(action === undefined ? [] : ['e.action = :action']),
    ...(agent_id === undefined ? [] : ['e.agent_id = :agent_id']),
    ...(request_id === undefined
      ? []
      : ['(e.request_id = :request_id or e.trace_label = :request_id)']),
    ...(since === undefined ? [] : ['e.created_at >= :since']),
    ...(until === undefined ? [] : ['e.created_at < :until']),
    ...(cursor === undefined ? [] : ['e.id < :cursor']),
  ];
  const events = await many<Event>(
    db,
    `select ${columns} from events e where ${conditions.join(' and ')} order by e.id desc limit :limit`,
    { ...filter, visible: [...visible], cursor, limit: limit + 1 } as Record<string, unknown>,
  );
  const page = events.slice(0, limit);
  const next_cursor = events.length > limit ? (page.at(-1)?.id ?? null) : null;
  return { events: page, next_cursor };
}

/** One event of an organization among the kinds that its reader may see, or `not_found`. */
export function get(db: Db, id: string, { org_id, visible }: Filter): Promise<Event> {
  return one<Event>(
    db,
    `select ${columns} from events e where e.id = :id and e.org_id = :org_id and e.type = any(:visible) and ${settled}`,
    { id, org_id, visible: [...visible] },
    'No event',
  );
}

/** A place in the order in which events became visible. */
export interface Place {
  transaction_id: string;
  id: string;
}

/** The place after everything that is visible now. */
export async function newestPlace(db: Db): Promise<Place> {
  const { transaction_id } = await one<{ transaction_id: string }>(
    db,
    'select (pg_snapshot_xmin(pg_current_snapshot())::text::numeric - 1)::text as transaction_id',
  );
  // After every id of that transaction.
  return { transaction_id, id: '~' };
}

/** The place of an event that a reader saw last; undefined if it is not kept any more. */
export function placeOf(db: Db, id: string, org_id: string): Promise<Place | undefined> {
  return maybe<Place>(
    db,
    'select e.transaction_id::text as transaction_id, e.id from events e where e.id = :id and e.org_id = :org_id',
    { id, org_id },
  );
}

/**
 * The events that became visible after a place, in that order: one that commits late is never
 * skipped.
 */
export async function after(
  db: Db,
  { org_id, visible, type, action }: Filter,
  place: Place,
  limit: number,
): Promise<{ events: Event[]; place: Place }> {
  const rows = await many<Event & { transaction_id: string }>(
    db,
    `select ${columns}, e.transaction_id::text as transaction_id from events e
     where e.org_id = :org_id and (e.transaction_id, e.id) > (:transaction_id::xid8, :id) and ${settled}
       and e.type = any(:visible) and (:type::text is null or e.type = :type)
       and (:action::text is null or e.action = :action)
     order by e.transaction_id, e.id limit :limit`,
    {
      org_id,
      visible: [...visible],
      ...place,
      limit,
      type: type ?? null,
      action: action ?? null,
    },
  );
  const last = rows.at(-1);
  const events = rows.map(({ transaction_id: _, ...event }) => event);
  return { events, place: last ? { transaction_id: last.transaction_id, id: last.id } : place };
}

/** An event of a gateway; its id contains its time. */
export interface GatewayEvent {
  id: string;
  org_id: string;
  type: (typeof gatewayTypes)[number];
  action?: string | null | undefined;
  agent_id?: string | null | undefined;
  request_id?: string | null | undefined;
  trace_label?: string | null | undefined;
  payload: Record<string, unknown>;
}

/**
 * Writes the events that are new and returns how many. Unknown organizations are left out, repeats
 * change nothing.
 */
export async function record(db: Db, given: readonly GatewayEvent[]): Promise<number> {
  const rows = await many(
    db,
    `insert into events (id, created_at, org_id, type, action, agent_id, request_id, trace_label, payload)
     select g.id, id_time(g.id), g.org_id, g.type, g.action, g.agent_id, g.request_id, g.trace_label, g.payload
     from jsonb_to_recordset(:given) as g (id text, org_id text, type text, action text, agent_id text, request_id text,
       trace_label text, payload jsonb)
     where g.org_id = :platform or exists (select 1 from organizations o where o.id = g.org_id)
     on conflict do nothing returning id`,
    { given: JSON.stringify(given), platform: PLATFORM_STREAM },
  );
  return rows.length;
}

const DAYS_AHEAD = 7;
const DAYS_KEPT = 90;

/**
 * Makes the partitions of the days to come and drops those past their 90 days; how many changed.
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
  const oldest = `events_${dayAfter(today, -DAYS_KEPT).replaceAll('-', '')}`;
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

/** The moment that a time-ordered id names; throws `invalid_field` if it has another form. */
export function timeOfId(id: string, param: string): Date {
  const hex = /^evt_([0-9a-f]{12})[0-9a-f]{20}$/.exec(id)?.[1];
  if (hex === undefined)
    throw new AppError('invalid_field', `${param} is not the id of an event.`, { param });
  return new Date(Number.parseInt(hex, 16));
}
