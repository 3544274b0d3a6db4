-- Audit events are written by one function, which alone knows who acts.

create function write_audit_event(p_org_id text, p_action text, p_object_id text, p_before jsonb, p_after jsonb) returns void
language sql as $$
  insert into audit_events (org_id, actor, key_id, request_id, action, object_id, before, after)
  values (p_org_id, acting(), nullif(current_setting('svc.key_id', true), ''), nullif(current_setting('svc.request_id', true), ''),
    p_action, p_object_id, p_before, p_after)
$$;

-- Writes the audit event of a row: `<noun>.<verb>`, with the members that were changed. Arguments: the noun, and the column that
-- names the object, if there are several. A row that ends (archived, revoked, retired) is its noun's end, not a change.
create or replace function record_change() returns trigger language plpgsql as $$
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
  perform write_audit_event(
    case tg_table_name
      when 'organizations' then v_row ->> 'id'
      when 'team_members' then (select t.org_id from teams t where t.id = v_row ->> 'team_id')
      else v_row ->> 'org_id' end,
    tg_argv[0] || '.' || v_verb, coalesce(v_row ->> tg_argv[1], tg_argv[0]), v_before, v_after);
  return null;
end $$;

-- A key's first value is its making.
create or replace function record_rotation() returns trigger language plpgsql as $$
begin
  perform write_audit_event(t.org_id, 'key.rotated', t.id, null, jsonb_build_object('name', t.name, 'prefix', new.prefix))
  from tokens t
  where t.id = new.token_id and exists (select 1 from token_secrets s where s.token_id = new.token_id and s.id <> new.id);
  return null;
end $$;

comment on function changed_secrets is 'The secrets of a row that an update has changed, by name.';
