-- Redeem, the walk along the queue and the approval of a ticket in pieces that fit a screen. They do what they did before, so
-- they keep their names.

-- Says what a refused reserve must be covered by at today's prices, buffer included; null if it has no price any more.
create or replace function need_today(p_org organizations, i reserve_item) returns numeric language sql stable as $$
  select amount_to_hold((quote_reserve(i, p_org.default_max_completion_tokens)).usd_nanos, rate_of(p_org.currency),
    p_org.reserve_buffer_pct)
$$;

-- Finds the ticket that a redeem means. A waiting call may ask by the ticket that it came with, although it has been moved to
-- another one meanwhile.
create function ticket_to_redeem(p_org_id text, i redeem_item) returns cost_tickets language plpgsql stable as $$
declare
  t cost_tickets;
  v_moved cost_tickets;
begin
  select * into t from cost_tickets q where q.id = i.ticket_id and q.org_id = p_org_id;
  if redeem_refusal(t, i) = 'ticket_redeemed' and not exists (
      select 1 from reservations r where r.org_id = p_org_id and r.request_id = i.request_id) then
    select q.* into v_moved from cost_tickets q join ticket_waiters w on w.ticket_id = q.id
    where w.org_id = p_org_id and w.request_id = i.request_id and w.answer is null and q.id <> t.id;
  end if;
  return case when v_moved.id is null then t else v_moved end;
end $$;

-- Answers a redeem whose request_id has a reservation already: with that one, if this ticket paid for it.
create function repeated_redeem(t cost_tickets, r reservations) returns lane_row language plpgsql stable as $$
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
  return v_row;
end $$;

-- Puts a call into the queue of its open ticket, and holds for it if it is its turn. Invariant: the call leaves the queue with
-- every answer but 402.
create function redeem_in_turn(p_org organizations, t cost_tickets, i redeem_item) returns lane_row language plpgsql as $$
declare
  v_need numeric := need_today(p_org, jsonb_populate_record(null::reserve_item, t.reserve));
  v_wallet_id text;
  v_row lane_row;
begin
  insert into ticket_waiters (org_id, request_id, ticket_id, redeem, user_id, team_id, need_nanos, since, until)
  values (p_org.id, i.request_id, t.id, to_jsonb(i) || jsonb_build_object('ticket_id', t.id), t.user_id, t.team_id,
    least(coalesce(v_need, 0), 9000000000000000000), clock_timestamp(),
    clock_timestamp() + coalesce(i.wait_ms, 0) * interval '1 millisecond')
  on conflict (org_id, request_id) do update set ticket_id = excluded.ticket_id, redeem = excluded.redeem,
    need_nanos = excluded.need_nanos, until = excluded.until, answer = null;
  -- Only a call that money is there for needs to know whose turn it is.
  if v_need is null or exists (select 1 from wallets w where w.org_id = p_org.id and w.balance_nanos >= v_need
      and (w.owner_type = 'organization' or w.owner_team_id = t.team_id or w.owner_user_id = t.user_id)) then
    select q.wallet_id into v_wallet_id from waiter_turns(p_org.id, null) q where q.request_id = i.request_id;
  end if;
  v_row := redeem_open(p_org.id, t, i, coalesce(v_wallet_id, ''));
  if (v_row.answer).code is distinct from 'insufficient_balance' then
    delete from ticket_waiters q where q.org_id = p_org.id and q.request_id = i.request_id;
  end if;
  return v_row;
end $$;

-- Redeems tickets for calls, in the given order. Invariant: one ticket pays for one call, and no call overtakes an older
-- one that waits for the same wallet. With `wait_ms` a call that is not covered stays in the queue.
create or replace function redeem(p_org_id text, p_items jsonb) returns setof lane_row language plpgsql as $$
declare
  v_org organizations;
  e record;
  i redeem_item;
  t cost_tickets;
  r reservations;
  v_code text;
  v_row lane_row;
begin
  v_org := lock_organization(p_org_id);
  for e in
    select v.n::integer as n, jsonb_populate_record(null::redeem_item, v.value) as body
    from jsonb_array_elements(p_items) with ordinality as v (value, n) order by v.n
  loop
    i := e.body;
    t := ticket_to_redeem(p_org_id, i);
    select * into r from reservations q where q.org_id = p_org_id and q.request_id = i.request_id;
    v_code := redeem_refusal(t, i);
    if t.id is not null and r.id is not null and v_code is distinct from 'ticket_owner_differs' then
      v_row := repeated_redeem(t, r);
    elsif v_code is not null then
      v_row := refused_redeem(t, v_code);
    elsif t.status = 'approved' then
      v_row := claim_approved(t, i, null);
    else
      v_row := redeem_in_turn(v_org, t, i);
    end if;
    if (v_row.answer).code = 'ticket_expired' and t.status in ('open', 'approved') then
      perform resolve_ticket(t.id, 'expired', false);
    end if;
    v_row.answer.op := 'redeem';
    v_row.answer.n := e.n;
    return next v_row;
  end loop;
