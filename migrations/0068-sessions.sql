-- A session is an access key of a person who has signed in: it lives for twelve hours, ends after one without use, and stands in
-- no list of keys.

alter table tokens
  add column purpose text not null default 'key' check (purpose in ('key', 'session')),
  add column session_secret_id text,
  add column issuer_id text references identity_issuers;
comment on column tokens.purpose is 'A session ends an hour after its last use, and with what it was made with.';
comment on column tokens.session_secret_id is 'The value of the access key that a session was made with (made_with): it ends with both.';
comment on column tokens.issuer_id is 'The identity provider that a session comes from.';

create index tokens_sessions on tokens (org_id, user_id) where purpose = 'session';
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
