import { columns, type DailyKind, nameThen, type Selected, selectList } from './columns';
import { LATE_DAYS } from './kept-events';

const event = columns([
  ['id', 'text', 'e.id'],
  ['org_id', 'text', 'e.org_id'],
  ['type', 'text', 'e.type'],
  ['action', 'text', 'e.action'],
  ['agent_id', 'text', 'e.agent_id'],
  ['request_id', 'text', 'e.request_id'],
  ['trace_label', 'text', 'e.trace_label'],
  ['created_at', 'time', 'e.created_at'],
  // As `forOrganization` of domain/events.ts shows it.
  [
    'payload',
    'json',
    `case when :org_id::text is null or e.payload ->> 'provider_key_id' is not null then e.payload
       else e.payload - 'provider_cost_usd' end`,
  ],
]);

/** One that arrives late is in the first file of the next export of a schedule. */
const LATE = `interval '${LATE_DAYS} days'`;

/** The events that were visible as the export was made, and were in none before of its schedule. */
export const events: DailyKind = {
  selected: event,
  key: ['id'],
  page: visiblePage(event, 'events e', 'evt', {
    from: `(:from::timestamptz - case when :is_first::boolean and :events_after::text is not null then ${LATE} else interval '0' end)`,
    condition:
      // The cheap comparison first: all but a few of those days stood in the export before.
      '(e.created_at >= :from or (e.transaction_id >= pg_snapshot_xmin(:events_after::pg_snapshot) and not pg_visible_in_snapshot(e.transaction_id, :events_after::pg_snapshot)))',
  }),
  long: ['payload'],
  sums: { type: 'type' },
};

const audit_event = columns([
  ['id', 'text', 'a.id'],
  ['org_id', 'text', 'a.org_id'],
  ['created_at', 'time', 'a.created_at'],
  ['actor_type', 'text', 'a.actor_type'],
  ['actor', 'text', 'a.actor'],
  ['system', 'text', 'a.system'],
  ['key_id', 'text', 'a.key_id'],
  ['session_id', 'text', 'a.session_id'],
  ['request_id', 'text', 'a.request_id'],
  ['action', 'text', 'a.action'],
  ['object_type', 'text', `split_part(a.action, '.', 1)`],
  ['object_id', 'text', 'a.object_id'],
  ['before', 'json', 'a.before'],
  ['after', 'json', 'a.after'],
  ['chain', 'text', 'l.chain'],
  ['seq', 'integer', 'l.seq'],
  ['prev_hash', 'text', 'l.prev_hash'],
  ['hash', 'text', 'l.hash'],
  ['actor_name', 'text', nameThen('a.actor')],
]);

/**
 * Who changed what, with its place in the chain that proves it. A row whose link somebody took away
 * is there without a place, as in the audit log.
 */
export const auditLog: DailyKind = {
  selected: audit_event,
  key: ['id'],
  page: visiblePage(audit_event, 'audit_events a', 'aud', {
    joined: 'left join audit_links l on l.event_id = a.id',
  }),
  long: ['before', 'after'],
  sums: { type: 'action' },
};

const ticket = columns([
  ['id', 'text', 't.id'],
  ['org_id', 'text', 't.org_id'],
  ['status', 'text', 't.status'],
  ['created_at', 'time', 't.created_at'],
  ['expires_at', 'time', 't.expires_at'],
  ['resolved_at', 'time', 't.resolved_at'],
  ['decided_at', 'time', 't.decided_at'],
  ['decided_by', 'text', 't.decided_by'],
  ['note', 'text', 't.note'],
  ['provider', 'text', 't.provider'],
  ['model', 'text', 't.model'],
  ['key_id', 'text', 't.key_id'],
  ['user_id', 'text', 't.user_id'],
  ['team_id', 'text', 't.team_id'],
  ['agent_id', 'text', 't.agent_id'],
  ['session_id', 'text', 't.session_id'],
  ['request_id', 'text', 't.request_id'],
  ['reservation_id', 'text', 't.reservation_id'],
  ['transaction_id', 'text', 't.transaction_id'],
  ['currency', 'text', 't.currency'],
  ['estimated_cost_nanos', 'nanos', 't.estimated_cost_nanos'],
  ['credited_nanos', 'nanos', 't.credited_nanos'],
  ['key_name', 'text', nameIn('tokens', 't.key_id')],
  ['user_name', 'text', nameIn('users', 't.user_id')],
  ['team_name', 'text', nameIn('teams', 't.team_id')],
  ['agent_name', 'text', nameIn('agents', 't.agent_id')],
  ['decided_by_name', 'text', actorName('t.decided_by')],
]);

/** Cost tickets that were opened in the period, as they stood when the export was made. */
export const tickets: DailyKind = {
  selected: ticket,
  key: ['id'],
  page: copiedPage('tickets', ticket),
  sums: { currency: 'currency', type: 'status', amount: 'estimated_cost_nanos' },
};

