-- One call alone: the same rules in fewer steps. A batch's machinery (arrays of composite values, rows made of JSON, functions
-- that start anew for each statement) costs more than the work where it is started for one item.

-- The answer to one item of a batch: the columns of lane_row, flat.
create type item_answer as (
  op text,
  n integer,
  code text,
  param text,
  reservation_id text,
  status text,
  wallet_id text,
  wallet_owner_type text,
  currency text,
  estimated_cost_nanos bigint,
  reserved_amount_nanos bigint,
  actual_cost_nanos bigint,
  released_amount_nanos bigint,
  balance_after_nanos bigint,
  transaction_id text,
  expires_at timestamptz,
  cost_ticket jsonb,
  max_completion_tokens bigint,
  warnings jsonb,
  resets_at timestamptz
);

-- True if a price has no lists: every tier, region and length of prompt costs the same.
create function is_flat(p model_prices) returns boolean language sql immutable as $$
  select p.tiers is null and p.service_tiers is null and p.regions is null
$$;

-- What usage_cost says of tokens alone at a flat price.
create function token_cost(p model_prices, p_prompt_tokens numeric, p_completion_tokens numeric) returns numeric
language sql immutable as $$
  select case when p.free then 0 else greatest(
    coalesce(billed_nanos(p_prompt_tokens, p.input_per_1m, 1000000), 0)
      + coalesce(billed_nanos(p_completion_tokens, p.output_per_1m, 1000000), 0)
      + coalesce(billed_nanos(1, p.per_request, 1), 0),
    p.minimum * 1000000000) end
$$;

-- Tells the body of a reserve from another: jsonb has one text for one content, whatever the order of its keys. What may differ
-- in a repeat is left out.
create function body_digest(p_item jsonb) returns text language sql stable as $$
  select encode(sha256(convert_to(jsonb_strip_nulls(p_item - '{request_id,secret_id,wallet_id,cost_ticket_id}'::text[])::text,
    'utf8')), 'hex')
$$;

-- Holds for one item, under the organization's lock, if it is a usual one: reserve_2 would answer it with a hold and tell
-- nobody. Null, and nothing is written, if that is not sure; then reserve_2 decides. Invariant: whatever this holds, reserve_2
-- would hold alike, row for row.
create function reserve_alone(p_org_id text, p_item jsonb) returns item_answer language plpgsql as $$
declare
  i reserve_item := jsonb_populate_record(null::reserve_item, p_item);
  v_now timestamptz := clock_timestamp();
  v_id text := new_id('res');
  v_is_usual boolean;
  v_currency text;
  v_price_version_id text;
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
begin
  if p_item ?| '{wallet_id,cost_ticket_id,fallbacks,service_tier,region,session_max_actions,session_max_cost_usd}'
      or p_item ?| '{characters,seconds,web_searches,file_searches,containers,pages,image_output_tokens}' then
    return null;
  end if;
  -- What the tables know, and what it comes to. Each row is found by its key, however small its table was when this was planned.
  select coalesce(f.is_usual and f.held_nanos <= f.room_nanos, false), f.currency, f.version_id, f.rate, f.estimated_nanos,
    f.held_nanos, f.completion_tokens,
    case when f.user_nanos >= f.held_nanos then f.user_wallet_id when f.team_nanos >= f.held_nanos then f.team_wallet_id
      when f.org_nanos >= f.held_nanos then f.org_wallet_id end,
    case when f.user_nanos >= f.held_nanos then 'user' when f.team_nanos >= f.held_nanos then 'team' else 'organization' end,
    f.reservation_ttl_seconds, v_now + f.reservation_ttl_seconds * interval '1 second', f.lifetimes_next_at
  into v_is_usual, v_currency, v_price_version_id, v_rate, v_estimated_nanos, v_held_nanos, v_completion_tokens, v_wallet_id,
    v_owner_type, v_life_seconds, v_expires_at, v_sweep_at
  from (
    select o.currency, x.rate, o.reservation_ttl_seconds, o.lifetimes_next_at, p.version_id, c.completion_tokens,
      ceil(usd.nanos * x.rate) as estimated_nanos, amount_to_hold(usd.nanos, x.rate, o.reserve_buffer_pct) as held_nanos,
      uw.id as user_wallet_id, uw.balance_nanos - uw.kept_nanos as user_nanos,
      tw.id as team_wallet_id, tw.balance_nanos - tw.kept_nanos as team_nanos,
      ow.id as org_wallet_id, ow.balance_nanos - ow.kept_nanos as org_nanos,
      -- The least that the key's budget and the agent's caps leave; a count of answers leaves all or nothing.
      least(9000000000000000000, k.max_budget_nanos - k.spent_nanos - k.held_nanos, (
        select min(case
          when q.constraint_type = 'cost' then q.max_value * 1000000000 - coalesce(u.cost_nanos, 0)
          when q.max_value >= coalesce(u.responses, 0) + 1 then 9000000000000000000
          else -1 end)
        from usage_constraints q
        left join lateral (select * from constraint_usage o where o.constraint_id = q.id
          and o.window_start = window_start(q.interval, v_now) limit 1) as u on true
        where q.agent_id = i.agent_id and q.archived_at is null and constraint_covers(q, i.provider, i.model))) as room_nanos,
      is_flat(p)
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
    cross join lateral (select token_cost(p, i.estimated_prompt_tokens, c.completion_tokens) as nanos) as usd
    where o.id = p_org_id
    offset 0
  ) as f;
  if v_wallet_id is null or not v_is_usual then
    return null;
  end if;

  insert into reservations (id, org_id, request_id, status, body_sha256, request_body_hash, wallet_id, wallet_owner_type,
    key_id, user_id, team_id, agent_id, session_id, family, provider, model, price_version_id, exchange_rate, currency,
    estimated_nanos, held_nanos, life_seconds, created_at, expires_at, max_completion_tokens)
  values (v_id, p_org_id, i.request_id, 'open', body_digest(p_item), i.request_body_hash, v_wallet_id, v_owner_type,
    i.key_id, i.user_id, i.team_id, i.agent_id, i.session_id, i.family, i.provider, i.model, v_price_version_id, v_rate,
    v_currency, v_estimated_nanos, v_held_nanos, v_life_seconds, v_now, v_expires_at, v_completion_tokens)
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
  if i.key_id is not null then
    update tokens k set held_nanos = k.held_nanos + v_held_nanos,
      last_used_at = case when k.last_used_at > v_now - interval '1 minute' then k.last_used_at else v_now end
    where k.id = i.key_id;
  end if;
  if v_sweep_at is null or v_expires_at < v_sweep_at then
    perform wake_lifetimes(p_org_id, v_expires_at);
  end if;
  return ('reserve', 1, null, null, v_id, null, v_wallet_id, v_owner_type, v_currency, v_estimated_nanos, v_held_nanos,
    null, null, v_balance_nanos, null, v_expires_at, null, v_completion_tokens, null, null)::item_answer;
