-- Redeem: the hold that a ticket was opened for, made when money is there, oldest call first.

-- What a refused reserve must be covered by at today's prices, buffer included; null where it has no price any more.
create function need_today(p_org organizations, i reserve_item) returns numeric language sql stable as $$
  select ceil(ceil((quote_reserve(i, p_org.default_max_completion_tokens)).usd_nanos * rate_of(p_org.currency))
    * (1 + p_org.reserve_buffer_pct / 100))
$$;

-- True where the key of a ticket's request may hold nothing any more.
create function key_has_ended(t cost_tickets) returns boolean language sql stable as $$
  select t.key_id is not null and exists (select 1 from tokens k where k.id = t.key_id
    and (k.revoked_at is not null or k.expires_at <= clock_timestamp()))
$$;

-- The queue of an organization's waiting calls, oldest first, with the wallet that each may take. A call that no open wallet
-- covers closes the wallets of its own cascade to younger ones; one that waits between two calls keeps what is its turn's.
-- Ends after `p_turns_max` that may be taken now.
create function waiter_turns(p_org_id text, p_turns_max integer)
returns table (request_id text, wallet_id text, is_live boolean) language plpgsql stable as $$
declare
  v_turns integer := 0;
  w record;
  -- What is left in wallets after the turns so far; 'closed' where none is.
  v_left jsonb := '{}';
  v_wallet_id text;
  v_nanos numeric;
begin
  for w in
    select q.request_id as name, q.need_nanos, q.until > clock_timestamp() as is_live,
      array_remove(array[uw.id, tw.id, ow.id], null) as wallet_ids,
      array_remove(array[uw.balance_nanos, tw.balance_nanos, ow.balance_nanos], null) as balances
    from ticket_waiters q
    join cost_tickets t on t.id = q.ticket_id and t.status = 'open' and t.expires_at > clock_timestamp() and not key_has_ended(t)
    left join wallets uw on uw.org_id = p_org_id and uw.owner_type = 'user' and uw.owner_user_id = q.user_id
    left join wallets tw on tw.org_id = p_org_id and tw.owner_type = 'team' and tw.owner_team_id = q.team_id
    left join wallets ow on ow.org_id = p_org_id and ow.owner_type = 'organization'
    where q.org_id = p_org_id and q.answer is null and q.until > clock_timestamp() - waiter_grace()
    order by q.since, q.request_id
  loop
    v_wallet_id := null;
    for n in 1 .. cardinality(w.wallet_ids) loop
      continue when v_left ->> w.wallet_ids[n] = 'closed';
      v_nanos := coalesce((v_left ->> w.wallet_ids[n])::numeric, w.balances[n]);
      if v_nanos >= w.need_nanos then
        v_wallet_id := w.wallet_ids[n];
        v_left := v_left || jsonb_build_object(v_wallet_id, (v_nanos - w.need_nanos)::text);
        exit;
      end if;
    end loop;
    if v_wallet_id is null then
      v_left := v_left || (select jsonb_object_agg(id, 'closed') from unnest(w.wallet_ids) as id);
    end if;
    request_id := w.name;
    wallet_id := v_wallet_id;
    is_live := w.is_live;
    return next;
    v_turns := v_turns + (is_live and wallet_id is not null)::integer;
    exit when v_turns >= p_turns_max;
  end loop;
end $$;

create type redeem_item as (
  ticket_id text,
  family text,
  agent_id text,
  -- The client named the ticket: it pays for this call or for none.
  is_brought boolean,
  key_id text,
  secret_id text,
  user_id text,
  request_id text,
  request_body_hash text,
  wait_ms integer
);

-- One ticket pays for one call: the others that waited on it wait on a new one, which people see, and keep their places.
create function move_waiters(t cost_tickets) returns void language plpgsql as $$
declare
  v_org organizations;
  i reserve_item := jsonb_populate_record(null::reserve_item, t.reserve);
  v_need numeric;
  v_new_id text;
