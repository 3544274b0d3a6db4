-- Open tickets have bounds: each is a workflow, an event and a day of somebody's list, and a key without money could make
-- any number of them.

-- When an organization was last told that a key, or it itself (null), has as many tickets open as it may have.
create table ticket_bounds (
  org_id text not null,
  key_id text,
  told_at timestamptz not null,
  unique nulls not distinct (org_id, key_id)
);

-- Opens a ticket for a refused reserve, or finds the caller's open one for the same body; however many are open.
create function ticket_for(p_org organizations, i reserve_item, p_held_nanos bigint, p_left jsonb) returns jsonb
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

-- The bound that one more ticket of this item would exceed, as {param, open, resets_at}; null if there is room. A call without
-- a key is bounded by its organization alone.
create function exceeded_bound(p_org_id text, i reserve_item) returns jsonb language sql stable as $$
  with living as (
    select q.key_id, q.expires_at from cost_tickets q
    where q.org_id = p_org_id and q.status = 'open' and q.expires_at > clock_timestamp() limit 500
  ), of_key as (
    select q.expires_at from cost_tickets q
    where q.org_id = p_org_id and q.key_id = i.key_id and q.status = 'open' and q.expires_at > clock_timestamp() limit 50
  )
  select jsonb_build_object('param', b.param, 'open', b.open, 'resets_at', b.resets_at)
  from (select 'key_id', count(*), min(k.expires_at), 50 from of_key k
    union all select 'org_id', count(*), min(l.expires_at), 500 from living l) as b (param, open, resets_at, most)
  where b.open >= b.most limit 1
$$;

-- Says in one event for all refusals of ten minutes that a key or an organization has as many tickets open as it may have.
create function tell_bound(p_org_id text, i reserve_item, p_bound jsonb) returns void language plpgsql as $$
declare
  v_key_id text := case p_bound ->> 'param' when 'key_id' then i.key_id end;
  v_now timestamptz := clock_timestamp();
begin
  insert into ticket_bounds as b (org_id, key_id, told_at) values (p_org_id, v_key_id, v_now)
  on conflict (org_id, key_id) do update set told_at = v_now where b.told_at <= v_now - interval '10 minutes';
  if found then
    perform append_event(p_org_id, 'cost_ticket.exceeded', jsonb_build_object('key_id', v_key_id,
      'open_tickets', p_bound -> 'open', 'resets_at', iso_time((p_bound ->> 'resets_at')::timestamptz)));
  end if;
end $$;

-- A refused reserve finds the caller's open ticket for the same body, or opens one if key and organization have room for it;
-- else the answer is {exceeded}, and nothing is written but one event for many refusals.
create or replace function open_ticket_2(p_org organizations, i reserve_item, p_held_nanos bigint, p_left jsonb) returns jsonb
language plpgsql as $$
declare
  v_bound jsonb;
begin
  if not exists (select 1 from cost_tickets q where q.org_id = p_org.id and q.status = 'open'
      and q.request_body_hash = concat_ws('#', i.request_body_hash, i.family)
      and (q.provider, q.model) = (i.provider, i.model)
      and (q.key_id, q.user_id, q.team_id, q.agent_id, q.session_id)
        is not distinct from (i.key_id, i.user_id, i.team_id, i.agent_id, i.session_id)) then
    v_bound := exceeded_bound(p_org.id, i);
  end if;
  if v_bound is null then
    return ticket_for(p_org, i, p_held_nanos, p_left);
  end if;
  perform tell_bound(p_org.id, i, v_bound);
  return jsonb_build_object('exceeded', v_bound);
end $$;

-- Answers an item that no wallet covers: with the amounts that were asked for and its cost ticket; or without one, naming the
-- bound of open tickets that is met and when the first of them ends.
create or replace function uncovered_reserve(p_n integer, p_currency text, p_estimated_nanos numeric, p_held_nanos numeric,
  p_cost_ticket jsonb) returns lane_row language sql stable as $$
  select (('reserve', p_n, 'insufficient_balance', p_cost_ticket #>> '{exceeded,param}', null, null, null, null, p_currency,
    p_estimated_nanos, p_held_nanos, null, null, null, null, null,
    case when p_cost_ticket ? 'exceeded' then null else p_cost_ticket end)::lane_answer, null, null,
    (p_cost_ticket #>> '{exceeded,resets_at}')::timestamptz)::lane_row
$$;

-- One ticket pays for one call: the others that waited on it wait on a new one, which people see, and keep their places.
create or replace function move_waiters(t cost_tickets) returns void language plpgsql as $$
declare
  v_org organizations;
  i reserve_item := jsonb_populate_record(null::reserve_item, t.reserve);
  v_need numeric;
  v_new_id text;
begin
  if not exists (select 1 from ticket_waiters w where w.org_id = t.org_id and w.ticket_id = t.id and w.answer is null
      and not coalesce((w.redeem ->> 'is_brought')::boolean, false)
      and w.request_id is distinct from (select q.request_id from cost_tickets q where q.id = t.id)
      and w.until > clock_timestamp() - waiter_grace()) then
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
