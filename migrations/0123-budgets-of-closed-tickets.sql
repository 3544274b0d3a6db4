-- A ticket that is closed says which budgets had no room for its call, and by how much an approval raised each; it named none.

alter table cost_tickets
  -- The budgets that had no room as it was opened or, if it was denied or has expired, as it was
  -- closed; of an approval those that it raised, with how much. Null if it is about money alone.
  add column budgets jsonb;

-- The budgets that have no room for a call, the one whose window ends last first; null if each has.
create function budgets_short_for(p_org_id text, p_key_id text, p_user_id text, p_team_id text, p_need_nanos numeric, p_left jsonb)
returns jsonb language sql stable as $$
  select jsonb_agg(shown_budget(s.id, s.owner_type, s.owner_id, s.budget_window, s.limit_nanos, s.used_nanos, s.missing_nanos,
    s.resets_at) order by s.resets_at desc nulls first, s.id)
  from short_budgets(p_org_id, p_key_id, p_user_id, p_team_id, p_need_nanos, clock_timestamp(), p_left) as s
$$;

-- What a ticket says of budgets: nothing if it is about money alone. `budget` is the one whose
-- window ends last. While it is open they are those that have no room now, and none once each has
-- room; once it is closed they are those that were kept.
create or replace function ticket_budgets(t cost_tickets, p_left jsonb)
returns jsonb language plpgsql stable as $$
declare
  v_short jsonb;
begin
  if t.cause <> 'budget' then
    return '{}';
  end if;
  v_short := case when t.status = 'open' then budgets_short_for(t.org_id, t.key_id, t.user_id, t.team_id, t.estimated_cost_nanos, p_left) else t.budgets end;
  return jsonb_build_object('cause', 'budget', 'budget', v_short -> 0, 'budgets', coalesce(v_short, '[]'));
end $$;

-- Opens a ticket for a refused reserve, or finds the caller's open one for the same body; however
-- many are open.
create or replace function ticket_for(p_org organizations, i reserve_item, p_held_nanos bigint, p_left jsonb)
returns jsonb language plpgsql as $$
declare
  v_now timestamptz := clock_timestamp();
  v_id text := new_id('ticket');
  t cost_tickets;
  v_answer jsonb;
  v_budgets jsonb := budgets_short_for(p_org.id, i.key_id, i.user_id, i.team_id, p_held_nanos, p_left);
  v_cause text := case when v_budgets is null then 'balance' else 'budget' end;
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
    estimated_cost_nanos, currency, reserve, created_at, expires_at, cause, budgets)
  values (v_id, p_org.id, i.key_id, i.user_id, i.team_id, i.agent_id, i.session_id, i.provider, i.model,
    v_request, p_held_nanos, p_org.currency, jsonb_strip_nulls(to_jsonb(i)), v_now,
    v_now + p_org.ticket_ttl_seconds * interval '1 second', v_cause, v_budgets)
  on conflict (org_id, key_id, user_id, team_id, agent_id, session_id, provider, model, request_body_hash)
    where status = 'open'
  do update set estimated_cost_nanos = excluded.estimated_cost_nanos, reserve = excluded.reserve,
    cause = excluded.cause, budgets = excluded.budgets
  returning * into t;
  v_answer := ticket_answer(t, p_left);
  if t.id = v_id then
    perform append_event(p_org.id, 'cost_ticket.created', v_answer || jsonb_build_object('cost_ticket_id', v_id,
      'request_id', i.request_id) || ticket_caller(t) || caller(t.trace, t.user_id, t.key_id, t.team_id));
    perform send_to_workflow(p_org.id, 'costTicket', v_id, null, jsonb_build_object('ticket_id', v_id));
  end if;
  return v_answer;
end $$;

-- Closes a ticket: row, event, and a signal where its workflow may be waiting; a start that is
-- still unsent is dropped instead. A verdict or a deadline that the workflow itself records needs
-- no signal. The event names the call that redeemed the ticket, else the one that opened it. A hold
-- counts already, so that an approval and a redeem keep the budgets of before it.
create or replace function resolve_ticket(p_ticket_id text, p_status text, p_is_told boolean)
returns void language plpgsql as $$
declare
  t cost_tickets;
  v_was text := (select q.status from cost_tickets q where q.id = p_ticket_id);
