-- Nobody is told of a call that a rule approves at once, spend has the days of statements and budgets, and notices that come in
-- crowds are one message.

-- Answers a reserve that has a ticket: with its hold, if a rule approves it, else as it is. Of several with one body the ticket is
-- of the last; a ticket that is not this request's own any more is not approved for it, and the request is judged again. Whoever has
-- not been told yet that the ticket waits is told nothing: nobody has to do anything.
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
    -- One that a sender is just putting into a message is not waited for: it says how the ticket stands.
    delete from notices n where n.id in (select q.id from notices q where q.cost_ticket_id = t.id and q.kind = 'ticket_created'
      and q.message_id is null order by q.id for update skip locked);
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

-- Writes a notice for each destination of the event's organization, or of the platform, that is to be told of it. What a rule
-- decided is told to those alone who were told that the ticket waits.
create or replace function tell_destinations() returns trigger language plpgsql as $$
declare
  v_kind text := notice_kind(new.type, new.payload);
  v_destination_id text;
begin
  for v_destination_id in
    select f.id from (
      select d.id, d.kinds, d.archived_at, d.disabled_at from notice_destinations d where d.org_id = new.org_id
      union all
      select d.id, d.kinds, d.archived_at, d.disabled_at from notice_destinations d where new.org_id = 'platform' and d.org_id is null
    ) as f
    where v_kind = any(f.kinds) and f.archived_at is null and f.disabled_at is null
      and (v_kind <> 'ticket_resolved' or new.payload ->> 'decided_by' is distinct from 'rule'
        or exists (select 1 from notices n where n.cost_ticket_id = new.payload ->> 'cost_ticket_id' and n.destination_id = f.id
          and n.kind = 'ticket_created' and n.message_id is not null))
    order by f.id
  loop
    insert into notices (destination_id, org_id, kind, event_id, cost_ticket_id, payload)
    values (v_destination_id, new.org_id, v_kind, new.id, new.payload ->> 'cost_ticket_id', new.payload);
    perform wake_notices(v_destination_id);
  end loop;
  return null;
end $$;

-- The day of a moment by the calendar of a zone. A day begins where its midnight is, and if clocks show that twice, at the second
-- one, as statements and windows of budgets have it: the hour before belongs to the day before.
create function local_day(p_at timestamptz, p_zone text) returns date language sql stable as $$
  select (p_at at time zone p_zone)::date
    - case when ((p_at at time zone p_zone)::date::timestamp at time zone p_zone) > p_at then 1 else 0 end
$$;

-- When the hour of a moment began, by the clocks of a zone. An hour that comes twice is two; where clocks change by half an hour, that
-- hour has 30 minutes or 90.
create function local_hour(p_at timestamptz, p_zone text) returns timestamptz language sql stable as $$
  select case when (date_trunc('hour', p_at, p_zone) at time zone p_zone) = date_trunc('hour', p_at at time zone p_zone)
    then date_trunc('hour', p_at, p_zone) else date_trunc('hour', p_at at time zone p_zone) at time zone p_zone end
$$;

-- What one settlement adds to spend, with the call that it is of. An hour that was held and never settled costs nothing and counts no
-- call, nor does one that failed for nothing, also after its hold had expired; a charge beyond a bound counts no second one. So it is
-- the same whenever it is looked at.
create or replace function spend_of(t wallet_transactions, r reservations, p_time_zone text)
returns table(day date, hour timestamptz, key_id text, user_id text, team_id text, agent_id text,
  family text, provider text, model text, session_id text, tags text[], cost_nanos numeric, requests
  bigint, prompt_tokens numeric, completion_tokens numeric, cached_tokens numeric) language sql
  stable as $$
  select local_day(t.created_at, p_time_zone), local_hour(t.created_at, p_time_zone),
    coalesce(r.key_id, ''), coalesce(r.user_id, ''),
    coalesce(r.team_id, ''), coalesce(r.agent_id, ''), coalesce(r.family, ''), coalesce(t.provider, ''), coalesce(t.model, ''),
    r.session_id, r.tags, coalesce(t.actual_cost_nanos, 0)::numeric, c.calls,
    case c.calls when 1 then coalesce((r.usage ->> 'prompt_tokens')::numeric, 0) else 0 end,
    case c.calls when 1 then coalesce((r.usage ->> 'completion_tokens')::numeric, 0) else 0 end,
    case c.calls when 1 then coalesce((r.usage ->> 'cached_tokens')::numeric, 0) else 0 end
  from (select case when (t.phase = 'late' and (t.actual_cost_nanos > 0 or r.outcome = 'completed'))
      or (t.phase = 'close' and r.status = 'settled') then 1 else 0 end::bigint as calls) as c
