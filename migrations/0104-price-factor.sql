-- An organization's markup or discount is one factor: what it pays of each amount of the price list. A hold freezes the factor with
-- the prices, and its settlement is charged by that one. A call that an own key serves is charged by the factor of the key instead.

alter table organizations
  -- What it pays of each price; 0 is free of charge.
  add column price_factor numeric not null default 1
    check (price_factor between 0 and 10 and scale(price_factor) <= 6);
alter table reservations
  -- What its organization paid of each price when it was held; null: 1.
  add column price_factor numeric;
-- The factor of the organization, as a reservation has it.
alter type quote add attribute price_factor numeric;

-- The price list's amounts as a call is charged by them: times the factor of the own key that serves it, but for the fee per
-- request; else times that of its organization. Null is no own key, and 1.
create function charged_price(p model_prices, u usage_counts, p_key_factor numeric, p_org_factor numeric)
returns model_prices language plpgsql immutable as $$
begin
  if p_key_factor is not null then
    return price_by_key(p, u, p_key_factor);
  end if;
  if p_org_factor is null or p_org_factor = 1 then
    return p;
  end if;
  p := price_by_key(p, u, p_org_factor);
  p.per_request := p.per_request * p_org_factor;
  return p;
end $$;

-- The factor that charged_price has for whoever serves a reservation at a provider; null: the prices are the list's.
create function charged_factor(r reservations, p_provider text)
returns numeric language sql immutable as $$
  select case when r.provider_key_id is null then r.price_factor
    else frozen_factor(r.own_keys, p_provider, r.provider_key_id) end
$$;

-- What a usage costs at most. If the provider chooses the tier, it is the dearest one that is priced; one that is asked for
-- may not be the one that serves, so it is the dearer of it and the ordinary one.
create function dearest_charge(p model_prices, u usage_counts, p_key_factor numeric, p_org_factor numeric)
returns numeric language plpgsql immutable as $$
declare
  v_nanos numeric := usage_cost(charged_price(p, u, p_key_factor, p_org_factor), u);
  v_tier text;
begin
  if p.service_tiers is null or u.service_tier is null then
    return v_nanos;
  end if;
  if u.service_tier in ('auto', 'default') then
    for v_tier in select jsonb_object_keys(p.service_tiers) loop
      u.service_tier := v_tier;
      v_nanos := greatest(v_nanos, usage_cost(charged_price(p, u, p_key_factor, p_org_factor), u));
    end loop;
    return v_nanos;
  end if;
  u.service_tier := null;
  return greatest(v_nanos, usage_cost(charged_price(p, u, p_key_factor, p_org_factor), u));
end $$;

-- Prices a reserve: what it costs at most by today's prices, the dearest of the model and its fallbacks, each price frozen. A
-- tier or region that none of them prices is refused; one that some do not price is charged at their base. Where the
-- organization has an own key, its factor counts in the place of the platform's price, or beside it if that key may serve too.
create function quote_reserve_3(p_org organizations, i reserve_item) returns quote
language plpgsql stable as $$
declare
  v_quote quote;
  v_candidate record;
  v_price model_prices;
  v_usage usage_counts;
  v_key provider_keys;
  v_knows_tier boolean := false;
  v_knows_region boolean := false;
begin
  v_quote.price_factor := nullif(p_org.price_factor, 1);
  for v_candidate in
    select i.provider as provider, i.model as model, 0 as n
    union all
    select f.value ->> 'provider', f.value ->> 'model', f.n::integer
    from jsonb_array_elements(i.fallbacks) with ordinality as f (value, n)
    order by n
  loop
    v_price := price_for(v_candidate.provider, v_candidate.model);
    if v_price.version_id is null then
      v_quote.code := 'model_not_priced';
      v_quote.param := case v_candidate.n when 0 then 'model' else 'fallbacks' end;
      return v_quote;
    end if;
    v_knows_tier := v_knows_tier or knows_tier(v_price, i.service_tier);
    v_knows_region := v_knows_region or knows_region(v_price, i.region);
    v_usage := expected_usage(i, v_price, p_org.default_max_completion_tokens);
    v_key := case when i.own_keys then own_key_at(p_org.id, v_candidate.provider) end;
    if v_key.id is not null then
      v_quote.usd_nanos := greatest(v_quote.usd_nanos, dearest_charge(v_price, v_usage, v_key.price_factor, null));
      if not coalesce(v_quote.own_keys, '[]') @> jsonb_build_array(jsonb_build_object('provider_key_id', v_key.id)) then
        v_quote.own_keys := coalesce(v_quote.own_keys, '[]') || jsonb_build_object('provider', v_key.provider,
          'provider_key_id', v_key.id, 'version', v_key.version, 'price_factor', trim_scale(v_key.price_factor)::text,
          'own_keys', v_key.own_keys);
      end if;
    end if;
    if v_key.id is null or v_key.own_keys = 'first' then
      v_quote.usd_nanos := greatest(v_quote.usd_nanos, dearest_charge(v_price, v_usage, null, p_org.price_factor));
    end if;
    if v_candidate.n = 0 then
      v_quote.price_version_id := v_price.version_id;
    else
      v_quote.fallbacks := coalesce(v_quote.fallbacks, '[]') || jsonb_build_object('provider', v_candidate.provider,
        'model', v_candidate.model, 'price_version_id', v_price.version_id);
    end if;
  end loop;
  if not v_knows_tier then
    v_quote.code := 'service_tier_not_priced';
    v_quote.param := 'service_tier';
  elsif not v_knows_region then
    v_quote.code := 'region_not_priced';
    v_quote.param := 'region';
  end if;
  return v_quote;
