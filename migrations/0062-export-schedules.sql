-- Exports that are made again for each day or month, once it is over and some time more has passed.

create table export_schedules (
  id text primary key default new_id('sched'),
  -- Null: of all organizations.
  org_id text references organizations,
  kinds text[] not null check (cardinality(kinds) > 0),
  format text not null check (format in ('jsonl', 'csv', 'parquet')),
  every text not null check (every in ('day', 'month')),
  -- A window is exported so long after its end.
  lag_minutes integer not null check (lag_minutes between 15 and 10080),
  destination_id text references export_destinations,
  -- The window that is exported next, or now. It moves on once its export is completed: one that failed is repeated.
  window_from timestamptz not null,
  -- Who made it, and with which key: it falls with their rights.
  created_by text not null,
  created_with text,
  created_at timestamptz not null default clock_timestamp(),
  archived_at timestamptz,
  -- Why it ended by itself.
  ended_reason text
);
create index export_schedules_org on export_schedules (org_id, id desc);

create trigger export_schedules_record after insert or delete or update of kinds, format, every, lag_minutes, destination_id, archived_at
on export_schedules for each row
execute function record_change('export_schedule', 'id');