$$;

-- The proof, of spend too: what is folded up to the cursors is what the ledger says, by day, provider and model; and hours add up to
-- their days.
create or replace function audit_6()
returns table(check_name text, wallet_id text, detail text) language sql stable as $$
  select * from audit_5()
  union all
  select 'spend_is_folded_ledger', null, 'edition ' || coalesce(l.edition, d.edition) || ', ' || coalesce(l.day, d.day) || ', '
    || coalesce(l.provider, d.provider) || ' ' || coalesce(l.model, d.model) || ': spend ' || coalesce(d.cost_nanos, 0) || ', ledger '
    || coalesce(l.cost_nanos, 0)
  from (
    select e.edition, local_day(t.created_at, e.time_zone) as day, coalesce(t.provider, '') as provider,
      coalesce(t.model, '') as model, sum(coalesce(t.actual_cost_nanos, 0)) as cost_nanos
    from spend_editions e join spend_cursors c on c.edition = e.edition
    join wallet_transactions t on t.wallet_id = c.wallet_id and t.seq <= c.folded_seq and t.type = 'settlement'
    where e.state <> 'dropped' group by 1, 2, 3, 4
  ) as l
  full join (
    select q.edition, q.day, q.provider, q.model, sum(q.cost_nanos) as cost_nanos from spend_days q
    join spend_editions e on e.edition = q.edition and e.state <> 'dropped' group by 1, 2, 3, 4
  ) as d on d.edition = l.edition and d.day = l.day and d.provider = l.provider and d.model = l.model
  where coalesce(l.cost_nanos, 0) <> coalesce(d.cost_nanos, 0)
  union all
  select 'spend_hours_are_days', null, 'edition ' || d.edition || ', ' || d.day || ': hours ' || coalesce(h.cost_nanos, 0) || ', day '
    || d.cost_nanos
  from (
    select q.edition, q.day, sum(q.cost_nanos) as cost_nanos from spend_days q
    join spend_editions e on e.edition = q.edition and e.state <> 'dropped'
    where q.day > (now() - interval '33 days')::date group by 1, 2
  ) as d
  left join (
    select q.edition, local_day(q.hour, e.time_zone) as day, sum(q.cost_nanos) as cost_nanos from spend_hours q
    join spend_editions e on e.edition = q.edition and e.state <> 'dropped' group by 1, 2
  ) as h on h.edition = d.edition and h.day = d.day
  where d.cost_nanos <> coalesce(h.cost_nanos, 0)
  union all
  select 'spend_within_ledger', c.wallet_id, 'folded to ' || c.folded_seq || ', entries to ' || coalesce(w.seq, 0)
  from spend_cursors c left join wallets w on w.id = c.wallet_id where c.folded_seq > coalesce(w.seq, 0)
$$;

-- What was folded of days whose midnight came twice stands on the wrong one. Until it is folded anew the ledger is read.
update spend_editions e set state = 'dropped'
where e.state <> 'dropped' and exists (
  select 1 from generate_series((select min(q.day) from spend_days q where q.edition = e.edition)::timestamp,
    (select max(q.day) from spend_days q where q.edition = e.edition)::timestamp, interval '1 day') as g (midnight)
  where ((g.midnight at time zone e.time_zone) - interval '1 second') at time zone e.time_zone >= g.midnight);

-- Puts the waiting notices of a destination into messages: each into its own, but of a kind that has over 10 in 10 seconds into one.
-- Returns how many milliseconds those that still wait for their 10 seconds have; null if none does.
create or replace function gather_notices(p_destination_id text) returns double precision language plpgsql as $$
declare
  v_now timestamptz := clock_timestamp();
  v_kind text;
  v_ids text[];
  v_oldest timestamptz;
  v_recent bigint;
  v_until timestamptz;
  v_next timestamptz;
