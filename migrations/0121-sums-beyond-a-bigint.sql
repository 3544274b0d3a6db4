-- Sums of amounts that are within their bounds, and are more than a bigint holds: a settle was refused for what its key had spent
-- in all, and its call was free for ever; a hold, an approval and a budget were refused for sums on the way to an amount that is in bounds.

-- What was spent is counted up to what a bigint holds, and no further. It is more than any limit may be, so nothing passes one for it.
create function add_spent(p_spent_nanos bigint, p_more_nanos numeric)
returns bigint language sql immutable as $$
  select least(p_spent_nanos + p_more_nanos, 9223372036854775807)::bigint
$$;

-- What a budget allows in the window of its row: its limit and what it was raised by, and in all no
-- more than a limit may be. What is spent can be counted beyond that.
create or replace function window_cap(b budgets) returns numeric language sql immutable as $$
  select least(b.limit_nanos::numeric + b.raised_nanos, 9000000000000000000)
$$;

-- Counts one move in the window in which its hold was made. True if a threshold is to be emitted.
create or replace function count_in_budgets(p_org_id text, m budget_move)
returns boolean language plpgsql as $$
declare
  v_is_past boolean;
  v_emits boolean;
begin
  with moved as (
    update budgets q
    set held_nanos = q.held_nanos + case when q.starts_at <= m.created_at then m.held_nanos else 0 end,
      spent_nanos = add_spent(q.spent_nanos, case when q.starts_at <= m.created_at then m.spent_nanos else 0 end)
    where q.org_id = p_org_id and q.owner_id in (p_org_id, m.key_id, m.user_id, m.team_id) and q.archived_at is null
    returning q.past_until > m.created_at as is_past, window_used(q) >= q.emits_at_nanos as emits
  )
  select bool_or(is_past), bool_or(emits) into v_is_past, v_emits from moved;
  if v_is_past then
    perform count_in_past(p_org_id, array[m]);
  end if;
  return coalesce(v_emits, false);
end $$;

-- Counts moves in windows that are over.
create or replace function count_in_past(p_org_id text, p_moves budget_move[])
returns void language sql as $$
  update budget_windows w set held_nanos = w.held_nanos + s.held_nanos, spent_nanos = add_spent(w.spent_nanos, s.spent_nanos)
  from (
    select p.budget_id, p.starts_at, p.ends_at, sum(m.held_nanos) as held_nanos, sum(m.spent_nanos) as spent_nanos
    from unnest(p_moves) as m
    join budgets b on b.org_id = p_org_id and b.owner_id in (p_org_id, m.key_id, m.user_id, m.team_id) and b.archived_at is null
      and b.past_until > m.created_at
    join budget_windows p on p.budget_id = b.id and p.starts_at <= m.created_at and m.created_at < p.ends_at
    group by 1, 2, 3
  ) as s
  where (w.budget_id, w.starts_at, w.ends_at) = (s.budget_id, s.starts_at, s.ends_at)
$$;

-- Counts all moves of a batch: each budget once.
create or replace function count_moves(p_org_id text, p_moves budget_move[])
returns void language plpgsql as $$
declare
  v_is_past boolean;
  v_emits boolean;
