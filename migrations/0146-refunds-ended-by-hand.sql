-- A refund whose provider says nothing more of it, as its account is another one by now, stayed pending for good.
alter table payment_refunds add column ended_by text, add column end_note text;
comment on column payment_refunds.ended_by is 'The operator who said how it ended; null if the provider did.';
comment on column payment_refunds.end_note is 'Why, in the operator''s words.';

create trigger payment_refunds_ended after update of ended_by on payment_refunds for each row
when (old.ended_by is null and new.ended_by is not null)
execute function record_step('payment_refund.ended', 'id', 'status', 'ended_by', 'end_note');
