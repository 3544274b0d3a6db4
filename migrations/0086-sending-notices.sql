-- How notices become messages, and how messages are taken for sending.

-- A message for one notice, or for many of a kind.
create function message_of(p_destination_id text, p_kind text, p_notice_ids text[]) returns void language plpgsql as $$
declare
  v_id text := new_id('msg');
begin
  insert into notice_messages (id, destination_id, kind, notice_count)
  values (v_id, p_destination_id, p_kind, cardinality(p_notice_ids));
  update notices n set message_id = v_id where n.id = any(p_notice_ids);
end $$;

-- Puts the waiting notices of a destination into messages: each into its own, but of tickets over 10 in 10 seconds into one.
-- Returns how many milliseconds those that still wait for their 10 seconds have; null if none does.
create function gather_notices(p_destination_id text) returns double precision language plpgsql as $$
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
    v_recent := 0;
    if v_kind in ('ticket_created', 'ticket_resolved') then
      select coalesce(sum(m.notice_count), 0), max(m.created_at) + interval '10 seconds' into v_recent, v_until
      from notice_messages m
      where m.destination_id = p_destination_id and m.kind = v_kind and m.created_at > v_now - interval '10 seconds'
        and m.id > 'msg_' || lpad(to_hex((extract(epoch from v_now - interval '1 minute') * 1000)::bigint), 12, '0');
    end if;
    if v_kind not in ('ticket_created', 'ticket_resolved') or v_recent + cardinality(v_ids) <= 10 then
      perform message_of(p_destination_id, v_kind, array[i]) from unnest(v_ids) as i;
    elsif v_recent = 0 or v_oldest <= v_now - interval '10 seconds' then
      perform message_of(p_destination_id, v_kind, v_ids);
    else
      v_next := least(v_next, v_until, v_oldest + interval '10 seconds');
    end if;
  end loop;
  return case when v_next is not null then greatest(0, extract(epoch from v_next - clock_timestamp()) * 1000) end;
end $$;

-- Takes messages that are due, at most 4, or one while the destination fails; whoever does not say how it went within
-- `p_lease_seconds` leaves them to the next. Those of a destination that is out of use, or past their day, have failed.
create function take_notices(p_destination_id text, p_lease_seconds integer) returns setof notice_messages
language plpgsql as $$
declare
  d notice_destinations;
begin
  perform pg_advisory_xact_lock(hashtext('notices'), hashtext(p_destination_id));
  select * into d from notice_destinations q where q.id = p_destination_id;
  perform gather_notices(p_destination_id);
  update notice_messages m set status = 'failed', last_error = case
      when d.archived_at is not null then 'The destination was removed.'
      when d.disabled_at is not null then coalesce(m.last_error, 'The destination is disabled.')
      else coalesce(m.last_error, 'Nobody could send it for a day.') end
  where m.destination_id = p_destination_id and m.status = 'waiting'
    and (d.archived_at is not null or d.disabled_at is not null or m.give_up_at <= clock_timestamp());
  return query
    update notice_messages m set attempts = m.attempts + 1, attempted_at = clock_timestamp(),
      next_at = clock_timestamp() + p_lease_seconds * interval '1 second'
    where m.id in (
      select q.id from notice_messages q
      where q.destination_id = p_destination_id and q.status = 'waiting' and q.next_at <= clock_timestamp()
      order by q.attempts, q.id
      limit (select case when f.failures > 0 then 1 else 4 end from notice_queues f where f.destination_id = p_destination_id))
    returning m.*;
end $$;

-- Milliseconds until something is to be done for a destination: 0 if it is now, null if nothing is.
create function notices_due_in(p_destination_id text) returns double precision language plpgsql as $$
declare
  v_gathering double precision;
begin
  perform pg_advisory_xact_lock(hashtext('notices'), hashtext(p_destination_id));
  v_gathering := gather_notices(p_destination_id);
  -- Of no rows the least is null, and stays out of it.
  return least(v_gathering, (select extract(epoch from greatest(min(m.next_at), clock_timestamp()) - clock_timestamp()) * 1000
    from notice_messages m where m.destination_id = p_destination_id and m.status = 'waiting' having count(*) > 0));
end $$;

-- Says how a try went. `p_outcome`: delivered; refused, which is about this message; or failed, which is about the destination,
-- so that all its messages wait. `p_pause_ms` is the first pause; each further one is twice as long, up to 15 minutes.
create function note_sent(p_message_id text, p_outcome text, p_status integer, p_error text, p_pause_ms integer)
returns void language plpgsql as $$
declare
  m notice_messages;
  v_failures integer;
