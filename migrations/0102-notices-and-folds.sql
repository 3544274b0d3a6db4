-- What was found by looking at notices, folds and the proof of spend once more. The functions that are replaced answer their callers as
-- before.

alter table notice_queues
  -- When a failed try was counted last: messages that were taken together fail together.
  add column failed_at timestamptz;

-- A message for one notice, or for many of a kind. While its destination fails it waits as the others do.
create or replace function message_of(p_destination_id text, p_kind text, p_notice_ids text[]) returns void language plpgsql as $$
declare
  v_id text := new_id('msg');
  v_next timestamptz;
begin
  select min(m.next_at) into v_next from notice_messages m join notice_queues q on q.destination_id = m.destination_id
  where m.destination_id = p_destination_id and m.status = 'waiting' and q.failures > 0;
  insert into notice_messages (id, destination_id, kind, notice_count, next_at)
  values (v_id, p_destination_id, p_kind, cardinality(p_notice_ids), greatest(clock_timestamp(), v_next));
  update notices n set message_id = v_id where n.id = any(p_notice_ids);
end $$;

-- Says how a try went. `p_outcome`: delivered; refused, which is about this message; or failed, which is about the destination,
-- so that all its messages wait. `p_pause_ms` is the first pause; each further one is twice as long, up to 15 minutes. Messages that
-- were taken together are one failure. One that is delivered may have an error too: a recipient who was not told.
create or replace function note_sent(p_message_id text, p_outcome text, p_status integer, p_error text, p_pause_ms integer)
returns void language plpgsql as $$
declare
  m notice_messages;
  v_failures integer;
begin
  select * into m from notice_messages q where q.id = p_message_id;
  perform pg_advisory_xact_lock(hashtext('notices'), hashtext(m.destination_id));
  if p_outcome = 'delivered' then
    update notice_messages q set status = 'delivered', delivered_at = clock_timestamp(), last_status = p_status, last_error = p_error
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
    update notice_queues q set failed_at = clock_timestamp(),
      failures = q.failures + case when q.failures > 0 and q.failed_at >= m.attempted_at then 0 else 1 end
    where q.destination_id = m.destination_id
    returning q.failures into v_failures;
  end if;
  update notice_messages q set last_status = case when q.id = m.id then p_status else q.last_status end,
    last_error = case when q.id = m.id then p_error else q.last_error end,
    next_at = greatest(case when q.id = m.id then clock_timestamp() else q.next_at end, clock_timestamp()
      + least(900000, p_pause_ms * power(2, least(coalesce(v_failures, m.attempts), 20) - 1)) * interval '1 millisecond')
  where q.destination_id = m.destination_id and q.status = 'waiting' and (q.id = m.id or v_failures is not null);
end $$;

-- Says that a destination is as good as new: what waits for it goes now.
create function retry_notices(p_destination_id text) returns void language plpgsql as $$
begin
  perform pg_advisory_xact_lock(hashtext('notices'), hashtext(p_destination_id));
  update notice_queues q set failures = 0 where q.destination_id = p_destination_id;
  update notice_messages m set next_at = clock_timestamp()
  where m.destination_id = p_destination_id and m.status = 'waiting' and m.next_at > clock_timestamp();
  perform wake_notices(p_destination_id);
end $$;

-- Writes a notice for each destination of the event's organization, or of the platform, that is to be told of it.
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
    order by f.id
  loop
    insert into notices (destination_id, org_id, kind, event_id, cost_ticket_id, payload)
    values (v_destination_id, new.org_id, v_kind, new.id, new.payload ->> 'cost_ticket_id', new.payload);
    perform wake_notices(v_destination_id);
  end loop;
  return null;
end $$;

-- Folds at most so many entries, of wallets that few are missing of first; how many there were. An edition that has caught up takes
-- the place of its organization's current one. Invariant: an entry counts in an edition if its seq is up to the cursor of its wallet,
-- and once; all that a step writes is one transaction. Of many organizations each step takes others.
create or replace function fold_spend(p_entries integer) returns bigint language plpgsql as $$
declare
  v_orgs text[];
  v_ranges spend_range[];
  v_entries bigint;
