-- Exports once a clock was set back, and what their schedules say.

-- Of a schedule: what its export before could see. Events of earlier times that it could not see belong to this one.
alter table exports add column events_after pg_snapshot;

alter table export_schedules
  -- Since when it makes no exports, as there is no room for one, and why.
  add column waiting_since timestamptz,
  add column waiting_reason text;

-- The entries of a wallet that come ahead of the first one that was written at a moment or later, between two bounds: the
-- number of the last of them. It does not depend on what is written later, so that the end of one period is the beginning of
-- the next. A clock that was set back gives entries earlier times than those before them; up to ten minutes are allowed for.
create or replace function seq_before(p_wallet_id text, p_time timestamptz, p_low bigint, p_high bigint) returns bigint
language plpgsql stable as $$
declare
  v_low bigint := p_low;
  v_high bigint := p_high;
  v_middle bigint;
  v_first bigint;
begin
  -- Up to an entry of ten minutes before, none can be of the moment or later.
  while v_low < v_high loop
    v_middle := v_low + (v_high - v_low + 1) / 2;
    if (select t.created_at < p_time - interval '10 minutes' from wallet_transactions t
        where t.wallet_id = p_wallet_id and t.seq = v_middle) then
      v_low := v_middle;
    else
      v_high := v_middle - 1;
    end if;
  end loop;
  select t.seq into v_first from wallet_transactions t
  where t.wallet_id = p_wallet_id and t.seq > v_low and t.seq <= p_high and t.created_at >= p_time order by t.seq limit 1;
  return coalesce(v_first - 1, p_high);
end $$;

-- One that is completed is deleted by hand: both change at once.
create trigger exports_deleted after update of status on exports for each row
when (old.status = 'completed' and new.status = 'expired' and old.expires_at is distinct from new.expires_at)
execute function record_step('export.deleted', 'id', 'status', 'expires_at');
