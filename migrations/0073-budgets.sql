-- Budgets: how much a key, a person, a team or an organization may cost in a window of the
-- organization's own calendar, or in all. Counted with the hold, in the window in which it was made.

-- The reporting zone: windows of budgets begin by its calendar. A change counts from the next window.
alter table organizations add column time_zone text not null default 'UTC';

create table budgets (
  id text primary key default new_id('bud'),
  org_id text not null references organizations,
  owner_type text not null check (owner_type in ('key', 'user', 'team', 'organization')),
  owner_id text not null,
  limit_nanos bigint not null check (limit_nanos >= 0),
  -- `life` begins with the making of the budget and never ends.
  budget_window text not null check (budget_window in ('hour', 'day', 'week', 'month', 'life')),
  on_exceed text not null default 'refuse' check (on_exceed in ('refuse', 'ticket')),
  -- Shares in percent that are emitted, each once a window.
  thresholds integer[] not null default '{50,80,100}',
  -- The max_budget of its key, which has a window.
  is_max_budget boolean not null default false,
  -- The window that is counted here, and what approvals have added to it. The next hold after its
  -- end begins another one.
  starts_at timestamptz not null,
  ends_at timestamptz,
  raised_nanos bigint not null default 0,
  spent_nanos bigint not null default 0,
  held_nanos bigint not null default 0,
  emitted_pct integer not null default 0,
  -- The use at which calls are warned, and at which the next threshold is emitted; null if none.
  warns_at_nanos numeric,
  emits_at_nanos numeric,
  -- Holds that are older may be counted in budget_windows too.
  past_until timestamptz,
  created_by text,
  created_at timestamptz not null default clock_timestamp(),
  updated_at timestamptz not null default clock_timestamp(),
  archived_at timestamptz
) with (fillfactor = 50);
create index budgets_org on budgets (org_id, created_at, id) where archived_at is null;
create index budgets_owner on budgets (org_id, owner_id) where archived_at is null;
create unique index budgets_window on budgets (org_id, owner_id, budget_window) where archived_at is null and not is_max_budget;
create unique index budgets_max_budget on budgets (owner_id) where archived_at is null and is_max_budget;

-- Windows that are over, or that a change of the window has ended. What settles late is counted here.
create table budget_windows (
  budget_id text not null references budgets,
  starts_at timestamptz not null,
  ends_at timestamptz not null,
  limit_nanos bigint not null,
  raised_nanos bigint not null,
  spent_nanos bigint not null,
  held_nanos bigint not null,
  constraint budget_windows_pkey primary key (budget_id, starts_at, ends_at)
);

-- What approvals have added to a budget, each for one ticket and one window.
create table budget_raises (
  id text primary key default new_id('raise'),
  org_id text not null references organizations,
  budget_id text not null references budgets,
  window_starts_at timestamptz not null,
  -- Two windows may begin at one moment: a month and its first day.
  budget_window text not null,
  amount_nanos bigint not null check (amount_nanos > 0),
  cost_ticket_id text not null,
  decided_by text not null,
  created_at timestamptz not null default clock_timestamp()
);
create index budget_raises_budget on budget_raises (budget_id, window_starts_at);

-- True if a budget counts it while it is open; null otherwise.
alter table reservations add column is_budgeted boolean;

-- The window of a zone's calendar that holds a moment: days of 23 or 25 hours where clocks change,
-- weeks from ISO Monday. A life begins now.
create function reporting_window(p_window text, p_zone text, p_at timestamptz, out starts_at timestamptz, out ends_at timestamptz)
language plpgsql stable as $$
begin
  if p_window = 'life' then
    starts_at := p_at;
  elsif p_window = 'hour' then
    -- By the moment's own offset: an hour that a clock shows twice is two windows.
    starts_at := date_trunc('hour', p_at, p_zone);
    ends_at := starts_at + interval '1 hour';
  else
    select max(b.at) filter (where b.at <= p_at), min(b.at) filter (where b.at > p_at) into starts_at, ends_at
    from generate_series(-1, 2) as k
    cross join lateral (select (date_trunc(p_window, p_at at time zone p_zone) + k * ('1 ' || p_window)::interval)
      at time zone p_zone as at) as b;
  end if;
end $$;

