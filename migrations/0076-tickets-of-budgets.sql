-- Tickets of budgets: what they say, who asks in each of their events, and how their calls wait.

-- balance, or budget if a budget has no room, whether or not money is missing too.
alter table cost_tickets add column cause text not null default 'balance';
-- The rule that approved it; decided_by is `rule` then.
alter table cost_tickets add column approval_rule_id text;
-- Lists of one asker, of a team's admin, and of what is rare among many.
create index cost_tickets_user on cost_tickets (org_id, user_id, created_at desc) where user_id is not null;
create index cost_tickets_team on cost_tickets (org_id, team_id, created_at desc) where team_id is not null;
create index cost_tickets_agent on cost_tickets (org_id, agent_id, created_at desc) where agent_id is not null;
create index cost_tickets_model on cost_tickets (org_id, model, created_at desc);
create index cost_tickets_status on cost_tickets (org_id, status, created_at desc);
create index cost_tickets_cause on cost_tickets (org_id, cause, created_at desc);

-- What a ticket says of budgets: nothing if it is about money alone. `budget` is the one whose window
-- ends last. Once each has room, it asks for none.
create function ticket_budgets(t cost_tickets, p_left jsonb) returns jsonb language plpgsql stable as $$
declare
  v_short jsonb;
begin
  if t.cause <> 'budget' then
    return '{}';
  end if;
  if t.status = 'open' then
    select jsonb_agg(shown_budget(s.id, s.owner_type, s.owner_id, s.budget_window, s.limit_nanos, s.used_nanos, s.missing_nanos,
      s.resets_at) order by s.resets_at desc nulls first, s.id) into v_short
    from short_budgets(t.org_id, t.key_id, t.user_id, t.team_id, t.estimated_cost_nanos, clock_timestamp(), p_left) as s;
  end if;
  return jsonb_build_object('cause', 'budget', 'budget', v_short -> 0, 'budgets', coalesce(v_short, '[]'));
end $$;

-- A ticket as people and gateways see it: what is missing in each wallet that may pay. `p_left`
-- holds balances that a batch has changed but not yet written. The fullest wallet gives the ticket
-- its balance; ties go to the organization.
create or replace function ticket_answer(t cost_tickets, p_left jsonb)
returns jsonb language sql stable as $$
  with cascade as (
    select w.id, w.owner_type, coalesce((p_left ->> w.id)::bigint, w.balance_nanos) as balance_nanos,
      array_position(array['user', 'team', 'organization'], w.owner_type) as place
    from wallets w
    where w.org_id = t.org_id
      and (w.owner_type = 'organization' or w.owner_team_id = t.team_id or w.owner_user_id = t.user_id)
  ), short as (
    select c.*, case when t.status = 'open' then greatest(t.estimated_cost_nanos::numeric - c.balance_nanos, 0) else 0 end
      as shortfall_nanos
    from cascade c
  ), fullest as (
    select * from short s order by s.balance_nanos desc, s.place desc limit 1
  )
  select jsonb_build_object('id', t.id,
    'status', case when t.status in ('open', 'approved') and t.expires_at <= clock_timestamp() then 'expired' else t.status end,
    'provider', t.provider, 'model', t.model, 'estimated_cost_nanos', t.estimated_cost_nanos::text,
    'balance_nanos', f.balance_nanos::text, 'shortfall_nanos', f.shortfall_nanos::text, 'currency', t.currency,
    'wallet_owner_type', f.owner_type, 'wallets', (
      select jsonb_agg(jsonb_build_object('wallet_id', s.id, 'owner_type', s.owner_type, 'balance_nanos',
        s.balance_nanos::text, 'shortfall_nanos', s.shortfall_nanos::text) order by s.place) from short s),
    'created_at', iso_time(t.created_at), 'expires_at', iso_time(t.expires_at)) || ticket_budgets(t, p_left)
  from fullest f
$$;

-- Who asks, as each event of a ticket names them.
create function ticket_caller(t cost_tickets) returns jsonb language sql immutable as $$
  select jsonb_build_object('user_id', t.user_id, 'team_id', t.team_id, 'key_id', t.key_id, 'agent_id', t.agent_id)
$$;

