-- What is refused or told of a call is the same whether it passes by an approval or without one.

-- Which of those that a ticket names has gone, as a reserve names it: the person, the team or the agent. Null: all are there.
create function gone_member(t cost_tickets) returns text language sql stable as $$
  select case
    when t.user_id is not null and not exists (select 1 from memberships q where q.org_id = t.org_id and q.user_id = t.user_id
      and q.archived_at is null) then 'user_id'
    when t.team_id is not null and not exists (select 1 from teams q where q.id = t.team_id and q.org_id = t.org_id
      and q.archived_at is null) then 'team_id'
    when t.agent_id is not null and not exists (select 1 from agents q where q.id = t.agent_id and q.org_id = t.org_id
      and q.archived_at is null) then 'agent_id' end
$$;

-- Says why nobody may have what a ticket was approved for any more; null if its call may: the
-- person, team or agent that it names has gone, or the person has left the team.
create or replace function leaver_refusal(t cost_tickets) returns text language sql stable as $$
  select case
    when gone_member(t) is not null then 'not_of_organization'
    when t.user_id is not null and t.team_id is not null
      and not exists (select 1 from team_members q where q.team_id = t.team_id and q.user_id = t.user_id) then 'not_team_member' end
$$;

-- What a call hears that an approval holds for, as any other call: of each budget that it leaves at a
-- threshold or beyond, and of each cap that it exceeds. Its hold is counted already.
create function warnings_of_hold(t cost_tickets, r reservations) returns jsonb language sql stable as $$
  select nullif(coalesce((judge_caps(n.item, case when r.held_nanos > 0 then 0 end, r.created_at, (
      select jsonb_object_agg(c.id, case c.constraint_type when 'cost' then c.cost_nanos else c.responses - 1 end)
      from constraints_at(t.agent_id, null, null, r.created_at) as c))).warnings, '[]')
    || coalesce((select jsonb_agg(budget_warning(b, window_used(b)) order by b.id)
      from budgets_of(t.org_id, t.key_id, t.user_id, t.team_id) as b
      where b.starts_at <= r.created_at and window_used(b) >= b.warns_at_nanos), '[]'), '[]')
  from (select jsonb_populate_record(null::reserve_item, t.reserve) as item) as n
$$;

-- Gives an approved ticket's hold to the call that redeems it; from now on it lives as long as any
-- other hold. While its organization is suspended it stays as it is.
create or replace function claim_approved(t cost_tickets, i redeem_item, a lane_answer)
returns lane_row language plpgsql as $$
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
    a.param := case a.code when 'not_of_organization' then gone_member(t) when 'not_team_member' then 'team_id' end;
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
  v_row.own_keys := r.own_keys;
  v_row.warnings := warnings_of_hold(t, r);
  return v_row;
end $$;

-- Says why a team's admin may not give this approval; null for everybody else. They decide on their
-- team's calls, spend the team's money alone, and raise no budget of the team, of the organization,
-- or of themselves. The organization's wallet may be named if neither the team's nor the asker's
-- covers the call: what it lacks is the team's then.
create or replace function authority_refusal(t cost_tickets, p_verdict jsonb, p_need_nanos numeric)
returns text language plpgsql stable as $$
begin
  if p_verdict ->> 'authority' is distinct from 'team' then
    return null;
  elsif t.team_id is null or not exists (select 1 from team_members m where m.team_id = t.team_id
      and m.user_id = p_verdict ->> 'user_id' and m.role = 'admin') then
    return 'approval_not_allowed';
  elsif p_verdict ->> 'from_wallet_id' is not null and not exists (select 1 from wallets w where w.org_id = t.org_id
      and w.id = p_verdict ->> 'from_wallet_id' and w.owner_team_id = t.team_id) then
    return 'source_not_yours';
  elsif exists (select 1 from wallets w where w.org_id = t.org_id and w.id = p_verdict ->> 'wallet_id' and w.owner_type = 'organization')
      and exists (select 1 from wallets w where w.org_id = t.org_id and w.owner_type <> 'organization'
        and may_pay(w, t.user_id, t.team_id) and free_for_verdict(w, p_verdict) >= p_need_nanos) then
    return 'source_not_yours';
  elsif exists (select 1 from short_budgets(t.org_id, t.key_id, t.user_id, t.team_id, p_need_nanos, clock_timestamp(), '{}') as s
      where s.owner_type in ('team', 'organization') or s.owner_id = p_verdict ->> 'user_id'
        or (s.owner_type = 'key' and t.user_id = p_verdict ->> 'user_id')) then
    return 'budget_not_yours';
  end if;
  return null;
