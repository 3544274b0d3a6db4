-- The platform is told of workers: a queue that nobody polls, work that nobody takes, messages that were given up.

-- What is wrong with the workers, until it is well again, so that each is told of once.
create table worker_troubles (
  -- The type of its event and what it is about: `worker.missing export`.
  id text primary key,
  first_seen_at timestamptz not null default clock_timestamp(),
  told_at timestamptz,
  -- Up to where it was told of, if it can grow: the newest message that was given up.
  told_up_to timestamptz
);

-- When an API last asked how the workers are: one of them asks, for all.
create table worker_looks (
  is_one boolean primary key default true check (is_one),
  looked_at timestamptz not null
);
insert into worker_looks (looked_at) values ('-infinity');

-- The kind of notice that an event is; null if nobody is told of it.
create or replace function notice_kind(p_type text, p_payload jsonb) returns text language sql immutable as $$
  select case p_type
    when 'cost_ticket.created' then 'ticket_created'
    when 'cost_ticket.resolved' then 'ticket_resolved'
    when 'wallet.balance_low' then 'balance_low'
    when 'budget.threshold' then 'budget_threshold'
    when 'payment.completed' then 'payment'
    when 'payment.failed' then 'payment'
    when 'payment.refunded' then case p_payload ->> 'cause' when 'dispute' then 'dispute' else 'refund' end
    when 'key.expiring' then 'key_expiring'
    when 'gateway.config_rejected' then 'gateway_config_rejected'
    when 'gateway.silent' then 'gateway_silent'
    when 'audit.broken' then 'audit_broken'
    when 'worker.missing' then 'worker_missing'
    when 'worker.behind' then 'worker_behind'
    when 'outbox.parked' then 'outbox_parked' end
$$;

drop trigger events_tell on events;
create trigger events_tell after insert on events for each row
when (new.type in ('cost_ticket.created', 'cost_ticket.resolved', 'wallet.balance_low', 'budget.threshold', 'payment.completed',
  'payment.failed', 'payment.refunded', 'key.expiring', 'gateway.config_rejected', 'gateway.silent', 'audit.broken',
  'worker.missing', 'worker.behind', 'outbox.parked'))
execute function tell_destinations();