-- Opens a ticket for a refused reserve, or finds the caller's open one for the same body; however
-- many are open.
create or replace function ticket_for(p_org organizations, i reserve_item, p_held_nanos bigint, p_left jsonb)
returns jsonb language plpgsql as $$
declare
  v_now timestamptz := clock_timestamp();
  v_id text := new_id('ticket');
  t cost_tickets;
  v_answer jsonb;
  v_cause text := case when exists (select 1 from short_budgets(p_org.id, i.key_id, i.user_id, i.team_id, p_held_nanos,
    v_now, p_left)) then 'budget' else 'balance' end;
  -- The same bytes on another route are another request, with another cost.
  v_request text := concat_ws('#', i.request_body_hash, i.family);
begin
  perform ensure_wallet(p_org.id, 'user', i.user_id) where i.user_id is not null;
  perform ensure_wallet(p_org.id, 'team', i.team_id) where i.team_id is not null;
  for t in
    select * from cost_tickets q
    where q.org_id = p_org.id and q.request_body_hash = v_request and q.status = 'open' and q.expires_at <= v_now
  loop
    perform resolve_ticket(t.id, 'expired', false);
  end loop;
  insert into cost_tickets (id, org_id, key_id, user_id, team_id, agent_id, session_id, provider, model, request_body_hash,
    estimated_cost_nanos, currency, reserve, created_at, expires_at, cause)
  values (v_id, p_org.id, i.key_id, i.user_id, i.team_id, i.agent_id, i.session_id, i.provider, i.model,
    v_request, p_held_nanos, p_org.currency, jsonb_strip_nulls(to_jsonb(i)), v_now,
    v_now + p_org.ticket_ttl_seconds * interval '1 second', v_cause)
  on conflict (org_id, key_id, user_id, team_id, agent_id, session_id, provider, model, request_body_hash)
    where status = 'open'
  do update set estimated_cost_nanos = excluded.estimated_cost_nanos, reserve = excluded.reserve,
    cause = excluded.cause
  returning * into t;
  v_answer := ticket_answer(t, p_left);
  if t.id = v_id then
    perform append_event(p_org.id, 'cost_ticket.created', v_answer || jsonb_build_object('cost_ticket_id', v_id,
      'request_id', i.request_id) || ticket_caller(t) || caller(t.trace, t.user_id, t.key_id, t.team_id));
    perform send_to_workflow(p_org.id, 'costTicket', v_id, null, jsonb_build_object('ticket_id', v_id));
  end if;
  return v_answer;
end $$;

-- Closes a ticket: row, event, and a signal where its workflow may be waiting; a start that is
-- still unsent is dropped instead. A verdict or a deadline that the workflow itself records needs
-- no signal. The event names the call that redeemed the ticket, else the one that opened it.
create or replace function resolve_ticket(p_ticket_id text, p_status text, p_is_told boolean)
returns void language plpgsql as $$
declare
  t cost_tickets;
  v_was text := (select q.status from cost_tickets q where q.id = p_ticket_id);
begin
  update cost_tickets q set status = p_status, resolved_at = clock_timestamp() where q.id = p_ticket_id returning * into t;
  perform append_event(t.org_id, 'cost_ticket.resolved', jsonb_strip_nulls(jsonb_build_object('cost_ticket_id', t.id,
      'status', t.status, 'provider', t.provider, 'model', t.model, 'decided_by', t.decided_by,
      'note', t.note, 'credited_nanos', t.credited_nanos::text, 'currency', t.currency, 'reservation_id', t.reservation_id,
      'request_id', t.request_id, 'approval_rule_id', t.approval_rule_id)) || ticket_caller(t)
    || caller(coalesce(trace_of(t.request_id), (select w.trace from ticket_waiters w
      where w.org_id = t.org_id and w.request_id = t.request_id), t.trace), t.user_id, t.key_id, t.team_id));
  if v_was = 'open' and not p_is_told then
    delete from outbox o where o.workflow_id = t.id and o.signal is null and o.attempts = 0;
    if not found then
      perform send_to_workflow(t.org_id, 'costTicket', t.id, 'resolved', jsonb_build_object('ticket_id', t.id));
    end if;
  end if;
end $$;

