-- Whether a refund has been asked for at its provider: one of whose payment the provider knows nothing was made only if it was.
alter table payment_refunds add column asked_at timestamptz;
comment on column payment_refunds.asked_at is 'When the provider was first asked for it.';
-- Those of before may have been.
update payment_refunds set asked_at = updated_at where checks > 0;

-- Notes that a refund is about to be asked for at its provider; true if it was before.
create function ask_refund(p_refund_id text) returns boolean language plpgsql as $$
declare
  v_was_asked boolean;
begin
  select r.asked_at is not null into v_was_asked from payment_refunds r where r.id = p_refund_id for no key update;
  if not v_was_asked then
    update payment_refunds r set asked_at = clock_timestamp() where r.id = p_refund_id;
  end if;
  return v_was_asked;
end $$;

create or replace function request_refund(p_id text, p_reason text, p_by text, p_allow_negative boolean)
returns table(code text, refund_id text) language plpgsql as $$
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
    -- Asked for anew, into debt if need be, before it has left the wallet.
    update payment_refunds r set allow_negative = true
      where r.id = refund_id and p_allow_negative and not r.allow_negative and r.status = 'pending' and r.debited_at is null;
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

create trigger payment_refunds_changed after update of allow_negative on payment_refunds for each row
when (old.allow_negative is distinct from new.allow_negative)
execute function record_step('payment_refund.changed', 'id', 'status', 'allow_negative');
