-- The second generation of reserve and settle: caps on agents, the cost ticket of a hold, and refusals of use that would
-- cost nothing. What the previous API calls (lane, settle, reserve, open_ticket) stays as it is.

-- One answer of lane_2: the row that both generations share, and what only reserves carry.
create type lane_row as (
  answer lane_answer,
  -- The completion that is paid for by the hold.
  max_completion_tokens bigint,
  -- Constraints with mode `warn` that this hold exceeds: [{id, constraint_type, interval, max_value, resets_at}].
  warnings jsonb,
  -- When the window of the constraint that refused ends.
  resets_at timestamptz
);

-- The settlements of a batch judged: as judge_settlements, and refusing what would be answered and cost nothing by a price
-- that is not free, and debt beyond what a wallet can hold.
create function judge_settlements_2(p_org_id text, p_items jsonb) returns settlement[] language sql stable as $$
  select array_agg((e.n::integer,
    case
      when r.id is null and i.outcome = 'canceled' and i.request_id is not null
        and exists (select 1 from organizations o where o.id = p_org_id) then 'tombstone'
      when r.id is null then 'not_found'
      when r.status not in ('open', 'expired') then 'repeated'
      when p.version_id is null then 'price_not_frozen'
      when i.outcome = 'completed' and cost.usd_nanos = 0 and not (p.price).free then 'usage_not_priced'
      when cost.nanos > 9000000000000000000
        or w.balance_nanos + case r.status when 'open' then r.held_nanos else 0 end - cost.nanos < -9000000000000000000
        then 'amount_too_large'
    end,
    r.reservation, i.request_id,
    case
      when r.status = 'expired' then 'late'
      when i.outcome <> 'completed' and cost.nanos = 0 then 'released'
      else 'settled'
    end,
    cost.nanos, chosen.provider, chosen.model, i.outcome, i.usage, i.usage_source)::settlement order by e.n)
  from jsonb_array_elements(p_items) with ordinality as e (value, n)
  cross join lateral jsonb_populate_record(null::settle_item, e.value) as i
  left join lateral (select q.id from reservations q where q.org_id = p_org_id and q.request_id = i.request_id limit 1)
    as named on i.reservation_id is null
  left join lateral (select q as reservation, q.* from reservations q where q.id = coalesce(i.reservation_id, named.id) limit 1)
    as r on r.org_id = p_org_id
  left join lateral (select q.balance_nanos from wallets q where q.id = r.wallet_id limit 1) as w on true
  cross join lateral (select coalesce(i.provider, r.provider) as provider, coalesce(i.model, r.model) as model) as chosen
  left join lateral (select v as price, v.version_id from model_prices v where v.version_id = case
      when chosen.provider = r.provider and chosen.model = r.model then r.price_version_id
      else (select f ->> 'price_version_id' from jsonb_array_elements(r.fallbacks) as f
        where f ->> 'provider' = chosen.provider and f ->> 'model' = chosen.model limit 1) end limit 1) as p on true
  cross join lateral (select case
    -- What failed or was canceled before any use costs nothing, not even the price per request.
    when i.outcome <> 'completed' and not exists (select 1 from jsonb_each_text(i.usage) as u where u.value::numeric > 0)
      then 0
    else usage_cost(p.price, jsonb_populate_record(null::usage_counts, i.usage)) end as usd_nanos) as usd
  cross join lateral (select usd.usd_nanos, round(usd.usd_nanos * r.exchange_rate) as nanos) as cost
$$;

-- Settles holds to their real cost. Invariant: each reservation is closed once and charged once, whatever is repeated;
-- the wallet may go into debt, other holds stay as they are. Canceling an unknown request_id leaves a tombstone, and no
-- wait for money outlives it.
create function settle_2(p_org_id text, p_items jsonb) returns setof lane_answer language plpgsql as $$
declare
  v_now timestamptz;
  v_items settlement[];
  v_closing settlement[];
