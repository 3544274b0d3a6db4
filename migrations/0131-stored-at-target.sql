-- Two targets of one provider may ask it with two accounts: what was made at one of them is sought there first.

alter table stored_ids
  -- The target of the gateway that made it, by its id; null if it is not known.
  add column target_id text;

-- The target at which what a request names was made last; null if it is not known.
create function target_of_keeper(p_org_id text, p_named jsonb, p_provider text)
returns text language sql stable as $$
  select s.target_id from jsonb_to_recordset(p_named -> 'ids') as i (kind text, id text)
  join stored_ids s on s.org_id = p_org_id and s.kind = i.kind and s.id = i.id and s.provider = p_provider
  where s.target_id is not null order by s.created_at desc, s.id limit 1
$$;

-- Keeps the ids that calls have made, for the caller of their reservation. An id that is known already stays whose it is.
create or replace function keep_stored_ids(p_org_id text, p_made jsonb) returns void language sql as $$
  insert into stored_ids (org_id, kind, id, provider, key_id, user_id, provider_key_id, target_id)
  select distinct on (i.kind, i.id, i.provider) p_org_id, i.kind, i.id, i.provider, r.key_id, r.user_id, i.provider_key_id,
    m.value ->> 'target_id'
  from jsonb_array_elements(p_made) with ordinality as m (value, n)
  left join lateral (select q.id from reservations q where q.org_id = p_org_id and q.request_id = m.value ->> 'request_id' limit 1)
    as named on true
  join lateral (select q.key_id, q.user_id from reservations q
    where q.id = coalesce(m.value ->> 'reservation_id', named.id) and q.org_id = p_org_id limit 1) as r on true
  cross join lateral jsonb_to_recordset(m.value -> 'ids') as i (kind text, id text, provider text, provider_key_id text)
  order by i.kind, i.id, i.provider, m.n
  on conflict (org_id, kind, id, provider) do update set used_at = clock_timestamp()
$$;

-- Runs before a lane, under its lock: keeps what settlements have made, then looks up what requests name. Answers one object a
-- request: its `n`, and the `provider` that keeps its ids, or the `unknown` id.
create or replace function bind_stored_ids(p_org_id text, p_made jsonb, p_named jsonb) returns jsonb language plpgsql
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
      'provider_key_id', key_of_keeper(p_org_id, e.value, k.provider),
      'target_id', target_of_keeper(p_org_id, e.value, k.provider),
      'unknown', case when k.provider is null then id_without_keeper(p_org_id, e.value) end))
    from jsonb_array_elements(p_named) as e (value)
    cross join lateral (select keeper_of(p_org_id, e.value) as provider offset 0) as k);
end $$;
