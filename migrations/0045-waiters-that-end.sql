-- A waiting call that can no longer be served leaves the queue at once; one try without a wait leaves no place behind; a redeem
-- takes over the hold that a repeated reserve made for the same request; a repeated approval is the first one's answer.

-- True if a call that waits for so much can no longer be served, however much money comes: its ticket's key has ended or has
-- spent its budget, its person, team or agent is gone, a cap of its agent or the limits of its session are reached. Each
-- waiting call is looked at in each turn, so what costs more stands last, behind a look whether there is such a bound at all.
create function waiter_has_ended(t cost_tickets, p_need_nanos bigint) returns boolean language sql stable as $$
  select key_has_ended(t)
    or (t.key_id is not null and exists (select 1 from tokens k where k.id = t.key_id
      and k.max_budget_nanos - k.spent_nanos - k.held_nanos < p_need_nanos))
    or (t.team_id is not null and exists (select 1 from teams q where q.id = t.team_id and q.archived_at is not null))
    or (t.agent_id is not null and exists (select 1 from agents q where q.id = t.agent_id and q.archived_at is not null))
    or (t.agent_id is not null and exists (select 1 from usage_constraints c where c.agent_id = t.agent_id
        and c.archived_at is null and c.enforcement_mode = 'reject')
      and (judge_caps(jsonb_populate_record(null::reserve_item, t.reserve), p_need_nanos, clock_timestamp(), '{}')).refused_id
        is not null)
    or (t.reserve ?| array['session_max_actions', 'session_max_cost_usd']
      and exists (select 1 from organizations o
        cross join lateral jsonb_populate_record(null::reserve_item, t.reserve) as i
        cross join lateral quote_reserve(i, o.default_max_completion_tokens) as q
        where o.id = t.org_id and session_is_full(t.org_id, i, q.usd_nanos, '{}')))
$$;

-- True where a waiting call may have something to hear: its ticket was decided, it can no longer be served, or money is there.
create or replace function waiters_may_go(p_org_id text) returns boolean language sql stable as $$
  select exists (
    select 1 from ticket_waiters w join cost_tickets t on t.id = w.ticket_id
    where w.org_id = p_org_id and w.answer is null and w.until > clock_timestamp()
      and (t.status <> 'open' or t.expires_at <= clock_timestamp() or waiter_has_ended(t, w.need_nanos))
  ) or exists (
    select 1 from (
      select w.user_id, w.team_id, min(w.need_nanos) as need_nanos from ticket_waiters w
      where w.org_id = p_org_id and w.answer is null and w.until > clock_timestamp() group by 1, 2) as g
    where exists (select 1 from wallets q where q.org_id = p_org_id and q.balance_nanos >= g.need_nanos
      and (q.owner_type = 'organization' or q.owner_team_id = g.team_id or q.owner_user_id = g.user_id))
  )
$$;

-- Lists the waiting calls to serve now: first those that have come to an end, by no wallet; then those whose turn it is, with
-- the wallet that they take. Both are in the order of the queue.
create or replace function waiters_to_serve(p_org_id text, p_turns_max integer) returns table (request_id text, wallet_id text)
language sql stable as $$
  (select q.request_id, '' from ticket_waiters q
  join cost_tickets o on o.id = q.ticket_id
  where q.org_id = p_org_id and q.answer is null and q.until > clock_timestamp()
    and (o.status <> 'open' or o.expires_at <= clock_timestamp() or waiter_has_ended(o, q.need_nanos))
  order by q.since, q.request_id)
  union all
  select s.request_id, s.wallet_id from waiter_turns(p_org_id, p_turns_max) s
  where s.is_live and s.wallet_id is not null
$$;

-- A waiting call whose agent or team is archived, or whose budget or cap is changed or filled from outside, is told at once. What
-- calls themselves spend raises a wallet, which tells them too.
create trigger agents_end after update of archived_at on agents
for each row when (new.archived_at is not null and old.archived_at is null) execute function notify_waiters_of_row();

create trigger teams_end after update of archived_at on teams
for each row when (new.archived_at is not null and old.archived_at is null) execute function notify_waiters_of_row();

create trigger tokens_change after update of max_budget_nanos on tokens
for each row when (new.max_budget_nanos is distinct from old.max_budget_nanos and new.org_id is not null)
execute function notify_waiters_of_row();

create trigger usage_constraints_change after insert or update on usage_constraints
for each row execute function notify_waiters_of_row();

create trigger usage_increments_fill after insert on usage_increments
for each row execute function notify_waiters_of_row();

-- Finds the hold that a reserve of the same call made beside its ticket: one try of the reserve was refused, a later one was
-- covered. Null if there is none, or if it is another request's.
create function plain_hold(t cost_tickets, p_request_id text) returns reservations language sql stable as $$
  select q from reservations q
  where q.org_id = t.org_id and q.request_id = p_request_id and q.status = 'open' and q.cost_ticket_id is null
    and (q.provider, q.model, q.family, q.request_body_hash)
      is not distinct from (t.provider, t.model, t.reserve ->> 'family', t.reserve ->> 'request_body_hash')
    and (q.key_id, q.user_id, q.team_id, q.agent_id, q.session_id)
      is not distinct from (t.key_id, t.user_id, t.team_id, t.agent_id, t.session_id)
