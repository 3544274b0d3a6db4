-- Reserve and settle with budgets. The functions keep their names: there can be one count of what a
-- budget allows, and an API of the version before serves the same calls.

-- Whether budgets let one more hold pass: `code` refuses it, and `is_short` asks for a ticket.
create type budget_verdict as (
  code text,
  is_short boolean,
  refused jsonb,
  warnings jsonb,
  -- What each budget has counted by then, holds of this batch included.
  used jsonb
);

-- Judges one hold by the budgets that count it, and begins their windows. One that refuses stands
-- before those that ask.
create function judge_budgets(p_org_id text, i reserve_item, p_held_nanos numeric, p_now timestamptz, p_made reservations[])
returns budget_verdict language plpgsql as $$
declare
  v budget_verdict;
  b budgets;
  v_used numeric;
  v_cap numeric;
begin
  v.used := '{}';
  for b in select * from budgets_of(p_org_id, i.key_id, i.user_id, i.team_id) q order by q.id loop
    if b.ends_at <= p_now then
      b := begin_window(b.id, p_now);
    end if;
    v_used := window_used(b) + (select coalesce(sum(m.held_nanos), 0) from unnest(p_made) as m
      where b.owner_id in (m.org_id, m.key_id, m.user_id, m.team_id));
    v_cap := window_cap(b);
    v.used := v.used || jsonb_build_object(b.id, v_used::text);
    if v_used + p_held_nanos > v_cap then
      -- A full budget is emitted, although no hold fills it to the last nano.
      if 100 = any (b.thresholds) and b.emitted_pct < 100 and v_cap > 0 then
        perform emit_threshold(b, 100, v_used, jsonb_build_object('request_id', i.request_id, 'agent_id', i.agent_id)
          || caller(trace_of(i.request_id), i.user_id, i.key_id, i.team_id));
      end if;
      if b.on_exceed = 'ticket' then
        v.is_short := true;
      elsif v.refused is null or coalesce(b.ends_at, 'infinity') > coalesce((v.refused ->> 'resets_at')::timestamptz, 'infinity') then
        v.code := 'key_budget_exceeded';
        v.refused := shown_budget(b.id, b.owner_type, b.owner_id, b.budget_window, v_cap, v_used, v_used + p_held_nanos - v_cap,
          b.ends_at);
      end if;
    elsif reached_pct(b, v_used + p_held_nanos, v_cap) > 0 then
      v.warnings := coalesce(v.warnings, '[]') || budget_warning(b, v_used + p_held_nanos);
    end if;
  end loop;
  return v;
end $$;

-- Whether budgets count a caller, and how much may be held before one of them refuses, warns or emits;
-- nothing if a window is to begin.
create function quiet_room(p_org_id text, p_caller text[], p_now timestamptz, out is_budgeted boolean, out nanos numeric)
language sql stable as $$
  select count(*) > 0, min(case when b.ends_at <= p_now then 0
    else least(window_cap(b), b.warns_at_nanos, b.emits_at_nanos) - window_used(b) end)
  from budgets_of(p_org_id, p_caller[1], p_caller[2], p_caller[3]) as b
$$;

-- Holds the estimated cost of requests, in the given order. Invariant: one wallet pays for a hold, the first of user, team and
-- organization whose balance covers it; the sum of holds never exceeds the money that was available; a request_id holds once;
-- no cap on an agent is passed, and no budget. Every decision is made on balances read under the lock, and all are written together at the
-- end. If an item has a `wallet_id`, that wallet alone may pay (none may if it is empty); a `cost_ticket_id` is kept on the hold. Any
-- other item leaves alone what is kept for calls that wait.
create or replace function reserve_2(p_org_id text, p_items jsonb) returns setof lane_row language plpgsql as $$
declare
  v_org organizations;
  v_now timestamptz;
  v_rate numeric;
  f reserve_fact;
  q quote;
  w cascade_wallet;
  r reservations;
  v_held numeric;
  v_room bigint;
  v_code text;
  v_caps cap_verdict;
  v_row lane_row;
  -- Balances of wallets, room of keys and counts of constraints as this batch leaves them, by id.
  v_left jsonb := '{}';
  v_made reservations[] := '{}';
  v_is_trimmed boolean := false;
  v_has_budgets boolean;
  v_has_rules boolean;
  v_budgets budget_verdict;
  -- The caller of the last item, and what may be held for it before a budget has something to say.
  v_caller text[];
  v_is_budgeted boolean;
  v_quiet_nanos numeric;
  v_taken_nanos numeric := 0;
  v_uncovered lane_row[] := '{}';
  v_unpaid reserve_item[] := '{}';
