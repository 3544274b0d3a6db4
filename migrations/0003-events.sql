-- What happened (events), what should reach a workflow (outbox), and what was answered before (idempotency keys).

-- Partitioned by day. `created_at` is read from the time-ordered id, so that the pair is unique where the id is.
create table events (
  id text not null,
  created_at timestamptz not null,
  org_id text not null,
  type text not null,
  action text,
  agent_id text,
  request_id text,
  trace_label text,
  payload jsonb not null,
  -- Readers stay below the oldest open transaction, so that nothing committed late is skipped.
  transaction_id xid8 not null default pg_current_xact_id(),
  primary key (id, created_at)
) partition by range (created_at);
-- A missing partition never stops money.
create table events_default partition of events default;
create index events_org on events (org_id, id);
create index events_request on events (request_id) where request_id is not null;

create function id_time(p_id text) returns timestamptz language sql immutable as $$
  select to_timestamp(('x' || substr(split_part(p_id, '_', 2), 1, 12))::bit(48)::bigint / 1000.0)
$$;

-- A time as the wire has it: ISO 8601 in UTC, to the millisecond.
create function iso_time(p_time timestamptz) returns text language sql stable as $$
  select to_char(p_time at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')
$$;

create function append_event(p_org_id text, p_type text, p_payload jsonb) returns void language sql volatile as $$
  insert into events (id, created_at, org_id, type, agent_id, request_id, payload)
  select e.id, id_time(e.id), p_org_id, p_type, p_payload ->> 'agent_id', p_payload ->> 'request_id', p_payload
  from (select new_id('evt') as id) as e
$$;

-- Messages to workflows, written with the money that causes them and sent after the commit.
create table outbox (
  id bigint generated always as identity primary key,
  org_id text not null,
  workflow text not null,
  workflow_id text not null,
  signal text,
  input jsonb not null,
  created_at timestamptz not null default clock_timestamp(),
  next_at timestamptz not null default clock_timestamp(),
  attempts integer not null default 0,
  last_error text,
  -- After 20 tries a row is parked: kept and shown, no longer sent.
  parked_at timestamptz
);
create index outbox_due on outbox (next_at) where parked_at is null;

-- Writes one message and tells the dispatchers, who hear it when the transaction commits.
create function send_to_workflow(p_org_id text, p_workflow text, p_workflow_id text, p_signal text, p_input jsonb)
returns void language sql volatile as $$
  insert into outbox (org_id, workflow, workflow_id, signal, input)
  values (p_org_id, p_workflow, p_workflow_id, p_signal, p_input);
  select pg_notify('outbox', '');
$$;

create table idempotency_keys (
  org_id text,
  principal text not null,
  route text not null,
  key text not null,
  body_sha256 text not null,
  status integer,
  answer jsonb,
  created_at timestamptz not null default clock_timestamp(),
  unique nulls not distinct (org_id, principal, route, key)
);
create index idempotency_keys_age on idempotency_keys (created_at);