begin
  if not exists (select 1 from ticket_waiters w where w.org_id = t.org_id and w.ticket_id = t.id and w.answer is null
      and not coalesce((w.redeem ->> 'is_brought')::boolean, false)
      and w.request_id is distinct from (select q.request_id from cost_tickets q where q.id = t.id)
      and w.until > clock_timestamp() - waiter_grace()) then
    return;
  end if;
  select * into v_org from organizations o where o.id = t.org_id;
  v_need := coalesce(need_today(v_org, i), t.estimated_cost_nanos);
  v_new_id := open_ticket_2(v_org, i, least(v_need, 9000000000000000000)::bigint, '{}') ->> 'id';
  update ticket_waiters w set ticket_id = v_new_id, redeem = w.redeem || jsonb_build_object('ticket_id', v_new_id)
  where w.org_id = t.org_id and w.ticket_id = t.id and w.answer is null
    and not coalesce((w.redeem ->> 'is_brought')::boolean, false)
    and w.request_id is distinct from (select q.request_id from cost_tickets q where q.id = t.id);
end $$;

-- Gives an approved ticket's hold to the call that redeems it; from now on it lives as long as any other hold.
create function claim_approved(t cost_tickets, i redeem_item, a lane_answer) returns lane_row language plpgsql as $$
declare
  v_row lane_row;
  r reservations;
begin
  select * into r from reservations q where q.id = t.reservation_id and q.status = 'open' and q.expires_at > clock_timestamp();
  a.code := case
    when r.id is null then 'ticket_expired'
    when exists (select 1 from tokens k left join token_secrets s on s.id = i.secret_id and s.token_id = k.id
      where k.id = t.key_id and (k.revoked_at <= clock_timestamp() or k.expires_at <= clock_timestamp()
        or s.expires_at <= clock_timestamp() or (i.secret_id is not null and s.id is null))) then 'invalid_credential' end;
  if a.code is not null then
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
  return v_row;
end $$;

-- Wakes the organization's lifetimes workflow where a deadline comes before the one that it sleeps to.
create function wake_lifetimes(p_org_id text, p_deadline timestamptz) returns void language plpgsql as $$
begin
  update organizations o set lifetimes_next_at = p_deadline
  where o.id = p_org_id and (o.lifetimes_next_at is null or p_deadline < o.lifetimes_next_at);
  if found then
    perform send_to_workflow(p_org_id, 'reservationLifetimes', 'lifetimes-' || p_org_id, 'wake',
      jsonb_build_object('org_id', p_org_id));
  end if;
end $$;

-- Runs a ticket's reserve again for one call, paid by the wallet whose turn it is (none where empty). The row says it all:
-- a hold, a refusal, or 402 with today's numbers.
create function redeem_open(p_org_id text, t cost_tickets, i redeem_item, p_wallet_id text) returns lane_row
language plpgsql as $$
declare
  v_row lane_row;
  a lane_answer;
begin
  select * into v_row from reserve_2(p_org_id, jsonb_build_array(t.reserve - 'secret_id' || jsonb_strip_nulls(jsonb_build_object(
    'request_id', i.request_id, 'secret_id', i.secret_id, 'wallet_id', p_wallet_id, 'cost_ticket_id', t.id))));
  a := v_row.answer;
  if a.code is null then
    update cost_tickets q set reservation_id = a.reservation_id, request_id = i.request_id where q.id = t.id;
    perform resolve_ticket(t.id, 'redeemed', false);
    perform move_waiters(t);
  end if;
  return v_row;
end $$;

-- Why a redeem is refused whatever the wallets hold; null where the ticket is open or approved and the call may have it.
create function redeem_refusal(t cost_tickets, i redeem_item) returns text language sql stable as $$
  select case
    when t.id is null then 'ticket_not_found'
    when t.reserve ->> 'request_body_hash' is distinct from i.request_body_hash or t.reserve ->> 'family' <> i.family
      or (i.agent_id is not null and i.agent_id is distinct from t.agent_id)
      or case when t.key_id is null then t.user_id is distinct from i.user_id else t.key_id is distinct from i.key_id end
      then 'ticket_owner_differs'
    when t.status = 'denied' then 'ticket_denied'
    when t.status = 'redeemed' then 'ticket_redeemed'
    when t.status = 'expired' or t.expires_at <= clock_timestamp() then 'ticket_expired' end
$$;

-- A refused redeem shows its own ticket, with what a person wrote when denying it.
create function refused_redeem(t cost_tickets, p_code text) returns lane_row language plpgsql stable as $$
declare
  v_row lane_row;
begin
  v_row.answer.code := p_code;
  if p_code not in ('ticket_not_found', 'ticket_owner_differs') then
    v_row.answer.cost_ticket := ticket_answer(t, '{}') || jsonb_strip_nulls(jsonb_build_object('note', t.note));
  end if;
  return v_row;
end $$;

