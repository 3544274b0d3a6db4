-- A session is an access key of a person who has signed in: it lives for twelve hours, ends after one without use, and stands in
-- no list of keys.

alter table tokens
  add column purpose text not null default 'key' check (purpose in ('key', 'session')),
  add column session_secret_id text,
  add column issuer_id text references identity_issuers,
  add column identity_id text,
  add column bound_by text,
  add column bound_with text;
comment on column tokens.purpose is 'A session ends an hour after its last use, and with what it was made with.';
comment on column tokens.session_secret_id is 'The value of the access key that a session was made with (made_with): it ends with both.';
comment on column tokens.issuer_id is 'The identity provider that a session comes from.';
comment on column tokens.identity_id is 'The subject that a session comes from, if it was bound.';
comment on column tokens.bound_by is 'Who bound that subject to the person: whoever signs in by it may be them. It stays when the subject is unbound.';
comment on column tokens.bound_with is 'The credential with which it was bound.';

create index tokens_sessions on tokens (org_id, user_id) where purpose = 'session';
create index tokens_bound_by on tokens (org_id, bound_by) where bound_by is not null;
create index tokens_bound_with on tokens (bound_with) where bound_with is not null;
create index tokens_sessions_of_issuer on tokens (issuer_id) where purpose = 'session' and revoked_at is null;

drop trigger tokens_record on tokens;
create trigger tokens_record after insert or update of name, scopes, user_id, team_id, agent_id, allowed_models,
  max_budget_nanos, created_by, expires_at, revoked_at
on tokens for each row when (new.purpose = 'key' and (new.revoked_at is null or new.revoked_at is distinct from new.expires_at))
execute function record_change('key', 'id');
drop trigger tokens_gone on tokens;
create trigger tokens_gone after delete on tokens for each row when (old.purpose = 'key')
execute function record_change('key', 'id');
create trigger sessions_record after insert or update of revoked_at on tokens
for each row when (new.purpose = 'session') execute function record_change('session', 'id');

-- True for every key, and for a session that was used within the hour and whose key, if it came from one, still works.
create function session_lives(t tokens) returns boolean language sql stable as $$
  select t.purpose = 'key' or (
    coalesce(t.last_used_at, t.created_at) > clock_timestamp() - interval '1 hour'
    and (t.made_with is null or exists (select 1 from tokens k where k.id = t.made_with and k.revoked_at is null
      and coalesce(k.expires_at > clock_timestamp(), true)))
    and (t.session_secret_id is null or exists (select 1 from token_secrets s where s.id = t.session_secret_id
      and coalesce(s.expires_at > clock_timestamp(), true))))
$$;

-- The keys and sessions of an organization that a person, or the holder of a key, may hold, but for those that only stand for the
-- person: what they made or renewed, sessions by subjects that they bound (but for p_except), and what was made with any of these.
create function keys_held_by_2(p_org_id text, p_by text, p_except text default null) returns setof text language sql stable as $$
  with recursive held (id) as (
    select t.id from tokens t where t.org_id is not distinct from p_org_id and (t.created_by = p_by or t.made_with = p_by)
    union
    select t.id from tokens t where t.org_id = p_org_id and (t.bound_by = p_by or t.bound_with = p_by)
      and t.identity_id is distinct from p_except
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

-- By whom a key, a session or a subject came to be: people, and the credentials that they did it with.
create function token_holders(p_id text, p_except text) returns setof text language sql stable as $$
  select x.holder from tokens t cross join lateral (
    values (t.created_by), (t.made_with), (case when t.identity_id is distinct from p_except then t.bound_by end),
      (case when t.identity_id is distinct from p_except then t.bound_with end)
    union all
    select h.holder from token_secrets s cross join lateral (values (s.issued_to), (s.issued_with)) as h (holder)
    where s.token_id = t.id and coalesce(s.expires_at > clock_timestamp(), true)
  ) as x (holder) where t.id = p_id and x.holder is not null
$$;

-- Who may hold the access keys and sessions that stand for a person, or sign in as them by a subject (but for p_except): for each
-- of these, by its id, those that made, renewed or bound it, and those that did so with what these have.
create function holders_for(p_org_id text, p_user_id text, p_except text) returns table (id text, holder text)
language sql stable as $$
  with recursive up (id, holder) as (
    select t.id, x.holder from tokens t cross join lateral token_holders(t.id, p_except) as x (holder)
    where t.org_id = p_org_id and t.user_id = p_user_id and t.token_type = 'access' and t.revoked_at is null
    union
    select i.id, x.holder from identities i cross join lateral (values (i.created_by), (i.created_with)) as x (holder)
    where i.org_id = p_org_id and i.user_id = p_user_id and i.id is distinct from p_except and x.holder is not null
    union
    select u.id, x.holder from up u join tokens k on k.id = u.holder and k.org_id = p_org_id
    cross join lateral token_holders(k.id, p_except) as x (holder)
  )
  select u.id, u.holder from up u
$$;