end $$;

-- The wallet that pays for the call, of those that may: the named one, else the fullest. An
-- approval that only raises budgets takes what the call would have taken, and so does each of a
-- team's admin.
create or replace function wallet_to_hold(t cost_tickets, p_verdict jsonb, p_need_nanos numeric,
  p_from_id text)
returns wallets language sql stable as $$
  select q from wallets q
  where q.org_id = t.org_id and q.id = coalesce(p_verdict ->> 'wallet_id', q.id)
    and may_pay(q, t.user_id, t.team_id)
    and (q.owner_type <> 'team' or exists (select 1 from teams o where o.id = q.owner_team_id and o.archived_at is null))
    and (q.owner_type <> 'user' or exists (select 1 from memberships o where o.org_id = q.org_id and o.user_id = q.owner_user_id
      and o.archived_at is null))
    and (p_verdict ->> 'wallet_id' is not null or q.id is distinct from p_from_id
      or free_for_verdict(q, p_verdict) >= p_need_nanos)
  order by case when (t.cause = 'budget' or p_verdict ->> 'authority' = 'team') and free_for_verdict(q, p_verdict) >= p_need_nanos
      then array_position(array['user', 'team', 'organization'], q.owner_type) else 4 end,
    free_for_verdict(q, p_verdict) desc, array_position(array['organization', 'team', 'user'], q.owner_type) limit 1
$$;

-- Changes what people set of a budget. Another window begins with what was held, spent and raised in
-- it so far; the one before is put aside, and goes on counting what becomes of its holds. A life
-- begins with the making of the budget.
create or replace function change_budget(p_id text, p_limit_nanos bigint, p_window text, p_on_exceed text,
  p_thresholds integer[], p_now timestamptz)
returns void language plpgsql as $$
declare
  b budgets;
begin
  select * into b from budgets q where q.id = p_id;
  if b.ends_at <= p_now then
    b := begin_window(b.id, p_now);
  end if;
  if p_window <> b.budget_window then
    insert into budget_windows (budget_id, starts_at, ends_at, limit_nanos, raised_nanos, spent_nanos, held_nanos)
    values (b.id, b.starts_at, p_now, b.limit_nanos, b.raised_nanos, b.spent_nanos, b.held_nanos);
    update budgets q set budget_window = p_window, starts_at = n.starts_at, ends_at = w.ends_at, emitted_pct = 0,
      refusal_told = false, past_until = p_now,
      raised_nanos = (select coalesce(sum(x.amount_nanos), 0) from budget_raises x
        where x.budget_id = b.id and x.created_at >= n.starts_at and x.budget_window = p_window)
    from organizations o cross join lateral reporting_window(p_window, o.time_zone, p_now) as w
    cross join lateral (select case p_window when 'life' then b.created_at else w.starts_at end as starts_at) as n
    where q.id = b.id and o.id = b.org_id;
  end if;
  -- What was emitted of a smaller limit may be emitted again of a larger one.
  update budgets q set limit_nanos = p_limit_nanos, on_exceed = p_on_exceed, thresholds = p_thresholds, updated_at = p_now,
    emitted_pct = case when p_limit_nanos <> b.limit_nanos then 0 else q.emitted_pct end,
    refusal_told = q.refusal_told and p_limit_nanos = b.limit_nanos
  where q.id = b.id;
  if p_window <> b.budget_window then
    perform recount_budget(b.id, p_now);
    return;
  end if;
  select * into b from budgets q where q.id = p_id;
  perform emit_standing(b);
end $$;

-- What was raised in a window whose zone was changed meanwhile, and was lost.
update budgets b set raised_nanos = n.raised
from (select q.id, coalesce(sum(x.amount_nanos), 0) as raised from budgets q
  left join budget_raises x on x.budget_id = q.id and x.created_at >= q.starts_at and x.budget_window = q.budget_window
  where q.archived_at is null group by q.id) as n
where n.id = b.id and b.raised_nanos <> n.raised;