begin
  with callers as (
    select m.key_id, m.user_id, m.team_id, sum(m.held_nanos) as held_nanos, sum(m.spent_nanos) as spent_nanos,
      min(m.created_at) as since
    from unnest(p_moves) as m group by 1, 2, 3
  ), sums as (
    select b.id, sum(c.held_nanos) as held_nanos, sum(c.spent_nanos) as spent_nanos, min(c.since) as since
    from callers c
    cross join lateral (select q.id from budgets q where q.org_id = p_org_id
      and q.owner_id in (p_org_id, c.key_id, c.user_id, c.team_id) and q.archived_at is null) as b
    group by 1
  ), moved as (
    update budgets q
    set held_nanos = q.held_nanos + case when q.starts_at <= s.since then s.held_nanos
        else (select coalesce(sum(m.held_nanos), 0) from unnest(p_moves) as m
          where m.created_at >= q.starts_at and q.owner_id in (p_org_id, m.key_id, m.user_id, m.team_id)) end,
      spent_nanos = add_spent(q.spent_nanos, case when q.starts_at <= s.since then s.spent_nanos
        else (select coalesce(sum(m.spent_nanos), 0) from unnest(p_moves) as m
          where m.created_at >= q.starts_at and q.owner_id in (p_org_id, m.key_id, m.user_id, m.team_id)) end)
    from sums s where q.id = s.id
    returning q.past_until > s.since as is_past, window_used(q) >= q.emits_at_nanos as emits
  )
  select bool_or(is_past), bool_or(emits) into v_is_past, v_emits from moved;
  if v_is_past then
    perform count_in_past(p_org_id, p_moves);
  end if;
  if v_emits then
    perform emit_reached(p_org_id, p_moves);
  end if;
end $$;

-- Sets a budget's count of its window from what was held and spent in it, at its making or at a
-- change of its window. Reservations are found by their ids, which are in the order of time, from
-- the making of the owner on.
create or replace function recount_budget(p_budget_id text, p_now timestamptz)
returns void language plpgsql as $$
declare
  b budgets;
  v_since timestamptz;
begin
  select * into b from budgets q where q.id = p_budget_id;
  v_since := greatest(b.starts_at, owner_since(b));
  update reservations r set is_budgeted = true
  where r.org_id = b.org_id and r.status = 'open' and r.created_at >= v_since
    and b.owner_id in (r.org_id, r.key_id, r.user_id, r.team_id);
  update budgets q set (held_nanos, spent_nanos) = (
    select coalesce(sum(r.held_nanos) filter (where r.status = 'open'), 0), add_spent(0, coalesce(sum(r.actual_cost_nanos), 0))
    from reservations r
    where r.id >= 'res_' || lpad(to_hex(floor(extract(epoch from v_since - interval '1 minute') * 1000)::bigint), 12, '0')
      and r.org_id = b.org_id and r.created_at >= v_since and b.owner_id in (r.org_id, r.key_id, r.user_id, r.team_id))
  where q.id = b.id returning * into b;
  perform emit_standing(b);
end $$;

-- Decides about an excess, once: charges it to the wallet of its reservation, or drops it. Says why
-- it did nothing; null if it did. Invariant: the reservation costs what its entries say, and its
-- key and caps count it.
create or replace function decide_excess(p_id text, p_action text, p_note text, p_by text)
returns text language plpgsql
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
    update tokens t set spent_nanos = add_spent(t.spent_nanos, x.excess_nanos) where t.id = r.key_id;
    -- The status is set to itself, so that caps count the new cost.
    update reservations q set status = q.status, actual_cost_nanos = q.actual_cost_nanos + x.excess_nanos where q.id = r.id;
  end if;
  update settlement_excess q
  set status = case p_action when 'charge' then 'charged' else 'dropped' end, decided_at = clock_timestamp(),
    decided_by = p_by, note = p_note, transaction_id = v_entry.id
  where q.id = x.id;
  return null;
end $$;

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

  update tokens t set held_nanos = t.held_nanos - d.held_nanos, spent_nanos = add_spent(t.spent_nanos, d.cost_nanos)
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

-- Settles one item likewise: settle_3 would close an open hold with it, at the model that was held
-- for, within its bound, and tell nobody. Null, and nothing is written, if that is not sure.
create or replace function settle_alone(p_org_id text, p_item jsonb)
returns item_answer language plpgsql as $$
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
    update tokens k set held_nanos = k.held_nanos - f.held_nanos, spent_nanos = add_spent(k.spent_nanos, v_cost_nanos) where k.id = f.key_id;
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

