import { type ListRequest, listOf, type Part } from '../lists';
import { isNamedPerson, named } from '../named';
import type { Page } from '../pages';
import { type Db, deleteInSteps, many, maybe, one } from '../sql';
import { type Trace, type TraceMembers, traceOf as traceIn } from '../trace';
import { answerColumns, type ItemAnswer } from './reservations';

export type TicketStatus = 'open' | 'approved' | 'denied' | 'redeemed' | 'expired';

// Which states follow which, for readers: the stored functions make these moves and no other
// (through `resolve_ticket` and `reopen_ticket`), and a test holds this table against them. A
// redeemed ticket is open again if its call cancels the hold unused.
export const moves: Record<TicketStatus, readonly TicketStatus[]> = {
  open: ['approved', 'denied', 'redeemed', 'expired'],
  approved: ['redeemed', 'expired'],
  denied: [],
  redeemed: ['open'],
  expired: [],
};

/** A ticket as people see it: what gateways see, and who asked, waits and decided. */
interface Ticket {
  id: string;
  org_id: string;
  status: TicketStatus;
  model: string;
  estimated_cost_nanos: string;
  user_id: string | null;
  team_id: string | null;
  decided_by: string | null;
  expires_at: string;
  [field: string]: unknown;
}

const askers = `
  left join agents a on a.id = t.agent_id left join users u on u.id = t.user_id
  left join tokens k on k.id = t.key_id left join teams m on m.id = t.team_id
  join organizations o on o.id = t.org_id`;

// The caller in words: an agent, a person or a key, then team and organization.
const askedBy = `concat_ws(' of ', coalesce('agent ' || a.name, u.name, 'key ' || k.name), 'team ' || m.name, o.name)`;

// A ticket past its deadline is expired, also before its row says so.
const statusNow = `case when t.status in ('open', 'approved') and t.expires_at <= clock_timestamp() then 'expired' else t.status end`;

// Columns: to build an object there costs several times what finding a ticket does.
const ticketColumns = `
  select t.id, ${statusNow} as status, t.provider, t.model, t.estimated_cost_nanos::text as estimated_cost_nanos, f.balance_nanos,
    f.shortfall_nanos, t.currency, f.wallet_owner_type, f.wallets, iso_time(t.created_at) as created_at,
    iso_time(t.expires_at) as expires_at, t.org_id, t.key_id, t.user_id, t.team_id, t.agent_id, t.session_id,
    t.reserve ->> 'request_body_hash' as request_body_hash, ${askedBy} as asked_by,
    t.trace -> 'identity_proof_method' as identity_proof_method, t.trace -> 'trace_label' as trace_label,
    caller(t.trace, t.user_id, t.key_id, t.team_id) -> 'identity_context' as identity_context,
    (select count(*)::int from ticket_waiters w where w.ticket_id = t.id and w.org_id = t.org_id
      and w.answer is null and w.until > clock_timestamp()) as waiting_calls,
    t.decided_by, iso_time(t.decided_at) as decided_at, t.note, t.credited_nanos::text as credited_amount_nanos,
    t.transaction_id, t.reservation_id, t.request_id, iso_time(t.resolved_at) as resolved_at, t.cause, t.approval_rule_id,
    case when t.cause = 'budget' then ticket_budgets(t, '{}') end as short_budgets`;

const ticketsFrom = `from cost_tickets t ${askers} left join lateral ticket_wallets(t, '{}') as f on true`;

type TicketRow = Ticket & { short_budgets: object | null; approval_rule_id: string | null };

/** What `ticketColumns` find, as a ticket has it. */
const ticketOf = ({ short_budgets, approval_rule_id, ...ticket }: TicketRow): Ticket =>
  Object.assign(ticket, short_budgets, approval_rule_id === null ? null : { approval_rule_id });

/** The condition of a status, by columns that indexes know. */
function isNow(status: TicketStatus): string {
  const isOver = `t.status in ('open', 'approved') and t.expires_at <= now()`;
  if (status === 'expired') return `(t.status = 'expired' or ${isOver})`;
  const lives = status === 'open' || status === 'approved';
  return `t.status = '${status}'${lives ? ' and t.expires_at > now()' : ''}`;
}

/** Which of an organization's tickets. */
interface TicketFilter {
  org_id: string;
  /** Those of a person, of some teams, or of the person in these teams; null is all. */
  seen?: { user_id?: string; team_ids?: string[] } | null | undefined;
  status?: TicketStatus | null | undefined;
  user_id?: string | undefined;
  team_id?: string | undefined;
  agent_id?: string | undefined;
  model?: string | undefined;
  cause?: 'balance' | 'budget' | undefined;
  /** Words of the name of the person, team or agent that asks. */
  q?: string | undefined;
  /** Only those that are open: nobody approves another one. */
  is_approvable?: boolean | undefined;
  /** Only those that this admin of their team may approve: they raise no budget of the team's. */
  approver?: string | undefined;
  /** When it was opened: from inclusive, to exclusive. */
  from?: Date | undefined;
  to?: Date | undefined;
}

