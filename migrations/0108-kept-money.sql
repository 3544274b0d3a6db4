-- Kept money stays kept under rules and approvals, decisions about payments credit what was decided, calls find the ticket that paid for
-- them, and bounds stop no call that a rule approves.

-- What a verdict may take of a wallet: a rule's leaves alone what is kept for calls that wait, a person's goes before them.
create function free_for_verdict(w wallets, p_verdict jsonb) returns bigint language sql immutable as $$
  select w.balance_nanos - case when p_verdict ->> 'approval_rule_id' is not null
    then greatest(least(w.kept_nanos, w.balance_nanos), 0) else 0 end
$$;

-- The wallet that pays for the call, of those that may: the named one, else the fullest. An
-- approval that only raises budgets takes what the call would have taken.
create or replace function wallet_to_hold(t cost_tickets, p_verdict jsonb, p_need_nanos numeric,
  p_from_id text)
returns wallets language sql stable as $$
  select q from wallets q
  where q.org_id = t.org_id and q.id = coalesce(p_verdict ->> 'wallet_id', q.id)
    and (q.owner_type = 'organization' or q.owner_team_id = t.team_id or q.owner_user_id = t.user_id)
    and (q.owner_type <> 'team' or exists (select 1 from teams o where o.id = q.owner_team_id and o.archived_at is null))
    and (q.owner_type <> 'user' or exists (select 1 from memberships o where o.org_id = q.org_id and o.user_id = q.owner_user_id
      and o.archived_at is null))
    and (p_verdict ->> 'wallet_id' is not null or q.id is distinct from p_from_id
      or free_for_verdict(q, p_verdict) >= p_need_nanos)
  order by case when t.cause = 'budget' and free_for_verdict(q, p_verdict) >= p_need_nanos
      then array_position(array['user', 'team', 'organization'], q.owner_type) else 4 end,
    free_for_verdict(q, p_verdict) desc, array_position(array['organization', 'team', 'user'], q.owner_type) limit 1
$$;

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
    when p_amount_nanos > 9000000000000000000 or w.balance_nanos + w.reserved_nanos + p_amount_nanos > 9000000000000000000
      then 'amount_too_large'
    when p_amount_nanos > 0 and p_from.id = w.id and w.owner_type = 'organization' then 'manual_credit_not_allowed'
    when p_amount_nanos > 0 and (p_from.id = w.id or p_amount_nanos > free_for_verdict(p_from, p_verdict)) then 'insufficient_balance' end
$$;

-- Raises budgets, fills a wallet and holds a ticket's cost in it. Invariant: all of it happens, or
-- nothing; if a key, budget or cap refuses the hold, the money and the room have never been.
create or replace function fund_raise_and_hold(t cost_tickets, w wallets, p_from wallets,
  p_amount_nanos bigint, p_need_nanos numeric, p_verdict jsonb)
returns funded_hold language plpgsql as $$
declare
  v_ids text[] := '{}';
  v_entry_id text;
  v_answer lane_answer;
  v_kept_nanos bigint;
  v_words text := 'approved cost ticket ' || t.id || coalesce(' by ' || acting(), '') || coalesce(': ' || (p_verdict ->> 'note'), '');
begin
  perform raise_budgets(t, p_need_nanos, p_verdict);
  if p_amount_nanos > 0 and p_from.id is not null then
    select array_agg(q.id), min(q.id) filter (where q.wallet_id = w.id) into v_ids, v_entry_id
    from transfer(t.org_id, p_from.id, w.id, p_amount_nanos, v_words) q;
  elsif p_amount_nanos > 0 then
    v_entry_id := (credit(t.org_id, w.id, p_amount_nanos, v_words)).id;
    v_ids := array[v_entry_id];
  end if;
  insert into approval_entries (transaction_id, org_id, cost_ticket_id, decided_by, approval_rule_id)
  select x, t.org_id, t.id, p_verdict ->> 'by', p_verdict ->> 'approval_rule_id' from unnest(v_ids) as x;
  select q.kept_nanos into v_kept_nanos from wallets q where q.id = w.id;
  select (r.answer).* into v_answer from reserve_2(t.org_id, jsonb_build_array(t.reserve - 'secret_id'
    || jsonb_strip_nulls(jsonb_build_object('request_id', 'ticket:' || t.id || ':' || new_id('hold'),
      'cost_ticket_id', t.id, 'wallet_id', w.id)))) r;
  if v_answer.code is not null then
    raise exception using errcode = 'SV001', message = v_answer.code;
  end if;
  -- What lies beside the kept money pays first: this hold is nobody's turn, as reserve_2 takes it to be.
  update wallets q set kept_nanos = least(v_kept_nanos, greatest(q.balance_nanos, 0)) where q.id = w.id and v_kept_nanos > 0;
  return (null, v_entry_id, v_answer)::funded_hold;
