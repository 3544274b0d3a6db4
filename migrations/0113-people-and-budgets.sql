-- What a reading of people and budgets found.

-- A call that has no room tells of a full budget, once a window, however little is used. Kept apart from what is really
-- reached, which is told all the same.
alter table budgets add column refusal_told boolean not null default false;

-- What tells of one threshold of a budget; `p_caller` names the call that did it.
create function append_threshold(b budgets, p_pct integer, p_used_nanos numeric, p_caller jsonb)
returns void language plpgsql as $$
begin
  perform append_event(b.org_id, 'budget.threshold', jsonb_build_object('budget_id', b.id, 'owner_type', b.owner_type,
    'owner_id', b.owner_id, 'window', b.budget_window, 'threshold_pct', p_pct,
    'limit_nanos', window_cap(b)::text, 'used_nanos', p_used_nanos::text,
    'currency', (select o.currency from organizations o where o.id = b.org_id), 'resets_at', iso_time(b.ends_at)) || p_caller);
end $$;

-- Emits each threshold up to `p_pct` that a budget has reached and that was not emitted yet; `p_caller` names the call that
-- did it. Invariant: emitted_pct is what was really reached.
create or replace function emit_threshold(b budgets, p_pct integer, p_used_nanos numeric, p_caller jsonb)
returns void language plpgsql as $$
declare
  v_emitted_pct integer := (select q.emitted_pct from budgets q where q.id = b.id);
begin
  if p_pct <= v_emitted_pct then
    return;
  end if;
  update budgets q set emitted_pct = p_pct where q.id = b.id;
  perform append_threshold(b, t, p_used_nanos, p_caller)
  from (select distinct x as t from unnest(b.thresholds) as x where x > v_emitted_pct and x <= p_pct order by x) as n;
end $$;

-- Emits that a budget is full, although no hold fills it to the last nano: once a window, at the first call that has no room.
create function emit_refusal(b budgets, p_used_nanos numeric, p_caller jsonb)
returns void language plpgsql as $$
begin
  if 100 = any (b.thresholds) and b.emitted_pct < 100 and not b.refusal_told and window_cap(b) > 0 then
    update budgets q set refusal_told = true where q.id = b.id;
    perform append_threshold(b, 100, p_used_nanos, p_caller);
  end if;
end $$;

comment on function emit_standing(budgets) is 'Emits the thresholds that a budget has reached by itself, if they were not emitted yet.';

-- Begins the window that holds this moment, and puts the one before aside. It begins where that one
-- ended if the zone was changed meanwhile: no moment is in two windows, or in none.
create or replace function begin_window(p_budget_id text, p_now timestamptz)
returns budgets language plpgsql as $$
declare
  b budgets;
  v_starts_at timestamptz;
  v_ends_at timestamptz;
begin
  select * into b from budgets q where q.id = p_budget_id;
  select w.starts_at, w.ends_at into v_starts_at, v_ends_at
  from organizations o cross join lateral reporting_window(b.budget_window, o.time_zone, p_now) as w where o.id = b.org_id;
  insert into budget_windows (budget_id, starts_at, ends_at, limit_nanos, raised_nanos, spent_nanos, held_nanos)
  values (b.id, b.starts_at, b.ends_at, b.limit_nanos, b.raised_nanos, b.spent_nanos, b.held_nanos);
  update budgets q set starts_at = greatest(v_starts_at, b.ends_at), ends_at = v_ends_at, raised_nanos = 0, spent_nanos = 0,
    held_nanos = 0, emitted_pct = 0, refusal_told = false, past_until = greatest(q.past_until, b.ends_at)
  where q.id = b.id returning * into b;
  return b;
end $$;

-- Changes what people set of a budget. Another window begins with what was held and spent in it so
-- far; the one before is put aside, and goes on counting what becomes of its holds.
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
    update budgets q set budget_window = p_window, starts_at = w.starts_at, ends_at = w.ends_at, emitted_pct = 0,
      refusal_told = false, past_until = p_now,
      raised_nanos = (select coalesce(sum(x.amount_nanos), 0) from budget_raises x
        where x.budget_id = b.id and x.window_starts_at = w.starts_at and x.budget_window = p_window)
    from organizations o cross join lateral reporting_window(p_window, o.time_zone, p_now) as w
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

-- Judges one hold by the budgets that count it, and begins their windows. One that refuses stands
-- before those that ask.
create or replace function judge_budgets(p_org_id text, i reserve_item, p_held_nanos numeric,
  p_now timestamptz, p_made reservations[])
returns budget_verdict language plpgsql as $$
declare
  v budget_verdict;
  b budgets;
  v_used numeric;
  v_cap numeric;