begin
  for v_kind, v_ids, v_oldest in
    select n.kind, array_agg(n.id order by n.id), min(n.created_at) from notices n
    where n.destination_id = p_destination_id and n.message_id is null group by n.kind order by min(n.id)
  loop
    select coalesce(sum(m.notice_count), 0), max(m.created_at) + interval '10 seconds' into v_recent, v_until
    from notice_messages m
    where m.destination_id = p_destination_id and m.kind = v_kind and m.created_at > v_now - interval '10 seconds'
      and m.id > 'msg_' || lpad(to_hex((extract(epoch from v_now - interval '1 minute') * 1000)::bigint), 12, '0');
    if v_recent + cardinality(v_ids) <= 10 then
      perform message_of(p_destination_id, v_kind, array[i]) from unnest(v_ids) as i;
    elsif v_recent = 0 or v_oldest <= v_now - interval '10 seconds' then
      perform message_of(p_destination_id, v_kind, v_ids);
    else
      v_next := least(v_next, v_until, v_oldest + interval '10 seconds');
    end if;
  end loop;
  return case when v_next is not null then greatest(0, extract(epoch from v_next - clock_timestamp()) * 1000) end;
end $$;

-- A threshold that is set above the balance is crossed by that. A threshold for all is no news of a wallet that never had money, nor
-- is any of one whose person or team is gone.
create or replace function tell_low_wallets(p_org_id text, p_wallet_id text, p_before_nanos bigint,
  p_after_nanos bigint)
returns void language sql as $$
  select append_event(w.org_id, 'wallet.balance_low', jsonb_build_object('wallet_id', w.id, 'owner_type', w.owner_type,
    'currency', w.currency, 'balance_nanos', w.balance_nanos::text, 'reserved_nanos', w.reserved_nanos::text,
    'threshold_nanos', p_after_nanos::text, 'by_threshold', true))
  from wallets w
  where w.org_id = p_org_id and (w.id = p_wallet_id or (p_wallet_id is null and w.low_balance_threshold_nanos is null
      and (w.seq > 0 or w.owner_type = 'organization')))
    and (w.owner_type <> 'team' or exists (select 1 from teams o where o.id = w.owner_team_id and o.archived_at is null))
    and (w.owner_type <> 'user' or exists (select 1 from memberships o where o.org_id = w.org_id and o.user_id = w.owner_user_id
      and o.archived_at is null))
    and w.balance_nanos + w.reserved_nanos < p_after_nanos
    and not coalesce(w.balance_nanos + w.reserved_nanos < p_before_nanos, false)
$$;

-- Of several recipients a mail server may take some, refuse some for good and put others off.
alter table notice_messages
  -- Who is still to be told, after a try that told others; null: everybody.
  add column put_off text[],
  -- Who was refused for good in that try.
  add column refused text[];

-- Keys that end within a week and were not told of, of people who are there. One that was made for a week or less is not news.
create function untold_keys() returns setof tokens language sql stable as $$
  select k.* from tokens k
  where k.purpose = 'key' and k.revoked_at is null and k.org_id is not null
    and k.expires_at > clock_timestamp() and k.expires_at <= clock_timestamp() + interval '7 days'
    and k.expires_at > k.created_at + interval '8 days'
    and (k.user_id is null or exists (select 1 from memberships m where m.org_id = k.org_id and m.user_id = k.user_id
      and m.archived_at is null))
    and not exists (select 1 from expiring_keys e where e.token_id = k.id and e.expires_at = k.expires_at)
$$;

-- Tells once of each key of an organization that ends within a week; how many. Under the organization's lock, as all that writes
-- events of its money: whoever has that and waits for the queue of a destination never waits for this.
create function tell_expiring_keys_2(p_org_id text) returns integer language plpgsql as $$
declare
  t tokens;
  v_count integer := 0;
begin
  perform lock_organization(p_org_id);
  for t in select * from untold_keys() k where k.org_id = p_org_id order by k.id limit 200 loop
    insert into expiring_keys (token_id, expires_at) values (t.id, t.expires_at)
    on conflict (token_id) do update set expires_at = excluded.expires_at;
    perform append_event(t.org_id, 'key.expiring', jsonb_build_object('key_id', t.id, 'name', t.name, 'user_id', t.user_id,
      'team_id', t.team_id, 'expires_at', iso_time(t.expires_at)));
    v_count := v_count + 1;
  end loop;
  return v_count;
end $$;

-- What is removed is reached by nothing any more.
delete from notice_recipients r using notice_destinations d where d.id = r.destination_id and d.archived_at is not null;
update notice_destinations d set credentials = '{}' where d.archived_at is not null and d.credentials <> '{}';
