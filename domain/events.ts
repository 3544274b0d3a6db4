import { AppError } from './errors';
import { type Db, many, one } from './sql';

/** Events are kept for so many UTC days. */
export const DAYS_KEPT = 90;

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
  'request.refused',
] as const;

export const types = [
  ...gatewayTypes,
  'cost_ticket.created',
  'cost_ticket.resolved',
  'cost_ticket.exceeded',
  'budget.threshold',
  'wallet.balance_low',
  'wallet.credited',
  'wallet.allocated',
  'wallet.reclaimed',
  'payment.completed',
  'payment.failed',
  'payment.refunded',
  'reservation.expired',
  'settlement.bounded',
  'settlement.tier_unpriced',
  'key.issued',
  'key.expiring',
  'provider_key.used',
  'export.completed',
  'export.failed',
  'config.rollout_started',
  'config.rollout_stage_began',
  'config.rollout_paused',
  'config.rollout_resumed',
  'config.rollout_promoted',
  'config.rollout_completed',
  'config.rollout_rolled_back',
  'config.rollout_aborted',
  'config.rollout_superseded',
  'gateway.config_rejected',
  'gateway.silent',
  'audit.broken',
  'worker.missing',
  'worker.behind',
  'outbox.parked',
  'prices.checked',
  'prices.imported',
  'prices.import_undone',
  'notice.disabled',
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
  /^(cost_ticket|budget|wallet|payment|reservation|settlement|key|provider_key|export|notice)\./.test(
    type,
  ),
);

/** The types of which a person without a permission sees what is their own, or their teams'. */
export const memberTypes = types.filter((type) =>
  /^((cost_ticket|payment)\.|wallet\.(credited|allocated|reclaimed)$)/.test(type),
);

/** The types that a team's admins follow of the teams that they lead. */
export const teamTypes: readonly string[] = memberTypes.filter(
  (type) => !type.startsWith('payment.'),
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

/** The columns of a `scanned_event` and its event. */
export const scanned = `${columns}, s.is_wanted`;

// Below the oldest open transaction nothing more can appear; a transaction that only reads has no
// id and delays nobody.
const settled = 'e.transaction_id < pg_snapshot_xmin(pg_current_snapshot())';

/** How many events a page looks at; a search that has found too few goes on at its cursor. */
const SCAN = 2_000;

/**
 * Events before the cursor, newest first; `next_cursor` begins the next page, null at the end. A
 * page of a search may be short, or empty, before the end is reached.
 */
export async function list(
  db: Db,
  { visible, type, ...filter }: Filter,
  { limit, cursor }: { limit: number; cursor?: string | undefined },
): Promise<{ events: Event[]; next_cursor: string | null }> {
  const { org_id, action, agent_id, request_id, since, until } = filter;
  const rows = await many<Scanned>(
    db,
    `select ${scanned} from events_before(:org_id, :cursor, :since, :until, :types, :action, :agent_id, :request_id, :scan, :limit) as s
     cross join lateral (select (s.event).*) as e`,
    {
      org_id,
      cursor: cursor ?? null,
      since: since ?? null,
      until: until ?? null,
      types: visible.filter((kind) => type === undefined || kind === type),
      action: action ?? null,
      agent_id: agent_id ?? null,
      request_id: request_id ?? null,
      scan: SCAN,
      // One more says whether there is a next page.
      limit: limit + 1,
    },
  );
  const { found, bound } = foundIn(rows);
  const page = found.slice(0, limit);
  const last = found.length > limit ? page.at(-1) : bound;
  return { events: page.map(eventOf), next_cursor: last?.id ?? null };
}

/** A `scanned_event`; the last one, if it is not wanted, says how far the scan came. */
export type Scanned = Event & { is_wanted: boolean };

/** The events that a scan was for, and the row behind which more may be: it met a bound. */
export function foundIn<Row extends Scanned>(rows: readonly Row[]) {
  const found = rows.filter((row) => row.is_wanted);
  const end = rows.at(-1);
  return { found, bound: end?.is_wanted === false ? end : undefined };
}

/** The event alone. */
export function eventOf({ is_wanted: _, ...event }: Scanned): Event {
  return event;
}

/**
 * One event among the kinds that its reader may see, or `not_found`; of any organization if none is
 * named.
 */
export function get(
  db: Db,
  id: string,
  { org_id, visible }: Pick<Filter, 'visible'> & { org_id: string | null },
): Promise<Event> {
  return one<Event>(
    db,
    `select ${columns} from events e where e.id = :id and (:org_id::text is null or e.org_id = :org_id) and e.type = any(:visible) and ${settled}`,
    { id, org_id, visible: [...visible] },
    'No event',
  );
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
  const rows = await many(db, insertion(), { events: JSON.stringify(given) });
  return rows.length;
}

/** The statement of it, also within another one: `sources` is what there must be rows of. */
export function insertion(sources = ''): string {
  return `insert into events (id, created_at, org_id, type, action, agent_id, request_id, trace_label, payload)
     select g.id, id_time(g.id), g.org_id, g.type, g.action, g.agent_id, g.request_id, g.trace_label, g.payload
     from ${sources}jsonb_to_recordset(:events) as g (id text, org_id text, type text, action text, agent_id text, request_id text,
       trace_label text, payload jsonb)
     where g.org_id = '${PLATFORM_STREAM}' or exists (select 1 from organizations o where o.id = g.org_id)
     on conflict do nothing returning id`;
}

/** The moment that a time-ordered id names; throws `invalid_field` if it has another form. */
export function timeOfId(id: string, param: string): Date {
  const hex = /^evt_([0-9a-f]{12})[0-9a-f]{20}$/.exec(id)?.[1];
  if (hex === undefined)
    throw new AppError('invalid_field', `${param} is not the id of an event.`, { param });
  return new Date(Number.parseInt(hex, 16));
}

/** Says to the platform that the proof of the ledger found so many faults, if there are some. */
export async function tellBroken(db: Db, count: number): Promise<void> {
  await many(
    db,
    `select append_event('${PLATFORM_STREAM}', 'audit.broken', jsonb_build_object('broken', :count::int)) where :count::int > 0`,
    { count },
  );
}

/** Says to the platform that prices were imported, or that an import was undone. */
export async function tellImport(
  db: Db,
  type: 'prices.imported' | 'prices.import_undone',
  told: { import_id: string; actor: string; prices: number },
): Promise<void> {
  await many(db, `select append_event('${PLATFORM_STREAM}', :type, :told::jsonb)`, {
    ...{ type, told: JSON.stringify(told) },
  });
}

/** Says to the platform what a check of prices found, if anything is to be mended. */
export async function tellPrices(db: Db, found: object & { faults: number }): Promise<void> {
  await many(
    db,
    `select append_event('${PLATFORM_STREAM}', 'prices.checked', :found::jsonb) where :faults::int > 0`,
    { found: JSON.stringify(found), faults: found.faults },
  );
}

/**
 * An event as its organization reads it: what a call cost the platform at its provider is the
 * platform's own matter, unless an own key of the organization served it.
 */
export function forOrganization<One extends Pick<Event, 'payload'>>(event: One): One {
  const { provider_cost_usd, ...payload } = event.payload;
  if (provider_cost_usd === undefined || typeof payload.provider_key_id === 'string') return event;
  return { ...event, payload };
}