-- The place that changes a balance, with reserve_alone and settle_alone, which do so for one entry.
-- Under the organization's lock it appends entries in the given order, moves each wallet once, and
-- writes one wallet.balance_low if balance + reserved crosses the threshold downwards, with the
-- call that did it. An entry that closes a call is nobody's, also if a person's step finds a hold
-- overdue.
create or replace function post_entries(p_org_id text, p_entries ledger_entry[])
returns setof wallet_transactions language plpgsql as $$
declare
  v_now timestamptz := clock_timestamp();
  v_low record;
begin
  return query
    insert into wallet_transactions (id, wallet_id, org_id, seq, type, amount_nanos, balance_after_nanos, provider, model,
      reservation_id, phase, actual_cost_nanos, transfer_id, payment_session_id, description, created_at, actor)
    select new_id('txn'), w.id, p_org_id, w.seq + row_number() over so_far, e.type, e.amount_nanos,
      (w.balance_nanos + sum(e.amount_nanos) over so_far)::bigint, e.provider, e.model, e.reservation_id, e.phase,
      e.actual_cost_nanos, e.transfer_id, e.payment_session_id, e.description, v_now,
      case when e.phase is null or e.phase not in ('close', 'late') then acting() end
    from unnest(p_entries) with ordinality as e (wallet_id, type, amount_nanos, reserved_nanos, reservation_id, phase,
      provider, model, actual_cost_nanos, transfer_id, payment_session_id, description, n)
    cross join lateral (select * from wallets q where q.id = e.wallet_id limit 1) as w
    window so_far as (partition by e.wallet_id order by e.n)
    order by e.n
    returning *;

  for v_low in
    with moves as (
      select e.wallet_id, sum(e.amount_nanos) as amount_nanos, sum(e.reserved_nanos) as reserved_nanos,
        count(*) as entries
      from unnest(p_entries) as e
      group by e.wallet_id
    ), moved as (
      update wallets w
      set balance_nanos = w.balance_nanos + m.amount_nanos,
        reserved_nanos = w.reserved_nanos + m.reserved_nanos,
        seq = w.seq + m.entries
      from moves m
      where w.id = m.wallet_id
      returning w.id, w.owner_type, w.currency, w.balance_nanos, w.reserved_nanos,
        w.balance_nanos::numeric + w.reserved_nanos as after_nanos,
        w.balance_nanos::numeric + w.reserved_nanos - m.amount_nanos - m.reserved_nanos as before_nanos,
        w.low_balance_threshold_nanos
    )
    select m.*, coalesce(m.low_balance_threshold_nanos, o.low_balance_threshold_nanos) as threshold_nanos
    from moved m join organizations o on o.id = p_org_id
    where m.before_nanos >= coalesce(m.low_balance_threshold_nanos, o.low_balance_threshold_nanos)
      and m.after_nanos < coalesce(m.low_balance_threshold_nanos, o.low_balance_threshold_nanos)
  loop
    perform append_event(p_org_id, 'wallet.balance_low', jsonb_build_object('wallet_id', v_low.id,
        'owner_type', v_low.owner_type, 'currency', v_low.currency, 'balance_nanos', v_low.balance_nanos::text,
        'reserved_nanos', v_low.reserved_nanos::text, 'threshold_nanos', v_low.threshold_nanos::text)
      || lowering_call(p_entries, v_low.id, v_low.before_nanos::bigint, v_low.threshold_nanos));
  end loop;
end $$;

