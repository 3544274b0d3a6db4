-- Who there is: organizations with their wallet settings, people, teams and agents. Archived, never deleted.

-- A time-ordered id: prefix, 12 hex digits of milliseconds, 20 hex digits of which 74 bits are random.
-- One expression without a `from`, so that PostgreSQL inlines it: three are made per priced request.
create function new_id(p_prefix text) returns text language sql volatile as $$
  select p_prefix || '_' || lpad(to_hex((extract(epoch from clock_timestamp()) * 1000)::bigint), 12, '0')
    || substr(replace(gen_random_uuid()::text, '-', ''), 13)
$$;

create table organizations (
  id text primary key default new_id('org'),
  name text not null,
  currency text not null default 'USD',
  reserve_buffer_pct numeric not null default 0 check (reserve_buffer_pct >= 0 and reserve_buffer_pct <= 1000),
  low_balance_threshold_nanos bigint not null default 0,
  reservation_ttl_seconds integer not null default 900 check (reservation_ttl_seconds between 1 and 86400),
  ticket_ttl_seconds integer not null default 86400 check (ticket_ttl_seconds between 1 and 2592000),
  default_max_completion_tokens integer not null default 4096 check (default_max_completion_tokens > 0),
  manual_credit text not null default 'allowed' check (manual_credit in ('allowed', 'platform_only')),
  wallet_user_topup_enabled boolean not null default true,
  -- When the reservationLifetimes workflow looks at this organization's holds next; null where none runs.
  lifetimes_next_at timestamptz,
  created_at timestamptz not null default clock_timestamp(),
  archived_at timestamptz
);

create table users (
  id text primary key default new_id('user'),
  name text not null,
  email text,
  -- `iss` and `sub` of the JWT that stands for this person.
  issuer text,
  subject text,
  created_at timestamptz not null default clock_timestamp(),
  unique (issuer, subject)
);

create table memberships (
  org_id text not null references organizations,
  user_id text not null references users,
  role text not null check (role in ('owner', 'admin', 'billing_admin', 'member')),
  created_at timestamptz not null default clock_timestamp(),
  archived_at timestamptz,
  primary key (org_id, user_id)
);
create index memberships_user on memberships (user_id) where archived_at is null;

create table teams (
  id text primary key default new_id('team'),
  org_id text not null references organizations,
  name text not null,
  created_at timestamptz not null default clock_timestamp(),
  archived_at timestamptz
);
create unique index teams_name on teams (org_id, name) where archived_at is null;

create table team_members (
  team_id text not null references teams,
  user_id text not null references users,
  created_at timestamptz not null default clock_timestamp(),
  primary key (team_id, user_id)
);
create index team_members_user on team_members (user_id);

create table agents (
  id text primary key default new_id('agent'),
  org_id text not null references organizations,
  name text not null,
  created_at timestamptz not null default clock_timestamp(),
  archived_at timestamptz
);
create unique index agents_name on agents (org_id, name) where archived_at is null;
