-- Caps on agents: what one may cost, or how many answers it may get, per calendar interval in UTC.

create table usage_constraints (
  id text primary key default new_id('cap'),
  org_id text not null references organizations,
  agent_id text not null references agents,
  constraint_type text not null check (constraint_type in ('cost', 'responses')),
  provider text not null,
  -- May end in `*`.
  model_pattern text not null,
  -- Units of the organization's currency, or a number of answers.
  max_value numeric not null check (max_value >= 0),
  interval text not null check (interval in ('hour', 'day', 'week', 'month')),
  enforcement_mode text not null check (enforcement_mode in ('reject', 'warn')),
  -- Reservations made before this are not counted: the start of the window in which it was made or last changed.
  counted_from timestamptz not null,
  created_at timestamptz not null default clock_timestamp(),
  updated_at timestamptz not null default clock_timestamp(),
  archived_at timestamptz
);
create index usage_constraints_agent on usage_constraints (agent_id) where archived_at is null;
create index usage_constraints_org on usage_constraints (org_id);

-- What each constraint has counted in a window. Kept by count_usage; the audit proves it from the reservations.
create table constraint_usage (
  constraint_id text not null references usage_constraints,
  window_start timestamptz not null,
  cost_nanos numeric not null default 0,
  responses bigint not null default 0,
  primary key (constraint_id, window_start)
) with (fillfactor = 50);

-- Use that no reserve has seen. Unique by request, so that a repeat counts once.
create table usage_increments (
  org_id text not null references organizations,
  request_id text not null,
  agent_id text not null references agents,
  provider text not null,
  model text not null,
  cost_nanos bigint not null,
  responses integer not null,
  created_at timestamptz not null default clock_timestamp(),
  primary key (org_id, request_id, agent_id)
);
create index usage_increments_agent on usage_increments (agent_id, created_at);

alter table reservations
  -- What the request ran on, where it is settled: the model of the reserve or one of its fallbacks.
  add column settled_provider text,
  add column settled_model text,
  add column max_completion_tokens bigint,
  add column cost_ticket_id text;
create index reservations_agent on reservations (agent_id, created_at) where agent_id is not null;
create index reservations_ticket on reservations (cost_ticket_id) where cost_ticket_id is not null;

-- Calendar windows in UTC, whatever the session's time zone; a week starts on ISO Monday.
create function window_start(p_interval text, p_at timestamptz) returns timestamptz language sql immutable as $$
  select date_trunc(p_interval, p_at at time zone 'UTC') at time zone 'UTC'
$$;

create function window_end(p_interval text, p_at timestamptz) returns timestamptz language sql immutable as $$
  select (date_trunc(p_interval, p_at at time zone 'UTC') + ('1 ' || p_interval)::interval) at time zone 'UTC'
$$;

create function constraint_covers(c usage_constraints, p_provider text, p_model text) returns boolean
language sql immutable as $$
  select c.provider = p_provider and case when right(c.model_pattern, 1) = '*'
    then starts_with(p_model, left(c.model_pattern, -1)) else c.model_pattern = p_model end
$$;

create type usage_count as (cost_nanos numeric, responses bigint);

-- What one reservation counts for one constraint. An open hold counts as held, on its model and on every fallback;
-- settled, it counts as charged, on the model it ran on; what used and cost nothing counts nothing.
create function counted_use(c usage_constraints, r reservations) returns usage_count language sql immutable as $$
  select case
    when r.id is null or r.created_at < c.counted_from then (0, 0)::usage_count
    when r.status = 'open' and (constraint_covers(c, r.provider, r.model) or exists (
        select 1 from jsonb_array_elements(r.fallbacks) as f where constraint_covers(c, f ->> 'provider', f ->> 'model')))
      then (r.held_nanos, 1)::usage_count
    when r.status in ('settled', 'late')
        and constraint_covers(c, coalesce(r.settled_provider, r.provider), coalesce(r.settled_model, r.model))
        and (r.actual_cost_nanos > 0 or exists (select 1 from jsonb_each_text(r.usage) as u where u.value::numeric > 0))
      then (r.actual_cost_nanos, 1)::usage_count
    else (0, 0)::usage_count end
