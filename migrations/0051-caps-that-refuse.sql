-- Refusals by a cap say which cap refused, and what it has counted.

alter type cap_verdict add attribute refused jsonb;
comment on column cap_verdict.refused is
'The constraint that refuses, as a warning, with what its window has counted (current_value) and what the hold adds
(needed).';
comment on column lane_row.warnings is
'Constraints with mode `warn` that this hold exceeds: [{id, constraint_type, interval, max_value, resets_at}]; of a refusal by
a cap the one that refuses, with current_value, needed and currency.';

create or replace function judge_caps(i reserve_item, p_held_nanos numeric, p_now timestamptz, p_left jsonb) returns cap_verdict
language plpgsql stable as $$
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
    v_needed := case c.constraint_type when 'cost' then p_held_nanos else 1 end;
    v_after := coalesce((p_left ->> c.id)::numeric, case c.constraint_type when 'cost' then c.cost_nanos else c.responses end)
      + v_needed;
    v.left_after := v.left_after || jsonb_build_object(c.id, v_after);
    continue when v_after <= c.max_value * v_unit;
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

-- Holds the estimated cost of requests, in the given order. Invariant: one wallet pays for a hold, the first of user, team and
-- organization whose balance covers it; the sum of holds never exceeds the money that was available; a request_id holds once;
-- no cap on an agent is passed. Every decision is made on balances read under the lock, and all are written together at the
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
begin
  v_org := lock_organization(p_org_id);
  v_now := clock_timestamp();
  -- Overdue holds are given back before anything is refused for want of them.
  if exists (select 1 from reservations o where o.org_id = p_org_id and o.status = 'open' and o.expires_at <= v_now) then
    perform expire_holds(p_org_id);
  end if;
  v_rate := rate_of(v_org.currency);

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
    if v_code is not null then
      v_row := refused_reserve(f, q, v_code, v_caps.resets_at);
      if v_caps.refused is not null then
        v_row.warnings := jsonb_build_array(v_caps.refused || jsonb_build_object('currency', v_org.currency));
      end if;
      return next v_row;
      continue;
    end if;

    w := paying_wallet(f, v_held, v_left);
    -- Nothing is refused for the sake of calls that have gone.
    if w.id is null and f.forced_wallet_id is null
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
      return next uncovered_reserve(f.n, v_org.currency, ceil(q.usd_nanos * v_rate), v_held,
        open_ticket_2(v_org, f.body, v_held::bigint, case when f.forced_wallet_id is null then free_balances(f, v_left) else v_left end));
      continue;
    end if;

    if f.forced_wallet_id is not null and w.kept_nanos > 0 then
      update wallets x set kept_nanos = greatest(x.kept_nanos - v_held, 0) where x.id = w.id;
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
    v_made := array_append(v_made, r);
    return next held_reserve(f.n, r, w.balance_nanos, v_caps.warnings);
  end loop;
  if cardinality(v_made) > 0 then
    perform write_holds(v_org, v_made, hold_entries(v_made), v_now);
  end if;
end $$;
