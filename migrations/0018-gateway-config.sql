-- The configuration that gateways take from the control plane in place of their file, and what each of them runs.

create table gateway_configs (
  version bigint generated always as identity primary key,
  -- Any one is a whole configuration; the newest counts. Null: gateways go back to their own files.
  config jsonb,
  note text,
  created_by text not null,
  created_at timestamptz not null default clock_timestamp()
);

create table gateways (
  -- Made by the process when it starts.
  id text primary key,
  host text not null,
  software_version text,
  -- What it runs: of the control plane, or null for its own file.
  config_version bigint,
  -- Names the running configuration by its content, wherever it came from.
  config_hash text not null,
  -- The newest version that it refused, and why.
  refused_version bigint,
  error text,
  started_at timestamptz not null,
  seen_at timestamptz not null default clock_timestamp()
);
create index gateways_seen on gateways (seen_at);