begin
  v_org := lock_organization(p_org_id);
  v_now := clock_timestamp();
  -- Overdue holds are given back before anything is refused for want of them.
  if exists (select 1 from reservations o where o.org_id = p_org_id and o.status = 'open' and o.expires_at <= v_now) then
    perform expire_holds(p_org_id);
  end if;
  v_rate := rate_of(v_org.currency);
  v_has_budgets := exists (select 1 from budgets b where b.org_id = p_org_id and b.archived_at is null);
  v_has_rules := exists (select 1 from approval_rules x where x.org_id = p_org_id and x.archived_at is null);

  for f in select * from reserve_facts(p_org_id, p_items, v_now) loop
    if (f.earlier).id is not null then
      return next repeated_reserve(f);
      continue;
    end if;

    q := quote_reserve(f.body, v_org.default_max_completion_tokens);
    v_held := amount_to_hold(q.usd_nanos, v_rate, v_org.reserve_buffer_pct);
    v_room := coalesce((v_left ->> (f.body).key_id)::bigint, f.key_room_nanos);
    v_code := reserve_refusal(v_org, f, q, v_rate, v_held, v_room, v_made);
    v_caps := null;
    if v_code is null and f.has_caps then
      v_caps := judge_caps(f.body, v_held, v_now, v_left);
      v_code := case when v_caps.refused_id is not null then 'usage_constraint_exceeded' end;
    end if;
    v_budgets := null;
    if v_code is null and v_has_budgets then
      if v_caller is distinct from array[(f.body).key_id, (f.body).user_id, (f.body).team_id] then
        v_caller := array[(f.body).key_id, (f.body).user_id, (f.body).team_id];
        select * into v_is_budgeted, v_quiet_nanos from quiet_room(p_org_id, v_caller, v_now);
      end if;
      -- Nothing happens to a budget that has room for all of this batch and the item.
      if v_is_budgeted and v_taken_nanos + v_held >= v_quiet_nanos then
        v_budgets := judge_budgets(p_org_id, f.body, v_held, v_now, v_made);
        v_code := v_budgets.code;
      end if;
    end if;
    if v_code is not null then
      v_row := refused_reserve(f, q, v_code, v_caps.resets_at);
      if v_budgets.refused is not null then
        v_row.warnings := jsonb_build_array(v_budgets.refused || jsonb_build_object('currency', v_org.currency));
      end if;
      if v_caps.refused is not null then
        v_row.warnings := jsonb_build_array(v_caps.refused || jsonb_build_object('currency', v_org.currency));
      end if;
      return next v_row;
      continue;
    end if;

    w := case when v_budgets.is_short then null else paying_wallet(f, v_held, v_left) end;
    -- Nothing is refused for the sake of calls that have gone.
    if w.id is null and not coalesce(v_budgets.is_short, false) and f.forced_wallet_id is null
        and greatest((f.user_wallet).kept_nanos, (f.team_wallet).kept_nanos, (f.org_wallet).kept_nanos) > 0 then
      if not v_is_trimmed then
        perform trim_kept(p_org_id);
        v_is_trimmed := true;
      end if;
      f.user_wallet := with_kept(f.user_wallet);
      f.team_wallet := with_kept(f.team_wallet);
      f.org_wallet := with_kept(f.org_wallet);
      w := paying_wallet(f, v_held, v_left);
    end if;
    if w.id is null then
      v_row := uncovered_reserve(f.n, v_org.currency, ceil(q.usd_nanos * v_rate), v_held,
        open_ticket_2(v_org, f.body, v_held::bigint, case when f.forced_wallet_id is null then free_balances(f, v_left) else v_left end
          || coalesce(v_budgets.used, '{}')));
      if v_has_rules and f.forced_wallet_id is null and (v_row.answer).cost_ticket is not null then
        v_uncovered := array_append(v_uncovered, v_row);
        v_unpaid := array_append(v_unpaid, f.body);
      else
        return next v_row;
      end if;
      continue;
    end if;

    if f.forced_wallet_id is not null and w.kept_nanos > 0 then
      -- What lies beside the kept money pays for a younger call; the kept money stays the older's.
      update wallets x set kept_nanos = greatest(x.kept_nanos - v_held, 0) where x.id = w.id
        and coalesce((v_left ->> w.id)::bigint, w.balance_nanos) - x.kept_nanos < v_held;
    end if;
    w.balance_nanos := coalesce((v_left ->> w.id)::bigint, w.balance_nanos) - v_held;
    v_left := v_left || jsonb_build_object(w.id, w.balance_nanos::text);
    if v_room is not null then
      v_left := v_left || jsonb_build_object((f.body).key_id, (v_room - v_held)::text);
    end if;
    if f.has_caps then
      v_left := v_left || v_caps.left_after;
    end if;
    r := paid_hold(f, v_org, q, v_rate, v_held, w, v_now);
    if v_has_budgets and v_is_budgeted then
      r.is_budgeted := true;
    end if;
    v_taken_nanos := v_taken_nanos + v_held;
    v_made := array_append(v_made, r);
    return next held_reserve(f.n, r, w.balance_nanos, nullif(coalesce(v_caps.warnings, '[]') || coalesce(v_budgets.warnings, '[]'), '[]'));
  end loop;
  if cardinality(v_made) > 0 then
    perform write_holds(v_org, v_made, hold_entries(v_made), v_now);
  end if;
  -- Once the others are written: a rule that approves a ticket holds for its call.
  for n in 1 .. cardinality(v_uncovered) loop
    return next ruled_reserve(v_org, v_uncovered[n], v_unpaid[n]);
  end loop;
end $$;
