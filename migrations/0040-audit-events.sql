-- Every hand is recorded: each change of keys, roles, members, teams, agents, prices, rates, settings and configuration leaves an
-- audit event in its own transaction, by triggers, so that no way to a change leaves one out. Kept for ever.

create table audit_events (
  id text primary key default new_id('aud'),
  created_at timestamptz not null default clock_timestamp(),
  -- Null: the change concerns the whole platform.
  org_id text,
  -- The person, or the key that stands for nobody; null if the installation acted by itself.
  actor text,
  -- The access key that was used; null for a person with a JWT.
  key_id text,
  request_id text,
  action text not null,
  object_id text not null,
  -- What was changed; of a secret only that it was. Null: there was nothing before, or is nothing after.
  before jsonb,
  after jsonb
);
create index audit_events_org on audit_events (org_id, id desc);

create function refuse_change() returns trigger language plpgsql as $$
begin
  raise exception 'Rows of % are kept as they were written.', tg_table_name using errcode = 'restrict_violation';
end $$;

create trigger audit_events_kept before update or delete on audit_events for each statement execute function refuse_change();
create trigger audit_events_whole before truncate on audit_events for each statement execute function refuse_change();

-- A row as an audit event shows it: money is decimal text, as in events; what changes by itself and what is secret are left out.
create function shown_row(p_row jsonb) returns jsonb language sql immutable as $$
  select jsonb_object_agg(m.key, case
    when m.key not like '%\_nanos' or m.value = 'null' then m.value
    when jsonb_typeof(m.value) = 'array' then (select coalesce(jsonb_agg(a #>> '{}'), '[]') from jsonb_array_elements(m.value) as a)
    else to_jsonb(m.value #>> '{}') end)
  from jsonb_each(p_row - '{updated_at,last_used_at,spent_nanos,held_nanos,balance_nanos,reserved_nanos,seq,lifetimes_next_at,
    counted_from,config,credentials,webhook_secret,previous_webhook_secret,hash}'::text[]) as m
$$;

-- The secrets and large texts of a row that an update has changed, by name.
create function changed_secrets(p_old jsonb, p_new jsonb) returns jsonb language sql immutable as $$
  select coalesce(jsonb_object_agg(name, 'changed'), '{}')
  from unnest('{credentials,webhook_secret,previous_webhook_secret}'::text[]) as name
  where p_old -> name is distinct from p_new -> name
$$;

-- Writes the audit event of a row: `<noun>.<verb>`, with the members that were changed. Arguments: the noun, and the column that
-- names the object, if there are several. A row that ends (archived, revoked, retired) is its noun's end, not a change.
create function record_change() returns trigger language plpgsql as $$
declare
  v_old jsonb := case when tg_op <> 'INSERT' then to_jsonb(old) end;
  v_new jsonb := case when tg_op <> 'DELETE' then to_jsonb(new) end;
  v_row jsonb := coalesce(v_new, v_old);
  v_before jsonb := shown_row(v_old);
  v_after jsonb := shown_row(v_new) || changed_secrets(coalesce(v_old, '{}'), coalesce(v_new, '{}'));
  v_ended constant text[] := '{archived_at,revoked_at,retired_at}';
  v_verb text := case tg_op when 'INSERT' then 'created' when 'DELETE' then 'ended' else 'changed' end;
begin
  if tg_op = 'UPDATE' then
    select coalesce(jsonb_object_agg(m.key, m.value), '{}') into v_before from jsonb_each(v_before) as m
    where v_after -> m.key is distinct from m.value;
    select coalesce(jsonb_object_agg(m.key, m.value), '{}') into v_after from jsonb_each(v_after) as m
    where shown_row(v_old) -> m.key is distinct from m.value;
    if v_before = '{}' and v_after = '{}' then
      return null;
    end if;
    if exists (select 1 from unnest(v_ended) as name where v_old ->> name is null and v_new ->> name is not null) then
      v_verb := 'ended';
    elsif exists (select 1 from unnest(v_ended) as name where v_old ->> name is not null and v_new ->> name is null) then
      v_verb := 'created';
    end if;
  end if;
  if tg_table_name = 'memberships' and v_verb = 'created' then
    v_after := v_after || (select jsonb_build_object('name', u.name, 'email', u.email, 'issuer', u.issuer, 'subject', u.subject)
      from users u where u.id = new.user_id);
  end if;
  insert into audit_events (org_id, actor, key_id, request_id, action, object_id, before, after)
  values (
    case tg_table_name
      when 'organizations' then v_row ->> 'id'
      when 'team_members' then (select t.org_id from teams t where t.id = v_row ->> 'team_id')
      when 'token_secrets' then (select t.org_id from tokens t where t.id = v_row ->> 'token_id')
      else v_row ->> 'org_id' end,
    acting(), nullif(current_setting('svc.key_id', true), ''), nullif(current_setting('svc.request_id', true), ''),
    tg_argv[0] || '.' || v_verb, coalesce(v_row ->> tg_argv[1], tg_argv[0]), v_before, v_after);
  return null;
end $$;

create trigger organizations_record after insert or update of name, currency, reserve_buffer_pct, low_balance_threshold_nanos,
  reservation_ttl_seconds, ticket_ttl_seconds, default_max_completion_tokens, manual_credit, wallet_user_topup_enabled, archived_at
on organizations for each row execute function record_change('organization', 'id');
create trigger memberships_record after insert or update or delete on memberships
for each row execute function record_change('member', 'user_id');
create trigger teams_record after insert or update or delete on teams for each row execute function record_change('team', 'id');
create trigger team_members_record after insert or update or delete on team_members
for each row execute function record_change('team_member', 'user_id');
create trigger agents_record after insert or update or delete on agents for each row execute function record_change('agent', 'id');
create trigger usage_constraints_record after insert or update or delete on usage_constraints
for each row execute function record_change('usage_constraint', 'id');
-- Spending and use move a key all the time: only its other columns are looked at. An expired key that gives its name to a new one
-- ended when it expired.
create trigger tokens_record after insert or update of name, scopes, user_id, team_id, agent_id, allowed_models,
  max_budget_nanos, created_by, expires_at, revoked_at
on tokens for each row when (new.revoked_at is null or new.revoked_at is distinct from new.expires_at)
execute function record_change('key', 'id');
create trigger tokens_gone after delete on tokens for each row execute function record_change('key', 'id');
-- A key's first value is its making.
create function record_rotation() returns trigger language plpgsql as $$
begin
  if exists (select 1 from token_secrets s where s.token_id = new.token_id and s.id <> new.id) then
    insert into audit_events (org_id, actor, key_id, request_id, action, object_id, after)
    select t.org_id, acting(), nullif(current_setting('svc.key_id', true), ''),
      nullif(current_setting('svc.request_id', true), ''), 'key.rotated', t.id,
      jsonb_build_object('name', t.name, 'prefix', new.prefix)
    from tokens t where t.id = new.token_id;
  end if;
  return null;
end $$;
create trigger token_secrets_record after insert on token_secrets for each row execute function record_rotation();
create trigger wallets_record after update of low_balance_threshold_nanos on wallets
for each row execute function record_change('wallet', 'id');
create trigger model_prices_record after insert or update or delete on model_prices
for each row execute function record_change('price', 'id');
create trigger exchange_rates_record after insert or update or delete on exchange_rates
for each row execute function record_change('exchange_rate', 'currency');
create trigger payment_settings_record after insert or update or delete on payment_settings
for each row execute function record_change('payment_settings', 'org_id');
create trigger payment_config_record after insert or update or delete on payment_config
for each row execute function record_change('payment_config', '');
create trigger payment_providers_record after insert or update or delete on payment_providers
for each row execute function record_change('payment_provider', 'name');
create trigger gateway_configs_record after insert or update or delete on gateway_configs
for each row execute function record_change('gateway_config', 'version');