begin
  v.used := '{}';
  for b in select * from budgets_of(p_org_id, i.key_id, i.user_id, i.team_id) q order by q.id loop
    if b.ends_at <= p_now then
      b := begin_window(b.id, p_now);
    end if;
    v_used := window_used(b) + (select coalesce(sum(m.held_nanos), 0) from unnest(p_made) as m
      where b.owner_id in (m.org_id, m.key_id, m.user_id, m.team_id));
    v_cap := window_cap(b);
    v.used := v.used || jsonb_build_object(b.id, v_used::text);
    if v_used + p_held_nanos > v_cap then
      perform emit_refusal(b, v_used, jsonb_build_object('request_id', i.request_id, 'agent_id', i.agent_id)
        || caller(trace_of(i.request_id), i.user_id, i.key_id, i.team_id));
      if b.on_exceed = 'ticket' then
        v.is_short := true;
      elsif v.refused is null or coalesce(b.ends_at, 'infinity') > coalesce((v.refused ->> 'resets_at')::timestamptz, 'infinity') then
        v.code := 'key_budget_exceeded';
        v.refused := shown_budget(b.id, b.owner_type, b.owner_id, b.budget_window, v_cap, v_used, v_used + p_held_nanos - v_cap,
          b.ends_at);
      end if;
    elsif reached_pct(b, v_used + p_held_nanos, v_cap) > 0 then
      v.warnings := coalesce(v.warnings, '[]') || budget_warning(b, v_used + p_held_nanos);
    end if;
  end loop;
  return v;
end $$;