-- Reads for each item, in order, what the tables know about it.
create or replace function reserve_facts(p_org_id text, p_items jsonb, p_now timestamptz)
returns setof reserve_fact language sql stable as $$
  select e.n::integer, i::reserve_item, r.earlier, h.balance_after_nanos,
    -- jsonb has one text for one content, whatever the order of its keys.
    encode(sha256(convert_to(jsonb_strip_nulls(e.value - '{request_id,secret_id,wallet_id,cost_ticket_id}'::text[])::text,
      'utf8')), 'hex'),
    e.value ->> 'wallet_id', e.value ->> 'cost_ticket_id',
    case
      when i.user_id is not null and m.user_id is null then 'user_id'
      when i.team_id is not null and t.id is null then 'team_id'
      when i.agent_id is not null and g.id is null then 'agent_id'
      when i.key_id is not null and k.id is null then 'key_id' end,
    k.revoked_at <= p_now or k.expires_at <= p_now or s.expires_at <= p_now or (i.secret_id is not null and s.id is null),
    case when k.max_budget_nanos is not null then greatest(k.max_budget_nanos::numeric - k.spent_nanos - k.held_nanos, -1) end::bigint,
    i.agent_id is not null and exists (select 1 from usage_constraints q where q.agent_id = i.agent_id
      and q.archived_at is null),
    (uw.id, 'user', uw.balance_nanos, uw.kept_nanos)::cascade_wallet,
    (tw.id, 'team', tw.balance_nanos, tw.kept_nanos)::cascade_wallet,
    (ow.id, 'organization', ow.balance_nanos, ow.kept_nanos)::cascade_wallet,
    i.user_id is not null and i.team_id is not null and tm.user_id is null
  from jsonb_array_elements(p_items) with ordinality as e (value, n)
  cross join lateral jsonb_populate_record(null::reserve_item, e.value) as i
  left join lateral (select q as earlier, q.id from reservations q where q.org_id = p_org_id
    and q.request_id = i.request_id limit 1) as r on true
  left join lateral (select * from wallet_transactions q where q.reservation_id = r.id and q.phase = 'hold' limit 1) as h on true
  left join lateral (select * from memberships q where q.org_id = p_org_id and q.user_id = i.user_id limit 1)
    as m on m.archived_at is null
  left join lateral (select * from teams q where q.id = i.team_id limit 1) as t on t.org_id = p_org_id and t.archived_at is null
  left join lateral (select q.user_id from team_members q where q.team_id = i.team_id and q.user_id = i.user_id limit 1)
    as tm on true
  left join lateral (select * from agents q where q.id = i.agent_id limit 1) as g on g.org_id = p_org_id and g.archived_at is null
  left join lateral (select * from tokens q where q.id = i.key_id limit 1) as k on k.org_id = p_org_id
  left join lateral (select * from token_secrets q where q.id = i.secret_id limit 1) as s on s.token_id = k.id
  left join lateral (select * from wallets q where q.org_id = p_org_id and q.owner_type = 'user'
    and q.owner_user_id = i.user_id limit 1) as uw on true
  left join lateral (select * from wallets q where q.org_id = p_org_id and q.owner_type = 'team'
    and q.owner_team_id = i.team_id limit 1) as tw on true
  left join lateral (select * from wallets q where q.org_id = p_org_id and q.owner_type = 'organization' limit 1) as ow on true
  order by e.n
$$;

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

-- True if a wallet pays an amount; `p_left` holds balances that the batch has changed already. Only
-- a call whose turn it is names the wallet, and takes what is kept.
create or replace function wallet_covers(w cascade_wallet, p_forced_wallet_id text, p_held_nanos numeric,
  p_left jsonb)
returns boolean language sql immutable as $$
  select case
    when p_forced_wallet_id is null
      then coalesce((p_left ->> w.id)::numeric, w.balance_nanos) - coalesce(w.kept_nanos, 0) >= p_held_nanos
    else p_forced_wallet_id = w.id and coalesce((p_left ->> w.id)::numeric, w.balance_nanos) >= p_held_nanos end
$$;

-- Balances as a younger call finds them, without what is kept; those of the batch where nothing is.
create or replace function free_balances(f reserve_fact, p_left jsonb)
returns jsonb language sql immutable as $$
  select coalesce(p_left || jsonb_object_agg((v.w).id,
    greatest(coalesce((p_left ->> (v.w).id)::numeric, (v.w).balance_nanos) - (v.w).kept_nanos, -9000000000000000000)::text), p_left)
  from (values (f.user_wallet), (f.team_wallet), (f.org_wallet)) as v (w)
  where (v.w).kept_nanos > 0