begin
  -- Whoever folds an organization does it alone; others pass it over.
  v_orgs := array(select e.org_id from spend_editions e where e.state = 'current' and e.org_id in (
      select x.org_id from spend_editions x join wallets w on w.org_id = x.org_id
      left join spend_cursors c on c.wallet_id = w.id and c.edition = x.edition
      where x.state = 'making' or (x.state = 'current' and w.seq > coalesce(c.folded_seq, 0)))
    order by random() limit 100 for update skip locked);
  with behind as (
    select e.edition, e.time_zone, w.id as wallet_id, coalesce(c.folded_seq, 0) as after_seq, w.seq,
      w.seq - coalesce(c.folded_seq, 0) as missing
    from spend_editions e join wallets w on w.org_id = e.org_id
    left join spend_cursors c on c.wallet_id = w.id and c.edition = e.edition
    where e.org_id = any (v_orgs) and e.state <> 'dropped' and w.seq > coalesce(c.folded_seq, 0)
  ), so_far as (
    select b.*, sum(b.missing) over (order by b.missing, b.edition, b.wallet_id) - b.missing as earlier from behind b
  )
  select array_agg((q.edition, q.time_zone, q.wallet_id, q.after_seq,
      least(q.seq, q.after_seq + p_entries - q.earlier))::spend_range order by q.edition, q.wallet_id),
    coalesce(sum(least(q.missing, p_entries - q.earlier)), 0)
  into v_ranges, v_entries
  from so_far q where q.earlier < p_entries;

  if v_entries > 0 then
    if fold_ranges(v_ranges) > 0 then
      perform fold_tags(v_ranges);
    end if;
    insert into spend_cursors as c (wallet_id, edition, folded_seq)
    select g.wallet_id, g.edition, g.up_to_seq from unnest(v_ranges) as g order by 1, 2
    on conflict (wallet_id, edition) do update set folded_seq = excluded.folded_seq;
  end if;
  perform use_made_editions(v_orgs, p_entries);
  return v_entries;
end $$;

-- Puts an edition that is made in the place of its organization's current one, if a step is all that it lacks. One that was dropped
-- meanwhile, as the zone has changed again, takes nobody's place.
create or replace function use_made_editions(p_orgs text[], p_entries integer) returns void language plpgsql as $$
declare
  v_made bigint[] := array(select e.edition from spend_editions e
    where e.org_id = any (p_orgs) and e.state = 'making' and p_entries > (select coalesce(sum(w.seq - coalesce(c.folded_seq, 0)), 0)
      from wallets w left join spend_cursors c on c.wallet_id = w.id and c.edition = e.edition where w.org_id = e.org_id)
    for update of e);
begin
  update spend_editions e set state = 'dropped' from spend_editions m
  where m.edition = any (v_made) and e.org_id = m.org_id and e.state = 'current';
  update spend_editions e set state = 'current' where e.edition = any (v_made);
end $$;

-- Writes the audit event of a transfer, once for both of its entries: money that goes up, from a person to the team or from there to
-- the organization, is taken back from whoever had it.
create or replace function record_transfer(p_out wallet_transactions, p_in wallet_transactions) returns void language plpgsql as $$
declare
  v_from wallets;
  v_to wallets;
  v_is_reclaim boolean;
  v_floors constant text[] := '{user,team,organization}';
begin
  select * into v_from from wallets q where q.id = p_out.wallet_id;
  select * into v_to from wallets q where q.id = p_in.wallet_id;
  v_is_reclaim := array_position(v_floors, v_to.owner_type) > array_position(v_floors, v_from.owner_type);
  perform write_audit_event(p_in.org_id, case when v_is_reclaim then 'wallet.reclaimed' else 'wallet.allocated' end,
    case when v_is_reclaim then v_from.id else v_to.id end,
    jsonb_build_object('from_balance_nanos', (p_out.balance_after_nanos - p_out.amount_nanos)::text,
      'to_balance_nanos', (p_in.balance_after_nanos - p_in.amount_nanos)::text),
    jsonb_strip_nulls(jsonb_build_object('from_balance_nanos', p_out.balance_after_nanos::text,
      'to_balance_nanos', p_in.balance_after_nanos::text, 'amount_nanos', p_in.amount_nanos::text, 'currency', v_to.currency,
      'from_wallet_id', v_from.id, 'to_wallet_id', v_to.id, 'transfer_id', p_in.transfer_id, 'description', p_in.description)));