-- The living budgets that count a call of this caller.
create function budgets_of(p_org_id text, p_key_id text, p_user_id text, p_team_id text) returns setof budgets
language sql stable as $$
  select b.* from budgets b
  where b.org_id = p_org_id and b.owner_id in (p_org_id, p_key_id, p_user_id, p_team_id) and b.archived_at is null
$$;

-- What a budget has counted in the window of its row, and what it allows there. Sums of two columns
-- may be more than a bigint holds.
create function window_used(b budgets) returns numeric language sql immutable as $$
  select b.spent_nanos::numeric + b.held_nanos
$$;

create function window_cap(b budgets) returns numeric language sql immutable as $$
  select b.limit_nanos::numeric + b.raised_nanos
$$;

-- What a budget has counted: nothing where its window is over and the next has not begun.
create function budget_used(b budgets, p_now timestamptz) returns numeric language sql immutable as $$
  select case when b.ends_at <= p_now then 0 else window_used(b) end
$$;

-- What it allows now.
create function budget_cap(b budgets, p_now timestamptz) returns numeric language sql immutable as $$
  select case when b.ends_at <= p_now then b.limit_nanos else window_cap(b) end
$$;

-- The highest of a budget's thresholds that so much use has reached; 0 if none.
create function reached_pct(b budgets, p_used_nanos numeric, p_cap_nanos numeric) returns integer language sql immutable as $$
  select coalesce((select max(t) from unnest(b.thresholds) as t where p_cap_nanos > 0 and p_used_nanos * 100 >= t * p_cap_nanos), 0)
$$;

-- What a call hears of a budget that has reached a threshold.
create function budget_warning(b budgets, p_used_nanos numeric) returns jsonb language sql stable as $$
  select jsonb_build_object('id', b.id, 'warning_type', 'budget', 'owner_type', b.owner_type, 'owner_id', b.owner_id,
    'window', b.budget_window, 'threshold_pct', reached_pct(b, p_used_nanos, window_cap(b)),
    'limit_nanos', window_cap(b)::text, 'used_nanos', p_used_nanos::text, 'resets_at', iso_time(b.ends_at))
$$;

-- The budgets that have no room for so much more. `p_left` holds what a batch has counted by then.
create function short_budgets(p_org_id text, p_key_id text, p_user_id text, p_team_id text, p_need_nanos numeric,
  p_now timestamptz, p_left jsonb)
returns table(id text, owner_type text, owner_id text, budget_window text, on_exceed text, limit_nanos numeric,
  used_nanos numeric, missing_nanos numeric, resets_at timestamptz) language sql stable as $$
  select b.id, b.owner_type, b.owner_id, b.budget_window, b.on_exceed, n.cap, n.used, n.used + p_need_nanos - n.cap,
    case when b.ends_at <= p_now then (reporting_window(b.budget_window, o.time_zone, p_now)).ends_at else b.ends_at end
  from budgets_of(p_org_id, p_key_id, p_user_id, p_team_id) as b
  cross join lateral (select budget_cap(b, p_now) as cap, coalesce((p_left ->> b.id)::numeric, budget_used(b, p_now)) as used) as n
  join organizations o on o.id = b.org_id
  where n.used + p_need_nanos > n.cap
$$;

-- A budget as refusals and tickets name it.
create function shown_budget(p_id text, p_owner_type text, p_owner_id text, p_window text, p_limit_nanos numeric,
  p_used_nanos numeric, p_missing_nanos numeric, p_resets_at timestamptz)
returns jsonb language sql stable as $$
  select jsonb_build_object('id', p_id, 'owner_type', p_owner_type, 'owner_id', p_owner_id, 'window', p_window,
    'limit_nanos', p_limit_nanos::text, 'used_nanos', p_used_nanos::text, 'missing_nanos', p_missing_nanos::text,
    'resets_at', iso_time(p_resets_at))
$$;

-- Begins the window that holds this moment, and puts the one before aside. It begins where that one
-- ended if the zone was changed meanwhile: no moment is in two windows, or in none.
create function begin_window(p_budget_id text, p_now timestamptz) returns budgets language plpgsql as $$
declare
  b budgets;
  v_starts_at timestamptz;
  v_ends_at timestamptz;