end $$;

-- Settles one item likewise: settle_3 would close an open hold with it, at the model that was held for, within its bound, and
-- tell nobody. Null, and nothing is written, if that is not sure.
create function settle_alone(p_org_id text, p_item jsonb) returns item_answer language plpgsql as $$
declare
  v_usage jsonb := p_item -> 'usage';
  v_now timestamptz := clock_timestamp();
  f record;
  v_cost_nanos bigint;
  v_entry_id text;
begin
  -- Tokens alone count, and of those no kind that has a price of its own.
  if (case when p_item ->> 'outcome' = 'completed' and jsonb_typeof(v_usage) = 'object'
      then jsonb_path_exists(v_usage - '{prompt_tokens,completion_tokens,reasoning_tokens}'::text[], '$.* ? (@ > 0)')
      else true end) then
    return null;
  end if;
  select r.id, r.key_id, r.wallet_id, r.wallet_owner_type, r.currency, r.estimated_nanos, r.held_nanos, r.expires_at, r.provider,
    r.model, w.seq, w.balance_nanos, w.reserved_nanos, coalesce(w.low_balance_threshold_nanos, o.low_balance_threshold_nanos)
      as threshold_nanos, p.free, settlement_bound(r) as bound_nanos,
    round(token_cost(p, (v_usage ->> 'prompt_tokens')::numeric, (v_usage ->> 'completion_tokens')::numeric) * r.exchange_rate)
      as cost_nanos,
    r.org_id = p_org_id and r.status = 'open' and r.cost_ticket_id is null
      and coalesce(p_item ->> 'provider', r.provider) = r.provider and coalesce(p_item ->> 'model', r.model) = r.model
      and is_flat(p) and knows_tier(p, v_usage ->> 'service_tier') and knows_region(p, v_usage ->> 'region') as is_usual
  into f
  from reservations r
  cross join lateral (select * from wallets q where q.id = r.wallet_id limit 1) as w
  cross join lateral (select * from model_prices q where q.version_id = r.price_version_id limit 1) as p
  join organizations o on o.id = p_org_id
  where r.id = p_item ->> 'reservation_id';

  if not coalesce(f.is_usual and f.cost_nanos <= least(f.bound_nanos, 9000000000000000000), false)
      or (f.cost_nanos = 0 and not f.free)
      or f.balance_nanos::numeric + f.held_nanos - f.cost_nanos < -9000000000000000000
      or (f.balance_nanos + f.reserved_nanos >= f.threshold_nanos
        and f.balance_nanos + f.reserved_nanos - f.cost_nanos < f.threshold_nanos) then
    return null;
  end if;
  v_cost_nanos := f.cost_nanos;
  v_entry_id := new_id('txn');
  if f.key_id is not null then
    update tokens k set held_nanos = k.held_nanos - f.held_nanos, spent_nanos = k.spent_nanos + v_cost_nanos where k.id = f.key_id;
  end if;
  update reservations r set status = 'settled', closed_at = v_now, actual_cost_nanos = v_cost_nanos, outcome = 'completed',
    usage = v_usage, usage_source = p_item ->> 'usage_source', settled_provider = r.provider, settled_model = r.model
  where r.id = f.id;
  insert into wallet_transactions (id, wallet_id, org_id, seq, type, amount_nanos, balance_after_nanos, provider, model,
    reservation_id, phase, actual_cost_nanos, created_at)
  values (v_entry_id, f.wallet_id, p_org_id, f.seq + 1, 'settlement', f.held_nanos - v_cost_nanos,
    f.balance_nanos + f.held_nanos - v_cost_nanos, f.provider, f.model, f.id, 'close', v_cost_nanos, v_now);
  update wallets w set balance_nanos = w.balance_nanos + f.held_nanos - v_cost_nanos,
    reserved_nanos = w.reserved_nanos - f.held_nanos, seq = w.seq + 1
  where w.id = f.wallet_id;
  return ('settle', 1, null, null, f.id, 'settled', f.wallet_id, f.wallet_owner_type, f.currency, f.estimated_nanos, f.held_nanos,
    v_cost_nanos, greatest(f.held_nanos - v_cost_nanos, 0), f.balance_nanos + f.held_nanos - v_cost_nanos, v_entry_id,
    f.expires_at, null, null, null, null)::item_answer;
