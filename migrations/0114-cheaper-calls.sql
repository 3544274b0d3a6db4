-- Calls that cost nothing are held for, whatever a wallet owes and whatever a key, a budget, a cap
-- or a session has spent; calls that wait are reckoned anew whenever what they cost has changed.

alter table ticket_waiters
  -- Null: the call costs nothing whatever it uses.
  alter column need_nanos drop not null,
  -- It needs so much by the prices of this moment.
  add column priced_at timestamptz not null default now();

-- True if a call costs nothing, whatever it uses: each price that it may be charged is free, or
-- times a factor of 0. An own key's factor is on everything but the price per request. An estimate
-- of zero says less: such a call may cost something.
create function costs_nothing(p_org organizations, i reserve_item)
returns boolean language sql stable as $$
  select coalesce(bool_and(p.free or (
      (k.id is null or (k.price_factor = 0 and coalesce(p.per_request, 0) = 0
        and not coalesce(jsonb_path_exists(p.service_tiers, '$.**.per_request ? (@ > 0)'), false)
        and not coalesce(jsonb_path_exists(p.tiers, '$.**.per_request ? (@ > 0)'), false)
        and not coalesce(jsonb_path_exists(p.regions, '$.**.per_request ? (@ > 0)'), false)))
      and (k.own_keys is not distinct from 'only' or p_org.price_factor = 0))), false)
  from (select i.provider as provider, i.model as model
    union all select f ->> 'provider', f ->> 'model' from jsonb_array_elements(i.fallbacks) as f) as m
  cross join lateral price_for(m.provider, m.model) as p
  left join provider_keys k on i.own_keys and k.org_id = p_org.id and k.provider = m.provider and k.revoked_at is null
$$;

-- Chooses the one wallet that pays for a hold: the first of user, team and organization that
-- covers it; null if none does. A hold of null is of a call that costs nothing: if no wallet
-- covers zero, the first that there is pays.
create or replace function paying_wallet(f reserve_fact, p_held_nanos numeric, p_left jsonb)
returns cascade_wallet language sql immutable as $$
  select case
    when wallet_covers(f.user_wallet, f.forced_wallet_id, coalesce(p_held_nanos, 0), p_left) then f.user_wallet
    when wallet_covers(f.team_wallet, f.forced_wallet_id, coalesce(p_held_nanos, 0), p_left) then f.team_wallet
    when wallet_covers(f.org_wallet, f.forced_wallet_id, coalesce(p_held_nanos, 0), p_left) then f.org_wallet
    when p_held_nanos is not null then null
    when (f.user_wallet).id = coalesce(f.forced_wallet_id, (f.user_wallet).id) then f.user_wallet
    when (f.team_wallet).id = coalesce(f.forced_wallet_id, (f.team_wallet).id) then f.team_wallet
    when (f.org_wallet).id = coalesce(f.forced_wallet_id, (f.org_wallet).id) then f.org_wallet end
$$;

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

-- Judges one hold by the budgets that count it, and begins their windows. One that refuses stands
-- before those that ask. A hold of null is of a call that costs nothing, which exceeds no budget.
create or replace function judge_budgets(p_org_id text, i reserve_item, p_held_nanos numeric,
  p_now timestamptz, p_made reservations[])
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
      perform emit_refusal(b, v_used, jsonb_build_object('request_id', i.request_id, 'agent_id', i.agent_id)
        || caller(trace_of(i.request_id), i.user_id, i.key_id, i.team_id));
      if b.on_exceed = 'ticket' then
        v.is_short := true;
      elsif v.refused is null or coalesce(b.ends_at, 'infinity') > coalesce((v.refused ->> 'resets_at')::timestamptz, 'infinity') then
        v.code := 'key_budget_exceeded';
        v.refused := shown_budget(b.id, b.owner_type, b.owner_id, b.budget_window, v_cap, v_used, v_used + p_held_nanos - v_cap,
          b.ends_at);
      end if;
    elsif reached_pct(b, v_used + coalesce(p_held_nanos, 0), v_cap) > 0 then
      v.warnings := coalesce(v.warnings, '[]') || budget_warning(b, v_used + coalesce(p_held_nanos, 0));
    end if;
  end loop;
  return v;
end $$;

