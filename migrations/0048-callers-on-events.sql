-- Events that a call of a gateway causes say whose call it was, as those of the gateways do: the proof of its caller, the caller, and
-- the client's own label of the request.

-- What the caller of a lane says of a call: {traceparent, identity_proof_method, trace_label}, each if it is known. It stands in the
-- setting svc.traces, for its transaction alone, under the request_id of a reserve or redeem, or the name of the hold that a settle
-- gives.
create function trace_of(p_name text) returns jsonb language sql stable as $$
  select nullif(current_setting('svc.traces', true), '')::jsonb -> p_name
$$;

-- The members of an event that say whose call caused it. A caller without a proof has no identity.
create function caller(p_trace jsonb, p_user_id text, p_key_id text, p_team_id text) returns jsonb language sql immutable as $$
  select jsonb_strip_nulls(jsonb_build_object('trace_label', p_trace -> 'trace_label',
      'identity_proof_method', p_trace -> 'identity_proof_method'))
    || case when p_trace ->> 'identity_proof_method' = 'header_soft' or num_nonnulls(p_user_id, p_key_id) = 0 then '{}'
      else jsonb_build_object('identity_context',
        jsonb_build_object('user_id', p_user_id, 'key_id', p_key_id, 'team_id', p_team_id)) end
$$;

-- The same of the call that has a hold. What its batch does not say is read from another event of the call, else from its ticket: a
-- hold keeps neither proof nor label, as nearly all end without an event.
create function caller_of_hold(r reservations) returns jsonb language sql stable as $$
  select caller(coalesce(trace_of(r.id), trace_of(r.request_id),
      (select jsonb_build_object('trace_label', e.trace_label, 'identity_proof_method', e.payload -> 'identity_proof_method')
        from events e
        where e.request_id = r.request_id and e.org_id = r.org_id and e.trace_label is not null
          and e.created_at >= r.created_at - interval '1 day' and e.created_at < clock_timestamp() + interval '1 day'
        order by e.id limit 1),
      (select t.trace from cost_tickets t where t.id = r.cost_ticket_id)),
    r.user_id, r.key_id, r.team_id)
$$;

-- The label of a call has a column of its own.
create or replace function append_event(p_org_id text, p_type text, p_payload jsonb) returns void language sql volatile as $$
  insert into events (id, created_at, org_id, type, agent_id, request_id, trace_label, payload)
  select e.id, id_time(e.id), p_org_id, p_type, p_payload ->> 'agent_id', p_payload ->> 'request_id', p_payload ->> 'trace_label',
    p_payload - 'trace_label'
  from (select new_id('evt') as id) as e
$$;

alter table ticket_waiters add column trace jsonb;
comment on column ticket_waiters.trace is
'What its gateway said of the call, as cost_tickets.trace; somebody else''s transaction may serve it.';

create function keep_waiter_trace() returns trigger language plpgsql as $$
begin
  new.trace := trace_of(new.request_id);
  return new;
end $$;

create trigger keep_waiter_trace before insert on ticket_waiters for each row execute function keep_waiter_trace();

-- A ticket keeps what is said of the call that opens it: by its reserve, or by its redeem if it has waited on another ticket.
create or replace function keep_ticket_trace() returns trigger language plpgsql as $$
begin
  new.trace := coalesce(trace_of(new.reserve ->> 'request_id'), (select w.trace from ticket_waiters w
    where w.org_id = new.org_id and w.request_id = new.reserve ->> 'request_id'));
  return new;
end $$;

-- Closes a ticket: row, event, and a signal where its workflow may be waiting; a start that is still unsent is dropped instead. A
-- verdict or a deadline that the workflow itself records needs no signal. The event names the call that redeemed the ticket, else
-- the one that opened it.
create or replace function resolve_ticket(p_ticket_id text, p_status text, p_is_told boolean) returns void language plpgsql as $$
declare
  t cost_tickets;
  v_was text := (select q.status from cost_tickets q where q.id = p_ticket_id);