-- A redeemed hold that is canceled unused gives its ticket back: the call found no slot, or its
-- client has gone.
create or replace function reopen_ticket() returns trigger language plpgsql as $$
declare
  t cost_tickets;
begin
  select * into t from cost_tickets q where q.id = new.cost_ticket_id and q.status = 'redeemed'
    and q.expires_at > clock_timestamp();
  if t.id is null or exists (select 1 from cost_tickets q where q.status = 'open'
      and (q.org_id, q.provider, q.model, q.request_body_hash) = (t.org_id, t.provider, t.model, t.request_body_hash)
      and (q.key_id, q.user_id, q.team_id, q.agent_id, q.session_id)
        is not distinct from (t.key_id, t.user_id, t.team_id, t.agent_id, t.session_id)) then
    return null;
  end if;
  update cost_tickets q set status = 'open', reservation_id = null, request_id = null, resolved_at = null, decided_by = null,
    decided_at = null, note = null, credited_nanos = null, transaction_id = null, approval_rule_id = null
  where q.id = t.id returning * into t;
  perform append_event(t.org_id, 'cost_ticket.created', ticket_answer(t, '{}') || jsonb_build_object('cost_ticket_id', t.id,
    'request_id', new.request_id, 'reopened', true) || ticket_caller(t) || caller_of_hold(new));
  perform send_to_workflow(t.org_id, 'costTicket', t.id, null, jsonb_build_object('ticket_id', t.id));
  return null;
end $$;

-- Says in one event for all refusals of ten minutes that a key or an organization has as many
-- tickets open as it may have.
create or replace function tell_bound(p_org_id text, i reserve_item, p_bound jsonb)
returns void language plpgsql as $$
declare
  v_key_id text := case p_bound ->> 'param' when 'key_id' then i.key_id end;
  v_now timestamptz := clock_timestamp();
begin
  delete from ticket_bounds b where b.org_id = p_org_id and b.told_at <= v_now - interval '10 minutes';
  insert into ticket_bounds (org_id, key_id, told_at) values (p_org_id, v_key_id, v_now) on conflict (org_id, key_id) do nothing;
  if found then
    perform append_event(p_org_id, 'cost_ticket.exceeded', jsonb_build_object('key_id', v_key_id, 'user_id', i.user_id,
        'team_id', i.team_id,
        'open_tickets', p_bound -> 'open', 'resets_at', iso_time((p_bound ->> 'resets_at')::timestamptz),
        'request_id', i.request_id, 'agent_id', i.agent_id)
      || caller(trace_of(i.request_id), i.user_id, i.key_id, i.team_id));
  end if;
end $$;

-- True if a call that waits for so much can no longer be served, however much money comes: its
-- organization is suspended, its key has ended or has spent its budget, its person, team or agent is
-- gone, a cap of its agent or the limits of its session are reached. Each waiting call is looked at in each turn, so
-- what costs more stands last, behind a look whether there is such a bound at all.
create or replace function waiter_has_ended(t cost_tickets, p_need_nanos bigint)
returns boolean language sql stable as $$
  select key_has_ended(t)
    or exists (select 1 from organizations o where o.id = t.org_id and o.suspended_at is not null)
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

-- True if a budget that does this beyond itself has no room for a waiting call, which money does not
-- help. Beyond one that refuses the call is ended; beyond one that asks it waits for a verdict, a
-- larger budget or the next window, and stops nobody. It is asked only where there is a budget.
create function waiter_is_barred(t cost_tickets, p_need_nanos bigint, p_on_exceed text) returns boolean language sql stable as $$
  select exists (select 1 from budgets_of(t.org_id, t.key_id, t.user_id, t.team_id) as b where b.on_exceed = p_on_exceed
    and budget_used(b, clock_timestamp()) + p_need_nanos > budget_cap(b, clock_timestamp()))
$$;

-- A waiting call of an organization that is suspended is told at once.
create function notify_waiters_of_organization() returns trigger language plpgsql as $$
begin
  perform notify_waiters(new.id);
  return null;
end $$;

create trigger organizations_notify after update of suspended_at on organizations
for each row when (new.suspended_at is not null and old.suspended_at is null) execute function notify_waiters_of_organization();