-- Holds the estimated cost of requests, in the given order. Invariant: one wallet pays for a hold,
-- the first of user, team and organization whose balance covers it; the sum of holds never exceeds
-- the money that was available; a request_id holds once; no cap on an agent is passed, and no
-- budget. Every decision is made on balances read under the lock, and all are written together at
-- the end. If an item has a `wallet_id`, that wallet alone may pay (none may if it is empty); a
-- `cost_ticket_id` is kept on the hold. Any other item leaves alone what is kept for calls that
-- wait. A call that costs nothing whatever it uses needs no money, and exceeds nothing.
create or replace function reserve_2(p_org_id text, p_items jsonb)
returns setof lane_row language plpgsql as $$
declare
  v_org organizations;
  v_now timestamptz;
  v_rate numeric;
  f reserve_fact;
  q quote;
  w cascade_wallet;
  r reservations;
  v_held numeric;
  -- The same, but null if the call costs nothing whatever it uses: that needs no money and no room.
  v_need numeric;
  v_body reserve_item;
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

    q := quote_reserve_3(v_org, f.body);
    v_held := amount_to_hold(q.usd_nanos, v_rate, v_org.reserve_buffer_pct);
    v_room := coalesce((v_left ->> (f.body).key_id)::bigint, f.key_room_nanos);
    v_need := v_held;
    if v_held = 0 and costs_nothing(v_org, f.body) then
      v_need := null;
      v_body := f.body;
      v_body.session_max_cost_usd := null;
      f.body := v_body;
    end if;
    v_code := reserve_refusal(v_org, f, q, v_rate, v_held, case when v_need is not null then v_room end, v_made);
    v_caps := null;
    if v_code is null and f.has_caps then
      v_caps := judge_caps(f.body, v_need, v_now, v_left);
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
        v_budgets := judge_budgets(p_org_id, f.body, v_need, v_now, v_made);
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

    w := case when v_budgets.is_short then null else paying_wallet(f, v_need, v_left) end;
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
      w := paying_wallet(f, v_need, v_left);
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

-- True if a call that waits for so much can no longer be served, however much money comes: its
-- organization is suspended, its key has ended or has spent its budget, its person, team or agent
-- is gone, a cap of its agent or the limits of its session are reached. Each waiting call is
-- looked at in each turn, so what costs more stands last, behind a look whether there is such a
-- bound at all. A need of null is of a call that costs nothing.
create or replace function waiter_has_ended(t cost_tickets, p_need_nanos bigint)
returns boolean language sql stable as $$
  select key_has_ended(t)
    or exists (select 1 from organizations o where o.id = t.org_id and o.suspended_at is not null)
    or (t.key_id is not null and exists (select 1 from tokens k where k.id = t.key_id
      and k.max_budget_nanos - k.spent_nanos - k.held_nanos < p_need_nanos))
    or (t.team_id is not null and exists (select 1 from teams q where q.id = t.team_id and q.archived_at is not null))
    or (t.agent_id is not null and exists (select 1 from agents q where q.id = t.agent_id and q.archived_at is not null))
    or (t.agent_id is not null and exists (select 1 from usage_constraints c where c.agent_id = t.agent_id
        and c.archived_at is null and c.enforcement_mode = 'reject')
      and (judge_caps(jsonb_populate_record(null::reserve_item, t.reserve), p_need_nanos, clock_timestamp(), '{}')).refused_id
        is not null)
    or (t.reserve ?| array['session_max_actions', 'session_max_cost_usd']
      and exists (select 1 from organizations o
        cross join lateral jsonb_populate_record(null::reserve_item,
          case when p_need_nanos is null then t.reserve - 'session_max_cost_usd' else t.reserve end) as i
        cross join lateral quote_reserve_3(o, i) as q
        where o.id = t.org_id and session_is_full(t.org_id, i, q.usd_nanos, '{}')))
$$;

-- True where a waiting call may have something to hear: its ticket was decided, it can no longer
-- be served, money is there, or it costs nothing by now.
create or replace function waiters_may_go(p_org_id text) returns boolean language sql stable as $$
  select exists (
    select 1 from ticket_waiters w join cost_tickets t on t.id = w.ticket_id
    where w.org_id = p_org_id and w.answer is null and w.until > clock_timestamp()
      and (t.status <> 'open' or t.expires_at <= clock_timestamp() or waiter_has_ended(t, w.need_nanos)
        or ((select exists (select 1 from budgets b where b.org_id = p_org_id and b.archived_at is null))
          and waiter_is_barred(t, w.need_nanos, 'refuse')))
  ) or exists (
    select 1 from (
      select w.user_id, w.team_id, min(w.need_nanos) as need_nanos, bool_or(w.need_nanos is null) as is_free from ticket_waiters w
      join cost_tickets t on t.id = w.ticket_id
      where w.org_id = p_org_id and w.answer is null and w.until > clock_timestamp()
        and not ((select exists (select 1 from budgets b where b.org_id = p_org_id and b.archived_at is null))
          and waiter_is_barred(t, w.need_nanos, 'ticket'))
      group by 1, 2) as g
    where g.is_free or exists (select 1 from wallets q where q.org_id = p_org_id and q.balance_nanos >= g.need_nanos
      and (q.owner_type = 'organization' or q.owner_team_id = g.team_id or q.owner_user_id = g.user_id))
  )