$$;

-- True if a call that waits for so much can no longer be served, however much money comes: its
-- organization is suspended, its key has ended or has spent its budget, its person, team or agent
-- is gone, a cap of its agent or the limits of its session are reached. Each waiting call is looked
-- at in each turn, so what costs more stands last, behind a look whether there is such a bound at
-- all. A need of null is of a call that costs nothing.
create or replace function waiter_has_ended(t cost_tickets, p_need_nanos bigint)
returns boolean language sql stable as $$
  select key_has_ended(t)
    or exists (select 1 from organizations o where o.id = t.org_id and o.suspended_at is not null)
    or (t.key_id is not null and exists (select 1 from tokens k where k.id = t.key_id
      and k.max_budget_nanos::numeric - k.spent_nanos - k.held_nanos < p_need_nanos))
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

-- The queue of an organization's waiting calls, oldest first, with the wallet that each may take. A
-- call that no wallet covers leaves to younger ones what is not kept of the wallets of its own
-- cascade; one that waits between two calls keeps what is its turn's. Ends after `p_turns_max` that
-- may be taken now.
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
      v_left := v_left || (select jsonb_object_agg(u.id, least((v_left ->> u.id)::numeric, u.balance_nanos::numeric - u.kept_nanos)::text)
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

-- Says why an approval may not fill a wallet with an amount, from another one if that is named;
-- null if it may.
create or replace function filling_refusal(w wallets, p_from wallets, p_verdict jsonb, p_amount_nanos numeric,
  p_short_nanos numeric)
returns text language sql stable as $$
  select case
    when p_verdict ->> 'from_wallet_id' is not null and p_from.id is null then 'source_not_of_ticket'
    when w.id is null and p_verdict ->> 'wallet_id' is not null then 'wallet_not_of_ticket'
    when w.id is null and p_from.owner_type = 'organization' then 'manual_credit_not_allowed'
    when w.id is null then 'insufficient_balance'
    when p_amount_nanos < p_short_nanos then 'amount_below_shortfall'
    -- A team's money beyond what is missing is an allocation, which is to a person of the team.
    when p_verdict ->> 'authority' = 'team' and p_amount_nanos > p_short_nanos and w.owner_type <> 'user' then 'amount_beyond_missing'
    when p_amount_nanos > 9000000000000000000 or w.balance_nanos::numeric + w.reserved_nanos + p_amount_nanos > 9000000000000000000
      then 'amount_too_large'
    when p_amount_nanos > 0 and p_from.id = w.id and w.owner_type = 'organization' then 'manual_credit_not_allowed'
    when p_amount_nanos > 0 and (p_from.id = w.id or p_amount_nanos > free_for_verdict(p_from, p_verdict)) then 'insufficient_balance' end
$$;

-- The proof: every statement about money that must always hold, checked over all rows of one
-- snapshot.
create or replace function audit()
returns table(check_name text, wallet_id text, detail text) language sql stable as $$
  with chain as (
    select t.wallet_id, t.seq, t.amount_nanos, t.balance_after_nanos,
      lag(t.balance_after_nanos, 1, 0::bigint) over w as previous_nanos, lag(t.seq, 1, 0::bigint) over w as previous_seq
    from wallet_transactions t window w as (partition by t.wallet_id order by t.seq)
  ), sums as (
    select t.wallet_id, sum(t.amount_nanos) as amount_nanos, max(t.seq) as seq from wallet_transactions t group by t.wallet_id
  ), holds as (
    select r.wallet_id, sum(r.held_nanos) as held_nanos from reservations r where r.status = 'open' group by r.wallet_id
  ), phases as (
    select t.reservation_id, sum(t.amount_nanos) as amount_nanos,
      count(*) filter (where t.phase = 'hold' and t.type = 'reservation') as held,
      count(*) filter (where t.phase = 'close' and t.type = 'settlement') as closed,
      count(*) filter (where t.phase = 'late' and t.type = 'settlement') as late,
      bool_and(t.wallet_id = r.wallet_id) as same_wallet
    from wallet_transactions t left join reservations r on r.id = t.reservation_id
    where t.reservation_id is not null group by t.reservation_id
  ), keys as (
    select r.key_id, sum(coalesce(r.actual_cost_nanos, 0)) as spent_nanos,
      coalesce(sum(r.held_nanos) filter (where r.status = 'open'), 0) as held_nanos
    from reservations r where r.key_id is not null group by r.key_id
  )
  select 'balance_is_sum_of_entries', w.id, 'balance ' || w.balance_nanos || ', entries ' || coalesce(s.amount_nanos, 0)
  from wallets w left join sums s on s.wallet_id = w.id where w.balance_nanos <> coalesce(s.amount_nanos, 0)
  union all
  select 'entry_continues_balance', c.wallet_id, 'seq ' || c.seq || ': ' || c.previous_nanos || ' + ' || c.amount_nanos
    || ' is not ' || c.balance_after_nanos
  from chain c where c.previous_nanos::numeric + c.amount_nanos <> c.balance_after_nanos
  union all
  select 'seq_without_gaps', c.wallet_id, 'seq ' || c.seq || ' follows ' || c.previous_seq
  from chain c where c.seq <> c.previous_seq + 1
  union all
  select 'seq_is_last_entry', w.id, 'wallet at ' || w.seq || ', entries to ' || coalesce(s.seq, 0)
  from wallets w left join sums s on s.wallet_id = w.id where w.seq <> coalesce(s.seq, 0)
  union all
  select 'entry_has_wallet', s.wallet_id, 'entries of a wallet that does not exist'
  from sums s left join wallets w on w.id = s.wallet_id where w.id is null
  union all
  select 'reserved_is_sum_of_holds', w.id, 'reserved ' || w.reserved_nanos || ', open holds ' || coalesce(h.held_nanos, 0)
  from wallets w left join holds h on h.wallet_id = w.id where w.reserved_nanos <> coalesce(h.held_nanos, 0)
  union all
  select 'reservation_has_its_entries', r.wallet_id, r.id || ' ' || r.status || ': entries sum to '
    || coalesce(p.amount_nanos::text, 'nothing')
  from reservations r left join phases p on p.reservation_id = r.id
  where r.status <> 'canceled' and not coalesce(p.same_wallet and p.held = 1 and case r.status
    when 'open' then p.closed = 0 and p.late = 0 and p.amount_nanos = -r.held_nanos
    when 'late' then p.closed = 1 and p.late = 1 and p.amount_nanos = -r.actual_cost_nanos
    else p.closed = 1 and p.late = 0 and p.amount_nanos = -r.actual_cost_nanos end, false)
  union all
  select 'entry_has_reservation', null, p.reservation_id || ' has entries but no reservation'
  from phases p left join reservations r on r.id = p.reservation_id where r.id is null or r.status = 'canceled'
  union all
  select 'transfer_sums_to_zero', min(t.wallet_id), t.transfer_id || ' sums to ' || sum(t.amount_nanos)
  from wallet_transactions t where t.transfer_id is not null group by t.transfer_id
  having sum(t.amount_nanos) <> 0 or count(*) <> 2
  union all
  select 'key_counts_its_spending', null, k.id || ': spent ' || k.spent_nanos || ', held ' || k.held_nanos || '; reservations say '
    || add_spent(0, coalesce(s.spent_nanos, 0)) || ' and ' || coalesce(s.held_nanos, 0)
  from tokens k left join keys s on s.key_id = k.id
  where k.spent_nanos <> add_spent(0, coalesce(s.spent_nanos, 0)) or k.held_nanos <> coalesce(s.held_nanos, 0)
$$;
