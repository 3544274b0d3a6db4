-- Where clocks change by half an hour, the hour of the change was told as a part of the one before it. Sums of days and months are as
-- before, and so is each hour of every other zone; hours that are folded already stay where they are, and are forgotten after 36 days.

-- What one settlement adds to spend, with the call that it is of. An hour that was held and never settled costs nothing and counts no
-- call; a charge beyond a bound counts no second one. So it is the same whenever it is looked at. An hour that comes twice is two;
-- where clocks change by half an hour, that hour has 30 minutes or 90.
create or replace function spend_of(t wallet_transactions, r reservations, p_time_zone text)
returns table (day date, hour timestamptz, key_id text, user_id text, team_id text, agent_id text, family text, provider text,
  model text, session_id text, tags text[], cost_nanos numeric, requests bigint, prompt_tokens numeric, completion_tokens numeric,
  cached_tokens numeric)
language sql stable as $$
  select l.local::date,
    case when (h.begun at time zone p_time_zone) = h.local then h.begun else h.local at time zone p_time_zone end,
    coalesce(r.key_id, ''), coalesce(r.user_id, ''),
    coalesce(r.team_id, ''), coalesce(r.agent_id, ''), coalesce(r.family, ''), coalesce(t.provider, ''), coalesce(t.model, ''),
    r.session_id, r.tags, coalesce(t.actual_cost_nanos, 0)::numeric, c.calls,
    case c.calls when 1 then coalesce((r.usage ->> 'prompt_tokens')::numeric, 0) else 0 end,
    case c.calls when 1 then coalesce((r.usage ->> 'completion_tokens')::numeric, 0) else 0 end,
    case c.calls when 1 then coalesce((r.usage ->> 'cached_tokens')::numeric, 0) else 0 end
  from (select t.created_at at time zone p_time_zone as local) as l
  cross join lateral (select date_trunc('hour', l.local) as local, t.created_at - (l.local - date_trunc('hour', l.local)) as begun) as h
  cross join (select case when t.phase = 'late' or (t.phase = 'close' and r.status = 'settled') then 1 else 0 end::bigint as calls) as c
$$;