$$;

-- The queue of an organization's waiting calls, oldest first, with the wallet that each may take.
-- A call that no wallet covers leaves to younger ones what is not kept of the wallets of its own
-- cascade; one that waits between two calls keeps what is its turn's. Ends after `p_turns_max`
-- that may be taken now.
create or replace function waiter_turns(p_org_id text, p_turns_max integer)
returns table(request_id text, wallet_id text, is_live boolean) language plpgsql stable as $$
declare
  v_turns integer := 0;
  v_has_budgets boolean := exists (select 1 from budgets b where b.org_id = p_org_id and b.archived_at is null);
  w record;
  -- What is left in wallets after the turns so far, without what is kept where a turn found too little.
  v_left jsonb := '{}';
  v_wallet_id text;
  v_nanos numeric;
begin
  for w in
    select q.request_id as name, q.need_nanos, q.until > clock_timestamp() as is_live,
      array_remove(array[uw.id, tw.id, ow.id], null) as wallet_ids,
      array_remove(array[uw.balance_nanos, tw.balance_nanos, ow.balance_nanos], null) as balances,
      array_remove(array[uw.kept_nanos, tw.kept_nanos, ow.kept_nanos], null) as kept
    from ticket_waiters q
    join cost_tickets t on t.id = q.ticket_id and t.status = 'open' and t.expires_at > clock_timestamp()
      and not waiter_has_ended(t, q.need_nanos) and not (v_has_budgets
        and (waiter_is_barred(t, q.need_nanos, 'refuse') or waiter_is_barred(t, q.need_nanos, 'ticket')))
    left join wallets uw on uw.org_id = p_org_id and uw.owner_type = 'user' and uw.owner_user_id = q.user_id
    left join wallets tw on tw.org_id = p_org_id and tw.owner_type = 'team' and tw.owner_team_id = q.team_id
    left join wallets ow on ow.org_id = p_org_id and ow.owner_type = 'organization'
    where q.org_id = p_org_id and q.answer is null and q.until > clock_timestamp() - waiter_grace()
    order by q.since, q.request_id
  loop
    v_wallet_id := null;
    for n in 1 .. cardinality(w.wallet_ids) loop
      v_nanos := coalesce((v_left ->> w.wallet_ids[n])::numeric, w.balances[n]);
      if w.need_nanos is null or v_nanos >= w.need_nanos then
        v_wallet_id := w.wallet_ids[n];
        v_left := v_left || jsonb_build_object(v_wallet_id, (v_nanos - coalesce(w.need_nanos, 0))::text);
        exit;
      end if;
    end loop;
    if v_wallet_id is null then
      v_left := v_left || (select jsonb_object_agg(u.id, least((v_left ->> u.id)::numeric, u.balance_nanos - u.kept_nanos)::text)
        from unnest(w.wallet_ids, w.balances, w.kept) as u (id, balance_nanos, kept_nanos));
    end if;
    request_id := w.name;
    wallet_id := v_wallet_id;
    is_live := w.is_live;
    return next;
    v_turns := v_turns + (is_live and wallet_id is not null)::integer;
    exit when v_turns >= p_turns_max;
  end loop;
end $$;

-- Puts a call into the queue of its open ticket, and holds for it if it is its turn. Invariant:
-- the call leaves the queue with every answer but 402, and with a 402 too if it asked for no wait
-- and had no place.
create or replace function redeem_in_turn(p_org organizations, t cost_tickets, i redeem_item)
returns lane_row language plpgsql as $$
declare
  v_item reserve_item := jsonb_populate_record(null::reserve_item, t.reserve);
  v_need numeric := need_today(p_org, v_item);
  v_is_free boolean := coalesce(v_need = 0, false) and costs_nothing(p_org, v_item);
  v_has_place boolean := coalesce(i.wait_ms, 0) > 0 or exists (select 1 from ticket_waiters q
    where q.org_id = p_org.id and q.request_id = i.request_id and q.until > clock_timestamp() - waiter_grace());
  v_wallet_id text;
  v_row lane_row;