end $$;

-- Lists the waiting calls to serve now: first those whose ticket or key has come to an end, by no wallet; then those whose turn
-- it is, with the wallet that they take. Both are in the order of the queue.
create function waiters_to_serve(p_org_id text, p_turns_max integer) returns table (request_id text, wallet_id text)
language sql stable as $$
  (select q.request_id, '' from ticket_waiters q
  join cost_tickets o on o.id = q.ticket_id
  where q.org_id = p_org_id and q.answer is null and q.until > clock_timestamp()
    and (o.status <> 'open' or o.expires_at <= clock_timestamp() or key_has_ended(o))
  order by q.since, q.request_id)
  union all
  select s.request_id, s.wallet_id from waiter_turns(p_org_id, p_turns_max) s
  where s.is_live and s.wallet_id is not null
$$;

-- Serves one waiting call and keeps its answer in the queue. False if its price has changed, so that its wallet no longer covers
-- it: then it goes on waiting for the new amount.
create function serve_waiter(p_org_id text, p_request_id text, p_wallet_id text) returns boolean language plpgsql as $$
declare
  i redeem_item;
  t cost_tickets;
  v_code text;
  v_row lane_row;
begin
  -- Read again: an earlier turn may have moved it to another ticket.
  select p.* into i from ticket_waiters x cross join lateral jsonb_populate_record(null::redeem_item, x.redeem) as p
  where x.org_id = p_org_id and x.request_id = p_request_id and x.answer is null;
  if i.ticket_id is null then
    return true;
  end if;
  select * into t from cost_tickets q where q.id = i.ticket_id;
  v_code := redeem_refusal(t, i);
  v_row := case
    when v_code is not null then refused_redeem(t, v_code)
    when t.status = 'approved' then claim_approved(t, i, null)
    else redeem_open(p_org_id, t, i, p_wallet_id) end;
  if (v_row.answer).code = 'ticket_expired' and t.status in ('open', 'approved') then
    perform resolve_ticket(t.id, 'expired', false);
  end if;
  if (v_row.answer).code = 'insufficient_balance' then
    update ticket_waiters q set need_nanos = ((v_row.answer).cost_ticket ->> 'estimated_cost_nanos')::bigint
    where q.org_id = p_org_id and q.request_id = p_request_id;
    return false;
  end if;
  v_row.answer.op := 'redeem';
  update ticket_waiters q set answer = to_jsonb(v_row) where q.org_id = p_org_id and q.request_id = p_request_id;
  return true;
end $$;

-- Serves an organization's queue and says what the named calls have been answered, whoever served them. Every API calls it
-- whenever something changes: a look without the lock first, then the walk under it, oldest first and a few dozen at most, so
-- that a long queue never keeps the ledger; a call that is served tells the APIs to look again.
create or replace function redeem_waiting(p_org_id text, p_request_ids text[])
returns table (request_id text, answer lane_answer, max_completion_tokens bigint, warnings jsonb, resets_at timestamptz)
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
    select q.request_id, (n.r).answer, (n.r).max_completion_tokens, (n.r).warnings, (n.r).resets_at
    from ticket_waiters q
    cross join lateral (select jsonb_populate_record(null::lane_row, q.answer) as r) as n
    where q.org_id = p_org_id and q.request_id = any (p_request_ids) and q.answer is not null;
end $$;

-- A credit and a hold that an approval made together; `code` says why neither was made.
create type funded_hold as (code text, transaction_id text, answer lane_answer);

-- Chooses the wallet that an approval fills: the one that the verdict names, or the fullest of the ticket's wallets. Under a
-- transfer the organization's own wallet is chosen only if it covers the need by itself.
create function wallet_to_fund(t cost_tickets, p_verdict jsonb, p_need_nanos numeric, p_is_transfer boolean) returns wallets
language sql stable as $$
  select q from wallets q
  where q.org_id = t.org_id and q.id = coalesce(p_verdict ->> 'wallet_id', q.id)
    and (q.owner_type = 'organization' or q.owner_team_id = t.team_id or q.owner_user_id = t.user_id)
    and (p_verdict ->> 'wallet_id' is not null or not p_is_transfer or q.owner_type <> 'organization'
      or q.balance_nanos >= p_need_nanos)
  order by q.balance_nanos desc, array_position(array['organization', 'team', 'user'], q.owner_type) limit 1
$$;