begin
  update cost_tickets q set status = p_status, resolved_at = clock_timestamp() where q.id = p_ticket_id returning * into t;
  perform append_event(t.org_id, 'cost_ticket.resolved', jsonb_strip_nulls(jsonb_build_object('cost_ticket_id', t.id,
      'status', t.status, 'agent_id', t.agent_id, 'provider', t.provider, 'model', t.model, 'decided_by', t.decided_by,
      'note', t.note, 'credited_nanos', t.credited_nanos::text, 'currency', t.currency, 'reservation_id', t.reservation_id,
      'request_id', t.request_id))
    || caller(coalesce(trace_of(t.request_id), (select w.trace from ticket_waiters w
      where w.org_id = t.org_id and w.request_id = t.request_id), t.trace), t.user_id, t.key_id, t.team_id));
  if v_was = 'open' and not p_is_told then
    delete from outbox o where o.workflow_id = t.id and o.signal is null and o.attempts = 0;
    if not found then
      perform send_to_workflow(t.org_id, 'costTicket', t.id, 'resolved', jsonb_build_object('ticket_id', t.id));
    end if;
  end if;
end $$;

-- A redeemed hold that is canceled unused gives its ticket back: the call found no slot, or its client has gone.
create or replace function reopen_ticket() returns trigger language plpgsql as $$
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
    'request_id', new.request_id, 'agent_id', t.agent_id, 'reopened', true) || caller_of_hold(new));
  perform send_to_workflow(t.org_id, 'costTicket', t.id, null, jsonb_build_object('ticket_id', t.id));
  return null;
end $$;

-- Opens a ticket for a refused reserve, or finds the caller's open one for the same body; however many are open.
create or replace function ticket_for(p_org organizations, i reserve_item, p_held_nanos bigint, p_left jsonb) returns jsonb
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
      'request_id', i.request_id, 'agent_id', i.agent_id) || caller(t.trace, t.user_id, t.key_id, t.team_id));
    perform send_to_workflow(p_org.id, 'costTicket', v_id, null, jsonb_build_object('ticket_id', v_id));
  end if;
  return v_answer;
end $$;

-- Says in one event for all refusals of ten minutes that a key or an organization has as many tickets open as it may have; the
-- caller is the first one that was refused.
create or replace function tell_bound(p_org_id text, i reserve_item, p_bound jsonb) returns void language plpgsql as $$
declare
  v_key_id text := case p_bound ->> 'param' when 'key_id' then i.key_id end;
  v_now timestamptz := clock_timestamp();
begin
  insert into ticket_bounds as b (org_id, key_id, told_at) values (p_org_id, v_key_id, v_now)
  on conflict (org_id, key_id) do update set told_at = v_now where b.told_at <= v_now - interval '10 minutes';
  if found then
    perform append_event(p_org_id, 'cost_ticket.exceeded', jsonb_build_object('key_id', v_key_id,
        'open_tickets', p_bound -> 'open', 'resets_at', iso_time((p_bound ->> 'resets_at')::timestamptz),
        'request_id', i.request_id, 'agent_id', i.agent_id)
      || caller(trace_of(i.request_id), i.user_id, i.key_id, i.team_id));
  end if;
end $$;

-- One ticket pays for one call: the others that waited on it wait on a new one, which people see, and keep their places. The oldest
-- of them is the call that the new one is asked for.
create or replace function move_waiters(t cost_tickets) returns void language plpgsql as $$
declare
  v_org organizations;
  i reserve_item := jsonb_populate_record(null::reserve_item, t.reserve);
  v_need numeric;
  v_new_id text;
begin
  select w.request_id into i.request_id from ticket_waiters w
  where w.org_id = t.org_id and w.ticket_id = t.id and w.answer is null
    and not coalesce((w.redeem ->> 'is_brought')::boolean, false)
    and w.request_id is distinct from (select q.request_id from cost_tickets q where q.id = t.id)
    and w.until > clock_timestamp() - waiter_grace()
  order by w.since, w.request_id limit 1;
  if not found then
    return;
  end if;
  select * into v_org from organizations o where o.id = t.org_id;
  v_need := coalesce(need_today(v_org, i), t.estimated_cost_nanos);
  -- It takes the place of the one that was redeemed.
  v_new_id := ticket_for(v_org, i, least(v_need, 9000000000000000000)::bigint, '{}') ->> 'id';
  update ticket_waiters w set ticket_id = v_new_id, redeem = w.redeem || jsonb_build_object('ticket_id', v_new_id)
  where w.org_id = t.org_id and w.ticket_id = t.id and w.answer is null
    and not coalesce((w.redeem ->> 'is_brought')::boolean, false)
    and w.request_id is distinct from (select q.request_id from cost_tickets q where q.id = t.id);