end $$;

-- Says what a refused reserve must be covered by at today's prices, buffer included; null if it has no price any more.
create or replace function need_today(p_org organizations, i reserve_item) returns numeric language sql stable as $$
  select amount_to_hold((quote_reserve_3(p_org, i)).usd_nanos, rate_of(p_org.currency),
    p_org.reserve_buffer_pct)
$$;

-- True if a call that waits for so much can no longer be served, however much money comes: its
-- organization is suspended, its key has ended or has spent its budget, its person, team or agent is
-- gone, a cap of its agent or the limits of its session are reached. Each waiting call is looked at in each turn, so
-- what costs more stands last, behind a look whether there is such a bound at all.
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
        cross join lateral jsonb_populate_record(null::reserve_item, t.reserve) as i
        cross join lateral quote_reserve_3(o, i) as q
        where o.id = t.org_id and session_is_full(t.org_id, i, q.usd_nanos, '{}')))
$$;

-- The hold of a reserve before its wallet is known.
create or replace function new_hold(i reserve_item, p_org organizations, q quote, p_now timestamptz) returns reservations
language plpgsql as $$
declare
  r reservations;
begin
  r.id := new_id('res');
  r.org_id := p_org.id;
  r.status := 'open';
  r.request_id := i.request_id;
  r.request_body_hash := i.request_body_hash;
  r.key_id := i.key_id;
  r.user_id := i.user_id;
  r.team_id := i.team_id;
  r.agent_id := i.agent_id;
  r.session_id := i.session_id;
  r.family := i.family;
  r.tags := i.tags;
  r.provider := i.provider;
  r.model := i.model;
  r.price_version_id := q.price_version_id;
  r.fallbacks := q.fallbacks;
  r.own_keys := q.own_keys;
  r.price_factor := q.price_factor;
  r.currency := p_org.currency;
  r.life_seconds := p_org.reservation_ttl_seconds;
  r.created_at := p_now;
  r.expires_at := p_now + p_org.reservation_ttl_seconds * interval '1 second';
  return r;
end $$;

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

    q := quote_reserve_3(v_org, f.body);
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

-- Holds for one item, under the organization's lock, if it is a usual one: reserve_2 would answer it with a hold and tell
-- nobody. Null, and nothing is written, if that is not sure; then reserve_2 decides. Invariant: whatever this holds, reserve_2
-- would hold alike, row for row.
create or replace function reserve_alone(p_org_id text, p_item jsonb) returns item_answer language plpgsql as $$
declare
  i reserve_item := jsonb_populate_record(null::reserve_item, p_item);
  v_now timestamptz := clock_timestamp();
  v_id text := new_id('res');
  v_is_usual boolean;
  v_currency text;
  v_price_version_id text;
  v_price_factor numeric;
  v_rate numeric;
  v_estimated_nanos numeric;
  v_held_nanos numeric;
  v_completion_tokens bigint;
  v_wallet_id text;
  v_owner_type text;
  v_life_seconds integer;
  v_expires_at timestamptz;
  v_sweep_at timestamptz;
  v_balance_nanos bigint;
  v_seq bigint;
  v_is_budgeted boolean;
  v_warnings jsonb;
