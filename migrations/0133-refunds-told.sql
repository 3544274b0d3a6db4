-- Brings the wallet to what refunds and disputes have taken. What went back is in what was captured; the wallet gives the same
-- share of what was credited, never more. Run any number of times it changes what changed. `p_cause` is the refund or dispute.
-- Of a refund of ours that leaves the wallet nothing is told here: its provider is asked for it next, and what is answered to that is told.
create or replace function bring_debit(s payment_sessions, p_cause text) returns payment_sessions language plpgsql as $$
declare
  -- With the buyer already, or withheld by a dispute.
  v_returned numeric := payment_loss(s, true);
  v_target bigint := share_of_credit(s, payment_loss(s, false));
  v_entry wallet_transactions;
  v_before bigint := s.debited_nanos;
  v_is_dispute boolean := s.disputes @> jsonb_build_array(jsonb_build_object('id', p_cause));
  v_is_unasked boolean := exists (select 1 from payment_refunds o where o.id = p_cause and o.checks = 0)
    and not s.refunds @> jsonb_build_array(jsonb_build_object('payment_refund_id', p_cause));
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
  elsif v_target > v_before and not v_is_unasked then
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
