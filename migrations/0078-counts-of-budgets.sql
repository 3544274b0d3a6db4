-- How budgets are counted: once for all items of a batch, in one statement for a call alone, and by a
-- trigger for what happens to a reservation else.

-- Keeps the use at which calls are warned, and the one at which the next threshold is emitted.
create function mark_budget() returns trigger language plpgsql as $$
begin
  select ceil(min(t) * n.cap / 100), ceil(min(t) filter (where t > new.emitted_pct) * n.cap / 100)
  into new.warns_at_nanos, new.emits_at_nanos
  from (select window_cap(new) as cap) as n
  left join unnest(new.thresholds) as t on n.cap > 0
  group by n.cap;
  return new;
end $$;

create trigger budgets_mark before insert or update of limit_nanos, raised_nanos, thresholds, emitted_pct on budgets
for each row execute function mark_budget();

-- What a call adds to the budgets that count it.
create type budget_move as (
  reservation_id text,
  key_id text,
  user_id text,
  team_id text,
  created_at timestamptz,
  held_nanos bigint,
  spent_nanos bigint
);

-- Counts one move in the window in which its hold was made. True if a threshold is to be emitted.
create function count_in_budgets(p_org_id text, m budget_move) returns boolean language plpgsql as $$
declare
  v_is_past boolean;
  v_emits boolean;
begin
  with moved as (
    update budgets q
    set held_nanos = q.held_nanos + case when q.starts_at <= m.created_at then m.held_nanos else 0 end,
      spent_nanos = q.spent_nanos + case when q.starts_at <= m.created_at then m.spent_nanos else 0 end
    where q.org_id = p_org_id and q.owner_id in (p_org_id, m.key_id, m.user_id, m.team_id) and q.archived_at is null
    returning q.past_until > m.created_at as is_past, window_used(q) >= q.emits_at_nanos as emits
  )
  select bool_or(is_past), bool_or(emits) into v_is_past, v_emits from moved;
  if v_is_past then
    perform count_in_past(p_org_id, array[m]);
  end if;
  return coalesce(v_emits, false);
end $$;

-- Counts moves in windows that are over.
create function count_in_past(p_org_id text, p_moves budget_move[]) returns void language sql as $$
  update budget_windows w set held_nanos = w.held_nanos + s.held_nanos, spent_nanos = w.spent_nanos + s.spent_nanos
  from (
    select p.budget_id, p.starts_at, p.ends_at, sum(m.held_nanos) as held_nanos, sum(m.spent_nanos) as spent_nanos
    from unnest(p_moves) as m
    join budgets b on b.org_id = p_org_id and b.owner_id in (p_org_id, m.key_id, m.user_id, m.team_id) and b.archived_at is null
      and b.past_until > m.created_at
    join budget_windows p on p.budget_id = b.id and p.starts_at <= m.created_at and m.created_at < p.ends_at
    group by 1, 2, 3
  ) as s
  where (w.budget_id, w.starts_at, w.ends_at) = (s.budget_id, s.starts_at, s.ends_at)
$$;

-- Counts all moves of a batch: each budget once.
create function count_moves(p_org_id text, p_moves budget_move[]) returns void language plpgsql as $$
declare
  v_is_past boolean;
  v_emits boolean;
begin
  with callers as (
    select m.key_id, m.user_id, m.team_id, sum(m.held_nanos) as held_nanos, sum(m.spent_nanos) as spent_nanos,
      min(m.created_at) as since
    from unnest(p_moves) as m group by 1, 2, 3
  ), sums as (
    select b.id, sum(c.held_nanos) as held_nanos, sum(c.spent_nanos) as spent_nanos, min(c.since) as since
    from callers c
    cross join lateral (select q.id from budgets q where q.org_id = p_org_id
      and q.owner_id in (p_org_id, c.key_id, c.user_id, c.team_id) and q.archived_at is null) as b
    group by 1
  ), moved as (
    update budgets q
    set held_nanos = q.held_nanos + case when q.starts_at <= s.since then s.held_nanos
        else (select coalesce(sum(m.held_nanos), 0) from unnest(p_moves) as m
          where m.created_at >= q.starts_at and q.owner_id in (p_org_id, m.key_id, m.user_id, m.team_id)) end,
      spent_nanos = q.spent_nanos + case when q.starts_at <= s.since then s.spent_nanos
        else (select coalesce(sum(m.spent_nanos), 0) from unnest(p_moves) as m
          where m.created_at >= q.starts_at and q.owner_id in (p_org_id, m.key_id, m.user_id, m.team_id)) end
    from sums s where q.id = s.id
    returning q.past_until > s.since as is_past, window_used(q) >= q.emits_at_nanos as emits
  )
  select bool_or(is_past), bool_or(emits) into v_is_past, v_emits from moved;
  if v_is_past then
    perform count_in_past(p_org_id, p_moves);
  end if;
  if v_emits then
    perform emit_reached(p_org_id, p_moves);
  end if;
