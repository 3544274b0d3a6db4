-- The fold of spend.

-- Entries of one wallet, to be counted for an edition.
create type spend_range as (
  edition bigint,
  time_zone text,
  wallet_id text,
  after_seq bigint,
  up_to_seq bigint
);

-- What one settlement adds to spend, with the call that it is of. An hour that was held and never settled costs nothing and counts no
-- call; a charge beyond a bound counts no second one. So it is the same whenever it is looked at.
create function spend_of(t wallet_transactions, r reservations, p_time_zone text)
returns table (day date, hour timestamptz, key_id text, user_id text, team_id text, agent_id text, family text, provider text,
  model text, session_id text, tags text[], cost_nanos numeric, requests bigint, prompt_tokens numeric, completion_tokens numeric,
  cached_tokens numeric)
language sql stable as $$
  select l.local::date, t.created_at - (l.local - date_trunc('hour', l.local)), coalesce(r.key_id, ''), coalesce(r.user_id, ''),
    coalesce(r.team_id, ''), coalesce(r.agent_id, ''), coalesce(r.family, ''), coalesce(t.provider, ''), coalesce(t.model, ''),
    r.session_id, r.tags, coalesce(t.actual_cost_nanos, 0)::numeric, c.calls,
    case c.calls when 1 then coalesce((r.usage ->> 'prompt_tokens')::numeric, 0) else 0 end,
    case c.calls when 1 then coalesce((r.usage ->> 'completion_tokens')::numeric, 0) else 0 end,
    case c.calls when 1 then coalesce((r.usage ->> 'cached_tokens')::numeric, 0) else 0 end
  from (select t.created_at at time zone p_time_zone as local) as l
  cross join (select case when t.phase = 'late' or (t.phase = 'close' and r.status = 'settled') then 1 else 0 end::bigint as calls) as c
$$;

-- The settlements in ranges of wallets' ledgers, one row each. Reservations are found one by one, as the ranges are small however
-- large the ledger is.
create function spent_in(p_ranges spend_range[])
returns table (edition bigint, day date, hour timestamptz, key_id text, user_id text, team_id text, agent_id text, family text,
  provider text, model text, session_id text, tags text[], cost_nanos numeric, requests bigint, prompt_tokens numeric,
  completion_tokens numeric, cached_tokens numeric)
language sql stable set enable_seqscan = off as $$
  select g.edition, s.*
  from unnest(p_ranges) as g
  cross join lateral (select q as entry, q.reservation_id from wallet_transactions q
    where q.wallet_id = g.wallet_id and q.seq > g.after_seq and q.seq <= g.up_to_seq and q.type = 'settlement' order by q.seq) as t
  left join lateral (select q as call from reservations q where q.id = t.reservation_id limit 1) as r on true
  cross join lateral spend_of(t.entry, r.call, g.time_zone) as s
$$;

-- What is not folded yet into an edition of an organization.
create function unfolded_spend(p_org_id text, p_edition bigint, p_time_zone text) returns spend_range[] language sql stable as $$
  select array_agg((p_edition, p_time_zone, w.id, coalesce(c.folded_seq, 0), w.seq)::spend_range)
  from wallets w left join spend_cursors c on c.wallet_id = w.id and c.edition = p_edition
  where w.org_id = p_org_id and w.seq > coalesce(c.folded_seq, 0)
$$;

-- Gives every organization its edition, and another one to those whose time zone has changed.
create function open_spend_editions() returns void language sql as $$
  insert into spend_editions (org_id, time_zone, state)
  select o.id, o.time_zone, 'current' from organizations o
  where not exists (select 1 from spend_editions e where e.org_id = o.id and e.state = 'current')
  on conflict do nothing;
  update spend_editions e set state = 'dropped' from organizations o
  where o.id = e.org_id and e.state = 'making' and e.time_zone <> o.time_zone;
  insert into spend_editions (org_id, time_zone, state)
  select o.id, o.time_zone, 'making' from organizations o
  join spend_editions e on e.org_id = o.id and e.state = 'current' and e.time_zone <> o.time_zone
  on conflict do nothing;
$$;