-- Redeems tickets for calls, in the given order. Invariant: one ticket pays for one call, and no call overtakes an older
-- one that waits for the same wallet. With `wait_ms` a call that is not covered stays in the queue.
create function redeem(p_org_id text, p_items jsonb) returns setof lane_row language plpgsql as $$
declare
  v_org organizations;
  e record;
  t cost_tickets;
  r reservations;
  a lane_answer;
  v_row lane_row;
  v_need numeric;
  v_wallet_id text;
begin
  v_org := lock_organization(p_org_id);
  for e in
    select i.n::integer as n, jsonb_populate_record(null::redeem_item, i.value) as body
    from jsonb_array_elements(p_items) with ordinality as i (value, n) order by i.n
  loop
    a := null;
    v_row := null;
    a.op := 'redeem';
    select * into t from cost_tickets q where q.id = (e.body).ticket_id and q.org_id = p_org_id;
    select * into r from reservations q where q.org_id = p_org_id and q.request_id = (e.body).request_id;
    a.code := redeem_refusal(t, e.body);
    if a.code = 'ticket_redeemed' and r.id is null then
      -- A waiting call may ask by the ticket that it came with: it has been moved to another one meanwhile.
      select q.* into t from cost_tickets q join ticket_waiters w on w.ticket_id = q.id
      where w.org_id = p_org_id and w.request_id = (e.body).request_id and w.answer is null and q.id <> t.id;
      if found then
        a.code := redeem_refusal(t, e.body);
      else
        select * into t from cost_tickets q where q.id = (e.body).ticket_id;
      end if;
    end if;
    if t.id is not null and r.id is not null and a.code is distinct from 'ticket_owner_differs' then
      v_row.answer := repeated_hold(a, r, r.body_sha256, (select h.balance_after_nanos from wallet_transactions h
        where h.reservation_id = r.id and h.phase = 'hold'));
      if r.status = 'released' and r.outcome = 'canceled' then
        v_row.answer.code := 'request_canceled';
      elsif r.status <> 'canceled' and r.cost_ticket_id is distinct from t.id then
        v_row.answer.code := 'idempotency_key_reused';
      end if;
      v_row.max_completion_tokens := r.max_completion_tokens;
    elsif a.code is not null then
      v_row := refused_redeem(t, a.code);
    elsif t.status = 'approved' then
      v_row := claim_approved(t, e.body, a);
    else
      v_need := need_today(v_org, jsonb_populate_record(null::reserve_item, t.reserve));
      insert into ticket_waiters (org_id, request_id, ticket_id, redeem, user_id, team_id, need_nanos, since, until)
      values (p_org_id, (e.body).request_id, t.id, to_jsonb(e.body) || jsonb_build_object('ticket_id', t.id), t.user_id, t.team_id,
        least(coalesce(v_need, 0), 9000000000000000000), clock_timestamp(),
        clock_timestamp() + coalesce((e.body).wait_ms, 0) * interval '1 millisecond')
      on conflict (org_id, request_id) do update set ticket_id = excluded.ticket_id, redeem = excluded.redeem,
        need_nanos = excluded.need_nanos, until = excluded.until, answer = null;
      v_wallet_id := '';
      -- Only a call that money is there for needs to know whose turn it is.
      if v_need is null or exists (select 1 from wallets w where w.org_id = p_org_id and w.balance_nanos >= v_need
          and (w.owner_type = 'organization' or w.owner_team_id = t.team_id or w.owner_user_id = t.user_id)) then
        select q.wallet_id into v_wallet_id from waiter_turns(p_org_id, null) q
        where q.request_id = (e.body).request_id;
        v_wallet_id := coalesce(v_wallet_id, '');
      end if;
      v_row := redeem_open(p_org_id, t, e.body, v_wallet_id);
      if (v_row.answer).code is distinct from 'insufficient_balance' then
        delete from ticket_waiters q where q.org_id = p_org_id and q.request_id = (e.body).request_id;
      end if;
    end if;
    if (v_row.answer).code = 'ticket_expired' and t.status in ('open', 'approved') then
      perform resolve_ticket(t.id, 'expired', false);
    end if;
    v_row.answer.op := 'redeem';
    v_row.answer.n := e.n;
    return next v_row;
  end loop;
end $$;

