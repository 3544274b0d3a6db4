-- Exports: a period of an organization, or of the platform, written into files. What a file holds is fixed as the export is
-- made, in one snapshot: a part that is written again is the same, byte for byte.

create table exports (
  id text primary key default new_id('exp'),
  -- Null: of all organizations.
  org_id text references organizations,
  kinds text[] not null check (cardinality(kinds) > 0),
  format text not null check (format in ('jsonl', 'csv', 'parquet')),
  -- The period, half open.
  from_time timestamptz not null,
  to_time timestamptz not null,
  target text not null default 'folder' check (target in ('folder', 's3')),
  -- The bucket of target s3.
  destination_id text references export_destinations,
  schedule_id text references export_schedules,
  status text not null default 'queued'
    check (status in ('queued', 'running', 'completed', 'failed', 'canceled', 'expired')),
  -- Of events and the audit log it holds what could be seen then.
  snapshot pg_snapshot not null,
  -- When its bounds were fixed.
  created_at timestamptz not null default clock_timestamp(),
  -- The person, or the key that stands for nobody; and the key, if there was one.
  created_by text not null,
  created_with text,
  started_at timestamptz,
  -- The last sign of life of its worker.
  progressed_at timestamptz,
  ended_at timestamptz,
  -- When its files are deleted; null until it is completed.
  expires_at timestamptz,
  -- When its files, whole or in part, were deleted.
  cleared_at timestamptz,
  -- When its files were last tried to be deleted: one store that refuses keeps no others waiting.
  clear_tried_at timestamptz,
  error_code text,
  error_message text,
  check (to_time > from_time and (target = 's3') = (destination_id is not null))
);
create index exports_org on exports (org_id, id desc);
create index exports_schedule on exports (schedule_id, id desc) where schedule_id is not null;
-- One at a time.
create unique index exports_running on exports (coalesce(org_id, '')) where status = 'running';
create index exports_unfinished on exports (status, id) where status in ('queued', 'running');
create index exports_to_clear on exports (id) where cleared_at is null and status in ('failed', 'canceled', 'expired');
create index exports_to_expire on exports (expires_at) where status = 'completed';

-- The files of an export, also those that are yet to be written. Number 0 is the manifest.
create table export_files (
  export_id text not null references exports,
  n integer not null,
  kind text not null,
  -- Null: of the whole period.
  day date,
  -- The rows so far; after `written_at` all of them. A part without rows has no file.
  rows bigint not null default 0,
  bytes bigint,
  sha256 text,
  first_id text,
  last_id text,
  -- [{currency, type, rows, amount_nanos}]
  sums jsonb,
  written_at timestamptz,
  primary key (export_id, n)
);

-- The entries of each wallet that belong to an export: those after `from_seq`, up to `to_seq`.
create table export_wallets (
  export_id text not null references exports,
  wallet_id text not null,
  org_id text not null,
  from_seq bigint not null,
  to_seq bigint not null,
  primary key (export_id, wallet_id)
);

-- Rows that go on changing, as they stood when the export was made; gone once it has ended.
create table export_rows (
  export_id text not null,
  kind text not null,
  day date not null,
  id text not null,
  row jsonb not null,
  primary key (export_id, kind, day, id)
);

-- What identifies the folder that the API and the workers share: the text of its marker file.
create table export_folder (
  is_one boolean primary key default true check (is_one),
  marker text not null
);

-- By it an export leaves out what is committed after its making. Events of before belong to this migration's transaction.
alter table audit_events add column transaction_id xid8 not null default pg_current_xact_id();

-- The number of a wallet's newest entry that was written before a moment, between two bounds. Entries of a wallet are written in
-- the order of their numbers; if a clock was set back, days still share their bounds, so that each entry is of one day.
create function seq_before(p_wallet_id text, p_time timestamptz, p_low bigint, p_high bigint) returns bigint
language plpgsql stable as $$
declare
  v_low bigint := p_low;
  v_high bigint := p_high;
  v_middle bigint;
begin
  while v_low < v_high loop
    v_middle := v_low + (v_high - v_low + 1) / 2;
    if (select t.created_at < p_time from wallet_transactions t where t.wallet_id = p_wallet_id and t.seq = v_middle) then
      v_low := v_middle;
    else
      v_high := v_middle - 1;
    end if;
  end loop;
  return v_low;
end $$;

-- Exports of one organization are moved one after the other.
create function lock_exports(p_org_id text) returns void language sql as $$
  select pg_advisory_xact_lock(hashtextextended('exports of ' || coalesce(p_org_id, ''), 0))
$$;

-- Starts the oldest export that waits, unless one runs; its id. The caller holds lock_exports.
create function start_next_export(p_org_id text) returns text language plpgsql as $$
declare
  v_id text;
begin
  update exports x set status = 'running', started_at = clock_timestamp(), progressed_at = clock_timestamp()
  where x.id = (select q.id from exports q where q.org_id is not distinct from p_org_id and q.status = 'queued' order by q.id limit 1)
    and not exists (select 1 from exports r where r.org_id is not distinct from p_org_id and r.status = 'running')
  returning x.id into v_id;
  if v_id is not null then
    perform send_to_workflow(coalesce(p_org_id, 'platform'), 'exportJob', v_id, null, jsonb_build_object('export_id', v_id));
  end if;
  return v_id;
end $$;
