-- A settle far above its hold is charged to a bound; a person decides about the rest. A tier of service or region that the price
-- does not know is charged at the base, with an event.

-- All migrations of a start are one transaction, which keeps the lock of this line to its end: so no row is looked at. Each that
-- there is has met the narrower check of before; new rows meet this one, valid or not.
alter table wallet_transactions
  drop constraint wallet_transactions_phase_check,
  add constraint wallet_transactions_phase_check check (phase in ('hold', 'close', 'late', 'excess')) not valid;

-- What settles told beyond their bound. It is charged or dropped once, by a person.
create table settlement_excess (
  id text primary key default new_id('excess'),
  org_id text not null references organizations,
  reservation_id text not null unique,
  status text not null default 'open' check (status in ('open', 'charged', 'dropped')),
  wallet_id text not null,
  currency text not null,
  -- What was charged, and what was not; at most what an amount may be.
  charged_nanos bigint not null,
  excess_nanos bigint not null check (excess_nanos > 0),
  created_at timestamptz not null,
  decided_at timestamptz,
  decided_by text,
  note text,
  -- The entry that charged it.
  transaction_id text
);
create index settlement_excess_open on settlement_excess (created_at) where status = 'open';

alter type settlement
  -- What the usage costs beyond the bound of a charge.
  add attribute excess_nanos numeric,
  -- The answer named a tier of service or a region without a price.
  add attribute is_unpriced boolean;

-- The most that a settle charges: a hundred holds, or 10 units of the currency.
create function settlement_bound(r reservations) returns numeric language sql immutable as $$
  select greatest(r.held_nanos::numeric * 100, 10000000000)
$$;

create or replace function judge_settlements_3(p_org_id text, p_items jsonb) returns settlement[] language sql stable as $$
  select array_agg((e.n::integer,
    case
      when r.id is null and i.outcome = 'canceled' and i.request_id is not null
        and exists (select 1 from organizations o where o.id = p_org_id) then 'tombstone'
      when r.id is null then 'not_found'
      when r.status not in ('open', 'expired') then 'repeated'
      when p.version_id is null then 'price_not_frozen'
      when i.outcome = 'completed' and told.usd_nanos = 0 and not (p.price).free then 'usage_not_priced'
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
      and knows_region(p.price, i.usage ->> 'region')))::settlement order by e.n)
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
    when i.outcome <> 'completed' and not has_use(i.usage) then 0
    else usage_cost(p.price, jsonb_populate_record(null::usage_counts, i.usage)) end as usd_nanos offset 0) as usd
  cross join lateral (select usd.usd_nanos, round(usd.usd_nanos * r.exchange_rate) as nanos offset 0) as told
  cross join lateral (select least(told.nanos, settlement_bound(r.reservation)) as nanos offset 0) as cost
$$;
comment on function judge_settlements_3(text, jsonb) is
'Reads the items of a settle with their reservations and frozen prices, and judges them. Items are independent: a reservation
comes once a batch. It charges no more than settlement_bound, and refuses an answer that would cost nothing at a price that is
not free, and debt beyond the bound of a wallet. `offset 0` keeps the planner from writing the cost out wherever it is read.';

-- Puts aside what closed settlements cost beyond their bound, and tells of it and of tiers and regions without a price.
create function note_settlements(p_org_id text, p_closing settlement[], p_now timestamptz) returns void language plpgsql as $$
begin
  insert into settlement_excess (org_id, reservation_id, wallet_id, currency, charged_nanos, excess_nanos, created_at)
  select p_org_id, (s.reservation).id, (s.reservation).wallet_id, (s.reservation).currency, s.cost_nanos,
    least(s.excess_nanos, 9000000000000000000), p_now
  from unnest(p_closing) as s where s.excess_nanos > 0 order by s.n;
  perform append_event(p_org_id, 'settlement.bounded', jsonb_build_object('settlement_excess_id', x.id,
    'reservation_id', x.reservation_id, 'request_id', (s.reservation).request_id, 'agent_id', (s.reservation).agent_id,
    'wallet_id', x.wallet_id, 'held_nanos', (s.reservation).held_nanos::text, 'charged_nanos', x.charged_nanos::text,
    'excess_nanos', x.excess_nanos::text, 'currency', x.currency))
  from unnest(p_closing) as s join settlement_excess x on x.reservation_id = (s.reservation).id where s.excess_nanos > 0;
  perform append_event(p_org_id, 'settlement.tier_unpriced', jsonb_build_object('reservation_id', (s.reservation).id,
    'request_id', (s.reservation).request_id, 'agent_id', (s.reservation).agent_id, 'provider', s.provider, 'model', s.model,
    'service_tier', s.usage ->> 'service_tier', 'region', s.usage ->> 'region'))
  from unnest(p_closing) as s where s.is_unpriced;
