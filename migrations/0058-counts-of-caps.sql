-- Caps are counted in fewer steps: it happens within each reserve and each settle of a call that has an agent.

-- Keeps constraint_usage with the reservations, in the window of the reserve: a hold counts, its settlement corrects, and what
-- lapses or was never used is given back. Runs under the organization's lock, as all that changes reservations. A hold on one
-- model, and its settlement at that model, are what nearly all calls are; counted_use says the same of them in more steps.
create function count_usage_2() returns trigger language plpgsql as $$
declare
  v_cost_nanos numeric;
  v_responses bigint;
begin
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

drop trigger reservations_count on reservations;
create trigger reservations_count after insert or update of status on reservations
for each row when (new.agent_id is not null) execute function count_usage_2();
drop function count_usage();
