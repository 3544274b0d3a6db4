-- Approvals that raise budgets, that move money from a chosen wallet, and that an organization's
-- rules give by themselves.

-- The ledger's entries of approvals: what tells them from a gift.
create table approval_entries (
  transaction_id text primary key,
  org_id text not null references organizations,
  cost_ticket_id text not null,
  -- Id of the person or key, or `rule`.
  decided_by text not null,
  approval_rule_id text,
  created_at timestamptz not null default clock_timestamp()
);

-- What an organization approves without a person: calls that cost no more than this, and no more
-- than that a day of its calendar.
create table approval_rules (
  id text primary key default new_id('rule'),
  org_id text not null references organizations,
  name text not null,
  -- Null: of any team, and of none.
  team_id text references teams,
  max_per_call_nanos bigint not null check (max_per_call_nanos > 0),
  max_per_day_nanos bigint not null check (max_per_day_nanos > 0),
  -- The wallet that pays what is missing.
  source text not null check (source in ('team', 'organization')),
  -- The day that is counted, and what the calls approved in it were to cost at most.
  day_ends_at timestamptz not null default '-infinity',
  approved_nanos bigint not null default 0,
  approvals integer not null default 0,
  created_by text,
  created_at timestamptz not null default clock_timestamp(),
  updated_at timestamptz not null default clock_timestamp(),
  archived_at timestamptz,
  constraint approval_rules_team check (source <> 'team' or team_id is not null)
) with (fillfactor = 50);
create index approval_rules_org on approval_rules (org_id) where archived_at is null;
create trigger approval_rules_record
after insert or update of name, team_id, max_per_call_nanos, max_per_day_nanos, source, archived_at on approval_rules
for each row execute function record_change('approval_rule', 'id');

-- The wallet that an approval moves money from; none if it credits. A team admin's is the team's,
-- whatever they name.
create function approval_source(t cost_tickets, p_verdict jsonb, p_is_transfer boolean) returns wallets language sql stable as $$
  select q from wallets q
  where q.org_id = t.org_id and case
    when p_verdict ->> 'authority' = 'team' then q.owner_team_id = t.team_id
    when p_verdict ->> 'from_wallet_id' is not null then q.id = p_verdict ->> 'from_wallet_id'
      and (q.owner_type = 'organization' or q.owner_team_id = t.team_id)
    when p_verdict ->> 'source' = 'team' then q.owner_team_id = t.team_id
    else p_is_transfer and q.owner_type = 'organization' end
  limit 1
$$;

-- The wallet that pays for the call, of those that may: the named one, else the fullest. An approval
-- that only raises budgets takes what the call would have taken.
create function wallet_to_hold(t cost_tickets, p_verdict jsonb, p_need_nanos numeric, p_from_id text)
returns wallets language sql stable as $$
  select q from wallets q
  where q.org_id = t.org_id and q.id = coalesce(p_verdict ->> 'wallet_id', q.id)
    and (q.owner_type = 'organization' or q.owner_team_id = t.team_id or q.owner_user_id = t.user_id)
    and (q.owner_type <> 'team' or exists (select 1 from teams o where o.id = q.owner_team_id and o.archived_at is null))
    and (q.owner_type <> 'user' or exists (select 1 from memberships o where o.org_id = q.org_id and o.user_id = q.owner_user_id
      and o.archived_at is null))
    and (p_verdict ->> 'wallet_id' is not null or q.id is distinct from p_from_id or q.balance_nanos >= p_need_nanos)
  order by case when t.cause = 'budget' and q.balance_nanos >= p_need_nanos
      then array_position(array['user', 'team', 'organization'], q.owner_type) else 4 end,
    q.balance_nanos desc, array_position(array['organization', 'team', 'user'], q.owner_type) limit 1
$$;

-- Says why an approval may not fill a wallet with an amount, from another one if that is named; null
-- if it may.
create function filling_refusal(w wallets, p_from wallets, p_verdict jsonb, p_amount_nanos numeric, p_short_nanos numeric)
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
    when p_amount_nanos > 0 and (p_from.id = w.id or p_amount_nanos > p_from.balance_nanos) then 'insufficient_balance' end
$$;

-- Says why a team's admin may not give this approval; null for everybody else. They decide on their
-- team's calls, spend the team's money alone, and raise no budget of the team, of the organization, or
-- of themselves.
create function authority_refusal(t cost_tickets, p_verdict jsonb, p_need_nanos numeric) returns text language plpgsql stable as $$
begin
  if p_verdict ->> 'authority' is distinct from 'team' then
    return null;
  elsif t.team_id is null or not exists (select 1 from team_members m where m.team_id = t.team_id
      and m.user_id = p_verdict ->> 'user_id' and m.role = 'admin') then
    return 'approval_not_allowed';
  elsif p_verdict ->> 'from_wallet_id' is not null and not exists (select 1 from wallets w where w.org_id = t.org_id
      and w.id = p_verdict ->> 'from_wallet_id' and w.owner_team_id = t.team_id) then
    return 'source_not_yours';
  elsif exists (select 1 from short_budgets(t.org_id, t.key_id, t.user_id, t.team_id, p_need_nanos, clock_timestamp(), '{}') as s
      where s.owner_type in ('team', 'organization') or s.owner_id = p_verdict ->> 'user_id'
        or (s.owner_type = 'key' and t.user_id = p_verdict ->> 'user_id')) then
    return 'budget_not_yours';
  end if;
  return null;
