-- Reading events in the order in which they became visible, and their daily partitions.

create index events_visible on events (org_id, transaction_id, id);

-- The day's partition, made beside the table and then attached: creating it as a partition would lock all events. What the
-- default partition holds of that day moves into it first. False where it was there already.
create function add_event_partition(p_day date) returns boolean language plpgsql
set lock_timeout = '200ms' as $$
declare
  v_name text := 'events_' || to_char(p_day, 'YYYYMMDD');
  v_from timestamptz := p_day::timestamp at time zone 'UTC';
  v_to timestamptz := (p_day + 1)::timestamp at time zone 'UTC';
begin
  if to_regclass(v_name) is not null then
    return false;
  end if;
  execute format('create table %I (like events including all)', v_name);
  execute format('with moved as (delete from events_default where created_at >= %L and created_at < %L returning *)
    insert into %I select * from moved', v_from, v_to, v_name);
  execute format('alter table events attach partition %I for values from (%L) to (%L)', v_name, v_from, v_to);
  return true;
end $$;

-- Takes the partition of a day that is past its time out of the table and drops it.
create function drop_event_partition(p_name text) returns void language plpgsql
set lock_timeout = '200ms' as $$
begin
  execute format('alter table events detach partition %I', p_name);
  execute format('drop table %I', p_name);
end $$;
