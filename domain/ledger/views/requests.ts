import { AppError } from '../../errors';
import { forOrganization } from '../../events';
import { type Db, many, maybe, one } from '../../sql';
import type { FrozenKey } from '../calls';
import { linesOfOne, type PriceLine } from '../price-sheet';
import type { Viewer } from '../wallets';
import { type Entry, entriesOf, isSeen, seenBy } from './entries';
import { callsLabelled } from './labelled-requests';

/** One call's whole story: what it asked for, held, waited for, used and cost. */
export interface RequestStory {
  request_id: string;
  /** The further calls under the X-Request-Id by which this one was asked for, newest first. */
  other_request_ids: string[];
  created_at: Date;
  /** Of its reservation; null: it never held anything. */
  status: string | null;
  outcome: string | null;
  user_id: string | null;
  team_id: string | null;
  key_id: string | null;
  agent_id: string | null;
  session_id: string | null;
  tags: string[] | null;
  family: string | null;
  /** What it asked for, and what served it. */
  provider: string | null;
  model: string | null;
  settled_provider: string | null;
  settled_model: string | null;
  fallbacks: { provider: string; model: string }[] | null;
  /** The own keys that might serve it, as they were then; null: there were none. */
  own_keys: FrozenKey[] | null;
  /** The one that did; null: the platform's key. */
  provider_key_id: string | null;
  /** What its prices are multiplied with, as a price sheet has it. */
  price_factor: string | null;
  hold: Hold | null;
  cost_ticket: Ticket | null;
  usage: Record<string, number | string> | null;
  usage_source: string | null;
  price_lines: PriceLine[];
  /**
   * What the provider says that it cost, in USD; null: it says nothing, or the viewer is not of the
   * platform and no own key served.
   */
  provider_cost_usd: string | null;
  settlement: { actual_cost_nanos: bigint; currency: string; settled_at: Date } | null;
  transactions: Entry[];
  /** Of the 90 days that they are kept; the gateway's own tells of attempts and what failed. */
  events: { id: string; type: string; created_at: Date; payload: Record<string, unknown> }[];
}

interface Hold {
  reservation_id: string;
  wallet_id: string;
  wallet_owner_type: string;
  estimated_cost_nanos: bigint;
  reserved_amount_nanos: bigint;
  currency: string;
  exchange_rate: number;
  max_completion_tokens: bigint | null;
  expires_at: Date;
}

interface Ticket {
  id: string;
  status: string;
  estimated_cost_nanos: bigint;
  created_at: Date;
  resolved_at: Date | null;
  decided_by: string | null;
  decided_at: Date | null;
  note: string | null;
}

/** A story by the call's own id. */
type OwnStory = Omit<RequestStory, 'other_request_ids'>;

type Reserved = Omit<
  OwnStory,
  'hold' | 'cost_ticket' | 'price_lines' | 'settlement' | 'transactions' | 'events'
> &
  Hold & {
    id: string;
    org_id: string;
    cost_ticket_id: string | null;
    actual_cost_nanos: bigint | null;
    closed_at: Date | null;
  };

type StoryViewer = Viewer & { is_platform?: boolean; event_types?: readonly string[] };

/**
 * The story of a call by its request_id, else of the newest call under that X-Request-Id which the
 * viewer may see. Throws `not_found` unless the viewer bills, made the call or leads the team that
 * it was made for. A call that was refused before it held or opened a ticket has events alone: it
 * is found by whoever may read one of their types, `event_types`.
 */
export async function storyOf(db: Db, id: string, viewer: StoryViewer): Promise<RequestStory> {
  const own = await ownStory(db, id, viewer);
  if (own !== undefined) return { ...own, other_request_ids: [] };
  const { event_types = [] } = viewer;
  const labelled = await callsLabelled(db, id, { ...viewer, event_types });
  for (const request_id of labelled) {
    const story = await ownStory(db, request_id, viewer);
    const other_request_ids = labelled.filter((other) => other !== request_id);
    if (story !== undefined) return { ...story, other_request_ids };
  }
  throw new AppError('not_found', 'No request was found under this id.', { param: 'id' });
}