-- True where a waiting call may have something to hear: its ticket was decided, or money is there.
create function waiters_may_go(p_org_id text) returns boolean language sql stable as $$
  select exists (
    select 1 from ticket_waiters w join cost_tickets t on t.id = w.ticket_id
    where w.org_id = p_org_id and w.answer is null and w.until > clock_timestamp()
      and (t.status <> 'open' or t.expires_at <= clock_timestamp() or key_has_ended(t))
  ) or exists (
    select 1 from (
      select w.user_id, w.team_id, min(w.need_nanos) as need_nanos from ticket_waiters w
      where w.org_id = p_org_id and w.answer is null and w.until > clock_timestamp() group by 1, 2) as g
    where exists (select 1 from wallets q where q.org_id = p_org_id and q.balance_nanos >= g.need_nanos
      and (q.owner_type = 'organization' or q.owner_team_id = g.team_id or q.owner_user_id = g.user_id))
  )
$$;

-- Serves an organization's queue and says what the named calls have been answered, whoever served them. Called by every API
-- whenever something changed: a look without the lock first, then the walk under it, oldest first and a few dozen at most, so
-- that a long queue never keeps the ledger; whoever is served tells the APIs to look again.
create function redeem_waiting(p_org_id text, p_request_ids text[])
returns table (request_id text, answer lane_answer, max_completion_tokens bigint, warnings jsonb, resets_at timestamptz)
language plpgsql
set enable_seqscan = off set enable_material = off set plan_cache_mode = force_generic_plan as $$
declare
  w record;
  t cost_tickets;
  i redeem_item;
  v_row lane_row;
  v_code text;
  v_repriced boolean;
  v_walk_max constant integer := 32;
begin
  if waiters_may_go(p_org_id) then
    perform lock_organization(p_org_id);
    -- A walk whose prices have changed meanwhile is walked again.
    for attempt in 1 .. 3 loop
      v_repriced := false;
      for w in
        (select q.request_id as name, '' as wallet_id from ticket_waiters q
        join cost_tickets o on o.id = q.ticket_id
        where q.org_id = p_org_id and q.answer is null and q.until > clock_timestamp()
          and (o.status <> 'open' or o.expires_at <= clock_timestamp() or key_has_ended(o))
        order by q.since, q.request_id)
        union all
        select s.request_id, s.wallet_id from waiter_turns(p_org_id, v_walk_max) s
        where s.is_live and s.wallet_id is not null
      loop
        -- Read again: an earlier turn may have moved it to another ticket.
        select p.* into i from ticket_waiters x cross join lateral jsonb_populate_record(null::redeem_item, x.redeem) as p
        where x.org_id = p_org_id and x.request_id = w.name and x.answer is null;
        continue when i.ticket_id is null;
        select * into t from cost_tickets q where q.id = i.ticket_id;
        v_code := redeem_refusal(t, i);
        if v_code is not null then
          v_row := refused_redeem(t, v_code);
        else
          v_row := case t.status when 'approved' then claim_approved(t, i, null::lane_answer)
            else redeem_open(p_org_id, t, i, w.wallet_id) end;
        end if;
        if (v_row.answer).code = 'ticket_expired' and t.status in ('open', 'approved') then
          perform resolve_ticket(t.id, 'expired', false);
        end if;
        if (v_row.answer).code is distinct from 'insufficient_balance' then
          v_row.answer.op := 'redeem';
          update ticket_waiters q set answer = to_jsonb(v_row)
          where q.org_id = p_org_id and q.request_id = w.name;
        else
          update ticket_waiters q set need_nanos = ((v_row.answer).cost_ticket ->> 'estimated_cost_nanos')::bigint
          where q.org_id = p_org_id and q.request_id = w.name;
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

-- One commit for what waits in one organization's lane: settlements first, they give money back; then the calls that have
-- waited for it; then new ones.
create function lane_2(p_org_id text, p_settlements jsonb, p_redeems jsonb, p_reserves jsonb) returns setof lane_row
language plpgsql
set enable_seqscan = off set enable_material = off set plan_cache_mode = force_generic_plan as $$
begin
  if jsonb_array_length(p_settlements) > 0 then
    return query select s::lane_answer, null::bigint, null::jsonb, null::timestamptz from settle_2(p_org_id, p_settlements) as s;
  end if;
  if jsonb_array_length(p_redeems) > 0 then
    return query select * from redeem(p_org_id, p_redeems);
  end if;
  if jsonb_array_length(p_reserves) > 0 then
    return query select * from reserve_2(p_org_id, p_reserves);
  end if;
end $$;