begin
  insert into ticket_waiters (org_id, request_id, ticket_id, redeem, user_id, team_id, need_nanos, since, until)
  values (p_org.id, i.request_id, t.id, to_jsonb(i) || jsonb_build_object('ticket_id', t.id), t.user_id, t.team_id,
    case when not v_is_free then least(coalesce(v_need, 0), 9000000000000000000) end, clock_timestamp(),
    clock_timestamp() + coalesce(i.wait_ms, 0) * interval '1 millisecond')
  on conflict (org_id, request_id) do update set ticket_id = excluded.ticket_id, redeem = excluded.redeem,
    need_nanos = excluded.need_nanos, priced_at = now(), until = excluded.until, answer = null;
  -- Only a call that money is there for needs to know whose turn it is.
  if v_need is null or v_is_free or exists (select 1 from wallets w where w.org_id = p_org.id and w.balance_nanos >= v_need
      and (w.owner_type = 'organization' or w.owner_team_id = t.team_id or w.owner_user_id = t.user_id)) then
    select q.wallet_id into v_wallet_id from waiter_turns(p_org.id, null) q where q.request_id = i.request_id;
  end if;
  v_row := redeem_open(p_org.id, t, i, coalesce(v_wallet_id, ''));
  if (v_row.answer).code is distinct from 'insufficient_balance' or not v_has_place then
    delete from ticket_waiters q where q.org_id = p_org.id and q.request_id = i.request_id;
  end if;
  return v_row;
end $$;

-- Approves an open ticket, whoever does; says why not.
create or replace function approve_open(v_org organizations, t cost_tickets, p_verdict jsonb)
returns text language plpgsql as $$
declare
  w wallets;
  v_from wallets;
  h funded_hold;
  v_item reserve_item := jsonb_populate_record(null::reserve_item, t.reserve - 'secret_id');
  v_need numeric := need_today(v_org, v_item);
  -- A call that costs nothing needs neither money nor room in a budget.
  v_is_free boolean := coalesce(v_need = 0, false) and costs_nothing(v_org, v_item);
  v_short numeric;
  v_amount numeric;
  v_code text;
begin
  v_code := authority_refusal(t, p_verdict, case when not v_is_free then coalesce(v_need, 0) end);
  if v_code is not null then
    return v_code;
  end if;
  v_from := approval_source(t, p_verdict, p_verdict ->> 'source' is not null
    or (v_org.manual_credit = 'platform_only' and not coalesce((p_verdict ->> 'is_platform')::boolean, false)));
  w := wallet_to_hold(t, p_verdict, case when v_is_free then -9000000000000000000 else v_need end, v_from.id);
  v_short := case when v_is_free then 0 else greatest(coalesce(v_need, 0) - free_for_verdict(w, p_verdict), 0) end;
  v_amount := coalesce((p_verdict ->> 'amount_nanos')::numeric, v_short);
  v_code := filling_refusal(w, v_from, p_verdict, v_amount, v_short);
  if v_code is not null then
    return v_code;
  end if;
  h := fund_raise_and_hold(t, w, v_from, v_amount::bigint, case when not v_is_free then coalesce(v_need, 0) end,
    p_verdict);
  if h.code is not null then
    return h.code;
  end if;
  -- The hold is kept for its call until the ticket's own deadline, a day at most.
  update reservations r set expires_at = greatest(r.expires_at, least(t.expires_at, clock_timestamp() + interval '24 hours'))
  where r.id = (h.answer).reservation_id
  returning r.expires_at into t.expires_at;
  update cost_tickets q set decided_by = p_verdict ->> 'by', decided_at = clock_timestamp(), note = p_verdict ->> 'note',
    credited_nanos = v_amount, transaction_id = h.transaction_id, reservation_id = (h.answer).reservation_id,
    estimated_cost_nanos = (h.answer).reserved_amount_nanos, expires_at = t.expires_at,
    approval_rule_id = p_verdict ->> 'approval_rule_id',
    verdict_ids = array_append(q.verdict_ids, p_verdict ->> 'id')
  where q.id = t.id;
  perform resolve_ticket(t.id, 'approved', p_verdict ->> 'by_terminal' is null);
  -- What was kept for the calls of this ticket is free.
  update wallets x set kept_nanos = least(x.kept_nanos, (select n.all_nanos from waiting_needs(x, 0) as n))
  where x.id = w.id and x.kept_nanos > 0;
  return null;
end $$;

create index model_prices_start on model_prices (effective_from);
create index model_prices_retired on model_prices (retired_at) where retired_at is not null;

