import { type Db, many } from '../../domain/sql';

// The calls of stored functions that version 1.4.0 sends, by the function that each calls, with its
// columns and casts; names that are joined for people only are left out. They change only when that
// version is no longer the previous one.

const entry = `id, wallet_id, seq, type, amount_nanos, balance_after_nanos, provider, model, reservation_id, phase,
  actual_cost_nanos, transfer_id, payment_session_id, description, created_at`;
const lane = '(r.answer).*, r.max_completion_tokens, r.warnings, r.resets_at';
/**
 * The calls of the ledger, of tickets, caps and events; `lane_3_traced` is a batch that brings
 * traces.
 */
export const ledgerCalls = {
  ensure_wallet: 'select id from ensure_wallet(:org_id, :owner_type, :owner_id)',
  credit: `select ${entry} from credit(:org_id, :wallet_id, :amount_nanos, :description)`,
  transfer: `select ${entry} from transfer(:org_id, :from, :to, :amount_nanos, :note)`,
  rate_of: 'select round(:amount_nanos::numeric * rate_of(:to) / rate_of(:from))::text as nanos',
  lane_3: `select ${lane} from lane_3(:org_id, :settlements, :redeems, :reserves) as r`,
  lane_3_traced: `select ${lane} from set_config('svc.traces', :traces, true) as c
    cross join lateral lane_3(case when c is not null then :org_id end, :settlements, :redeems, :reserves) as r`,
  extend: 'select * from extend(:org_id, :reservation_ids)',
  sweep_holds: 'select sweep_holds(:org_id) as next_ms',
  send_to_workflow: `select send_to_workflow(o.org_id, 'reservationLifetimes', 'lifetimes-' || o.org_id, 'wake', jsonb_build_object('org_id', o.org_id))
    from (select r.org_id from reservations r where r.status = 'open' group by r.org_id limit :limit) as o`,
  lock_organization: 'select from lock_organization(:org_id)',
  recount_constraint: 'select recount_constraint(:id)',
  increment_usage:
    'select increment_usage(:org_id, :agent_id, :provider, :model, :cost_nanos, :responses, :request_id)',
  constraints_at: `select a.id, a.max_value::float8 as max_value, v.value::float8 as current_value,
       greatest(a.max_value - v.value, 0)::float8 as remaining, a.enforcement_mode, v.value + v.more > a.max_value as exceeded,
       a.resets_at
     from constraints_at(:agent_id, :provider, :model, clock_timestamp()) as a
     cross join lateral (select
       case a.constraint_type when 'cost' then a.cost_nanos / 1e9::numeric else a.responses end as value,
       case a.constraint_type when 'cost' then :estimated_cost_nanos::numeric / 1e9::numeric else 1 end as more) as v`,
  ticket_answer: `select ticket_answer(t, '{}') || jsonb_build_object('org_id', t.org_id, 'decided_at', iso_time(t.decided_at)) as ticket
    from cost_tickets t where t.id = :id`,
  approve_ticket: 'select code from approve_ticket(:org_id, :ticket_id, :verdict)',
  deny_ticket: 'select code from deny_ticket(:org_id, :ticket_id, :verdict)',
  expire_ticket: 'select expire_ticket(:ticket_id) as left_ms',
  redeem_waiting: `select r.request_id, ${lane} from redeem_waiting(:org_id, :request_ids) as r`,
  waiter_grace: `update ticket_waiters set until = least(until, clock_timestamp() - waiter_grace())
    where org_id = :org_id and request_id = :request_id`,
  id_time: `insert into events (id, created_at, org_id, type, payload)
    select g.id, id_time(g.id), g.org_id, g.type, g.payload
    from jsonb_to_recordset(:given) as g (id text, org_id text, type text, payload jsonb)
    on conflict do nothing returning id`,
  add_event_partition: 'select add_event_partition(:day) as added',
  drop_event_partition: 'select drop_event_partition(:name)',
  audit_3: 'select check_name as "check", wallet_id, detail from audit_3()',
} as const;

/** The calls of payments and refunds. */
export const paymentCalls = {
  lock_organization: 'select currency from lock_organization(:org_id)',
  begin_payment_call: `select s.id, s.status, s.provider, s.provider_order_id, s.error_code, s.provider_calls as reading, s.amount_nanos, s.currency,
       s.return_url, s.cancel_url, s.expires_at - interval '5 minutes' as provider_expires_at,
       s.expires_at <= clock_timestamp() as is_overdue,
       s.provider_capture_id is null and s.created_at > clock_timestamp() - interval '10 minutes' as is_fresh
     from begin_payment_call(:id, :is_capture) as s where s.id is not null`,
  open_payment: 'select status from open_payment(:id, :order_id, :approval_url)',
  payment_step:
    'select s.status, p.next, p.wait_ms from payment_sessions s cross join lateral payment_step(s) as p where s.id = :id',
  record_payment: 'select status from record_payment(:id, :plain, :reading, :is_asked)',
  close_payment: 'select status from close_payment(:id, :to, :error_code, :error_message)',
  payment_pause: `update payment_sessions set next_check_at = clock_timestamp() + payment_pause('created', checks)
    where id = :id returning id`,
  credit_payment: 'select from credit_payment(:id)',
  request_refund:
    'select code, refund_id from request_refund(:payment_session_id, :reason, :by, :allow_negative)',
  debit_refund: 'select debit_refund(:id)',
  record_refund: 'select from record_refund(:id, :status, :provider_refund_id, :message)',
  resolve_payment: 'select code from resolve_payment(:id, :resolution, :amount_nanos, :by, :note)',
  audit_3: 'select check_name as "check", wallet_id, detail from audit_3()',
} as const;

export type Row = Record<string, unknown>;

/** Sends calls by their names, and remembers which were sent. */
export function sender<Name extends string>(calls: Readonly<Record<Name, string>>) {
  const sent = new Set<Name>();
  const send = (db: Db, name: Name, bindings: Row = {}): Promise<Row[]> => {
    sent.add(name);
    return many<Row>(db, calls[name], bindings);
  };
  const row = async (db: Db, name: Name, bindings: Row = {}): Promise<Row> => {
    const rows = await send(db, name, bindings);
    expect(rows).toHaveLength(1);
    return rows[0] as Row;
  };
  const expectAllSent = () => expect([...sent].sort()).toEqual(Object.keys(calls).sort());
  return { send, row, expectAllSent };
}
