-- An audit event of a changed row reads the row that was once, and not once for each of its columns: a change of 1,700
-- prices took six seconds of it on a small machine.

-- Writes the audit event of a row: `<noun>.<verb>`, with the members that were changed. Arguments: the noun, and the column that
-- names the object, if there are several. A row that ends (archived, revoked, retired) is its noun's end, not a change.
create or replace function record_change() returns trigger language plpgsql as $$
declare
  v_old jsonb := case when tg_op <> 'INSERT' then to_jsonb(old) end;
  v_new jsonb := case when tg_op <> 'DELETE' then to_jsonb(new) end;
  v_row jsonb := coalesce(v_new, v_old);
  v_shown jsonb := shown_row(v_old);
  v_before jsonb := v_shown;
  v_after jsonb := shown_row(v_new) || changed_secrets(coalesce(v_old, '{}'), coalesce(v_new, '{}'));
  v_ended constant text[] := '{archived_at,revoked_at,retired_at}';
  v_verb text := case tg_op when 'INSERT' then 'created' when 'DELETE' then 'ended' else 'changed' end;
begin
  if tg_op = 'UPDATE' then
    select coalesce(jsonb_object_agg(m.key, m.value), '{}') into v_before from jsonb_each(v_before) as m
    where v_after -> m.key is distinct from m.value;
    select coalesce(jsonb_object_agg(m.key, m.value), '{}') into v_after from jsonb_each(v_after) as m
    where v_shown -> m.key is distinct from m.value;
    if v_before = '{}' and v_after = '{}' then
      return null;
    end if;
    if exists (select 1 from unnest(v_ended) as name where v_old ->> name is null and v_new ->> name is not null) then
      v_verb := 'ended';
    elsif exists (select 1 from unnest(v_ended) as name where v_old ->> name is not null and v_new ->> name is null) then
      v_verb := 'created';
    end if;
  elsif tg_op = 'INSERT' then
    v_before := replaced_version(tg_table_name, v_new);
  end if;
  if tg_table_name = 'memberships' and v_verb = 'created' then
    v_after := v_after || (select jsonb_build_object('name', u.name, 'email', u.email, 'issuer', u.issuer, 'subject', u.subject)
      from users u where u.id = new.user_id);
  elsif tg_table_name = 'team_members' and v_verb = 'changed' then
    v_after := v_after || jsonb_build_object('team_id', new.team_id);
  end if;
  perform write_audit_event(
    case tg_table_name
      when 'organizations' then v_row ->> 'id'
      when 'team_members' then (select t.org_id from teams t where t.id = v_row ->> 'team_id')
      else v_row ->> 'org_id' end,
    tg_argv[0] || '.' || v_verb, coalesce(v_row ->> tg_argv[1], tg_argv[0]), v_before, v_after);
  return null;
end $$;
