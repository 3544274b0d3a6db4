-- The audit log says how a refund ended, also one that was refused: its first row, which says
-- `pending`, is never changed.

create trigger payment_refunds_succeeded after update of status on payment_refunds
for each row when (old.status = 'pending' and new.status = 'succeeded')
execute function record_step('payment_refund.succeeded', 'id', 'status', 'provider_refund_id');

create trigger payment_refunds_failed after update of status on payment_refunds
for each row when (old.status <> 'failed' and new.status = 'failed')
execute function record_step('payment_refund.failed', 'id', 'status', 'error_code',
  'error_message');