end $$;

-- Expires every overdue hold of an organization, each once: a settlement of +held with cost 0, and an event that says
-- whether a call had the hold and its end was never told; what an approval held for a call that never came is not that.
create or replace function expire_holds(p_org_id text) returns integer language plpgsql as $$
declare
  v_now timestamptz;
  v_expired reservations[];
begin
  perform lock_organization(p_org_id);
  v_now := clock_timestamp();
  with expired as (
    update reservations r set status = 'expired', closed_at = v_now, actual_cost_nanos = 0
    where r.org_id = p_org_id and r.status = 'open' and r.expires_at <= v_now
    returning r.*
  )
  select array_agg(e::reservations order by e.expires_at, e.id) into v_expired from expired e;
  if v_expired is null then
    return 0;
  end if;
  perform from post_entries(p_org_id, (
    select array_agg((e.wallet_id, 'settlement', e.held_nanos, -e.held_nanos, e.id, 'close', e.provider, e.model, 0,
      null, null, 'hold expired')::ledger_entry order by e.expires_at, e.id)
    from unnest(v_expired) as e));
  update tokens t set held_nanos = t.held_nanos - d.held_nanos
  from (select e.key_id, sum(e.held_nanos) as held_nanos from unnest(v_expired) as e group by e.key_id) as d
  where t.id = d.key_id;
  perform append_event(p_org_id, 'reservation.expired', jsonb_build_object('reservation_id', e.id,
      'request_id', e.request_id, 'agent_id', e.agent_id, 'wallet_id', e.wallet_id, 'held_nanos', e.held_nanos::text,
      'currency', e.currency, 'unsettled', not exists (select 1 from cost_tickets t where t.id = e.cost_ticket_id
        and t.request_id is distinct from e.request_id))
    || caller_of_hold(e))
  from unnest(v_expired) as e;
  return cardinality(v_expired);
end $$;

-- Puts aside what closed settlements cost beyond their bound, and tells of it and of tiers and regions without a price.
create or replace function note_settlements(p_org_id text, p_closing settlement[], p_now timestamptz) returns void
language plpgsql as $$
begin
  insert into settlement_excess (org_id, reservation_id, wallet_id, currency, charged_nanos, excess_nanos, created_at)
  select p_org_id, (s.reservation).id, (s.reservation).wallet_id, (s.reservation).currency, s.cost_nanos,
    least(s.excess_nanos, 9000000000000000000), p_now
  from unnest(p_closing) as s where s.excess_nanos > 0 order by s.n;
  perform append_event(p_org_id, 'settlement.bounded', jsonb_build_object('settlement_excess_id', x.id,
      'reservation_id', x.reservation_id, 'request_id', (s.reservation).request_id, 'agent_id', (s.reservation).agent_id,
      'wallet_id', x.wallet_id, 'held_nanos', (s.reservation).held_nanos::text, 'charged_nanos', x.charged_nanos::text,
      'excess_nanos', x.excess_nanos::text, 'currency', x.currency)
    || caller_of_hold(s.reservation))
  from unnest(p_closing) as s join settlement_excess x on x.reservation_id = (s.reservation).id where s.excess_nanos > 0;
  perform append_event(p_org_id, 'settlement.tier_unpriced', jsonb_build_object('reservation_id', (s.reservation).id,
      'request_id', (s.reservation).request_id, 'agent_id', (s.reservation).agent_id, 'provider', s.provider, 'model', s.model,
      'service_tier', s.usage ->> 'service_tier', 'region', s.usage ->> 'region')
    || caller_of_hold(s.reservation))
  from unnest(p_closing) as s where s.is_unpriced;
end $$;