/** An organization's tickets that a filter leaves, as they were opened. */
export async function list(
  db: Db,
  filter: TicketFilter,
  request: ListRequest,
): Promise<Page<Ticket> | Part<Ticket>> {
  const { org_id, seen, status, is_approvable, approver, ...asked } = filter;
  const conditions = [
    't.org_id = :org_id',
    ...(status ? [isNow(status)] : []),
    ...(is_approvable ? [isNow('open')] : []),
    ...(seen?.user_id ? ['t.user_id = :seen_user'] : []),
    ...(seen?.team_ids ? ['t.team_id = any(:seen_teams)'] : []),
    ...columns.filter((name) => asked[name] !== undefined).map((name) => `t.${name} = :${name}`),
    ...(approver === undefined ? [] : [may_approve]),
    ...(asked.from ? ['t.created_at >= :from'] : []),
    ...(asked.to ? ['t.created_at < :to'] : []),
  ];
  const { rows, ...rest } = await listOf<TicketRow>(
    db,
    {
      name: 'cost tickets',
      select: ticketColumns,
      from: `${ticketsFrom} where ${conditions.join(' and ')}`,
      bindings: {
        org_id,
        status: status ?? null,
        seen_user: seen?.user_id ?? null,
        seen_teams: seen?.team_ids ?? null,
        approver: approver ?? null,
        ...asked,
      },
      search: asked.q ? search : undefined,
      id: 't.id',
      created_at: 't.created_at',
      orders: { created_at: { by: 't.created_at', type: 'timestamptz' } },
    },
    request,
  );
  return { rows: rows.map(ticketOf), ...rest };
}

// Only those of a budget can be beyond a team's admin who sees them, so that no other is looked at.
const may_approve = `(t.cause <> 'budget' or authority_refusal(t,
  jsonb_build_object('authority', 'team', 'user_id', :approver::text), t.estimated_cost_nanos) is null)`;

/** The tickets of those whose ids a statement finds. */
const ticketsOf = (column: string, ids: string) => `select x.id from (${ids} offset 0) as n
  cross join lateral (select x.id from cost_tickets x where x.org_id = :org_id and x.${column} = n.id offset 0) as x`;

// The askers lead, so that the tickets of each are looked up by its index. So many, each at most
// three times in it, are more than a search reads by its index.
const search = {
  found: `select distinct f.id from (
    ${ticketsOf('user_id', named.users)} union all ${ticketsOf('team_id', named.teams)}
    union all ${ticketsOf('agent_id', named.agents)} limit 16000) as f`,
  plain: `(${isNamedPerson('t.user_id')} or has_words(array[m.name], :q) or has_words(array[a.name], :q))`,
  among: 'select t.id from cost_tickets t where t.org_id = :org_id',
};

/** What a list is filtered by as it stands. */
const columns = ['user_id', 'team_id', 'agent_id', 'model', 'cause'] as const;

/** One ticket of an organization (of any, for a platform admin), or `not_found`. */
export async function get(db: Db, id: string, org_id: string | null): Promise<Ticket> {
  const row = await one<TicketRow>(
    db,
    `${ticketColumns} ${ticketsFrom} where t.id = :id and (:org_id::text is null or t.org_id = :org_id)`,
    { id, org_id },
    'No cost ticket',
  );
  return ticketOf(row);
}

/** Milliseconds that an open ticket has left; 0 if it is closed. Expires it if its time is over. */
export async function expire(db: Db, ticket_id: string): Promise<number> {
  const { left_ms } = await one<{ left_ms: number }>(
    db,
    'select expire_ticket(:ticket_id) as left_ms',
    { ticket_id },
  );
  return left_ms;
}

/** How a ticket stands now, its deadline included; undefined if there is none. */
export async function statusOf(db: Db, ticket_id: string): Promise<TicketStatus | undefined> {
  const row = await maybe<{ status: TicketStatus }>(
    db,
    `select ${statusNow} as status from cost_tickets t where t.id = :ticket_id`,
    { ticket_id },
  );
  return row?.status;
}

/** The trace of the call that opened it; undefined if that had none. */
export async function traceOf(db: Db, ticket_id: string): Promise<Trace | undefined> {
  const row = await maybe<{ trace: TraceMembers | null }>(
    db,
    'select trace from cost_tickets where id = :ticket_id',
    { ticket_id },
  );
  return row?.trace ? traceIn(row.trace) : undefined;
}