end $$;

-- Raises each budget that has no room for a ticket's call by what is missing, once.
create function raise_budgets(t cost_tickets, p_need_nanos numeric, p_verdict jsonb) returns void language plpgsql as $$
declare
  s record;
  b budgets;
begin
  for s in
    select * from short_budgets(t.org_id, t.key_id, t.user_id, t.team_id, p_need_nanos, clock_timestamp(), '{}') q
    where q.on_exceed = 'ticket' order by q.id
  loop
    select * into b from budgets q where q.id = s.id;
    if b.ends_at <= clock_timestamp() then
      b := begin_window(b.id, clock_timestamp());
    end if;
    if b.raised_nanos + s.missing_nanos > 9000000000000000000 then
      raise exception using errcode = 'SV001', message = 'amount_too_large';
    end if;
    update budgets q set raised_nanos = q.raised_nanos + s.missing_nanos where q.id = b.id;
    insert into budget_raises (org_id, budget_id, window_starts_at, budget_window, amount_nanos, cost_ticket_id, decided_by)
    values (t.org_id, b.id, b.starts_at, b.budget_window, s.missing_nanos, t.id, p_verdict ->> 'by');
  end loop;
end $$;

-- Raises budgets, fills a wallet and holds a ticket's cost in it. Invariant: all of it happens, or
-- nothing; if a key, budget or cap refuses the hold, the money and the room have never been.
create function fund_raise_and_hold(t cost_tickets, w wallets, p_from wallets, p_amount_nanos bigint, p_need_nanos numeric,
  p_verdict jsonb) returns funded_hold language plpgsql as $$
declare
  v_ids text[] := '{}';
  v_entry_id text;
  v_answer lane_answer;
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
  select (r.answer).* into v_answer from reserve_2(t.org_id, jsonb_build_array(t.reserve - 'secret_id'
    || jsonb_strip_nulls(jsonb_build_object('request_id', 'ticket:' || t.id || ':' || new_id('hold'),
      'cost_ticket_id', t.id, 'wallet_id', w.id)))) r;
  if v_answer.code is not null then
    raise exception using errcode = 'SV001', message = v_answer.code;
  end if;
  return (null, v_entry_id, v_answer)::funded_hold;
exception when sqlstate 'SV001' then
  return (sqlerrm, null, null)::funded_hold;
end $$;

-- Approves an open ticket, whoever does; says why not.
create function approve_open(v_org organizations, t cost_tickets, p_verdict jsonb) returns text language plpgsql as $$
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
  v_short := greatest(coalesce(v_need, 0) - w.balance_nanos, 0);
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
  return null;
end $$;

-- Records a person's yes: raises budgets, credits or moves what is missing, and holds it, in one
-- step. The row that it answers has a `code` if it is refused. `valid_until` keeps a verdict that
-- arrives late, after its sender was told to look again, from changing anything.
create or replace function approve_ticket(p_org_id text, p_ticket_id text, p_verdict jsonb)
returns table(code text, message text, ticket_id text) language plpgsql
set enable_seqscan = off set enable_material = off set plan_cache_mode = force_generic_plan as $$
declare
  v_org organizations;
  t cost_tickets;
begin
  v_org := lock_organization(p_org_id);
  ticket_id := p_ticket_id;
  select * into t from cost_tickets q where q.id = p_ticket_id and q.org_id = p_org_id;
  code := coalesce(verdict_refusal(t, p_verdict, 'approved'), approve_open(v_org, t, p_verdict));
  if code is not null then
    perform note_refused_verdict(t.id, p_verdict, code);
  end if;
  return next;
end $$;

-- Approves a ticket by the first rule of its organization that allows it, and says whether one did.
-- The rule that names the ticket's team goes first.
create function approve_by_rule(v_org organizations, t cost_tickets) returns boolean language plpgsql as $$
declare
  x approval_rules;
  v_actor text := acting();
  v_code text;
  v_now timestamptz := clock_timestamp();
begin
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

-- Answers a reserve that has a ticket: with its hold, if a rule approves it, else as it is. Of several
-- with one body the ticket is of the last; a ticket that is not this request's own any more is not
-- approved for it, and the request is judged again.
create function ruled_reserve(v_org organizations, p_row lane_row, i reserve_item) returns lane_row language plpgsql as $$
declare
  t cost_tickets;
  v_row lane_row;
begin
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

drop function fund_and_hold(cost_tickets, wallets, bigint, boolean, text);
drop function wallet_to_fund(cost_tickets, jsonb, numeric, boolean);
drop function funding_refusal(wallets, text, jsonb, numeric, numeric, boolean);