end $$;

-- Emits what moves have reached: each threshold with the call that did it.
create function emit_reached(p_org_id text, p_moves budget_move[]) returns void language plpgsql as $$
declare
  s record;
  r reservations;
begin
  for s in
    select b as budget, window_used(b) as used,
      (select x.reservation_id from (
        select m.reservation_id, m.n, sum(m.held_nanos + m.spent_nanos) over (order by m.n desc) - m.held_nanos - m.spent_nanos as later
        from unnest(p_moves) with ordinality as m (reservation_id, key_id, user_id, team_id, created_at, held_nanos, spent_nanos, n)
        where b.owner_id in (p_org_id, m.key_id, m.user_id, m.team_id)) as x
      where window_used(b) - x.later >= b.emits_at_nanos order by x.n limit 1) as reservation_id
    from budgets b
    where b.id in (select q.id from unnest(p_moves) as m cross join lateral budgets_of(p_org_id, m.key_id, m.user_id, m.team_id) as q)
      and window_used(b) >= b.emits_at_nanos
    order by b.id
  loop
    select * into r from reservations q where q.id = s.reservation_id;
    perform emit_threshold(s.budget, reached_pct(s.budget, s.used, window_cap(s.budget)), s.used,
      jsonb_build_object('request_id', r.request_id, 'agent_id', r.agent_id) || caller_of_hold(r));
  end loop;
end $$;

create function count_holds(p_org_id text, p_holds reservations[]) returns void language plpgsql as $$
begin
  perform count_moves(p_org_id, (select array_agg((h.id, h.key_id, h.user_id, h.team_id, h.created_at, h.held_nanos, 0)::budget_move
    order by h.n) from (select x.*, row_number() over () as n from unnest(p_holds) as x) as h where h.is_budgeted));
end $$;

-- What settles late was given back when it expired, and may be counted by a budget that is younger.
create function count_closings(p_org_id text, p_closing settlement[]) returns void language plpgsql as $$
begin
  perform count_moves(p_org_id, (select array_agg((r.id, r.key_id, r.user_id, r.team_id, r.created_at,
    case s.status when 'late' then 0 else -r.held_nanos end, s.cost_nanos)::budget_move order by s.n)
    from unnest(p_closing) as s cross join lateral (select (s.reservation).*) as r
    where r.is_budgeted or s.status = 'late'));
end $$;

-- Of a cost that a person adds.
create function count_change() returns trigger language plpgsql as $$
declare
  m budget_move := (new.id, new.key_id, new.user_id, new.team_id, new.created_at, 0,
    coalesce(new.actual_cost_nanos, 0) - coalesce(old.actual_cost_nanos, 0))::budget_move;
begin
  if count_in_budgets(new.org_id, m) then
    perform emit_reached(new.org_id, array[m]);
  end if;
  return null;
end $$;

create trigger reservations_count_budgets after update of status on reservations
for each row when (old.status in ('settled', 'late')) execute function count_change();

-- Expires every overdue hold of an organization, each once: a settlement of +held with cost 0, its
-- budgets' room back, and an event that says whether a call had the hold and its end was never told;
-- what an approval held for a call that never came is not that.
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
  if exists (select 1 from unnest(v_expired) as e where e.is_budgeted) then
    perform count_moves(p_org_id, (select array_agg((e.id, e.key_id, e.user_id, e.team_id, e.created_at, -e.held_nanos, 0)::budget_move)
      from unnest(v_expired) as e where e.is_budgeted));
  end if;
  perform append_event(p_org_id, 'reservation.expired', jsonb_build_object('reservation_id', e.id,
      'request_id', e.request_id, 'agent_id', e.agent_id, 'wallet_id', e.wallet_id, 'held_nanos', e.held_nanos::text,
      'currency', e.currency, 'unsettled', not exists (select 1 from cost_tickets t where t.id = e.cost_ticket_id
        and t.request_id is distinct from e.request_id))
    || caller_of_hold(e))
  from unnest(v_expired) as e;
  return cardinality(v_expired);
end $$;

-- Writes a batch's holds with their entries, keys' holds and last use, and wakes the organization's
-- lifetimes workflow where none runs or the new deadline comes before the one it sleeps to.
create or replace function write_holds(p_org organizations, p_holds reservations[], p_entries ledger_entry[],
  p_now timestamptz)
returns void language plpgsql as $$
declare
  v_next timestamptz := p_holds[1].expires_at;