/** True if the row is open, also past its deadline: its workflow has something to do. */
export async function isOpen(db: Db, ticket_id: string): Promise<boolean> {
  const row = await maybe(
    db,
    `select 1 from cost_tickets t where t.id = :ticket_id and t.status = 'open'`,
    { ticket_id },
  );
  return row !== undefined;
}

// The amount, the caller, the deadline (to the minute, in UTC), and the verdict with its author: a
// person, a key or a terminal.
const line = `trim_scale(t.estimated_cost_nanos / 1e9::numeric) || ' ' || t.currency || ' for ' || t.model || ', asked by '
  || ${askedBy}
  || case when t.status = 'open' and t.cause = 'budget' then coalesce((select ', misses '
      || string_agg(trim_scale((b ->> 'missing_nanos')::numeric / 1e9) || ' ' || t.currency || ' of the budget of the '
        || case b ->> 'owner_type' when 'user' then 'person' else b ->> 'owner_type' end || ' ('
        || case b ->> 'window' when 'life' then 'in all' when 'hour' then 'an hour' else 'a ' || (b ->> 'window') end || ')', ' and ')
      from jsonb_array_elements(ticket_budgets(t, '{}') -> 'budgets') as b), '') else '' end
  || case when t.status = 'open' then ', open until ' || replace(left(iso_time(t.expires_at), 16), 'T', ' ') || ' UTC'
    when t.status in ('redeemed', 'expired') then ', ' || t.status else '' end
  || coalesce(', ' || case t.status when 'denied' then 'denied' else 'approved' end || ' by '
    || coalesce(d.name, 'key ' || dk.name, t.decided_by) || coalesce(': ' || t.note, ''), '')`;

const lineRows = `
  from cost_tickets t ${askers}
  left join users d on d.id = t.decided_by left join tokens dk on dk.id = t.decided_by`;

/** One line for operators. */
export async function summary(db: Db, ticket_id: string): Promise<string> {
  const row = await maybe<{ line: string }>(
    db,
    `select ${line} as line ${lineRows} where t.id = :ticket_id`,
    { ticket_id },
  );
  return row?.line ?? ticket_id;
}

/** The open tickets of all organizations, oldest first, a line each; `total` counts all of them. */
export async function openLines(
  db: Db,
  limit: number,
): Promise<{ lines: { id: string; line: string }[]; total: number }> {
  const rows = await many<{ id: string; line: string; total: number }>(
    db,
    `select t.id, ${line} as line, count(*) over ()::int as total ${lineRows}
     where t.status = 'open' and t.expires_at > clock_timestamp() order by t.created_at, t.id limit :limit`,
    { limit },
  );
  return {
    lines: rows.map(({ id, line: words }) => ({ id, line: words })),
    total: rows[0]?.total ?? 0,
  };
}

/**
 * Answers of an organization's waiting calls that are there now; serves its queue first if
 * something changed.
 */
export function redeemWaiting(
  db: Db,
  org_id: string,
  request_ids: readonly string[],
): Promise<(ItemAnswer & { request_id: string })[]> {
  return many(
    db,
    `select r.request_id, ${answerColumns} from redeem_waiting_2(:org_id, :request_ids) as r`,
    { org_id, request_ids },
  );
}

/** A call has stopped waiting: its turn goes to the next. */
export async function leave(db: Db, org_id: string, request_id: string): Promise<void> {
  await many(
    db,
    `update ticket_waiters set until = least(until, clock_timestamp() - waiter_grace())
     where org_id = :org_id and request_id = :request_id`,
    { org_id, request_id },
  );
}

/** Gives up to `limit` open tickets that should have expired their workflow again. */
export async function adoptOrphans(db: Db, limit: number): Promise<number> {
  const rows = await many(
    db,
    `select send_to_workflow(t.org_id, 'costTicket', t.id, null, jsonb_build_object('ticket_id', t.id))
     from (select q.id, q.org_id from cost_tickets q
       where q.status = 'open' and q.expires_at < clock_timestamp() - interval '15 seconds'
         and not exists (select 1 from outbox b where b.workflow_id = q.id and b.parked_at is null)
       order by q.expires_at limit :limit) as t`,
    { limit },
  );
  return rows.length;
}

/** Forgets the places of calls that stopped waiting an hour ago. */
export function forgetWaiters(db: Db): Promise<number> {
  return deleteInSteps(db, 'ticket_waiters', `until < clock_timestamp() - interval '1 hour'`);
}