begin
  perform lock_organization(p_org_id);
  v_now := clock_timestamp();
  v_items := judge_settlements_2(p_org_id, p_items);
  v_closing := array(select s from unnest(v_items) as s where s.code is null);

  return query
    with tombstones as (
      insert into reservations (id, org_id, request_id, status, created_at, outcome)
      select new_id('res'), p_org_id, s.request_id, 'canceled', v_now, 'canceled'
      from unnest(v_items) as s where s.code = 'tombstone' returning *
    ), gone as (
      delete from ticket_waiters w using tombstones t where w.org_id = p_org_id and w.request_id = t.request_id
    )
    select a.* from unnest(v_items) as s
    join tombstones t on s.code = 'tombstone' and t.request_id = s.request_id
    cross join lateral settled_answer(s.n, t::reservations) as a;
  return query
    select a.* from unnest(v_items) as s cross join lateral settled_answer(s.n, s.reservation) as a
    where s.code = 'repeated';
  return query
    select 'settle', s.n, s.code,
      case s.code when 'price_not_frozen' then 'model' when 'not_found' then null else 'usage' end,
      (s.reservation).id, null::text, null::text, null::text, null::text, null::bigint, null::bigint, null::bigint,
      null::bigint, null::bigint, null::text, null::timestamptz, null::jsonb
    from unnest(v_items) as s where s.code not in ('tombstone', 'repeated');
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
  -- Entries come back in the order they were given, so the two lists are zipped, not joined.
  return query
    select 'settle', z.n, null::text, null::text, (z.reservation).id, z.status, (z.reservation).wallet_id,
      (z.reservation).wallet_owner_type, (z.reservation).currency, (z.reservation).estimated_nanos,
      (z.reservation).held_nanos, z.cost_nanos::bigint,
      case z.status when 'late' then 0 else greatest((z.reservation).held_nanos - z.cost_nanos, 0)::bigint end,
      z.balance_after_nanos, z.entry_id, (z.reservation).expires_at, null::jsonb
    from rows from (post_entries(p_org_id, closing_entries(v_closing)), unnest(v_closing)) as z (entry_id, wallet_id, org_id,
      seq, type, amount_nanos, balance_after_nanos, provider, model, reservation_id, phase, actual_cost_nanos, transfer_id,
      payment_session_id, description, created_at, n, code, reservation, request_id, status, cost_nanos, chosen_provider,
      chosen_model, outcome, usage, usage_source);
end $$;

-- Whether an agent's constraints let one more hold pass. `left` is what the batch has counted so far, by constraint.
create type cap_verdict as (refused_id text, resets_at timestamptz, warnings jsonb, left_after jsonb);

create function judge_caps(i reserve_item, p_held_nanos numeric, p_now timestamptz, p_left jsonb) returns cap_verdict
language plpgsql stable as $$
declare
  v cap_verdict;
  c record;
  v_after numeric;
begin
  v.left_after := '{}';
  for c in
    select distinct on (a.id) a.*
    from (select i.provider as provider, i.model as model
      union all select f ->> 'provider', f ->> 'model' from jsonb_array_elements(i.fallbacks) as f) as m
    cross join lateral constraints_at(i.agent_id, m.provider, m.model, p_now) as a
    order by a.id
  loop
    v_after := coalesce((p_left ->> c.id)::numeric, case c.constraint_type when 'cost' then c.cost_nanos else c.responses end)
      + case c.constraint_type when 'cost' then p_held_nanos else 1 end;
    v.left_after := v.left_after || jsonb_build_object(c.id, v_after);
    continue when v_after <= c.max_value * case c.constraint_type when 'cost' then 1000000000 else 1 end;
    if c.enforcement_mode = 'reject' then
      -- The window that ends last says when a repeat may pass.
      v.refused_id := c.id;
      v.resets_at := greatest(v.resets_at, c.resets_at);
    else
      v.warnings := coalesce(v.warnings, '[]') || jsonb_build_object('id', c.id, 'constraint_type', c.constraint_type,
        'interval', c.interval, 'max_value', c.max_value, 'resets_at', iso_time(c.resets_at));
    end if;
  end loop;
  return v;
end $$;

-- The completion that a hold without a cap of its own pays for: the longest of the models that it may run on.
create function completion_cap(q quote, p_default_max_completion integer) returns bigint language sql stable as $$
  select max(least(p.max_output_tokens, p_default_max_completion)) from model_prices p
  where p.version_id = q.price_version_id
    or p.version_id in (select f ->> 'price_version_id' from jsonb_array_elements(q.fallbacks) as f)
$$;

-- Holds the estimated cost of requests, in the given order. Invariant: a hold is paid by one wallet, the first of user,
-- team and organization whose balance covers it; the sum of holds never exceeds what was available; a request_id
-- holds once; no cap on an agent is passed. Decisions are made on balances read under the lock and written together at the
-- end. An item with a `wallet_id` may be paid by that wallet alone (by none where it is empty), one with a
-- `cost_ticket_id` leaves it on the hold. The lookups are lateral with a limit, so that each is one probe of one index.
create function reserve_2(p_org_id text, p_items jsonb) returns setof lane_row language plpgsql as $$
declare
  v_org organizations;
  v_now timestamptz;
  v_rate numeric;
  item record;
  v_quote quote;
  v_held numeric;
  v_forced text;
  v_wallet_id text;
  v_balance bigint;
  v_caps cap_verdict;
  -- Balances of wallets, room of keys and counts of constraints as this batch leaves them, by id.
  v_left jsonb := '{}';
  v_room bigint;
  v_made reservations[] := '{}';
  v_hold reservations;
  v_entries ledger_entry[] := '{}';
  a lane_answer;
  v_row lane_row;