exception when sqlstate 'SV001' then
  return (sqlerrm, null, null)::funded_hold;
end $$;

-- Approves an open ticket, whoever does; says why not.
create or replace function approve_open(v_org organizations, t cost_tickets, p_verdict jsonb)
returns text language plpgsql as $$
declare
  w wallets;
  v_from wallets;
  h funded_hold;
  v_need numeric := need_today(v_org, jsonb_populate_record(null::reserve_item, t.reserve - 'secret_id'));
  v_short numeric;
  v_amount numeric;
  v_code text;
begin
  v_code := authority_refusal(t, p_verdict, coalesce(v_need, 0));
  if v_code is not null then
    return v_code;
  end if;
  v_from := approval_source(t, p_verdict, p_verdict ->> 'source' is not null
    or (v_org.manual_credit = 'platform_only' and not coalesce((p_verdict ->> 'is_platform')::boolean, false)));
  w := wallet_to_hold(t, p_verdict, v_need, v_from.id);
  v_short := greatest(coalesce(v_need, 0) - free_for_verdict(w, p_verdict), 0);
  v_amount := coalesce((p_verdict ->> 'amount_nanos')::numeric, v_short);
  v_code := filling_refusal(w, v_from, p_verdict, v_amount, v_short);
  if v_code is not null then
    return v_code;
  end if;
  h := fund_raise_and_hold(t, w, v_from, v_amount::bigint, coalesce(v_need, 0), p_verdict);
  if h.code is not null then
    return h.code;
  end if;
  -- The hold is kept for its call until the ticket's own deadline, a day at most.
  update reservations r set expires_at = greatest(r.expires_at, least(t.expires_at, clock_timestamp() + interval '24 hours'))
  where r.id = (h.answer).reservation_id
  returning r.expires_at into t.expires_at;
  update cost_tickets q set decided_by = p_verdict ->> 'by', decided_at = clock_timestamp(), note = p_verdict ->> 'note',
    credited_nanos = v_amount, transaction_id = h.transaction_id, reservation_id = (h.answer).reservation_id,
    estimated_cost_nanos = (h.answer).reserved_amount_nanos, expires_at = t.expires_at,
    approval_rule_id = p_verdict ->> 'approval_rule_id',
    verdict_ids = array_append(q.verdict_ids, p_verdict ->> 'id')
  where q.id = t.id;
  perform resolve_ticket(t.id, 'approved', p_verdict ->> 'by_terminal' is null);
  -- What was kept for the calls of this ticket is free.
  update wallets x set kept_nanos = least(x.kept_nanos, (select n.all_nanos from waiting_needs(x, 0) as n))
  where x.id = w.id and x.kept_nanos > 0;
  return null;
end $$;

-- Approves a ticket by the first rule of its organization that allows it, and says whether one did.
-- The rule that names the ticket's team goes first.
create or replace function approve_by_rule(v_org organizations, t cost_tickets)
returns boolean language plpgsql as $$
declare
  x approval_rules;
  v_actor text := acting();
  v_code text;
  v_now timestamptz := clock_timestamp();
