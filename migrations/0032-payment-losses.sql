-- One loss is one loss, in whatever lists and order the provider tells it, and `refunded` is what the provider has done, not what it
-- has only taken on.

-- What refunds and disputes have taken of a capture: each refund once, by the provider's id or by ours, and of each open or lost
-- dispute what the refunds that it names do not cover. Our own refunds count from their debit on, also where no list shows them
-- yet. `p_is_done`: only refunds that have succeeded. A refund that two disputes name covers the first.
create function payment_loss(s payment_sessions, p_is_done boolean) returns numeric language sql stable as $$
  with own as (
    select o.id, o.provider_refund_id, o.status = 'succeeded' as is_done,
      case when o.status in ('pending', 'succeeded') and o.debited_at is not null then o.amount_nanos end as amount_nanos
    from payment_refunds o where o.payment_session_id = s.id
  ), listed as (
    select distinct on (coalesce(c.value ->> 'provider_refund_id', c.ordinality::text))
      c.value ->> 'provider_refund_id' as provider_refund_id, o.id as own_id,
      greatest(case when c.value ->> 'status' <> 'failed' then claim_amount(s, c.value) end, o.amount_nanos) as amount_nanos,
      c.value ->> 'status' = 'succeeded' or coalesce(o.is_done, false) as is_done
    from jsonb_array_elements(s.refunds) with ordinality as c
    left join lateral (select q.* from own q
      where q.id = c.value ->> 'payment_refund_id' or q.provider_refund_id = c.value ->> 'provider_refund_id' limit 1) as o on true
    order by coalesce(c.value ->> 'provider_refund_id', c.ordinality::text), c.ordinality desc
  ), refund as (
    select l.provider_refund_id, l.amount_nanos from listed l where l.is_done or not p_is_done
    union all
    select o.provider_refund_id, o.amount_nanos from own o
    where (o.is_done or not p_is_done) and not exists (select 1 from listed l where l.own_id = o.id)
  ), dispute as (
    select distinct on (d ->> 'id') d ->> 'id' as id, claim_amount(s, d) as amount_nanos, coalesce(d -> 'refund_ids', '[]') as refund_ids
    from jsonb_array_elements(s.disputes) as d where d ->> 'status' in ('open', 'lost') order by d ->> 'id'
  )
  select coalesce((select sum(r.amount_nanos) from refund r), 0) + coalesce((select sum(greatest(0, d.amount_nanos - coalesce((
      select sum(r.amount_nanos) from refund r where d.refund_ids @> to_jsonb(r.provider_refund_id)
        and not exists (select 1 from dispute e where e.id < d.id and e.refund_ids @> to_jsonb(r.provider_refund_id))), 0))) from dispute d), 0)
$$;

-- Brings the wallet to what refunds and disputes have taken. What went back is in what was captured; the wallet gives the same
-- share of what was credited, never more. Run any number of times it changes what changed. `p_cause` is the refund or dispute.
create or replace function bring_debit(s payment_sessions, p_cause text) returns payment_sessions language plpgsql as $$
declare
  -- With the buyer already, or withheld by a dispute.
  v_returned numeric := payment_loss(s, true);
  v_target bigint := share_of_credit(s, payment_loss(s, false));
  v_entry wallet_transactions;
  v_before bigint := s.debited_nanos;
  v_is_dispute boolean := s.disputes @> jsonb_build_array(jsonb_build_object('id', p_cause));
  v_is_foreign boolean := exists (select 1 from jsonb_array_elements(s.refunds || s.disputes) as c
    where c ->> 'status' in ('pending', 'succeeded', 'open', 'lost')
      and not exists (select 1 from payment_refunds o where o.id = c ->> 'payment_refund_id'));
