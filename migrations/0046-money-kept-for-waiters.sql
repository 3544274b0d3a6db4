-- Money that comes while calls wait is kept for those that wait longest, up to what they need; younger calls take what is beside
-- it. What comes back from holds is kept too, but only for calls that it can pay: one that nothing here covers stops nobody.

alter table wallets add column kept_nanos bigint not null default 0 check (kept_nanos >= 0);
comment on column wallets.kept_nanos is
'The part of the balance that waiting calls have first. It may outlast them: whoever is short for it reads it anew.';

alter type cascade_wallet add attribute kept_nanos bigint;

create index ticket_waiters_turns on ticket_waiters (org_id, since, request_id) where answer is null;

-- Sums up what the oldest waiting calls need of a wallet: all of them, and as many of the first as the given money covers. So
-- few are looked at that a long queue costs a settlement nothing; money is kept for the rest as their turn comes near.
create function waiting_needs(w wallets, p_nanos numeric) returns table (all_nanos numeric, covered_nanos numeric)
language sql stable as $$
  select coalesce(sum(n.need_nanos), 0), coalesce(sum(n.need_nanos) filter (where n.so_far <= p_nanos), 0)
  from (
    select q.need_nanos, sum(q.need_nanos) over (order by q.since, q.request_id) as so_far
    from (
      select * from ticket_waiters o
      where o.org_id = w.org_id and o.answer is null and o.until > clock_timestamp() - waiter_grace()
        and (w.owner_type = 'organization' or o.team_id = w.owner_team_id or o.user_id = w.owner_user_id)
      order by o.since, o.request_id limit 32
    ) as q
    join cost_tickets t on t.id = q.ticket_id and t.status = 'open' and t.expires_at > clock_timestamp()
      and not waiter_has_ended(t, q.need_nanos)
  ) as n
$$;

-- Tells every API that a wallet has more for the calls that wait, and keeps it for them: new money up to what they need, what
-- holds gave back up to what this wallet can pay with all of its holds.
create function keep_for_waiters() returns trigger language plpgsql as $$
declare
  v_needs record;
  v_new_money numeric;
  v_kept numeric := greatest(least(old.kept_nanos, old.balance_nanos), 0);
begin
  if not exists (select 1 from ticket_waiters w where w.org_id = new.org_id
      and w.until > clock_timestamp() - waiter_grace()) then
    new.kept_nanos := 0;
    return new;
  end if;
  perform pg_notify('tickets', new.org_id);
  v_new_money := greatest((new.balance_nanos::numeric + new.reserved_nanos) - (old.balance_nanos::numeric + old.reserved_nanos), 0);
  select * into v_needs from waiting_needs(new, new.balance_nanos::numeric + new.reserved_nanos);
  new.kept_nanos := greatest(
    least(v_kept + v_new_money, v_needs.all_nanos),
    least(v_kept + new.balance_nanos - old.balance_nanos, v_needs.covered_nanos));
  return new;
end $$;

-- Whatever brings a wallet more money wakes the calls that wait for it: credit, transfer, settlement, expiry.
drop trigger wallets_rise on wallets;
create trigger wallets_rise before update of balance_nanos on wallets
for each row when (new.balance_nanos > old.balance_nanos) execute function keep_for_waiters();

-- Gives free what is kept for calls that no longer wait.
create function trim_kept(p_org_id text) returns void language sql as $$
  update wallets w set kept_nanos = least(w.kept_nanos, (select n.all_nanos from waiting_needs(w, 0) as n))
  where w.org_id = p_org_id and w.kept_nanos > 0
$$;

-- Reads anew what is kept of a wallet.
create function with_kept(w cascade_wallet) returns cascade_wallet language sql stable as $$
  select case when w.kept_nanos > 0
    then (w.id, w.owner_type, w.balance_nanos, (select q.kept_nanos from wallets q where q.id = w.id))::cascade_wallet
    else w end
$$;