-- The fifth proof: what audit_4() says, and that each budget has counted what was held and spent in
-- its windows, and was raised by what approvals say.
create or replace function audit_5()
returns table(check_name text, wallet_id text, detail text) language sql stable as $$
  select * from audit_4()
  union all
  select 'budget_counts', null, w.budget_id || ' from ' || iso_time(w.starts_at) || ': counted ' || w.held_nanos || ' held, '
    || w.spent_nanos || ' spent; is ' || n.held || ', ' || n.spent
  from (
    select b.id as budget_id, b.org_id, b.owner_id, b.starts_at, null::timestamptz as ends_at, b.held_nanos, b.spent_nanos
    from budgets b where b.archived_at is null
    union all
    select b.id, b.org_id, b.owner_id, p.starts_at, p.ends_at, p.held_nanos, p.spent_nanos
    from budget_windows p join budgets b on b.id = p.budget_id where b.archived_at is null
  ) as w
  cross join lateral (
    select coalesce(sum(r.held_nanos) filter (where r.status = 'open'), 0) as held, add_spent(0, coalesce(sum(r.actual_cost_nanos), 0)) as spent
    from reservations r
    where r.id >= 'res_' || lpad(to_hex(floor(extract(epoch from w.starts_at - interval '1 minute') * 1000)::bigint), 12, '0')
      and (w.ends_at is null
        or r.id < 'res_' || lpad(to_hex(floor(extract(epoch from w.ends_at + interval '1 minute') * 1000)::bigint), 12, '0'))
      and r.org_id = w.org_id and r.created_at >= w.starts_at and coalesce(r.created_at < w.ends_at, true)
      and w.owner_id in (r.org_id, r.key_id, r.user_id, r.team_id)
  ) as n
  where (w.held_nanos, w.spent_nanos) is distinct from (n.held, n.spent)
  union all
  select 'budget_raises', null, b.id || ': raised by ' || b.raised_nanos || ', approvals say ' || n.raised
  from budgets b
  cross join lateral (select coalesce(sum(x.amount_nanos), 0) as raised from budget_raises x
    where x.budget_id = b.id and x.created_at >= b.starts_at and x.budget_window = b.budget_window) as n
  where b.raised_nanos <> n.raised
$$;

-- Emits each threshold up to `p_pct` that a budget has reached and that was not emitted yet, or told
-- of by a call that had no room; `p_caller` names the call that did it. Invariant: emitted_pct is
-- what was really reached.
create or replace function emit_threshold(b budgets, p_pct integer, p_used_nanos numeric, p_caller jsonb)
returns void language plpgsql as $$
declare
  v_emitted_pct integer;
  v_refusal_told boolean;
begin
  select q.emitted_pct, q.refusal_told into v_emitted_pct, v_refusal_told from budgets q where q.id = b.id;
  if p_pct <= v_emitted_pct then
    return;
  end if;
  update budgets q set emitted_pct = p_pct where q.id = b.id;
  perform append_threshold(b, t, p_used_nanos, p_caller)
  from (select distinct x as t from unnest(b.thresholds) as x where x > v_emitted_pct and x <= p_pct
    and not (x = 100 and v_refusal_told) order by x) as n;
end $$;

-- Emits that a budget is full, although no hold fills it to the last nano: once a window, at the
-- first call that has no room. It is not told again when it is really full.
create or replace function emit_refusal(b budgets, p_used_nanos numeric, p_caller jsonb)
returns void language plpgsql as $$
begin
  if 100 = any (b.thresholds) and b.emitted_pct < 100 and not b.refusal_told and window_cap(b) > 0 then
    update budgets q set refusal_told = true where q.id = b.id;
    perform append_threshold(b, 100, p_used_nanos, p_caller);
  end if;
end $$;

comment on column budgets.refusal_told is
  'A call that has no room tells of a full budget, once a window, however little is used. Kept apart from what is really reached.';

-- The request that a hold is for: of what an approval holds, and no call has taken, the one that
-- asked last.
create function asking_request(r reservations) returns text language sql stable as $$
  select coalesce((select t.reserve ->> 'request_id' from cost_tickets t
    where t.id = r.cost_ticket_id and starts_with(r.request_id, 'ticket:' || t.id || ':')), r.request_id)
$$;

-- Emits what moves have reached: each threshold with the call that did it.
create or replace function emit_reached(p_org_id text, p_moves budget_move[])
returns void language plpgsql as $$
declare
  s record;
  r reservations;
