-- A call that is served by an own key of its organization is held for and charged by the factor of that key.

alter table reservations
  -- The own keys that may serve it, with what they were then: [{provider, provider_key_id, version, price_factor, own_keys}].
  add column own_keys jsonb,
  -- The one that did; null: the platform's key.
  add column provider_key_id text;
-- True: whoever reserves asks for the own keys of its organization and serves by them.
alter type reserve_item add attribute own_keys boolean;
-- The own keys that may serve it, as a reservation has them.
alter type quote add attribute own_keys jsonb;
-- The own key that served.
alter type settle_item add attribute provider_key_id text;
alter type settlement add attribute provider_key_id text;
-- Those of a hold.
alter type lane_row add attribute own_keys jsonb;
alter type item_answer add attribute own_keys jsonb;

-- What an own key makes of a price for one usage: the amounts in force, each times its factor but for the price per request.
create function price_by_key(p model_prices, u usage_counts, p_factor numeric)
returns model_prices language plpgsql immutable as $$
declare
  v model_prices := price_at(p, u);
begin
  v.tiers := null;
  v.service_tiers := null;
  v.regions := null;
  v.input_per_1m := v.input_per_1m * p_factor;
  v.output_per_1m := v.output_per_1m * p_factor;
  v.cached_input_per_1m := v.cached_input_per_1m * p_factor;
  v.cache_write_per_1m := v.cache_write_per_1m * p_factor;
  v.cache_write_1h_per_1m := v.cache_write_1h_per_1m * p_factor;
  v.audio_input_per_1m := v.audio_input_per_1m * p_factor;
  v.audio_output_per_1m := v.audio_output_per_1m * p_factor;
  v.image_input_per_1m := v.image_input_per_1m * p_factor;
  v.image_output_per_1m := v.image_output_per_1m * p_factor;
  v.video_input_per_1m := v.video_input_per_1m * p_factor;
  v.video_output_per_1m := v.video_output_per_1m * p_factor;
  v.per_minute := v.per_minute * p_factor;
  v.per_1m_characters := v.per_1m_characters * p_factor;
  v.per_tool_call := v.per_tool_call * p_factor;
  v.per_web_search := v.per_web_search * p_factor;
  v.per_file_search := v.per_file_search * p_factor;
  v.per_container := v.per_container * p_factor;
  v.per_page := v.per_page * p_factor;
  v.minimum := v.minimum * p_factor;
  return v;
end $$;

-- What a usage costs at most by an own key, as dearest_cost says it of the platform's.
create function dearest_cost_by_key(p model_prices, u usage_counts, p_factor numeric)
returns numeric language plpgsql immutable as $$
declare
  v_nanos numeric := usage_cost(price_by_key(p, u, p_factor), u);
  v_tier text;
begin
  if p.service_tiers is null or u.service_tier is null then
    return v_nanos;
  end if;
  if u.service_tier in ('auto', 'default') then
    for v_tier in select jsonb_object_keys(p.service_tiers) loop
      u.service_tier := v_tier;
      v_nanos := greatest(v_nanos, usage_cost(price_by_key(p, u, p_factor), u));
    end loop;
    return v_nanos;
  end if;
  u.service_tier := null;
  return greatest(v_nanos, usage_cost(price_by_key(p, u, p_factor), u));
end $$;

-- The key that an organization has at a provider; a null row if it has none.
create function own_key_at(p_org_id text, p_provider text)
returns provider_keys language sql stable as $$
  select k from provider_keys k where k.org_id = p_org_id and k.provider = p_provider and k.revoked_at is null limit 1
$$;

-- What a frozen key multiplies with; null for the platform's.
create function frozen_factor(p_own_keys jsonb, p_provider text, p_provider_key_id text)
returns numeric language sql immutable as $$
  select (k.value ->> 'price_factor')::numeric from jsonb_array_elements(p_own_keys) as k
  where k.value ->> 'provider' = p_provider and k.value ->> 'provider_key_id' = p_provider_key_id limit 1
$$;