begin
  -- Nothing is refused for the sake of calls that have gone.
  if exists (select 1 from wallets q where q.org_id = v_org.id and q.kept_nanos > 0
      and (q.owner_type = 'organization' or q.owner_team_id = t.team_id or q.owner_user_id = t.user_id)) then
    perform trim_kept(v_org.id);
  end if;
  for x in
    select * from approval_rules q
    where q.org_id = v_org.id and q.archived_at is null and (q.team_id is null or q.team_id = t.team_id)
    order by q.team_id is null, q.id
  loop
    if x.day_ends_at <= v_now then
      update approval_rules q set approved_nanos = 0, approvals = 0,
        day_ends_at = (reporting_window('day', v_org.time_zone, v_now)).ends_at
      where q.id = x.id returning * into x;
    end if;
    continue when t.estimated_cost_nanos > x.max_per_call_nanos
      or x.approved_nanos::numeric + t.estimated_cost_nanos > x.max_per_day_nanos;
    perform set_config('svc.actor', x.id, true);
    v_code := approve_open(v_org, t, jsonb_build_object('by', 'rule', 'approval_rule_id', x.id, 'id', new_id('verdict'),
      'source', x.source, 'note', x.name, 'by_terminal', true));
    perform set_config('svc.actor', coalesce(v_actor, ''), true);
    if v_code is null then
      update approval_rules q set approved_nanos = q.approved_nanos + t.estimated_cost_nanos, approvals = q.approvals + 1
      where q.id = x.id;
      return true;
    end if;
  end loop;
  return false;
end $$;

-- An operator's decision about captured money of another amount or currency: credit it after all,
-- or leave it as it is. A payment that hangs while it is taken can be closed; money that comes all
-- the same is credited.
create or replace function resolve_payment(p_id text, p_resolution text, p_amount_nanos bigint, p_by text,
  p_note text)
returns table(code text) language plpgsql as $$
declare
  s payment_sessions;
  v_is_hanging boolean;
begin
  s := lock_payment(p_id);
  v_is_hanging := s.status = 'capturing' and p_resolution = 'closed';
  code := case
    when v_is_hanging then null
    when s.resolution = p_resolution then 'repeated'
    when s.status <> 'failed' or s.error_code <> 'amount_mismatch' or s.resolution is not null then 'nothing_to_resolve'
    when exists (select 1 from payment_refunds r where r.payment_session_id = p_id and r.status in ('pending', 'succeeded'))
      then 'refund_under_way'
    when p_resolution = 'credited' and p_amount_nanos is null and s.captured_currency <> s.currency then 'amount_needed'
    when p_amount_nanos > s.captured_nanos and s.captured_currency = s.currency then 'amount_not_captured'
    -- Kept for later, the amount that was decided would be lost.
    when p_resolution = 'credited' and (select w.balance_nanos::numeric + w.reserved_nanos + coalesce(p_amount_nanos, s.captured_nanos)
      > 9000000000000000000 from wallets w where w.id = s.wallet_id) then 'wallet_full'
    end;
  if code is null then
    if v_is_hanging then
      perform close_payment(p_id, 'failed', 'provider_error',
        'The payment did not come to an end at the provider. If it was paid after all, it is credited.');
    end if;
    update payment_sessions q set resolution = p_resolution, resolved_by = p_by, resolution_note = p_note,
      updated_at = clock_timestamp() where q.id = p_id;
    if p_resolution = 'credited' then
      perform move_payment(p_id, 'captured');
      perform credit_payment(p_id, p_amount_nanos);
    end if;
  end if;
  return next;
end $$;

-- Finds the ticket that a redeem means. A call may ask by the ticket that it came with, although it has been moved to another one
-- meanwhile, where it waits or which has paid for it; but a client that names a ticket means that one.
create or replace function ticket_to_redeem(p_org_id text, i redeem_item)
returns cost_tickets language plpgsql stable as $$
declare
  t cost_tickets;
  v_moved cost_tickets;