-- The call whose entry took a wallet below its threshold, as members of an event; none if a person's did. `p_before_nanos` is
-- balance + reserved ahead of the entries.
create function lowering_call(p_entries ledger_entry[], p_wallet_id text, p_before_nanos bigint, p_threshold_nanos bigint)
returns jsonb language sql stable as $$
  select coalesce((
    select jsonb_build_object('reservation_id', r.id, 'request_id', r.request_id, 'agent_id', r.agent_id) || caller_of_hold(r)
    from (
      select e.reservation_id, e.phase, e.n, sum(e.amount_nanos + e.reserved_nanos) over (order by e.n) as moved_nanos
      from unnest(p_entries) with ordinality as e (wallet_id, type, amount_nanos, reserved_nanos, reservation_id, phase,
        provider, model, actual_cost_nanos, transfer_id, payment_session_id, description, n)
      where e.wallet_id = p_wallet_id
    ) as c
    join reservations r on r.id = c.reservation_id and c.phase in ('close', 'late')
    where p_before_nanos + c.moved_nanos < p_threshold_nanos
    order by c.n limit 1
  ), '{}')
$$;

-- The only place that changes a balance. Under the organization's lock it appends entries in the given order, moves each wallet
-- once, and writes one wallet.balance_low if balance + reserved crosses the threshold downwards, with the call that did it. An
-- entry that closes a call is nobody's, also if a person's step finds a hold overdue.
create or replace function post_entries(p_org_id text, p_entries ledger_entry[]) returns setof wallet_transactions
language plpgsql as $$
declare
  v_now timestamptz := clock_timestamp();
  v_low record;
begin
  return query
    insert into wallet_transactions (id, wallet_id, org_id, seq, type, amount_nanos, balance_after_nanos, provider, model,
      reservation_id, phase, actual_cost_nanos, transfer_id, payment_session_id, description, created_at, actor)
    select new_id('txn'), w.id, p_org_id, w.seq + row_number() over so_far, e.type, e.amount_nanos,
      (w.balance_nanos + sum(e.amount_nanos) over so_far)::bigint, e.provider, e.model, e.reservation_id, e.phase,
      e.actual_cost_nanos, e.transfer_id, e.payment_session_id, e.description, v_now,
      case when e.phase is null or e.phase not in ('close', 'late') then acting() end
    from unnest(p_entries) with ordinality as e (wallet_id, type, amount_nanos, reserved_nanos, reservation_id, phase,
      provider, model, actual_cost_nanos, transfer_id, payment_session_id, description, n)
    cross join lateral (select * from wallets q where q.id = e.wallet_id limit 1) as w
    window so_far as (partition by e.wallet_id order by e.n)
    order by e.n
    returning *;

  for v_low in
    with moves as (
      select e.wallet_id, sum(e.amount_nanos)::bigint as amount_nanos, sum(e.reserved_nanos)::bigint as reserved_nanos,
        count(*) as entries
      from unnest(p_entries) as e
      group by e.wallet_id
    ), moved as (
      update wallets w
      set balance_nanos = w.balance_nanos + m.amount_nanos,
        reserved_nanos = w.reserved_nanos + m.reserved_nanos,
        seq = w.seq + m.entries
      from moves m
      where w.id = m.wallet_id
      returning w.id, w.owner_type, w.currency, w.balance_nanos, w.reserved_nanos,
        w.balance_nanos + w.reserved_nanos as after_nanos,
        w.balance_nanos + w.reserved_nanos - m.amount_nanos - m.reserved_nanos as before_nanos,
        w.low_balance_threshold_nanos
    )
    select m.*, coalesce(m.low_balance_threshold_nanos, o.low_balance_threshold_nanos) as threshold_nanos
    from moved m join organizations o on o.id = p_org_id
    where m.before_nanos >= coalesce(m.low_balance_threshold_nanos, o.low_balance_threshold_nanos)
      and m.after_nanos < coalesce(m.low_balance_threshold_nanos, o.low_balance_threshold_nanos)
  loop
    perform append_event(p_org_id, 'wallet.balance_low', jsonb_build_object('wallet_id', v_low.id,
        'owner_type', v_low.owner_type, 'currency', v_low.currency, 'balance_nanos', v_low.balance_nanos::text,
        'reserved_nanos', v_low.reserved_nanos::text, 'threshold_nanos', v_low.threshold_nanos::text)
      || lowering_call(p_entries, v_low.id, v_low.before_nanos, v_low.threshold_nanos));
  end loop;
end $$;