begin
  select * into b from budgets q where q.id = p_budget_id;
  select w.starts_at, w.ends_at into v_starts_at, v_ends_at
  from organizations o cross join lateral reporting_window(b.budget_window, o.time_zone, p_now) as w where o.id = b.org_id;
  insert into budget_windows (budget_id, starts_at, ends_at, limit_nanos, raised_nanos, spent_nanos, held_nanos)
  values (b.id, b.starts_at, b.ends_at, b.limit_nanos, b.raised_nanos, b.spent_nanos, b.held_nanos);
  update budgets q set starts_at = greatest(v_starts_at, b.ends_at), ends_at = v_ends_at, raised_nanos = 0, spent_nanos = 0,
    held_nanos = 0, emitted_pct = 0, past_until = greatest(q.past_until, b.ends_at)
  where q.id = b.id returning * into b;
  return b;
end $$;

-- Emits that a budget has reached one more of its thresholds; `p_caller` names the call that did it.
create function emit_threshold(b budgets, p_pct integer, p_used_nanos numeric, p_caller jsonb) returns void language plpgsql as $$
begin
  update budgets q set emitted_pct = p_pct where q.id = b.id and q.emitted_pct < p_pct;
  if found then
    perform append_event(b.org_id, 'budget.threshold', jsonb_build_object('budget_id', b.id, 'owner_type', b.owner_type,
      'owner_id', b.owner_id, 'window', b.budget_window, 'threshold_pct', p_pct,
      'limit_nanos', window_cap(b)::text, 'used_nanos', p_used_nanos::text,
      'currency', (select o.currency from organizations o where o.id = b.org_id), 'resets_at', iso_time(b.ends_at)) || p_caller);
  end if;
end $$;

-- Emits the highest threshold that a budget has reached by itself, if it was not emitted yet.
create function emit_standing(b budgets) returns void language plpgsql as $$
declare
  v_pct integer := reached_pct(b, window_used(b), window_cap(b));
begin
  if v_pct > b.emitted_pct then
    perform emit_threshold(b, v_pct, window_used(b), '{}');
  end if;
end $$;

-- When what a budget counts was made: nothing was held for it before.
create function owner_since(b budgets) returns timestamptz language sql stable as $$
  select case b.owner_type
    when 'key' then (select q.created_at from tokens q where q.id = b.owner_id)
    when 'user' then (select q.created_at from users q where q.id = b.owner_id)
    when 'team' then (select q.created_at from teams q where q.id = b.owner_id)
    else (select q.created_at from organizations q where q.id = b.owner_id) end
$$;

-- Sets a budget's count of its window from what was held and spent in it, at its making or at a
-- change of its window. Reservations are found by their ids, which are in the order of time, from
-- the making of the owner on.
create function recount_budget(p_budget_id text, p_now timestamptz) returns void language plpgsql as $$
declare
  b budgets;
  v_since timestamptz;
begin
  select * into b from budgets q where q.id = p_budget_id;
  v_since := greatest(b.starts_at, owner_since(b));
  update reservations r set is_budgeted = true
  where r.org_id = b.org_id and r.status = 'open' and r.created_at >= v_since
    and b.owner_id in (r.org_id, r.key_id, r.user_id, r.team_id);
  update budgets q set (held_nanos, spent_nanos) = (
    select coalesce(sum(r.held_nanos) filter (where r.status = 'open'), 0), coalesce(sum(r.actual_cost_nanos), 0)
    from reservations r
    where r.id >= 'res_' || lpad(to_hex(floor(extract(epoch from v_since - interval '1 minute') * 1000)::bigint), 12, '0')
      and r.org_id = b.org_id and r.created_at >= v_since and b.owner_id in (r.org_id, r.key_id, r.user_id, r.team_id))
  where q.id = b.id returning * into b;
  perform emit_standing(b);
end $$;

-- A waiting call is told at once if a budget was raised, changed or taken away.
create trigger budgets_change after insert or update of limit_nanos, budget_window, on_exceed, raised_nanos, archived_at on budgets
for each row execute function notify_waiters_of_row();

create trigger budgets_record after insert or update of limit_nanos, budget_window, on_exceed, thresholds, archived_at on budgets
for each row execute function record_change('budget', 'id');

