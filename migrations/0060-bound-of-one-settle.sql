-- A cost beyond what an amount may be is left to settle_3, which refuses it, also where a hundred holds are more than that.

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