-- Prices a reserve: what it costs at most by today's prices, the dearest of the model and its fallbacks, each price frozen. A
-- tier or region that none of them prices is refused; one that some do not price is charged at their base. Where the
-- organization has an own key, its factor counts in the place of the platform's price, or beside it if that key may serve too.
create function quote_reserve_2(p_org_id text, i reserve_item, p_default_max_completion integer) returns quote
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
    v_usage := expected_usage(i, v_price, p_default_max_completion);
    v_key := case when i.own_keys then own_key_at(p_org_id, v_candidate.provider) end;
    if v_key.id is not null then
      v_quote.usd_nanos := greatest(v_quote.usd_nanos, dearest_cost_by_key(v_price, v_usage, v_key.price_factor));
      if not coalesce(v_quote.own_keys, '[]') @> jsonb_build_array(jsonb_build_object('provider_key_id', v_key.id)) then
        v_quote.own_keys := coalesce(v_quote.own_keys, '[]') || jsonb_build_object('provider', v_key.provider,
          'provider_key_id', v_key.id, 'version', v_key.version, 'price_factor', trim_scale(v_key.price_factor)::text,
          'own_keys', v_key.own_keys);
      end if;
    end if;
    if v_key.id is null or v_key.own_keys = 'first' then
      v_quote.usd_nanos := greatest(v_quote.usd_nanos, dearest_cost(v_price, v_usage));
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
  select amount_to_hold((quote_reserve_2(p_org.id, i, p_org.default_max_completion_tokens)).usd_nanos, rate_of(p_org.currency),
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
        cross join lateral quote_reserve_2(t.org_id, i, o.default_max_completion_tokens) as q
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
  r.currency := p_org.currency;
  r.life_seconds := p_org.reservation_ttl_seconds;
  r.created_at := p_now;
  r.expires_at := p_now + p_org.reservation_ttl_seconds * interval '1 second';
  return r;
end $$;

-- Answers an item whose request_id holds already or may never hold. A call that was canceled stays canceled.
create or replace function repeated_reserve(f reserve_fact) returns lane_row language plpgsql immutable as $$
declare
  a lane_answer;
  v_row lane_row;
begin
  a.op := 'reserve';
  a.n := f.n;
  a := repeated_hold(a, f.earlier, f.body_sha256, f.earlier_balance_nanos);
  if (f.earlier).status = 'released' and (f.earlier).outcome = 'canceled' then
    a.code := 'request_canceled';
  end if;
  v_row.answer := a;
  v_row.max_completion_tokens := (f.earlier).max_completion_tokens;
  v_row.own_keys := (f.earlier).own_keys;
  return v_row;
end $$;

-- Answers a redeem whose request_id has a reservation already: with that one, if this ticket paid for it.
create or replace function repeated_redeem(t cost_tickets, r reservations) returns lane_row language plpgsql stable as $$
declare
  v_row lane_row;
begin
  v_row.answer := repeated_hold(null, r, r.body_sha256, (select h.balance_after_nanos from wallet_transactions h
    where h.reservation_id = r.id and h.phase = 'hold'));
  if r.status = 'released' and r.outcome = 'canceled' then
    v_row.answer.code := 'request_canceled';
  elsif r.status <> 'canceled' and r.cost_ticket_id is distinct from t.id then
    v_row.answer.code := 'idempotency_key_reused';
  end if;
  v_row.max_completion_tokens := r.max_completion_tokens;
  v_row.own_keys := r.own_keys;
  return v_row;
end $$;

-- Redeems a ticket with the hold that its call has already. What an approval holds for the ticket is given back: one call is
-- paid once.
create or replace function adopt_hold(t cost_tickets, r reservations) returns lane_row language plpgsql as $$
declare
  v_row lane_row;
begin
  if t.status = 'approved' then
    perform from settle_3(t.org_id, jsonb_build_array(jsonb_build_object('reservation_id', t.reservation_id, 'outcome', 'canceled')));
  end if;
  update reservations q set cost_ticket_id = t.id where q.id = r.id;
  update cost_tickets q set reservation_id = r.id, request_id = r.request_id where q.id = t.id;
  perform resolve_ticket(t.id, 'redeemed', false);
  perform move_waiters(t);
  v_row.answer := repeated_hold(null, r, r.body_sha256, (select h.balance_after_nanos from wallet_transactions h
    where h.reservation_id = r.id and h.phase = 'hold'));
  v_row.max_completion_tokens := r.max_completion_tokens;
  v_row.own_keys := r.own_keys;
  return v_row;
end $$;

-- Gives an approved ticket's hold to the call that redeems it; from now on it lives as long as any
-- other hold. While its organization is suspended it stays as it is.
create or replace function claim_approved(t cost_tickets, i redeem_item, a lane_answer) returns lane_row language plpgsql as $$
declare
  v_row lane_row;
  r reservations;
begin
  select * into r from reservations q where q.id = t.reservation_id and q.status = 'open' and q.expires_at > clock_timestamp();
  a.code := case
    when r.id is null then 'ticket_expired'
    when exists (select 1 from organizations o where o.id = t.org_id and o.suspended_at is not null) then 'organization_suspended'
    when exists (select 1 from tokens k left join token_secrets s on s.id = i.secret_id and s.token_id = k.id
      where k.id = t.key_id and (k.revoked_at <= clock_timestamp() or k.expires_at <= clock_timestamp()
        or s.expires_at <= clock_timestamp() or (i.secret_id is not null and s.id is null))) then 'invalid_credential'
    else leaver_refusal(t) end;
  if a.code is not null then
    a.param := case a.code when 'not_of_organization' then 'user_id' when 'not_team_member' then 'team_id' end;
    v_row.answer := a;
    return v_row;
  end if;
  update reservations q set request_id = i.request_id, expires_at = clock_timestamp() + q.life_seconds * interval '1 second'
  where q.id = r.id returning * into r;
  perform wake_lifetimes(t.org_id, r.expires_at);
  update cost_tickets q set request_id = i.request_id where q.id = t.id;
  perform resolve_ticket(t.id, 'redeemed', false);
  perform move_waiters(t);
  v_row.answer := repeated_hold(a, r, r.body_sha256, (select w.balance_nanos from wallets w where w.id = r.wallet_id));
  v_row.max_completion_tokens := r.max_completion_tokens;
  v_row.own_keys := r.own_keys;
  return v_row;
end $$;

-- Answers an item that holds: its reservation, and the balance that the hold leaves.
create or replace function held_reserve(p_n integer, r reservations, p_balance_nanos bigint, p_warnings jsonb) returns lane_row
language sql immutable as $$
  select (('reserve', p_n, null, null, r.id, null, r.wallet_id, r.wallet_owner_type, r.currency, r.estimated_nanos,
    r.held_nanos, null, null, p_balance_nanos, null, r.expires_at, null)::lane_answer,
    r.max_completion_tokens, p_warnings, null, r.own_keys)::lane_row
$$;

-- Answers an item that no wallet covers: with the amounts that were asked for and its cost ticket; or without one, naming the
-- bound of open tickets that is met and when the first of them ends.
create or replace function uncovered_reserve(p_n integer, p_currency text, p_estimated_nanos numeric, p_held_nanos numeric,
  p_cost_ticket jsonb) returns lane_row language sql stable as $$
  select (('reserve', p_n, 'insufficient_balance', p_cost_ticket #>> '{exceeded,param}', null, null, null, null, p_currency,
    p_estimated_nanos, p_held_nanos, null, null, null, null, null,
    case when p_cost_ticket ? 'exceeded' then null else p_cost_ticket end)::lane_answer, null, null,
    (p_cost_ticket #>> '{exceeded,resets_at}')::timestamptz, null)::lane_row
$$;

-- Answers an item that is refused, and names the member of its body that is at fault. `p_resets_at` ends the window of the cap
-- that refused it.
create or replace function refused_reserve(f reserve_fact, q quote, p_code text, p_resets_at timestamptz) returns lane_row
language sql immutable as $$
  select (('reserve', f.n, p_code,
    case p_code
      when 'unknown_org' then 'org_id'
      when 'not_of_organization' then f.unknown_member
      when 'not_team_member' then 'team_id'
      when 'amount_too_large' then 'estimated_prompt_tokens'
      else q.param end,
    null, null, null, null, null, null, null, null, null, null, null, null, null)::lane_answer,
    null, null, p_resets_at, null)::lane_row
$$;

-- One commit for what waits in one organization's lane: settlements first, they give money back; then the calls that have
-- waited for it; then new ones.
create or replace function lane_3(p_org_id text, p_settlements jsonb, p_redeems jsonb, p_reserves jsonb) returns setof lane_row
language plpgsql
set enable_seqscan = off set enable_material = off set plan_cache_mode = force_generic_plan as $$
begin
  if jsonb_array_length(p_settlements) > 0 then
    return query select s::lane_answer, null::bigint, null::jsonb, null::timestamptz, null::jsonb
      from settle_3(p_org_id, p_settlements) as s;
  end if;
  if jsonb_array_length(p_redeems) > 0 then
    return query select * from redeem(p_org_id, p_redeems);
  end if;
  if jsonb_array_length(p_reserves) > 0 then
    return query select * from reserve_2(p_org_id, p_reserves);
  end if;
end $$;

-- One commit for what waits in one organization's lane: settlements first, they give money back; then the calls that have
-- waited for it; then new ones. What comes alone goes the short way, if it is usual. `p_traces` is what is said of the calls,
-- by the names that trace_of knows; the short way tells nobody.
create or replace function lane_4(p_org_id text, p_settlements jsonb, p_redeems jsonb, p_reserves jsonb, p_traces text)
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
      return query select s.*, null::bigint, null::jsonb, null::timestamptz, null::jsonb
        from settle_3(p_org_id, p_settlements) as s;
    end if;
    if v_redeems > 0 then
      return query select (r.answer).*, r.max_completion_tokens, r.warnings, r.resets_at, r.own_keys
        from redeem(p_org_id, p_redeems) as r;
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
    return query select (r.answer).*, r.max_completion_tokens, r.warnings, r.resets_at, r.own_keys
      from reserve_2(p_org_id, p_reserves) as r;
  end if;
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

    q := quote_reserve_2(p_org_id, f.body, v_org.default_max_completion_tokens);
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
  select coalesce(f.is_usual and f.held_nanos <= f.room_nanos, false), f.currency, f.version_id, f.rate, f.estimated_nanos,
    f.held_nanos, f.completion_tokens,
    case when f.user_nanos >= f.held_nanos then f.user_wallet_id when f.team_nanos >= f.held_nanos then f.team_wallet_id
      when f.org_nanos >= f.held_nanos then f.org_wallet_id end,
    case when f.user_nanos >= f.held_nanos then 'user' when f.team_nanos >= f.held_nanos then 'team' else 'organization' end,
    f.reservation_ttl_seconds, v_now + f.reservation_ttl_seconds * interval '1 second', f.lifetimes_next_at, f.is_budgeted, f.warnings
  into v_is_usual, v_currency, v_price_version_id, v_rate, v_estimated_nanos, v_held_nanos, v_completion_tokens, v_wallet_id,
    v_owner_type, v_life_seconds, v_expires_at, v_sweep_at, v_is_budgeted, v_warnings
  from (
    select o.currency, x.rate, o.reservation_ttl_seconds, o.lifetimes_next_at, p.version_id, c.completion_tokens,
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
    cross join lateral (select token_cost(p, i.estimated_prompt_tokens, c.completion_tokens) as nanos) as usd
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
    estimated_nanos, held_nanos, life_seconds, created_at, expires_at, max_completion_tokens, is_budgeted, tags)
  values (v_id, p_org_id, i.request_id, 'open', body_digest(p_item), i.request_body_hash, v_wallet_id, v_owner_type,
    i.key_id, i.user_id, i.team_id, i.agent_id, i.session_id, i.family, i.provider, i.model, v_price_version_id, v_rate,
    v_currency, v_estimated_nanos, v_held_nanos, v_life_seconds, v_now, v_expires_at, v_completion_tokens, v_is_budgeted,
    i.tags)
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

-- Settles one item likewise: settle_3 would close an open hold with it, at the model that was held for, within its bound, and
-- tell nobody. Null, and nothing is written, if that is not sure.
create or replace function settle_alone(p_org_id text, p_item jsonb) returns item_answer language plpgsql as $$
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
    r.model, r.is_budgeted, r.user_id, r.team_id, r.created_at, w.seq, w.balance_nanos, w.reserved_nanos, coalesce(w.low_balance_threshold_nanos, o.low_balance_threshold_nanos)
      as threshold_nanos, p.free, settlement_bound(r) as bound_nanos,
    round(token_cost(p, (v_usage ->> 'prompt_tokens')::numeric, (v_usage ->> 'completion_tokens')::numeric) * r.exchange_rate)
      as cost_nanos,
    r.org_id = p_org_id and r.status = 'open' and r.cost_ticket_id is null
      and r.own_keys is null and p_item ->> 'provider_key_id' is null
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
      -- A budget may reach a threshold.
      or (f.is_budgeted and f.cost_nanos > f.held_nanos)
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
  if f.is_budgeted then
    perform count_in_budgets(p_org_id, (f.id, f.key_id, f.user_id, f.team_id, f.created_at, -f.held_nanos, v_cost_nanos)::budget_move);
  end if;
  insert into wallet_transactions (id, wallet_id, org_id, seq, type, amount_nanos, balance_after_nanos, provider, model,
    reservation_id, phase, actual_cost_nanos, created_at)
  values (v_entry_id, f.wallet_id, p_org_id, f.seq + 1, 'settlement', f.held_nanos - v_cost_nanos,
    f.balance_nanos + f.held_nanos - v_cost_nanos, f.provider, f.model, f.id, 'close', v_cost_nanos, v_now);
  update wallets w set balance_nanos = w.balance_nanos + f.held_nanos - v_cost_nanos,
    reserved_nanos = w.reserved_nanos - f.held_nanos, seq = w.seq + 1
  where w.id = f.wallet_id;
  return ('settle', 1, null, null, f.id, 'settled', f.wallet_id, f.wallet_owner_type, f.currency, f.estimated_nanos, f.held_nanos,
    v_cost_nanos, greatest(f.held_nanos - v_cost_nanos, 0), f.balance_nanos + f.held_nanos - v_cost_nanos, v_entry_id,
    f.expires_at, null, null, null, null, null)::item_answer;
end $$;

create or replace function judge_settlements_3(p_org_id text, p_items jsonb) returns settlement[] language sql stable as $$
  select array_agg((e.n::integer,
    case
      when r.id is null and i.outcome = 'canceled' and i.request_id is not null
        and exists (select 1 from organizations o where o.id = p_org_id) then 'tombstone'
      when r.id is null then 'not_found'
      when r.status not in ('open', 'expired') then 'repeated'
      when p.version_id is null then 'price_not_frozen'
      when i.provider_key_id is not null and own.factor is null then 'provider_key_not_frozen'
      when i.outcome = 'completed' and told.usd_nanos = 0 and not (p.price).free and own.factor is distinct from 0
        then 'usage_not_priced'
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
    cost.nanos, chosen.provider, chosen.model, i.outcome, i.usage, i.usage_source, told.nanos - cost.nanos,
    p.version_id is not null and not (knows_tier(p.price, i.usage ->> 'service_tier')
      and knows_region(p.price, i.usage ->> 'region')), i.provider_key_id)::settlement order by e.n)
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
  left join lateral (select frozen_factor(r.own_keys, chosen.provider, i.provider_key_id) as factor offset 0) as own
    on i.provider_key_id is not null
  cross join lateral (select case
    -- What failed or was canceled before any use costs nothing, not even the price per request.
    when i.outcome <> 'completed' and not has_use(i.usage) then 0
    when own.factor is not null then usage_cost(
      price_by_key(p.price, jsonb_populate_record(null::usage_counts, i.usage), own.factor),
      jsonb_populate_record(null::usage_counts, i.usage))
    else usage_cost(p.price, jsonb_populate_record(null::usage_counts, i.usage)) end as usd_nanos offset 0) as usd
  cross join lateral (select usd.usd_nanos, round(usd.usd_nanos * r.exchange_rate) as nanos offset 0) as told
  cross join lateral (select least(told.nanos, settlement_bound(r.reservation)) as nanos offset 0) as cost
$$;

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
    usage_source = s.usage_source, settled_provider = s.provider, settled_model = s.model,
    provider_key_id = s.provider_key_id
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

-- Answers the items of a settle that close nothing: repeats, refusals, and cancellations of a request_id that is unknown. Such a
-- cancellation leaves a tombstone, so that this request_id never holds, and no wait for money outlives it.
create or replace function answer_unclosed(p_org_id text, p_items settlement[], p_now timestamptz) returns setof lane_answer
language plpgsql as $$
begin
  return query
    with tombstones as (
      insert into reservations (id, org_id, request_id, status, created_at, outcome)
      select new_id('res'), p_org_id, s.request_id, 'canceled', p_now, 'canceled'
      from unnest(p_items) as s where s.code = 'tombstone' returning *
    ), gone as (
      delete from ticket_waiters w using tombstones t where w.org_id = p_org_id and w.request_id = t.request_id
    )
    select a.* from unnest(p_items) as s
    join tombstones t on s.code = 'tombstone' and t.request_id = s.request_id
    cross join lateral settled_answer(s.n, t::reservations) as a;
  return query
    select a.* from unnest(p_items) as s cross join lateral settled_answer(s.n, s.reservation) as a
    where s.code = 'repeated';
  return query
    select 'settle', s.n, s.code,
      case s.code when 'price_not_frozen' then 'model' when 'provider_key_not_frozen' then 'provider_key_id' when 'not_found' then null
        else 'usage' end,
      (s.reservation).id, null::text, null::text, null::text, null::text, null::bigint, null::bigint, null::bigint,
      null::bigint, null::bigint, null::text, null::timestamptz, null::jsonb
    from unnest(p_items) as s where s.code not in ('tombstone', 'repeated');
end $$;

-- Serves an organization's queue and says what the named calls have been answered, whoever served them. Every API calls it
-- whenever something changes: a look without the lock first, then the walk under it, oldest first and a few dozen at most, so
-- that a long queue never keeps the ledger; a call that is served tells the APIs to look again.
create function redeem_waiting_2(p_org_id text, p_request_ids text[])
returns table (request_id text, answer lane_answer, max_completion_tokens bigint, warnings jsonb, resets_at timestamptz, own_keys jsonb)
language plpgsql
set enable_seqscan = off set enable_material = off set plan_cache_mode = force_generic_plan as $$
declare
  w record;
  v_repriced boolean;
  v_walk_max constant integer := 32;
begin
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

alter table stored_ids
  -- The own key in whose account its provider keeps it; null: in that of the platform.
  add column provider_key_id text;

-- The own key in whose account a provider keeps what a request names; null: in that of the platform.
create function key_of_keeper(p_org_id text, p_named jsonb, p_provider text)
returns text language sql stable as $$
  select s.provider_key_id from jsonb_to_recordset(p_named -> 'ids') as i (kind text, id text)
  join stored_ids s on s.org_id = p_org_id and s.kind = i.kind and s.id = i.id and s.provider = p_provider
  order by s.provider_key_id nulls last limit 1
$$;

-- Keeps the ids that calls have made, for the caller of their reservation. An id that is known already stays whose it is.
create or replace function keep_stored_ids(p_org_id text, p_made jsonb) returns void language sql as $$
  insert into stored_ids (org_id, kind, id, provider, key_id, user_id, provider_key_id)
  select distinct on (i.kind, i.id, i.provider) p_org_id, i.kind, i.id, i.provider, r.key_id, r.user_id, i.provider_key_id
  from jsonb_array_elements(p_made) with ordinality as m (value, n)
  left join lateral (select q.id from reservations q where q.org_id = p_org_id and q.request_id = m.value ->> 'request_id' limit 1)
    as named on true
  join lateral (select q.key_id, q.user_id from reservations q
    where q.id = coalesce(m.value ->> 'reservation_id', named.id) and q.org_id = p_org_id limit 1) as r on true
  cross join lateral jsonb_to_recordset(m.value -> 'ids') as i (kind text, id text, provider text, provider_key_id text)
  order by i.kind, i.id, i.provider, m.n
  on conflict (org_id, kind, id, provider) do update set used_at = clock_timestamp()
$$;

-- Runs before a lane, under its lock: keeps what settlements have made, then looks up what requests name. Answers one object a
-- request: its `n`, and the `provider` that keeps its ids, or the `unknown` id.
create or replace function bind_stored_ids(p_org_id text, p_made jsonb, p_named jsonb) returns jsonb language plpgsql
set enable_seqscan = off set enable_material = off set plan_cache_mode = force_generic_plan as $$
begin
  perform lock_organization(p_org_id);
  if jsonb_array_length(p_made) > 0 then
    perform keep_stored_ids(p_org_id, p_made);
  end if;
  if jsonb_array_length(p_named) = 0 then
    return '[]';
  end if;
  -- An hour is exact enough for a time of last use, and saves most writes.
  update stored_ids s set used_at = clock_timestamp()
  from jsonb_array_elements(p_named) as e cross join lateral jsonb_to_recordset(e -> 'ids') as i (kind text, id text)
  where s.org_id = p_org_id and s.kind = i.kind and s.id = i.id and may_name(s, e ->> 'user_id')
    and s.used_at < clock_timestamp() - interval '1 hour';
  return (select jsonb_agg(jsonb_build_object('n', e.value -> 'n', 'provider', k.provider,
      'provider_key_id', key_of_keeper(p_org_id, e.value, k.provider),
      'unknown', case when k.provider is null then id_without_keeper(p_org_id, e.value) end))
    from jsonb_array_elements(p_named) as e (value)
    cross join lateral (select keeper_of(p_org_id, e.value) as provider offset 0) as k);
end $$;