async function ownStory(
  db: Db,
  request_id: string,
  viewer: StoryViewer,
): Promise<OwnStory | undefined> {
  const bindings = { request_id, org_id: viewer.org_id, ...seenBy(viewer) };
  const call = await maybe<Reserved>(
    db,
    `select r.id, r.id as reservation_id, r.org_id, r.request_id, r.created_at, r.status, r.outcome, r.user_id, r.team_id, r.key_id,
       r.agent_id, r.session_id, r.tags, r.family, r.provider, r.model, r.settled_provider, r.settled_model,
       (select jsonb_agg(f - 'price_version_id') from jsonb_array_elements(r.fallbacks) as f) as fallbacks,
       r.own_keys, r.provider_key_id, trim_scale(charged_factor(r, r.settled_provider))::text as price_factor, r.wallet_id, r.wallet_owner_type, r.estimated_nanos as estimated_cost_nanos, r.held_nanos as reserved_amount_nanos, r.currency,
       r.exchange_rate::float as exchange_rate, r.max_completion_tokens, r.expires_at, r.cost_ticket_id, r.usage, r.usage_source,
       r.provider_cost_usd::text as provider_cost_usd, r.actual_cost_nanos, r.closed_at
     from reservations r where r.org_id = :org_id and r.request_id = :request_id and ${isSeen}`,
    bindings,
  );
  const ticket = await ticketOf(db, bindings, call?.cost_ticket_id ?? null);
  const { is_platform = false, event_types = [] } = viewer;
  if (call === undefined) {
    const of = { org_id: viewer.org_id, request_id, is_platform };
    if (ticket === undefined) return storyOfEvents(db, of, event_types);
    return storyOfTicket(ticket, request_id, await eventsOf(db, of));
  }
  const { id, org_id, provider_cost_usd, provider_key_id } = call;
  return {
    ...askedIn(call),
    hold: holdOf(call),
    cost_ticket: ticket === undefined ? null : shownTicket(ticket),
    // What is open was charged nothing yet.
    price_lines: call.closed_at === null ? [] : await linesOfOne(db, org_id, id),
    provider_cost_usd: is_platform || provider_key_id !== null ? provider_cost_usd : null,
    settlement: settlementOf(call),
    transactions: await entriesOf(db, id, viewer),
    events: await eventsOf(db, { org_id, request_id, is_platform }),
  };
}

function askedIn(call: Reserved) {
  const { request_id, created_at, status, outcome, user_id, team_id, key_id, agent_id } = call;
  const { session_id, tags, family, provider, model, settled_provider, settled_model } = call;
  const { fallbacks, own_keys, provider_key_id, price_factor, usage, usage_source } = call;
  const caller = { user_id, team_id, key_id, agent_id, session_id, tags };
  const served = { settled_provider, settled_model, own_keys, provider_key_id, price_factor };
  const asked = { family, provider, model, fallbacks, ...served };
  return { request_id, created_at, status, outcome, ...caller, ...asked, usage, usage_source };
}

/** A call that was canceled before it came holds nothing. */
function holdOf(call: Reserved): Hold | null {
  if (call.wallet_id === null) return null;
  const { reservation_id, wallet_id, wallet_owner_type, estimated_cost_nanos } = call;
  const { reserved_amount_nanos, currency, exchange_rate, max_completion_tokens, expires_at } =
    call;
  const held = { estimated_cost_nanos, reserved_amount_nanos, currency, exchange_rate };
  return {
    reservation_id,
    wallet_id,
    wallet_owner_type,
    ...held,
    max_completion_tokens,
    expires_at,
  };
}

function settlementOf({ actual_cost_nanos, currency, closed_at, status }: Reserved) {
  if (actual_cost_nanos === null || closed_at === null || status === 'expired') return null;
  return { actual_cost_nanos, currency, settled_at: closed_at };
}

type TicketRow = Ticket &
  Pick<RequestStory, 'user_id' | 'team_id' | 'key_id' | 'agent_id' | 'session_id'> &
  Pick<RequestStory, 'provider' | 'model' | 'family' | 'tags'>;

