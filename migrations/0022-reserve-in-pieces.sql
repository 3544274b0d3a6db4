-- Reserve and settle in pieces that fit a screen. Both give the same answers as before, so reserve_2 and settle_3 keep their
-- names. Most pieces that run once an item are single expressions,
-- which PostgreSQL writes into the calling statement.

-- A wallet of the cascade (user, team, organization) with its balance when the batch began.
create type cascade_wallet as (id text, owner_type text, balance_nanos bigint);

-- One item of a reserve with everything that the tables know about it under the lock.
create type reserve_fact as (
  n integer,
  body reserve_item,
  -- The reservation that has this request_id already, and the balance after its hold.
  earlier reservations,
  earlier_balance_nanos bigint,
  body_sha256 text,
  -- If it is set, this wallet alone may pay; if it is empty, none may.
  forced_wallet_id text,
  cost_ticket_id text,
  -- The first member of the body whose id does not belong to the organization.
  unknown_member text,
  key_invalid boolean,
  key_room_nanos bigint,
  has_caps boolean,
  user_wallet cascade_wallet,
  team_wallet cascade_wallet,
  org_wallet cascade_wallet
);

-- Reads the facts of a batch, one row for each item, in the given order. The lookups are lateral with a limit, so that each is
-- one probe of one index.
create function reserve_facts(p_org_id text, p_items jsonb, p_now timestamptz) returns setof reserve_fact language sql stable as $$
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
    k.max_budget_nanos - k.spent_nanos - k.held_nanos,
    i.agent_id is not null and exists (select 1 from usage_constraints q where q.agent_id = i.agent_id
      and q.archived_at is null),
    (uw.id, 'user', uw.balance_nanos)::cascade_wallet,
    (tw.id, 'team', tw.balance_nanos)::cascade_wallet,
    (ow.id, 'organization', ow.balance_nanos)::cascade_wallet
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
$$;

-- Turns a cost in nanos of a USD into the amount to hold: in the organization's currency, buffer included, rounded up.
create function amount_to_hold(p_usd_nanos numeric, p_rate numeric, p_buffer_pct numeric) returns numeric
language sql immutable as $$
  select ceil(ceil(p_usd_nanos * p_rate) * (1 + p_buffer_pct / 100))
$$;

-- Says why an item may hold nothing, however much money there is; null if money alone decides. `p_room` is the rest of the
-- key's budget and `p_made` are the holds of this batch so far. Caps on agents are judged afterwards, by judge_caps.
create function reserve_refusal(p_org organizations, f reserve_fact, q quote, p_rate numeric, p_held_nanos numeric,
  p_room_nanos bigint, p_made reservations[]) returns text language sql stable as $$
  select case
    when p_org.id is null then 'unknown_org'
    when f.unknown_member is not null then 'not_of_organization'
    when f.key_invalid then 'invalid_credential'
    when q.code is not null then q.code
    when p_rate is null then 'exchange_rate_missing'
    when p_held_nanos > 9000000000000000000 then 'amount_too_large'
    when ((f.body).session_max_actions is not null or (f.body).session_max_cost_usd is not null)
      and session_is_full(p_org.id, f.body, q.usd_nanos, p_made) then 'session_limit_exceeded'
    when p_held_nanos > p_room_nanos then 'key_budget_exceeded' end
$$;

-- True if a wallet may pay for a hold and covers it. `p_left` has the balances that the batch has changed but not yet written.
create function wallet_covers(w cascade_wallet, p_forced_wallet_id text, p_held_nanos numeric, p_left jsonb) returns boolean
language sql immutable as $$
  select (p_forced_wallet_id is null or p_forced_wallet_id = w.id)
    and coalesce((p_left ->> w.id)::bigint, w.balance_nanos) >= p_held_nanos
$$;