-- A row as an audit event shows it: money is decimal text, as in events; what changes by itself and
-- what is secret are left out.
create or replace function shown_row(p_row jsonb) returns jsonb language sql immutable as $$
  select jsonb_object_agg(m.key, case
    when m.key not like '%\_nanos' or m.value = 'null' then m.value
    when jsonb_typeof(m.value) = 'array' then (select coalesce(jsonb_agg(a #>> '{}'), '[]') from jsonb_array_elements(m.value) as a)
    else to_jsonb(m.value #>> '{}') end)
  from jsonb_each(p_row - '{updated_at,last_used_at,spent_nanos,held_nanos,balance_nanos,reserved_nanos,seq,lifetimes_next_at,
    counted_from,config,changes,credentials,webhook_secret,previous_webhook_secret,hash,url,warns_at_nanos,emits_at_nanos,emitted_pct,
    refusal_told,past_until,approved_nanos,approvals,day_ends_at}'::text[]) as m
$$;

-- Subjects that once stood for somebody and were unbound: they come back by an invitation alone, and never as a new person.
create table unbound_subjects (
  issuer_id text not null references identity_issuers,
  subject text not null,
  unbound_at timestamptz not null default clock_timestamp(),
  constraint unbound_subjects_pkey primary key (issuer_id, subject)
);

create function note_unbound() returns trigger language plpgsql as $$
begin
  insert into unbound_subjects (issuer_id, subject) values (old.issuer_id, old.subject) on conflict do nothing;
  return null;
end $$;

create trigger identities_unbound after delete on identities for each row execute function note_unbound();

-- Those of before are in the audit log.
insert into unbound_subjects (issuer_id, subject, unbound_at)
select i.id, a.before ->> 'subject', min(a.created_at)
from audit_events a
join identity_issuers i on i.id = a.before ->> 'issuer_id'
where a.action = 'identity.ended' and a.before ->> 'subject' is not null
group by 1, 2;

-- Places in teams that people took away: no group gives one back, until people give it, or the person is taken in anew.
create table team_removals (
  team_id text not null references teams,
  user_id text not null references users,
  removed_at timestamptz not null default clock_timestamp(),
  constraint team_removals_pkey primary key (team_id, user_id)
);

-- Why whoever gives a verdict may give none by now: their key or session has ended or lost org:billing, or they have left, or
-- have no role with it; of a team's admin, that they lead the team no longer. Null: they may. A terminal may always.
create function decider_refusal(t cost_tickets, p_verdict jsonb) returns text language sql stable as $$
  select 'approval_not_allowed' where p_verdict ->> 'by_terminal' is null and (
    (p_verdict ->> 'key_id' is not null and not exists (
      select 1 from tokens k where k.id = p_verdict ->> 'key_id' and k.revoked_at is null
        and coalesce(k.expires_at > clock_timestamp(), true) and session_lives(k)
        and (p_verdict ->> 'authority' = 'team' or k.scopes && case when (p_verdict ->> 'is_platform')::boolean
          then '{platform:admin}'::text[] else '{org:billing}' end)))
    or (p_verdict ->> 'authority' = 'team' and not exists (
      select 1 from team_members l
      join teams x on x.id = l.team_id and x.org_id = t.org_id and x.archived_at is null
      join memberships m on m.org_id = t.org_id and m.user_id = l.user_id and m.archived_at is null
      where l.team_id = t.team_id and l.user_id = p_verdict ->> 'user_id' and l.role = 'admin'))
    or (p_verdict ->> 'authority' is null and not coalesce((p_verdict ->> 'is_platform')::boolean, false)
      and exists (select 1 from users u where u.id = p_verdict ->> 'by')
      and not exists (select 1 from memberships m where m.org_id = t.org_id and m.user_id = p_verdict ->> 'by'
        and m.archived_at is null and m.role in ('owner', 'billing_admin'))))
$$;

-- Records a person's no.
create or replace function deny_ticket(p_org_id text, p_ticket_id text, p_verdict jsonb)
returns table(code text, message text, ticket_id text) language plpgsql as $$
declare
  t cost_tickets;
begin
  perform lock_organization(p_org_id);
  ticket_id := p_ticket_id;
  select * into t from cost_tickets q where q.id = p_ticket_id and q.org_id = p_org_id;
  code := coalesce(verdict_refusal(t, p_verdict, 'denied'), decider_refusal(t, p_verdict));
  if code is null then
    update cost_tickets q set decided_by = p_verdict ->> 'by', decided_at = clock_timestamp(), note = p_verdict ->> 'note'
    where q.id = t.id;
    perform resolve_ticket(t.id, 'denied', p_verdict ->> 'by_terminal' is null);
  else
    perform note_refused_verdict(t.id, p_verdict, code);
  end if;
  return next;
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
  code := coalesce(verdict_refusal(t, p_verdict, 'approved'), decider_refusal(t, p_verdict), approve_open(v_org, t, p_verdict));
  if code is not null then
    perform note_refused_verdict(t.id, p_verdict, code);
  end if;
  return next;
end $$;

-- The window of the limit that an organization sets for its members' keys.
alter table member_key_settings
  -- The window that max_budget is for; null: the life of the key.
  add column budget_window text check (budget_window in ('hour', 'day', 'week', 'month'));

-- Archives an organization: its keys and sessions end, its invitations are void, and it is suspended, so that no call is held for it.
-- Answers what stands in the way, in words; then nothing has changed. Invariant: no money is left behind, and none is under way.
create function archive_organization(p_org_id text) returns text[] language plpgsql as $$
declare
  v_open text[];
begin
  perform lock_organization(p_org_id);
  select array_agg(n.words order by n.place) into v_open
  from (values
    (1, 'open holds', exists (select 1 from reservations r where r.org_id = p_org_id and r.status = 'open')),
    (2, 'open cost tickets', exists (select 1 from cost_tickets t where t.org_id = p_org_id and t.status in ('open', 'approved'))),
    (3, 'payments under way', exists (select 1 from payment_sessions s where s.org_id = p_org_id
      and (s.status in ('created', 'capturing', 'captured', 'confirming', 'confirmed')
        or (s.status = 'failed' and s.error_code = 'amount_mismatch' and s.resolution is null)
        or s.disputes @> '[{"status": "open"}]' or s.refunds @> '[{"status": "pending"}]'
        or exists (select 1 from payment_refunds f where f.payment_session_id = s.id and f.status = 'pending')))),
    (4, 'money or debts in wallets', exists (select 1 from wallets w where w.org_id = p_org_id
      and (w.balance_nanos <> 0 or w.reserved_nanos <> 0))),
    (5, 'charges beyond their bound that nobody has decided', exists (select 1 from settlement_excess x
      where x.org_id = p_org_id and x.status = 'open'))
  ) as n (place, words, is_there) where n.is_there;
  if v_open is not null then
    return v_open;
  end if;
  update organizations set suspended_at = now(), suspended_for = 'archived' where id = p_org_id and suspended_at is null;
  update organizations set archived_at = now() where id = p_org_id and archived_at is null;
  update tokens set revoked_at = clock_timestamp() where org_id = p_org_id and revoked_at is null;
  update one_time_codes set expires_at = clock_timestamp()
  where org_id = p_org_id and used_at is null and expires_at > clock_timestamp();
  return '{}';
end $$;

-- Takes back the end of an organization, and the suspension that came with it; its keys stay revoked.
create function unarchive_organization(p_org_id text) returns void language plpgsql as $$
begin
  perform lock_organization(p_org_id);
  update organizations set suspended_at = null, suspended_for = null where id = p_org_id and suspended_at = archived_at;
  update organizations set archived_at = null where id = p_org_id and archived_at is not null;
end $$;
