-- What a provider itself says that a call has cost is kept beside the settlement, to be compared with the price list. No money
-- follows it.

alter table reservations
  -- What the provider said that the call cost it, in USD; null: it said nothing. Compared, and charged to nobody.
  add column provider_cost_usd numeric;
-- The calls of a period whose providers said their cost.
create index reservations_told on reservations (closed_at) where provider_cost_usd is not null;
-- The provider's own figure of the cost, in USD.
alter type settle_item add attribute provider_cost_usd numeric;
alter type settlement add attribute provider_cost_usd numeric;

create or replace function judge_settlements_3(p_org_id text, p_items jsonb) returns settlement[] language sql stable as $$
  select array_agg((e.n::integer,
    case
      when r.id is null and i.outcome = 'canceled' and i.request_id is not null
        and exists (select 1 from organizations o where o.id = p_org_id) then 'tombstone'
      when r.id is null then 'not_found'
      when r.status not in ('open', 'expired') then 'repeated'
      when p.version_id is null then 'price_not_frozen'
      when i.provider_key_id is not null and own.factor is null then 'provider_key_not_frozen'
      when i.outcome = 'completed' and told.usd_nanos = 0 and not (p.price).free and coalesce(own.factor, r.price_factor) is distinct from 0
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
      and knows_region(p.price, i.usage ->> 'region')), i.provider_key_id,
    i.provider_cost_usd)::settlement order by e.n)
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
    else usage_cost(
      charged_price(p.price, jsonb_populate_record(null::usage_counts, i.usage), own.factor, r.price_factor),
      jsonb_populate_record(null::usage_counts, i.usage)) end as usd_nanos offset 0) as usd
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
    provider_key_id = s.provider_key_id, provider_cost_usd = s.provider_cost_usd
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
    round(token_cost(p, (v_usage ->> 'prompt_tokens')::numeric, (v_usage ->> 'completion_tokens')::numeric)
      * coalesce(r.price_factor, 1) * r.exchange_rate) as cost_nanos,
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
    usage = v_usage, usage_source = p_item ->> 'usage_source', settled_provider = r.provider, settled_model = r.model,
    provider_cost_usd = (p_item ->> 'provider_cost_usd')::numeric
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
