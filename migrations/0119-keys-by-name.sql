-- Keys are found by their names, living ones first and then the newest: under the organization's lock whenever a key is shown,
-- changed or revoked. The unique index of names has living ones alone, so that all keys of all organizations were read.
create index tokens_named on tokens (org_id, name, (revoked_at is null), id) where purpose = 'key';

-- The keys and sessions of an organization that a person, or the holder of a key, may hold, but for those that only stand for the
-- person: what they made or renewed, sessions by subjects that they bound (but for p_except), and what was made with any of
-- these. Those of the platform have no organization: each is asked for by a condition that an index answers.
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
    select t.id from token_secrets s join tokens t on t.id = s.token_id and t.org_id is not distinct from p_org_id
    where (s.issued_to = p_by or s.issued_with = p_by) and coalesce(s.expires_at > clock_timestamp(), true)
    union
    select x.id from held h cross join lateral (
      select t.id from tokens t where t.made_with = h.id
      union all
      select t.id from tokens t where t.bound_with = h.id and t.identity_id is distinct from p_except
      union all
      select s.token_id from token_secrets s where s.issued_with = h.id and coalesce(s.expires_at > clock_timestamp(), true)
    ) as x
  )
  select t.id from held h join tokens t on t.id = h.id and t.org_id is not distinct from p_org_id
$$;
