-- A schedule's days and months are those of a time zone, so that a closing statement and what was spent are of one month.

alter table export_schedules add column time_zone text not null default 'UTC';
comment on column export_schedules.time_zone is 'An IANA name: its windows begin and end with days of this zone.';

-- Where the window of a schedule ends: the next day or month of its zone.
create function export_window_end(p_every text, p_from timestamptz, p_time_zone text) returns timestamptz
language sql stable as $$
  select (date_trunc(p_every, p_from at time zone p_time_zone) + ('1 ' || p_every)::interval) at time zone p_time_zone
$$;

-- A worker of an older version adds days and months of UTC, whatever the schedule's zone. Its export is refused, and this version's
-- next run makes the right one.
create function require_window() returns trigger language plpgsql as $$
declare
  s export_schedules;
begin
  select * into s from export_schedules q where q.id = new.schedule_id;
  if new.from_time <> s.window_from or new.to_time <> export_window_end(s.every, s.window_from, s.time_zone) then
    raise exception 'The window of % in % is not % to %: update the workers that run schedules.', s.id, s.time_zone, new.from_time,
      new.to_time using errcode = 'check_violation';
  end if;
  return new;
end $$;

create trigger exports_window before insert on exports for each row when (new.schedule_id is not null) execute function require_window();
