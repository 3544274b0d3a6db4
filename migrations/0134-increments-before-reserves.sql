-- What use of this very request a cap has counted in the window of a moment, before its reserve: the hold takes its place.
create function own_increments(p_request_id text, p_constraint_id text, p_at timestamptz) returns numeric language sql stable as $$
  select coalesce(sum(case c.constraint_type when 'cost' then i.cost_nanos else i.responses end), 0)
  from usage_constraints c
  join usage_increments i on i.org_id = c.org_id and i.request_id = p_request_id and i.agent_id = c.agent_id
  where c.id = p_constraint_id and i.created_at >= greatest(c.counted_from, window_start(c.interval, p_at))
    and constraint_covers(c, i.provider, i.model)
$$;

-- Takes back the use of a request that was told before its reserve, which counts it from now on.
create function take_back_increments(p_org_id text, p_request_id text) returns void language sql as $$
  with taken as (
    delete from usage_increments i where i.org_id = p_org_id and i.request_id = p_request_id returning i.*
  )
  update constraint_usage u set cost_nanos = u.cost_nanos - t.cost_nanos, responses = u.responses - t.responses
  from (
    select c.id, window_start(c.interval, i.created_at) as began, sum(i.cost_nanos) as cost_nanos, sum(i.responses) as responses
    from taken i join usage_constraints c on c.agent_id = i.agent_id and c.archived_at is null and c.counted_from <= i.created_at
      and constraint_covers(c, i.provider, i.model)
    group by 1, 2
  ) as t
  where u.constraint_id = t.id and u.window_start = t.began
$$;

-- Keeps constraint_usage with the reservations, in the window of the reserve: a hold counts, its settlement corrects, and what
-- lapses or was never used is given back. Runs under the organization's lock, as all that changes reservations. A hold on one
-- model, and its settlement at that model, are what nearly all calls are; counted_use says the same of them in more steps.
create or replace function count_usage_2() returns trigger language plpgsql as $$
declare
  v_cost_nanos numeric;
  v_responses bigint;
begin
  if tg_op = 'INSERT' and exists (select 1 from usage_increments i where i.org_id = new.org_id and i.request_id = new.request_id) then
    perform take_back_increments(new.org_id, new.request_id);
  end if;
  if new.fallbacks is null and new.status = 'open' and tg_op = 'INSERT' then
    v_cost_nanos := new.held_nanos;
    v_responses := 1;
  elsif new.fallbacks is null and new.status = 'settled' and new.settled_provider = new.provider
      and new.settled_model = new.model and new.actual_cost_nanos > 0 and tg_op = 'UPDATE' and old.status = 'open' then
    v_cost_nanos := new.actual_cost_nanos - old.held_nanos;
    v_responses := 0;
  else
    insert into constraint_usage (constraint_id, window_start, cost_nanos, responses)
    select c.id, window_start(c.interval, new.created_at), a.cost_nanos - coalesce(b.cost_nanos, 0),
      a.responses - coalesce(b.responses, 0)
    from usage_constraints c
    cross join lateral counted_use(c, new) as a
    left join lateral counted_use(c, old) as b on tg_op = 'UPDATE'
    where c.agent_id = new.agent_id and c.archived_at is null
      and (a.cost_nanos <> coalesce(b.cost_nanos, 0) or a.responses <> coalesce(b.responses, 0))
    on conflict (constraint_id, window_start) do update
    set cost_nanos = constraint_usage.cost_nanos + excluded.cost_nanos,
      responses = constraint_usage.responses + excluded.responses;
    return null;
  end if;
  insert into constraint_usage (constraint_id, window_start, cost_nanos, responses)
  select c.id, window_start(c.interval, new.created_at), v_cost_nanos, v_responses
  from usage_constraints c
  where c.agent_id = new.agent_id and c.archived_at is null and c.counted_from <= new.created_at
    and constraint_covers(c, new.provider, new.model)
  on conflict (constraint_id, window_start) do update
  set cost_nanos = constraint_usage.cost_nanos + excluded.cost_nanos,
    responses = constraint_usage.responses + excluded.responses;
  return null;
end $$;

-- Judges the caps on an agent for one more hold. A hold of null is of a call that costs nothing,
-- which exceeds no cap on cost.
create or replace function judge_caps(i reserve_item, p_held_nanos numeric, p_now timestamptz, p_left jsonb)
returns cap_verdict language plpgsql stable as $$
declare
  v cap_verdict;
  c record;
  v_unit numeric;
  v_needed numeric;
  v_after numeric;
  v_told jsonb;
begin
  v.left_after := '{}';
  for c in
    select distinct on (a.id) a.*
    from (select i.provider as provider, i.model as model
      union all select f ->> 'provider', f ->> 'model' from jsonb_array_elements(i.fallbacks) as f) as m
    cross join lateral constraints_at(i.agent_id, m.provider, m.model, p_now) as a
    order by a.id
  loop
    v_unit := case c.constraint_type when 'cost' then 1000000000 else 1 end;
    v_needed := case c.constraint_type when 'cost' then coalesce(p_held_nanos, 0) else 1 end;
    v_after := coalesce((p_left ->> c.id)::numeric, case c.constraint_type when 'cost' then c.cost_nanos else c.responses end)
      + v_needed;
    if v_after > c.max_value * v_unit then
      v_after := v_after - own_increments(i.request_id, c.id, p_now);
    end if;
    v.left_after := v.left_after || jsonb_build_object(c.id, v_after);
    continue when v_after <= c.max_value * v_unit or (c.constraint_type = 'cost' and p_held_nanos is null);
    v_told := jsonb_build_object('id', c.id, 'constraint_type', c.constraint_type, 'interval', c.interval,
      'max_value', c.max_value, 'resets_at', iso_time(c.resets_at));
    if c.enforcement_mode <> 'reject' then
      v.warnings := coalesce(v.warnings, '[]') || v_told;
    elsif v.refused_id is null or c.resets_at > v.resets_at then
      -- The window that ends last says when a repeat may pass.
      v.refused_id := c.id;
      v.resets_at := c.resets_at;
      v.refused := v_told || jsonb_build_object('current_value', trim_scale((v_after - v_needed) / v_unit),
        'needed', trim_scale(v_needed / v_unit));
    end if;
  end loop;
  return v;
end $$;
