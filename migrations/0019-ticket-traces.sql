-- A cost ticket keeps the trace of the call that opened it, so that its workflow joins that trace. It stands beside the stored
-- reserve, not in it: a reserve's digest tells repeats apart, and a repeat may come in another trace.
alter table cost_tickets add column trace jsonb;

-- The caller of a lane says in the setting svc.traces, for its transaction alone, which request came in which trace.
create function keep_ticket_trace() returns trigger language plpgsql as $$
begin
  new.trace := nullif(current_setting('svc.traces', true), '')::jsonb -> (new.reserve ->> 'request_id');
  return new;
end $$;

create trigger keep_ticket_trace before insert on cost_tickets for each row execute function keep_ticket_trace();
