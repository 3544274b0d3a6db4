-- Cost tickets that wait, are redeemed, approved, denied and expire: their rows, and who is told when something changes.

alter table cost_tickets
  add column decided_by text,
  add column decided_at timestamptz,
  add column note text,
  add column credited_nanos bigint,
  add column transaction_id text,
  -- The hold it was approved or redeemed with, and the call that took it.
  add column reservation_id text,
  -- Verdicts that were recorded: one that is delivered again changes nothing, also after the ticket was opened again.
  add column verdict_ids text[] not null default '{}',
  add column request_id text;
create index cost_tickets_due on cost_tickets (expires_at) where status = 'open';
create index outbox_workflow on outbox (workflow_id);

-- Calls that wait in redeem, oldest first. A row outlives its wait, so that `since` survives a change of ticket.
create table ticket_waiters (
  org_id text not null,
  request_id text not null,
  ticket_id text not null,
  -- The redeem as it was asked, run again when its turn comes.
  redeem jsonb not null,
  user_id text,
  team_id text,
  -- What a wallet must cover by the price of the last look.
  need_nanos bigint not null,
  since timestamptz not null,
  until timestamptz not null,
  answer jsonb,
  primary key (org_id, request_id)
) with (fillfactor = 50);
create index ticket_waiters_until on ticket_waiters (until);
create index ticket_waiters_ticket on ticket_waiters (ticket_id);

-- A waiter between two calls of one hold keeps its place in the queue for so long, but gets nothing.
create function waiter_grace() returns interval language sql immutable as $$ select interval '2 seconds' $$;

-- Tells every API that something has changed for the calls that wait in an organization, if any do.
create function notify_waiters(p_org_id text) returns void language plpgsql as $$
begin
  if exists (select 1 from ticket_waiters w where w.org_id = p_org_id
      and w.until > clock_timestamp() - waiter_grace()) then
    perform pg_notify('tickets', p_org_id);
  end if;
end $$;

create function notify_waiters_of_row() returns trigger language plpgsql as $$
begin
  perform notify_waiters(new.org_id);
  return null;
end $$;

-- Whatever brings a wallet more money wakes the calls that wait for it: credit, transfer, settlement, expiry.
create trigger wallets_rise after update of balance_nanos on wallets
for each row when (new.balance_nanos > old.balance_nanos) execute function notify_waiters_of_row();

-- A waiting call whose key ends is told at once, and blocks nobody.
create trigger tokens_end after update of revoked_at on tokens
for each row when (new.revoked_at is not null and old.revoked_at is null and new.org_id is not null)
execute function notify_waiters_of_row();

create trigger cost_tickets_resolve after update of status on cost_tickets
for each row when (new.status <> old.status) execute function notify_waiters_of_row();

-- A ticket as people and gateways see it: what is missing in each wallet that may pay. `p_left` holds balances that a batch
-- has changed but not yet written. The fullest wallet gives the ticket its balance; ties go to the organization.
create function ticket_answer(t cost_tickets, p_left jsonb) returns jsonb language sql stable as $$
  with cascade as (
    select w.id, w.owner_type, coalesce((p_left ->> w.id)::bigint, w.balance_nanos) as balance_nanos,
      array_position(array['user', 'team', 'organization'], w.owner_type) as place
    from wallets w
    where w.org_id = t.org_id
      and (w.owner_type = 'organization' or w.owner_team_id = t.team_id or w.owner_user_id = t.user_id)
  ), short as (
    select c.*, case when t.status = 'open' then greatest(t.estimated_cost_nanos::numeric - c.balance_nanos, 0) else 0 end
      as shortfall_nanos
    from cascade c
  ), fullest as (
    select * from short s order by s.balance_nanos desc, s.place desc limit 1
  )
  select jsonb_build_object('id', t.id,
    'status', case when t.status in ('open', 'approved') and t.expires_at <= clock_timestamp() then 'expired' else t.status end,
    'provider', t.provider, 'model', t.model, 'estimated_cost_nanos', t.estimated_cost_nanos::text,
    'balance_nanos', f.balance_nanos::text, 'shortfall_nanos', f.shortfall_nanos::text, 'currency', t.currency,
    'wallet_owner_type', f.owner_type, 'wallets', (
      select jsonb_agg(jsonb_build_object('wallet_id', s.id, 'owner_type', s.owner_type, 'balance_nanos',
        s.balance_nanos::text, 'shortfall_nanos', s.shortfall_nanos::text) order by s.place) from short s),
    'created_at', iso_time(t.created_at), 'expires_at', iso_time(t.expires_at))
  from fullest f
$$;

-- Closes a ticket: row, event, and a signal where its workflow may be waiting; a start that is still unsent is dropped
-- instead. A verdict or a deadline that the workflow itself records needs no signal.
create function resolve_ticket(p_ticket_id text, p_status text, p_is_told boolean) returns void language plpgsql as $$
declare
  t cost_tickets;
  v_was text := (select q.status from cost_tickets q where q.id = p_ticket_id);