-- The fifth proof: what audit_4() says, and that each budget has counted what was held and spent in
-- its windows, and was raised by what approvals say.
create function audit_5() returns table(check_name text, wallet_id text, detail text) language sql stable as $$
  select * from audit_4()
  union all
  select 'budget_counts', null, w.budget_id || ' from ' || iso_time(w.starts_at) || ': counted ' || w.held_nanos || ' held, '
    || w.spent_nanos || ' spent; is ' || n.held || ', ' || n.spent
  from (
    select b.id as budget_id, b.org_id, b.owner_id, b.starts_at, null::timestamptz as ends_at, b.held_nanos, b.spent_nanos
    from budgets b where b.archived_at is null
    union all
    select b.id, b.org_id, b.owner_id, p.starts_at, p.ends_at, p.held_nanos, p.spent_nanos
    from budget_windows p join budgets b on b.id = p.budget_id where b.archived_at is null
  ) as w
  cross join lateral (
    select coalesce(sum(r.held_nanos) filter (where r.status = 'open'), 0) as held, coalesce(sum(r.actual_cost_nanos), 0) as spent
    from reservations r
    where r.id >= 'res_' || lpad(to_hex(floor(extract(epoch from w.starts_at - interval '1 minute') * 1000)::bigint), 12, '0')
      and (w.ends_at is null
        or r.id < 'res_' || lpad(to_hex(floor(extract(epoch from w.ends_at + interval '1 minute') * 1000)::bigint), 12, '0'))
      and r.org_id = w.org_id and r.created_at >= w.starts_at and coalesce(r.created_at < w.ends_at, true)
      and w.owner_id in (r.org_id, r.key_id, r.user_id, r.team_id)
  ) as n
  where (w.held_nanos, w.spent_nanos) is distinct from (n.held, n.spent)
  union all
  select 'budget_raises', null, b.id || ': raised by ' || b.raised_nanos || ', approvals say ' || n.raised
  from budgets b
  cross join lateral (select coalesce(sum(x.amount_nanos), 0) as raised from budget_raises x
    where x.budget_id = b.id and x.window_starts_at = b.starts_at and x.budget_window = b.budget_window) as n
  where b.raised_nanos <> n.raised
$$;

-- Changes what people set of a budget. Another window begins with what was held and spent in it so
-- far; the one before is put aside, and goes on counting what becomes of its holds.
create function change_budget(p_id text, p_limit_nanos bigint, p_window text, p_on_exceed text, p_thresholds integer[],
  p_now timestamptz) returns void language plpgsql as $$
declare
  b budgets;
begin
  select * into b from budgets q where q.id = p_id;
  if b.ends_at <= p_now then
    b := begin_window(b.id, p_now);
  end if;
  if p_window <> b.budget_window then
    insert into budget_windows (budget_id, starts_at, ends_at, limit_nanos, raised_nanos, spent_nanos, held_nanos)
    values (b.id, b.starts_at, p_now, b.limit_nanos, b.raised_nanos, b.spent_nanos, b.held_nanos);
    update budgets q set budget_window = p_window, starts_at = w.starts_at, ends_at = w.ends_at, emitted_pct = 0, past_until = p_now,
      raised_nanos = (select coalesce(sum(x.amount_nanos), 0) from budget_raises x
        where x.budget_id = b.id and x.window_starts_at = w.starts_at and x.budget_window = p_window)
    from organizations o cross join lateral reporting_window(p_window, o.time_zone, p_now) as w
    where q.id = b.id and o.id = b.org_id;
  end if;
  -- What was emitted of a smaller limit may be emitted again of a larger one.
  update budgets q set limit_nanos = p_limit_nanos, on_exceed = p_on_exceed, thresholds = p_thresholds, updated_at = p_now,
    emitted_pct = case when p_limit_nanos <> b.limit_nanos then 0 else q.emitted_pct end
  where q.id = b.id;
  if p_window <> b.budget_window then
    perform recount_budget(b.id, p_now);
    return;
  end if;
  select * into b from budgets q where q.id = p_id;
  perform emit_standing(b);
end $$;

-- The zone is a setting like the others.
drop trigger organizations_record on organizations;
create trigger organizations_record
after insert or update of name, currency, reserve_buffer_pct, low_balance_threshold_nanos, reservation_ttl_seconds,
  ticket_ttl_seconds, default_max_completion_tokens, manual_credit, wallet_user_topup_enabled, time_zone, archived_at on organizations
for each row execute function record_change('organization', 'id');