function ticketOf(db: Db, bindings: Record<string, unknown>, id: string | null) {
  return maybe<TicketRow>(
    db,
    `select r.id, case when r.status in ('open', 'approved') and r.expires_at <= clock_timestamp() then 'expired' else r.status end
       as status, r.estimated_cost_nanos, r.created_at, r.resolved_at, r.decided_by, r.decided_at, r.note, r.user_id, r.team_id,
       r.key_id, r.agent_id, r.session_id, r.provider, r.model, r.reserve ->> 'family' as family,
       (jsonb_populate_record(null::reserve_item, r.reserve)).tags as tags
     from cost_tickets r where r.org_id = :org_id and ${isSeen} and r.id = coalesce(:id,
       (select w.ticket_id from ticket_waiters w where w.org_id = :org_id and w.request_id = :request_id limit 1),
       (select e.payload ->> 'cost_ticket_id' from events e where e.org_id = :org_id and e.request_id = :request_id
         and e.payload ->> 'cost_ticket_id' is not null limit 1))`,
    { ...bindings, id },
  );
}

function shownTicket(ticket: TicketRow): Ticket {
  const { id, status, estimated_cost_nanos, created_at, resolved_at } = ticket;
  const { decided_by, decided_at, note } = ticket;
  return {
    id,
    status,
    estimated_cost_nanos,
    created_at,
    resolved_at,
    decided_by,
    decided_at,
    note,
  };
}

/** A call that was refused for want of money or room, and never held. */
function storyOfTicket(
  ticket: TicketRow,
  request_id: string,
  events: RequestStory['events'],
): OwnStory {
  const { created_at, user_id, team_id, key_id, agent_id, session_id, tags } = ticket;
  const { family, provider, model } = ticket;
  return {
    ...unheld,
    ...{ request_id, created_at, user_id, team_id, key_id, agent_id, session_id, tags },
    ...{ family, provider, model, cost_ticket: shownTicket(ticket), events },
  };
}

/** A call that was refused before money was asked for: by a limit, a policy or its own form. */
async function storyOfEvents(
  db: Db,
  of: EventsOf,
  event_types: readonly string[],
): Promise<OwnStory | undefined> {
  const { org_id, request_id } = of;
  // Whoever may not see its hold or ticket is not told that it had none.
  const { is_charged } = await one<{ is_charged: boolean }>(
    db,
    `select exists (select 1 from reservations r where r.org_id = :org_id and r.request_id = :request_id)
       or exists (select 1 from ticket_waiters w where w.org_id = :org_id and w.request_id = :request_id)
       or exists (select 1 from events e where e.org_id = :org_id and e.request_id = :request_id
         and e.payload ->> 'cost_ticket_id' is not null) as is_charged`,
    { org_id, request_id },
  );
  const events = is_charged ? [] : await eventsOf(db, of, event_types);
  const [first] = events;
  if (first === undefined) return undefined;
  return { ...unheld, request_id, created_at: first.created_at, events };
}

const unheld = {
  ...{ status: null, outcome: null, user_id: null, team_id: null, key_id: null, agent_id: null },
  ...{ session_id: null, tags: null, family: null, provider: null, model: null },
  ...{ settled_provider: null, settled_model: null, fallbacks: null, own_keys: null },
  ...{ provider_key_id: null, price_factor: null, hold: null, cost_ticket: null, usage: null },
  ...{ usage_source: null, price_lines: [], provider_cost_usd: null, settlement: null },
  transactions: [],
};

const EVENTS_MAX = 50;

interface EventsOf {
  org_id: string;
  request_id: string;
  is_platform: boolean;
}

/** The events of a call, oldest first: all, or those of some types. */
async function eventsOf(db: Db, { is_platform, ...of }: EventsOf, event_types?: readonly string[]) {
  const rows = await many<RequestStory['events'][number]>(
    db,
    `select id, type, created_at, payload from events where request_id = :request_id and org_id = :org_id
       and (:types::text[] is null or type = any(:types::text[])) order by id limit :limit`,
    { ...of, types: event_types ? [...event_types] : null, limit: EVENTS_MAX },
  );
  return is_platform ? rows : rows.map(forOrganization);
}