begin
  if p_item ?| '{wallet_id,cost_ticket_id,fallbacks,service_tier,region,session_max_actions,session_max_cost_usd}'
      or p_item ?| '{characters,seconds,web_searches,file_searches,containers,pages,image_output_tokens}' then
    return null;
  end if;
  -- What the tables know, and what it comes to. Each row is found by its key, however small its table was when this was planned.
  select coalesce(f.is_usual and f.held_nanos <= f.room_nanos, false), f.currency, f.version_id, f.price_factor, f.rate, f.estimated_nanos,
    f.held_nanos, f.completion_tokens,
    case when f.user_nanos >= f.held_nanos then f.user_wallet_id when f.team_nanos >= f.held_nanos then f.team_wallet_id
      when f.org_nanos >= f.held_nanos then f.org_wallet_id end,
    case when f.user_nanos >= f.held_nanos then 'user' when f.team_nanos >= f.held_nanos then 'team' else 'organization' end,
    f.reservation_ttl_seconds, v_now + f.reservation_ttl_seconds * interval '1 second', f.lifetimes_next_at, f.is_budgeted, f.warnings
  into v_is_usual, v_currency, v_price_version_id, v_price_factor, v_rate, v_estimated_nanos, v_held_nanos, v_completion_tokens,
    v_wallet_id, v_owner_type, v_life_seconds, v_expires_at, v_sweep_at, v_is_budgeted, v_warnings
  from (
    select o.currency, nullif(o.price_factor, 1) as price_factor, x.rate, o.reservation_ttl_seconds, o.lifetimes_next_at, p.version_id, c.completion_tokens,
      ceil(usd.nanos * x.rate) as estimated_nanos, held.nanos as held_nanos,
      uw.id as user_wallet_id, uw.balance_nanos - uw.kept_nanos as user_nanos,
      tw.id as team_wallet_id, tw.balance_nanos - tw.kept_nanos as team_nanos,
      ow.id as org_wallet_id, ow.balance_nanos - ow.kept_nanos as org_nanos,
      -- The least that the key's budget and the agent's caps leave; a count of answers leaves all or nothing.
      least(9000000000000000000, k.max_budget_nanos - k.spent_nanos - k.held_nanos, bud.room_nanos, (
        select min(case
          when q.constraint_type = 'cost' then q.max_value * 1000000000 - coalesce(u.cost_nanos, 0)
          when q.max_value >= coalesce(u.responses, 0) + 1 then 9000000000000000000
          else -1 end)
        from usage_constraints q
        left join lateral (select * from constraint_usage o where o.constraint_id = q.id
          and o.window_start = window_start(q.interval, v_now) limit 1) as u on true
        where q.agent_id = i.agent_id and q.archived_at is null and constraint_covers(q, i.provider, i.model))) as room_nanos,
      bud.is_budgeted, bud.warnings,
      is_flat(p) and o.suspended_at is null and not coalesce(bud.emits, false)
        and (i.key_id is null or (k.org_id = p_org_id and coalesce(k.revoked_at > v_now, true) and coalesce(k.expires_at > v_now, true)))
        and (i.secret_id is null or exists (select 1 from token_secrets s where s.id = i.secret_id and s.token_id = i.key_id
          and coalesce(s.expires_at > v_now, true)))
        and (i.user_id is null or exists (select 1 from memberships m where m.org_id = p_org_id and m.user_id = i.user_id
          and m.archived_at is null))
        and (i.team_id is null or exists (select 1 from teams t where t.id = i.team_id and t.org_id = p_org_id
          and t.archived_at is null))
        and (i.user_id is null or i.team_id is null or exists (select 1 from team_members tm where tm.team_id = i.team_id
          and tm.user_id = i.user_id))
        and (i.agent_id is null or exists (select 1 from agents g where g.id = i.agent_id and g.org_id = p_org_id
          and g.archived_at is null))
        -- A key of its own has a price of its own.
        and not (coalesce(i.own_keys, false) and exists (select 1 from provider_keys pk where pk.org_id = p_org_id
          and pk.provider = i.provider and pk.revoked_at is null))
        -- Overdue holds are given back first.
        and not exists (select 1 from reservations r where r.org_id = p_org_id and r.status = 'open' and r.expires_at <= v_now)
        as is_usual
    from organizations o
    join wallets ow on ow.org_id = o.id and ow.owner_type = 'organization'
    left join wallets uw on uw.org_id = p_org_id and uw.owner_type = 'user' and uw.owner_user_id = i.user_id
    left join wallets tw on tw.org_id = p_org_id and tw.owner_type = 'team' and tw.owner_team_id = i.team_id
    left join tokens k on k.id = i.key_id
    join lateral (select * from model_prices q where q.provider = i.provider and q.model = i.model and q.retired_at is null
      and q.effective_from <= now() order by q.effective_from desc limit 1) as p on true
    cross join lateral (select case o.currency when 'USD' then 1 else rate_of(o.currency) end as rate) as x
    cross join lateral (select coalesce(i.max_completion_tokens, least(p.max_output_tokens, o.default_max_completion_tokens))
      as completion_tokens) as c
    cross join lateral (select token_cost(p, i.estimated_prompt_tokens, c.completion_tokens) * o.price_factor as nanos) as usd
    -- A window that is over, and a threshold that is reached for the first time, are not usual.
    cross join lateral (select amount_to_hold(usd.nanos, x.rate, o.reserve_buffer_pct) as nanos offset 0) as held
    cross join lateral (select nullif(count(*) > 0, false) as is_budgeted,
        min(window_cap(b) - window_used(b)) as room_nanos,
        bool_or(b.ends_at <= v_now or b.starts_at > v_now or window_used(b) + held.nanos >= b.emits_at_nanos) as emits,
        jsonb_agg(budget_warning(b, window_used(b) + held.nanos) order by b.id)
          filter (where window_used(b) + held.nanos >= b.warns_at_nanos) as warnings
      from budgets b
      where b.org_id = p_org_id and b.owner_id in (p_org_id, i.key_id, i.user_id, i.team_id) and b.archived_at is null) as bud
    where o.id = p_org_id
    offset 0
  ) as f;
  if v_wallet_id is null or not v_is_usual then
    return null;
  end if;

  insert into reservations (id, org_id, request_id, status, body_sha256, request_body_hash, wallet_id, wallet_owner_type,
    key_id, user_id, team_id, agent_id, session_id, family, provider, model, price_version_id, exchange_rate, currency,
    estimated_nanos, held_nanos, life_seconds, created_at, expires_at, max_completion_tokens, is_budgeted, tags, price_factor)
  values (v_id, p_org_id, i.request_id, 'open', body_digest(p_item), i.request_body_hash, v_wallet_id, v_owner_type,
    i.key_id, i.user_id, i.team_id, i.agent_id, i.session_id, i.family, i.provider, i.model, v_price_version_id, v_rate,
    v_currency, v_estimated_nanos, v_held_nanos, v_life_seconds, v_now, v_expires_at, v_completion_tokens, v_is_budgeted,
    i.tags, v_price_factor)
  on conflict (org_id, request_id) do nothing;
  if not found then
    return null;
  end if;
  update wallets w set balance_nanos = w.balance_nanos - v_held_nanos, reserved_nanos = w.reserved_nanos + v_held_nanos,
    seq = w.seq + 1
  where w.id = v_wallet_id returning w.balance_nanos, w.seq into v_balance_nanos, v_seq;
  insert into wallet_transactions (id, wallet_id, org_id, seq, type, amount_nanos, balance_after_nanos, provider, model,
    reservation_id, phase, created_at, actor)
  values (new_id('txn'), v_wallet_id, p_org_id, v_seq, 'reservation', -v_held_nanos, v_balance_nanos, i.provider, i.model,
    v_id, 'hold', v_now, acting());
  if v_is_budgeted then
    update budgets b set held_nanos = b.held_nanos + v_held_nanos
    where b.org_id = p_org_id and b.owner_id in (p_org_id, i.key_id, i.user_id, i.team_id) and b.archived_at is null
      and b.starts_at <= v_now;
  end if;
  if i.key_id is not null then
    update tokens k set held_nanos = k.held_nanos + v_held_nanos,
      last_used_at = case when k.last_used_at > v_now - interval '1 minute' then k.last_used_at else v_now end
    where k.id = i.key_id;
  end if;
  if v_sweep_at is null or v_expires_at < v_sweep_at then
    perform wake_lifetimes(p_org_id, v_expires_at);
  end if;
  return ('reserve', 1, null, null, v_id, null, v_wallet_id, v_owner_type, v_currency, v_estimated_nanos, v_held_nanos,
    null, null, v_balance_nanos, null, v_expires_at, null, v_completion_tokens, v_warnings, null, null)::item_answer;
end $$;

-- Calls that wait for money wait for what they cost by the new factor, and are looked at again.
create function reprice_waiters() returns trigger language plpgsql as $$
begin
  update ticket_waiters w set need_nanos = least(n.nanos, 9000000000000000000)
  from cost_tickets t
  cross join lateral (select need_today(new, jsonb_populate_record(null::reserve_item, t.reserve)) as nanos offset 0) as n
  where w.org_id = new.id and w.answer is null and t.id = w.ticket_id and t.status = 'open' and n.nanos is not null;
  perform notify_waiters(new.id);
  return null;
end $$;

create trigger organizations_reprice after update of price_factor on organizations
for each row when (new.price_factor <> old.price_factor)
execute function reprice_waiters();

-- What an organization pays is a setting like the others, and so is the least factor of its own keys.
drop trigger organizations_record on organizations;
create trigger organizations_record
after insert or update of name, currency, reserve_buffer_pct, low_balance_threshold_nanos, reservation_ttl_seconds,
  ticket_ttl_seconds, default_max_completion_tokens, manual_credit, wallet_user_topup_enabled, time_zone, own_key_factor_min,
  price_factor, archived_at on organizations
for each row execute function record_change('organization', 'id');