-- Gives an approved ticket's hold to the call that redeems it; from now on it lives as long as any
-- other hold. While its organization is suspended it stays as it is.
create or replace function claim_approved(t cost_tickets, i redeem_item, a lane_answer) returns lane_row language plpgsql as $$
declare
  v_row lane_row;
  r reservations;
begin
  select * into r from reservations q where q.id = t.reservation_id and q.status = 'open' and q.expires_at > clock_timestamp();
  a.code := case
    when r.id is null then 'ticket_expired'
    when exists (select 1 from organizations o where o.id = t.org_id and o.suspended_at is not null) then 'organization_suspended'
    when exists (select 1 from tokens k left join token_secrets s on s.id = i.secret_id and s.token_id = k.id
      where k.id = t.key_id and (k.revoked_at <= clock_timestamp() or k.expires_at <= clock_timestamp()
        or s.expires_at <= clock_timestamp() or (i.secret_id is not null and s.id is null))) then 'invalid_credential'
    else leaver_refusal(t) end;
  if a.code is not null then
    a.param := case a.code when 'not_of_organization' then 'user_id' when 'not_team_member' then 'team_id' end;
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

-- True where a waiting call may have something to hear: its ticket was decided, it can no longer be
-- served, or money is there.
create or replace function waiters_may_go(p_org_id text) returns boolean language sql stable as $$
  select exists (
    select 1 from ticket_waiters w join cost_tickets t on t.id = w.ticket_id
    where w.org_id = p_org_id and w.answer is null and w.until > clock_timestamp()
      and (t.status <> 'open' or t.expires_at <= clock_timestamp() or waiter_has_ended(t, w.need_nanos)
        or ((select exists (select 1 from budgets b where b.org_id = p_org_id and b.archived_at is null))
          and waiter_is_barred(t, w.need_nanos, 'refuse')))
  ) or exists (
    select 1 from (
      select w.user_id, w.team_id, min(w.need_nanos) as need_nanos from ticket_waiters w
      join cost_tickets t on t.id = w.ticket_id
      where w.org_id = p_org_id and w.answer is null and w.until > clock_timestamp()
        and not ((select exists (select 1 from budgets b where b.org_id = p_org_id and b.archived_at is null))
          and waiter_is_barred(t, w.need_nanos, 'ticket'))
      group by 1, 2) as g
    where exists (select 1 from wallets q where q.org_id = p_org_id and q.balance_nanos >= g.need_nanos
      and (q.owner_type = 'organization' or q.owner_team_id = g.team_id or q.owner_user_id = g.user_id))
  )
$$;

-- Sums up what the oldest waiting calls need of a wallet: all of them, and as many of the first as
-- the given money covers. So few are looked at that a long queue costs a settlement nothing; money
-- is kept for the rest as their turn comes near.
create or replace function waiting_needs(w wallets, p_nanos numeric)
returns table(all_nanos numeric, covered_nanos numeric) language sql stable as $$
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
      and not waiter_has_ended(t, q.need_nanos) and not ((select exists (select 1 from budgets b where b.org_id = w.org_id and b.archived_at is null))
        and (waiter_is_barred(t, q.need_nanos, 'refuse') or waiter_is_barred(t, q.need_nanos, 'ticket')))
  ) as n
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

-- Lists the waiting calls to serve now: first those that have come to an end, by no wallet; then
-- those whose turn it is, with the wallet that they take. Both are in the order of the queue.
create or replace function waiters_to_serve(p_org_id text, p_turns_max integer)
returns table(request_id text, wallet_id text) language sql stable as $$
  (select q.request_id, '' from ticket_waiters q
  join cost_tickets o on o.id = q.ticket_id
  where q.org_id = p_org_id and q.answer is null and q.until > clock_timestamp()
    and (o.status <> 'open' or o.expires_at <= clock_timestamp() or waiter_has_ended(o, q.need_nanos)
      or ((select exists (select 1 from budgets b where b.org_id = p_org_id and b.archived_at is null))
        and waiter_is_barred(o, q.need_nanos, 'refuse')))
  order by q.since, q.request_id)
  union all
  select s.request_id, s.wallet_id from waiter_turns(p_org_id, p_turns_max) s
  where s.is_live and s.wallet_id is not null
$$;