begin
  if v_target <> s.debited_nanos then
    select * into v_entry from post_entries(s.org_id, array[(s.wallet_id,
      case when v_target > s.debited_nanos then 'payment_refund' else 'payment_credit' end, s.debited_nanos - v_target, 0, null,
      null, null, null, null, null, s.id, case when v_target > s.debited_nanos then '' else 'reversed: ' end
        || case when p_cause like 'ref\_%' then 'refund ' when v_is_dispute then 'dispute at the provider '
          else 'refund at the provider ' end || coalesce(p_cause, ''))::ledger_entry]);
    insert into payment_entries (transaction_id, payment_session_id, amount_nanos, cause_id)
    values (v_entry.id, s.id, v_entry.amount_nanos, coalesce(p_cause, 'report'));
    update payment_sessions q set debited_nanos = v_target, updated_at = clock_timestamp() where q.id = s.id returning * into s;
  end if;
  -- Refunded is what the provider has done, to the last of it.
  if s.status = 'completed' and v_returned >= s.captured_nanos then
    s := move_payment(s.id, 'refunded');
    perform payment_event(s, 'payment.refunded', jsonb_build_object('refunded_amount_nanos', s.debited_nanos::text, 'cause', case when v_is_dispute then 'dispute' else 'refund' end, 'cause_id', p_cause));
  elsif s.status = 'refunded' and v_returned < s.captured_nanos then
    s := move_payment(s.id, 'completed');
    perform payment_event(s, 'payment.refunded', jsonb_build_object('refunded_amount_nanos', s.debited_nanos::text, 'cause', case when v_is_dispute then 'dispute' else 'refund' end, 'cause_id', p_cause,
      'reversed', true));
  elsif v_is_foreign and v_target > v_before then
    perform payment_event(s, 'payment.refunded', jsonb_build_object('refunded_amount_nanos', s.debited_nanos::text, 'cause', case when v_is_dispute then 'dispute' else 'refund' end, 'cause_id', p_cause));
  end if;
  -- An open dispute is looked at daily, whatever webhooks come.
  if s.status in ('completed', 'refunded') and s.disputes @> '[{"status": "open"}]' then
    update payment_sessions q set checks = 0,
      next_check_at = least(q.next_check_at, clock_timestamp() + payment_pause(q.status, 0))
    where q.id = s.id returning * into s;
  end if;
  return follow_mismatch(s, v_returned);
end $$;

-- The provider's newest list of refunds and disputes: our own refunds take their state from it, then the wallet follows. A refund
-- is ours by our id, or by the provider's where the list leaves ours out.
create or replace function note_claims(s payment_sessions, p_report jsonb, p_reading integer) returns payment_sessions language plpgsql as $$
declare
  v_cause text;
  -- A provider that may not be asked for disputes says nothing new of them.
  v_disputes jsonb := coalesce(nullif(p_report -> 'disputes', 'null'), s.disputes);
begin
  -- What is new or changed in the list names the cause.
  select c.id into v_cause from (
    select coalesce(r ->> 'payment_refund_id', r ->> 'provider_refund_id') as id, r as claim from jsonb_array_elements(p_report -> 'refunds') as r
    union all
    select d ->> 'id', d from jsonb_array_elements(v_disputes) as d
  ) as c where not s.refunds || s.disputes @> jsonb_build_array(c.claim) order by c.id limit 1;
  update payment_sessions q set refunds = p_report -> 'refunds', disputes = v_disputes, reading = p_reading,
    provider_called_at = null
  where q.id = s.id returning * into s;
  -- A refund that succeeded can only fail; an older list does not make it pending again.
  update payment_refunds o set status = r ->> 'status', provider_refund_id = coalesce(o.provider_refund_id, r ->> 'provider_refund_id'),
    updated_at = clock_timestamp(), next_check_at = null,
    error_code = case r ->> 'status' when 'failed' then 'provider_error' end,
    error_message = case r ->> 'status' when 'failed' then 'The provider could not carry out the refund.' end
  from jsonb_array_elements(p_report -> 'refunds') as r
  where (o.id = r ->> 'payment_refund_id' or o.provider_refund_id = r ->> 'provider_refund_id')
    and o.payment_session_id = s.id and r ->> 'status' <> 'pending'
    and (o.status = 'pending' or o.status = 'succeeded' and r ->> 'status' = 'failed');
  update payment_refunds o set provider_refund_id = r ->> 'provider_refund_id'
  from jsonb_array_elements(p_report -> 'refunds') as r
  where o.id = r ->> 'payment_refund_id' and o.payment_session_id = s.id and o.provider_refund_id is null;
  return bring_debit(s, v_cause);