-- Chooses the one wallet that pays for a hold: the first of user, team and organization that covers it; null if none does.
create function paying_wallet(f reserve_fact, p_held_nanos numeric, p_left jsonb) returns cascade_wallet
language sql immutable as $$
  select case
    when wallet_covers(f.user_wallet, f.forced_wallet_id, p_held_nanos, p_left) then f.user_wallet
    when wallet_covers(f.team_wallet, f.forced_wallet_id, p_held_nanos, p_left) then f.team_wallet
    when wallet_covers(f.org_wallet, f.forced_wallet_id, p_held_nanos, p_left) then f.org_wallet end
$$;

-- Makes the hold that a wallet pays for, at the frozen prices of the quote.
create function paid_hold(f reserve_fact, p_org organizations, q quote, p_rate numeric, p_held_nanos numeric,
  w cascade_wallet, p_now timestamptz) returns reservations language plpgsql volatile as $$
declare
  r reservations := new_hold(f.body, p_org, q, p_now);
begin
  r.body_sha256 := f.body_sha256;
  r.wallet_id := w.id;
  r.wallet_owner_type := w.owner_type;
  r.exchange_rate := p_rate;
  r.estimated_nanos := ceil(q.usd_nanos * p_rate);
  r.held_nanos := p_held_nanos;
  r.cost_ticket_id := f.cost_ticket_id;
  r.max_completion_tokens := coalesce((f.body).max_completion_tokens,
    completion_cap(q, p_org.default_max_completion_tokens));
  return r;
end $$;

-- Makes the ledger entries of new holds, in the order of the holds.
create function hold_entries(p_holds reservations[]) returns ledger_entry[] language sql immutable as $$
  select array_agg((h.wallet_id, 'reservation', -h.held_nanos, h.held_nanos, h.id, 'hold', h.provider, h.model,
    null, null, null, null)::ledger_entry order by h.ordinality)
  from unnest(p_holds) with ordinality as h
$$;

-- Answers an item whose request_id holds already or may never hold. A call that was canceled stays canceled.
create function repeated_reserve(f reserve_fact) returns lane_row language plpgsql immutable as $$
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
  return v_row;
end $$;

-- Answers an item that is refused, and names the member of its body that is at fault. `p_resets_at` ends the window of the cap
-- that refused it.
create function refused_reserve(f reserve_fact, q quote, p_code text, p_resets_at timestamptz) returns lane_row
language sql immutable as $$
  select (('reserve', f.n, p_code,
    case p_code
      when 'unknown_org' then 'org_id'
      when 'not_of_organization' then f.unknown_member
      when 'amount_too_large' then 'estimated_prompt_tokens'
      else q.param end,
    null, null, null, null, null, null, null, null, null, null, null, null, null)::lane_answer,
    null, null, p_resets_at)::lane_row
$$;

-- Answers an item that no wallet covers: with the amounts that were asked for and its cost ticket.
create function uncovered_reserve(p_n integer, p_currency text, p_estimated_nanos numeric, p_held_nanos numeric,
  p_cost_ticket jsonb) returns lane_row language sql immutable as $$
  select (('reserve', p_n, 'insufficient_balance', null, null, null, null, null, p_currency, p_estimated_nanos,
    p_held_nanos, null, null, null, null, null, p_cost_ticket)::lane_answer, null, null, null)::lane_row
$$;

-- Answers an item that holds: its reservation, and the balance that the hold leaves.
create function held_reserve(p_n integer, r reservations, p_balance_nanos bigint, p_warnings jsonb) returns lane_row
language sql immutable as $$
  select (('reserve', p_n, null, null, r.id, null, r.wallet_id, r.wallet_owner_type, r.currency, r.estimated_nanos,
    r.held_nanos, null, null, p_balance_nanos, null, r.expires_at, null)::lane_answer,
    r.max_completion_tokens, p_warnings, null)::lane_row
$$;

