-- Configurations that reach the gateways of a group in stages, and what each gateway reports of its work meanwhile.

alter table gateway_configs
  -- Names it by its content, as gateways do; null for versions of before 1.5, and where there is none.
  add column config_hash text,
  -- What it changes of the version before, the first 200 places: [{path, before, after}].
  add column changes jsonb,
  add column change_count integer,
  -- Gateways get it by rollouts only. Any other version is for all of them at once.
  add column is_staged boolean not null default false;

alter table gateways
  -- Null: of the version before, which belongs to `default` and is in no rollout.
  add column group_name text,
  add column is_draining boolean not null default false,
  -- Calls under way, and those of them that wait for money.
  add column in_flight integer not null default 0,
  add column held integer not null default 0,
  -- Of the calls that began with the configuration that it runs, since it took that up.
  add column counts jsonb,
  -- When its silence was told of.
  add column silent_at timestamptz;
create index gateways_group on gateways (group_name, seen_at);

-- The version that a group runs since a rollout ended there. A version for all that was made after `as_of_version` wins.
create table gateway_groups (
  name text primary key,
  version bigint not null references gateway_configs (version) on delete cascade,
  -- The newest version of then.
  as_of_version bigint not null,
  changed_at timestamptz not null default clock_timestamp()
);

create table config_rollouts (
  id text primary key,
  group_name text not null,
  version bigint not null references gateway_configs (version) on delete cascade,
  -- What the group ran before, to which moved gateways return; null: their own files.
  from_version bigint,
  -- The newest version of then: a later one for all supersedes this rollout.
  as_of_version bigint not null,
  -- [1, "25%", "100%"]
  stages jsonb not null,
  soak_s integer not null,
  max_wait_s integer not null,
  apply_s integer not null,
  max_error_ratio double precision not null,
  status text not null default 'running'
    check (status in ('running', 'paused', 'completed', 'rolled_back', 'aborted', 'superseded')),
  -- Why it is paused, or how it ended, in words.
  reason_code text,
  reason text,
  -- Counts from 1; 0 before the first.
  stage integer not null default 0,
  -- All are to be moved at once, without soak and gate.
  is_promoted boolean not null default false,
  stage_began_at timestamptz,
  -- When all gateways that were moved had taken it up; null until then.
  applied_at timestamptz,
  -- Per gateway, its counts as the stage began.
  baselines jsonb not null default '{}',
  -- How the gateways that were not moved did in the last window in which there were some.
  control jsonb,
  -- Since when reports arrive without a gap, as far as the steps have seen.
  reports_since timestamptz,
  stepped_at timestamptz,
  -- When its workflow was last asked for because no step had been taken for long.
  adopted_at timestamptz,
  note text,
  created_by text not null,
  created_at timestamptz not null default clock_timestamp(),
  ended_at timestamptz
);
-- One at a time a group.
create unique index config_rollouts_active on config_rollouts (group_name) where status in ('running', 'paused');
create index config_rollouts_created on config_rollouts (created_at);

-- The gateways that a rollout has moved. They run its version while it is active; when it ends otherwise than completed, they
-- return to their group's, all in that one step.
create table config_rollout_gateways (
  rollout_id text not null references config_rollouts (id) on delete cascade,
  gateway_id text not null,
  host text not null,
  stage integer not null,
  moved_at timestamptz not null default clock_timestamp(),
  primary key (rollout_id, gateway_id)
);

-- What gateways are to run may have changed: APIs whose gateways wait for that look.
create function notify_configs() returns trigger language plpgsql as $$
begin
  perform pg_notify('configs', '');
  return null;
end $$;

create trigger gateway_configs_notify after insert or delete on gateway_configs
for each statement execute function notify_configs();
create trigger gateway_groups_notify after insert or update or delete on gateway_groups
for each statement execute function notify_configs();
create trigger config_rollouts_notify after insert or update of status or delete on config_rollouts
for each statement execute function notify_configs();
create trigger config_rollout_gateways_notify after insert or delete on config_rollout_gateways
for each statement execute function notify_configs();

-- A row as an audit event shows it: money is decimal text, as in events; what changes by itself, what is secret, and what
-- configurations hold are left out.
create or replace function shown_row(p_row jsonb) returns jsonb language sql immutable as $$
  select jsonb_object_agg(m.key, case
    when m.key not like '%\_nanos' or m.value = 'null' then m.value
    when jsonb_typeof(m.value) = 'array' then (select coalesce(jsonb_agg(a #>> '{}'), '[]') from jsonb_array_elements(m.value) as a)
    else to_jsonb(m.value #>> '{}') end)
  from jsonb_each(p_row - '{updated_at,last_used_at,spent_nanos,held_nanos,balance_nanos,reserved_nanos,seq,lifetimes_next_at,
    counted_from,config,changes,credentials,webhook_secret,previous_webhook_secret,hash}'::text[]) as m
$$;