const payment = columns([
  ['id', 'text', 't.id'],
  ['org_id', 'text', 't.org_id'],
  ['status', 'text', 't.status'],
  ['created_at', 'time', 't.created_at'],
  ['updated_at', 'time', 't.updated_at'],
  ['expires_at', 'time', 't.expires_at'],
  ['user_id', 'text', 't.user_id'],
  ['created_by', 'text', 't.created_by'],
  ['provider', 'text', 't.provider'],
  ['surface', 'text', 't.surface'],
  ['provider_order_id', 'text', 't.provider_order_id'],
  ['provider_capture_id', 'text', 't.provider_capture_id'],
  ['target_wallet_owner_type', 'text', 't.target_wallet_owner_type'],
  ['wallet_id', 'text', 't.wallet_id'],
  ['transaction_id', 'text', 't.wallet_transaction_id'],
  ['late', 'text', 't.is_late'],
  ['error_code', 'text', 't.error_code'],
  ['currency', 'text', 't.currency'],
  ['amount_nanos', 'nanos', 't.amount_nanos'],
  ['credited_nanos', 'nanos', 't.credited_nanos'],
  ['refunded_nanos', 'nanos', 't.debited_nanos'],
  ['captured_currency', 'text', 't.captured_currency'],
  ['captured_nanos', 'nanos', 't.captured_nanos'],
  ['user_name', 'text', nameIn('users', 't.user_id')],
  ['created_by_name', 'text', actorName('t.created_by')],
  [
    'wallet_owner_name',
    'text',
    `(select coalesce(u.name, m.name, o.name) from wallets w join organizations o on o.id = w.org_id
      left join teams m on m.id = w.owner_team_id left join users u on u.id = w.owner_user_id where w.id = t.wallet_id)`,
  ],
]);

/** Payment sessions that were made in the period, as they stood when the export was made. */
export const payments: DailyKind = {
  selected: payment,
  key: ['id'],
  page: copiedPage('payments', payment),
  sums: { currency: 'currency', type: 'status', amount: 'amount_nanos' },
};

/**
 * The statements that copy rows that go on changing. Bindings: export_id, org_id, from and to.
 */
export const copies = {
  payments: copy('payments', payment, 'payment_sessions'),
  tickets: copy('tickets', ticket, 'cost_tickets'),
} as const;

/**
 * Rows that are never changed, and of which those count that could be seen as the export was made.
 * An id begins with its time, so the search for a day starts a minute before it and ends a minute
 * after it.
 */
function visiblePage(
  selected: readonly Selected[],
  table: string,
  prefix: string,
  { joined = '', from = ':from', condition = 'true' } = {},
): string {
  const of = table.split(' ')[1];
  return `
    select ${selectList(selected)} from ${table} ${joined}
    where (:org_id::text is null or ${of}.org_id = :org_id) and ${of}.created_at >= ${from} and ${of}.created_at < :to
      and ${condition} and ${of}.id > greatest(:after, ${idAt(prefix, from, '-')}) and ${of}.id < ${idAt(prefix, ':to', '+')}
      and pg_visible_in_snapshot(${of}.transaction_id, :snapshot::pg_snapshot)
    order by ${of}.id limit :limit`;
}

/** The first id of a moment; 1970 is the oldest, before which its number is below zero. */
function idAt(prefix: string, moment: string, sign: '+' | '-'): string {
  const ms = `((extract(epoch from ${moment}::timestamptz) ${sign} 60) * 1000)::bigint`;
  return `'${prefix}_' || lpad(to_hex(greatest(0, ${ms})), 12, '0')`;
}

function copiedPage(kind: string, selected: readonly Selected[]): string {
  return `
    select ${selected.map(({ name }) => `r.row ->> '${name}' as ${name}`).join(', ')} from export_rows r
    where r.export_id = :export_id and r.kind = '${kind}' and r.day = :day and r.id > :after order by r.id limit :limit`;
}

function copy(kind: string, selected: readonly Selected[], table: string): string {
  return `
    insert into export_rows (export_id, kind, day, id, row)
    select :export_id, '${kind}', (t.created_at at time zone 'UTC')::date, t.id, to_jsonb(c)
    from ${table} t cross join lateral (select ${selectList(selected)}) as c
    where (:org_id::text is null or t.org_id = :org_id) and t.created_at >= :from and t.created_at < :to`;
}

/** The name that the row of an id has now; people who make tables read names. */
function nameIn(table: 'users' | 'teams' | 'agents' | 'tokens', id: string): string {
  return `(select n.name from ${table} n where n.id = ${id})`;
}

/** The name of a person or key. */
function actorName(id: string): string {
  return `coalesce(${nameIn('users', id)}, ${nameIn('tokens', id)})`;
}
