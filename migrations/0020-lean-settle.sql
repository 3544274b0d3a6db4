-- The second settle with less work for the same answers: the cost of an item is computed once and not once for each place that
-- reads it, and a batch in which all goes well does not ask for what went wrong. What the previous API calls (lane_2, settle_2,
-- judge_settlements_2) stays as it is.

-- The settlements of a batch judged, as judge_settlements_2 judges them. `offset 0` keeps the planner from writing the cost out
-- wherever it is read.
create function judge_settlements_3(p_org_id text, p_items jsonb) returns settlement[] language sql stable as $$
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
    else usage_cost(p.price, jsonb_populate_record(null::usage_counts, i.usage)) end as usd_nanos offset 0) as usd
  cross join lateral (select usd.usd_nanos, round(usd.usd_nanos * r.exchange_rate) as nanos offset 0) as cost
$$;

-- Settles holds to their real cost. Invariant: each reservation is closed once and charged once, whatever is repeated;
-- the wallet may go into debt, other holds stay as they are. Canceling an unknown request_id leaves a tombstone, and no
-- wait for money outlives it.
create function settle_3(p_org_id text, p_items jsonb) returns setof lane_answer language plpgsql as $$
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

-- One commit for what waits in one organization's lane: settlements first, they give money back; then the calls that have
-- waited for it; then new ones.
create function lane_3(p_org_id text, p_settlements jsonb, p_redeems jsonb, p_reserves jsonb) returns setof lane_row
language plpgsql
set enable_seqscan = off set enable_material = off set plan_cache_mode = force_generic_plan as $$
begin
  if jsonb_array_length(p_settlements) > 0 then
    return query select s::lane_answer, null::bigint, null::jsonb, null::timestamptz from settle_3(p_org_id, p_settlements) as s;
  end if;
  if jsonb_array_length(p_redeems) > 0 then
    return query select * from redeem(p_org_id, p_redeems);
  end if;
  if jsonb_array_length(p_reserves) > 0 then
    return query select * from reserve_2(p_org_id, p_reserves);
  end if;
end $$;
