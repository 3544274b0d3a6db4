-- Audit events of money by hand, verdicts, payments, refunds and exports; sealed members by `changed: true` alone; of a new version
-- also what it replaces. A call, and what a rule approves for it, writes none.

-- A row as an audit event shows it: money is decimal text, as in events; what changes by itself and what is secret are left out.
create or replace function shown_row(p_row jsonb) returns jsonb language sql immutable as $$
  select jsonb_object_agg(m.key, case
    when m.key not like '%\_nanos' or m.value = 'null' then m.value
    when jsonb_typeof(m.value) = 'array' then (select coalesce(jsonb_agg(a #>> '{}'), '[]') from jsonb_array_elements(m.value) as a)
    else to_jsonb(m.value #>> '{}') end)
  from jsonb_each(p_row - '{updated_at,last_used_at,spent_nanos,held_nanos,balance_nanos,reserved_nanos,seq,lifetimes_next_at,
    counted_from,config,changes,credentials,webhook_secret,previous_webhook_secret,hash,url,warns_at_nanos,emits_at_nanos,emitted_pct,
    past_until,approved_nanos,approvals,day_ends_at}'::text[]) as m
$$;

-- The sealed members of a row that a change has touched, by name: `{"credentials": {"changed": true}}`. A webhook's address is one.
create or replace function changed_secrets(p_old jsonb, p_new jsonb) returns jsonb language sql immutable as $$
  select coalesce(jsonb_object_agg(m.name, jsonb_build_object('changed', true)), '{}')
  from (
    select name, case when p_old -> name not in ('null', '{}') then p_old -> name end as was,
      case when p_new -> name not in ('null', '{}') then p_new -> name end as is_now
    from unnest('{credentials,webhook_secret,previous_webhook_secret,url}'::text[]) as name
  ) as m
  where m.was is distinct from m.is_now
$$;
comment on function changed_secrets is 'The sealed members of a row that a change has touched, by name: `{"credentials": {"changed": true}}`. A webhook''s address is one.';

-- What a new version takes the place of, as an audit event shows it; null for the first.
create function replaced_version(p_table text, p_row jsonb) returns jsonb language plpgsql stable as $$
begin
  if p_table = 'model_prices' then
    return (select shown_row(to_jsonb(p)) from model_prices p
      where p.id = p_row ->> 'id' and p.version_id <> p_row ->> 'version_id' order by p.version_id desc limit 1);
  elsif p_table = 'gateway_configs' then
    return (select jsonb_build_object('version', c.version, 'config_hash', c.config_hash, 'is_staged', c.is_staged)
      from gateway_configs c where c.version < (p_row ->> 'version')::bigint order by c.version desc limit 1);
  end if;
  return null;
end $$;

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

-- A key's new value: of both only the beginning is told, which people know them by.
create or replace function record_rotation() returns trigger language plpgsql as $$
begin
  perform write_audit_event(t.org_id, 'key.rotated', t.id, jsonb_build_object('prefix', (select s.prefix from token_secrets s
      where s.token_id = new.token_id and s.id <> new.id order by s.id desc limit 1)),
    jsonb_build_object('name', t.name, 'prefix', new.prefix, 'value', jsonb_build_object('changed', true)))
  from tokens t
  where t.id = new.token_id and exists (select 1 from token_secrets s where s.token_id = new.token_id and s.id <> new.id);
  return null;
end $$;

-- Writes the audit event of one step of a row that lives on. Arguments: the action, the column that names the object, and the
-- columns that are shown.
create function record_step() returns trigger language plpgsql as $$
declare
  v_names constant text[] := tg_argv[2:];
  v_new constant jsonb := to_jsonb(new);
  v_before jsonb;
begin
  if tg_op = 'UPDATE' then
    select jsonb_object_agg(m.key, m.value) into v_before from jsonb_each(shown_row(to_jsonb(old))) as m where m.key = any(v_names);
  end if;
  perform write_audit_event(v_new ->> 'org_id', tg_argv[0], v_new ->> tg_argv[1], v_before,
    (select jsonb_object_agg(m.key, m.value) from jsonb_each(shown_row(v_new)) as m where m.key = any(v_names)));
  return null;
end $$;

-- Writes the audit event of money that came into a wallet by hand or by a payment, or that a refund took.
create function record_entry() returns trigger language plpgsql as $$
declare
  w wallets;
begin
  select * into w from wallets q where q.id = new.wallet_id;
  perform write_audit_event(new.org_id,
    case new.type when 'credit' then 'wallet.credited' when 'payment_credit' then 'payment.credited'
      else case when new.amount_nanos < 0 then 'payment.debited' else 'payment.returned' end end,
    case new.type when 'credit' then w.id else coalesce(new.payment_session_id, w.id) end,
    jsonb_build_object('balance_nanos', (new.balance_after_nanos - new.amount_nanos)::text),
    jsonb_strip_nulls(jsonb_build_object('balance_nanos', new.balance_after_nanos::text, 'amount_nanos', new.amount_nanos::text,
      'currency', w.currency, 'wallet_id', w.id, 'owner_type', w.owner_type, 'owner_id', coalesce(w.owner_team_id, w.owner_user_id),
      'transaction_id', new.id, 'description', new.description)));
  return null;
end $$;

-- Writes the audit event of a transfer, once for both of its entries: of the wallet that is not the organization's.
create function record_transfer(p_out wallet_transactions, p_in wallet_transactions) returns void language plpgsql as $$
declare
  v_from wallets;
  v_to wallets;
  v_is_reclaim boolean;
begin
  select * into v_from from wallets q where q.id = p_out.wallet_id;
  select * into v_to from wallets q where q.id = p_in.wallet_id;
  v_is_reclaim := v_to.owner_type = 'organization';
  perform write_audit_event(p_in.org_id, case when v_is_reclaim then 'wallet.reclaimed' else 'wallet.allocated' end,
    case when v_is_reclaim then v_from.id else v_to.id end,
    jsonb_build_object('from_balance_nanos', (p_out.balance_after_nanos - p_out.amount_nanos)::text,
      'to_balance_nanos', (p_in.balance_after_nanos - p_in.amount_nanos)::text),
    jsonb_strip_nulls(jsonb_build_object('from_balance_nanos', p_out.balance_after_nanos::text,
      'to_balance_nanos', p_in.balance_after_nanos::text, 'amount_nanos', p_in.amount_nanos::text, 'currency', v_to.currency,
      'from_wallet_id', v_from.id, 'to_wallet_id', v_to.id, 'transfer_id', p_in.transfer_id, 'description', p_in.description)));
end $$;

-- Moves money between two wallets of one organization. Invariant: the two entries of a transfer sum to zero.
-- No row if the giving wallet does not cover the amount. What a rule moves for a call leaves no audit event.
create or replace function transfer(p_org_id text, p_from text, p_to text, p_amount_nanos bigint, p_note text)
returns setof wallet_transactions language plpgsql
set enable_seqscan = off set enable_material = off set plan_cache_mode = force_generic_plan as $$
declare
  v_transfer text := new_id('xfer');
  v_entries wallet_transactions[];
begin
  perform lock_organization(p_org_id);
  if (select w.balance_nanos from wallets w where w.id = p_from) < p_amount_nanos then
    return;
  end if;
  v_entries := array(select e from post_entries(p_org_id, array[
    (p_from, 'allocation_out', -p_amount_nanos, 0, null, null, null, null, null, v_transfer, null, p_note)::ledger_entry,
    (p_to, 'allocation_in', p_amount_nanos, 0, null, null, null, null, null, v_transfer, null, p_note)::ledger_entry]) as e);
  if coalesce(acting(), '') not like 'rule\_%' then
    perform record_transfer(v_entries[1], v_entries[2]);
  end if;
  return query select * from unnest(v_entries);
end $$;

create trigger wallet_transactions_record after insert on wallet_transactions for each row
when (new.type in ('payment_credit', 'payment_refund', 'credit')) execute function record_entry();
create trigger settlement_excess_charged after update of status on settlement_excess for each row
when (old.status = 'open' and new.status = 'charged')
execute function record_step('settlement_excess.charged', 'id', 'status', 'excess_nanos', 'currency', 'wallet_id', 'note', 'transaction_id');
create trigger settlement_excess_dropped after update of status on settlement_excess for each row
when (old.status = 'open' and new.status = 'dropped')
execute function record_step('settlement_excess.dropped', 'id', 'status', 'excess_nanos', 'currency', 'wallet_id', 'note');
create trigger cost_tickets_approved after update of status on cost_tickets for each row
when (old.status = 'open' and new.status = 'approved' and new.decided_by is not null and new.decided_by <> 'rule')
execute function record_step('cost_ticket.approved', 'id', 'status', 'credited_nanos', 'currency', 'transaction_id', 'reservation_id', 'note');
create trigger cost_tickets_denied after update of status on cost_tickets for each row
when (old.status = 'open' and new.status = 'denied' and new.decided_by is not null)
execute function record_step('cost_ticket.denied', 'id', 'status', 'note');
create trigger budget_raises_record after insert on budget_raises for each row when (new.decided_by <> 'rule')
execute function record_step('budget.raised', 'budget_id', 'window_starts_at', 'budget_window', 'amount_nanos', 'cost_ticket_id');
create trigger payment_sessions_created after insert on payment_sessions for each row
execute function record_step('payment.created', 'id', 'status', 'provider', 'surface', 'amount_nanos', 'currency', 'wallet_id', 'user_id');
create trigger payment_sessions_canceled after update of status on payment_sessions for each row
when (old.status <> new.status and new.status = 'canceled')
execute function record_step('payment.canceled', 'id', 'status');
create trigger payment_sessions_resolved after update of resolution on payment_sessions for each row
when (old.resolution is distinct from new.resolution)
execute function record_step('payment.resolved', 'id', 'status', 'error_code', 'resolution', 'resolution_note');
create trigger payment_refunds_record after insert on payment_refunds for each row
execute function record_step('payment_refund.created', 'id', 'payment_session_id', 'status', 'amount_nanos', 'currency', 'reason', 'allow_negative');
create trigger exports_created after insert on exports for each row when (new.schedule_id is null)
execute function record_step('export.created', 'id', 'status', 'kinds', 'format', 'from_time', 'to_time', 'target', 'destination_id');
create trigger exports_canceled after update of status on exports for each row
when (old.status <> new.status and new.status = 'canceled')
execute function record_step('export.canceled', 'id', 'status');
