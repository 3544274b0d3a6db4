-- Verdicts on tickets, their deadline, and the proof that includes them.

-- Records a person's yes: credits what is missing and holds it, in one step. Answers a row: `code` where it is refused.
-- `valid_until` keeps a verdict that arrives late, after its sender was told to look again, from changing anything.
create function approve_ticket(p_org_id text, p_ticket_id text, p_verdict jsonb)
returns table (code text, message text, ticket_id text) language plpgsql
set enable_seqscan = off set enable_material = off set plan_cache_mode = force_generic_plan as $$
declare
  v_org organizations;
  t cost_tickets;
  i reserve_item;
  w wallets;
  v_row lane_row;
  v_need numeric;
  v_short numeric;
  v_amount numeric := (p_verdict ->> 'amount_nanos')::numeric;
  v_is_transfer boolean;
  v_entry wallet_transactions;
begin
  v_org := lock_organization(p_org_id);
  ticket_id := p_ticket_id;
  select * into t from cost_tickets q where q.id = p_ticket_id and q.org_id = p_org_id;
  code := verdict_refusal(t, p_verdict, 'approved');
  if code is not null then
    return next;
    return;
  end if;

  i := jsonb_populate_record(null::reserve_item, t.reserve - 'secret_id');
  v_need := need_today(v_org, i);
  v_is_transfer := v_org.manual_credit = 'platform_only' and not (p_verdict ->> 'is_platform')::boolean;
  select q.* into w from wallets q
  where q.org_id = p_org_id and q.id = coalesce(p_verdict ->> 'wallet_id', q.id)
    and (q.owner_type = 'organization' or q.owner_team_id = t.team_id or q.owner_user_id = t.user_id)
    and (p_verdict ->> 'wallet_id' is not null or not v_is_transfer or q.owner_type <> 'organization'
      or q.balance_nanos >= v_need)
  order by q.balance_nanos desc, array_position(array['organization', 'team', 'user'], q.owner_type) limit 1;
  v_short := greatest(coalesce(v_need, 0) - w.balance_nanos, 0);
  v_amount := coalesce(v_amount, v_short);
  code := case
    when w.id is null and p_verdict ->> 'wallet_id' is not null then 'wallet_not_of_ticket'
    when w.id is null then 'manual_credit_not_allowed'
    when v_amount < v_short then 'amount_below_shortfall'
    when v_amount > 9000000000000000000 or w.balance_nanos + w.reserved_nanos + v_amount > 9000000000000000000 then 'amount_too_large'
    when v_amount > 0 and v_is_transfer and w.owner_type = 'organization' then 'manual_credit_not_allowed'
    when v_amount > 0 and v_is_transfer and v_amount > (select q.balance_nanos from wallets q where q.org_id = p_org_id
      and q.owner_type = 'organization') then 'insufficient_balance' end;
  if code is not null then
    return next;
    return;
  end if;

  -- The credit and the hold are one: where the hold is refused, for a key, budget or cap, the credit has never been.
  begin
    if v_amount > 0 and v_is_transfer then
      select q.* into v_entry from transfer(p_org_id, (select o.id from wallets o where o.org_id = p_org_id
        and o.owner_type = 'organization'), w.id, v_amount::bigint, p_verdict ->> 'note') q where q.wallet_id = w.id;
    elsif v_amount > 0 then
      v_entry := credit(p_org_id, w.id, v_amount::bigint, coalesce(p_verdict ->> 'note', 'approved cost ticket'));
    end if;
    select * into v_row from reserve_2(p_org_id, jsonb_build_array(t.reserve - 'secret_id' || jsonb_strip_nulls(jsonb_build_object(
      'request_id', 'ticket:' || t.id || ':' || new_id('hold'), 'cost_ticket_id', t.id,
      'wallet_id', w.id))));
    if (v_row.answer).code is not null then
      raise exception using errcode = 'SV001', message = (v_row.answer).code;
    end if;
  exception when sqlstate 'SV001' then
    code := sqlerrm;
    return next;
    return;
  end;
  -- Kept for whoever called until the ticket's own deadline, a day at most.
  update reservations r set expires_at = greatest(r.expires_at, least(t.expires_at, clock_timestamp() + interval '24 hours'))
  where r.id = (v_row.answer).reservation_id
  returning r.expires_at into t.expires_at;
  update cost_tickets q set decided_by = p_verdict ->> 'by', decided_at = clock_timestamp(), note = p_verdict ->> 'note',
    credited_nanos = v_amount, transaction_id = v_entry.id, reservation_id = (v_row.answer).reservation_id,
    estimated_cost_nanos = (v_row.answer).reserved_amount_nanos, expires_at = t.expires_at,
    verdict_ids = array_append(q.verdict_ids, p_verdict ->> 'id')
  where q.id = t.id;
  perform resolve_ticket(t.id, 'approved', p_verdict ->> 'by_terminal' is null);
  return next;