end $$;

-- What has been folded into all editions, as the ledger and its calls say it.
create function folded_calls() returns table (edition bigint, day date, key_id text, user_id text, team_id text, agent_id text,
  family text, provider text, model text, tags text[], cost_nanos numeric, requests bigint, prompt_tokens numeric,
  completion_tokens numeric, cached_tokens numeric) language sql stable as $$
  select e.edition, s.day, s.key_id, s.user_id, s.team_id, s.agent_id, s.family, s.provider, s.model, s.tags, s.cost_nanos, s.requests,
    s.prompt_tokens, s.completion_tokens, s.cached_tokens
  from spend_editions e join spend_cursors c on c.edition = e.edition
  join wallet_transactions t on t.wallet_id = c.wallet_id and t.seq <= c.folded_seq and t.type = 'settlement'
  left join reservations r on r.id = t.reservation_id
  cross join lateral spend_of(t, r, e.time_zone) as s
  where e.state <> 'dropped'
$$;

-- The proof, of spend by whatever it can be asked for: each group of a day has the cost, calls and tokens of the ledger, under its
-- tags too.
create function audit_8() returns table (check_name text, wallet_id text, detail text) language sql stable as $$
  select * from audit_7()
  union all
  select 'spend_is_folded_calls', null, 'edition ' || edition || ', ' || day || ', ' || concat_ws(' ', key_id, user_id, team_id,
    agent_id, family, provider, model) || ': spend ' || coalesce(d.figures::text, 'nothing') || ', ledger '
    || coalesce(l.figures::text, 'nothing')
  from (
    select f.edition, f.day, f.key_id, f.user_id, f.team_id, f.agent_id, f.family, f.provider, f.model,
      array[sum(f.cost_nanos), sum(f.requests), sum(f.prompt_tokens), sum(f.completion_tokens), sum(f.cached_tokens)] as figures
    from folded_calls() f group by 1, 2, 3, 4, 5, 6, 7, 8, 9
  ) as l
  full join (
    select q.edition, q.day, q.key_id, q.user_id, q.team_id, q.agent_id, q.family, q.provider, q.model,
      array[q.cost_nanos, q.requests, q.prompt_tokens, q.completion_tokens, q.cached_tokens] as figures
    from spend_days q join spend_editions e on e.edition = q.edition and e.state <> 'dropped'
  ) as d using (edition, day, key_id, user_id, team_id, agent_id, family, provider, model)
  where l.figures is distinct from d.figures
  union all
  select 'spend_tags_are_folded_calls', null, 'edition ' || edition || ', ' || day || ', tag ' || tag || ': spend '
    || coalesce(d.figures::text, 'nothing') || ', ledger ' || coalesce(l.figures::text, 'nothing')
  from (
    select f.edition, f.day, u.tag, array[sum(f.cost_nanos), sum(f.requests), sum(f.prompt_tokens), sum(f.completion_tokens),
      sum(f.cached_tokens)] as figures
    from folded_calls() f cross join lateral (
      select distinct coalesce(k.tag, 'other') as tag from unnest(f.tags) as n (tag)
      left join spend_tags k on k.edition = f.edition and k.day = f.day and k.tag = n.tag) as u
    where f.tags is not null group by 1, 2, 3
  ) as l
  full join (
    select q.edition, q.day, q.tag, array[sum(q.cost_nanos), sum(q.requests), sum(q.prompt_tokens), sum(q.completion_tokens),
      sum(q.cached_tokens)] as figures
    from spend_tag_days q join spend_editions e on e.edition = q.edition and e.state <> 'dropped' group by 1, 2, 3
  ) as d using (edition, day, tag)
  where l.figures is distinct from d.figures
$$;