end $$;

create or replace function settle_3(p_org_id text, p_items jsonb) returns setof lane_answer language plpgsql as $$
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
    usage_source = s.usage_source, settled_provider = s.provider, settled_model = s.model
  from unnest(v_closing) as s where r.id = (s.reservation).id;
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
      payment_session_id, description, created_at, n, code, reservation, request_id, status, cost_nanos, chosen_provider,
      chosen_model, outcome, usage, usage_source);
end $$;

-- The answer of a repeated settle: what the first one did, whatever a person has charged since.
create or replace function settled_answer(p_n integer, r reservations) returns lane_answer language sql stable as $$
  select ('settle', p_n, null, null, case when r.status <> 'canceled' then r.id end,
    case r.status when 'canceled' then 'released' else r.status end, r.wallet_id, r.wallet_owner_type, r.currency,
    r.estimated_nanos, r.held_nanos, coalesce(t.actual_cost_nanos, r.actual_cost_nanos, 0),
    case when r.status in ('settled', 'released') then greatest(r.held_nanos - r.actual_cost_nanos, 0) else 0 end,
    t.balance_after_nanos, t.id, r.expires_at, null)::lane_answer
  from (select 1) as always
  left join wallet_transactions t on t.reservation_id = r.id
    and t.phase = case r.status when 'late' then 'late' else 'close' end
$$;

-- Decides about an excess, once: charges it to the wallet of its reservation, or drops it. Says why it did nothing; null if it
-- did. Invariant: the reservation costs what its entries say, and its key and caps count it.
create function decide_excess(p_id text, p_action text, p_note text, p_by text) returns text language plpgsql
set enable_seqscan = off set enable_material = off set plan_cache_mode = force_generic_plan as $$
declare
  x settlement_excess;
  r reservations;
  v_entry wallet_transactions;
begin
  select * into x from settlement_excess q where q.id = p_id;
  if x.id is null then
    return 'not_found';
  end if;
  perform lock_organization(x.org_id);
  select * into x from settlement_excess q where q.id = p_id;
  if x.status <> 'open' then
    return 'already_decided';
  end if;
  if p_action = 'charge' then
    select * into r from reservations q where q.id = x.reservation_id;
    if r.actual_cost_nanos::numeric + x.excess_nanos > 9000000000000000000 or exists (select 1 from wallets w
        where w.id = x.wallet_id and w.balance_nanos::numeric - x.excess_nanos < -9000000000000000000) then
      return 'amount_too_large';
    end if;
    select * into v_entry from post_entries(x.org_id, array[(x.wallet_id, 'settlement', -x.excess_nanos, 0, r.id, 'excess',
      r.settled_provider, r.settled_model, x.excess_nanos, null, null,
      coalesce(p_note, 'charged beyond the bound'))::ledger_entry]);
    update tokens t set spent_nanos = t.spent_nanos + x.excess_nanos where t.id = r.key_id;
    -- The status is set to itself, so that caps count the new cost.
    update reservations q set status = q.status, actual_cost_nanos = q.actual_cost_nanos + x.excess_nanos where q.id = r.id;
  end if;
  update settlement_excess q
  set status = case p_action when 'charge' then 'charged' else 'dropped' end, decided_at = clock_timestamp(),
    decided_by = p_by, note = p_note, transaction_id = v_entry.id
  where q.id = x.id;
  return null;
end $$;

-- The fourth proof: what audit_3() says, and that each excess which was charged has its entry, and no other has.
create function audit_4() returns table (check_name text, wallet_id text, detail text) language sql stable as $$
  select * from audit_3()
  union all
  select 'excess_is_charged_once', coalesce(x.wallet_id, t.wallet_id), coalesce(x.id || ' ' || x.status || ' of '
    || x.excess_nanos, 'no excess') || ': its entry says ' || coalesce(t.amount_nanos::text, 'nothing')
  from (select * from settlement_excess q where q.status = 'charged' or q.transaction_id is not null) as x
  full join (select * from wallet_transactions q where q.phase = 'excess') as t on t.id = x.transaction_id
  where (x.status, x.reservation_id, x.wallet_id, -x.excess_nanos)
    is distinct from ('charged', t.reservation_id, t.wallet_id, t.amount_nanos)
$$;