end $$;

-- Records a person's no.
create function deny_ticket(p_org_id text, p_ticket_id text, p_verdict jsonb)
returns table (code text, message text, ticket_id text) language plpgsql as $$
declare
  t cost_tickets;
begin
  perform lock_organization(p_org_id);
  ticket_id := p_ticket_id;
  select * into t from cost_tickets q where q.id = p_ticket_id and q.org_id = p_org_id;
  code := verdict_refusal(t, p_verdict, 'denied');
  if code is null then
    update cost_tickets q set decided_by = p_verdict ->> 'by', decided_at = clock_timestamp(), note = p_verdict ->> 'note'
    where q.id = t.id;
    perform resolve_ticket(t.id, 'denied', p_verdict ->> 'by_terminal' is null);
  end if;
  return next;
end $$;

-- Why a verdict cannot be recorded; 'repeated' where it is the one already recorded.
create function verdict_refusal(t cost_tickets, p_verdict jsonb, p_status text) returns text language sql stable as $$
  select case
    when t.id is null then 'ticket_not_found'
    when p_verdict ->> 'id' = any (t.verdict_ids) then 'repeated'
    when t.status = p_status and (p_status = 'denied' or t.expires_at > clock_timestamp()) then 'repeated'
    when t.status in ('open', 'approved') and t.expires_at <= clock_timestamp() then 'ticket_expired'
    when t.status <> 'open' then 'ticket_' || t.status
    when clock_timestamp() > (p_verdict ->> 'valid_until')::timestamptz then 'verdict_too_late' end
$$;

-- What costTicket does at the deadline: expires the ticket where it is still open. Returns the milliseconds that are left
-- while it has some, 0 once it is closed.
create function expire_ticket(p_ticket_id text) returns double precision language plpgsql as $$
declare
  t cost_tickets;
begin
  select * into t from cost_tickets q where q.id = p_ticket_id;
  if t.id is null or t.status <> 'open' then
    return 0;
  end if;
  perform lock_organization(t.org_id);
  select * into t from cost_tickets q where q.id = p_ticket_id;
  if t.status = 'open' and t.expires_at <= clock_timestamp() then
    perform resolve_ticket(t.id, 'expired', true);
    return 0;
  end if;
  return case t.status when 'open' then greatest(ceil(extract(epoch from t.expires_at - clock_timestamp()) * 1000), 1) else 0 end;
end $$;

-- The second proof: what audit() says, and that tickets, their holds and the caps on agents tell one story.
create function audit_2() returns table (check_name text, wallet_id text, detail text) language sql stable as $$
  select * from audit()
  union all
  select 'ticket_pays_for_one_call', null, r.cost_ticket_id || ' has ' || count(*) || ' holds that were charged or are open'
  from reservations r where r.cost_ticket_id is not null and r.status in ('open', 'settled', 'late')
  group by r.cost_ticket_id having count(*) > 1
  union all
  select 'ticket_has_its_hold', null, t.id || ' is ' || t.status || ' without a hold of its own'
  from cost_tickets t left join reservations r on r.id = t.reservation_id and r.cost_ticket_id = t.id
  where t.status in ('approved', 'redeemed') and r.id is null
  union all
  select 'constraint_counts_its_use', null, c.id || ': counted ' || coalesce(u.cost_nanos, 0) || ' and '
    || coalesce(u.responses, 0) || '; what happened is ' || n.cost_nanos || ' and ' || n.responses
  from usage_constraints c
  left join constraint_usage u on u.constraint_id = c.id and u.window_start = c.counted_from
  cross join lateral (
    select coalesce(sum(q.cost_nanos), 0) as cost_nanos, coalesce(sum(q.responses), 0) as responses from (
      select x.cost_nanos, x.responses from reservations r cross join lateral counted_use(c, r) as x
      where r.agent_id = c.agent_id and r.created_at >= c.counted_from and r.created_at < window_end(c.interval, c.counted_from)
      union all
      select i.cost_nanos, i.responses from usage_increments i
      where i.agent_id = c.agent_id and i.created_at >= c.counted_from and i.created_at < window_end(c.interval, c.counted_from)
        and constraint_covers(c, i.provider, i.model)
    ) as q) as n
  where c.archived_at is null and (coalesce(u.cost_nanos, 0) <> n.cost_nanos or coalesce(u.responses, 0) <> n.responses)
$$;
