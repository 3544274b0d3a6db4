-- Whoever has seen a key's value may hold it: who made it, who renewed it, and who holds a key with which either was done. A key
-- falls with all of these.

alter table tokens add column made_with text;
comment on column tokens.made_with is 'The access key with which it was made; null if a person made it by a JWT, or before this was kept.';
alter table token_secrets add column issued_to text, add column issued_with text;
comment on column token_secrets.issued_to is 'The person, or the key that stands for nobody, to whom the value was shown; null before this was kept.';
comment on column token_secrets.issued_with is 'The access key with which it was drawn.';

create index tokens_created_by on tokens (org_id, created_by);
create index tokens_made_with on tokens (made_with) where made_with is not null;
create index token_secrets_issued_to on token_secrets (issued_to) where issued_to is not null;
create index token_secrets_issued_with on token_secrets (issued_with) where issued_with is not null;

create or replace function name_maker() returns trigger language plpgsql as $$
begin
  new.made_with := coalesce(new.made_with, (select k.id from tokens k where k.id = new.created_by));
  new.created_by := maker_of(new.created_by);
  return new;
end $$;

-- Notes to whom a value is shown: whoever acts in this transaction.
create function name_holder() returns trigger language plpgsql as $$
begin
  new.issued_to := maker_of(acting());
  new.issued_with := nullif(current_setting('svc.key_id', true), '');
  return new;
end $$;

create trigger token_secrets_holder before insert on token_secrets for each row execute function name_holder();

-- The keys of an organization that a person, or the holder of a key, may hold, but for those that only stand for the person.
create function keys_held_by(p_org_id text, p_by text) returns setof text language sql stable as $$
  with recursive held (id) as (
    select t.id from tokens t where t.org_id is not distinct from p_org_id and (t.created_by = p_by or t.made_with = p_by)
    union
    select t.id from token_secrets s join tokens t on t.id = s.token_id and t.org_id is not distinct from p_org_id
    where (s.issued_to = p_by or s.issued_with = p_by) and coalesce(s.expires_at > clock_timestamp(), true)
    union
    select x.id from held h cross join lateral (
      select t.id from tokens t where t.made_with = h.id
      union all
      select s.token_id from token_secrets s where s.issued_with = h.id and coalesce(s.expires_at > clock_timestamp(), true)
    ) as x
  )
  select t.id from held h join tokens t on t.id = h.id and t.org_id is not distinct from p_org_id
$$;