begin
  insert into reservations select * from unnest(p_holds);
  if exists (select 1 from unnest(p_holds) as h where h.is_budgeted) then
    perform count_holds(p_org.id, p_holds);
  end if;
  perform from post_entries(p_org.id, p_entries);
  update tokens t set held_nanos = t.held_nanos + d.held_nanos,
    last_used_at = case when t.last_used_at > p_now - interval '1 minute' then t.last_used_at else p_now end
  from (select h.key_id, sum(h.held_nanos) as held_nanos from unnest(p_holds) as h where h.key_id is not null group by 1) as d
  where t.id = d.key_id;
  if p_org.lifetimes_next_at is null or v_next < p_org.lifetimes_next_at then
    update organizations o set lifetimes_next_at = v_next where o.id = p_org.id;
    perform send_to_workflow(p_org.id, 'reservationLifetimes', 'lifetimes-' || p_org.id, 'wake',
      jsonb_build_object('org_id', p_org.id));
  end if;
end $$;

-- The entries of a settle have one more column, which the zipped rows name.
create or replace function settle_3(p_org_id text, p_items jsonb)
returns setof lane_answer language plpgsql as $$
declare
  v_now timestamptz;
  v_items settlement[];
  v_closing settlement[];
begin
  perform lock_organization(p_org_id);
  v_now := clock_timestamp();
  v_items := judge_settlements_3(p_org_id, p_items);
  v_closing := array(select s from unnest(v_items) as s where s.code is null);
  if cardinality(v_closing) < cardinality(v_items) then
    return query select * from answer_unclosed(p_org_id, v_items, v_now);
  end if;
  if cardinality(v_closing) = 0 then
    return;
  end if;

  update tokens t set held_nanos = t.held_nanos - d.held_nanos, spent_nanos = t.spent_nanos + d.cost_nanos
  from (select (s.reservation).key_id, sum(s.cost_nanos) as cost_nanos,
      coalesce(sum((s.reservation).held_nanos) filter (where s.status <> 'late'), 0) as held_nanos
    from unnest(v_closing) as s group by 1) as d
  where t.id = d.key_id;
  update reservations r
  set status = s.status, closed_at = v_now, actual_cost_nanos = s.cost_nanos, outcome = s.outcome, usage = s.usage,
    usage_source = s.usage_source, settled_provider = s.provider, settled_model = s.model
  from unnest(v_closing) as s where r.id = (s.reservation).id;
  if exists (select 1 from unnest(v_closing) as s where (s.reservation).is_budgeted or s.status = 'late') then
    perform count_closings(p_org_id, v_closing);
  end if;
  if exists (select 1 from unnest(v_closing) as s where s.excess_nanos > 0 or s.is_unpriced) then
    perform note_settlements(p_org_id, v_closing, v_now);
  end if;
  -- Entries come back in the order they were given, so the two lists are zipped, not joined.
  return query
    select 'settle', z.n, null::text, null::text, (z.reservation).id, z.status, (z.reservation).wallet_id,
      (z.reservation).wallet_owner_type, (z.reservation).currency, (z.reservation).estimated_nanos,
      (z.reservation).held_nanos, z.cost_nanos::bigint,
      case z.status when 'late' then 0 else greatest((z.reservation).held_nanos - z.cost_nanos, 0)::bigint end,
      z.balance_after_nanos, z.entry_id, (z.reservation).expires_at, null::jsonb
    from rows from (post_entries(p_org_id, closing_entries(v_closing)), unnest(v_closing)) as z (entry_id, wallet_id, org_id,
      seq, type, amount_nanos, balance_after_nanos, provider, model, reservation_id, phase, actual_cost_nanos, transfer_id,
      payment_session_id, description, created_at, actor, n, code, reservation, request_id, status, cost_nanos, chosen_provider,
      chosen_model, outcome, usage, usage_source);
end $$;

-- A row as an audit event shows it: money is decimal text, as in events; what changes by itself, what is secret, and what
-- configurations hold are left out.
create or replace function shown_row(p_row jsonb) returns jsonb language sql immutable as $$
  select jsonb_object_agg(m.key, case
    when m.key not like '%\_nanos' or m.value = 'null' then m.value
    when jsonb_typeof(m.value) = 'array' then (select coalesce(jsonb_agg(a #>> '{}'), '[]') from jsonb_array_elements(m.value) as a)
    else to_jsonb(m.value #>> '{}') end)
  from jsonb_each(p_row - '{updated_at,last_used_at,spent_nanos,held_nanos,balance_nanos,reserved_nanos,seq,lifetimes_next_at,
    counted_from,config,changes,credentials,webhook_secret,previous_webhook_secret,hash,warns_at_nanos,emits_at_nanos,emitted_pct,
    past_until,approved_nanos,approvals,day_ends_at}'::text[]) as m
$$;