-- Balances as a younger call finds them, without what is kept; those of the batch where nothing is.
create function free_balances(f reserve_fact, p_left jsonb) returns jsonb language sql immutable as $$
  select coalesce(p_left || jsonb_object_agg((v.w).id,
    (coalesce((p_left ->> (v.w).id)::bigint, (v.w).balance_nanos) - (v.w).kept_nanos)::text), p_left)
  from (values (f.user_wallet), (f.team_wallet), (f.org_wallet)) as v (w)
  where (v.w).kept_nanos > 0
$$;

-- True if a wallet pays an amount; `p_left` holds balances that the batch has changed already. Only a call whose turn it is names
-- the wallet, and takes what is kept.
create or replace function wallet_covers(w cascade_wallet, p_forced_wallet_id text, p_held_nanos numeric, p_left jsonb)
returns boolean language sql immutable as $$
  select case
    when p_forced_wallet_id is null
      then coalesce((p_left ->> w.id)::bigint, w.balance_nanos) - coalesce(w.kept_nanos, 0) >= p_held_nanos
    else p_forced_wallet_id = w.id and coalesce((p_left ->> w.id)::bigint, w.balance_nanos) >= p_held_nanos end
$$;

-- Reads for each item, in order, what the tables know about it.
create or replace function reserve_facts(p_org_id text, p_items jsonb, p_now timestamptz) returns setof reserve_fact language sql stable as $$
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

-- Holds the estimated cost of requests, in the given order. Invariant: one wallet pays for a hold, the first of user, team and
-- organization whose balance covers it; the sum of holds never exceeds the money that was available; a request_id holds once;
-- no cap on an agent is passed. Every decision is made on balances read under the lock, and all are written together at the
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
  -- Balances of wallets, room of keys and counts of constraints as this batch leaves them, by id.
  v_left jsonb := '{}';
  v_made reservations[] := '{}';
  v_is_trimmed boolean := false;
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
    -- Nothing is refused for the sake of calls that have gone.
    if w.id is null and f.forced_wallet_id is null
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
      return next uncovered_reserve(f.n, v_org.currency, ceil(q.usd_nanos * v_rate), v_held,
        open_ticket_2(v_org, f.body, v_held::bigint, case when f.forced_wallet_id is null then free_balances(f, v_left) else v_left end));
      continue;
    end if;

    if f.forced_wallet_id is not null and w.kept_nanos > 0 then
      update wallets x set kept_nanos = greatest(x.kept_nanos - v_held, 0) where x.id = w.id;
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

-- The queue of an organization's waiting calls, oldest first, with the wallet that each may take. A call that no wallet covers
-- leaves to younger ones what is not kept of the wallets of its own cascade; one that waits between two calls keeps what is its
-- turn's. Ends after `p_turns_max` that may be taken now.
create or replace function waiter_turns(p_org_id text, p_turns_max integer)
returns table (request_id text, wallet_id text, is_live boolean) language plpgsql stable as $$
declare
  v_turns integer := 0;
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
      and not waiter_has_ended(t, q.need_nanos)
    left join wallets uw on uw.org_id = p_org_id and uw.owner_type = 'user' and uw.owner_user_id = q.user_id
    left join wallets tw on tw.org_id = p_org_id and tw.owner_type = 'team' and tw.owner_team_id = q.team_id
    left join wallets ow on ow.org_id = p_org_id and ow.owner_type = 'organization'
    where q.org_id = p_org_id and q.answer is null and q.until > clock_timestamp() - waiter_grace()
    order by q.since, q.request_id
  loop
    v_wallet_id := null;
    for n in 1 .. cardinality(w.wallet_ids) loop
      v_nanos := coalesce((v_left ->> w.wallet_ids[n])::numeric, w.balances[n]);
      if v_nanos >= w.need_nanos then
        v_wallet_id := w.wallet_ids[n];
        v_left := v_left || jsonb_build_object(v_wallet_id, (v_nanos - w.need_nanos)::text);
        exit;
      end if;
    end loop;
    if v_wallet_id is null then
      v_left := v_left || (select jsonb_object_agg(u.id, least((v_left ->> u.id)::numeric, u.balance_nanos - u.kept_nanos)::text)
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