begin
  v_org := lock_organization(p_org_id);
  v_now := clock_timestamp();
  -- Overdue holds are given back before anything is refused for want of them.
  if exists (select 1 from reservations r where r.org_id = p_org_id and r.status = 'open' and r.expires_at <= v_now) then
    perform expire_holds(p_org_id);
  end if;
  v_rate := rate_of(v_org.currency);

  for item in
    select e.n::integer as n, i::reserve_item as body, r.earlier, e.value ->> 'wallet_id' as forced_wallet_id,
      e.value ->> 'cost_ticket_id' as cost_ticket_id,
      -- jsonb has one text for one content, whatever the order of its keys.
      encode(sha256(convert_to(jsonb_strip_nulls(e.value - '{request_id,secret_id,wallet_id,cost_ticket_id}'::text[])::text,
        'utf8')), 'hex') as body_sha256,
      h.balance_after_nanos as earlier_balance_nanos,
      i.user_id is not null and m.user_id is null as user_unknown,
      i.team_id is not null and t.id is null as team_unknown,
      i.agent_id is not null and g.id is null as agent_unknown,
      i.key_id is not null and k.id is null as key_unknown,
      k.revoked_at <= v_now or k.expires_at <= v_now or s.expires_at <= v_now
        or (i.secret_id is not null and s.id is null) as key_invalid,
      k.max_budget_nanos - k.spent_nanos - k.held_nanos as key_room_nanos,
      i.agent_id is not null and exists (select 1 from usage_constraints q where q.agent_id = i.agent_id
        and q.archived_at is null) as has_caps,
      uw.id as user_wallet_id, uw.balance_nanos as user_nanos,
      tw.id as team_wallet_id, tw.balance_nanos as team_nanos,
      ow.id as org_wallet_id, ow.balance_nanos as org_nanos
    from jsonb_array_elements(p_items) with ordinality as e (value, n)
    cross join lateral jsonb_populate_record(null::reserve_item, e.value) as i
    left join lateral (select q as earlier, q.id from reservations q where q.org_id = p_org_id
      and q.request_id = i.request_id limit 1) as r on true
    left join lateral (select * from wallet_transactions q where q.reservation_id = r.id and q.phase = 'hold' limit 1) as h on true
    left join lateral (select * from memberships q where q.org_id = p_org_id and q.user_id = i.user_id limit 1)
      as m on m.archived_at is null
    left join lateral (select * from teams q where q.id = i.team_id limit 1) as t on t.org_id = p_org_id and t.archived_at is null
    left join lateral (select * from agents q where q.id = i.agent_id limit 1) as g on g.org_id = p_org_id and g.archived_at is null
    left join lateral (select * from tokens q where q.id = i.key_id limit 1) as k on k.org_id = p_org_id
    left join lateral (select * from token_secrets q where q.id = i.secret_id limit 1) as s on s.token_id = k.id
    left join lateral (select * from wallets q where q.org_id = p_org_id and q.owner_type = 'user'
      and q.owner_user_id = i.user_id limit 1) as uw on true
    left join lateral (select * from wallets q where q.org_id = p_org_id and q.owner_type = 'team'
      and q.owner_team_id = i.team_id limit 1) as tw on true
    left join lateral (select * from wallets q where q.org_id = p_org_id and q.owner_type = 'organization' limit 1) as ow on true
    order by e.n
  loop
    a := null;
    v_row := null;
    a.op := 'reserve';
    a.n := item.n;
    if (item.earlier).id is not null then
      v_row.answer := repeated_hold(a, item.earlier, item.body_sha256, item.earlier_balance_nanos);
      if (item.earlier).status = 'released' and (item.earlier).outcome = 'canceled' then
        v_row.answer.code := 'request_canceled';
      end if;
      v_row.max_completion_tokens := (item.earlier).max_completion_tokens;
      return next v_row;
      continue;
    end if;

    v_quote := quote_reserve(item.body, v_org.default_max_completion_tokens);
    v_held := ceil(ceil(v_quote.usd_nanos * v_rate) * (1 + v_org.reserve_buffer_pct / 100));
    v_room := coalesce((v_left ->> (item.body).key_id)::bigint, item.key_room_nanos);
    a.code := case
      when v_org.id is null then 'unknown_org'
      when item.user_unknown or item.team_unknown or item.agent_unknown or item.key_unknown then 'not_of_organization'
      when item.key_invalid then 'invalid_credential'
      when v_quote.code is not null then v_quote.code
      when v_rate is null then 'exchange_rate_missing'
      when v_held > 9000000000000000000 then 'amount_too_large'
      when ((item.body).session_max_actions is not null or (item.body).session_max_cost_usd is not null)
        and session_is_full(p_org_id, item.body, v_quote.usd_nanos, v_made) then 'session_limit_exceeded'
      when v_held > v_room then 'key_budget_exceeded' end;
    if a.code is null and item.has_caps then
      v_caps := judge_caps(item.body, v_held, v_now, v_left);
      v_row.resets_at := v_caps.resets_at;
      if v_caps.refused_id is not null then
        a.code := 'usage_constraint_exceeded';
      end if;
    end if;
    if a.code is not null then
      a.param := case
        when v_org.id is null then 'org_id'
        when item.user_unknown then 'user_id'
        when item.team_unknown then 'team_id'
        when item.agent_unknown then 'agent_id'
        when item.key_unknown then 'key_id'
        when a.code = 'amount_too_large' then 'estimated_prompt_tokens'
        else v_quote.param end;
      v_row.answer := a;
      return next v_row;
      continue;
    end if;

    a.estimated_cost_nanos := ceil(v_quote.usd_nanos * v_rate);
    a.reserved_amount_nanos := v_held;
    a.currency := v_org.currency;
    v_forced := item.forced_wallet_id;
    v_wallet_id := null;
    if (v_forced is null or v_forced = item.user_wallet_id)
        and coalesce((v_left ->> item.user_wallet_id)::bigint, item.user_nanos) >= v_held then
      v_wallet_id := item.user_wallet_id;
      v_balance := coalesce((v_left ->> v_wallet_id)::bigint, item.user_nanos);
      a.wallet_owner_type := 'user';
    elsif (v_forced is null or v_forced = item.team_wallet_id)
        and coalesce((v_left ->> item.team_wallet_id)::bigint, item.team_nanos) >= v_held then
      v_wallet_id := item.team_wallet_id;
      v_balance := coalesce((v_left ->> v_wallet_id)::bigint, item.team_nanos);
      a.wallet_owner_type := 'team';
    elsif (v_forced is null or v_forced = item.org_wallet_id)
        and coalesce((v_left ->> item.org_wallet_id)::bigint, item.org_nanos) >= v_held then
      v_wallet_id := item.org_wallet_id;
      v_balance := coalesce((v_left ->> v_wallet_id)::bigint, item.org_nanos);
      a.wallet_owner_type := 'organization';
    end if;
    if v_wallet_id is null then
      a.code := 'insufficient_balance';
      a.cost_ticket := open_ticket_2(v_org, item.body, v_held::bigint, v_left);
      v_row.answer := a;
      return next v_row;
      continue;
    end if;

    v_balance := v_balance - v_held;
    v_left := v_left || jsonb_build_object(v_wallet_id, v_balance::text);
    if v_room is not null then
      v_left := v_left || jsonb_build_object((item.body).key_id, (v_room - v_held)::text);
    end if;
    if item.has_caps then
      v_left := v_left || v_caps.left_after;
      v_row.warnings := v_caps.warnings;
      v_row.resets_at := null;
    end if;
    v_hold := new_hold(item.body, v_org, v_quote, v_now);
    v_hold.body_sha256 := item.body_sha256;
    v_hold.wallet_id := v_wallet_id;
    v_hold.wallet_owner_type := a.wallet_owner_type;
    v_hold.exchange_rate := v_rate;
    v_hold.estimated_nanos := a.estimated_cost_nanos;
    v_hold.held_nanos := v_held;
    v_hold.cost_ticket_id := item.cost_ticket_id;
    v_hold.max_completion_tokens := coalesce((item.body).max_completion_tokens,
      completion_cap(v_quote, v_org.default_max_completion_tokens));
    v_made := array_append(v_made, v_hold);
    v_entries := array_append(v_entries, (v_wallet_id, 'reservation', -v_held, v_held, v_hold.id, 'hold', v_hold.provider,
      v_hold.model, null, null, null, null)::ledger_entry);
    a.reservation_id := v_hold.id;
    a.wallet_id := v_wallet_id;
    a.balance_after_nanos := v_balance;
    a.expires_at := v_hold.expires_at;
    v_row.answer := a;
    v_row.max_completion_tokens := v_hold.max_completion_tokens;
    return next v_row;
  end loop;
  if cardinality(v_made) > 0 then
    perform write_holds(v_org, v_made, v_entries, v_now);
  end if;
end $$;
