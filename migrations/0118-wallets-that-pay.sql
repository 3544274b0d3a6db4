-- The wallets that may pay for a call are read by the indexes of their owners. By the conditions before, each refused call, each
-- ticket that was shown and each approval looked at every wallet of its organization.

-- True for the wallets of a call's cascade: its user's, its team's and the organization's. It is read as the condition it stands for.
create function may_pay(w wallets, p_user_id text, p_team_id text) returns boolean language sql immutable as $$
  select w.owner_type = 'organization' or (w.owner_type = 'team' and w.owner_team_id = p_team_id)
    or (w.owner_type = 'user' and w.owner_user_id = p_user_id)
$$;

-- A ticket as people and gateways see it: what is missing in each wallet that may pay. `p_left`
-- holds balances that a batch has changed but not yet written. The fullest wallet gives the ticket
-- its balance; ties go to the organization.
create or replace function ticket_answer(t cost_tickets, p_left jsonb)
returns jsonb language sql stable as $$
  with cascade as (
    select w.id, w.owner_type, coalesce((p_left ->> w.id)::bigint, w.balance_nanos) as balance_nanos,
      array_position(array['user', 'team', 'organization'], w.owner_type) as place
    from wallets w
    where w.org_id = t.org_id and may_pay(w, t.user_id, t.team_id)
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

-- The wallet that an approval moves money from; none if it credits. A team admin's is the team's,
-- whatever they name.
create or replace function approval_source(t cost_tickets, p_verdict jsonb, p_is_transfer boolean)
returns wallets language sql stable as $$
  select q from wallets q
  where q.org_id = t.org_id and may_pay(q, null, t.team_id) and case
    when p_verdict ->> 'authority' = 'team' then q.owner_team_id = t.team_id
    when p_verdict ->> 'from_wallet_id' is not null then q.id = p_verdict ->> 'from_wallet_id'
    when p_verdict ->> 'source' = 'team' then q.owner_team_id = t.team_id
    else p_is_transfer and q.owner_type = 'organization' end
  limit 1
$$;

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
      and may_pay(q, t.user_id, t.team_id)) then
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

-- True where a waiting call may have something to hear: its ticket was decided, it can no longer be
-- served, money is there, or it costs nothing by now.
create or replace function waiters_may_go(p_org_id text) returns boolean language sql stable as $$
  select exists (
    select 1 from ticket_waiters w join cost_tickets t on t.id = w.ticket_id
    where w.org_id = p_org_id and w.answer is null and w.until > clock_timestamp()
      and (t.status <> 'open' or t.expires_at <= clock_timestamp() or waiter_has_ended(t, w.need_nanos)
        or ((select exists (select 1 from budgets b where b.org_id = p_org_id and b.archived_at is null))
          and waiter_is_barred(t, w.need_nanos, 'refuse')))
  ) or exists (
    select 1 from (
      select w.user_id, w.team_id, min(w.need_nanos) as need_nanos, bool_or(w.need_nanos is null) as is_free from ticket_waiters w
      join cost_tickets t on t.id = w.ticket_id
      where w.org_id = p_org_id and w.answer is null and w.until > clock_timestamp()
        and not ((select exists (select 1 from budgets b where b.org_id = p_org_id and b.archived_at is null))
          and waiter_is_barred(t, w.need_nanos, 'ticket'))
      group by 1, 2) as g
    where g.is_free or exists (select 1 from wallets q where q.org_id = p_org_id and q.balance_nanos >= g.need_nanos
      and may_pay(q, g.user_id, g.team_id))
  )
$$;

-- Puts a call into the queue of its open ticket, and holds for it if it is its turn. Invariant: the
-- call leaves the queue with every answer but 402, and with a 402 too if it asked for no wait and
-- had no place.
create or replace function redeem_in_turn(p_org organizations, t cost_tickets, i redeem_item)
returns lane_row language plpgsql as $$
declare
  v_item reserve_item := jsonb_populate_record(null::reserve_item, t.reserve);
  v_need numeric := need_today(p_org, v_item);
  v_is_free boolean := coalesce(v_need = 0, false) and costs_nothing(p_org, v_item);
  v_has_place boolean := coalesce(i.wait_ms, 0) > 0 or exists (select 1 from ticket_waiters q
    where q.org_id = p_org.id and q.request_id = i.request_id and q.until > clock_timestamp() - waiter_grace());
  v_wallet_id text;
  v_row lane_row;
begin
  insert into ticket_waiters (org_id, request_id, ticket_id, redeem, user_id, team_id, need_nanos, since, until)
  values (p_org.id, i.request_id, t.id, to_jsonb(i) || jsonb_build_object('ticket_id', t.id), t.user_id, t.team_id,
    case when not v_is_free then least(coalesce(v_need, 0), 9000000000000000000) end, clock_timestamp(),
    clock_timestamp() + coalesce(i.wait_ms, 0) * interval '1 millisecond')
  on conflict (org_id, request_id) do update set ticket_id = excluded.ticket_id, redeem = excluded.redeem,
    need_nanos = excluded.need_nanos, priced_at = now(), until = excluded.until, answer = null;
  -- Only a call that money is there for needs to know whose turn it is.
  if v_need is null or v_is_free or exists (select 1 from wallets w where w.org_id = p_org.id and w.balance_nanos >= v_need
      and may_pay(w, t.user_id, t.team_id)) then
    select q.wallet_id into v_wallet_id from waiter_turns(p_org.id, null) q where q.request_id = i.request_id;
  end if;
  v_row := redeem_open(p_org.id, t, i, coalesce(v_wallet_id, ''));
  if (v_row.answer).code is distinct from 'insufficient_balance' or not v_has_place then
    delete from ticket_waiters q where q.org_id = p_org.id and q.request_id = i.request_id;
  end if;
  return v_row;
end $$;