$$;

-- Redeems a ticket with the hold that its call has already. What an approval holds for the ticket is given back: one call is
-- paid once.
create function adopt_hold(t cost_tickets, r reservations) returns lane_row language plpgsql as $$
declare
  v_row lane_row;
begin
  if t.status = 'approved' then
    perform from settle_3(t.org_id, jsonb_build_array(jsonb_build_object('reservation_id', t.reservation_id, 'outcome', 'canceled')));
  end if;
  update reservations q set cost_ticket_id = t.id where q.id = r.id;
  update cost_tickets q set reservation_id = r.id, request_id = r.request_id where q.id = t.id;
  perform resolve_ticket(t.id, 'redeemed', false);
  perform move_waiters(t);
  v_row.answer := repeated_hold(null, r, r.body_sha256, (select h.balance_after_nanos from wallet_transactions h
    where h.reservation_id = r.id and h.phase = 'hold'));
  v_row.max_completion_tokens := r.max_completion_tokens;
  return v_row;
end $$;

-- Puts a call into the queue of its open ticket, and holds for it if it is its turn. Invariant: the call leaves the queue with
-- every answer but 402, and with a 402 too if it asked for no wait and had no place.
create or replace function redeem_in_turn(p_org organizations, t cost_tickets, i redeem_item) returns lane_row
language plpgsql as $$
declare
  v_need numeric := need_today(p_org, jsonb_populate_record(null::reserve_item, t.reserve));
  v_has_place boolean := coalesce(i.wait_ms, 0) > 0 or exists (select 1 from ticket_waiters q
    where q.org_id = p_org.id and q.request_id = i.request_id and q.until > clock_timestamp() - waiter_grace());
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
  if (v_row.answer).code is distinct from 'insufficient_balance' or not v_has_place then
    delete from ticket_waiters q where q.org_id = p_org.id and q.request_id = i.request_id;
  end if;
  return v_row;
end $$;

-- Redeems tickets for calls, in the given order. Invariant: one ticket pays for one call, and no call overtakes an older one that
-- waits for the same wallet. With `wait_ms` a call that is not covered stays in the queue. A call that holds money already, by a
-- reserve of its own, goes on with that.
create or replace function redeem(p_org_id text, p_items jsonb) returns setof lane_row language plpgsql as $$
declare
  v_org organizations;
  e record;
  i redeem_item;
  t cost_tickets;
  r reservations;
  v_plain reservations;
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
    v_plain := case when t.id is not null and r.id is not null then plain_hold(t, i.request_id) end;
    if v_plain.id is not null and v_code is not null then
      v_row := refused_redeem(t, v_code);
    elsif v_plain.id is not null then
      v_row := adopt_hold(t, v_plain);
      delete from ticket_waiters q where q.org_id = p_org_id and q.request_id = i.request_id;
    elsif t.id is not null and r.id is not null and v_code is distinct from 'ticket_owner_differs' then
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

-- Serves one waiting call and keeps its answer in the queue. False if its price has changed, so that its wallet no longer covers
-- it: then it goes on waiting for the new amount.
create or replace function serve_waiter(p_org_id text, p_request_id text, p_wallet_id text) returns boolean
language plpgsql as $$
declare
  i redeem_item;
  t cost_tickets;
  r reservations;
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
  r := plain_hold(t, p_request_id);
  v_row := case
    when v_code is not null then refused_redeem(t, v_code)
    when r.id is not null then adopt_hold(t, r)
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

-- Tickets that were redeemed by such a hold before this version: each says which, so the proof of the ledger holds again.
update reservations r set cost_ticket_id = t.id
from cost_tickets t
where t.status = 'redeemed' and r.id = t.reservation_id and r.cost_ticket_id is null;

-- Why a verdict cannot be recorded; 'repeated' where it is the one already recorded. An approval that its call has redeemed is
-- still that approval.
create or replace function verdict_refusal(t cost_tickets, p_verdict jsonb, p_status text) returns text language sql stable as $$
  select case
    when t.id is null then 'ticket_not_found'
    when p_verdict ->> 'id' = any (t.verdict_ids) then 'repeated'
    when t.status = p_status and (p_status = 'denied' or t.expires_at > clock_timestamp()) then 'repeated'
    when t.status = 'redeemed' and p_status = 'approved' and t.decided_by is not null then 'repeated'
    when t.status in ('open', 'approved') and t.expires_at <= clock_timestamp() then 'ticket_expired'
    when t.status <> 'open' then 'ticket_' || t.status
    when clock_timestamp() > (p_verdict ->> 'valid_until')::timestamptz then 'verdict_too_late' end
$$;