begin
  select * into t from cost_tickets q where q.id = i.ticket_id and q.org_id = p_org_id;
  if not coalesce(i.is_brought, false) then
    select q.* into v_moved from reservations r join cost_tickets q on q.id = r.cost_ticket_id
    where r.org_id = p_org_id and r.request_id = i.request_id and q.id <> t.id
      and (q.provider, q.model, q.request_body_hash) is not distinct from (t.provider, t.model, t.request_body_hash)
      and (q.key_id, q.user_id, q.team_id, q.agent_id, q.session_id)
        is not distinct from (t.key_id, t.user_id, t.team_id, t.agent_id, t.session_id);
  end if;
  if v_moved.id is null and redeem_refusal(t, i) = 'ticket_redeemed' and not exists (
      select 1 from reservations r where r.org_id = p_org_id and r.request_id = i.request_id) then
    select q.* into v_moved from cost_tickets q join ticket_waiters w on w.ticket_id = q.id
    where w.org_id = p_org_id and w.request_id = i.request_id and w.answer is null and q.id <> t.id;
  end if;
  return case when v_moved.id is null then t else v_moved end;
end $$;

-- A refused reserve finds the caller's open ticket for the same body, or opens one if key and
-- organization have room for it. Else nothing is written: the answer is {unruled} if a rule may approve the call at once, and if none
-- may {exceeded}, with one event for many refusals.
create or replace function open_ticket_2(p_org organizations, i reserve_item, p_held_nanos bigint,
  p_left jsonb)
returns jsonb language plpgsql as $$
declare
  v_bound jsonb;
begin
  if not exists (select 1 from cost_tickets q where q.org_id = p_org.id and q.status = 'open'
      and q.request_body_hash = concat_ws('#', i.request_body_hash, i.family)
      and (q.provider, q.model) = (i.provider, i.model)
      and (q.key_id, q.user_id, q.team_id, q.agent_id, q.session_id)
        is not distinct from (i.key_id, i.user_id, i.team_id, i.agent_id, i.session_id)) then
    v_bound := exceeded_bound(p_org.id, i);
  end if;
  if v_bound is null then
    return ticket_for(p_org, i, p_held_nanos, p_left);
  end if;
  if exists (select 1 from approval_rules x where x.org_id = p_org.id and x.archived_at is null
      and (x.team_id is null or x.team_id = i.team_id) and p_held_nanos <= x.max_per_call_nanos
      and (x.day_ends_at <= clock_timestamp() or x.approved_nanos::numeric + p_held_nanos <= x.max_per_day_nanos)) then
    return jsonb_build_object('unruled', jsonb_build_object('left', p_left));
  end if;
  perform tell_bound(p_org.id, i, v_bound);
  return jsonb_build_object('exceeded', v_bound);
end $$;

-- Answers a reserve whose key or organization has as many open tickets as it may: with its hold, if a rule approves it at once. A ticket
-- that no rule approves has never been, and the bound refuses the call.
create function reserve_beyond_bound(v_org organizations, p_row lane_row, i reserve_item)
returns lane_row language plpgsql as $$
declare
  a lane_answer := p_row.answer;
  -- Rules that approved others of the batch may have made room.
  v_bound jsonb := exceeded_bound(v_org.id, i);
  v_row lane_row := p_row;
