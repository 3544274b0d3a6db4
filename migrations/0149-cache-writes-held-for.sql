-- What a request marks for a cache is held for at the price of writes, which is up to twice that of other input: a hold at the plain
-- price let calls spend what no wallet had.

-- How long the cache that a request marks is to hold: `5m` or `1h`. Absent: it marks none.
alter type reserve_item add attribute cache_life text;

-- The usage that a reserve holds for at a price. Without a cap each choice is as long as the price and the organization allow. Pictures
-- stand in the completion, as those of a usage do. Where sound is cheaper than text it may be text after all. All other input may be
-- written to a cache that is marked, where that costs more.
create or replace function expected_usage(i reserve_item, p model_prices, p_default_max_completion integer) returns usage_counts
language plpgsql immutable as $$
declare
  u usage_counts;
begin
  u.prompt_tokens := i.estimated_prompt_tokens;
  u.completion_tokens := coalesce(i.max_completion_tokens,
      least(p.max_output_tokens, p_default_max_completion) * coalesce(i.choices, 1))
    + coalesce(i.image_output_tokens, 0);
  u.image_output_tokens := i.image_output_tokens;
  if i.audio_input_tokens > 0 and p.audio_input_per_1m > p.input_per_1m then
    u.audio_input_tokens := least(i.audio_input_tokens, u.prompt_tokens);
  end if;
  if i.cache_life = '1h' and coalesce(p.cache_write_1h_per_1m, p.cache_write_per_1m) > p.input_per_1m then
    u.cache_write_1h_tokens := u.prompt_tokens - coalesce(u.audio_input_tokens, 0);
  elsif i.cache_life is not null and p.cache_write_per_1m > p.input_per_1m then
    u.cache_write_tokens := u.prompt_tokens - coalesce(u.audio_input_tokens, 0);
  end if;
  if i.audio_output_tokens > 0 and p.audio_output_per_1m > p.output_per_1m then
    u.audio_output_tokens := least(i.audio_output_tokens, u.completion_tokens - coalesce(i.image_output_tokens, 0));
  end if;
  u.characters := i.characters;
  u.seconds := i.seconds;
  u.web_searches := i.web_searches;
  u.file_searches := i.file_searches;
  u.containers := i.containers;
  u.pages := i.pages;
  u.service_tier := i.service_tier;
  u.region := i.region;
  return u;
end $$;

-- Holds for one item, under the organization's lock, if it is a usual one: reserve_2 would answer
-- it with a hold and tell nobody. Null, and nothing is written, if that is not sure; then reserve_2
-- decides. Invariant: whatever this holds, reserve_2 would hold alike, row for row.
create or replace function reserve_alone(p_org_id text, p_item jsonb)
returns item_answer language plpgsql as $$
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
  if p_item ?| '{wallet_id,cost_ticket_id,fallbacks,service_tier,region,cache_life,session_max_actions,session_max_cost_usd}'
      or p_item ?| '{characters,seconds,web_searches,file_searches,containers,pages,image_output_tokens,audio_input_tokens,audio_output_tokens}' then
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
      uw.id as user_wallet_id, uw.balance_nanos::numeric - uw.kept_nanos as user_nanos,
      tw.id as team_wallet_id, tw.balance_nanos::numeric - tw.kept_nanos as team_nanos,
      ow.id as org_wallet_id, ow.balance_nanos::numeric - ow.kept_nanos as org_nanos,
      -- The least that the key's budget and the agent's caps leave; a count of answers leaves all or nothing.
      least(9000000000000000000, k.max_budget_nanos::numeric - k.spent_nanos - k.held_nanos, bud.room_nanos, (
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
    cross join lateral (select coalesce(i.max_completion_tokens,
      least(p.max_output_tokens, o.default_max_completion_tokens) * coalesce(i.choices, 1)) as completion_tokens) as c
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
