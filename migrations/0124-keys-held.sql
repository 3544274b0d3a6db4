-- The keys that a person may hold are looked up one by one, whatever PostgreSQL takes their count for: from statistics that were
-- made between two inserts it joined them with all keys of all organizations.
create or replace function keys_held_by_2(p_org_id text, p_by text, p_except text default null) returns setof text language sql stable as $$
  with recursive held (id) as (
    select t.id from tokens t where t.org_id = p_org_id and t.created_by = p_by
    union
    select t.id from tokens t where p_org_id is null and t.org_id is null and t.created_by = p_by
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

-- Who may hold the access keys and sessions that stand for a person, or sign in as them by a subject (but for p_except): for each
-- of these, by its id, those that made, renewed or bound it, and those that did so with what these have.
create or replace function holders_for(p_org_id text, p_user_id text, p_except text)
returns table(id text, holder text) language sql stable as $$
  with recursive up (id, holder) as (
    select t.id, x.holder from tokens t cross join lateral token_holders(t.id, p_except) as x (holder)
    where t.org_id = p_org_id and t.user_id = p_user_id and t.token_type = 'access' and t.revoked_at is null
    union
    select i.id, x.holder from identities i cross join lateral (values (i.created_by), (i.created_with)) as x (holder)
    where i.org_id = p_org_id and i.user_id = p_user_id and i.id is distinct from p_except and x.holder is not null
    union
    select u.id, x.holder from up u
    cross join lateral (select t.id from tokens t where t.id = u.holder and t.org_id = p_org_id offset 0) as k
    cross join lateral token_holders(k.id, p_except) as x (holder)
  )
  select u.id, u.holder from up u
$$;