begin
  begin
    v_row.answer.cost_ticket := ticket_for(v_org, i, a.reserved_amount_nanos, a.cost_ticket #> '{unruled,left}');
    v_row := ruled_reserve(v_org, v_row, i);
    if v_bound is null or (v_row.answer).code is distinct from 'insufficient_balance' then
      return v_row;
    end if;
    raise exception using errcode = 'SV003', message = 'no rule approves it';
  exception when sqlstate 'SV003' then
    perform tell_bound(v_org.id, i, v_bound);
  end;
  return uncovered_reserve(a.n, a.currency, a.estimated_cost_nanos, a.reserved_amount_nanos, jsonb_build_object('exceeded', v_bound));
end $$;

-- Answers a reserve that has a ticket: with its hold, if a rule approves it, else as it is. Of
-- several with one body the ticket is of the last; a ticket that is not this request's own any more
-- is not approved for it, and the request is judged again.
create or replace function ruled_reserve(v_org organizations, p_row lane_row, i reserve_item)
returns lane_row language plpgsql as $$
declare
  t cost_tickets;
  v_row lane_row;
begin
  if (p_row.answer).cost_ticket -> 'unruled' is not null then
    return reserve_beyond_bound(v_org, p_row, i);
  end if;
  select * into t from cost_tickets q where q.id = (p_row.answer).cost_ticket ->> 'id' and q.status = 'open';
  if (t.reserve ->> 'request_id') is distinct from i.request_id then
    select * into v_row from reserve_2(v_org.id, jsonb_build_array(jsonb_strip_nulls(to_jsonb(i))));
  elsif not approve_by_rule(v_org, t) then
    return p_row;
  else
    select * into t from cost_tickets q where q.id = t.id;
    v_row := claim_approved(t, jsonb_populate_record(null::redeem_item, to_jsonb(i)), null);
    if (v_row.answer).code is not null then
      return p_row;
    end if;
  end if;
  v_row.answer.op := 'reserve';
  v_row.answer.n := (p_row.answer).n;
  return v_row;
end $$;

-- Moves open holds to now + their life, at most 24 h after the reserve, or after its call took what an approval held for it. Invariant:
-- no money moves.
create or replace function extend(p_org_id text, p_reservation_ids text[])
returns table(reservation_id text, status text, expires_at timestamptz) language plpgsql
set enable_seqscan = off set enable_material = off set plan_cache_mode = force_generic_plan as $$
declare
  v_now timestamptz;
begin
  perform lock_organization(p_org_id);
  v_now := clock_timestamp();
  update reservations r
  set expires_at = greatest(r.expires_at,
    least(greatest(r.created_at, (select t.resolved_at from cost_tickets t
        where t.id = r.cost_ticket_id and t.reservation_id = r.id and t.status = 'redeemed')) + interval '24 hours',
      v_now + r.life_seconds * interval '1 second'))
  where r.org_id = p_org_id and r.status = 'open' and r.id = any (p_reservation_ids);
  return query
    select i.id, case when r.id is null or r.status = 'canceled' then 'unknown' when r.status = 'open' then 'extended'
      when r.status in ('expired', 'late') then 'expired' else 'settled' end, r.expires_at
    from unnest(p_reservation_ids) with ordinality as i (id, n)
    left join reservations r on r.id = i.id and r.org_id = p_org_id
    order by i.n;
end $$;

-- What one settlement adds to spend, with the call that it is of. An hour that was held and never settled costs nothing and counts no
-- call, nor does one that failed for nothing, also after its hold had expired; a charge beyond a bound counts no second one. So it is
-- the same whenever it is looked at. An hour that comes twice is two; where clocks change by half an hour, that hour has 30
-- minutes or 90.
create or replace function spend_of(t wallet_transactions, r reservations, p_time_zone text)
returns table(day date, hour timestamptz, key_id text, user_id text, team_id text, agent_id text,
  family text, provider text, model text, session_id text, tags text[], cost_nanos numeric, requests
  bigint, prompt_tokens numeric, completion_tokens numeric, cached_tokens numeric) language sql
  stable as $$
  select l.local::date,
    case when (h.begun at time zone p_time_zone) = h.local then h.begun else h.local at time zone p_time_zone end,
    coalesce(r.key_id, ''), coalesce(r.user_id, ''),
    coalesce(r.team_id, ''), coalesce(r.agent_id, ''), coalesce(r.family, ''), coalesce(t.provider, ''), coalesce(t.model, ''),
    r.session_id, r.tags, coalesce(t.actual_cost_nanos, 0)::numeric, c.calls,
    case c.calls when 1 then coalesce((r.usage ->> 'prompt_tokens')::numeric, 0) else 0 end,
    case c.calls when 1 then coalesce((r.usage ->> 'completion_tokens')::numeric, 0) else 0 end,
    case c.calls when 1 then coalesce((r.usage ->> 'cached_tokens')::numeric, 0) else 0 end
  from (select t.created_at at time zone p_time_zone as local) as l
  cross join lateral (select date_trunc('hour', l.local) as local, t.created_at - (l.local - date_trunc('hour', l.local)) as begun) as h
  cross join (select case when (t.phase = 'late' and (t.actual_cost_nanos > 0 or r.outcome = 'completed'))
      or (t.phase = 'close' and r.status = 'settled') then 1 else 0 end::bigint as calls) as c
$$;

-- What was folded before counted each call that was settled after its hold had expired. Until it is folded anew the ledger is read.
update spend_editions set state = 'dropped' where state <> 'dropped';
