-- Object stores that exports are written to: a bucket of an organization, or of the platform, with credentials of its own.

create table export_destinations (
  id text primary key,
  -- Null: the platform's.
  org_id text references organizations,
  -- An origin, which the operator has listed. It is never changed: another one is another destination, with credentials of its own.
  endpoint text not null,
  region text not null,
  bucket text not null,
  -- Ciphertext by name, bound to this row (domain/secrets.ts).
  credentials jsonb not null,
  created_by text not null,
  created_at timestamptz not null default clock_timestamp(),
  -- No new export goes there; those that did are still read and deleted.
  archived_at timestamptz
);
create index export_destinations_org on export_destinations (org_id, id desc);

create trigger export_destinations_record after insert or delete or update on export_destinations for each row
execute function record_change('export_destination', 'id');