begin
  select * into m from notice_messages q where q.id = p_message_id;
  perform pg_advisory_xact_lock(hashtext('notices'), hashtext(m.destination_id));
  if p_outcome = 'delivered' then
    update notice_messages q set status = 'delivered', delivered_at = clock_timestamp(), last_status = p_status, last_error = null
    where q.id = m.id;
    -- It answers again: what waited for that goes now.
    update notice_queues q set failures = 0 where q.destination_id = m.destination_id and q.failures > 0;
    if found then
      update notice_messages q set next_at = clock_timestamp()
      where q.destination_id = m.destination_id and q.status = 'waiting' and q.id <> m.id;
    end if;
    return;
  end if;
  if p_outcome = 'failed' then
    update notice_queues q set failures = q.failures + 1 where q.destination_id = m.destination_id
    returning q.failures into v_failures;
  end if;
  update notice_messages q set last_status = case when q.id = m.id then p_status else q.last_status end,
    last_error = case when q.id = m.id then p_error else q.last_error end,
    next_at = greatest(case when q.id = m.id then clock_timestamp() else q.next_at end, clock_timestamp()
      + least(900000, p_pause_ms * power(2, least(coalesce(v_failures, m.attempts), 20) - 1)) * interval '1 millisecond')
  where q.destination_id = m.destination_id and q.status = 'waiting' and (q.id = m.id or v_failures is not null);
end $$;

-- Asks again for destinations whose notices nobody has looked at for a minute; how many.
create function adopt_notices(p_limit integer) returns integer language plpgsql as $$
declare
  v_count integer;
begin
  with late as (
    select d.id, d.org_id from notice_destinations d
    where (exists (select 1 from notices n where n.destination_id = d.id and n.message_id is null
        and n.created_at < clock_timestamp() - interval '1 minute')
      or exists (select 1 from notice_messages m where m.destination_id = d.id and m.status = 'waiting'
        and m.next_at < clock_timestamp() - interval '1 minute'))
      and not exists (select 1 from outbox o where o.workflow_id = 'notices-' || d.id and o.parked_at is null)
    order by d.id limit p_limit
  ), sent as (
    select send_to_workflow(coalesce(l.org_id, 'platform'), 'notices', 'notices-' || l.id, 'wakeNotices',
      jsonb_build_object('destination_id', l.id)) from late l
  )
  select count(*) into v_count from sent;
  return v_count;
end $$;

-- Tells once of each key that ends within a week; how many.
create function tell_expiring_keys() returns integer language plpgsql as $$
declare
  t tokens;
  v_count integer := 0;
begin
  for t in
    select k.* from tokens k
    where k.purpose = 'key' and k.revoked_at is null and k.org_id is not null
      and k.expires_at > clock_timestamp() and k.expires_at <= clock_timestamp() + interval '7 days'
      -- One that was made for a week or less is not news.
      and k.expires_at > k.created_at + interval '8 days'
      and not exists (select 1 from expiring_keys e where e.token_id = k.id and e.expires_at = k.expires_at)
    limit 200
  loop
    insert into expiring_keys (token_id, expires_at) values (t.id, t.expires_at)
    on conflict (token_id) do update set expires_at = excluded.expires_at;
    perform append_event(t.org_id, 'key.expiring', jsonb_build_object('key_id', t.id, 'name', t.name, 'user_id', t.user_id,
      'team_id', t.team_id, 'expires_at', iso_time(t.expires_at)));
    v_count := v_count + 1;
  end loop;
  return v_count;
end $$;

-- A threshold that is set above the balance is crossed by that.
create function tell_low_wallets(p_org_id text, p_wallet_id text, p_before_nanos bigint, p_after_nanos bigint)
returns void language sql as $$
  select append_event(w.org_id, 'wallet.balance_low', jsonb_build_object('wallet_id', w.id, 'owner_type', w.owner_type,
    'currency', w.currency, 'balance_nanos', w.balance_nanos::text, 'reserved_nanos', w.reserved_nanos::text,
    'threshold_nanos', p_after_nanos::text, 'by_threshold', true))
  from wallets w
  where w.org_id = p_org_id and (w.id = p_wallet_id or (p_wallet_id is null and w.low_balance_threshold_nanos is null))
    and w.balance_nanos + w.reserved_nanos < p_after_nanos
    and not coalesce(w.balance_nanos + w.reserved_nanos < p_before_nanos, false)
$$;

create function tell_new_threshold() returns trigger language plpgsql as $$
begin
  if tg_table_name = 'organizations' then
    perform tell_low_wallets(new.id, null, old.low_balance_threshold_nanos, new.low_balance_threshold_nanos);
  else
    perform tell_low_wallets(new.org_id, new.id,
      (select coalesce(old.low_balance_threshold_nanos, o.low_balance_threshold_nanos) from organizations o where o.id = new.org_id),
      (select coalesce(new.low_balance_threshold_nanos, o.low_balance_threshold_nanos) from organizations o where o.id = new.org_id));
  end if;
  return null;
end $$;

create trigger wallets_tell_threshold after update of low_balance_threshold_nanos on wallets for each row
when (new.low_balance_threshold_nanos is distinct from old.low_balance_threshold_nanos) execute function tell_new_threshold();
create trigger organizations_tell_threshold after update of low_balance_threshold_nanos on organizations for each row
when (new.low_balance_threshold_nanos is distinct from old.low_balance_threshold_nanos) execute function tell_new_threshold();