-- Adds entries to the days and hours of their editions; how many of them have tags.
create function fold_ranges(p_ranges spend_range[]) returns bigint language sql as $$
  with spent as materialized (
    select * from spent_in(p_ranges)
  ), days as (
    insert into spend_days as d
    select s.edition, s.day, s.key_id, s.user_id, s.team_id, s.agent_id, s.family, s.provider, s.model, sum(s.cost_nanos),
      sum(s.requests), sum(s.prompt_tokens), sum(s.completion_tokens), sum(s.cached_tokens)
    from spent s group by 1, 2, 3, 4, 5, 6, 7, 8, 9 order by 1, 2, 3, 4, 5, 6, 7, 8, 9
    on conflict (edition, day, key_id, user_id, team_id, agent_id, family, provider, model) do update set
      cost_nanos = d.cost_nanos + excluded.cost_nanos, requests = d.requests + excluded.requests,
      prompt_tokens = d.prompt_tokens + excluded.prompt_tokens,
      completion_tokens = d.completion_tokens + excluded.completion_tokens, cached_tokens = d.cached_tokens + excluded.cached_tokens
  ), hours as (
    insert into spend_hours as h
    select s.edition, s.hour, s.key_id, s.user_id, s.team_id, s.agent_id, s.family, s.provider, s.model, sum(s.cost_nanos),
      sum(s.requests), sum(s.prompt_tokens), sum(s.completion_tokens), sum(s.cached_tokens)
    from spent s where s.hour > now() - interval '36 days'
    group by 1, 2, 3, 4, 5, 6, 7, 8, 9 order by 1, 2, 3, 4, 5, 6, 7, 8, 9
    on conflict (edition, hour, key_id, user_id, team_id, agent_id, family, provider, model) do update set
      cost_nanos = h.cost_nanos + excluded.cost_nanos, requests = h.requests + excluded.requests,
      prompt_tokens = h.prompt_tokens + excluded.prompt_tokens,
      completion_tokens = h.completion_tokens + excluded.completion_tokens, cached_tokens = h.cached_tokens + excluded.cached_tokens
  )
  select count(*) from spent s where s.tags is not null
$$;

-- Adds entries to the tags of their days. A day's first 1,000 tags have names.
create function fold_tags(p_ranges spend_range[]) returns void language sql as $$
  with spent as materialized (
    select row_number() over () as n, q.* from spent_in(p_ranges) as q where q.tags is not null
  ), unknown as (
    select distinct s.edition, s.day, u.tag from spent s cross join unnest(s.tags) as u (tag)
    where not exists (select 1 from spend_tags k where k.edition = s.edition and k.day = s.day and k.tag = u.tag)
  ), made as (
    insert into spend_tags
    select u.edition, u.day, u.tag
    from (select q.*, row_number() over (partition by q.edition, q.day order by q.tag) as nth from unknown q) as u
    where u.nth <= 1000 - (select count(*) from spend_tags k where k.edition = u.edition and k.day = u.day)
    order by 1, 2, 3
    returning *
  ), tagged as (
    select distinct s.n, coalesce(k.tag, m.tag, 'other') as tag
    from spent s cross join unnest(s.tags) as u (tag)
    left join spend_tags k on k.edition = s.edition and k.day = s.day and k.tag = u.tag
    left join made m on m.edition = s.edition and m.day = s.day and m.tag = u.tag
  )
  insert into spend_tag_days as d
  select s.edition, s.day, t.tag, s.key_id, s.user_id, s.team_id, s.agent_id, s.family, s.provider, s.model, sum(s.cost_nanos),
    sum(s.requests), sum(s.prompt_tokens), sum(s.completion_tokens), sum(s.cached_tokens)
  from spent s join tagged t on t.n = s.n group by 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 order by 1, 2, 3, 4, 5, 6, 7, 8, 9, 10
  on conflict (edition, day, tag, key_id, user_id, team_id, agent_id, family, provider, model) do update set
    cost_nanos = d.cost_nanos + excluded.cost_nanos, requests = d.requests + excluded.requests,
    prompt_tokens = d.prompt_tokens + excluded.prompt_tokens,
    completion_tokens = d.completion_tokens + excluded.completion_tokens, cached_tokens = d.cached_tokens + excluded.cached_tokens
$$;

-- Folds at most so many entries, of wallets that few are missing of first; how many there were. An edition that has caught up takes
-- the place of its organization's current one. Invariant: an entry counts in an edition if its seq is up to the cursor of its wallet,
-- and once; all that a step writes is one transaction.
create function fold_spend(p_entries integer) returns bigint language plpgsql as $$
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
    limit 100 for update skip locked);
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

-- Puts an edition that is made in the place of its organization's current one, if a step is all that it lacks.
create function use_made_editions(p_orgs text[], p_entries integer) returns void language plpgsql as $$
declare
  v_made bigint[] := array(select e.edition from spend_editions e
    where e.org_id = any (p_orgs) and e.state = 'making' and p_entries > (select coalesce(sum(w.seq - coalesce(c.folded_seq, 0)), 0)
      from wallets w left join spend_cursors c on c.wallet_id = w.id and c.edition = e.edition where w.org_id = e.org_id));
begin
  update spend_editions e set state = 'dropped' from spend_editions m
  where m.edition = any (v_made) and e.org_id = m.org_id and e.state = 'current';
  update spend_editions e set state = 'current' where e.edition = any (v_made);
end $$;
