-- Ids of things that providers keep (answers, containers, files), by the organization whose call made them. A request may name
-- only those of its own organization. Kept for 30 days after their last use.
create table stored_ids (
  org_id text not null references organizations,
  kind text not null,
  id text not null,
  provider text not null,
  key_id text,
  -- Keys that are bound to another user may not use it; null if no user is known.
  user_id text,
  created_at timestamptz not null default clock_timestamp(),
  used_at timestamptz not null default clock_timestamp(),
  primary key (org_id, kind, id, provider)
);
create index stored_ids_used on stored_ids (used_at);

-- True if a caller may name an id that is kept for the organization.
create function may_name(s stored_ids, p_user_id text) returns boolean language sql immutable as $$
  select s.user_id is null or p_user_id is null or s.user_id = p_user_id
$$;

-- Finds the provider that keeps all ids that a request names: the first of `providers` that does; null if none does.
create function keeper_of(p_org_id text, p_named jsonb) returns text language sql stable as $$
  select p.name from jsonb_array_elements_text(p_named -> 'providers') with ordinality as p (name, n)
  where not exists (
    select 1 from jsonb_to_recordset(p_named -> 'ids') as i (kind text, id text)
    where not exists (select 1 from stored_ids s where s.org_id = p_org_id and s.kind = i.kind and s.id = i.id
      and s.provider = p.name and may_name(s, p_named ->> 'user_id')))
  order by p.n limit 1
$$;

-- Finds the first id of a request that none of `providers` keeps; the first of all if each is kept by some.
create function id_without_keeper(p_org_id text, p_named jsonb) returns jsonb language sql stable as $$
  select e.value from jsonb_array_elements(p_named -> 'ids') with ordinality as e (value, n)
  order by exists (select 1 from stored_ids s where s.org_id = p_org_id and s.kind = e.value ->> 'kind'
    and s.id = e.value ->> 'id' and p_named -> 'providers' @> to_jsonb(s.provider) and may_name(s, p_named ->> 'user_id')), e.n
  limit 1
$$;

-- Keeps the ids that calls have made, for the caller of their reservation. An id that is known already stays whose it is.
create function keep_stored_ids(p_org_id text, p_made jsonb) returns void language sql as $$
  insert into stored_ids (org_id, kind, id, provider, key_id, user_id)
  select distinct on (i.kind, i.id, i.provider) p_org_id, i.kind, i.id, i.provider, r.key_id, r.user_id
  from jsonb_array_elements(p_made) with ordinality as m (value, n)
  left join lateral (select q.id from reservations q where q.org_id = p_org_id and q.request_id = m.value ->> 'request_id' limit 1)
    as named on true
  join lateral (select q.key_id, q.user_id from reservations q
    where q.id = coalesce(m.value ->> 'reservation_id', named.id) and q.org_id = p_org_id limit 1) as r on true
  cross join lateral jsonb_to_recordset(m.value -> 'ids') as i (kind text, id text, provider text)
  order by i.kind, i.id, i.provider, m.n
  on conflict (org_id, kind, id, provider) do update set used_at = clock_timestamp()
$$;

-- Runs before a lane, under its lock: keeps what settlements have made, then looks up what requests name. Answers one object a
-- request: its `n`, and the `provider` that keeps its ids, or the `unknown` id.
create function bind_stored_ids(p_org_id text, p_made jsonb, p_named jsonb) returns jsonb language plpgsql
set enable_seqscan = off set enable_material = off set plan_cache_mode = force_generic_plan as $$
begin
  perform lock_organization(p_org_id);
  if jsonb_array_length(p_made) > 0 then
    perform keep_stored_ids(p_org_id, p_made);
  end if;
  if jsonb_array_length(p_named) = 0 then
    return '[]';
  end if;
  -- An hour is exact enough for a time of last use, and saves most writes.
  update stored_ids s set used_at = clock_timestamp()
  from jsonb_array_elements(p_named) as e cross join lateral jsonb_to_recordset(e -> 'ids') as i (kind text, id text)
  where s.org_id = p_org_id and s.kind = i.kind and s.id = i.id and may_name(s, e ->> 'user_id')
    and s.used_at < clock_timestamp() - interval '1 hour';
  return (select jsonb_agg(jsonb_build_object('n', e.value -> 'n', 'provider', k.provider,
      'unknown', case when k.provider is null then id_without_keeper(p_org_id, e.value) end))
    from jsonb_array_elements(p_named) as e (value)
    cross join lateral (select keeper_of(p_org_id, e.value) as provider offset 0) as k);
end $$;

-- Leaves out the reserves that name an id that is unknown.
create function reserves_of_known_ids(p_reserves jsonb, p_verdicts jsonb) returns jsonb language sql immutable as $$
  select coalesce(jsonb_agg(e.value order by e.n), '[]')
  from jsonb_array_elements(p_reserves) with ordinality as e (value, n)
  left join (select (v ->> 'n')::bigint as n from jsonb_array_elements(p_verdicts) as v where v ->> 'provider' is null)
    as refused on refused.n = e.n
  where refused.n is null
$$;