-- Holds the estimated cost of requests, in the given order. Invariant: one wallet pays for a hold, the first of user, team and
-- organization whose balance covers it; the sum of holds never exceeds the money that was available; a request_id holds once;
-- no cap on an agent is passed. Every decision is made on balances read under the lock, and all are written together at the
-- end. If an item has a `wallet_id`, that wallet alone may pay (none may if it is empty); a `cost_ticket_id` is kept on the hold.
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
  -- Balances of wallets, room of keys and counts of constraints as this batch leaves them, by id.
  v_left jsonb := '{}';
  v_made reservations[] := '{}';
begin
  v_org := lock_organization(p_org_id);
  v_now := clock_timestamp();
  -- Overdue holds are given back before anything is refused for want of them.
  if exists (select 1 from reservations o where o.org_id = p_org_id and o.status = 'open' and o.expires_at <= v_now) then
    perform expire_holds(p_org_id);
  end if;
  v_rate := rate_of(v_org.currency);

  for f in select * from reserve_facts(p_org_id, p_items, v_now) loop
    if (f.earlier).id is not null then
      return next repeated_reserve(f);
      continue;
    end if;

    q := quote_reserve(f.body, v_org.default_max_completion_tokens);
    v_held := amount_to_hold(q.usd_nanos, v_rate, v_org.reserve_buffer_pct);
    v_room := coalesce((v_left ->> (f.body).key_id)::bigint, f.key_room_nanos);
    v_code := reserve_refusal(v_org, f, q, v_rate, v_held, v_room, v_made);
    v_caps := null;
    if v_code is null and f.has_caps then
      v_caps := judge_caps(f.body, v_held, v_now, v_left);
      v_code := case when v_caps.refused_id is not null then 'usage_constraint_exceeded' end;
    end if;
    if v_code is not null then
      return next refused_reserve(f, q, v_code, v_caps.resets_at);
      continue;
    end if;

    w := paying_wallet(f, v_held, v_left);
    if w.id is null then
      return next uncovered_reserve(f.n, v_org.currency, ceil(q.usd_nanos * v_rate), v_held,
        open_ticket_2(v_org, f.body, v_held::bigint, v_left));
      continue;
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
    v_made := array_append(v_made, r);
    return next held_reserve(f.n, r, w.balance_nanos, v_caps.warnings);
  end loop;
  if cardinality(v_made) > 0 then
    perform write_holds(v_org, v_made, hold_entries(v_made), v_now);
  end if;
end $$;

-- The texts above these name functions that are gone, or a member by another name.
comment on type cap_verdict is
'Whether an agent''s constraints let one more hold pass. `left_after` is what the batch has counted by then, by constraint.';
comment on type lane_row is
'The answer to one item of a batch: the row that every item has, and the members that only holds have.';
comment on function judge_settlements_3(text, jsonb) is
'Reads the items of a settle with their reservations and frozen prices, and judges them. Items are independent: a reservation
comes once a batch. It refuses an answer that would cost nothing at a price that is not free, and debt beyond the bound of a
wallet. `offset 0` keeps the planner from writing the cost out wherever it is read.';

-- Answers the items of a settle that close nothing: repeats, refusals, and cancellations of a request_id that is unknown. Such a
-- cancellation leaves a tombstone, so that this request_id never holds, and no wait for money outlives it.
create function answer_unclosed(p_org_id text, p_items settlement[], p_now timestamptz) returns setof lane_answer
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
      case s.code when 'price_not_frozen' then 'model' when 'not_found' then null else 'usage' end,
      (s.reservation).id, null::text, null::text, null::text, null::text, null::bigint, null::bigint, null::bigint,
      null::bigint, null::bigint, null::text, null::timestamptz, null::jsonb
    from unnest(p_items) as s where s.code not in ('tombstone', 'repeated');
end $$;

-- Settles holds to their real cost. Invariant: each reservation is closed once and charged once, whatever is repeated; the wallet
-- may go into debt, and other holds stay as they are.
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
