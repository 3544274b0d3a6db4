-- Keys whose callers are told what calls cost.

alter table tokens
  -- Gateways add the cost to the usage of answers, unless a call says otherwise.
  add column include_cost boolean not null default false;

drop trigger tokens_record on tokens;
create trigger tokens_record after insert or update of name, scopes, user_id, team_id, agent_id, allowed_models,
  max_budget_nanos, include_cost, created_by, expires_at, revoked_at
on tokens for each row when (new.purpose = 'key' and (new.revoked_at is null or new.revoked_at is distinct from new.expires_at))
execute function record_change('key', 'id');