-- Says why an approval may not fill a wallet with an amount; null if it may.
create function funding_refusal(w wallets, p_org_id text, p_verdict jsonb, p_amount_nanos numeric, p_short_nanos numeric,
  p_is_transfer boolean) returns text language sql stable as $$
  select case
    when w.id is null and p_verdict ->> 'wallet_id' is not null then 'wallet_not_of_ticket'
    when w.id is null then 'manual_credit_not_allowed'
    when p_amount_nanos < p_short_nanos then 'amount_below_shortfall'
    when p_amount_nanos > 9000000000000000000 or w.balance_nanos + w.reserved_nanos + p_amount_nanos > 9000000000000000000
      then 'amount_too_large'
    when p_amount_nanos > 0 and p_is_transfer and w.owner_type = 'organization' then 'manual_credit_not_allowed'
    when p_amount_nanos > 0 and p_is_transfer and p_amount_nanos > (select q.balance_nanos from wallets q
      where q.org_id = p_org_id and q.owner_type = 'organization') then 'insufficient_balance' end
$$;

-- Fills a wallet and holds a ticket's cost in it. Invariant: both happen or neither; if a key, budget or cap refuses the hold,
-- the credit has never been.
create function fund_and_hold(t cost_tickets, w wallets, p_amount_nanos bigint, p_is_transfer boolean, p_note text)
returns funded_hold language plpgsql as $$
declare
  v_entry wallet_transactions;
  v_answer lane_answer;
begin
  if p_amount_nanos > 0 and p_is_transfer then
    select q.* into v_entry from transfer(t.org_id, (select o.id from wallets o where o.org_id = t.org_id
      and o.owner_type = 'organization'), w.id, p_amount_nanos, p_note) q where q.wallet_id = w.id;
  elsif p_amount_nanos > 0 then
    v_entry := credit(t.org_id, w.id, p_amount_nanos, coalesce(p_note, 'approved cost ticket'));
  end if;
  select (r.answer).* into v_answer from reserve_2(t.org_id, jsonb_build_array(t.reserve - 'secret_id'
    || jsonb_strip_nulls(jsonb_build_object('request_id', 'ticket:' || t.id || ':' || new_id('hold'),
      'cost_ticket_id', t.id, 'wallet_id', w.id)))) r;
  if v_answer.code is not null then
    raise exception using errcode = 'SV001', message = v_answer.code;
  end if;
  return (null, v_entry.id, v_answer)::funded_hold;
exception when sqlstate 'SV001' then
  return (sqlerrm, null, null)::funded_hold;
end $$;

-- Records a person's yes: credits what is missing and holds it, in one step. The row that it answers has a `code` if it is
-- refused. `valid_until` keeps a verdict that arrives late, after its sender was told to look again, from changing anything.
create or replace function approve_ticket(p_org_id text, p_ticket_id text, p_verdict jsonb)
returns table (code text, message text, ticket_id text) language plpgsql
set enable_seqscan = off set enable_material = off set plan_cache_mode = force_generic_plan as $$
declare
  v_org organizations;
  t cost_tickets;
  w wallets;
  h funded_hold;
  v_need numeric;
  v_short numeric;
  v_amount numeric;
  v_is_transfer boolean;
begin
  v_org := lock_organization(p_org_id);
  ticket_id := p_ticket_id;
  select * into t from cost_tickets q where q.id = p_ticket_id and q.org_id = p_org_id;
  code := verdict_refusal(t, p_verdict, 'approved');
  if code is null then
    v_need := need_today(v_org, jsonb_populate_record(null::reserve_item, t.reserve - 'secret_id'));
    v_is_transfer := v_org.manual_credit = 'platform_only' and not (p_verdict ->> 'is_platform')::boolean;
    w := wallet_to_fund(t, p_verdict, v_need, v_is_transfer);
    v_short := greatest(coalesce(v_need, 0) - w.balance_nanos, 0);
    v_amount := coalesce((p_verdict ->> 'amount_nanos')::numeric, v_short);
    code := funding_refusal(w, p_org_id, p_verdict, v_amount, v_short, v_is_transfer);
  end if;
  if code is null then
    h := fund_and_hold(t, w, v_amount::bigint, v_is_transfer, p_verdict ->> 'note');
    code := h.code;
  end if;
  if code is not null then
    return next;
    return;
  end if;

  -- The hold is kept for its call until the ticket's own deadline, a day at most.
  update reservations r set expires_at = greatest(r.expires_at, least(t.expires_at, clock_timestamp() + interval '24 hours'))
  where r.id = (h.answer).reservation_id
  returning r.expires_at into t.expires_at;
  update cost_tickets q set decided_by = p_verdict ->> 'by', decided_at = clock_timestamp(), note = p_verdict ->> 'note',
    credited_nanos = v_amount, transaction_id = h.transaction_id, reservation_id = (h.answer).reservation_id,
    estimated_cost_nanos = (h.answer).reserved_amount_nanos, expires_at = t.expires_at,
    verdict_ids = array_append(q.verdict_ids, p_verdict ->> 'id')
  where q.id = t.id;
  perform resolve_ticket(t.id, 'approved', p_verdict ->> 'by_terminal' is null);
  return next;
end $$;