end $$;

-- Asks for a refund of all that can still go back. Answers the one that is under way or done where there is one. Its
-- workflow takes the money from the wallet, then calls the provider.
create or replace function request_refund(p_id text, p_reason text, p_by text, p_allow_negative boolean)
returns table (code text, refund_id text) language plpgsql as $$
declare
  s payment_sessions;
  v_left numeric;
begin
  s := lock_payment(p_id);
  -- What is not lost yet, and not promised to a refund that has not left the wallet.
  v_left := s.captured_nanos - payment_loss(s, false) - (select coalesce(sum(r.amount_nanos), 0) from payment_refunds r
    where r.payment_session_id = p_id and r.status = 'pending' and r.debited_at is null);
  select r.id into refund_id from payment_refunds r where r.payment_session_id = p_id and r.status in ('pending', 'succeeded');
  if refund_id is not null then
    code := case when v_left > 0 then 'refunded_in_part' end;
    return next;
    return;
  end if;
  code := case
    when s.status in ('completed', 'captured') or s.status = 'failed' and s.error_code = 'amount_mismatch' and s.resolution is null then
      case when v_left <= 0 then 'nothing_to_refund' end
    when s.status = 'refunded' then 'nothing_to_refund'
    else 'payment_not_refundable' end;
  if code is null then
    insert into payment_refunds (org_id, payment_session_id, amount_nanos, currency, reason, requested_by, allow_negative)
    values (s.org_id, s.id, v_left, s.captured_currency, p_reason, p_by, p_allow_negative) returning id into refund_id;
    insert into outbox (org_id, workflow, workflow_id, input, next_at)
    values (s.org_id, 'paymentRefund', refund_id, jsonb_build_object('payment_refund_id', refund_id),
      clock_timestamp() + interval '5 seconds');
  end if;
  return next;
end $$;

-- An operator's decision about captured money of another amount or currency: credit it after all, or leave it as it is. A payment
-- that hangs while it is taken can be closed; money that comes all the same is credited.
create or replace function resolve_payment(p_id text, p_resolution text, p_amount_nanos bigint, p_by text, p_note text)
returns table (code text) language plpgsql as $$
declare
  s payment_sessions;
  v_is_hanging boolean;
begin
  s := lock_payment(p_id);
  v_is_hanging := s.status = 'capturing' and p_resolution = 'closed';
  code := case
    when v_is_hanging then null
    when s.resolution = p_resolution then 'repeated'
    when s.status <> 'failed' or s.error_code <> 'amount_mismatch' or s.resolution is not null then 'nothing_to_resolve'
    when exists (select 1 from payment_refunds r where r.payment_session_id = p_id and r.status in ('pending', 'succeeded'))
      then 'refund_under_way'
    when p_resolution = 'credited' and p_amount_nanos is null and s.captured_currency <> s.currency then 'amount_needed'
    when p_amount_nanos > s.captured_nanos and s.captured_currency = s.currency then 'amount_not_captured'
    end;
  if code is null then
    if v_is_hanging then
      perform close_payment(p_id, 'failed', 'provider_error',
        'The payment did not come to an end at the provider. If it was paid after all, it is credited.');
    end if;
    update payment_sessions q set resolution = p_resolution, resolved_by = p_by, resolution_note = p_note,
      updated_at = clock_timestamp() where q.id = p_id;
    if p_resolution = 'credited' then
      perform move_payment(p_id, 'captured');
      perform credit_payment(p_id, p_amount_nanos);
    end if;
  end if;
  return next;
end $$;