begin
  update cost_tickets q set status = p_status, resolved_at = clock_timestamp() where q.id = p_ticket_id returning * into t;
  perform append_event(t.org_id, 'cost_ticket.resolved', jsonb_strip_nulls(jsonb_build_object('cost_ticket_id', t.id,
    'status', t.status, 'agent_id', t.agent_id, 'provider', t.provider, 'model', t.model, 'decided_by', t.decided_by,
    'note', t.note, 'credited_nanos', t.credited_nanos::text, 'currency', t.currency, 'reservation_id', t.reservation_id,
    'request_id', t.request_id)));
  if v_was = 'open' and not p_is_told then
    delete from outbox o where o.workflow_id = t.id and o.signal is null and o.attempts = 0;
    if not found then
      perform send_to_workflow(t.org_id, 'costTicket', t.id, 'resolved', jsonb_build_object('ticket_id', t.id));
    end if;
  end if;
end $$;

-- A refused reserve opens a ticket, or finds the caller's open one for the same body.
create function open_ticket_2(p_org organizations, i reserve_item, p_held_nanos bigint, p_left jsonb) returns jsonb
language plpgsql as $$
declare
  v_now timestamptz := clock_timestamp();
  v_id text := new_id('ticket');
  t cost_tickets;
  v_answer jsonb;
  -- The same bytes on another route are another request, with another cost.
  v_request text := concat_ws('#', i.request_body_hash, i.family);
begin
  perform ensure_wallet(p_org.id, 'user', i.user_id) where i.user_id is not null;
  perform ensure_wallet(p_org.id, 'team', i.team_id) where i.team_id is not null;
  for t in
    select * from cost_tickets q
    where q.org_id = p_org.id and q.request_body_hash = v_request and q.status = 'open' and q.expires_at <= v_now
  loop
    perform resolve_ticket(t.id, 'expired', false);
  end loop;
  insert into cost_tickets (id, org_id, key_id, user_id, team_id, agent_id, session_id, provider, model, request_body_hash,
    estimated_cost_nanos, currency, reserve, created_at, expires_at)
  values (v_id, p_org.id, i.key_id, i.user_id, i.team_id, i.agent_id, i.session_id, i.provider, i.model,
    v_request, p_held_nanos, p_org.currency, jsonb_strip_nulls(to_jsonb(i)), v_now,
    v_now + p_org.ticket_ttl_seconds * interval '1 second')
  on conflict (org_id, key_id, user_id, team_id, agent_id, session_id, provider, model, request_body_hash)
    where status = 'open'
  do update set estimated_cost_nanos = excluded.estimated_cost_nanos, reserve = excluded.reserve
  returning * into t;
  v_answer := ticket_answer(t, p_left);
  if t.id = v_id then
    perform append_event(p_org.id, 'cost_ticket.created', v_answer || jsonb_build_object('cost_ticket_id', v_id,
      'request_id', i.request_id, 'agent_id', i.agent_id));
    perform send_to_workflow(p_org.id, 'costTicket', v_id, null, jsonb_build_object('ticket_id', v_id));
  end if;
  return v_answer;
end $$;

-- A redeemed hold that is canceled unused gives its ticket back: the call found no slot, or its client has gone.
create function reopen_ticket() returns trigger language plpgsql as $$
declare
  t cost_tickets;
begin
  select * into t from cost_tickets q where q.id = new.cost_ticket_id and q.status = 'redeemed'
    and q.expires_at > clock_timestamp();
  if t.id is null or exists (select 1 from cost_tickets q where q.status = 'open'
      and (q.org_id, q.provider, q.model, q.request_body_hash) = (t.org_id, t.provider, t.model, t.request_body_hash)
      and (q.key_id, q.user_id, q.team_id, q.agent_id, q.session_id)
        is not distinct from (t.key_id, t.user_id, t.team_id, t.agent_id, t.session_id)) then
    return null;
  end if;
  update cost_tickets q set status = 'open', reservation_id = null, request_id = null, resolved_at = null, decided_by = null,
    decided_at = null, note = null, credited_nanos = null, transaction_id = null
  where q.id = t.id returning * into t;
  perform append_event(t.org_id, 'cost_ticket.created', ticket_answer(t, '{}') || jsonb_build_object('cost_ticket_id', t.id,
    'agent_id', t.agent_id, 'reopened', true));
  perform send_to_workflow(t.org_id, 'costTicket', t.id, null, jsonb_build_object('ticket_id', t.id));
  return null;
end $$;

create trigger reservations_reopen after update of status on reservations for each row
when (new.cost_ticket_id is not null and old.status = 'open' and new.status = 'released' and new.outcome = 'canceled')
execute function reopen_ticket();

-- An approved ticket ends with its hold.
create function expire_with_hold() returns trigger language plpgsql as $$
begin
  perform resolve_ticket(t.id, 'expired', false) from cost_tickets t where t.id = new.cost_ticket_id and t.status = 'approved';
  return null;
end $$;

create trigger reservations_lapse after update of status on reservations for each row
when (new.cost_ticket_id is not null and old.status = 'open' and new.status = 'expired') execute function expire_with_hold();