$$;

-- Keeps constraint_usage with the reservations, in the window of the reserve: a hold counts, its settlement corrects, and
-- what lapses or was never used is given back. Runs under the organization's lock, as all that changes reservations.
create function count_usage() returns trigger language plpgsql as $$
begin
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
end $$;

create trigger reservations_count after insert or update of status on reservations
for each row when (new.agent_id is not null) execute function count_usage();

-- Sets a constraint's count of the present window from what has happened in it, at its making or change.
create function recount_constraint(p_constraint_id text) returns void language plpgsql as $$
declare
  c usage_constraints;
begin
  update usage_constraints q set counted_from = window_start(q.interval, clock_timestamp())
  where q.id = p_constraint_id returning * into c;
  delete from constraint_usage u where u.constraint_id = p_constraint_id;
  insert into constraint_usage (constraint_id, window_start, cost_nanos, responses)
  select c.id, c.counted_from, coalesce(sum(n.cost_nanos), 0), coalesce(sum(n.responses), 0)
  from (
    select u.cost_nanos, u.responses from reservations r cross join lateral counted_use(c, r) as u
    where r.agent_id = c.agent_id and r.created_at >= c.counted_from
    union all
    select i.cost_nanos, i.responses from usage_increments i
    where i.agent_id = c.agent_id and i.created_at >= c.counted_from and constraint_covers(c, i.provider, i.model)
  ) as n;
end $$;

-- Counts use that went past reserve, once per request_id; one that a reserve knows has been counted there already.
create function increment_usage(p_org_id text, p_agent_id text, p_provider text, p_model text, p_cost_nanos bigint,
  p_responses integer, p_request_id text) returns boolean language plpgsql as $$
declare
  v_now timestamptz;
begin
  perform lock_organization(p_org_id);
  v_now := clock_timestamp();
  if exists (select 1 from reservations r where r.org_id = p_org_id and r.request_id = p_request_id) then
    return false;
  end if;
  insert into usage_increments (org_id, request_id, agent_id, provider, model, cost_nanos, responses, created_at)
  values (p_org_id, p_request_id, p_agent_id, p_provider, p_model, p_cost_nanos, p_responses, v_now)
  on conflict do nothing;
  if not found then
    return false;
  end if;
  insert into constraint_usage (constraint_id, window_start, cost_nanos, responses)
  select c.id, window_start(c.interval, v_now), p_cost_nanos, p_responses
  from usage_constraints c
  where c.agent_id = p_agent_id and c.archived_at is null and constraint_covers(c, p_provider, p_model)
  on conflict (constraint_id, window_start) do update
  set cost_nanos = constraint_usage.cost_nanos + excluded.cost_nanos,
    responses = constraint_usage.responses + excluded.responses;
  return true;
end $$;

-- An agent's constraints on a model with what the window of a moment has counted; a null provider takes all of the agent's.
create function constraints_at(p_agent_id text, p_provider text, p_model text, p_at timestamptz)
returns table (id text, constraint_type text, "interval" text, max_value numeric, enforcement_mode text, cost_nanos numeric,
  responses bigint, resets_at timestamptz) language sql stable as $$
  select c.id, c.constraint_type, c.interval, c.max_value, c.enforcement_mode, coalesce(u.cost_nanos, 0),
    coalesce(u.responses, 0), window_end(c.interval, p_at)
  from usage_constraints c
  left join constraint_usage u on u.constraint_id = c.id and u.window_start = window_start(c.interval, p_at)
  where c.agent_id = p_agent_id and c.archived_at is null
    and (p_provider is null or constraint_covers(c, p_provider, p_model))
  order by c.id
$$;