begin
  for s in
    select b as budget, window_used(b) as used,
      (select x.reservation_id from (
        select m.reservation_id, m.n, sum(m.held_nanos + m.spent_nanos) over (order by m.n desc) - m.held_nanos - m.spent_nanos as later
        from unnest(p_moves) with ordinality as m (reservation_id, key_id, user_id, team_id, created_at, held_nanos, spent_nanos, n)
        where b.owner_id in (p_org_id, m.key_id, m.user_id, m.team_id)) as x
      where window_used(b) - x.later >= b.emits_at_nanos order by x.n limit 1) as reservation_id
    from budgets b
    where b.id in (select q.id from unnest(p_moves) as m cross join lateral budgets_of(p_org_id, m.key_id, m.user_id, m.team_id) as q)
      and window_used(b) >= b.emits_at_nanos
    order by b.id
  loop
    select * into r from reservations q where q.id = s.reservation_id;
    perform emit_threshold(s.budget, reached_pct(s.budget, s.used, window_cap(s.budget)), s.used,
      jsonb_build_object('request_id', asking_request(r), 'agent_id', r.agent_id) || caller_of_hold(r));
  end loop;
end $$;

-- The call whose entry took a wallet below its threshold, as members of an event; none if a
-- person's did. `p_before_nanos` is balance + reserved ahead of the entries.
create or replace function lowering_call(p_entries ledger_entry[], p_wallet_id text, p_before_nanos bigint,
  p_threshold_nanos bigint)
returns jsonb language sql stable as $$
  select coalesce((
    select jsonb_build_object('reservation_id', r.id, 'request_id', asking_request(r), 'agent_id', r.agent_id) || caller_of_hold(r)
    from (
      select e.reservation_id, e.phase, e.n, sum(e.amount_nanos + e.reserved_nanos) over (order by e.n) as moved_nanos
      from unnest(p_entries) with ordinality as e (wallet_id, type, amount_nanos, reserved_nanos, reservation_id, phase,
        provider, model, actual_cost_nanos, transfer_id, payment_session_id, description, n)
      where e.wallet_id = p_wallet_id
    ) as c
    join reservations r on r.id = c.reservation_id and c.phase in ('close', 'late')
    where p_before_nanos + c.moved_nanos < p_threshold_nanos
    order by c.n limit 1
  ), '{}')
$$;

-- Expires every overdue hold of an organization, each once: a settlement of +held with cost 0, its
-- budgets' room back, and an event that says whether a call had the hold and its end was never
-- told; what an approval held for a call that never came is not that.
create or replace function expire_holds(p_org_id text) returns integer language plpgsql as $$
declare
  v_now timestamptz;
  v_expired reservations[];
begin
  perform lock_organization(p_org_id);
  v_now := clock_timestamp();
  with expired as (
    update reservations r set status = 'expired', closed_at = v_now, actual_cost_nanos = 0
    where r.org_id = p_org_id and r.status = 'open' and r.expires_at <= v_now
    returning r.*
  )
  select array_agg(e::reservations order by e.expires_at, e.id) into v_expired from expired e;
  if v_expired is null then
    return 0;
  end if;
  perform from post_entries(p_org_id, (
    select array_agg((e.wallet_id, 'settlement', e.held_nanos, -e.held_nanos, e.id, 'close', e.provider, e.model, 0,
      null, null, 'hold expired')::ledger_entry order by e.expires_at, e.id)
    from unnest(v_expired) as e));
  update tokens t set held_nanos = t.held_nanos - d.held_nanos
  from (select e.key_id, sum(e.held_nanos) as held_nanos from unnest(v_expired) as e group by e.key_id) as d
  where t.id = d.key_id;
  if exists (select 1 from unnest(v_expired) as e where e.is_budgeted) then
    perform count_moves(p_org_id, (select array_agg((e.id, e.key_id, e.user_id, e.team_id, e.created_at, -e.held_nanos, 0)::budget_move)
      from unnest(v_expired) as e where e.is_budgeted));
  end if;
  perform append_event(p_org_id, 'reservation.expired', jsonb_build_object('reservation_id', e.id,
      'request_id', asking_request(e), 'agent_id', e.agent_id, 'wallet_id', e.wallet_id, 'held_nanos', e.held_nanos::text,
      'currency', e.currency, 'unsettled', not exists (select 1 from cost_tickets t where t.id = e.cost_ticket_id
        and t.request_id is distinct from e.request_id))
    || caller_of_hold(e))
  from unnest(v_expired) as e;
  return cardinality(v_expired);
end $$;