end $$;

-- One commit for what waits in one organization's lane: settlements first, they give money back; then the calls that have
-- waited for it; then new ones. What comes alone goes the short way, if it is usual. `p_traces` is what is said of the calls,
-- by the names that trace_of knows; the short way tells nobody.
create function lane_4(p_org_id text, p_settlements jsonb, p_redeems jsonb, p_reserves jsonb, p_traces text)
returns setof item_answer language plpgsql
set enable_seqscan = off set enable_material = off set plan_cache_mode = force_generic_plan as $$
declare
  v_settlements integer := jsonb_array_length(p_settlements);
  v_redeems integer := jsonb_array_length(p_redeems);
  v_reserves integer := jsonb_array_length(p_reserves);
  a item_answer;
begin
  perform 1 from wallets w where w.org_id = p_org_id and w.owner_type = 'organization' for no key update;
  if v_settlements = 1 then
    a := settle_alone(p_org_id, p_settlements -> 0);
    if a.op is not null then
      return next a;
      v_settlements := 0;
    end if;
  end if;
  if v_settlements > 0 or v_redeems > 0 then
    perform set_config('svc.traces', p_traces, true);
    if v_settlements > 0 then
      return query select s.*, null::bigint, null::jsonb, null::timestamptz from settle_3(p_org_id, p_settlements) as s;
    end if;
    if v_redeems > 0 then
      return query select (r.answer).*, r.max_completion_tokens, r.warnings, r.resets_at from redeem(p_org_id, p_redeems) as r;
    end if;
  end if;
  if v_reserves = 1 then
    a := reserve_alone(p_org_id, p_reserves -> 0);
    if a.op is not null then
      return next a;
      return;
    end if;
  end if;
  if v_reserves > 0 then
    perform set_config('svc.traces', p_traces, true);
    return query select (r.answer).*, r.max_completion_tokens, r.warnings, r.resets_at from reserve_2(p_org_id, p_reserves) as r;
  end if;
end $$;

comment on function post_entries is
'The place that changes a balance, with reserve_alone and settle_alone, which do so for one entry. Under the organization''s
lock it appends entries in the given order, moves each wallet once, and writes one wallet.balance_low if balance + reserved
crosses the threshold downwards, with the call that did it. An entry that closes a call is nobody''s, also if a person''s step
finds a hold overdue.';