-- Reckons what the waiting calls of an organization need by today's prices. One that has no price
-- any more keeps what it needed.
create function reprice_waiters_of(p_org organizations) returns void language sql as $$
  update ticket_waiters w set priced_at = now(),
    need_nanos = case when n.nanos = 0 and costs_nothing(p_org, n.item) then null else least(n.nanos, 9000000000000000000) end
  from cost_tickets t
  cross join lateral (select q.item, need_today(p_org, q.item) as nanos
    from (select jsonb_populate_record(null::reserve_item, t.reserve) as item offset 0) as q offset 0) as n
  where w.org_id = p_org.id and w.answer is null and w.until > now() - waiter_grace()
    and t.id = w.ticket_id and t.status = 'open' and n.nanos is not null;
  -- Those without a price are not looked at again for the same change.
  update ticket_waiters w set priced_at = now()
  where w.org_id = p_org.id and w.answer is null and w.until > now() - waiter_grace() and w.priced_at < now();
$$;

-- Calls that wait for money wait for what they cost by an organization's new factor, buffer or
-- default, and are looked at again.
create or replace function reprice_waiters() returns trigger language plpgsql as $$
begin
  perform reprice_waiters_of(new);
  perform notify_waiters(new.id);
  return null;
end $$;

drop trigger organizations_reprice on organizations;
create trigger organizations_reprice
after update of price_factor, reserve_buffer_pct, default_max_completion_tokens on organizations
for each row when ((new.price_factor, new.reserve_buffer_pct, new.default_max_completion_tokens)
  is distinct from (old.price_factor, old.reserve_buffer_pct, old.default_max_completion_tokens))
execute function reprice_waiters();

-- So they do if an own key comes, goes, or is charged otherwise. The lock waits for calls that are
-- being put into the queue.
create function reprice_waiters_by_key() returns trigger language plpgsql as $$
begin
  perform reprice_waiters_of(lock_organization(new.org_id));
  perform notify_waiters(new.org_id);
  return null;
end $$;

create trigger provider_keys_reprice after insert or update of price_factor, own_keys, revoked_at on provider_keys
for each row when (new.org_id is not null)
execute function reprice_waiters_by_key();

-- True if a price or a rate has changed since the waiting calls of an organization were reckoned:
-- one was set, has come into force or is gone. An edit is seen once its transaction ends, so for
-- ten seconds after a change they are reckoned once a second.
create function needs_are_stale(p_org_id text) returns boolean language sql stable as $$
  select exists (select 1 from model_prices p where p.effective_from > s.since and p.effective_from <= now())
    or exists (select 1 from model_prices p where p.retired_at > s.since)
    or exists (select 1 from exchange_rates x where x.updated_at > s.since)
  from (
    select min(w.priced_at)
      - case when min(w.priced_at) < now() - interval '1 second' then interval '10 seconds' else interval '0' end as since
    from ticket_waiters w where w.org_id = p_org_id and w.answer is null and w.until > now() - waiter_grace()
  ) as s
$$;

-- Serves an organization's queue and says what the named calls have been answered, whoever served
-- them. Every API calls it whenever something changes: a look without the lock first, then the
-- walk under it, oldest first and a few dozen at most, so that a long queue never keeps the
-- ledger; a call that is served tells the APIs to look again.
create or replace function redeem_waiting_2(p_org_id text, p_request_ids text[])
returns table(request_id text, answer lane_answer, max_completion_tokens bigint, warnings jsonb,
  resets_at timestamptz, own_keys jsonb) language plpgsql
set enable_seqscan = off set enable_material = off set plan_cache_mode = force_generic_plan as $$
declare
  w record;
  v_org organizations;
  v_repriced boolean;
  v_walk_max constant integer := 32;
begin
  if needs_are_stale(p_org_id) then
    v_org := lock_organization(p_org_id);
    -- Whoever had the lock before may have done it.
    if needs_are_stale(p_org_id) then
      perform reprice_waiters_of(v_org);
    end if;
  end if;
  if waiters_may_go(p_org_id) then
    perform lock_organization(p_org_id);
    -- A walk that found changed prices is walked again.
    for attempt in 1 .. 3 loop
      v_repriced := false;
      for w in select s.request_id as name, s.wallet_id from waiters_to_serve(p_org_id, v_walk_max) s loop
        if not serve_waiter(p_org_id, w.name, w.wallet_id) then
          v_repriced := true;
        end if;
      end loop;
      exit when not v_repriced;
    end loop;
  end if;
  return query
    select q.request_id, (n.r).answer, (n.r).max_completion_tokens, (n.r).warnings, (n.r).resets_at, (n.r).own_keys
    from ticket_waiters q
    cross join lateral (select jsonb_populate_record(null::lane_row, q.answer) as r) as n
    where q.org_id = p_org_id and q.request_id = any (p_request_ids) and q.answer is not null;
end $$;
