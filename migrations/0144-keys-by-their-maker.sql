-- Who made a key is found by that alone: from statistics of the moment before an organization, or the platform, made many keys,
-- PostgreSQL took any index that begins with org_id for as good as the one that has the maker, and read them all.
create index tokens_made_by on tokens (created_by);

create or replace function keys_held_by_2(p_org_id text, p_by text, p_except text default null) returns setof text language sql stable as $$
  with recursive held (id) as (
    select t.id from tokens t where t.created_by = p_by and t.org_id is not distinct from p_org_id
    union
    select t.id from tokens t where t.made_with = p_by and t.org_id is not distinct from p_org_id
    union
    select t.id from tokens t where t.org_id = p_org_id and t.bound_by = p_by and t.identity_id is distinct from p_except
    union
    select t.id from tokens t where t.org_id = p_org_id and t.bound_with = p_by and t.identity_id is distinct from p_except
    union
    select s.token_id from token_secrets s
    where (s.issued_to = p_by or s.issued_with = p_by) and coalesce(s.expires_at > clock_timestamp(), true)
      and exists (select 1 from tokens t where t.id = s.token_id and t.org_id is not distinct from p_org_id offset 0)
    union
    select x.id from held h cross join lateral (
      select t.id from tokens t where t.made_with = h.id
      union all
      select t.id from tokens t where t.bound_with = h.id and t.identity_id is distinct from p_except
      union all
      select s.token_id from token_secrets s where s.issued_with = h.id and coalesce(s.expires_at > clock_timestamp(), true)
    ) as x
  )
  select h.id from held h
  where exists (select 1 from tokens t where t.id = h.id and t.org_id is not distinct from p_org_id offset 0)
$$;
