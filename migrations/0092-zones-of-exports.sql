-- A schedule's days and months are those of a time zone, so that a closing statement and what was spent are of one month.

alter table export_schedules add column time_zone text not null default 'UTC';
comment on column export_schedules.time_zone is 'An IANA name: its windows begin and end with days of this zone.';