begin
  update cost_tickets q set status = p_status, resolved_at = clock_timestamp(),
    budgets = case when q.status = 'open' and q.cause = 'budget' and p_status in ('denied', 'expired')
      then coalesce(budgets_short_for(q.org_id, q.key_id, q.user_id, q.team_id, q.estimated_cost_nanos, '{}'), q.budgets) else q.budgets end
  where q.id = p_ticket_id returning * into t;
  perform append_event(t.org_id, 'cost_ticket.resolved', jsonb_strip_nulls(jsonb_build_object('cost_ticket_id', t.id,
      'status', t.status, 'provider', t.provider, 'model', t.model, 'decided_by', t.decided_by,
      'note', t.note, 'credited_nanos', t.credited_nanos::text, 'currency', t.currency, 'reservation_id', t.reservation_id,
      'request_id', t.request_id, 'approval_rule_id', t.approval_rule_id)) || ticket_budgets(t, '{}') || ticket_caller(t)
    || caller(coalesce(trace_of(t.request_id), (select w.trace from ticket_waiters w
      where w.org_id = t.org_id and w.request_id = t.request_id), t.trace), t.user_id, t.key_id, t.team_id));
  if v_was = 'open' and not p_is_told then
    delete from outbox o where o.workflow_id = t.id and o.signal is null and o.attempts = 0;
    if not found then
      perform send_to_workflow(t.org_id, 'costTicket', t.id, 'resolved', jsonb_build_object('ticket_id', t.id));
    end if;
  end if;
end $$;

-- Raises each budget that has no room for a ticket's call by what is missing, once. The ticket
-- keeps how each stood, and by how much its approvals raised it in this window.
create or replace function raise_budgets(t cost_tickets, p_need_nanos numeric, p_verdict jsonb)
returns void language plpgsql as $$
declare
  s record;
  b budgets;
  v_raised jsonb := '[]';
  -- A raise is of the window in which it was decided.
  v_now timestamptz := clock_timestamp();
begin
  for s in
    select * from short_budgets(t.org_id, t.key_id, t.user_id, t.team_id, p_need_nanos, v_now, '{}') q
    where q.on_exceed = 'ticket' order by q.id
  loop
    select * into b from budgets q where q.id = s.id;
    if b.ends_at <= v_now then
      b := begin_window(b.id, v_now);
    end if;
    if s.limit_nanos + s.missing_nanos > 9000000000000000000 then
      raise exception using errcode = 'SV001', message = 'amount_too_large';
    end if;
    update budgets q set raised_nanos = q.raised_nanos + s.missing_nanos where q.id = b.id;
    insert into budget_raises (org_id, budget_id, window_starts_at, budget_window, amount_nanos, cost_ticket_id, decided_by, created_at)
    values (t.org_id, b.id, b.starts_at, b.budget_window, s.missing_nanos, t.id, p_verdict ->> 'by', v_now);
    v_raised := v_raised || (shown_budget(s.id, s.owner_type, s.owner_id, s.budget_window, s.limit_nanos, s.used_nanos,
        s.missing_nanos, s.resets_at)
      || jsonb_build_object('raised_nanos', (select sum(r.amount_nanos) from budget_raises r where r.budget_id = b.id
        and r.window_starts_at = b.starts_at and r.budget_window = b.budget_window and r.cost_ticket_id = t.id)::text));
  end loop;
  update cost_tickets q set budgets = (select jsonb_agg(e order by e ->> 'resets_at' desc nulls first, e ->> 'id')
    from jsonb_array_elements(v_raised) as e)
  where q.id = t.id and v_raised <> '[]';
end $$;

-- Writes the audit event of a verdict. What the verdict writes is set ahead of the status, and an
-- open ticket has none of it.
create function record_verdict() returns trigger language plpgsql as $$
declare
  v_names constant text[] := tg_argv[1:];
  v_after jsonb := (select jsonb_object_agg(m.key, m.value) from jsonb_each(shown_row(to_jsonb(new))) as m
    where m.key = any(v_names));
begin
  perform write_audit_event(new.org_id, tg_argv[0], new.id,
    (select jsonb_object_agg(m.key, case m.key when 'status' then to_jsonb(old.status) when 'currency' then m.value else 'null' end)
      from jsonb_each(v_after) as m), v_after);
  return null;
end $$;

drop trigger cost_tickets_approved on cost_tickets;
create trigger cost_tickets_approved after update of status on cost_tickets
for each row when (old.status = 'open' and new.status = 'approved' and new.decided_by is not null
  and new.decided_by <> 'rule')
execute function record_verdict('cost_ticket.approved', 'status', 'credited_nanos', 'currency',
  'transaction_id', 'reservation_id', 'note');

drop trigger cost_tickets_denied on cost_tickets;
create trigger cost_tickets_denied after update of status on cost_tickets
for each row when (old.status = 'open' and new.status = 'denied' and new.decided_by is not null)
execute function record_verdict('cost_ticket.denied', 'status', 'note');
